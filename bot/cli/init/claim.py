"""Who becomes the owner: only the account that sends, in a private chat, the code that the terminal shows.

No message counts that came before the code was shown. A code ends after a time and after too many wrong ones, and an
account that sends several wrong ones is not listened to any more. Nothing is answered: the terminal tells the outcome.
"""

import asyncio
import hmac
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from bot.core.clock import Clock
from bot.core.errors import OperatorError
from channels.messages import Address, Event, How, Inbound, Membership
from channels.port import ListenError, Platform

SECONDS: Final = 600.0
"""How long a code counts."""

WRONG_OF_ONE: Final = 5
"""Wrong codes after which an account is not listened to."""

WRONG_OF_ALL: Final = 50
"""Wrong codes of all accounts together after which the code ends."""

CONFIRMED: Final = 0.5
"""Seconds after the last message until listening ends, in which a platform learns that it was taken in."""


class Guess(StrEnum):
    """The outcome of a message: the code, a wrong one, or no code at all."""

    RIGHT = "right"
    WRONG = "wrong"
    NOTHING = "nothing"


class OneTimeCode:
    """A code that counts once; `clock` tells when its time is over."""

    def __init__(self, code: str, clock: Clock) -> None:
        self.code = code
        self._clock = clock
        self._until = clock.monotonic() + SECONDS
        self._wrong = Counter[str]()
        self._used = False

    @property
    def left(self) -> float:
        """Seconds for which it still counts."""
        if self._used or self._wrong.total() >= WRONG_OF_ALL:
            return 0.0
        return max(0.0, self._until - self._clock.monotonic())

    def guess(self, account: str, text: str) -> Guess:
        """Compare a text that an account sent with the code."""
        told = text.strip().replace("-", "").lower()
        if len(told) != len(self.code) or not told.isalnum() or not told.isascii():
            return Guess.NOTHING
        if not self.left or self._wrong[account] >= WRONG_OF_ONE:
            return Guess.NOTHING
        if hmac.compare_digest(told.encode(), self.code.encode()):
            self._used = True
            return Guess.RIGHT
        self._wrong[account] += 1
        return Guess.WRONG


class Meeting:
    """Listens to a platform for one person: who they are, and in which group they want the bot."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._code: OneTimeCode | None = None
        self._owners = frozenset[str]()
        self._found: asyncio.Queue[str] = asyncio.Queue()
        self._groups: asyncio.Queue[Address] = asyncio.Queue()

    @asynccontextmanager
    async def listening(self, adapter: Platform) -> AsyncGenerator[None]:
        """Listen while the block runs. Raises OperatorError: the platform cannot be listened to."""
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve(adapter))
            yield
            await asyncio.sleep(CONFIRMED)
            serving.cancel()

    async def _serve(self, adapter: Platform) -> None:
        try:
            await adapter.serve(self.receive)
        except ListenError as error:
            raise OperatorError(str(error), next_step=error.next_step) from None
        except OSError as error:
            reason = (error.strerror or "unknown error").lower()
            raise OperatorError(
                f"{adapter.name} cannot be listened to, {reason}", next_step="mend that, and run `lockgate init` again"
            ) from None

    async def owner(self, code: OneTimeCode) -> str:
        """Wait for the account that sends the code; empty when the code ends before."""
        self._code = code
        try:
            while left := code.left:
                try:
                    async with asyncio.timeout(min(left, 1.0)):
                        return await self._found.get()
                except TimeoutError:
                    continue
            return ""
        finally:
            self._code = None

    async def group(self, owners: frozenset[str]) -> Address:
        """Wait for a shared chat in which one of these accounts adds the bot, or addresses it."""
        self._owners = owners
        return await self._groups.get()

    async def receive(self, event: Event) -> None:
        """Take in an event of the platform; all others than those that are waited for are left out."""
        if isinstance(event, Inbound):
            await self._heard(event)
        elif isinstance(event, Membership) and event.own and event.joined and event.by in self._owners:
            await self._groups.put(event.address.place)

    async def _heard(self, message: Inbound) -> None:
        typed = message.authored and not message.bot and message.how is How.TEXT
        if not typed:
            return
        if not message.private:
            if message.addressed and message.account in self._owners:
                await self._groups.put(message.address.place)
            return
        match Guess.NOTHING if self._code is None else self._code.guess(message.account, message.text):
            case Guess.RIGHT:
                await self._found.put(message.account)
            case Guess.WRONG:
                self._tell(f"`{message.account}` wrote a wrong code.")
            case Guess.NOTHING:
                pass
