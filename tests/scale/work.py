"""What an application does on a store of many sessions, timed."""

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from bot.audit.chain import Intact
from bot.sessions.models import SessionQuery
from bot.store.schema import sweep_key
from bot.store.servers.connection import WALKED
from tests.scale.copies import Keys, kind_of
from tests.scale.exemplars import Kind
from tests.scale.people import OWNER, Installation, installation

_NAME: Final = "scale"
_CHANNELS: Final = ("console",)
_TALKED: Final = frozenset({Kind.PLAIN, Kind.TALK})
_RESTED: Final = 4
_WARM: Final = 10
_CLAIMS: Final = 300
_PAGES: Final = 60
_CHAINS: Final = 300
_THOUSAND: Final = 1_000
_COPIED: Final = 4_000
_TEN_THOUSAND: Final = 10_000
_FEW: Final = 3


@dataclass
class Talk:
    """Seconds of messages on one store: until each was accepted, and until it was answered."""

    accepted: list[float] = field(default_factory=list[float])
    answered: list[float] = field(default_factory=list[float])

    def figures(self) -> dict[str, float]:
        """Return what they come to, in milliseconds."""
        return {
            "message_p50": median(self.answered) * 1e3,
            "message_p99": quantiles(self.answered, n=100)[-1] * 1e3,
            "accept": median(self.accepted) * 1e3,
        }


def conversations(size: int) -> Iterator[int]:
    """Yield the numbers of conversations that rest and can be taken up again, spread over all of a store."""
    step = max(size // 997, 1)
    for begin in range(step):
        yield from (number for number in range(begin, size, step) if kind_of(number) in _TALKED)


async def talked(folder: Path, size: int, keys: Keys, talk: Talk, seconds: float) -> None:
    """Open an installation, and talk: in some conversations that have rested, in a new one, and so on."""
    numbers = conversations(size)
    async with installation(folder) as running:
        for number in range(_WARM):
            await running.ask(OWNER, f"warm{number}")
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            rested = [keys.names(number) for number in islice(numbers, _RESTED)]
            for who, where in (*rested, (OWNER, f"at{time.time_ns()}")):
                accepted, answered = await running.ask(who, where)
                talk.accepted.append(accepted)
                talk.answered.append(answered)


async def worked(folder: Path, size: int, keys: Keys) -> dict[str, float]:
    """Return the seconds of all that an installation without a worker can do, and of what its sweep does."""
    async with installation(folder, serve=False) as running:
        return {
            **await _swept(running),
            **await _listed(running, keys.names(size // 2)[0]),
            **await _audited(running, size, keys),
            **await _administered(running, size, keys),
            "claim": await _claimed(running, size, keys),
        }


async def _median(times: int, work: Callable[[], Awaitable[object]]) -> float:
    taken = list[float]()
    for _ in range(times):
        begin = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - begin)
    return median(taken)


async def _swept(running: Installation) -> dict[str, float]:
    """Walk the whole store by sweeps, as many as it takes."""
    store, passes = running.app.store, list[float]()
    while True:
        begin = time.perf_counter()
        await store.wake.sweep(_CHANNELS, name=_NAME)
        passes.append(time.perf_counter() - begin)
        (walk,) = await store._shared.connection.commands(("HGET", sweep_key(_NAME), "walk"))  # pyright: ignore[reportPrivateUsage] - where it is
        if walk == WALKED:
            return {"sweep": median(passes), "sweeps": len(passes)}


async def _listed(running: Installation, who: str) -> dict[str, float]:
    index, top = running.app.store.index, running.app.gate.document.top
    return {
        "list_person": await _median(_PAGES, lambda: index.listed(SessionQuery(who, top))),
        "list_recent": await _median(_PAGES, index.recent),
    }


async def _audited(running: Installation, size: int, keys: Keys) -> dict[str, float]:
    app, chains = running.app, list(islice(conversations(size), _CHAINS))
    # They are read once, and measured apart.
    await app.chains.anchored()
    begin = time.perf_counter()
    for number in chains:
        if not isinstance(await app.chains.verify(keys.sid(number)), Intact):
            raise RuntimeError(f"the chain of session {number} does not hold")  # noqa: TRY004 - no wrong type
    verified = (time.perf_counter() - begin) / len(chains) * _THOUSAND
    begin, copied, units = time.perf_counter(), 0, app.store.backups.copies()
    async for unit in units:
        copied += bool(unit.sid)
        if copied == _COPIED:
            break
    return {"verify": verified, "backup": (time.perf_counter() - begin) / copied * _TEN_THOUSAND}


async def _administered(running: Installation, size: int, keys: Keys) -> dict[str, float]:
    store, people = running.app.store, iter(range(_FEW))
    gone = iter([keys.sid(number) for number in range(size - 1, 0, -1) if kind_of(number) is Kind.PLAIN][:_FEW])
    return {
        "usage": await _median(_FEW, lambda: running.command("/usage all")),
        "let_in": await _median(_FEW, lambda: running.let_in(f"new{size}-{next(people)}")),
        "delete": await _median(_FEW, lambda: store.lifecycle.delete(next(gone), ())),
    }


async def _claimed(running: Installation, size: int, keys: Keys) -> float:
    """Claim conversations that rest, with all that a turn reads of them."""
    sessions, taken = running.app.store.sessions, list[float]()
    for number in islice(conversations(size), _CLAIMS):
        begin = time.perf_counter()
        claim = await sessions.claim(keys.sid(number), f"{sessions.process}.scale", idle=True, channels=_CHANNELS)
        taken.append(time.perf_counter() - begin)
        if claim is None:
            raise RuntimeError(f"session {number} cannot be claimed")
        await sessions.release(claim)
    return median(taken)
