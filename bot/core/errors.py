"""Errors of the application, sorted by who can act.

LockgateError                carries a stable `code`, one plain sentence and, where there is one, the next step
├── OperatorError            the operator mends it: configuration, store, files; exit code 2
│   ├── ConfigError          config.yaml cannot be put in force
│   ├── DiskError            a file cannot be read or written now
│   └── WriterBusyError      another process writes there at this moment
├── StoreError               the store cannot be used; the operator mends it, too; exit code 2
│   ├── StoreGoneError       it does not answer; the only one worth retrying
│   ├── StoreRefusedError    it answers and refuses: full, read-only, no permission
│   └── SchemaError          its records are of another version
├── RequestError             whoever asked mends it; shown to them as it is
│   ├── DedupeConflictError  the same key with another body
│   ├── BusyError            a limit, quota or lock; one constant sentence (law `no_read_up`)
│   ├── FullError            as many are kept as may be; what makes room is the next step, not waiting
│   ├── ChangedSkillError    a person decides about a text that is not the one that waits
│   ├── CursorError          a page's cursor that was not given to whoever asks, at the level of the question
│   ├── NotFoundError        absent or not theirs; one constant sentence (law `no_read_up`)
│   ├── ForeignError         the session there belongs to another principal; the same sentence
│   ├── ArchivedError        a session that is archived; it is read and not changed
│   ├── DeletedError         a session that was deleted; the sentence of NotFoundError
│   └── IllegalMoveError     a status that may not follow another, or does not allow something
├── ElsewhereError           the channel is served by another process, which is left its work
├── UnsettledError           more of what waits in a session may come in a moment
├── WornError                a session was claimed too often without anything being written
└── LeaseLostError           another worker took over; the turn stops and writes nothing
    ├── ResetError           the session was reset while the turn ran
    └── WithdrawnError       the input that was to be taken does not wait any more
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, Literal, cast

EXIT_OPERATOR: Final = 2
"""Exit code of the command line for an error the operator can mend."""


class LockgateError(Exception):
    """Base of all; `code` is stable, `str()` is one sentence, `next_step` says what to do."""

    code = "error"

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class OperatorError(LockgateError):
    """The operator can mend it."""

    code = "operator"


class ConfigError(OperatorError):
    """The configuration cannot be put in force."""

    code = "config"


class DiskError(OperatorError):
    """A file cannot be read or written now; it can be once there is room or access again."""

    code = "disk"


class WriterBusyError(OperatorError):
    """Another process writes there at this moment."""

    code = "writer_busy"


class StoreError(LockgateError):
    """The store cannot be used; the operator can mend it."""

    code = "store"


class StoreGoneError(StoreError):
    """The store does not answer."""

    code = "store_gone"


class StoreRefusedError(StoreError):
    """The store answers and refuses."""

    code = "store_refused"


UNREADABLE: Final = "upgrade lockgate if a newer version wrote them, else restore the store from a backup"
"""What operators do about records that this program cannot read."""


class SchemaError(StoreError):
    """The store holds records that this program cannot read: of a newer version, or damaged."""

    code = "schema"


class RequestError(LockgateError):
    """Whoever asked can mend it."""

    code = "request"


class DedupeConflictError(RequestError):
    """The same key came with another body."""

    code = "conflict"

    def __init__(
        self, message: str = "the same input came before with another content", *, next_step: str = ""
    ) -> None:
        super().__init__(message, next_step=next_step)


class BusyError(RequestError):
    """A limit, quota or lock; the sentence is constant so that it tells nothing about others."""

    code = "busy"

    def __init__(self) -> None:
        super().__init__("busy, try again in a moment")


_FULL: Final = MappingProxyType(
    {
        "memories": ("memories as may be are kept at this label (`knowledge.memories`)", "forget one first"),
        "skills": (
            "skills as may be are kept at this label (`knowledge.skills`)",
            "reject a draft first, or update a skill in place of a new one",
        ),
        "workflows": ("workflows as may be are kept at this label", "go on with one of them"),
        "events": ("events as may be are kept of this workflow at this label", "begin another workflow"),
    }
)


class FullError(RequestError):
    """As many memories, skills, workflows or their events are kept of a principal and label as may be.

    The sentence is constant for each, so that it tells nothing about others. Waiting does not help.
    """

    code = "full"

    def __init__(self, kept: Literal["memories", "skills", "workflows", "events"]) -> None:
        told, room = _FULL[kept]
        super().__init__(f"as many {told}", next_step=room)


class ChangedSkillError(RequestError):
    """Somebody decides about a skill whose text is not the one that they were shown."""

    code = "conflict"

    def __init__(self) -> None:
        super().__init__("that skill changed meanwhile", next_step="look at it again")


_NOT_FOUND: Final = "there is nothing of that name here"


class NotFoundError(RequestError):
    """Absent or not theirs: the sentence is the same for both, and so is the next step, where there is one."""

    code = "not_found"

    def __init__(self, *, next_step: str = "") -> None:
        super().__init__(_NOT_FOUND, next_step=next_step)


class ArchivedError(RequestError):
    """A session is archived, or a background one has ended: what it did can be read, and nothing more is taken in."""

    code = "archived"

    def __init__(self) -> None:
        super().__init__("that session is archived: it can be read, and nothing about it can be changed")


class ForeignError(RequestError):
    """The session there belongs to another principal; the writer has one of their own, or begins it."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__(_NOT_FOUND)


