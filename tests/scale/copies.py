"""Copies of originals, written in bulk: the same records under other names, with audit chains of their own.

Names have one length, so a copy is the original's bytes with some of them replaced. Rows of audit chains are signed
anew, as a hash covers the chain's name and each row before it, and their heads are anchored.
"""

import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import digest
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Self, cast

import hiredis

from bot.audit.chain import AnchorFile, Head, genesis
from bot.core.ids import session_id
from bot.store.records.codec import stored_fields
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, session_keys
from tests.scale.exemplars import SHARES, Command, Kind, Original
from tests.scale.people import person, place, thread

SESSIONS_EACH: Final = 50
"""How many sessions a person has."""

_TOGETHER: Final = 500
_READ: Final = 1 << 16
_FIRST_MOMENT: Final = 1_600_000_000_000
_SPREAD_MS: Final = 60_000
"""The first session changed last at the first moment, each next one a minute later."""

_HEAD_FIELDS: Final = stored_fields("audit_seq", "audit_hash")


def kind_of(number: int) -> Kind:
    """Return the kind of a session by its number: kinds are mixed as `SHARES` says, in any thousand of them."""
    # A step without a common factor visits each place of a thousand once.
    at = number * 617 % sum(SHARES.values())
    return next(kind for kind, end in zip(SHARES, accumulate(SHARES.values()), strict=True) if at < end)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the installation: they make session ids and sign audit rows."""

    session: bytes
    audit: bytes

    def sid(self, number: int) -> str:
        """Return the id of the session of a number."""
        return session_id(self.session, str(place(*self.names(number))))

    @staticmethod
    def names(number: int) -> tuple[str, str]:
        """Return the person and the thread of the session of a number; 1 is the first that is no original."""
        return person(number // SESSIONS_EACH + 1), thread(number)


@dataclass(frozen=True, slots=True)
class _Template:
    """An original as the server is sent it."""

    of: Original
    written: bytes
    count: int

    @classmethod
    def made(cls, of: Original) -> "_Template":
        return cls(of, b"".join(map(_packed, of.commands)), len(of.commands))

    def copied(self, names: Sequence[bytes], moment: bytes) -> bytes:
        """Return the commands under other names."""
        return renamed(self.written, (*self.of.names, self.of.moment), (*names, moment))


class Copier:
    """Writes copies to a server, and their anchors into a file."""

    def __init__(self, originals: tuple[Mapping[Kind, Original], Original], keys: Keys, anchors: Path) -> None:
        conversations, beside = originals
        self._kinds = {kind: _Template.made(one) for kind, one in conversations.items()}
        self._beside = _Template.made(beside)
        self._keys = keys
        self._anchors = AnchorFile(anchors, keys.audit)

    def write(self, path: Path, numbers: range) -> None:
        """Write the sessions of these numbers, and each person with the first of theirs.

        `path` is the socket of the server. Raises HiredisError: it refused something.
        """
        with _Line(path) as line:
            outside = line.head()
            for begin in range(numbers.start, numbers.stop, _TOGETHER):
                heads, parts, count = dict[str, Head](), list[bytes](), 0
                for number in range(begin, min(begin + _TOGETHER, numbers.stop)):
                    if number % SESSIONS_EACH == 0:
                        made, more, outside = self._person(number // SESSIONS_EACH + 1, outside)
                        parts.append(made)
                        count += more
                    made, more, heads[self._keys.sid(number)] = self._session(number)
                    parts.append(made)
                    count += more
                line.send(b"".join(parts), count)
                self._anchors.record(heads)

    def pass_through(self, path: Path, numbers: range) -> None:
        """Write the sessions of these numbers and remove them again: the server's file grows, the store does not."""
        with _Line(path) as line:
            parts, count = list[bytes](), 0
            for number in numbers:
                written, more, _ = self._session(number)
                sid, (who, where) = self._keys.sid(number), self._keys.names(number)
                of = self._kinds[kind_of(number)].of
                gone = [*_removed(of, (sid.encode(), who.encode(), where.encode()))]
                gone.append((b"UNLINK", session_keys(sid).audit.encode()))
                parts += [written, *map(_packed, gone)]
                count += more + len(gone)
            line.send(b"".join(parts), count)

    def _session(self, number: int) -> tuple[bytes, int, Head]:
        """Return the commands of a session, their number, and the head of its chain."""
        template, sid = self._kinds[kind_of(number)], self._keys.sid(number)
        who, where = self._keys.names(number)
        names, moment = (sid.encode(), who.encode(), where.encode()), b"%d" % (_FIRST_MOMENT + number * _SPREAD_MS)
        rows, hashes = self._signed(template.of, names, (0, genesis(sid)))
        written = renamed(template.copied(names, moment), [template.of.rows[-1].hash], [hashes[-1]])
        pushed = _packed((b"RPUSH", session_keys(sid).audit.encode(), *rows))
        return written + pushed, template.count + 1, (len(rows), hashes[-1].decode())

    def _person(self, number: int, head: Head) -> tuple[bytes, int, Head]:
        """Return the commands of what a person has beside conversations, their number, and the head of `audit`."""
        template = self._beside
        names = [person(number).encode(), *(_numbered(name, number) for name in template.of.names[1:])]
        rows, hashes = self._signed(template.of, names, head)
        now: Head = (head[0] + len(rows), hashes[-1].decode())
        facts = (_HEAD_FIELDS[0], b"%d" % now[0], _HEAD_FIELDS[1], now[1].encode())
        chain = [(b"RPUSH", AUDIT_CHAIN.encode(), *rows), (b"HSET", AUDIT_HEAD.encode(), *facts)]
        written = template.copied(names, template.of.moment)
        return written + b"".join(map(_packed, chain)), template.count + len(chain), now

    def _signed(self, of: Original, names: Sequence[bytes], head: Head) -> tuple[list[bytes], list[bytes]]:
        """Return rows under other names behind a head, and their hashes."""
        previous, rows, hashes = head[1].encode(), list[bytes](), list[bytes]()
        for n, row in enumerate(of.rows, head[0] + 1):
            covered = b"[%d" % n + renamed(row.covered, of.names, names)
            previous = urlsafe_b64encode(digest(self._keys.audit, previous + covered, sha256)).rstrip(b"=")
            rows.append(renamed(row.stored, (*of.names, row.hash), (*names, previous)))
            hashes.append(previous)
        return rows, hashes


