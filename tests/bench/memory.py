"""What an idle session costs in the store.

Idle: created by its first message, one turn completed, the answer delivered, nothing waits. Counted is what the server
keeps for it, by MEMORY USAGE over all keys of its hash tag: record, log, audit chain, dedupe key, settled delivery. The
bytes of the bodies are taken off: what events, audit rows and the delivery say. The answers kept for retries are not
counted, because they vanish after ten minutes. The reference is a log of one event and nothing else. The parts are
listed on standard error.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from bot.store import wire
from bot.store.keys import session_keys
from channels.message import Address
from tests.bench.measure import Row, at_most
from tests.bench.rig import Bench, bench

_LIMIT: Final = 2048
_THREAD: Final = "idle"


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        value, reference = asyncio.run(_measured(Path(folder)))
    yield Row("idle_session_bytes", value, "B", reference, at_most(_LIMIT))


async def _measured(folder: Path) -> tuple[int, int]:
    async with bench(folder) as lockgate:
        await lockgate.ask("When is the meeting?", _THREAD)
        keys = session_keys(lockgate.app.session_id(Address("console", "owner", thread=_THREAD)))
        found = cast("list[bytes]", await _say(lockgate, "KEYS", f"{keys.prefix}*"))
        sizes = {name.decode().removeprefix(keys.prefix): await _size(lockgate, name) for name in found}
        kept = {name: size for name, size in sizes.items() if not name.startswith("op:")}
        bodies = await _bodies(lockgate, keys.log, 19) + await _bodies(lockgate, keys.audit, 9)
        bodies += await _delivered(lockgate, keys.outbox)
        listed = ", ".join(f"{name} {size}" for name, size in sorted(kept.items()))
        print(
            f"idle session: {listed}; of that in bodies {bodies}; "
            f"answers for retries beside it {sum(sizes.values()) - sum(kept.values())}",
            file=sys.stderr,
        )
        ((_, fields), *_) = cast("list[Any]", await _say(lockgate, "XRANGE", keys.log, "-", "+", "COUNT", 1))
        await _say(lockgate, "XADD", "one", "1-0", *fields)
        return sum(kept.values()) - bodies, await _size(lockgate, b"one")


async def _size(lockgate: Bench, name: bytes) -> int:
    return cast("int", await _say(lockgate, "MEMORY", "USAGE", name, "SAMPLES", 0))


async def _bodies(lockgate: Bench, stream: str, place: int) -> int:
    """Return the bytes of the bodies in a stream, each at a place among an entry's fields."""
    entries = cast("list[wire.StreamEntry]", await _say(lockgate, "XRANGE", stream, "-", "+"))
    return sum(len(fields[place]) for _, fields in entries)


async def _delivered(lockgate: Bench, outbox: str) -> int:
    records = cast("list[bytes]", await _say(lockgate, "HVALS", outbox))
    return sum(len(wire.delivery_body(record)) for record in records)


async def _say(lockgate: Bench, *words: str | bytes | int) -> object:
    (reply,) = await lockgate.app.store._link.commands(words)
    return reply
