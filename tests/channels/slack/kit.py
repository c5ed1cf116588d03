"""The Slack adapter with its platform played on loopback."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from channels.message import Address, Event
from channels.slack.adapter import Slack
from channels.slack.timing import Timing
from tests.channels.contract import Stage
from tests.sim.slack import Slack as Server
from tests.sim.slack import slack
from tests.sim.slack_blocks import shown
from tests.sim.slack_state import Channel

FAST = Timing(call=0.5, pause=0.01, longest=0.05, ping=0.2, quiet=30, readers=30, sockets=1)
COMMANDS = ("status", "approve", "stop", "help")


class SlackStage(Stage):
    """An adapter, and somebody with a private chat with its bot; `got` is what the adapter told."""

    finds = True

    def __init__(self, server: Server, **settings: Any) -> None:  # noqa: ANN401 - the arguments of the adapter
        self.server = server
        server.reach.within = 0.3
        self.channel = self.adapter = self.another(**settings)
        self.alice = server.user("alice")
        self.home = at(self.alice.dm())
        self.nowhere = Address("slack", "C0NOWHERE", server.team.id)
        self.got: list[Event] = []
        self.refusals = 0

    def another(self, *, token: str = "", app_token: str = "", **settings: Any) -> Slack:  # noqa: ANN401
        more: dict[str, Any] = {"timing": FAST, "commands": COMMANDS, **settings}
        return Slack(token or self.server.bot.value, app_token or self.server.app_token, server=self.server.api, **more)

    def shown(self) -> str:
        channels = self.server.state.channels.values()
        texts = [shown(message.body) for channel in channels for message in channel.messages if not message.deleted]
        return "\n".join((*texts, *(file.data.decode() for file in self.server.state.uploads.values())))

    def vanish(self) -> None:
        self.server.fails(status=500, times=1_000)

    async def receive(self, event: Event) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("the store is away")
        self.got.append(event)

    @asynccontextmanager
    async def serving(self, count: int = 1) -> AsyncGenerator[None]:
        """Listen, with so many sockets open when this begins."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.adapter.serve, self.receive)
            with anyio.fail_after(8):
                await self.server.sockets.connected(count)
            yield
            tasks.cancel_scope.cancel()


def at(channel: Channel, thread: str = "", recipient: str = "") -> Address:
    """Return a channel's address."""
    return Address("slack", channel.id, channel.team, thread, recipient)


async def until(holds: Callable[[], Any], seconds: float = 8.0) -> None:
    """Wait until something holds."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - it is no event of anything
            await anyio.sleep(0.01)


@asynccontextmanager
async def staged(**settings: Any) -> AsyncGenerator[SlackStage]:  # noqa: ANN401 - the arguments of the adapter
    """Play Slack with an adapter at it."""
    async with slack() as server:
        made = SlackStage(server, **settings)
        try:
            yield made
        finally:
            await made.adapter.close()
