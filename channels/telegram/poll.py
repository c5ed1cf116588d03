"""Asking Telegram for updates, for ever: in one process of all, and confirming nothing that is not kept.

An update is confirmed by asking for the next, so a batch is handed on first, update by update, and what could not be
kept comes again. Whatever goes wrong is waited for, a little longer every time, and told by `troubles`.
"""

import json
from asyncio import timeout
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import anyio
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError, TimedOut

from channels.base import Lease, Trouble
from channels.telegram import wire
from channels.telegram.failures import by_webhook, seconds

if TYPE_CHECKING:
    from telegram.request import HTTPXRequest

_BATCH: Final = 100
_LATE: Final = 3
"""After how many polls' time without an answer it is worth telling."""

Take = Callable[[wire.Json], Awaitable[None]]

NOT_ACCEPTED: Final = Trouble(
    "Telegram does not accept the bot's token", "ask @BotFather for the token and put it into the environment"
)
WEBHOOK: Final = Trouble(
    "a webhook is set for this bot, so it cannot poll", "delete it with the Bot API's `deleteWebhook`"
)
_ANOTHER: Final = Trouble(
    "another program polls for this bot", "stop the other one, or revoke the token at @BotFather and use the new one"
)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things may take, in seconds.

    `poll` is how long Telegram keeps a poll open without news, and `call` how long any call may take besides that.
    `pause` is the first wait after a failure and `longest` the last, `readers` how long the readers of a chat are kept,
    `press` how long a button that was pressed shows that it waits. After `typing` it is shown again that the bot is
    typing, which Telegram shows for five seconds.
    """

    poll: float = 30.0
    call: float = 15.0
    pause: float = 1.0
    longest: float = 60.0
    readers: float = 30.0
    press: float = 1.5
    typing: float = 4.0


class Poll:
    """Polls under a lease. `url` is the Bot API's with the token, `request` belongs to the polls alone."""

    def __init__(self, url: str, request: "HTTPXRequest", lease: Lease, right: str, timing: Timing) -> None:
        self._url = url
        self._request = request
        self._lease = lease
        self._right = right
        self._timing = timing
        self._offset = 0
        self._answered: float | None = None
        self._problem: Trouble | None = None
        self.stalls = 0

    async def run(self, take: Take) -> None:
        """Hand on every update until cancelled; what `take` fails with is tried again."""
        while True:
            try:
                async with self._lease.hold(self._right) as held:
                    self._offset = 0
                    await self._while(held, take)
            except Exception:  # noqa: BLE001 - whatever keeps the lease has errors of its own, and heals by itself
                self._problem = Trouble("the right to poll for this bot cannot be had", "see whether the store answers")
            self._answered = None
            await anyio.sleep(self._timing.pause)

    def troubles(self) -> tuple[Trouble, ...]:
        """Tell what is wrong with polling now, and how old the last answer is if it is too old."""
        found = () if self._problem is None else (self._problem,)
        if self._answered is None:
            return found
        age = anyio.current_time() - self._answered
        if age < _LATE * (self._timing.poll + self._timing.call):
            return found
        return (*found, Trouble(f"the last poll was answered {age:.0f} s ago", "look at the network of this machine"))

    async def _while(self, held: Callable[[], bool], take: Take) -> None:
        failures = 0
        self._answered = anyio.current_time()
        while held():
            asked = 0.0
            try:
                if not await self._once(held, take):
                    return
                failures, self._problem = 0, None
                continue
            except (TelegramError, TimeoutError) as error:
                asked = await self._failed(error)
            except Exception:  # noqa: BLE001 - whoever keeps updates has errors of its own; Telegram tells it again
                self._problem = Trouble("an update could not be kept, and is asked for again", "look at the store")
            pause = min(self._timing.longest, self._timing.pause * 2.0**failures)
            failures = min(failures + 1, 30)
            await anyio.sleep(max(asked, pause))

    async def _once(self, held: Callable[[], bool], take: Take) -> bool:
        """Ask once and hand on what came; return whether the right is still held."""
        batch = await self._asked()
        for update in batch:
            if not held():
                return False
            await take(update)
            self._offset = update["update_id"] + 1
        if not batch:
            # After a quiet week numbers begin somewhere else, maybe below: what is confirmed need not be named again.
            self._offset = 0
        return True

    async def _asked(self) -> Sequence[wire.Json]:
        wanted: dict[str, str | float] = {"timeout": int(self._timing.poll), "limit": _BATCH}
        wanted |= {"allowed_updates": json.dumps(wire.UPDATES)} | ({"offset": self._offset} if self._offset else {})
        longest = self._timing.poll + self._timing.call
        # The library's timeouts are for each read: a connection that drips would never run into them.
        async with timeout(longest):
            found = await self._request.post(f"{self._url}/getUpdates?{urlencode(wanted)}", read_timeout=longest)
        self._answered = anyio.current_time()
        return found if isinstance(found, list) else []

    async def _failed(self, error: TelegramError | TimeoutError) -> float:
        """Note what is wrong, and return how long to wait at least."""
        match error:
            case Conflict():
                self._problem = WEBHOOK if by_webhook(error) else _ANOTHER
            case InvalidToken():
                self._problem = NOT_ACCEPTED
                return self._timing.longest
            case RetryAfter():
                self._problem = Trouble("Telegram asks to wait before the next poll")
                return seconds(error)
            case TimeoutError() | TimedOut():
                self.stalls += 1
                self._problem = Trouble("a poll got no answer and was begun anew", "look at the network")
                await self._rebuilt()
            case _:
                self._problem = Trouble("Telegram cannot be reached", "look at the network, it is tried again")
        return 0.0

    async def _rebuilt(self) -> None:
        """Begin with new connections, whatever the old ones hang on."""
        with anyio.move_on_after(self._timing.call):
            await self._request.shutdown()
        await self._request.initialize()