class _Line:
    """A connection that sends many commands at once, and reads each answer."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._reader = cast("Any", hiredis).Reader()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def head(self) -> Head:
        """Return the head of the chain `audit`."""
        ((n, digest_),) = self._asked(_packed((b"HMGET", AUDIT_HEAD.encode(), *_HEAD_FIELDS)), 1)
        return (0, genesis(AUDIT)) if n is None else (int(n), digest_.decode())

    def send(self, written: bytes, count: int) -> None:
        """Send commands. Raises HiredisError: the server refused one."""
        for _ in self._asked(written, count):
            pass

    def _asked(self, written: bytes, count: int) -> Iterator[Any]:
        self._socket.sendall(written)
        while count:
            answer = self._reader.gets()
            if answer is False:
                self._reader.feed(self._socket.recv(_READ))
                continue
            if isinstance(answer, hiredis.HiredisError):
                raise answer
            count -= 1
            yield answer


def _removed(of: Original, names: Sequence[bytes]) -> Iterator[Command]:
    """Yield a command for each one of an original under other names, which takes back what that one wrote."""
    for name, key, *words in of.commands:
        renamed_key = renamed(key, of.names, names)
        match name:
            case b"ZADD":
                yield b"ZREM", renamed_key, renamed(words[1], of.names, names)
            case b"SADD":
                yield b"SREM", renamed_key, renamed(words[0], of.names, names)
            case _:
                yield b"UNLINK", renamed_key


def _packed(command: Command) -> bytes:
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)


def renamed(written: bytes, before: Sequence[bytes], after: Sequence[bytes]) -> bytes:
    """Return bytes with some names in the place of others, which are as long."""
    for one, other in zip(before, after, strict=True):
        if one:
            written = written.replace(one, other)
    return written


def _numbered(name: bytes, number: int) -> bytes:
    """Return another id of the same length."""
    return b"%0*d" % (len(name), number)
