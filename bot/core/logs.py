"""The operational log on standard error, for operators while Lockgate runs: readable or as JSON.

All modules log by the standard library, so that log lines of libraries take the same way. A line names an event in a
constant, with facts beside it. Above the level `debug` it holds no text of a person. Of an error's words it has only
our own, and of a library's line only its place in the source. Values of secrets are removed from every line.

Lines are made and written in a thread of its own. A reader that stops reading blocks no other work: then lines are
dropped and counted. structlog renders them; it is imported when the log begins.
"""

import logging
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from queue import SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from bot.core.errors import LockgateError, causes
from channels.port import ChannelError

if TYPE_CHECKING:
    from structlog.typing import Processor

OURS: Final = ("bot", "channels")
"""The loggers of our own modules."""

FACTS: Final = (
    *("subject", "cause", "address", "step", "destination", "state", "attempt", "tool", "kind", "where"),
    *("reference", "reason", "outcome", "policy", "store", "role", "channels", "seconds"),
)
"""The facts that a line may have beside its event; other ones may hold a person's words, and need a debug line."""

LOST: Final = "lines of the log were lost, since nobody read them"
UNTOLD: Final = "a library logged this"
BROKE: Final = "this process ends by an error"

_MOST_WAITING: Final = 5_000
_MINUTE: Final = 60.0
_MOST_KNOWN: Final = 500
_LONGEST: Final = 20_000
_MOST_CAUSES: Final = 20
_PATIENCE: Final = 2.0
_SEEN: Final = "_lockgate_logged"

_BOUND: Final = ContextVar[Mapping[str, str]]("lockgate_log", default=MappingProxyType({}))

Write = Callable[[str], None]
"""Writes lines, each with its end; called in a thread."""

Scrub = Callable[[str], str]
"""Takes the values of secrets out of a text."""


class LogLevel(StrEnum):
    """The least level of our own lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Binding:
    """A block in which facts are bound. Every message enters several; a generator would take thrice as long."""

    __slots__ = ("_facts", "_token")

    def __init__(self, facts: Mapping[str, str]) -> None:
        self._facts = facts
        self._token: Token[Mapping[str, str]] | None = None

    def __enter__(self) -> None:
        self._token = _BOUND.set({**_BOUND.get(), **self._facts})

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _BOUND.reset(self._token)


def bound(**facts: str) -> AbstractContextManager[None]:
    """Put facts into every line that is logged in a block, and by the tasks that are begun in it."""
    return _Binding(facts)


def in_session() -> bool:
    """Say whether the running code works for a session."""
    return "session" in _BOUND.get()


@contextmanager
def logging_to(write: Write, level: str, scrub: Callable[[], Scrub], *, readable: bool) -> Generator[None]:
    """Write the log in a block; at the end all lines are written, unless the reader stopped reading.

    An unforeseen error is logged, and ends the program.

    Args:
        write: Writes lines.
        level: The least level of our own lines; of libraries, warnings are written.
        scrub: Makes the function that removes secrets, when a line needs it.
        readable: Whether lines are for people; otherwise they are JSON.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    writer = _Writer(write, scrub, readable=readable, words=least <= logging.DEBUG)
    handler, root = _Taking(writer, least), logging.getLogger()
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in OURS}
    hook = threading.excepthook
    for logger in loggers:
        # The handlers that remember failures get them, at any level of the log.
        logger.setLevel(min(least, logging.WARNING))
    writer.start()
    root.addHandler(handler)
    threading.excepthook = _in_thread
    try:
        yield
    except Exception as error:
        if _foreseen(error) is not None:
            raise
        logging.getLogger(__name__).critical(BROKE, exc_info=True)
        raise SystemExit(1) from None
    finally:
        root.removeHandler(handler)
        threading.excepthook = hook
        for logger, before in loggers.items():
            logger.setLevel(before)
        writer.stop()


@dataclass(frozen=True, slots=True)
class _Line:
    """A record with the facts that are known only where it was logged: bound facts, and those of its exception."""

    record: logging.LogRecord
    bound: Mapping[str, str]
    cause: str
    trace: str
    words: str


