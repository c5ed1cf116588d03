"""Denials that outlive a store that goes back: revoked tokens, and blocked accounts and chats.

A restore knows them only where the store that is replaced still tells of them, and a process after a failover knows
those that were in force. Other rights are as the store has them.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from bot.core.errors import OperatorError, StoreError
from bot.sessions.api_tokens import ApiToken
from bot.sessions.audit import AuditRow
from bot.sessions.ports.store import Store
from policy.document.overrides import AccessChange, Overrides, Placing

RESTORED: Final = "restored"
"""The cause of older rights, in the audit row of a restore."""


@dataclass(frozen=True, slots=True)
class Denials:
    """The tokens and the changes of access in the store before it is replaced."""

    tokens: tuple[ApiToken, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)

    @staticmethod
    async def known(store: Store) -> "Denials":
        """Return those of a store, none if it cannot be read: then it is replaced because of that."""
        try:
            return Denials(await store.tokens.tokens(), (await store.access.overrides())[1])
        except StoreError:
            return Denials()

    async def kept(self, store: Store, actor: str, what: str = RESTORED) -> int:
        """Put them in force in the store, with rows of the chain `audit` that name `what` took them back.

        Return how many came back.

        Raises:
            OperatorError: others changed rights meanwhile.
            StoreError: it cannot be written.
        """
        now = {one.name: one for one in self.tokens}
        live = [one for one in await store.tokens.tokens() if not one.revoked]
        # The secret of another id was replaced since, so the one that came back must not count.
        void = [one.name for one in live if one.name in now and (now[one.name].revoked or now[one.name].id != one.id)]
        for name in void:
            row = AuditRow("token", actor, {"change": "revoke", "program": name})
            await store.tokens.revoke(name, (row,))
        known, restored = await store.access.overrides()
        accounts = sorted(self.overrides.blocked - restored.blocked)
        shut = {place for place, placing in self.overrides.places.items() if placing.blocked}
        places = {
            place: replace(restored.places.get(place, Placing()), blocked=True)
            for place in shut
            if not restored.places.get(place, Placing()).blocked
        }
        if accounts or places:
            change = AccessChange(places=places, accounts=dict.fromkeys(accounts, True))
            chats = sorted(map(str, places))
            row = AuditRow("access", actor, {"what": what, "accounts": [*accounts], "chats": [*chats]})
            if await store.access.override(change, known, (row,)) is None:
                raise OperatorError("rights changed during the restore", next_step="stop all processes and repeat it")
        return len(void) + len(accounts) + len(places)
