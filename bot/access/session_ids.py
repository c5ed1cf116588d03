"""Which session a person's words at an address belong to.

An address has one session, so that accepting a message is one script. A private chat may be another person's one day:
an account is taken from somebody, or the configuration calls him by another name. What was said before is not the new
one's to read (law `no_read_up`), nor may it be forgotten for him (law `taint_never_falls`). The session stays as it is,
for whom it was, and the other begins one of his own at the same address.
"""

from bot.core.ids import session_id
from bot.sessions.ports import SessionStore
from channels.messages import Address


class SessionIds:
    """Names sessions under the key of an installation."""

    def __init__(self, store: SessionStore, key: bytes) -> None:
        self._store = store
        self._key = key

    def first(self, address: Address) -> str:
        """Return the id of the session that belongs to an address, whoever began it."""
        return session_id(self._key, str(address), "")

    def own(self, address: Address, principal: str) -> str:
        """Return the id of the session of a principal at an address that another had before."""
        return session_id(self._key, str(address), principal)

    async def of(self, address: Address, principal: str) -> str:
        """Return the id of the session in which a principal speaks at an address."""
        first = self.first(address)
        state = await self._store.state(first)
        return first if state is None or state.principal == principal else self.own(address, principal)
