"""`python -m tests.chaos.losses`: which acknowledged writes a store loses when a server of it is killed (`kill -9`).

Writers write side by side to one server until it is killed, and count a write once it is acknowledged. Afterwards each
such write is looked for at the server that serves then. Each kind of store is measured several times. The writes are of
200 bytes, as a script of ours has them. A replica that lags gets nothing for the last part of the time.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.fleets import Fleet, LoneServer, alone, ask, cluster, sentinels, wait_until

_WRITERS: Final = 8
_SECONDS: Final = 0.6
_LAG_SECONDS: Final = 0.3
_BODY: Final = "x" * 200
_KEY: Final = "lg:ready"
"""The key by which the part of a Cluster is chosen; all writes go to its slot."""


@dataclass(frozen=True)
class Case:
    """A kind of store and how its server is killed; `replicas` is the number that `WAIT` waits for."""

    name: str
    made: Callable[[], AbstractContextManager[Fleet | LoneServer]]
    settings: tuple[str, ...] = ()
    lags: bool = False
    replicas: int = 0


@dataclass
class Measured:
    """What was measured of one case, in all rounds."""

    case: str
    acknowledged: int = 0
    lost: list[int] = field(default_factory=list[int])
    rate: list[float] = field(default_factory=list[float])

    @property
    def facts(self) -> dict[str, object]:
        """Return what was measured, as it is written."""
        mean = sum(self.rate) / len(self.rate)
        return {"case": self.case, "acknowledged": self.acknowledged, "lost": self.lost, "a_second": round(mean)}


CASES: Final = (
    Case("one server, everysec", lambda: alone("everysec")),
    Case("one server, always", lambda: alone("always")),
    Case("Sentinel", sentinels),
    Case("Sentinel, replica lags", sentinels, lags=True),
    Case("Sentinel, replica lags, min-replicas-to-write 1", sentinels, ("min-replicas-to-write", "1"), lags=True),
    Case("Sentinel, min-replicas-to-write 1", sentinels, ("min-replicas-to-write", "1")),
    Case("Sentinel, WAIT 1", sentinels, replicas=1),
    Case("Sentinel, WAIT 1, replica lags", sentinels, lags=True, replicas=1),
    Case("Cluster", cluster),
    Case("Cluster, replica lags", cluster, lags=True),
    Case("Cluster, replica lags, min-replicas-to-write 1", cluster, ("min-replicas-to-write", "1"), lags=True),
)


class Writers:
    """Writers to one server: `acknowledged` are the keys of the writes that were, before the server was killed."""

    def __init__(self, port: int, replicas: int) -> None:
        self.acknowledged = list[str]()
        self._port, self._replicas, self._stopped = port, replicas, False

    async def write(self, seconds: float) -> None:
        """Write for a time."""
        until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for writer in range(_WRITERS):
                tasks.create_task(self._write(writer, until))

    def stop(self) -> None:
        """Count no more."""
        self._stopped = True

    async def _write(self, writer: int, until: float) -> None:
        async with Redis(port=self._port, socket_timeout=1.0) as line:
            for number in range(1_000_000):
                if self._stopped or time.monotonic() > until + _LAG_SECONDS:
                    return
                key = f"{{{_KEY}}}:{writer}:{number}:{until}"
                try:
                    done = await self._written(line, key)
                except RedisError:
                    await asyncio.sleep(0.01)
                    continue
                if done and not self._stopped:
                    self.acknowledged.append(key)

    async def _written(self, line: Redis, key: str) -> bool:
        """Write, and say whether as many replicas as wanted have it."""
        async with line.pipeline(transaction=False) as both:
            both.set(key, _BODY)
            if self._replicas:
                cast("Any", both).wait(self._replicas, 500)  # the library leaves its options untyped
            replies = await both.execute()
        return not self._replicas or int(replies[-1]) >= self._replicas


async def _round(case: Case, fleet: Fleet | LoneServer) -> tuple[int, int, float]:
    """Write, kill and look; return how many writes were acknowledged, lost, and acknowledged in a second."""
    port = _port(fleet)
    if case.settings:
        for one in fleet.primaries:
            assert ask(one, "CONFIG", "SET", *case.settings).startswith(b"+OK")
    writers, begun = Writers(port, case.replicas), time.monotonic()
    writing = asyncio.create_task(writers.write(_SECONDS))
    await asyncio.sleep(_SECONDS)
    rate = len(writers.acknowledged) / (time.monotonic() - begun)
    if case.lags:
        await asyncio.to_thread(fleet.hold_back, _KEY)
        await asyncio.sleep(_LAG_SECONDS)
    await asyncio.to_thread(fleet.lose)
    writers.stop()
    await writing
    await asyncio.to_thread(wait_until, lambda: _serves(fleet, port))
    after = _port(fleet)
    async with Redis(port=after) as line:
        there = 0
        for begin in range(0, len(writers.acknowledged), 500):
            there += int(await line.exists(*writers.acknowledged[begin : begin + 500]))
    await asyncio.to_thread(fleet.mend)
    return len(writers.acknowledged), len(writers.acknowledged) - there, rate


def _port(fleet: Fleet | LoneServer) -> int:
    """Return the port of the primary that has the key."""
    return next(one for one in fleet.primaries if not ask(one, "EXISTS", _KEY).startswith(b"-"))


def _serves(fleet: Fleet | LoneServer, before: int) -> bool:
    """Say whether the killed server is back, where it is the only one, or another one serves in its place."""
    try:
        port = _port(fleet)
    except (RuntimeError, StopIteration, IndexError, ValueError):
        return False
    lone = isinstance(fleet, LoneServer)
    return (lone or port != before) and ask(port, "SET", f"{{{_KEY}}}:probe", "1").startswith(b"+OK")


async def measured(case: Case, rounds: int) -> Measured:
    """Measure one case."""
    found = Measured(case.name)
    with case.made() as fleet:
        for _ in range(rounds):
            acknowledged, lost, rate = await _round(case, fleet)
            found.acknowledged += acknowledged
            found.lost.append(lost)
            found.rate.append(rate)
    return found


def main() -> int:
    """Measure all cases and print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.losses", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="a file for the measurements, besides the table")
    asked = parser.parse_args()
    found = [asyncio.run(measured(case, asked.rounds)) for case in CASES]
    for line in _table(found):
        print(line)
    if asked.json is not None:
        asked.json.write_text(json.dumps([one.facts for one in found]) + "\n", encoding="utf-8")
    return 0


def _table(found: list[Measured]) -> Iterator[str]:
    yield "| store | acknowledged writes a second | acknowledged | lost, each time |"
    yield "|---|---|---|---|"
    for one in found:
        facts = one.facts
        yield f"| {one.case} | {facts['a_second']} | {one.acknowledged} | {', '.join(map(str, one.lost))} |"


if __name__ == "__main__":
    sys.exit(main())
