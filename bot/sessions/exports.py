"""An export of a session as bytes: JSON lines that follow on one another, and a last one that signs them all.

The first line is the header, then there is one for each entry. Each bears a `mac` over the one before it and itself,
which tells where a file was changed; the signature is over the exact bytes before it. Both are HMAC-SHA256 with keys
derived from the installation's audit key, so nobody can pass a file for one of these who cannot forge the audit.
Nothing is read or decided here.
"""

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bot.core.json_values import JsonObject
from policy.labels import Label

FORMAT: Final = "lockgate.export"
VERSION: Final = 1

_MAC: Final = rb"[A-Za-z0-9_-]{43}"
_LINE: Final = re.compile(rb'(?P<told>\{.+),"mac":"(?P<mac>' + _MAC + rb')"\}')
_LAST: Final = re.compile(rb'\{"signature":"(?P<mac>' + _MAC + rb')"\}')


@dataclass(frozen=True, slots=True)
class Header:
    """What an export is of: `label` is that of the whole, `made` when, in milliseconds on the clock of who made it."""

    sid: str
    generation: int
    label: Label
    made: int


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """An event as an export tells it: `seq` is its place in the generation, from 1."""

    seq: int
    ts: int
    actor: str
    type: str
    label: Label
    body: JsonObject


@dataclass(frozen=True, slots=True)
class VerifiedExport:
    """A file that is as it was made: of which session, and how many entries it holds."""

    sid: str
    entries: int


@dataclass(frozen=True, slots=True)
class BrokenExport:
    """A file that is not: `line` is the first that is wrong, from 1, `reason` one sentence."""

    line: int
    reason: str


def sealed(key: bytes, header: Header, entries: Iterable[ExportEntry]) -> str:
    """Return the signed file, ASCII, every line of it ended; `key` is the installation's audit key."""
    told = [_entry(entry) for entry in entries]
    head: JsonObject = {
        "format": FORMAT,
        "version": VERSION,
        "session": header.sid,
        "generation": header.generation,
        "label": str(header.label),
        "made": header.made,
        "lines": len(told),
    }
    lines, mac = list[bytes](), b""
    for line in (head, *told):
        open_line = json.dumps(line, separators=(",", ":")).encode("ascii")[:-1]
        mac = _sign(_derived(key, "lines"), mac + open_line)
        lines.append(open_line + b',"mac":"' + mac + b'"}\n')
    signed = b"".join(lines)
    return (signed + b'{"signature":"' + _sign(_derived(key, "signature"), signed) + b'"}\n').decode("ascii")


def verified(key: bytes, file: bytes) -> VerifiedExport | BrokenExport:
    """Check a file from its first byte to its last; nothing it says is believed before its signature fits."""
    lines, mac = file.removesuffix(b"\n").split(b"\n"), b""
    for n, line in enumerate(lines, 1):
        if last := _LAST.fullmatch(line):
            if n < len(lines):
                return BrokenExport(n + 1, f"line {n + 1} stands behind the signature")
            signed = b"".join(one + b"\n" for one in lines[:-1])
            if not hmac.compare_digest(last["mac"], _sign(_derived(key, "signature"), signed)):
                return BrokenExport(n, f"line {n}, the signature, is not that of the lines before it")
            return VerifiedExport(str(json.loads(lines[0])["session"]), n - 2)
        found = _LINE.fullmatch(line)
        if not found or not hmac.compare_digest(found["mac"], _sign(_derived(key, "lines"), mac + found["told"])):
            foreign = ", or the whole was not made by this installation" if n == 1 else ""
            return BrokenExport(n, f"line {n} was changed, or is not the one that stood there{foreign}")
        mac = found["mac"]
    return BrokenExport(len(lines) + 1, f"the file ends after line {len(lines)}, its signature is missing")


def _entry(entry: ExportEntry) -> JsonObject:
    return {
        "seq": entry.seq,
        "ts": entry.ts,
        "actor": entry.actor,
        "type": entry.type,
        "label": str(entry.label),
        "body": dict(entry.body),
    }


def _derived(key: bytes, purpose: str) -> bytes:
    """Return the key for one purpose: what is signed here can stand for nothing that the audit key signs itself."""
    return hmac.digest(key, f"lockgate export {VERSION} {purpose}".encode("ascii"), hashlib.sha256)


def _sign(key: bytes, signed: bytes) -> bytes:
    return urlsafe_b64encode(hmac.digest(key, signed, hashlib.sha256)).rstrip(b"=")
