"""The spans of turns and deliveries for the sink of telemetry: whole traces, of sessions that it is cleared for.

A trace covers one turn. Its ids are keyed hashes of the session's and the turn's, so that another process that says the
turn's answer continues the trace, and nothing is stored for it. A trace is decided on when its part of the turn is
over, by the session's taint then and by the session's record in the store. If the session is above the sink's
clearance, no span leaves, nor the fact that there is one. A fault here costs spans and no turn.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.core.tracing import Fact, Recorder, Stopwatch, TraceSpan, recording
from bot.sessions.background.delegation import SESSION
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from policy.labels import Label

_MOST_WAITING: Final = 2_000
"""Traces that wait to be sent; newer ones are dropped."""
_MOST_AT_ONCE: Final = 100
_PATIENCE: Final = 2.0
"""Seconds that an ending process gives to unsent spans."""
_TRIES: Final = 3
_WAIT: Final = 1.0
_MS: Final = 1_000_000

_LOGGER: Final = logging.getLogger(__name__)


class TelemetryError(Exception):
    """The sink did not take a batch; the text says why and names no address."""


@dataclass(frozen=True, slots=True)
class SentSpan:
    """A span with its place: `trace` has 16 bytes, `id` and `parent` 8 each; one without a parent begins its trace."""

    trace: bytes
    id: bytes
    parent: bytes | None
    span: TraceSpan


class Sink(Protocol):
    """Where telemetry goes."""

    async def export(self, spans: Sequence[SentSpan]) -> None:
        """Send spans. Raises TelemetryError: they were not taken."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    """Spans of one generation of one session, and the label of all that they may tell of."""

    sid: str
    generation: int
    label: Label
    spans: tuple[SentSpan, ...]


@dataclass(slots=True)
class TurnTrace:
    """The trace of a turn: `ended` is the reason of its end, empty while it goes on elsewhere or later."""

    ended: str = ""


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """A turn that a process begins to work on.

    `started_at` is when it began and `accepted_at` when its input came, None if an earlier claim let that in; both in
    milliseconds since the epoch. `attempt` counts its claims, and `channel` is its home's. `label` returns the label of
    all that the session has read by now.
    """

    state: SessionState
    turn: str
    started_at: int
    accepted_at: int | None
    attempt: int
    channel: str
    label: Callable[[], Label]


class Telemetry:
    """Tells a sink of turns. `clearance` is the sink's, `key` makes the ids; without a sink nothing is traced.

    `sink` is asked for when it is first needed.
    """

    def __init__(
        self, sessions: SessionStore, clock: Clock, *, key: bytes, clearance: Label, sink: Callable[[], Sink] | None
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._key = hmac.digest(key, b"lockgate telemetry 1", hashlib.sha256)
        self._clearance = clearance
        self._make_sink = sink
        self._sink: Sink | None = None
        self._waiting: asyncio.Queue[_Part] = asyncio.Queue(_MOST_WAITING)
        self._failing = False
        self._beside: Telemetry | None = None

    @property
    def on(self) -> bool:
        """Whether anything is traced."""
        return self._make_sink is not None or self._beside is not None

    def also(self, sink: Sink, clearance: Label) -> None:
        """Tell one more sink the same, up to a clearance of its own; at most one, before anything is served."""
        self._beside = Telemetry(self._sessions, self._clock, key=self._key, clearance=clearance, sink=lambda: sink)

    @contextmanager
    def turn(self, begun: TracedTurn) -> Generator[TurnTrace]:
        """Trace the work of a block for a turn: from when its input came until it ends or waits for people."""
        trace = TurnTrace()
        if not self.on:
            yield trace
            return
        recorder = Recorder(Stopwatch(self._clock))
        start = recorder.watch.now()
        try:
            with recording(recorder):
                yield trace
        finally:
            self.note(self._turn_part(begun, trace.ended, recorder, start))

    def stopwatch(self) -> Stopwatch | None:
        """Return a stopwatch for a delivery, None where nothing is traced."""
        return Stopwatch(self._clock) if self.on else None

    def delivered(self, delivery: Delivery, state: DeliveryState, start: int, end: int) -> None:
        """Note the outcome of a turn's delivery; times are nanoseconds since the epoch."""
        if not self.on or not delivery.turn:
            return
        facts: dict[str, Fact] = {
            "session.id": delivery.sid,
            "turn.id": delivery.turn,
            "generation": delivery.generation,
            "channel": delivery.address.partition(":")[0],
        }
        # How another session takes it is that one's to tell, and it may be above the sink (law `no_read_up`).
        if facts["channel"] != SESSION:
            facts |= {"attempt": delivery.attempt, "state": state.value}
        trace = self._trace(delivery.sid, delivery.turn)
        root = self._span_id(trace, "turn")
        told = TraceSpan("deliver", start, end, facts)
        sent = SentSpan(trace, self._span_id(trace, f"deliver {delivery.key} {start}"), root, told)
        self.note(_Part(delivery.sid, delivery.generation, delivery.label, (sent,)))

    async def serve(self) -> None:
        """Send traces, until cancelled."""
        if not self.on:
            return
        async with asyncio.TaskGroup() as tasks:
            if self._beside is not None:
                tasks.create_task(self._beside.serve())
            while True:
                parts = [await self._waiting.get()]
                await self._send(self._more(parts))

    async def close(self) -> None:
        """Send the remaining traces, if the sink takes them within a moment, and let go of the sink."""
        if not self._waiting.empty() and not self._failing:
            with anyio.move_on_after(_PATIENCE):
                while not self._waiting.empty():
                    await self._send(self._more([]))
        if self._sink is not None:
            await self._sink.close()
        if self._beside is not None:
            await self._beside.close()

    def _more(self, parts: list[_Part]) -> list[_Part]:
        while len(parts) < _MOST_AT_ONCE and not self._waiting.empty():
            parts.append(self._waiting.get_nowait())
        return parts

    def note(self, part: _Part) -> None:
        """Let a part wait to be sent, if its session may be told of."""
        if self._beside is not None:
            self._beside.note(part)
        if self._make_sink is None or not part.label.flows_to(self._clearance):
            return
        try:
            self._waiting.put_nowait(part)
        except asyncio.QueueFull:
            self._failed("it takes too long")

    async def _send(self, parts: list[_Part]) -> None:
        """Send parts that the sink is cleared for; they are dropped if it does not take them."""
        try:
            await self._tried(parts)
        except (StoreError, TelemetryError) as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - telemetry must not end its turns
            self._failed(type(error).__name__)

    async def _tried(self, parts: list[_Part]) -> None:
        """Send the permitted spans of parts, decided anew before each try.

        Raises TelemetryError: it was not taken, however often.
        """
        for left in reversed(range(_TRIES)):
            spans = [sent for part in await self._allowed(parts) for sent in part.spans]
            if not spans:
                return
            if self._sink is None and self._make_sink is not None:
                # Its libraries are large, and no caller waits for it.
                self._sink = await asyncio.to_thread(self._make_sink)
            try:
                if self._sink is not None:
                    await self._sink.export(spans)
                break
            except TelemetryError:
                if not left or self._failing:
                    raise
                await asyncio.sleep(_WAIT)
        if self._failing:
            self._failing = False
            _LOGGER.info("traces are exported again")

    async def _allowed(self, parts: list[_Part]) -> list[_Part]:
        """Return the parts whose sessions the sink is cleared for, as the store has them now.

        A part of an older generation is dropped: that generation's taint is no longer known.
        """
        clear = set[tuple[str, int]]()
        for sid in dict.fromkeys(part.sid for part in parts):
            state = await self._sessions.state(sid)
            if state is not None and state.visibility.flows_to(self._clearance):
                clear.add((sid, state.generation))
        return [part for part in parts if (part.sid, part.generation) in clear]

    def _failed(self, why: str) -> None:
        """Log that traces are lost, once until they are taken again."""
        if not self._failing:
            self._failing = True
            _LOGGER.warning("traces are not exported", extra={"subject": "telemetry", "cause": why})

    def _turn_part(self, begun: TracedTurn, ended: str, recorder: Recorder, start: int) -> _Part:
        """Return all spans of a block: the turn itself once it ends, and the block's own spans below it."""
        trace, end = self._trace(begun.state.sid, begun.turn), recorder.watch.now()
        root, this = self._span_id(trace, "turn"), self._span_id(trace, f"claim {start}")
        facts: dict[str, Fact] = {
            "session.id": begun.state.sid,
            "turn.id": begun.turn,
            "generation": begun.state.generation,
            "channel": begun.channel,
            "attempt": begun.attempt,
        }
        spans = [SentSpan(trace, this, root, TraceSpan("claim", start, end, facts))]
        if begun.accepted_at is not None:
            accepted = TraceSpan("accept", begun.accepted_at * _MS, max(begun.accepted_at * _MS, start), facts)
            spans.append(SentSpan(trace, self._span_id(trace, f"accept {start}"), root, accepted))
        if ended:
            first = min((begun.started_at if begun.accepted_at is None else begun.accepted_at) * _MS, start)
            spans.append(SentSpan(trace, root, None, TraceSpan("turn", first, end, {**facts, "ended": ended})))
        for number, span in enumerate(recorder.spans):
            spans.append(SentSpan(trace, self._span_id(trace, f"{number} {start}"), this, span))
        return _Part(begun.state.sid, begun.state.generation, begun.state.visibility.join(begun.label()), tuple(spans))

    def _trace(self, sid: str, turn: str) -> bytes:
        return hmac.digest(self._key, f"{sid}\0{turn}".encode("utf-8", "surrogatepass"), hashlib.sha256)[:16]

    def _span_id(self, trace: bytes, name: str) -> bytes:
        return hmac.digest(self._key, trace + name.encode("utf-8", "surrogatepass"), hashlib.sha256)[:8]
