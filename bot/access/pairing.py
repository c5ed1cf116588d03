"""What a stranger is told: in a private chat how to ask to be let in, once; elsewhere nothing.

But whoever presses a button waits for what it does, so they are told, alone, that it does nothing for them.

A code stands for the account that was given it, so that who types it elsewhere proves that both are his, or that
somebody who knows him handed it on. The store keeps its hash under a key of this installation, never the code. How
long a code counts, how many may wait and how many wrong ones may be typed stands in `bot.sessions.approvals`.
"""

from typing import Final

from bot.access.authorize import Ingress, Refusal
from bot.core.ids import Ids, code_digest
from bot.sessions.ports.store import Store
from channels.messages import How, Inbound
from policy.document.model import Document

UNKNOWN_HERE: Final = "you are not known here"
"""All that somebody refused learns where nobody can be let in, or who is known and may not do this."""

NOT_YOURS: Final = "this button is not for you"
"""What somebody known is told who may not press it, wherever it is."""

ASK_ALONE: Final = "this button is not for you, write to me in private to ask to be let in"
"""What a stranger is told who presses a button in a shared chat, where people can be let in."""

SAID_OFTEN: Final = frozenset({UNKNOWN_HERE, NOT_YOURS, ASK_ALONE})
"""What somebody would be told every time, and is told less and less often."""

ASK: Final = "you are not known here, an admin of this bot can let you in with the code {code} within an hour"


_DAY_MS: Final = 24 * 60 * 60 * 1000


class Pairing:
    """Gives codes to strangers and recognises them. `key` is the installation's secret for sessions."""

    def __init__(self, store: Store, ids: Ids, key: bytes) -> None:
        self._store = store
        self._ids = ids
        self._key = key

    async def told(self, document: Document, inbound: Inbound, refusal: Refusal) -> str:
        """Return what somebody who was refused is told, alone; an empty text for nothing.

        Whoever waits for an answer, was refused one or is blocked is told nothing more. Raises StoreError.
        """
        pressed, known = inbound.how is How.BUTTON, document.principal(refusal.account) is not None
        if refusal.account in document.blocked or not (inbound.private or pressed):
            return ""
        if pressed and (known or not inbound.private):
            return NOT_YOURS if known or document.paired is None else ASK_ALONE
        if document.paired is None or known:
            return UNKNOWN_HERE
        code, address = self._ids.approval(), inbound.address
        digest = code_digest(self._key, code)
        kept = await self._store.access.ask_pairing(refusal.account, address.channel, address.workspace, digest)
        return ASK.format(code=code) if kept else NOT_YOURS if pressed else ""

    async def times(self, refusal: Refusal) -> int:
        """Count that an account was refused; return how often it was within a day. Raises StoreError.

        Presses count apart: they are told where nothing else is.
        """
        kind = "pressed" if refusal.ingress is Ingress.BUTTON else "refused"
        return await self._store.counts.count(f"{kind}/{refusal.account}", _DAY_MS)

    async def account(self, principal: str, code: str) -> tuple[str, str] | None:
        """Return the account that was given a code, and the code's hash; None for a wrong one, which is counted.

        Raises BusyError: this principal typed too many wrong ones. StoreError.
        """
        digest = code_digest(self._key, code.replace("-", "").lower())
        account = await self._store.access.try_pairing(principal, digest)
        return None if account is None else (account, digest)
