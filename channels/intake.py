"""Intake of a platform's updates: in order within a lane, concurrent across lanes, durable before it is acknowledged.

A lane is a chat. An update leaves its lane once the application has kept it; sending the answer to it delays no other
update. An update that the application cannot take in is parked: written to the vault, counted as kept, and tried again
with a growing pause. It keeps its place, and all that comes behind it in its lane waits. So one session that cannot be
read makes one chat wait, and no other. Where `patience` bounds how long others wait, a slower update is parked as well,
while it goes on. An update that cannot even be parked is not kept, and the platform sends it again.

Each lane is worked by one process, which holds a right; another one parks, and leaves the rest to it.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import anyio
from anyio import current_time

from channels.port import ChannelVault, Lease, Trouble, VaultError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


class Lanes:
    """Locks by name that are forgotten when no task waits for them; tasks get a lock in the order of asking."""

    def __init__(self) -> None:
        self._lanes: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncGenerator[None]:
        """Wait for a lane, and hold it."""
        lock, waiting = self._lanes.get(name, (asyncio.Lock(), 0))
        self._lanes[name] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._lanes.pop(name)
            if waiting > 1:
                self._lanes[name] = (lock, waiting - 1)


Json = Mapping[str, Any]

Kept = Callable[[], None]
"""Call this when the update is kept, so that the updates behind it need not wait for the rest."""

Work = Callable[[Json, Kept], Awaitable[None]]
"""Take in an update of a platform. Raises an exception before it tells that it was kept: it was not."""

MOST: Final = 1000
"""The number of parked updates of one lane; further ones are dropped, as with a full inbox."""

_SLOTS: Final = 16
"""How much is taken in at once."""

_ANSWERS: Final = 16
"""How much of one lane is kept and still being answered."""

_TRIES: Final = 3
"""The number of failed tries after which the update behind is tried."""

_BESIDE: Final = "!"
"""Separates a lane's name from the name of a lane beside it; a lane's own name never holds it."""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Entry:
    """An update to be taken in; a parked one is read from the vault when its turn comes."""

    name: str
    told: Json | None
    kept: "asyncio.Future[None]"
    parked: bool = False
    done: bool = False
    tries: int = 0


@dataclass(eq=False, slots=True)
class _Line:
    """The updates that wait in a lane, oldest first; in a stuck lane the first one cannot be taken in yet."""

    lane: str
    entries: deque[_Entry] = field(default_factory=deque[_Entry])
    stuck: bool = False
    working: bool = False
    answering: int = 0
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_ANSWERS))


class Intake:
    """Takes in for one bot. It parks updates in the vault under names that begin with `prefix`.

    `pause` is the first wait before something is tried again, `longest` the last. With a `patience`, no update waits
    for longer than that while none is kept. All are in seconds. `beside` tells which updates may pass a stuck one in
    their lane.
    """

    def __init__(  # noqa: PLR0913 - an adapter's facts about its platform
        self,
        vault: ChannelVault,
        prefix: str,
        work: Work,
        *,
        beside: Callable[[Json], bool],
        pause: float,
        longest: float,
        patience: float | None = None,
    ) -> None:
        self._vault = vault
        self._prefix = prefix
        self._work = work
        self._beside = beside
        self._pause = pause
        self._longest = longest
        self._patience = patience
        self._progress = 0.0
        self._slots = asyncio.Semaphore(_SLOTS)
        self._lines: dict[str, _Line] = {}
        self._known: dict[str, _Entry] = {}
        self._let_go = 0
        self._held: Callable[[], bool] = bool
        self._tasks: TaskGroup

    @asynccontextmanager
    async def running(self, lease: Lease | None = None) -> AsyncGenerator[None]:
        """Let updates be taken in while the block runs; at its end, unfinished work is cancelled.

        With a `lease`, this process takes in the updates that any process parked while it holds the right.
        """
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as self._tasks:
                if lease is not None:
                    self._tasks.start_soon(self._tend, lease)
                try:
                    yield
                except Exception as error:  # noqa: BLE001 - raised below, and not as one of a group
                    failure = error
                self._tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            self._lines.clear()
            self._known.clear()

    async def take(self, lane: str, order: str, told: Json) -> None:
        """Take in an update of a platform; when this returns it is kept.

        `order` names it within its lane, and a later one is greater. Raises an exception: it was not kept.
        """
        line = self._lines.get(lane)
        if line is not None and line.stuck and self._beside(told):
            lane += _BESIDE
        name = f"{self._prefix}{quote(lane, safe='')}/{order}"
        entry = self._known.get(name)
        if entry is None:
            if lane in self._lines and len(self._lines[lane].entries) >= MOST:
                self._let_go += 1
                return
            entry = _Entry(name, told, asyncio.get_running_loop().create_future())
            self._enter(lane, entry)
        line = self._lines.get(lane)
        if line is not None and line.stuck:
            await self._parked_or_refused(line, (entry,))
        await self._settled(entry)

    async def adopt(self, held: Callable[[], bool]) -> None:
        """Take in the parked updates of all processes while the right to do so is `held`. Raises VaultError."""
        self._held = held
        for name in await self._vault.names(self._prefix):
            if name not in self._known:
                entry = _Entry(name, None, asyncio.get_running_loop().create_future(), parked=True)
                entry.kept.set_result(None)
                self._enter(self._lane(name), entry)

    async def troubles(self) -> tuple[Trouble, ...]:
        """Report the updates that wait because they could not be taken in."""
        found = list[Trouble]()
        with suppress(VaultError):
            names = await self._vault.names(self._prefix)
            if names:
                chats = len({self._lane(name).partition(_BESIDE)[0] for name in names})
                told = f"{len(names)} updates of {chats} chats wait, as they could not be taken in"
                step = "`lockgate sessions list` names the sessions, `lockgate audit tail` the errors"
                found.append(Trouble(told, step, sealed=True))
        if self._let_go:
            told = f"{self._let_go} updates were let go, as too many waited in their chats"
            found.append(Trouble(told, "mend the fault of the first one, the others wait for it", sealed=True))
        return tuple(found)

    async def _tend(self, lease: Lease) -> None:
        while True:
            # The lease and the vault have errors of their own, and heal by themselves.
            with suppress(Exception):
                async with lease.hold(self._prefix) as held:
                    while held():
                        await self.adopt(held)
                        await anyio.sleep(self._longest)
            await anyio.sleep(self._pause)

    def _lane(self, name: str) -> str:
        return unquote(name.removeprefix(self._prefix).partition("/")[0])

    def _enter(self, lane: str, entry: _Entry) -> None:
        self._known[entry.name] = entry
        line = self._lines.setdefault(lane, _Line(lane))
        line.entries.append(entry)
        if not line.working:
            line.working = True
            self._tasks.start_soon(self._work_off, line)

    async def _settled(self, entry: _Entry) -> None:
        """Wait until something is kept; park it if that takes long, and nothing else is kept either."""
        began = current_time()
        while not entry.kept.done():
            left = None
            if self._patience is not None:
                left = max(began, self._progress) + self._patience - current_time()
                if left <= 0:
                    with suppress(VaultError):
                        await self._park(entry)
                    # An update that cannot be parked is waited for.
                    left = None
            await asyncio.wait({entry.kept}, timeout=left)
        entry.kept.result()

    async def _work_off(self, line: _Line) -> None:
        """Take in the updates of a lane, one after the other, until none is left."""
        pause = self._pause
        while line.entries:
            entry = line.entries[0]
            if entry.parked and not self._held():
                self._forget(line, [one for one in line.entries if one.parked])
                continue
            error = await self._tried(line, entry)
            if error is None:
                await self._leave(line, entry)
                line.stuck, pause = False, self._pause
                continue
            if not line.stuck:
                line.stuck = True
                _LOGGER.warning("a chat is parked", extra={"subject": line.lane}, exc_info=error)
            await self._parked_or_refused(line, tuple(line.entries), error)
            if entry.parked and self._held():
                await anyio.sleep(pause)
                pause = min(2 * pause, self._longest)
                await self._pass_by(line)
        line.working, line.stuck = False, False
        self._tidy(line)

    async def _tried(self, line: _Line, entry: _Entry) -> Exception | None:
        """Try to take something in; return why it was not kept, None if it was."""
        entry.tries += 1
        try:
            told = entry.told
            if told is None:
                stored = await self._vault.get(entry.name)
                if stored is None:
                    # Another process took it in.
                    return None
                told = json.loads(stored)
            await line.room.acquire()
            line.answering += 1
            async with self._slots:
                kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._tasks.start_soon(self._do, line, told, kept)
                await kept
        except Exception as error:  # noqa: BLE001 - the application has errors of its own
            return error
        return None

    async def _do(self, line: _Line, told: Json, kept: "asyncio.Future[None]") -> None:
        def keep() -> None:
            if not kept.done():
                kept.set_result(None)

        try:
            await self._work(told, keep)
        except Exception as error:
            if kept.done():
                _LOGGER.warning("an accepted update could not be answered", exc_info=True)
            else:
                kept.set_exception(error)
        else:
            keep()
        finally:
            line.answering -= 1
            line.room.release()
            self._tidy(line)

    async def _leave(self, line: _Line, entry: _Entry) -> None:
        """Take a kept update out of its lane."""
        entry.done = True
        self._progress = current_time()
        self._forget(line, (entry,))
        _keep(entry)
        if entry.parked:
            # Else it is taken in once more some day, and known by then.
            with suppress(VaultError):
                await self._vault.delete(entry.name)

    async def _park(self, entry: _Entry) -> None:
        """Keep something in the vault. Raises VaultError: it cannot be kept there."""
        if entry.told is not None:
            await self._vault.put(entry.name, json.dumps(entry.told).encode())
            entry.parked, entry.told = True, None
            if entry.done:
                with suppress(VaultError):
                    await self._vault.delete(entry.name)
        _keep(entry)

    async def _parked_or_refused(self, line: _Line, entries: Iterable[_Entry], error: Exception | None = None) -> None:
        """Park the updates of a stuck lane.

        The platform sends the updates again from the first one that cannot be parked.
        """
        refused: Exception | None = None
        for entry in entries:
            if entry.parked or entry.done:
                continue
            if refused is None:
                try:
                    await self._park(entry)
                    continue
                except VaultError as unkept:
                    refused = error or unkept
            self._forget(line, (entry,))
            if not entry.kept.done():
                entry.kept.set_exception(refused)

    async def _pass_by(self, line: _Line) -> None:
        """Let the update behind a failing one go first, if it can: then only the failing one is at fault."""
        if len(line.entries) < 2 or line.entries[0].tries < _TRIES:  # noqa: PLR2004 - it and one behind it
            return
        first, second = line.entries[0], line.entries[1]
        if await self._tried(line, second) is None:
            await self._leave(line, second)
            self._forget(line, (first,))
            line.stuck = False
            self._enter(first.name, first)

    def _tidy(self, line: _Line) -> None:
        """Forget a lane in which nothing waits and nothing is left to say."""
        if not (line.working or line.entries or line.answering):
            self._lines.pop(line.lane, None)

    def _forget(self, line: _Line, entries: Iterable[_Entry]) -> None:
        for entry in tuple(entries):
            with suppress(ValueError):
                line.entries.remove(entry)
            if self._known.get(entry.name) is entry:
                del self._known[entry.name]


def _keep(entry: _Entry) -> None:
    if not entry.kept.done():
        entry.kept.set_result(None)
