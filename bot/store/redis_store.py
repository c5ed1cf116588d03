"""The store on the Redis protocol: all ports on one connection pool."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.core.clock import Clock
from bot.core.errors import StoreError, StoreRefusedError
from bot.core.ids import Ids
from bot.store.access import Access
from bot.store.budgets import Budget
from bot.store.chains import AuditChains
from bot.store.copies import Copies
from bot.store.counts import Counts
from bot.store.fitness import complaints, proof
from bot.store.kin import Kin
from bot.store.link import Link
from bot.store.listing import Listing
from bot.store.observed import Observing
from bot.store.offers import Offers
from bot.store.options import StoreOptions
from bot.store.outbox import Outbox
from bot.store.pacing import Pacing
from bot.store.policy import PolicyInForce
from bot.store.quarantine import Quarantining
from bot.store.queueing import Queueing
from bot.store.rights import Rights
from bot.store.sessions import Sessions
from bot.store.supervisor import Supervisor
from bot.store.wake import WakeHints
from channels.base import VaultError

if TYPE_CHECKING:
    from bot.store.vault import Vault


class RedisStore(
    Sessions,
    Listing,
    WakeHints,
    Outbox,
    AuditChains,
    Kin,
    PolicyInForce,
    Access,
    Pacing,
    Rights,
    Copies,
    Counts,
    Budget,
    Offers,
    Observing,
    Queueing,
    Quarantining,
):
    """Implements all ports of `bot.sessions`. Made by `open_store`."""

    def __init__(
        self,
        link: Link,
        *,
        options: StoreOptions,
        audit_key: bytes,
        clock: Clock,
        ids: Ids,
        server: Supervisor | None = None,
    ) -> None:
        """Take a link; `server` is the embedded server to leave on closing."""
        super().__init__(link, options=options, audit_key=audit_key, clock=clock, ids=ids)
        self._server = server

    @property
    def server(self) -> Supervisor | None:
        """The embedded server this process is attached to, if it is the embedded store."""
        return self._server

    def vault(self, keys: Sequence[bytes]) -> "Vault":
        """Return what adapters keep, under these keys, the newest first; only who has adapters loads the library."""
        from bot.store.vault import Vault

        return Vault(self._link, self._ids, keys)

    async def renew_vault(self, keys: Sequence[bytes]) -> None:
        """Write what adapters keep anew under the first of these keys.

        Raises StoreError: it cannot be read or written.
        """
        try:
            await self.vault(keys).renew()
        except VaultError as error:
            # What the store said is what tells how to mend it.
            raise error.__cause__ if isinstance(error.__cause__, StoreError) else StoreError(str(error)) from None

    async def complaints(self) -> list[StoreRefusedError]:
        """Return what makes the server unfit, and what keeps it from writing now, see `fitness`; doctor shows them."""
        return [*await complaints(self._link), *await proof(self._link)]

    async def check(self) -> None:
        """Refuse a server that is unfit.

        Raises StoreRefusedError: the first of its complaints. StoreGoneError: it does not answer.
        """
        found = await complaints(self._link)
        if found:
            raise found[0]

    async def close(self) -> None:
        """Close the connections and leave the embedded server; the last to leave stops it."""
        await self._link.close()
        if self._server is not None:
            await self._server.detach()
