"""Spans: the durations and decisions of the parts of a turn, noted where they happen.

A traced turn opens a `Recorder`; all code that works for it notes its spans there, also in tasks that it begins.
Without tracing, a span costs one look at a context variable. This module sends nothing: `bot.telemetry` decides which
spans may leave. A span holds counts, verdicts, ids of rules and names from the configuration, and never a text.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from bot.core.clock import Clock

Fact: TypeAlias = str | int | bool
"""The value of a fact of a span."""

_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A part of a turn: `start` and `end` are nanoseconds since the epoch, `error` the kind of error that ended it."""

    name: str
    start: int
    end: int
    facts: Mapping[str, Fact]
    error: str = ""


class Stopwatch:
    """Tells the time in nanoseconds since the epoch; once made, it ignores changes of the machine's clock."""

    __slots__ = ("_clock", "_monotonic", "_wall")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.wall_ms() * _MS
        self._monotonic = clock.monotonic()

    def now(self) -> int:
        """Return nanoseconds since the epoch."""
        return self._wall + int((self._clock.monotonic() - self._monotonic) * _SECOND)


@dataclass(slots=True)
class Recorder:
    """Collects the spans of one turn."""

    watch: Stopwatch
    spans: list[TraceSpan] = field(default_factory=list[TraceSpan])


class OpenSpan:
    """A span that is still open; its facts are kept when it ends."""

    __slots__ = ("_error", "_facts", "_name", "_recorder", "_secret", "_start")

    def __init__(self, recorder: Recorder | None, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._facts = dict[str, Fact]()
        self._start = 0 if recorder is None else recorder.watch.now()
        self._error = ""
        self._secret = False

    def tell(self, **facts: Fact) -> None:
        """Add facts."""
        if self._recorder is not None:
            self._facts |= facts

    def conceal(self) -> None:
        """Let the span show that it happened, and neither its duration nor its error."""
        self._secret = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if self._recorder is None:
            return
        error = "" if kind is None or self._secret else kind.__name__
        end = self._start if self._secret else self._recorder.watch.now()
        self._recorder.spans.append(TraceSpan(self._name, self._start, end, self._facts, error))


_CURRENT: Final = ContextVar[Recorder | None]("lockgate_trace", default=None)


def span(name: str) -> AbstractContextManager[OpenSpan]:
    """Note a block as a span of the turn it works for, if that is traced."""
    return OpenSpan(_CURRENT.get(), name)


@contextmanager
def recording(recorder: Recorder | None) -> Generator[None]:
    """Note the spans of a block, and of the tasks begun in it, in `recorder`; None traces nothing."""
    token = _CURRENT.set(recorder)
    try:
        yield
    finally:
        _CURRENT.reset(token)
