"""The values of adapters, encrypted: a reader of the store, its backups or its traffic learns only names and lengths.

A value is encrypted together with its name, so that no writer of the store can exchange one value for another. The
first key encrypts, all decrypt; `renew` encrypts everything anew under the first, after which the others may go.
"""

from base64 import urlsafe_b64encode
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from bot.core.errors import StoreError
from bot.core.ids import Ids
from bot.store.calls import answer, call
from bot.store.records import codec
from bot.store.records.form import unpack
from bot.store.records.kinds import KEPT
from bot.store.schema import VAULT, decode, encode, vault_op
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Connection
from channels.port import LostValueError, VaultError

_PAGE: Final = 1000
_AS_BEFORE: Final = -1
"""Keeps the expiry of the value that is replaced."""


class Vault:
    """Implements the port `ChannelVault` of `channels.port`. `keys` have 32 bytes each; the first is the newest."""

    def __init__(self, connection: Connection, ids: Ids, keys: Sequence[bytes]) -> None:
        self._connection = connection
        self._ids = ids
        made = [Fernet(urlsafe_b64encode(key)) for key in keys]
        self._newest, self._keys = made[0], MultiFernet(made)

    async def get(self, name: str) -> bytes | None:
        """Return a value, None if there is none or it has expired."""
        stored = await self._stored(name)
        return None if stored is None else self._opened(name, stored)

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:
        """Keep a value, replacing an earlier one; `seconds` is its life, None for ever."""
        await self._write(name, None, self._sealed(name, value), _life(seconds))

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:
        """Put `new` in the place of `old` and say whether that was there."""
        stored = await self._stored(name)
        if (None if stored is None else self._opened(name, stored)) != old:
            return False
        # No two encryptions are the same, so any value that was put there meanwhile is different.
        sealed = "" if new is None else self._sealed(name, new)
        return await self._write(name, stored or b"", sealed, _life(seconds))

    async def delete(self, name: str) -> None:
        """Delete a value."""
        await self._write(name, None, "", 0)

    async def names(self, prefix: str) -> tuple[str, ...]:
        """Return the names of stored values with a prefix, sorted."""
        # Encoded text has no characters with a meaning in patterns.
        pattern, cursor, found = f"{encode(prefix)}*" if prefix else "*", b"", set[bytes]()
        while cursor != b"0":
            page = ("HSCAN", VAULT, cursor or 0, "MATCH", pattern, "COUNT", _PAGE, "NOVALUES")
            with _told():
                ((cursor, fields),) = await self._connection.commands(page)
            found.update(fields)
        return tuple(sorted(decode(field.decode("ascii")) for field in found))

    async def renew(self) -> None:
        """Encrypt values anew that are encrypted under another key than the first; unreadable ones stay as they are."""
        for name in await self.names(""):
            stored = await self._stored(name)
            if stored is None or self._is_newest(stored):
                continue
            try:
                value = self._opened(name, stored)
            except VaultError:
                continue
            await self._write(name, stored, self._sealed(name, value), _AS_BEFORE)

    async def _stored(self, name: str) -> bytes | None:
        with _told():
            (stored,) = await self._connection.commands(("HGET", VAULT, encode(name)))
        return stored

    async def _write(self, name: str, seen: bytes | None, value: str, life: int) -> bool:
        """Write, if the stored value is the one that was `seen`, or in any case if that is None; say whether it was."""
        keys = {"values": VAULT, "op": vault_op(self._ids.op())}
        args = {
            "field": encode(name),
            "compares": seen is not None,
            "seen": seen or None,
            "token": value or None,
            "life": life,
        }
        asked = call(Script.SWAP, keys, args)
        with _told():
            reply = await self._connection.script(asked.script, asked.keys, asked.args)
        return answer(reply).word == "ok"

    def _sealed(self, name: str, value: bytes) -> str:
        return self._newest.encrypt(_bound(name) + value).decode("ascii")

    def _opened(self, name: str, stored: bytes) -> bytes:
        with _told():
            written = self._keys.decrypt(_token(stored))
        if not written.startswith(_bound(name)):
            raise LostValueError(f"the value kept as `{name}` was put there under another name")
        return written[len(_bound(name)) :]

    def _is_newest(self, stored: bytes) -> bool:
        try:
            self._newest.decrypt(_token(stored))
        except (InvalidToken, StoreError):
            return False
        return True


def _token(stored: bytes) -> str:
    token: str = codec.reading(lambda: unpack(KEPT, stored))["token"]
    return token


def _bound(name: str) -> bytes:
    return encode(name).encode("ascii") + b" "


def _life(seconds: float | None) -> int:
    return 0 if seconds is None else max(1, round(seconds * 1000))


@contextmanager
def _told() -> Generator[None]:
    """Turn all errors of reading and writing into one kind."""
    try:
        yield
    except StoreError as error:
        raise VaultError(str(error)) from error
    except InvalidToken:
        raise LostValueError("no key of this installation opens the kept value") from None
