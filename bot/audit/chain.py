"""The audit chain and its anchors: the computations that make a changed record show.

Each record's hash is an HMAC over the hash before it and the record itself. Its key is kept outside the store, so write
access to the store is not enough to forge a chain. The hash before the first record comes from the chain's name, so a
chain cannot pass for another. A chain cannot show by itself that its end was cut off. The head in the session's record
and the anchors show it: lines of (chain, n, hash) in a file beside the key. This module does not access the store.
"""

import fcntl
import hashlib
import hmac
import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from bot.core.errors import DiskError, OperatorError
from bot.core.json_values import JsonObject
from bot.sessions.audit import AuditRecord, AuditRow
from bot.sessions.installation.losses import LOG_TRUNCATED

Head = tuple[int, str]
"""Number and hash of a chain's last record; (0, "") for an empty chain."""

_ENDS: Final = "the chain ends at {}, but {} records were anchored"
_ANOTHER: Final = "record {} is not the one that was anchored"

EMPTY: Final[Head] = (0, "")
_GUESSED: Final = ("arguments", "file")
_DIGEST: Final = b"lockgate audit digest\0"
_PRIVATE: Final = 0o600
_COMPACT_ABOVE: Final = 4
_UNSEEN: Final = (-1, -1)
"""The identity of no file: all of it is to be read."""
_CANONICAL: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def genesis(chain: str) -> str:
    """Return the hash before the first record of a chain."""
    return _short(hashlib.sha256(b"lockgate audit chain\0" + _raw(chain)).digest())


def canonical(record: AuditRecord) -> bytes:
    """Return the bytes a record's hash covers besides the hash before it; equal records give equal bytes."""
    parts = [record.n, record.ts, record.kind, record.actor, record.body]
    return _raw(_CANONICAL.encode(parts))


def hash_of(key: bytes, previous: str, record: AuditRecord) -> str:
    """Return the hash of a record after `previous`."""
    return _short(hmac.digest(key, previous.encode("ascii", "replace") + canonical(record), hashlib.sha256))


def _short(digest: bytes) -> str:
    """Write a hash as 43 letters: every record of every session has one."""
    return urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def chained(key: bytes, chain: str, head: Head, rows: Sequence[AuditRow], *, ts: int) -> list[AuditRecord]:
    """Return the records that continue a chain from its head; `ts` is their time in ms on the store's clock.

    Digests of guessable content are kept as keyed hashes, as records outlive that content.
    """
    n, previous = head
    previous = previous or genesis(chain)
    records: list[AuditRecord] = []
    for row in rows:
        n += 1
        bare = AuditRecord(n, ts, row.kind, row.actor, _unguessable(key, row.body), previous, "")
        digest = hash_of(key, previous, bare)
        records.append(replace(bare, hash=digest))
        previous = digest
    return records


def _unguessable(key: bytes, body: JsonObject) -> JsonObject:
    """Return a row's facts with the digests of a call's arguments and of a file's bytes hashed under the key."""
    digests = {name: digest for name in _GUESSED if isinstance(digest := body.get(name), str)}
    hashed = {name: hmac.digest(key, _DIGEST + _raw(digest), hashlib.sha256).hex() for name, digest in digests.items()}
    return {**body, **hashed}


@dataclass(frozen=True, slots=True)
class Intact:
    """A chain that holds: `records` of them, the last with `hash`.

    `lost` is the last record that the store had lost, by a row of the chain; 0 for none.
    """

    records: int
    hash: str
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """A chain that does not hold: `n` is the first bad record, `reason` the defect, in plain words."""

    n: int
    reason: str


@dataclass(frozen=True, slots=True)
class OlderKey:
    """A key that signed before the newest; `retired` is the head of a chain when it was retired, None if it was not."""

    key: bytes
    retired: Head | None = None


def verify(
    chain: str,
    records: Sequence[AuditRecord],
    *,
    claimed: Head,
    anchor: Head,
    signers: Sequence[OlderKey],
) -> Intact | Broken:
    """Check a whole chain, from its first record.

    `claimed` is the head the store believes in, `anchor` the newest one kept outside the store (`EMPTY` if there
    is none). A changed, removed, inserted, reordered or foreign record breaks the hash of the first place where it
    shows; a cut-off end shows against `claimed` or `anchor`. A record counts if one of the `signers` signed it, unless
    that key was retired before. A signed row may tell that the store lost records: heads up to the last of these prove
    nothing any more.
    """
    lost = max(map(_lost, records), default=0)
    check = ChainCheck(chain, anchor if anchor[0] > lost else EMPTY, signers, lost)
    for record in records:
        broken = check.follow(record)
        if broken is not None:
            return broken
    return check.ended(claimed)


