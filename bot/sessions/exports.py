"""An export of a session as bytes: JSON lines, each chained to the one before, and a last one that signs them all.

The first line is the header; each further line is an entry. Each has a `sum` over the one before it and itself, which
tells where a file was changed. The signature covers the exact bytes before it, by Ed25519: another installation that
knows the public key can check it and cannot make one. No content of a file is trusted before its signature is checked
(law `labels_are_never_parsed_from_content`). Every line must be in canonical form; an equivalent line in another form
is refused. No decision is made here.
"""

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from pydantic import JsonValue

from bot.core.clock import LAST_MS
from bot.core.json_values import JsonObject, child, flag, text, whole, whole_object
from bot.sessions import refs
from bot.sessions.log.event_types import EventBody, YieldReason
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.log.serialization import event_from, event_json
from bot.sessions.models import LastTurn, Title
from policy.errors import LabelTextError
from policy.labels import Label, join_all, parse

FORMAT: Final = "lockgate.export"
VERSION: Final = 2

MOST_BYTES: Final = 16 * 1024 * 1024
"""The largest file that is imported."""
MOST_ENTRIES: Final = 20_000
"""The most entries of a file that is imported."""
MOST_DEPTH: Final = 100
"""How deep a value of an entry may be nested."""
_MOST_NUMBER: Final = 2**53 - 1

_SUM: Final = rb"[A-Za-z0-9_-]{43}"
_LINE: Final = re.compile(rb'(?P<told>\{.+),"sum":"(?P<sum>' + _SUM + rb')"\}')
_LAST: Final = re.compile(rb'\{"key":"(?P<key>' + _SUM + rb')","signature":"(?P<signature>[A-Za-z0-9_-]{86})"\}')
_TYPE: Final = re.compile(r"[a-z][a-z_]{0,39}(?:\.[a-z][a-z_]{0,39}){0,3}")


class Signer(Protocol):
    """Signs for one installation."""

    @property
    def public(self) -> str:
        """The public key: 43 letters, digits, `-` and `_`."""
        ...

    def sign(self, signed: bytes) -> bytes:
        """Return a signature of 64 bytes."""
        ...


class Checker(Protocol):
    """Checks signatures."""

    def __call__(self, public: str, signed: bytes, signature: bytes) -> bool:
        """Say whether a signature is that of a public key over some bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Header:
    """The header of an export.

    Args:
        sid: The session.
        generation: The generation.
        label: The label of the whole export.
        made: The time of the export, in milliseconds since the epoch on the clock of the exporting installation.
        title: The title.
        last_turn: How its last turn ended, with the place of its answer in the generation.
    """

    sid: str
    generation: int
    label: Label
    made: int
    title: Title | None = None
    last_turn: LastTurn | None = None


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """An event in an export.

    Args:
        seq: Its place in the generation, from 1.
        ts: The time it was written, in milliseconds since the epoch.
        actor: Its actor.
        type: The name of its type.
        label: Its label.
        body: Its content.
        visibility: Its intended readers.
        admitted: Whether its content entered the context.
        turn: Its turn, empty for none.
        refs: The sources that it came from, in written form.
    """

    seq: int
    ts: int
    actor: str
    type: str
    label: Label
    body: JsonObject
    visibility: Visibility = Visibility.INTERNAL
    admitted: bool = False
    turn: str = ""
    refs: str = ""


@dataclass(frozen=True, slots=True)
class VerifiedExport:
    """An intact file: the session, the number of entries, and the public key that signed it."""

    sid: str
    entries: int
    key: str


@dataclass(frozen=True, slots=True)
class BrokenExport:
    """A file that was changed or cannot be read: `line` is the first bad one, from 1, `reason` one sentence."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry that was read: its event's body, and when that was written."""

    entry: ExportEntry
    body: EventBody


@dataclass(frozen=True, slots=True)
class ReadExport:
    """A whole export: its header, and its entries from the first to the last of the generation."""

    header: Header
    entries: tuple[ReadEntry, ...]

    @property
    def label(self) -> Label:
        """The join of all labels in it."""
        title = self.header.title
        start = self.header.label if title is None else self.header.label.join(title.label)
        return join_all((one.entry.label for one in self.entries), start)


