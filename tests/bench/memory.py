"""What an idle session costs in the store.

Idle: created by its first message, one turn completed, the answer delivered, nothing waits. Counted is what the server
keeps for it, by MEMORY USAGE over all keys of its hash tag: record, log, audit chain, dedupe key, settled delivery. The
bytes of the bodies are taken off: what events, audit rows and the delivery say. The answers kept for retries are not
counted, because they vanish after ten minutes. Ids are random, and a server rounds what it allocates, so that one
session may take a few bytes more than another: counted is the median one of five. After a day dedupe key and delivery
have vanished too; the second row is without them. The reference is a log of one event and nothing else. The parts are
listed on standard error.

`python -m tests.bench.memory unix:///path/to/socket` tells the same of another server, such as one with jemalloc, whose
bytes have no goal. It fills that server with sessions.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, cast

from redis import Redis

from bot.sessions.log.serialization import event_json
from bot.store.records import codec
from bot.store.schema import SessionKeys, session_keys
from channels.messages import Address
from tests.bench.measure import Row, at_most
from tests.bench.rig import Bench, bench

_LIMIT: Final = 2048
_LATER: Final = 1536
_SESSIONS: Final = 5


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        now, later, reference = asyncio.run(_measured(Path(folder)))
    yield Row("idle_session_bytes", now, "B", reference, at_most(_LIMIT))
    yield Row("idle_session_a_day_later_bytes", later, "B", reference, at_most(_LATER))


async def _measured(folder: Path, store: str = "") -> tuple[float, float, float]:
    async with bench(folder, store) as lockgate:
        server = store if lockgate.app.store.server is None else lockgate.app.store.server.url
        found = [await _one(lockgate, server, f"idle{number}") for number in range(_SESSIONS)]
    now, later, references = zip(*found, strict=True)
    return median(now), median(later), median(references)


async def _one(lockgate: Bench, server: str, thread: str) -> tuple[int, int, int]:
    store = lockgate.app.store
    await lockgate.ask("When is the meeting?", thread)
    sid = lockgate.app.session_id(Address("console", "owner", thread=thread))
    keys = session_keys(sid)
    events, records, deliveries = (
        await store.sessions.events(sid),
        await store.audit.records(sid),
        await store.outbox.deliveries(sid),
    )
    bodies = sum(
        len(codec.dump(body))
        for body in (*(event_json(event.body) for event in events), *(row.body for row in records))
    )
    delivered = sum(len(codec.dump(delivery.text)) for delivery in deliveries)
    # The library leaves its signatures untyped.
    with cast("Any", Redis).from_url(server) as client:
        sizes, reference = await asyncio.to_thread(_sizes, cast("_Client", client), keys)
    retries = sum(size for name, size in sizes.items() if name.startswith("op:"))
    total = sum(sizes.values()) - retries
    listed = ", ".join(f"{name} {size}" for name, size in sorted(sizes.items()) if not name.startswith("op:"))
    print(f"idle session: {listed}; of that in bodies {bodies + delivered}; for retries {retries}", file=sys.stderr)
    later = total - sizes["inputs"] - sizes["outbox"] - bodies
    return total - bodies - delivered, later, reference


def _sizes(client: "_Client", keys: SessionKeys) -> tuple[dict[str, int], int]:
    """Return the bytes of each of a session's keys, and those of a log that holds its first event alone."""

    def size(name: bytes | str) -> int:
        return client.memory_usage(name, samples=0)

    found = {name.decode().removeprefix(keys.prefix): size(name) for name in client.keys(f"{keys.prefix}*")}
    ((_, fields),) = client.xrange(keys.log, count=1)
    client.xadd("one", fields, id="1-0")
    reference = size("one")
    client.delete("one")
    return found, reference


def _at(server: str) -> None:
    with TemporaryDirectory(prefix="lgb") as folder:
        now, later, reference = asyncio.run(_measured(Path(folder), server))
    told = {"idle_session_bytes": now, "idle_session_a_day_later_bytes": later, "reference": reference}
    print(json.dumps({**told, "unit": "B"}))


class _Client(Protocol):
    """What is used of redis-py's client, whose own signatures are partly unknown."""

    def memory_usage(self, key: bytes | str, samples: int) -> int: ...
    def delete(self, name: str) -> int: ...
    def keys(self, pattern: str) -> list[bytes]: ...
    def xrange(self, name: str, *, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]: ...
    def xadd(self, name: str, fields: dict[bytes, bytes], id: str) -> bytes: ...  # noqa: A002 - the library's name


if __name__ == "__main__":
    _at(sys.argv[1])