class CursorError(RequestError):
    """A cursor that is none, or was given to somebody else or at another level; the sentence is the same for all."""

    code = "cursor"

    def __init__(self) -> None:
        super().__init__("this cursor is not one of this list at this level, begin at the first page")


class DeletedError(RequestError):
    """A session was deleted. Its chat goes on in another; any other caller is told that there is none."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__(str(NotFoundError()))


class IllegalMoveError(RequestError):
    """A session's status may not move like this, or does not allow what was asked for."""

    code = "illegal_move"

    def __init__(self, before: str, after: str = "", *, because: str = "") -> None:
        done = f"become `{after}`" if after else "do this"
        super().__init__(f"a session that is `{before}` cannot {done}{f', {because}' if because else ''}")


class AskedError(LockgateError):
    """An agent may have asked the sender of an input something, so it may be the answer; it was not taken in."""

    code = "asked"


class ElsewhereError(LockgateError):
    """Something is on a channel that this process does not serve."""

    code = "elsewhere"

    def __init__(self) -> None:
        super().__init__("this channel is served by another process")


class UnsettledError(LockgateError):
    """More of what waits in a session may come in a moment; `seconds` is how long that is."""

    code = "unsettled"

    def __init__(self, seconds: float) -> None:
        super().__init__("more may come in a moment")
        self.seconds = seconds


class WornError(LockgateError):
    """A session was claimed `claims` times and nothing was written: it may end every process that takes it."""

    code = "worn"

    def __init__(self, claims: int) -> None:
        super().__init__(f"the session was taken {claims} times, and nothing was written")
        self.claims = claims


class LeaseLostError(LockgateError):
    """The fence is stale: another worker has the session."""

    code = "lease_lost"


class ResetError(LeaseLostError):
    """The session was reset while the turn ran; what the turn made is dropped."""

    code = "reset"


class WithdrawnError(LeaseLostError):
    """The input that a turn was about to take does not wait any more; the turn may go on without it."""

    code = "withdrawn"


def in_words(error: LockgateError) -> str:
    """Return an error as one who can mend it is told of it: what is wrong, and the next step if there is one."""
    return f"{error}; {error.next_step}" if error.next_step else str(error)


_MOST_CAUSES: Final = 50


def causes(error: BaseException, *, suppressed: bool) -> Iterator[BaseException]:
    """Yield an error and what led to it, nearest first, at most fifty.

    With `suppressed` also what a `from None` or another cause conceals.
    """
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _MOST_CAUSES:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
        hidden = one.__suppress_context__ and not suppressed
        waiting += [led for led in (one.__cause__, None if hidden else one.__context__) if led is not None]
