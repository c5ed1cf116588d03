"""The Slack adapter with its platform played on loopback."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from channels.messages import Address, Event
from channels.slack.adapter import Slack
from channels.slack.transport import RequestEndpoint, SlackTiming
from tests.channels.contract import Kept, Leases, SharedChat, Stage
from tests.sim.slack import Slack as Server
from tests.sim.slack import slack
from tests.sim.slack_blocks import shown
from tests.sim.slack_state import Channel

FAST = SlackTiming(call=20, pause=0.01, longest=0.05, ping=20, quiet=60, readers=30, pace=0, sockets=1)
"""Quick, and patient where a wait that ends too early changes what happens: a machine may stall for seconds."""
COMMANDS = ("status", "approve", "stop", "help")


class SlackStage(Stage):
    """An adapter, and somebody with a private chat with its bot; `got` is what the adapter told."""

    finds = True

    def __init__(self, server: Server, **settings: Any) -> None:  # noqa: ANN401 - the arguments of the adapter
        self.server = server
        server.reach.within = 0.8
        self.vault = Kept()
        self.leases = Leases()
        self.skew = 0
        self.channel = self.adapter = self.another(**settings)
        self.alice = server.user("alice")
        self.home = at(self.alice.dm())
        self.nowhere = Address("slack", "C0NOWHERE", server.team.id)
        self.got: list[Event] = []
        self.refusals = 0
        self.pauses: list[float] = []

    def another(self, *, token: str = "", listen: str | RequestEndpoint = "", **settings: Any) -> Slack:  # noqa: ANN401
        more: dict[str, Any] = {"timing": FAST, "commands": COMMANDS, "vault": self.vault, "lease": self.leases}
        more |= settings
        more |= {"now_ms": lambda: int(1000 * (self.server.state.now() + self.skew))}
        return Slack(token or self.server.bot.value, listen or self.server.app_token, server=self.server.api, **more)

    def shown(self) -> str:
        channels = self.server.state.channels.values()
        texts = [shown(message.body) for channel in channels for message in channel.messages if not message.deleted]
        return "\n".join((*texts, *(file.data.decode() for file in self.server.state.uploads.values())))

    def vanish(self) -> None:
        self.server.fails(status=500, times=1_000)

    def refuse_files(self) -> None:
        self.server.fails("files.getUploadURLExternal", error="file_uploads_disabled", times=1_000)

    def lose_answer(self) -> bool:
        self.server.fails("chat.postMessage", cut="after")
        return True

    def shared_chat(self, count: int) -> SharedChat:
        people = (self.alice, *(self.server.user(f"member{number}") for number in range(1, count)))
        crew = self.server.channel("crew", *people)

        def public() -> str:
            return "\n".join(shown(message.body) for message in crew.messages if not message.shown_to)

        return SharedChat(at(crew), tuple(f"slack:{crew.team}:{one.id}" for one in people), public)

    async def receive(self, event: Event) -> None:
        if self.pauses:
            await anyio.sleep(self.pauses.pop(0))
        if self.refusals:
            self.refusals -= 1
            raise OSError("the store is away")
        self.got.append(event)

    @asynccontextmanager
    async def serving(self, count: int = 1) -> AsyncGenerator[None]:
        """Listen, with so many sockets open when this begins."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.adapter.serve, self.receive)
            with anyio.fail_after(60):
                await self.server.sockets.connected(count)
            yield
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def also(self, other: Slack) -> AsyncGenerator[None]:
        """Let another adapter listen beside this one, as another process does."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.serve, self.receive)
            with anyio.fail_after(60):
                await self.server.sockets.connected(2)
            yield
            tasks.cancel_scope.cancel()


def at(channel: Channel, thread: str = "", recipient: str = "") -> Address:
    """Return a channel's address; a private chat is named by whose it is."""
    return Address("slack", channel.members[0] if channel.kind == "im" else channel.id, channel.team, thread, recipient)


@asynccontextmanager
async def staged(**settings: Any) -> AsyncGenerator[SlackStage]:  # noqa: ANN401 - the arguments of the adapter
    """Play Slack with an adapter at it."""
    async with slack() as server:
        made = SlackStage(server, **settings)
        try:
            yield made
        finally:
            await made.adapter.close()