class _Taking(logging.Handler):
    """Takes records where they are logged, and leaves the rest to the writer's thread."""

    def __init__(self, writer: "_Writer", least: int) -> None:
        super().__init__(least)
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record. A traceback is read now, as it grows while its exception goes on."""
        error = record.exc_info[1] if record.exc_info else None
        cause = trace = words = ""
        if error is not None:
            foreseen = _foreseen(error)
            cause = type(error).__name__ if foreseen is None else str(foreseen)
            if foreseen is None and not getattr(error, _SEEN, False):
                error.__dict__[_SEEN] = True
                trace = _traced(error)
                words = "".join(traceback.format_exception(error)) if self._writer.words else ""
        self._writer.take(_Line(record, _BOUND.get(), cause, trace, words))


class _Writer:
    """Makes lines of records and writes them, in a thread of its own. `words` are for debug lines."""

    def __init__(self, write: Write, scrub: Callable[[], Scrub], *, readable: bool, words: bool) -> None:
        self.words = words
        self._write = write
        self._make_scrub = scrub
        self._readable = readable
        self._waiting: SimpleQueue[_Line | None] = SimpleQueue()
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._repeats = _Repeats()

    def take(self, line: _Line) -> None:
        """Leave a line to the thread, unless too many wait for it."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(line)
        else:
            self._lost += 1

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write the waiting lines."""
        self._waiting.put(None)
        # A reader that stopped reading does not keep a process from ending.
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        line = self._waiting.get()
        if line is None:
            return
        scrub, render = self._make_scrub(), _renderer(readable=self._readable)
        while line is not None:
            self._put(scrub, render, line)
            line = self._waiting.get()

    def _put(self, scrub: Scrub, render: "Processor", line: _Line) -> None:
        lost, self._lost = self._lost, 0
        told = _facts(line)
        if lost:
            self._out(scrub, render, {**told, "event": LOST, "lost": lost})
        again = self._repeats.of(told, line.record.created)
        if again is None:
            return
        self._out(scrub, render, {**told, **({"repeated": again} if again else {})})
        if self.words and (said := _words(line)):
            self._out(scrub, render, {**told, "level": "debug", "words": said})

    def _out(self, scrub: Scrub, render: "Processor", told: Mapping[str, str | int]) -> None:
        clean = {name: _line(scrub(one)) if isinstance(one, str) else one for name, one in told.items()}
        # A reader that left gets nothing more.
        with suppress(OSError, ValueError):
            self._write(f"{render(None, '', clean)}\n")


class _Repeats:
    """Counts equal lines within a minute, so that a loop that fails all the time does not fill the disk."""

    def __init__(self) -> None:
        self._known: dict[frozenset[tuple[str, str | int]], tuple[float, int]] = {}

    def of(self, told: Mapping[str, str | int], now: float) -> int | None:
        """Return how often a line was left out since it was written, None if it is left out too; `now` is in s."""
        key = frozenset((name, one) for name, one in told.items() if name != "timestamp")
        since, count = self._known.pop(key, (0.0, 0))
        if now - since < _MINUTE:
            self._known[key] = (since, count + 1)
            return None
        self._known[key] = (now, 0)
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return count


def _facts(line: _Line) -> dict[str, str | int]:
    """Return the facts of a line."""
    record = line.record
    mine = record.name.partition(".")[0] in OURS
    given = record.__dict__
    told: dict[str, str | int] = {
        "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        # With arguments it is a template; else others may have put anything into it.
        "event": str(record.msg) if mine or record.args else UNTOLD,
        "logger": record.name,
        "process": record.process or 0,
        **line.bound,
    }
    told |= {name: _plain(given[name]) for name in FACTS if given.get(name) not in (None, "")}
    if not mine:
        told["where"] = f"{record.filename}:{record.lineno}"
    if line.cause:
        told.setdefault("cause", line.cause)
    if line.trace:
        told["exception"] = line.trace
    return told


def _words(line: _Line) -> str:
    """Return the words of others in a line, for a debug line."""
    mine = line.record.name.partition(".")[0] in OURS
    said = "" if mine else line.record.getMessage()
    return "\n".join(filter(None, (said, line.words)))


def _plain(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)


def _line(text: str) -> str:
    """Return a text without characters that control a terminal; a traceback keeps its lines."""
    shown = text if text.isprintable() else "".join(one if one.isprintable() or one == "\n" else " " for one in text)
    return shown[:_LONGEST]


def _renderer(*, readable: bool) -> "Processor":
    """Return the renderer of lines. It takes a moment to load."""
    if readable:
        from structlog.dev import ConsoleRenderer, plain_traceback

        return ConsoleRenderer(colors=False, exception_formatter=plain_traceback)
    from structlog.processors import JSONRenderer

    return JSONRenderer()


def _foreseen(error: BaseException) -> BaseException | None:
    """Return the error of ours that an exception is or holds, None if there is none; its words are ours."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((found for one in inner if (found := _foreseen(one)) is not None), None)
    return error if isinstance(error, LockgateError | ChannelError | BrokenPipeError) else None


def _traced(error: BaseException) -> str:
    """Return an exception and its causes, the first cause first, without their messages."""
    parts = list[str]()
    for one in islice(causes(error, suppressed=False), _MOST_CAUSES):
        said = f": {one}" if isinstance(one, LockgateError | ChannelError) else ""
        if isinstance(one, OSError) and one.strerror:
            said = f": {one.strerror}"
        parts.append(f"{''.join(traceback.format_tb(one.__traceback__))}{type(one).__name__}{said}")
    return "\n".join(reversed(parts))


def _in_thread(ended: threading.ExceptHookArgs) -> None:
    """Log the exception that ended a thread."""
    if ended.exc_value is not None:
        error = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        logging.getLogger(__name__).error("a thread ended by an error", exc_info=error)
