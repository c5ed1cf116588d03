"""A trace over a session of ten thousand events, back and forward, beside a bare read of the same events.

The log is written by the store's own writes, shaped as turns that read files are, with the references that turns give;
that is not measured. Traced back is the newest answer, whose sources are the whole log, and forward its first message,
of which all the rest came. Each trace gives its first page, and reads and labels every event for it; nothing is kept
from one to the next. The reference reads all events through the store, as anything that looks at a log has to.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bot.app.app import App
from bot.core.ids import Ids
from bot.history.origins import Reading, referring
from bot.lineage.loading import LineageViewer
from bot.lineage.names import event_id
from bot.lineage.tracer import LineageQuery
from bot.lineage.walk import Direction
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    EventBody,
    ToolCall,
    ToolOutcome,
    ToolResult,
    TurnCompleted,
    TurnStarted,
    UserMessage,
    YieldReason,
)
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.models import Write
from bot.sessions.refs import CallRef, FileRef
from bot.store.redis_store import RedisStore
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bench.measure import Row, by_turns_async, ratio_at_most, warm
from tests.bench.rig import bench

_SIZE: Final = 10_000
_ROUNDS: Final = 12
_PAGE: Final = 1_000
_TURNS: Final = 50
_IDS: Final = Ids()
_MOST_BACK: Final = 2.5
_MOST_FORWARD: Final = 2.5
"""How many times as long as a read of its events a trace may take."""

Timed = Callable[[], Awaitable[float]]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        back, forward, bare = [taken * 1e3 for taken in asyncio.run(_measured(Path(folder)))]
    yield Row("trace_10k", back, "ms", bare, ratio_at_most(_MOST_BACK))
    yield Row("trace_forward_10k", forward, "ms", bare, ratio_at_most(_MOST_FORWARD))


async def _measured(folder: Path) -> list[float]:
    async with bench(folder) as lockgate:
        app = lockgate.app
        await lockgate.ask("When does the ferry leave?", "ferry")
        sid = app.session_id(Address("console", "owner", thread="ferry"))
        await fill(app.store, sid, _SIZE)
        work = [
            _trace(app, LineageQuery(sid)),
            _trace(app, LineageQuery(event_id(sid, 3), Direction.FORWARD)),
            lambda: _bare(app.store, sid),
        ]
        await warm(*work, rounds=2)
        return await by_turns_async(*work, rounds=_ROUNDS)


def _trace(app: App, query: LineageQuery) -> Timed:
    async def timed() -> float:
        begin = time.perf_counter()
        found = await app.lineage.trace(query, LineageViewer())
        taken = time.perf_counter() - begin
        if len(found.nodes) != query.limit or not found.cursor:
            raise RuntimeError("a page of many should be full")
        return taken

    return timed


async def _bare(store: RedisStore, sid: str) -> float:
    begin, after = time.perf_counter(), 0
    while events := await store.sessions.events(sid, after=after, limit=_PAGE):
        after = events[-1].seq
    return time.perf_counter() - begin


async def fill(store: RedisStore, sid: str, size: int) -> None:
    """Write turns that read files into a session's log until it has `size` events at least."""
    state, turn = await store.sessions.state(sid), 0
    while state is not None and state.seq < size:
        claim = await store.sessions.claim(sid, _IDS.owner(), idle=True)
        if claim is None:
            raise RuntimeError("an idle session could not be claimed")
        written, cursor = list[NewEvent](), claim.state.seq
        for _ in range(_TURNS):
            events = _turn(f"t{turn}")
            written += _referring(events, cursor)
            cursor, turn = cursor + len(events), turn + 1
        await store.sessions.record(claim, Write(_IDS.op(), claim.state.seq, events=tuple(written), release=True))
        state = await store.sessions.state(sid)


def _referring(events: tuple[NewEvent, ...], cursor: int) -> Iterator[NewEvent]:
    """Yield the events of a turn with the references that it gives: each model request is a write of its own."""
    asked, first = 2, cursor
    for part in (events[:asked], events[asked : asked + 2], events[asked + 2 : asked + 3], events[asked + 3 :]):
        yield from referring(part, cursor, Reading(1, max(cursor, first + asked)), {})
        cursor += len(part)


def _turn(turn: str) -> tuple[NewEvent, ...]:
    def told(body: EventBody) -> NewEvent:
        return NewEvent("worker", PUBLIC, body, Visibility.PROGRESS, turn=turn)

    def said(actor: str, body: EventBody) -> NewEvent:
        return NewEvent(actor, PUBLIC, body, Visibility.USER, admitted=True, turn=turn)

    call, path = f"{turn}-0", "public/harbor.md"
    read = NewEvent(
        "read_file",
        PUBLIC,
        ToolResult(call, "read_file", "The ferry leaves at nine.", ToolOutcome.OK),
        Visibility.PROGRESS,
        admitted=True,
        turn=turn,
        refs=(CallRef(call), FileRef(path, f"{hash(turn) & 0xFFFF:016x}")),
    )
    return (
        told(TurnStarted(1)),
        said("owner", UserMessage("When does the ferry leave?")),
        NewEvent("agent", PUBLIC, AgentThinking({"parts": []}), Visibility.INTERNAL, admitted=True, turn=turn),
        told(ToolCall(call, "read_file", {"path": path})),
        read,
        said("agent", AgentMessage("At nine.")),
        told(TurnCompleted(YieldReason.COMPLETED)),
    )
