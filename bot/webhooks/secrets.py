"""The secrets that webhooks are signed with, encrypted in the store as what adapters keep is.

A secret that was replaced counts for a day more: each message has a signature by both, so a receiver may change to the
new one whenever that suits it.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from bot.core.errors import StoreError
from channels.port import ChannelVault, VaultError

OVERLAP_SECONDS: Final = 86_400.0
"""For how long a secret that was replaced signs beside the new one."""


class WebhookSecrets:
    """Keeps them in a vault, which is made when it is first needed. Every method raises StoreError: it cannot."""

    def __init__(self, vault: Callable[[], ChannelVault]) -> None:
        self._made = vault
        self._vault: ChannelVault | None = None

    async def put(self, webhook: str, secret: str) -> None:
        """Keep the secret of a new webhook."""
        with _as_of_the_store():
            await self._opened().put(_name(webhook), secret.encode())

    async def replace(self, webhook: str, secret: str) -> None:
        """Sign with another secret from now on, and with the one before for a day more."""
        with _as_of_the_store():
            vault = self._opened()
            before = await vault.get(_name(webhook))
            if before is not None:
                await vault.put(_name(webhook, "before"), before, OVERLAP_SECONDS)
            await vault.put(_name(webhook), secret.encode())

    async def drop(self, webhook: str) -> None:
        """Keep nothing of a webhook any more."""
        with _as_of_the_store():
            for name in (_name(webhook), _name(webhook, "before")):
                await self._opened().delete(name)

    async def all(self, webhook: str) -> tuple[str, ...]:
        """Return the secrets to sign with, the one in force first, none where it is missing."""
        with _as_of_the_store():
            found = [await self._opened().get(name) for name in (_name(webhook), _name(webhook, "before"))]
        return () if found[0] is None else tuple([secret.decode() for secret in found if secret is not None])

    def _opened(self) -> ChannelVault:
        if self._vault is None:
            self._vault = self._made()
        return self._vault


def _name(webhook: str, which: str = "secret") -> str:
    return f"webhook/{webhook}/{which}"


@contextmanager
def _as_of_the_store() -> Generator[None]:
    """Say in one way that nothing can be read or written."""
    try:
        yield
    except VaultError as error:
        raise StoreError(str(error)) from error
