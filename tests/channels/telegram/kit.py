"""The Telegram adapter with its platform played on loopback."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from channels.messages import Address, Event
from channels.port import Receive
from channels.telegram.adapter import Telegram
from channels.telegram.polling import TelegramTiming
from tests.channels.contract import Kept, Leases, SharedChat, Stage
from tests.sim.telegram import Telegram as Server
from tests.sim.telegram import telegram
from tests.sim.telegram_state import Chat

FAST = TelegramTiming(poll=1, call=20, pause=0.01, longest=0.05, readers=30, press=0.1, free=3)
"""Quick, and patient where a wait that ends too early changes what happens: a machine may stall for seconds."""


class TelegramStage(Stage):
    """An adapter, and somebody who has begun a chat with its bot; `got` is what the adapter told."""

    def __init__(self, server: Server, **settings: Any) -> None:  # noqa: ANN401 - the arguments of the adapter
        self.server = server
        self.leases = Leases()
        self.skew = 0
        self.vault = Kept()
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

    def refuse_files(self) -> None:
        told = "Bad Request: not enough rights to send documents to the chat"
        self.server.fails("sendDocument", status=400, told=told, times=1_000)

    def lose_answer(self) -> bool:
        self.server.loses("sendMessage")
        return True

    def shared_chat(self, count: int) -> SharedChat:
        people = (self.alice, *(self.server.user(f"Member{number}") for number in range(1, count)))
        group = self.server.group("Crew", *people)
        return SharedChat(at(group), tuple(f"telegram:{one.id}" for one in people), lambda: "\n".join(group.said))

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


@asynccontextmanager
async def staged(**settings: Any) -> AsyncGenerator[TelegramStage]:  # noqa: ANN401 - the arguments of the adapter
    """Play Telegram with an adapter at it."""
    async with telegram() as server:
        made = TelegramStage(server, **settings)
        try:
            yield made
        finally:
            await made.adapter.close()
