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
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from bot.core import ids
from bot.core.errors import DiskError, OperatorError
from bot.core.json_values import JsonObject
from bot.sessions.audit import AuditRecord, AuditRow

Head = tuple[int, str]
"""Number and hash of a chain's last record; (0, "") for an empty chain."""

EMPTY: Final[Head] = (0, "")
_GUESSED: Final = ("arguments", "file")
_DIGEST: Final = b"lockgate audit digest\0"
_PRIVATE: Final = 0o600
_COMPACT_ABOVE: Final = 4
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
    """A chain that holds: `records` of them, the last with `hash`."""

    records: int
    hash: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A chain that does not hold: `n` is the first bad record, `reason` the defect, in plain words."""

    n: int
    reason: str


def verify(chain: str, records: Iterable[AuditRecord], *, claimed: Head, anchor: Head, key: bytes) -> Intact | Broken:
    """Check a whole chain, from its first record.

    `claimed` is the head the store believes in, `anchor` the newest one kept outside the store (`EMPTY` if there
    is none). A changed, removed, inserted, reordered or foreign record breaks the hash of the first place where it
    shows; a cut-off end shows against `claimed` or `anchor`.
    """
    n, previous = EMPTY
    previous = genesis(chain)
    for record in records:
        n += 1
        if record.n != n:
            return Broken(n, f"record {n} is missing")
        expected = hash_of(key, previous, record)
        if record.previous != previous or not hmac.compare_digest(_raw(record.hash), _raw(expected)):
            return Broken(n, f"record {n} does not follow from the ones before it")
        if n == anchor[0] and record.hash != anchor[1]:
            return Broken(n, f"record {n} is not the one that was anchored")
        previous = record.hash
    if n < anchor[0]:
        return Broken(n + 1, f"the chain ends at {n}, but {anchor[0]} records were anchored")
    if (n, previous if n else "") != claimed:
        return Broken(min(n, claimed[0]) + 1, f"the chain ends at {n}, the session's record says {claimed[0]}")
    return Intact(n, previous if n else "")


def load_or_create_key(path: Path) -> bytes:
    """Return the secret in a file, making it with 32 random bytes, readable by its owner alone, if there is none.

    Raises OperatorError: the file cannot be read or made, or does not hold 32 bytes.
    """
    try:
        if not path.exists():
            _create_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise OperatorError(
            f"cannot read or make the key file `{path}`: {error.strerror}", next_step="mend the folder's permissions"
        ) from error
    if len(key) != ids.KEY_BYTES:
        raise OperatorError(
            f"the key file `{path}` does not hold {ids.KEY_BYTES} bytes", next_step="restore it from a backup"
        )
    return key


def parse_key(written: str) -> bytes:
    """Read a secret from an environment value: 64 hexadecimal digits.

    Raises OperatorError: it is anything else; the sentence does not repeat it.
    """
    try:
        key = bytes.fromhex(written)
    except ValueError:
        key = b""
    if len(key) != ids.KEY_BYTES:
        raise OperatorError("the key is not 64 hexadecimal digits", next_step="make one with `openssl rand -hex 32`")
    return key


def _create_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(ids.new_key())
        file.flush()
        os.fsync(file.fileno())
    try:
        # A link, unlike a rename, loses against another process that was first.
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


class AnchorFile:
    """Heads of chains, kept in a file outside the store; several processes may share it.

    One line each, appended and flushed to disk. A line's MAC also covers the line before it, so a line cannot be
    changed, removed or moved unnoticed. If the newest lines of the file itself were cut off, that cannot be seen. It
    blocks on the disk: call it from a thread.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._key = key
        self._heads: dict[str, Head] = {}
        self._mac = ""
        self._lines = 0
        self._seen = (-1, -1)

    def heads(self) -> Mapping[str, Head]:
        """Return the newest anchored head of every chain.

        Raises:
            DiskError: The file cannot be read.
            OperatorError: A line of it was changed, removed or moved.
        """
        with self._locked():
            self._refresh()
        return self._heads

    def record(self, heads: Mapping[str, Head]) -> None:
        """Anchor heads that are newer than those in the file.

        Raises:
            DiskError: The file cannot be written, and they are not anchored.
            OperatorError: The file was tampered with.
        """
        with self._locked():
            self._refresh()
            news = {chain: head for chain, head in heads.items() if head[0] > self._heads.get(chain, EMPTY)[0]}
            if not news:
                return
            self._heads |= news
            try:
                self._write(news)
            except OSError:
                # The next read finds how much of it was written.
                self._seen = (-1, -1)
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
        seen = self._identity()
        if seen == self._seen:
            return
        self._heads, self._mac, self._lines = {}, "", 0
        # A last line without its end was being written when the machine stopped; no caller relied on it.
        whole = self._path.read_bytes().rpartition(b"\n")[0] if seen[1] > 0 else b""
        for line in whole.splitlines():
            self._follow(line.decode("utf-8", "replace"))
        self._seen = seen

    def _follow(self, line: str) -> None:
        self._lines += 1
        content, _, mac = line.rpartition(" ")
        if not hmac.compare_digest(_raw(mac), _raw(self._sign(self._mac, content))):
            raise OperatorError(
                f"line {self._lines} of `{self._path}` was changed, or the audit key is another one",
                next_step="give the key it was written with, or restore the file from a backup",
            )
        chain, n, digest = cast("tuple[str, int, str]", json.loads(content))
        self._heads[chain] = (n, digest)
        self._mac = mac

    def _write(self, news: Mapping[str, Head]) -> None:
        """Append the news, or write the file anew when most of its lines are stale or its end is torn."""
        torn = self._seen[1] > 0 and not self._path.read_bytes().endswith(b"\n")
        if torn or self._lines + len(news) > _COMPACT_ABOVE * len(self._heads):
            draft = self._path.with_name(f".{self._path.name}.draft")
            self._mac, self._lines = "", 0
            self._put(draft, self._heads, os.O_TRUNC)
            draft.replace(self._path)
        else:
            self._put(self._path, news, os.O_APPEND)
        self._seen = self._identity()

    def _put(self, path: Path, heads: Mapping[str, Head], how: int) -> None:
        lines: list[str] = []
        for chain, (n, digest) in heads.items():
            content = json.dumps([chain, n, digest])
            self._mac = self._sign(self._mac, content)
            lines.append(f"{content} {self._mac}\n")
        self._lines += len(lines)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, _PRIVATE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())

    def _identity(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (status.st_ino, status.st_size)

    def _sign(self, previous: str, content: str) -> str:
        return hmac.digest(self._key, _raw(f"anchor {previous} {content}"), hashlib.sha256).hex()


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
