"""Asking Telegram for updates, for ever: in one process of all, and confirming nothing that is not kept.

An update is confirmed by asking for the next, so a batch is handed on first, all at once. Updates that could not be
kept come again without the kept ones. Every fault is waited for, a little longer every time, and reported by
`troubles`. A webhook that this bot set itself is taken off; one of another program is not, and is reported to owners.
"""

import json
import logging
from asyncio import timeout
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

import anyio
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError, TimedOut

from channels.port import Began, Lease, Trouble, VaultError, untold
from channels.telegram import updates
from channels.telegram.client import read
from channels.telegram.errors import by_webhook, seconds

if TYPE_CHECKING:
    from telegram.request import BaseRequest

_LOGGER: Final = logging.getLogger(__name__)
_BATCH: Final = 100
_LATE: Final = 3
"""After how many polls' time without an answer it is worth telling."""

Take = Callable[[updates.Json], Awaitable[None]]
Adopt = Callable[[Callable[[], bool]], Awaitable[None]]
"""Take in the updates that another process kept before, while the right to poll is held."""

SUBJECT: Final = f"channel {updates.NAME}"
"""The log's name for the subject of faults here."""

NOT_KEPT: Final = "an update could not be kept, it is told again"

NOT_ACCEPTED: Final = Trouble(
    "Telegram does not accept the bot's token", "type `/token` at @BotFather and put the token into the environment"
)
WEBHOOK: Final = Trouble(
    "a webhook is set for this bot, so it cannot poll",
    "type `lockgate doctor --fix` if it fails, else delete it with the Bot API's `deleteWebhook`",
)
_ANOTHER: Final = Trouble(
    "another program polls for this bot", "stop the other one, or revoke the token at @BotFather and use the new one"
)


@dataclass(frozen=True, slots=True)
class TelegramTiming:
    """The times of polling and its surroundings, in seconds."""

    poll: float = 30.0
    """The time for which Telegram keeps a poll open without news."""
    call: float = 15.0
    """The longest time of any call, besides `poll`."""
    pause: float = 1.0
    """The first wait after a failure."""
    longest: float = 60.0
    """The longest wait after failures."""
    readers: float = 30.0
    """The life of the cached readers of a chat."""
    press: float = 1.5
    """The time for which a pressed button shows that it waits."""
    typing: float = 4.0
    """The time after which the bot is shown as typing again; Telegram shows it for five seconds."""
    patience: float = 0.2
    """The time for which a poll waits for updates that take long to be kept."""
    free: float = 4.0
    """The time for which a right is waited for that may be free."""


async def _left() -> Trouble | None:
    """Leave a webhook as it is."""
    return WEBHOOK


