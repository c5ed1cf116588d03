"""Pairing: in a private chat a stranger is told how to ask to be let in, once; elsewhere they are told nothing.

A person who presses a button waits for its effect, so they are told, alone, that it does nothing for them.

A code stands for the account that it was given to. A person who types it from another account proves that both are
theirs, or that an acquaintance passed it on. The store keeps its hash under a key of this installation, never the code.
`bot.sessions.approvals` has the lifetime of a code, and the limits of waiting and wrong codes.
"""

from types import MappingProxyType
from typing import Final

from bot.access.authorize import Ingress, Refusal
from bot.core.ids import Ids, code_digest
from bot.core.keys import KeySeries
from bot.sessions.ports.store import Store
from channels.messages import How, Inbound
from policy.document.model import Document
from policy.request import Role

UNKNOWN_HERE: Final = "You are not known here."
"""The whole refusal for a known person without any right."""

NEEDS_ROLE: Final = MappingProxyType(
    {
        Role.OWNER: "Only the owner may give this command.",
        Role.ADMIN: "Only admins may give this command.",
        Role.APPROVER: "Only approvers and admins may give this command.",
    }
)
"""The refusals for a person whose role is too low for one command, by the role that it needs."""

ASK_OWNER: Final = "You are not known here. Ask the owner of this bot to let in the account `{account}`."
"""The answer to a stranger in private where strangers cannot be let in, at most once an hour: only the file lets in."""

NOT_YOURS: Final = "This button is not for you."
"""The refusal for a known person who may not press a button, in any chat."""

ASK_ALONE: Final = "This button is not for you, write to me in private to ask to be let in."
"""The refusal for a stranger who presses a button in a shared chat, where people can be let in."""

SAID_OFTEN: Final = frozenset({UNKNOWN_HERE, NOT_YOURS, ASK_ALONE, *NEEDS_ROLE.values()})
"""Refusals that would be repeated every time, and are sent at a decreasing rate."""

ASK: Final = "You are not known here. Give an admin of this bot the code {code} within an hour."


_HOUR_MS: Final = 60 * 60 * 1000
_DAY_MS: Final = 24 * _HOUR_MS


class Pairing:
    """Gives codes to strangers and recognises them. `keys` are the installation's secrets for sessions."""

    def __init__(self, store: Store, ids: Ids, keys: KeySeries) -> None:
        self._store = store
        self._ids = ids
        self._keys = keys

    async def told(self, document: Document, inbound: Inbound, refusal: Refusal) -> str:
        """Return the message for a refused sender, for them alone; an empty text for none.

        A sender who waits for an answer, was refused a code or is blocked is told nothing more. Raises StoreError.
        """
        pressed, known = inbound.how is How.BUTTON, document.principal(refusal.account) is not None
        if refusal.account in document.blocked or not (inbound.private or pressed):
            return ""
        if pressed and (known or not inbound.private):
            return NOT_YOURS if known or document.paired is None else ASK_ALONE
        if known:
            return UNKNOWN_HERE if refusal.needed is None else NEEDS_ROLE[refusal.needed]
        if document.paired is None:
            # Every line they write is refused, a greeting and a call for help as well.
            first = await self._store.counts.count(f"told/{refusal.account}", _HOUR_MS) == 1
            return ASK_OWNER.format(account=refusal.account) if first else ""
        code, address = self._ids.approval(), inbound.address
        await self._keys.fresh()
        digest = code_digest(self._keys.current, code)
        kept = await self._store.access.ask_pairing(refusal.account, address.channel, address.workspace, digest)
        return ASK.format(code=code) if kept else NOT_YOURS if pressed else ""

    async def times(self, refusal: Refusal) -> int:
        """Count a refusal of an account; return how many it had within a day. Raises StoreError.

        Presses are counted apart: they are answered where other refusals are silent.
        """
        kind = "pressed" if refusal.ingress is Ingress.BUTTON else "refused"
        return await self._store.counts.count(f"{kind}/{refusal.account}", _DAY_MS)

    async def account(self, principal: str, code: str) -> tuple[str, str] | None:
        """Return the account that was given a code, and the code's hash; None for a wrong code, which is counted.

        Raises:
            BusyError: This principal typed too many wrong codes.
            StoreError: The store does not answer.
        """
        await self._keys.fresh()
        typed = code.replace("-", "").lower()
        # A code that was given before a rotation still counts until its hour is over.
        digests = tuple(code_digest(key, typed) for key in self._keys.all)
        return await self._store.access.try_pairing(principal, *digests)
