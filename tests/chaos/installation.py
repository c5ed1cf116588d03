"""An application with one worker, whose people write in a few chats of a platform that no fault hits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.app.app import App
from bot.app.opening import open_app
from bot.core.errors import StoreError
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import QueueMode
from bot.sessions.models import Status
from channels.messages import Address, Inbound
from tests.bot.kit import bang
from tests.chaos.platform_server import ACCOUNT, Platform, PlatformChannel, platform
from tests.chaos.storm_laws import Checked, checked
from tests.chaos.storm_plan import Input, Plan
from tests.chaos.worker import parts, settings, write_settings

CHATS: Final = range(4)
HEALED_SECONDS: Final = 60.0
_UNSAID: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})


@dataclass
class Installation:
    """An application with its worker and a store of its own, and a platform; `said` is what was accepted, in order."""

    app: App
    platform: Platform
    said: list[Input]

    async def say(self, chat: int, number: int) -> None:
        """Say something in a chat. Raises StoreError: it was not accepted."""
        name = f"answer-{chat}-{number};"
        # More than a page, so that a full disk has no room left for it in the last one of a file.
        one = Input(0, chat, number, bang("step", say=name, seconds=1.0) + "\n" + "x" * 8_000)
        inbound = Inbound(Address("console", f"c{chat}"), ACCOUNT, one.text, f"{chat}-{number}")
        await self.app.router.receive(inbound)
        self.said.append(one)
        if not number:
            await self.app.store.queue.set_mode(self.sid(chat), QueueMode.QUEUE, ())

    def sid(self, chat: int) -> str:
        """Return the session of a chat."""
        return self.app.session_id(Address("console", f"c{chat}"))

    async def running(self) -> None:
        """Wait until a turn of each chat runs."""
        async with asyncio.timeout(HEALED_SECONDS):
            for chat in CHATS:
                while not await self._runs(chat):  # noqa: ASYNC110 - the store tells nobody
                    await asyncio.sleep(0.01)

    async def _runs(self, chat: int) -> bool:
        state = await self.app.store.sessions.state(self.sid(chat))
        return state is not None and state.turn is not None

    async def healed(self) -> None:
        """Wait until nothing waits, runs or is still to be said."""
        async with asyncio.timeout(HEALED_SECONDS):
            while not await self._quiet():  # noqa: ASYNC110 - the store tells nobody
                await asyncio.sleep(0.1)

    async def checked(self) -> Checked:
        """Look whether every law of durability holds."""
        plan = Plan(tuple(self.said), (), frozenset(CHATS))
        return await checked(self.app, plan, {chat: self.sid(chat) for chat in CHATS}, self.platform.shown)

    async def _quiet(self) -> bool:
        try:
            for chat in CHATS:
                state = await self.app.store.sessions.state(self.sid(chat))
                if state is None or state.status is not Status.IDLE or state.waiting_items:
                    return False
                if any(one.state in _UNSAID for one in await self.app.store.outbox.deliveries(self.sid(chat))):
                    return False
        except StoreError:
            return False
        return True


@asynccontextmanager
async def installed(folder: Path, url: str = "") -> AsyncGenerator[Installation]:
    """Open it in a folder, on the store at an address or on one of its own."""
    await asyncio.to_thread(write_settings, folder)
    async with platform(folder / "platform") as told:
        config = await asyncio.to_thread(settings, folder, url)
        async with open_app(config, [PlatformChannel(told.path)], {}, parts()) as app:
            serving = asyncio.create_task(app.serve())
            try:
                yield Installation(app, told, [])
            finally:
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving
