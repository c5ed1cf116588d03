"""The vault and the rights of an adapter in this process alone: before the first start there is no store yet."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio


class MemoryVault:
    """Keeps an adapter's values until the process ends; no time of one ends before that."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def get(self, name: str) -> bytes | None:
        """Return the value of a name, None if there is none."""
        return self._kept.get(name)

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:  # noqa: ARG002 - the port's
        """Keep a value, in place of the earlier one."""
        self._kept[name] = value

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:  # noqa: ARG002 - the port's
        """Put `new` in the place of `old` and return whether `old` was there."""
        if self._kept.get(name) != old:
            return False
        if new is None:
            self._kept.pop(name, None)
        else:
            self._kept[name] = new
        return True

    async def delete(self, name: str) -> None:
        """Keep nothing there any more."""
        self._kept.pop(name, None)

    async def names(self, prefix: str) -> tuple[str, ...]:
        """Return the names that begin so, sorted."""
        return tuple(sorted(name for name in self._kept if name.startswith(prefix)))


class SoleLease:
    """Gives every right at once, as nobody else is there to have it; with `idle` it gives none."""

    def __init__(self, *, idle: bool = False) -> None:
        self._idle = idle

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[Callable[[], bool]]:  # noqa: ARG002 - the port's
        """Hold a right while the block runs."""
        if self._idle:
            await anyio.sleep_forever()
        yield lambda: True
