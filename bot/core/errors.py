"""Errors of the application, sorted by who can act.

LockgateError                carries a stable `code`, one plain sentence and, where there is one, the next step
├── OperatorError            the operator mends it: configuration, store, files; exit code 2
│   ├── ConfigError          config.yaml cannot be put in force
│   ├── DiskError            a file cannot be read or written now
│   └── WriterBusyError      another process writes there at this moment
├── StoreError               the store cannot be used; the operator mends it, too; exit code 2
│   ├── StoreGoneError       it does not answer; the only one worth retrying
│   ├── StoreRefusedError    it answers and refuses: full, read-only, no permission
│   ├── SealedError          another process has a newer session key
│   ├── OtherKeysError       this process has other keys than the installation
│   └── SchemaError          its records are of another version
├── RequestError             the caller mends it; shown to them as it is
│   ├── DedupeConflictError  the same key with another body
│   ├── BusyError            a limit, quota or lock; one constant sentence (law `no_read_up`)
│   ├── FullError            a limit of kept items; waiting does not help, the next step makes room
│   ├── ChangedSkillError    a person decides about a text that is not the one that waits
│   ├── CursorError          a cursor that this caller was not given at this level
│   ├── NotFoundError        absent or not theirs; one constant sentence (law `no_read_up`)
│   ├── ForeignError         the session there belongs to another principal; the same sentence
│   ├── ArchivedError        a session that is archived; it is read and not changed
│   ├── DeletedError         a session that was deleted; the sentence of NotFoundError
│   └── IllegalMoveError     a status that may not follow another, or does not allow an operation
├── GrantEndedError          a grant that covers no call any more; nothing was written
├── AskedError               an input that may answer an agent's question; it was not accepted
├── ElsewhereError           the channel is served by another process, which is left its work
├── UnsettledError           another part of a waiting message may arrive in a moment
├── WornError                a session was claimed too often without a write
└── LeaseLostError           another worker took over; the turn stops and writes nothing
    ├── ResetError           the session was reset while the turn ran
    └── WithdrawnError       the input to take does not wait any more
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, Literal, cast

EXIT_OPERATOR: Final = 2
"""Exit code of the command line for an error the operator can mend."""


class LockgateError(Exception):
    """Base of all; `code` is stable, `str()` is one sentence, `next_step` is the step that helps, empty for none."""

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
    """The store answers and refuses; `alone` tells whether it refuses this request, and may take others."""

    code = "store_refused"

    def __init__(self, message: str, *, next_step: str = "", alone: bool = False) -> None:
        super().__init__(message, next_step=next_step)
        self.alone = alone


UNREADABLE: Final = "upgrade lockgate if a newer version wrote them, else restore the store from a backup"
"""The operator's step for records that this program cannot read."""


class SealedError(StoreError):
    """No session begins under an id: a process that knows a newer session key named that place."""

    code = "sealed"

    def __init__(self) -> None:
        super().__init__(
            "another process has a newer session key, which this process does not know",
            next_step="put it into LOCKGATE_SESSION_KEY, before the others, or into `keys`, and restart this process",
        )


class OtherKeysError(StoreError):
    """This process lacks a key of the installation, or uses an older one than the installation does."""

    code = "other_keys"


class SchemaError(StoreError):
    """The store holds records that this program cannot read: of a newer version, or damaged."""

    code = "schema"


class RequestError(LockgateError):
    """The caller can mend it."""

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
    """A principal and label has its most memories, skills, workflows or workflow events.

    The sentence is constant for each, so that it reveals nothing about others. Waiting does not help.
    """

    code = "full"

    def __init__(self, kept: Literal["memories", "skills", "workflows", "events"]) -> None:
        told, room = _FULL[kept]
        super().__init__(f"as many {told}", next_step=room)


class ChangedSkillError(RequestError):
    """A person decides about a skill whose text is not the one that they were shown."""

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
    """A session is archived, or a background session has ended: it can be read, and accepts nothing more."""

    code = "archived"

    def __init__(self) -> None:
        super().__init__("that session is archived: it can be read, and nothing about it can be changed")


class ForeignError(RequestError):
    """The session there belongs to another principal; the writer has, or begins, one of their own."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__(_NOT_FOUND)


class CursorError(RequestError):
    """A cursor is invalid, or was given to another caller or at another level; the sentence is the same for all."""

    code = "cursor"

    def __init__(self) -> None:
        super().__init__("this cursor is not one of this list at this level, begin at the first page")


class DeletedError(RequestError):
    """A session was deleted. Its chat continues in another; any other caller is told that there is none."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__(str(NotFoundError()))


class IllegalMoveError(RequestError):
    """A session's status may not change like this, or does not allow the operation."""

    code = "illegal_move"

    def __init__(self, before: str, after: str = "", *, because: str = "") -> None:
        done = f"become `{after}`" if after else "do this"
        super().__init__(f"a session that is `{before}` cannot {done}{f', {because}' if because else ''}")


class GrantEndedError(LockgateError):
    """A grant covers no call any more, so nothing was written: the call is decided again without it."""

    code = "grant_ended"

    def __init__(self) -> None:
        super().__init__("the grant covers no call any more")


class AskedError(LockgateError):
    """An agent may have asked the sender of an input a question, which it may answer; it was not accepted."""

    code = "asked"


class ElsewhereError(LockgateError):
    """The operation needs a channel that this process does not serve."""

    code = "elsewhere"

    def __init__(self) -> None:
        super().__init__("this channel is served by another process")


class UnsettledError(LockgateError):
    """Another part of a waiting message may arrive within `seconds`."""

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
    """The session was reset while the turn ran; the turn's results are dropped."""

    code = "reset"


class WithdrawnError(LeaseLostError):
    """The input that a turn was about to take does not wait any more; the turn may continue without it."""

    code = "withdrawn"


def in_words(error: LockgateError) -> str:
    """Return an error as one line for operators and models: the problem, and the next step if there is one."""
    return f"{error}; {error.next_step}" if error.next_step else str(error)


def in_sentences(error: LockgateError) -> str:
    """Return an error as people in a chat read it: a sentence for the problem, and one for the next step."""
    return " ".join(filter(None, (sentence(str(error)), sentence(error.next_step))))


def sentence(text: str) -> str:
    """Return an error's words as people are shown them: they begin with a capital and end with a full stop."""
    ended = text if text.endswith(("?", ".", "!")) else f"{text}."
    return f"{ended[0].upper()}{ended[1:]}" if text else ""


_MOST_CAUSES: Final = 50


def causes(error: BaseException, *, suppressed: bool) -> Iterator[BaseException]:
    """Yield an error and its causes, nearest first, at most fifty.

    With `suppressed` also those that a `from None` or another cause conceals.
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
