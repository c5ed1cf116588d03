"""The treatment of refused senders: a row in the audit, and one sentence at most.

A thousand refusals of an account in a day are ten rows, each with its number. It gets at most as many answers, or one
in an hour that tells how to ask to be let in; each answer is audited as well.
"""

from typing import TYPE_CHECKING

from bot.access import labelling
from bot.access.authorize import Refusal
from bot.access.pairing import SAID_OFTEN, Pairing
from bot.gate.gate import Gate
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AuditStore
from channels.messages import Inbound

if TYPE_CHECKING:
    from pydantic import JsonValue


class Refusals:
    """Audits refusals and returns their messages."""

    def __init__(self, gate: Gate, audit: AuditStore, pairing: Pairing) -> None:
        self._gate = gate
        self._audit = audit
        self._pairing = pairing

    async def told(self, inbound: Inbound, refusal: Refusal) -> str:
        """Count a refusal, audit it now and then, and return the message for its sender; an empty text for none.

        Raises StoreError.
        """
        body: dict[str, JsonValue] = {
            "account": refusal.account,
            "address": str(inbound.address),
            "ingress": refusal.ingress.value,
            "reason": refusal.reason,
        }
        document = self._gate.document
        silent = inbound.bot or labelling.blocked(document, inbound.address)
        told = "" if silent else await self._pairing.told(document, inbound, refusal)
        times = await self._pairing.times(refusal)
        if times & (times - 1) == 0:
            await self._audit.append((AuditRow("refused", "router", {**body, "times": times}),))
        elif told in SAID_OFTEN:
            return ""
        return told
