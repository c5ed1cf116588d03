"""Secret keys in files or in the environment, and several keys of one use: the newest first, older ones after it.

Keys in files are read again every two seconds while a process uses them, so all processes follow a rotation. Keys in
the environment stay as they were when the process began.
"""

import asyncio
import fcntl
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bot.core.errors import OperatorError
from bot.core.ids import KEY_BYTES, new_key

FOLLOWED_MS: Final = 20_000
"""How long after a rotation no process uses the old key for new things, with time for a slow store."""

_LOOK_SECONDS: Final = 2.0
_NO_FILE: Final = (0, 0)
_PRIVATE: Final = 0o600


class KeySeries:
    """The keys of one use, the newest first. `folder` has them in files, None where they come from elsewhere."""

    def __init__(self, keys: Sequence[bytes], folder: Path | None = None, use: str = "") -> None:
        self._keys, self._folder, self._use = tuple(keys), folder, use
        self._seen = self._identity()
        self._looked = float("-inf")
        self._looking = asyncio.Lock()

    @staticmethod
    def of(keys: "bytes | KeySeries") -> "KeySeries":
        """Return keys as they are, or one key alone."""
        return keys if isinstance(keys, KeySeries) else KeySeries((keys,))

    @staticmethod
    def read(folder: Path, use: str) -> "KeySeries":
        """Return the keys in the files of a folder; the newest is made at need. It blocks. Raises OperatorError."""
        return KeySeries(_read(folder, use), folder, use)

    @staticmethod
    def parse(written: str) -> "KeySeries":
        """Return the keys in an environment value, separated by commas, the newest first. Raises OperatorError."""
        return KeySeries([parse_key(key.strip()) for key in written.split(",")])

    @property
    def current(self) -> bytes:
        """The newest key."""
        return self._keys[0]

    @property
    def all(self) -> tuple[bytes, ...]:
        """All of them, the newest first. It is the same object for as long as they are the same."""
        return self._keys

    @property
    def rotatable(self) -> bool:
        """Whether they are in files, where a new one can be put."""
        return self._folder is not None

    async def fresh(self) -> None:
        """Look for a newer key, unless that was done in the last two seconds. Raises OperatorError: see `read`."""
        now = asyncio.get_running_loop().time()
        if self._folder is None or now - self._looked <= _LOOK_SECONDS:
            return
        async with self._looking:
            # One look is enough for all that came meanwhile.
            if now - self._looked > _LOOK_SECONDS:
                await asyncio.to_thread(self.reload)
                self._looked = now

    def reload(self) -> bool:
        """Read the files again if they changed; return whether there is another key. It blocks."""
        seen = self._identity()
        # A file that is gone is no rotation: a key that was made in its place would know no earlier one.
        if self._folder is None or seen in (self._seen, _NO_FILE):
            return False
        before, now = self._keys, _read(self._folder, self._use)
        if now != before:
            self._keys = now
        self._seen = seen
        return now != before

    def rotate(self) -> None:
        """Put a new key before the others. It blocks. Raises OperatorError: they are not in files."""
        if self._folder is None:
            raise OperatorError(
                f"the {self._use} key is not in a file", next_step="put another one into the environment"
            )
        with _alone(self._folder):
            if self._identity() == _NO_FILE:
                raise OperatorError(
                    f"there is no `{self._folder / self._use}`", next_step=f"put the {self._use} key back there"
                )
            # Another process may have made one: without it, the things that came from it would have no key.
            self._keys, key = _read(self._folder, self._use), new_key()
            # The old one is kept before the new one counts: between the two it is there twice, which is harmless.
            _put(self._folder / f"{self._use}.old", b"".join(self._keys))
            _put(self._folder / self._use, key)
            self.reload()

    def since_ms(self) -> int:
        """Return since when the newest key is in its file, in epoch ms, 0 for keys from elsewhere. It blocks."""
        return 0 if self._folder is None else (self._folder / self._use).stat().st_mtime_ns // 1_000_000

    def _identity(self) -> tuple[int, int]:
        if self._folder is None:
            return _NO_FILE
        try:
            status = (self._folder / self._use).stat()
        except OSError:
            return _NO_FILE
        return (status.st_ino, status.st_mtime_ns)


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
    if len(key) != KEY_BYTES:
        raise OperatorError(
            f"the key file `{path}` does not hold {KEY_BYTES} bytes", next_step="restore it from a backup"
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
    if len(key) != KEY_BYTES:
        raise OperatorError("the key is not 64 hexadecimal digits", next_step="make one with `openssl rand -hex 32`")
    return key


def _create_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(new_key())
        file.flush()
        os.fsync(file.fileno())
    try:
        # A link, unlike a rename, loses against another process that was first.
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _read(folder: Path, use: str) -> tuple[bytes, ...]:
    newest, older = load_or_create_key(folder / use), folder / f"{use}.old"
    try:
        written = older.read_bytes() if older.exists() else b""
    except OSError as error:
        raise OperatorError(f"the key file `{older}` cannot be read: {error.strerror}") from None
    if len(written) % KEY_BYTES:
        raise OperatorError(
            f"the key file `{older}` does not hold whole keys", next_step="restore it from where `keys` is kept"
        )
    found = (written[at : at + KEY_BYTES] for at in range(0, len(written), KEY_BYTES))
    return tuple(dict.fromkeys((newest, *found)))


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Keep out other processes that make a key. Raises OperatorError: the folder cannot be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise OperatorError(f"the folder of keys `{folder}` cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _put(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise OperatorError(f"the key file `{path}` cannot be written: {error.strerror}") from None