def _lost(record: AuditRecord) -> int:
    """Return the last record that a row tells as lost, 0 for any other row."""
    told = record.body.get("records") if record.kind == LOG_TRUNCATED else 0
    return told if isinstance(told, int) else 0


def unlike(records: Sequence[AuditRecord], anchor: Head) -> Broken | None:
    """Return how a chain that holds differs from an anchored head of it, None if it has that very record."""
    n, digest = anchor
    if len(records) < n:
        return Broken(len(records) + 1, _ENDS.format(len(records), n))
    return None if n == 0 or records[n - 1].hash == digest else Broken(n, _ANOTHER.format(n))


class ChainCheck:
    """The check of a chain record by record, which keeps no record.

    The first of the `signers` is the key that signs now, the others are older ones.
    """

    def __init__(self, chain: str, anchor: Head, signers: Sequence[OlderKey], lost: int = 0) -> None:
        """Take the anchored head, and the last record that the chain itself tells as lost."""
        self._n, self._previous, self._lost = 0, genesis(chain), lost
        self._kept = [anchor, *(one.retired for one in signers if one.retired and one.retired[0] > lost)]
        self._signers = tuple(signers)

    def follow(self, record: AuditRecord) -> Broken | None:
        """Check the next record; return the defect, None if it follows from the ones before it."""
        self._n += 1
        n, previous = self._n, self._previous
        if record.n != n:
            return Broken(n, f"record {n} is missing")
        signer = _signer(self._signers, previous, record)
        if signer is None or record.previous != previous:
            return Broken(n, f"record {n} does not follow from the ones before it")
        if problem := _unproven(n, record, signer, self._kept):
            return Broken(n, problem)
        if self._signers[0] is not signer:
            # Rows that follow one another mostly have the same signer.
            self._signers = (signer, *(one for one in self._signers if one is not signer))
        self._previous = record.hash
        return None

    def ended(self, claimed: Head) -> Intact | Broken:
        """Check the end of the chain against the head that the store believes in and the anchored one."""
        n, previous = self._n, self._previous
        most = max(one[0] for one in self._kept)
        if n < most:
            return Broken(n + 1, _ENDS.format(n, most))
        if (n, previous if n else "") != claimed:
            return Broken(min(n, claimed[0]) + 1, f"the chain ends at {n}, the session's record says {claimed[0]}")
        return Intact(n, previous if n else "", self._lost)


def _unproven(n: int, record: AuditRecord, signer: OlderKey, kept: Sequence[Head]) -> str:
    """Return why a signed record does not count, empty if it does; `kept` are the heads kept outside the store."""
    if signer.retired is not None and n > signer.retired[0]:
        return f"record {n} was signed with a key that was retired before"
    if any(n == one[0] and record.hash != one[1] for one in kept):
        return _ANOTHER.format(n)
    return ""


def _signer(signers: Sequence[OlderKey], previous: str, record: AuditRecord) -> OlderKey | None:
    """Return the key that signed a record, None for none of them."""
    told = _raw(record.hash)
    return next((one for one in signers if hmac.compare_digest(told, _raw(hash_of(one.key, previous, record)))), None)