class Poller:
    """Polls under a lease. `url` is the Bot API's with the token, `request` belongs to the polls alone.

    `unhook` takes off a webhook that is in the way if it may, and returns the remaining fault.
    """

    def __init__(
        self,
        url: str,
        request: "BaseRequest",
        *,
        lease: Lease,
        right: str,
        timing: TelegramTiming,
        unhook: Callable[[], Awaitable[Trouble | None]] = _left,
    ) -> None:
        self._url = url
        self._request = request
        self._lease = lease
        self._right = right
        self._timing = timing
        self._unhook = unhook
        self._began: Began = untold
        self._offset = 0
        self._taken = set[int]()
        self._adopted = False
        self._answered: float | None = None
        self._problem: Trouble | None = None
        self.stalls = 0

    async def run(self, take: Take, adopt: Adopt, began: Began = untold) -> None:
        """Hand on every update until cancelled; an update for which `take` fails is tried again.

        `began` is called at the first answer.
        """
        self._began = began
        while True:
            try:
                async with self._lease.hold(self._right) as held:
                    self._offset, self._adopted = 0, False
                    self._taken.clear()
                    await self._while(held, take, adopt)
            except Exception:
                # The lease has errors of its own, and heals by itself.
                self._problem = Trouble("the right to poll for this bot cannot be had", "see whether the store answers")
                _LOGGER.warning("polling stopped for now", extra={"subject": SUBJECT}, exc_info=True)
            self._answered = None
            await anyio.sleep(self._timing.pause)

    def troubles(self) -> tuple[Trouble, ...]:
        """Report the faults of polling now, and the age of the last answer if it is too old."""
        found = () if self._problem is None else (self._problem,)
        if self._answered is None:
            return found
        age = anyio.current_time() - self._answered
        if age < _LATE * (self._timing.poll + self._timing.call):
            return found
        return (*found, Trouble(f"the last poll was answered {age:.0f} s ago", "look at the network of this machine"))

    async def _while(self, held: Callable[[], bool], take: Take, adopt: Adopt) -> None:
        failures = 0
        self._answered = anyio.current_time()
        while held():
            asked = 0.0
            try:
                if not self._adopted:
                    # Parked updates stand before new ones, unless they cannot be read now.
                    with suppress(VaultError):
                        await adopt(held)
                        self._adopted = True
                if not await self._once(held, take):
                    return
                failures, self._problem = 0, None
                continue
            except (TelegramError, TimeoutError) as error:
                asked = await self._failed(error)
                self._log_failed(error)
            except Exception:
                # The application has errors of its own; Telegram tells the update again.
                _LOGGER.warning(NOT_KEPT, extra={"subject": SUBJECT}, exc_info=True)
                self._problem = Trouble("an update could not be kept, and is asked for again", "look at the store")
            pause = min(self._timing.longest, self._timing.pause * 2.0**failures)
            failures = min(failures + 1, 30)
            await anyio.sleep(max(asked, pause))

    async def _once(self, held: Callable[[], bool], take: Take) -> bool:
        """Poll once and hand on the updates; return whether the right is still held.

        Raises an exception: some of it was not kept. Kept ones are not handed on once more.
        """
        batch = await self._asked()
        failed = dict[int, Exception]()

        async def taken(update: updates.Json, number: int) -> None:
            try:
                await take(update)
            except Exception as error:  # noqa: BLE001 - the application has errors of its own
                failed[number] = error
            else:
                self._taken.add(number)

        if not held():
            return False
        async with anyio.create_task_group() as tasks:
            for update in batch:
                if update["update_id"] not in self._taken:
                    tasks.start_soon(taken, update, update["update_id"])
        if not held():
            return False
        if failed:
            self._offset = min(failed)
            raise failed[self._offset]
        # After a quiet week numbers begin somewhere else, maybe below: confirmed updates need not be named again.
        self._offset = max((update["update_id"] for update in batch), default=-1) + 1
        self._taken.clear()
        return True

    async def _asked(self) -> Sequence[updates.Json]:
        wanted: dict[str, str | float] = {"timeout": int(self._timing.poll), "limit": _BATCH}
        wanted |= {"allowed_updates": json.dumps(updates.UPDATES)} | ({"offset": self._offset} if self._offset else {})
        longest = self._timing.poll + self._timing.call
        # The library's timeouts are for each read: a connection that drips would never run into them.
        async with timeout(longest):
            asked = f"{self._url}/getUpdates?{urlencode(wanted)}"
            found = await read(self._request.post)(asked, read_timeout=longest)
        self._answered = anyio.current_time()
        self._began()
        self._began = untold
        # An update without a number could neither be confirmed nor told apart from others.
        return [one for one in found if _is_update(one)] if isinstance(found, list) else []

    async def _failed(self, error: TelegramError | TimeoutError) -> float:
        """Note the fault, and return the least time to wait, in seconds."""
        match error:
            case Conflict() if by_webhook(error):
                self._problem = await self._unhook()
            case Conflict():
                self._problem = _ANOTHER
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

    def _log_failed(self, error: TelegramError | TimeoutError) -> None:
        """Log why a poll failed; the library's own words may hold the token."""
        problem = self._problem
        if problem is None:
            return
        facts = {"subject": SUBJECT, "cause": problem.problem, "step": problem.next_step}
        # The bot itself can still tell owners what keeps it deaf until an operator acts.
        alert = {"alert": True} if problem is WEBHOOK else {}
        address = urlsplit(self._url).netloc
        _LOGGER.warning("a poll failed", extra={**facts, **alert, "address": address, "kind": type(error).__name__})

    async def _rebuilt(self) -> None:
        """Begin with new connections, as the old ones may hang."""
        with anyio.move_on_after(self._timing.call):
            await self._request.shutdown()
        await self._request.initialize()


def _is_update(told: object) -> bool:
    return isinstance(told, dict) and isinstance(told.get("update_id"), int)  # pyright: ignore[reportUnknownMemberType] - JSON
