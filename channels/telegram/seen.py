"""Who was seen in a group and did not leave: kept in the vault, so that every process counts the same readers.

One write for everybody who is seen for the first time or comes or goes, and none for who was there before. More than a
thousand in one group are not told apart: then somebody unknown reads there, for ever.
"""

import json
from collections.abc import Iterable
from typing import Final

from channels.base import Reader, ReaderKind, Vault, VaultError
from channels.telegram import wire

ANYBODY: Final = Reader(f"{wire.NAME}:*")
"""Stands for whoever is not known."""

_MOST: Final = 1000
_TRIES: Final = 20


class Seen:
    """Keeps them for one bot, `own` is its number. Every method raises VaultError."""

    def __init__(self, vault: Vault, own: str) -> None:
        self._vault = vault
        self._prefix = f"{wire.NAME}/{own}/seen/"
        # As it was kept when this process looked last, so that nobody is written down twice.
        self._kept: dict[str, frozenset[Reader]] = {}

    async def readers(self, chat: str) -> frozenset[Reader]:
        """Return who was seen in a chat."""
        return self._read(chat, await self._vault.get(self._prefix + chat))

    async def note(self, met: wire.Met) -> None:
        """Take note of who was there by an update, and of who is gone."""
        # Who comes may have gone by what another process was told.
        if met.moves or not self._kept.get(met.chat, frozenset()).issuperset(met.present):
            await self._change(met.chat, met.present, met.gone)

    async def moved(self, old: str, new: str) -> None:
        """Take note that a chat has another id: who was seen in it is there as well."""
        await self._change(new, await self.readers(old), ())

    async def _change(self, chat: str, present: Iterable[Reader], gone: Iterable[str]) -> None:
        name, left = self._prefix + chat, set(gone)
        for _ in range(_TRIES):
            stored = await self._vault.get(name)
            before = self._read(chat, stored)
            known = {one.account: one for one in (*before, *present) if one.account not in left}
            after = frozenset(known.values())
            if len(after) > _MOST:
                after = before | {ANYBODY}
            if after == before or await self._vault.swap(name, stored, _written(after)):
                self._kept[chat] = after
                return
        raise VaultError("too many processes keep who was seen in a group")

    def _read(self, chat: str, stored: bytes | None) -> frozenset[Reader]:
        written: dict[str, str] = {} if stored is None else json.loads(stored)
        self._kept[chat] = frozenset(Reader(account, ReaderKind(kind)) for account, kind in written.items())
        return self._kept[chat]


def _written(readers: Iterable[Reader]) -> bytes:
    return json.dumps({one.account: one.kind.value for one in readers}, sort_keys=True).encode()
