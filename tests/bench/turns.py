"""A durable turn on the store path alone: accept, claim, record, commit and the receipt of the delivery.

The reference sends the very same scripts with the very same arguments by redis-py's own client, to the same
server: no values made, no records read, no audit rows chained. Both run several sessions at once, as a worker does,
so that the server is as busy as they can make it.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

from redis.asyncio import Redis

from bot.core.ids import Ids
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.inbox import ItemStatus, NewItem
from bot.sessions.log.event_types import AgentMessage, TurnCompleted, TurnStarted, UserMessage, YieldReason
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Claim, LastTurn, Status, Turn, Write
from bot.sessions.usage import Usage
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.bench.measure import Row, by_turns_async, ratio_at_least, warm
from tests.bench.replay import Work, replayed

if TYPE_CHECKING:
    from pydantic import JsonValue

_TOGETHER: Final = 8
_BATCH: Final = 48
_ROUNDS: Final = 30
_WARM: Final = 3
_SENDER: Final = "sender"
_KEY: Final = bytes(range(32))
_HOME: Final = "console::owner:"
_IDS: Final = Ids()


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        ours, bare = asyncio.run(_measured(Path(folder)))
    yield Row("store_turns_per_second", 1 / ours, "turns/s", 1 / bare, ratio_at_least(0.6))


async def _measured(folder: Path) -> list[float]:
    """Return the median seconds of one turn through the store, and of one by the bare scripts."""
    supervisor = Supervisor(folder)
    await supervisor.attach()
    store = await open_store(audit_key=_KEY, url=supervisor.url)
    # The library leaves its signatures untyped.
    client = cast("Any", Redis).from_url(supervisor.url, protocol=2)
    try:
        bare = await replayed(store, client, lambda sid: _turn(store, sid))
        names = (f"s{number}" for number in itertools.count())

        async def ours() -> float:
            return await _batch(lambda sid: _turn(store, sid), names)

        async def theirs() -> float:
            return await _batch(bare, names)

        await warm(ours, theirs, rounds=_WARM)
        return await by_turns_async(ours, theirs, rounds=_ROUNDS)
    finally:
        await client.aclose()
        await store.close()
        await supervisor.detach()


async def _batch(turn: Work, names: Iterator[str]) -> float:
    """Run a batch of turns, each in a session of its own; return the seconds of one."""
    sids = [next(names) for _ in range(_BATCH)]
    waiting = iter(sids)

    async def work() -> None:
        for sid in waiting:
            await turn(sid)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(_TOGETHER):
            tasks.create_task(work())
    return (time.perf_counter() - begin) / _BATCH


async def _turn(store: RedisStore, sid: str) -> None:
    """Run one turn as the worker does, the model and the gate left out."""
    await store.sessions.accept(
        NewItem(sid, "m1", "owner", PUBLIC, SessionMessage("hello", "console:owner"), _HOME, "owner")
    )
    claim = await store.sessions.claim(sid, _IDS.owner())
    if claim is None:
        raise RuntimeError("a session with work could not be claimed")
    written = await store.sessions.record(claim, _opening(claim), sender=_SENDER)
    ending = _ending(claim, written.seq, written.now)
    written = await store.sessions.commit(claim, ending, sender=_SENDER)
    (said,) = ending.deliver
    sent = Delivery(
        sid=sid,
        key=said.key,
        address=said.address,
        text=said.text,
        label=said.label,
        kind=said.kind,
        turn=said.turn,
        state=DeliveryState.SENDING,
        created_at=written.now,
        attempt=1,
        generation=1,
        approved=said.approved,
    )
    if not await store.outbox.settle(sent, _SENDER, DeliveryState.SENT):
        raise RuntimeError("a delivery was not this sender's")


def _opening(claim: Claim) -> Write:
    told = NewEvent("worker", PUBLIC, TurnStarted(1), Visibility.PROGRESS, turn="t")
    heard = NewEvent("owner", PUBLIC, UserMessage("hello"), Visibility.USER, admitted=True, turn="t")
    return Write(
        _IDS.op(),
        claim.state.seq,
        events=(told, heard),
        audit=(_row("PRE_CONTEXT_INJECTION"), _row("AGENT_INVOCATION")),
        take=1,
        turn=Turn("t", 1, "m1", "owner", claim.now),
        status=Status.RUNNING,
    )


def _ending(claim: Claim, seq: int, now: int) -> Write:
    text = "It is on Tuesday at 9:30 in the big room; the notes are in the shared folder."
    said = NewEvent("agent", PUBLIC, AgentMessage(text), Visibility.USER, admitted=True, turn="t")
    used = Usage(1, 100, 20)
    completed = TurnCompleted(YieldReason.COMPLETED, now - claim.now, back=1, usage=used)
    told = NewEvent("worker", PUBLIC, completed, Visibility.PROGRESS, turn="t")
    return Write(
        _IDS.op(),
        seq,
        events=(said, told),
        audit=(_row("PRE_OUTPUT", destination=_HOME),),
        settle=((1, ItemStatus.CONSUMED),),
        end=LastTurn("t", YieldReason.COMPLETED, seq + 2, seq + 1),
        usage=used,
        status=Status.IDLE,
        deliver=(NewDelivery("t-answer", _HOME, text, PUBLIC, turn="t"),),
        release=True,
    )


def _row(hook: str, **more: str) -> AuditRow:
    facts: dict[str, JsonValue] = {
        "verdict": "ALLOW",
        "rules": [],
        "before": "PUBLIC",
        "after": "PUBLIC",
        "policy": "a" * 64,
    }
    return AuditRow("decision", "owner", {"hook": hook, **facts, **more})
