"""Accounts, links and registrations in the vault, for all processes: encrypted, each under an opaque name.

A name shows the server, and a digest in place of a person, a link or an issuer. Every method raises StoreError: the
vault cannot be used.
"""

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from bot.core.errors import StoreError
from bot.mcp.accounts.records import Account, Kept, Link, Registration, Unconfirmed, read, written
from channels.port import ChannelVault, VaultError

LINK_SECONDS: Final = 600
"""The time for which a link counts, and then the code of its page, in seconds."""

CLIENT_SECONDS: Final = 86_400
"""The time for which a client that was registered is used for new links, in seconds."""

RENEWING_SECONDS: Final = 40
"""The time after which a renewal that its process left behind is taken over, in seconds."""


class AccountStore:
    """Keeps them in a vault, which is made when it is first needed."""

    def __init__(self, vault: Callable[[], ChannelVault]) -> None:
        self._made = vault
        self._vault: ChannelVault | None = None

    async def account(self, server: str, principal: str) -> Account | None:
        """Return the account of a principal at a server, None if they have none."""
        return await self._get(_name("account", server, principal), Account)

    async def keep(self, account: Account) -> Account | None:
        """Keep an account in the place of an earlier one of its principal there, and return that one."""
        return await self._exchange(_name("account", account.server, account.principal), account)

    async def replace(self, old: Account, new: Account | None) -> bool:
        """Put an account in the place of `old`, or nothing, and say whether that was still there."""
        return await self._swap(_name("account", old.server, old.principal), old, new)

    async def begin_renewal(self, account: Account, owner: str) -> bool:
        """Say whether this process alone may renew an account's token now; `owner` is unique to this try."""
        name = _name("renewal", account.server, account.principal)
        with _told():
            return await self._values.swap(name, None, owner.encode(), RENEWING_SECONDS)

    async def end_renewal(self, account: Account, owner: str) -> None:
        """Let other processes renew an account's token again, if `owner` still has the right to."""
        with _told():
            await self._values.swap(_name("renewal", account.server, account.principal), owner.encode(), None)

    async def offer(self, state: str, link: Link) -> None:
        """Keep a link that was made for a state."""
        await self._put(_name("link", state), link, LINK_SECONDS)

    async def take(self, state: str) -> Link | None:
        """Return the link of a state, which then counts no more; None if it does not count."""
        name = _name("link", state)
        link = await self._get(name, Link)
        return link if link is not None and await self._swap(name, link, None) else None

    async def wait_for(self, unconfirmed: Unconfirmed) -> Unconfirmed | None:
        """Keep an account until its code is typed; return the one that waited before."""
        name = _name("unconfirmed", unconfirmed.account.server, unconfirmed.account.principal)
        return await self._exchange(name, unconfirmed, LINK_SECONDS)

    async def unconfirmed(self, server: str, principal: str) -> Unconfirmed | None:
        """Return the account that waits for its code, None if there is none."""
        return await self._get(_name("unconfirmed", server, principal), Unconfirmed)

    async def settle(self, old: Unconfirmed, new: Unconfirmed | None, seconds: float = LINK_SECONDS) -> bool:
        """Put another in the place of an account that waits, for so long, or nothing; say whether it still waited."""
        return await self._swap(_name("unconfirmed", old.account.server, old.account.principal), old, new, seconds)

    async def registration(self, *named: str) -> Registration | None:
        """Return the client that was registered for these names, None if there is none."""
        return await self._get(_name("client", *named), Registration)

    async def register(self, registration: Registration, *named: str) -> None:
        """Keep a client that was registered for these names, for a day: its issuer may forget it and tell nobody."""
        await self._put(_name("client", *named), registration, CLIENT_SECONDS)

    @property
    def _values(self) -> ChannelVault:
        if self._vault is None:
            self._vault = self._made()
        return self._vault

    async def _get(self, name: str, kind: type[Kept]) -> Kept | None:
        with _told():
            raw = await self._values.get(name)
        return None if raw is None else read(kind, raw)

    async def _put(self, name: str, value: Link | Registration, life: float) -> None:
        with _told():
            await self._values.put(name, written(value), life)

    async def _exchange(self, name: str, value: Kept, life: float | None = None) -> Kept | None:
        """Keep a value, and return exactly the one that it replaced: whose tokens are then given back."""
        with _told():
            while True:
                raw = await self._values.get(name)
                if await self._values.swap(name, raw, written(value), life):
                    return None if raw is None else read(type(value), raw)

    async def _swap(self, name: str, old: Kept, new: Kept | None, life: float | None = None) -> bool:
        """Replace a value that means `old`, however its writer wrote it."""
        with _told():
            raw = await self._values.get(name)
            if raw is None or read(type(old), raw) != old:
                return False
            return await self._values.swap(name, raw, None if new is None else written(new), life)


def _name(kind: str, *parts: str) -> str:
    material = "\0".join(parts).encode("utf-8", "surrogatepass")
    return f"mcp/{kind}/{hashlib.sha256(material).hexdigest()}"


@contextmanager
def _told() -> Generator[None]:
    """Raise StoreError where the vault cannot be read or written."""
    try:
        yield
    except VaultError as error:
        raise StoreError(str(error)) from error