class AnchorFile:
    """Heads of chains, kept in a file outside the store; several processes may share it.

    One line each, appended and flushed to disk. A line's MAC also covers the line before it, so a line cannot be
    changed, removed or moved unnoticed. If the newest lines of the file itself were cut off, that cannot be seen. It
    blocks on the disk: call it from a thread.
    """

    def __init__(self, path: Path, key: bytes | Callable[[], Sequence[bytes]]) -> None:
        """Take the file, and the key or a function for the keys that may have signed it; the first of them signs."""
        self._path = path
        self._keys = (lambda: (key,)) if isinstance(key, bytes) else key
        self._key = b""
        self._heads: dict[str, Head] = {}
        self._mac = ""
        self._lines = 0
        self._seen = _UNSEEN
        self._read = 0

    def heads(self) -> Mapping[str, Head]:
        """Return the newest anchored head of every chain.

        Raises:
            DiskError: The file cannot be read.
            OperatorError: A line of it was changed, removed or moved.
        """
        with self._locked():
            self._refresh()
        return self._heads

    def write(self, heads: Mapping[str, Head]) -> None:
        """Keep these heads and no others, signed with the newest key. Raises DiskError."""
        with self._locked():
            self._heads, self._key = dict(heads), self._keys()[0]
            self._renew()

    def renew(self) -> None:
        """Sign all of the file with the newest key. Raises DiskError. OperatorError: it was tampered with."""
        with self._locked():
            self._refresh()
            if self._lines:
                self._key = self._keys()[0]
                self._renew()

    def record(self, heads: Mapping[str, Head], behind: AbstractSet[str] = frozenset()) -> None:
        """Anchor heads that are newer than those in the file, and those of the chains that are `behind`.

        Raises:
            DiskError: The file cannot be written, and they are not anchored.
            OperatorError: The file was tampered with.
        """
        with self._locked():
            self._refresh()
            news = {
                chain: head
                for chain, head in heads.items()
                if chain in behind or head[0] > self._heads.get(chain, EMPTY)[0]
            }
            if not news:
                return
            self._heads |= news
            try:
                self._write(news)
            except OSError:
                # The next read finds how much of it was written.
                self._seen = _UNSEEN
                raise

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            descriptor = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, _PRIVATE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DiskError(
                f"cannot read or write the anchors in `{self._path}`: {error.strerror}",
                next_step="make room on the disk or mend access to the file",
            ) from error

    def _refresh(self) -> None:
        """Follow the file: another process appended lines to it, or wrote it anew."""
        seen = self._identity()
        if seen == self._seen:
            return
        before, self._seen = self._seen, _UNSEEN
        if seen[0] != before[0] or seen[1] < self._read or not self._follows_on():
            self._heads, self._mac, self._lines, self._read = {}, "", 0, 0
            self._follow_rest()
        self._seen = seen

    def _follows_on(self) -> bool:
        """Read the lines that are new. Return False for another file, which may have the place of the one before."""
        try:
            self._follow_rest()
        except OperatorError:
            return False
        return True

    def _follow_rest(self) -> None:
        """Follow the lines that were not read yet. With many sessions the file is long, and each process appends."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._read)
            for raw in file:
                if not raw.endswith(b"\n"):
                    # It was being written when the machine stopped; no caller relied on it.
                    return
                line = raw[:-1].decode("utf-8", "replace")
                if not self._lines:
                    # A file is signed with one key: its first line tells which.
                    keys = self._keys()
                    self._key = next((key for key in keys if _signed(key, "", line)), keys[0])
                self._follow(line)
                self._read += len(raw)

    def _follow(self, line: str) -> None:
        self._lines += 1
        content, _, mac = line.rpartition(" ")
        if not _signed(self._key, self._mac, line):
            raise OperatorError(
                f"line {self._lines} of `{self._path}` was changed, or the audit key is another one",
                next_step="give the key it was written with, or restore the file from a backup",
            )
        chain, n, digest = cast("tuple[str, int, str]", json.loads(content))
        self._heads[chain] = (n, digest)
        self._mac = mac

    def _write(self, news: Mapping[str, Head]) -> None:
        """Append the news, or write the file anew when most of its lines are stale or its end is torn."""
        torn = self._read < self._seen[1]
        newest = self._keys()[0]
        if torn or self._key != newest or self._lines + len(news) > _COMPACT_ABOVE * len(self._heads):
            self._key = newest
            self._renew()
        else:
            self._put(self._path, news, os.O_APPEND)
            self._note()

    def _renew(self) -> None:
        """Write the file anew, with one line for each head."""
        draft = self._path.with_name(f".{self._path.name}.draft")
        self._mac, self._lines = "", 0
        self._put(draft, self._heads, os.O_TRUNC)
        draft.replace(self._path)
        self._note()

    def _put(self, path: Path, heads: Mapping[str, Head], how: int) -> None:
        lines: list[str] = []
        for chain, (n, digest) in heads.items():
            content = json.dumps([chain, n, digest])
            self._mac = _line_mac(self._key, self._mac, content)
            lines.append(f"{content} {self._mac}\n")
        self._lines += len(lines)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, _PRIVATE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())

    def _note(self) -> None:
        """Note that all of the file is known here."""
        self._seen = self._identity()
        self._read = self._seen[1]

    def _identity(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (status.st_ino, status.st_size)


def _line_mac(key: bytes, previous: str, content: str) -> str:
    return hmac.digest(key, _raw(f"anchor {previous} {content}"), hashlib.sha256).hex()


def _signed(key: bytes, previous: str, line: str) -> bool:
    content, _, mac = line.rpartition(" ")
    return hmac.compare_digest(_raw(mac), _raw(_line_mac(key, previous, content)))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
