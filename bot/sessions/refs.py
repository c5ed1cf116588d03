"""References to sources, stored beside the values that came from them, for lineage.

A reference names a record of the store or a file, and holds nothing of its content. It is for the program alone. It has
no label of its own, so it is shown only together with the value it stands beside, and no decision depends on it.
`bot.lineage` shows the named source to readers who may know of it.

References are written as texts separated by blanks, each a letter and a name. A kind that this program does not know is
kept as it is.
"""

import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes


@dataclass(frozen=True, slots=True)
class EventsRef:
    """Events of the same session, from the seq `first` to `last`; `session` names another one, empty for the same."""

    first: int
    last: int
    session: str = ""


@dataclass(frozen=True, slots=True)
class InputRef:
    """An input that the session accepted, by its dedupe key."""

    dedupe: str


@dataclass(frozen=True, slots=True)
class CallRef:
    """A tool call, by its id; `session` names another session whose call it is."""

    call: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class HeldRef:
    """A result that is kept out of the context, by its reference."""

    ref: str


@dataclass(frozen=True, slots=True)
class ApprovalRef:
    """A question to people, by its id."""

    approval: str


@dataclass(frozen=True, slots=True)
class ObservedRef:
    """Texts observed in the chat, up to an id."""

    upto: str


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of a folder, by its path, in the version that has this digest."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A memory of the session's principal, by its id."""

    memory: str


@dataclass(frozen=True, slots=True)
class SkillRef:
    """A skill of the session's principal, by its id."""

    skill: str


@dataclass(frozen=True, slots=True)
class ScheduleRef:
    """A schedule or reminder, by its id."""

    schedule: str


@dataclass(frozen=True, slots=True)
class WorkflowRef:
    """The state of a principal's workflow: its first `upto` events within a label."""

    principal: str
    project: str
    label: str
    upto: str


@dataclass(frozen=True, slots=True)
class UnknownRef:
    """A reference of a kind that this program does not know, in its written form."""

    written: str


Ref: TypeAlias = (
    EventsRef
    | InputRef
    | CallRef
    | HeldRef
    | ApprovalRef
    | ObservedRef
    | FileRef
    | MemoryRef
    | SkillRef
    | ScheduleRef
    | WorkflowRef
    | UnknownRef
)

_KINDS: Final = MappingProxyType(
    {
        "i": InputRef,
        "c": CallRef,
        "h": HeldRef,
        "a": ApprovalRef,
        "o": ObservedRef,
        "f": FileRef,
        "m": MemoryRef,
        "s": SkillRef,
        "t": ScheduleRef,
        "w": WorkflowRef,
    }
)

_LETTERS: Final = MappingProxyType({kind: letter for letter, kind in _KINDS.items()})

_EVENTS: Final = re.compile(r"e([0-9]+)(?:-([0-9]+))?(?:@(.+))?")


def written(refs: Iterable[Ref]) -> str:
    """Write references, each of them once."""
    return " ".join(dict.fromkeys(map(_written, refs)))


def read(text: str) -> tuple[Ref, ...]:
    """Read references from the text that `written` gave."""
    return tuple(map(_read, text.split()))


def elsewhere(refs: Iterable[Ref], session: str) -> tuple[Ref, ...]:
    """Return the references of one session as another session writes them: to its events, calls and files."""
    found = list[Ref]()
    for ref in refs:
        match ref:
            case EventsRef(first, last, ""):
                found.append(EventsRef(first, last, session))
            case CallRef(call, ""):
                found.append(CallRef(call, session))
            case EventsRef() | CallRef() | FileRef():
                found.append(ref)
            case _:
                pass
    return tuple(found)


def _written(ref: Ref) -> str:
    match ref:
        case UnknownRef():
            return ref.written
        case EventsRef(first, last, session):
            return f"e{first}" + (f"-{last}" if last != first else "") + (f"@{_quoted(session)}" if session else "")
        case _:
            parts = [_quoted(part) for part in astuple(ref)]
            return _LETTERS[type(ref)] + "@".join(parts).removesuffix("@")


def _read(text: str) -> Ref:
    kind = _KINDS.get(text[:1])
    try:
        if found := _EVENTS.fullmatch(text):
            first, last, session = found.groups()
            return EventsRef(int(first), int(last or first), _unquoted(session or ""))
        parts = list(map(_unquoted, text[1:].split("@")))
    except ValueError:
        return UnknownRef(text)
    if kind is None or not 0 <= len(fields(kind)) - len(parts) <= 1:
        return UnknownRef(text)
    return kind(*parts, *[""] * (len(fields(kind)) - len(parts)))


def _quoted(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="/")


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "surrogatepass")
