"""The secrets that sign webhooks, encrypted in the store as the adapters' values are.

A secret that was replaced counts for a day more: each message has a signature by both, so a receiver may change to the
new one whenever that suits it. A secret that was read counts in this process for a second. So a burst of events costs
one reading, and another process signs by a new secret a second late at most.

A secret is returned once, and that answer may be lost. So the answer to an idempotency key is kept for ten minutes.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from bot.core.clock import Clock
from bot.core.errors import DedupeConflictError, StoreError
from channels.port import ChannelVault, VaultError

OVERLAP_MS: Final = 86_400_000
"""For how long a secret that was replaced signs beside the new one."""

PROMISED_SECONDS: Final = 600.0
"""The time for which the answer to an idempotency key is kept, in seconds."""

_FRESH_SECONDS: Final = 1.0
_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class PromisedSecret:
    """The answer to an idempotency key: the secret of a webhook, `done` once that is in force.

    `digest` is the request's.
    """

    digest: str
    webhook: str
    secret: str = field(repr=False)
    done: bool = False


class WebhookSecrets:
    """Keeps them in a vault, which is made when it is first needed. Every method raises StoreError: it cannot."""

    def __init__(self, vault: Callable[[], ChannelVault], clock: Clock) -> None:
        self._made, self._clock = vault, clock
        self._vault: ChannelVault | None = None
        # The secret that was read longest ago comes first, with the end of its life.
        self._read = OrderedDict[str, tuple[float, tuple[str, ...]]]()

    async def put(self, webhook: str, secret: str) -> None:
        """Keep the secret of a new webhook."""
        with self._changing(webhook):
            await self._opened().put(_name(webhook), _written([(secret, 0)]))

    async def replace(self, webhook: str, secret: str) -> None:
        """Sign with another secret from now on, and with the one before for a day more; once, however often asked."""
        with self._changing(webhook):
            while True:
                stored, now = await self._opened().get(_name(webhook)), self._clock.wall_ms()
                known = _kept(stored)
                if known and known[0][0] == secret:
                    return
                before = [(known[0][0], now + OVERLAP_MS)] if known else []
                if await self._opened().swap(_name(webhook), stored, _written([(secret, 0), *before])):
                    return

    async def drop(self, webhook: str) -> None:
        """Keep nothing of a webhook any more."""
        with self._changing(webhook):
            await self._opened().delete(_name(webhook))

    async def all(self, webhook: str) -> tuple[str, ...]:
        """Return the secrets to sign with, the one in force first, none where it is missing."""
        until, known = self._read.get(webhook, (0.0, ()))
        if until > (now := self._clock.monotonic()):
            return known
        with _as_of_the_store():
            kept, at = _kept(await self._opened().get(_name(webhook))), self._clock.wall_ms()
        found = tuple(secret for secret, ends in kept if not ends or ends > at)
        self._read[webhook] = (now + _FRESH_SECONDS, found)
        self._read.move_to_end(webhook)
        if len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)
        return found

    async def promise(self, key: str, wanted: PromisedSecret) -> PromisedSecret:
        """Keep the answer to a key, and return it: the one that was kept first.

        Raises DedupeConflictError: the key came with another request.
        """
        with _as_of_the_store():
            while not await self._opened().swap(_key(key), None, _promised(wanted), PROMISED_SECONDS):
                stored = await self._opened().get(_key(key))
                if stored is None:
                    continue
                known = PromisedSecret(**json.loads(stored))
                if known.digest != wanted.digest:
                    raise DedupeConflictError("this key came with another body", next_step="use a key for each request")
                return known
        return wanted

    async def kept_promise(self, key: str, promised: PromisedSecret) -> None:
        """Note that a secret is in force."""
        with _as_of_the_store():
            await self._opened().put(_key(key), _promised(replace(promised, done=True)), PROMISED_SECONDS)

    def _opened(self) -> ChannelVault:
        if self._vault is None:
            self._vault = self._made()
        return self._vault

    @contextmanager
    def _changing(self, webhook: str) -> Generator[None]:
        """Forget the cached secrets of a webhook once it is changed, also by a request whose answer was lost."""
        try:
            with _as_of_the_store():
                yield
        finally:
            self._read.pop(webhook, None)


def _name(webhook: str) -> str:
    return f"webhook/{webhook}/secrets"


def _key(key: str) -> str:
    return f"webhook-promise/{key}"


def _written(secrets: list[tuple[str, int]]) -> bytes:
    """Write secrets, each with when it signs no more, in milliseconds, 0 for the one in force."""
    return json.dumps(secrets).encode()


def _kept(stored: bytes | None) -> list[tuple[str, int]]:
    """Read secrets; an unreadable value signs nothing, as a missing one."""
    try:
        return [] if stored is None else [(secret, until) for secret, until in json.loads(stored)]
    except (ValueError, TypeError):
        return []


def _promised(promised: PromisedSecret) -> bytes:
    return json.dumps(asdict(promised)).encode()


@contextmanager
def _as_of_the_store() -> Generator[None]:
    """Say in one way that nothing can be read or written."""
    try:
        yield
    except VaultError as error:
        raise StoreError(str(error)) from error
