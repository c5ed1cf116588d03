"""The Telegram adapter with its platform played on loopback."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from channels.base import Receive, VaultError
from channels.message import Address, Event
from channels.telegram.adapter import Telegram
from channels.telegram.poll import Timing
from tests.channels.contract import Stage
from tests.sim.telegram import Telegram as Server
from tests.sim.telegram import telegram
from tests.sim.telegram_state import Chat

FAST = Timing(poll=1, call=0.5, pause=0.01, longest=0.05, readers=30, press=0.1)


class Leases:
    """Rights that one holder of this loop has at a time; `lost` takes them away, `broken` refuses them."""

    def __init__(self) -> None:
        self.lost = False
        self.broken = False
        self.asked: list[str] = []
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[Callable[[], bool]]:
        self.asked.append(name)
        if self.broken:
            raise OSError("the store is away")
        async with self._locks[name]:
            yield lambda: not self.lost


class Values:
    """What adapters keep, for as long as this stands; `broken` refuses to read and write."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.broken = False

    async def get(self, name: str) -> bytes | None:
        self._check()
        return self.kept.get(name)

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:  # noqa: ARG002 - as the port
        self._check()
        self.kept[name] = value

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:  # noqa: ARG002 - as the port
        self._check()
        if self.kept.get(name) != old:
            return False
        if new is None:
            self.kept.pop(name, None)
        else:
            self.kept[name] = new
        return True

    async def delete(self, name: str) -> None:
        self._check()
        self.kept.pop(name, None)

    async def names(self, prefix: str) -> tuple[str, ...]:
        self._check()
        return tuple(sorted(name for name in self.kept if name.startswith(prefix)))

    def _check(self) -> None:
        if self.broken:
            raise VaultError("the store is away")


class TelegramStage(Stage):
    """An adapter, and somebody who has begun a chat with its bot; `got` is what the adapter told."""

    def __init__(self, server: Server, **settings: Any) -> None:  # noqa: ANN401 - the arguments of the adapter
        self.server = server
        self.leases = Leases()
        self.skew = 0
        self.vault = Values()
        self.channel = self.adapter = self.another(**settings)
        self.alice = server.user("Alice")
        self.home = at(self.alice.private)
        self.nowhere = Address("telegram", "-1009")
        self.got: list[Event] = []
        self.refusals = 0

    def another(self, *, token: str = "", leases: Leases | None = None, **settings: Any) -> Telegram:  # noqa: ANN401
        more: dict[str, Any] = {"timing": FAST, "now_ms": lambda: int(1000 * (time.time() + self.skew)), **settings}
        return Telegram(
            token or self.server.token,
            leases or self.leases,
            self.vault,
            server=f"http://127.0.0.1:{self.server.port}",
            **more,
        )

    def shown(self) -> str:
        texts = [text for chat in self.server.state.chats.values() for text in chat.said]
        return "\n".join((*texts, *(file.data.decode() for file in self.server.state.files.values())))

    def vanish(self) -> None:
        self.server.fails(times=1_000)

    async def receive(self, event: Event) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("the store is away")
        self.got.append(event)

    @asynccontextmanager
    async def serving(self, receive: Receive | None = None) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.adapter.serve, receive or self.receive)
            yield
            tasks.cancel_scope.cancel()


def at(chat: Chat, topic: int | None = None, recipient: int | None = None) -> Address:
    """Return a chat's address."""
    return Address("telegram", str(chat.id), thread=str(topic or ""), recipient=str(recipient or ""))


async def until(holds: Callable[[], Any], seconds: float = 8.0) -> None:
    """Wait until something holds."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - it is no event of anything
            await anyio.sleep(0.01)


@asynccontextmanager
async def staged(**settings: Any) -> AsyncGenerator[TelegramStage]:  # noqa: ANN401 - the arguments of the adapter
    """Play Telegram with an adapter at it."""
    async with telegram() as server:
        made = TelegramStage(server, **settings)
        try:
            yield made
        finally:
            await made.adapter.close()
