"""How long sessions wait for another worker: those whose turns a worker runs, until each is claimed anew."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.core.errors import StoreError
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from tests.store.world import command, keys

_CALM_SECONDS: Final = 1.0
_WAITED_SECONDS: Final = 90.0
_FIELDS: Final = tuple(NAMES[name] for name in ("owner", "fence", "lease_until", "turn"))


@dataclass(frozen=True, slots=True)
class Held:
    """A session that a worker ran a turn of; `fence` is that of its claim."""

    sid: str
    fence: int


@dataclass(frozen=True, slots=True)
class Takeovers:
    """Looks at these sessions in a store that may be away now and again."""

    store: RedisStore
    sids: tuple[str, ...]

    async def caught(self, process: str) -> list[Held]:
        """Return the sessions that a process runs turns of, once it runs any; in a calm it is not waited for long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _CALM_SECONDS
        while not (held := await self.held(process)) and loop.time() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
        return held

    async def seconds(self, held: Iterable[Held]) -> list[float]:
        """Return how long it takes until each session is claimed by another worker; if its turn had ended, nothing."""
        loop, took = asyncio.get_running_loop(), list[float]()
        at, waited = loop.time(), {one.sid: one for one in held}
        while waited and loop.time() < at + _WAITED_SECONDS:
            for sid, (_, fence, _, turn) in (await self._claims(waited)).items():
                if int(fence or 0) > waited[sid].fence:
                    took.append(loop.time() - at)
                    del waited[sid]
                elif not turn:
                    del waited[sid]
            await asyncio.sleep(0.05)
        return took

    async def held(self, process: str) -> list[Held]:
        """Return the sessions that a process runs turns of now."""
        found = list[Held]()
        for sid, (owner, fence, until, turn) in (await self._claims(self.sids)).items():
            if until and turn and owner is not None and owner.decode().partition(".")[0] == process:
                found.append(Held(sid, int(fence or 0)))
        return found

    async def _claims(self, sids: Iterable[str]) -> dict[str, list[bytes | None]]:
        """Return owner, fence, end of the lease and turn of sessions, nothing while the store is away."""
        with suppress(StoreError):
            return {sid: await command(self.store, "HMGET", keys(sid).state, *_FIELDS) for sid in tuple(sids)}
        return {}
