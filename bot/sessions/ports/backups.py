"""The port for backups: copies of the store's keys, taken while processes work, and their return."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CopiedKey:
    """A key, or a further part of one.

    Args:
        name: Its name.
        kind: The store's name of its type.
        at: How many values of a list or a stream came before these.
        expires: When it expires, in ms on the store's clock, 0 for never.
        values: Its values, flat: pairs of a hash, members with their scores, and entries of a stream in threes.
        lives: When each field of a hash expires, likewise; empty if none does.
    """

    name: bytes
    kind: str
    at: int
    expires: int
    values: tuple[bytes, ...]
    lives: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CopiedUnit:
    """Keys that were copied at one moment, all of one slot.

    Args:
        sid: The session that they belong to, empty for none.
        clears: The keys that these replace, also where there is none any more.
        keys: The keys.
        of: The key without which these are nothing, empty for none.
    """

    sid: str
    clears: tuple[bytes, ...]
    keys: tuple[CopiedKey, ...]
    of: bytes = b""


@dataclass(frozen=True, slots=True)
class RestedSession:
    """The work that a session had in hand when it was copied.

    Args:
        open: Whether it had an open turn.
        waiting: How many inputs waited.
        doubtful: How many texts waited to be sent, which may have been sent since.
    """

    open: bool
    waiting: int
    doubtful: int


class BackupStore(Protocol):
    """Copies all lasting keys, and puts them back."""

    def copies(self) -> AsyncIterator[CopiedUnit]:
        """Walk copies of all lasting keys; a later unit replaces an earlier one.

        Raises StoreError: a session changes faster than it can be copied, or the store cannot be read.
        """
        ...

    async def now(self) -> int:
        """Return the store's time, in ms."""
        ...

    async def empty(self) -> bool:
        """Say whether the store holds nothing. Raises StoreError."""
        ...

    async def others(self) -> bool:
        """Say whether other processes are connected. Raises StoreError."""
        ...

    async def begin(self) -> bool:
        """Mark the store as incomplete: no process starts on it until `finish`. Say whether it was whole before.

        Raises StoreError.
        """
        ...

    async def clear(self) -> None:
        """Delete everything but that mark. Raises StoreError."""
        ...

    async def put(self, unit: CopiedUnit) -> None:
        """Put a unit back. Raises StoreError."""
        ...

    async def rest(self, sid: str) -> RestedSession:
        """Take a returned session out of the hands of the processes of its time, and file it. Raises StoreError."""
        ...

    async def finish(self) -> None:
        """Take the mark away. Raises StoreError."""
        ...