@dataclass(frozen=True, slots=True)
class ImportedEvent:
    """An event with the time it was written, in milliseconds since the epoch; 0 for now."""

    ts: int
    event: NewEvent


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A whole session to import: its log from seq 1 on, and its record. It is archived, and begins no turn.

    `creation` is the label of its whole content, so that no reader below learns of it.
    """

    sid: str
    principal: str
    home: str
    creation: Label
    events: tuple[ImportedEvent, ...]
    title: Title | None
    last_turn: LastTurn | None


def sealed(signer: Signer, header: Header, entries: Iterable[ExportEntry]) -> str:
    """Return the signed file, ASCII, every line of it ended."""
    told = [_entry_json(entry) for entry in entries]
    lines, last = list[bytes](), b""
    for line in (_header_json(header, len(told)), *told):
        open_line = _written(line)[:-1]
        last = _sum(last + open_line)
        lines.append(open_line + b',"sum":"' + last + b'"}\n')
    signed = b"".join(lines)
    signature = urlsafe_b64encode(signer.sign(signed)).rstrip(b"=")
    end = b'{"key":"' + signer.public.encode("ascii") + b'","signature":"' + signature + b'"}\n'
    return (signed + end).decode("ascii")


def verified(check: Checker, file: bytes) -> VerifiedExport | BrokenExport:
    """Check a file from its first byte to its last. The caller checks whose key signed it."""
    lines, before = file.removesuffix(b"\n").split(b"\n"), b""
    for n, line in enumerate(lines, 1):
        if last := _LAST.fullmatch(line):
            if n < len(lines):
                return BrokenExport(n + 1, f"line {n + 1} stands behind the signature")
            signed = b"".join(one + b"\n" for one in lines[:-1])
            key = last["key"].decode("ascii")
            if n == 1 or not check(key, signed, urlsafe_b64decode(last["signature"] + b"==")):
                return BrokenExport(n, f"line {n}, the signature, is not that of the lines before it")
            return _of(lines[0], n - 2, key)
        found = _LINE.fullmatch(line)
        if not found or not hmac.compare_digest(found["sum"], _sum(before + found["told"])):
            return BrokenExport(n, f"line {n} was changed, or is not the one that stood there")
        before = found["sum"]
    return BrokenExport(len(lines) + 1, f"the file ends after line {len(lines)}, its signature is missing")


def read(file: bytes) -> ReadExport | BrokenExport:
    """Read a `verified` file, if it holds all entries of its generation in a form that this version knows."""
    lines = file.removesuffix(b"\n").split(b"\n")[:-1]
    if len(file) > MOST_BYTES:
        return BrokenExport(1, f"the file is larger than {MOST_BYTES // (1024 * 1024)} MB")
    if len(lines) - 1 > MOST_ENTRIES:
        return BrokenExport(1, f"the file has more than {MOST_ENTRIES} entries")
    n, entries = 1, list[ReadEntry]()
    try:
        header = _header(_object(lines[0]), len(lines) - 1)
        for n, line in enumerate(lines[1:], 2):
            entries.append(_entry(_object(line), n - 1))
    except (KeyError, TypeError, ValueError, LabelTextError, RecursionError) as error:
        told = str(error) if isinstance(error, UnfitError) else "is not written as this version writes it"
        return BrokenExport(n, f"line {n} {told}")
    return ReadExport(header, tuple(entries))


class UnfitError(ValueError):
    """A line cannot be imported; the text says why and holds no part of the line."""


def _of(line: bytes, entries: int, key: str) -> VerifiedExport | BrokenExport:
    try:
        return VerifiedExport(text(whole_object(json.loads(line)), "session"), entries, key)
    except (TypeError, ValueError, RecursionError):
        return BrokenExport(1, "line 1 is not the header of an export")


def _object(line: bytes) -> JsonObject:
    """Return the object of a line without its sum. Raises ValueError: it is written in another form."""
    found = _LINE.fullmatch(line)
    told = b"" if found is None else found["told"] + b"}"
    value = whole_object(json.loads(told))
    if _deep(value) or _written(value) != told:
        raise ValueError
    return value


def _deep(value: JsonValue | JsonObject) -> bool:
    """Say whether a value is nested deeper than any that is imported."""
    level = [cast("JsonValue", value)]
    for _ in range(MOST_DEPTH):
        inner = list[JsonValue]()
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        if not inner:
            return False
        level = inner
    return True


def _written(line: JsonObject) -> bytes:
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode("ascii")


def _sum(summed: bytes) -> bytes:
    return urlsafe_b64encode(hashlib.sha256(summed).digest()).rstrip(b"=")


def _header_json(header: Header, lines: int) -> JsonObject:
    title, turn = header.title, header.last_turn
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": header.sid,
        "generation": header.generation,
        "label": str(header.label),
        "made": header.made,
        "title": None if title is None else {"text": title.text, "label": str(title.label)},
        "last_turn": None if turn is None else _turn_json(turn),
        "lines": lines,
    }


def _header(found: JsonObject, lines: int) -> Header:
    """Read a header. Raises as `event_from`, and UnfitError: another version wrote it."""
    if found.get("format") != FORMAT:
        raise UnfitError("is not the header of an export")
    if found.get("version") != VERSION:
        raise UnfitError(f"has another version than {VERSION}, which this program reads")
    title, turn = child(found, "title"), child(found, "last_turn")
    header = Header(
        text(found, "session"),
        _number(found, "generation"),
        parse(text(found, "label")),
        _number(found, "made", most=LAST_MS),
        None if title is None else Title(_some(title, "text"), parse(text(title, "label"))),
        None if turn is None else _turn(turn),
    )
    if _written(_header_json(header, lines)) != _written(found):
        raise ValueError
    return header


def _entry_json(entry: ExportEntry) -> JsonObject:
    return {
        "seq": entry.seq,
        "ts": entry.ts,
        "actor": entry.actor,
        "type": entry.type,
        "label": str(entry.label),
        "visibility": entry.visibility.value,
        "admitted": entry.admitted,
        "turn": entry.turn,
        "refs": entry.refs,
        "body": dict(entry.body),
    }


def _entry(found: JsonObject, seq: int) -> ReadEntry:
    """Read an entry, the one of the place `seq`. Raises as `event_from`, and UnfitError: it is of another place."""
    if whole(found, "seq") != seq:
        raise UnfitError(f"is entry {found['seq']} where {seq} is due, import an export that leaves nothing out")
    entry = ExportEntry(
        seq,
        _number(found, "ts", least=1, most=LAST_MS),
        text(found, "actor"),
        text(found, "type"),
        parse(text(found, "label")),
        whole_object(found["body"]),
        Visibility(text(found, "visibility")),
        flag(found, "admitted"),
        text(found, "turn"),
        text(found, "refs"),
    )
    if (
        not _TYPE.fullmatch(entry.type)
        or _written(_entry_json(entry)) != _written(found)
        or refs.written(refs.read(entry.refs)) != entry.refs
    ):
        raise ValueError
    body = event_from(entry.type, entry.body)
    if _written(event_json(body)) != _written(entry.body):
        raise UnfitError("holds entries that this version does not know, or parts of it were left out")
    return ReadEntry(entry, body)


def _turn_json(turn: LastTurn) -> dict[str, JsonValue]:
    return {
        "id": turn.id,
        "reason": turn.reason.value,
        "seq": turn.seq,
        "result": turn.result_seq,
        "error": turn.error,
    }


def _turn(found: JsonObject) -> LastTurn:
    return LastTurn(
        _some(found, "id"),
        YieldReason(text(found, "reason")),
        _number(found, "seq"),
        _number(found, "result"),
        text(found, "error"),
    )


def _some(found: JsonObject, name: str) -> str:
    """Read a text that is not empty: empty values are stored as absent ones. Raises ValueError: it is empty."""
    if not text(found, name):
        raise ValueError(name)
    return text(found, name)


def _number(found: JsonObject, name: str, least: int = 0, most: int = _MOST_NUMBER) -> int:
    number = whole(found, name)
    if not least <= number <= most:
        raise ValueError(name)
    return number
