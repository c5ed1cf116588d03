"""What a stranger is told: in a private chat how to ask to be let in, once; elsewhere nothing.

A code stands for the account that was given it, so that who types it elsewhere proves that both are his, or that
somebody who knows him handed it on. The store keeps its hash under a key of this installation, never the code. How
long a code counts, how many may wait and how many wrong ones may be typed stands in `bot.sessions.pairings`.
"""

from typing import Final, Protocol

from bot.authorize import Refusal
from bot.ids import Ids, code_digest
from bot.sessions.counts import CountStore
from bot.sessions.port import AccessStore
from channels.message import Inbound
from policy.document import Document

UNKNOWN_HERE: Final = "you are not known here"
"""All that somebody refused learns where nobody can be let in, or who is known and may not do this."""

ASK: Final = "you are not known here, an admin of this bot can let you in with the code {code} within an hour"


_DAY_MS: Final = 24 * 60 * 60 * 1000


class Store(AccessStore, CountStore, Protocol):
    """What is asked of the store."""


class Strangers:
    """Gives codes to strangers and recognises them. `key` is the installation's secret for sessions."""

    def __init__(self, store: Store, ids: Ids, key: bytes) -> None:
        self._store = store
        self._ids = ids
        self._key = key

    async def told(self, document: Document, inbound: Inbound, refusal: Refusal) -> str:
        """Return what somebody who was refused is told, an empty text for nothing.

        Whoever waits for an answer, was refused one or is blocked is told nothing more. Raises StoreError.
        """
        if not inbound.private or refusal.account in document.blocked:
            return ""
        if document.paired is None or document.principal(refusal.account) is not None:
            return UNKNOWN_HERE
        code, address = self._ids.approval(), inbound.address
        digest = code_digest(self._key, code)
        kept = await self._store.ask_pairing(refusal.account, address.channel, address.workspace, digest)
        return ASK.format(code=code) if kept else ""

    async def times(self, account: str) -> int:
        """Count that an account was refused; return how often it was within a day. Raises StoreError."""
        return await self._store.count(f"refused/{account}", _DAY_MS)

    async def account(self, principal: str, code: str) -> tuple[str, str] | None:
        """Return the account that was given a code, and the code's hash; None for a wrong one, which is counted.

        Raises BusyError: this principal typed too many wrong ones. StoreError.
        """
        digest = code_digest(self._key, code.replace("-", "").lower())
        account = await self._store.try_pairing(principal, digest)
        return None if account is None else (account, digest)
