"""The second recipient of a background session's result or a run's last answer, named when it was set going.

A name whose meaning has changed leads to nobody. If the recipient may not be told, the person who set it going is told
that in private, if they are cleared for it.
"""

from typing import Final

from bot.access import labelling, principals, recipients
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import Background, called
from bot.sessions.deliveries import OURS, NewDelivery, copy_key
from bot.turn import OpenTurn
from channels.messages import OutboundKind
from policy.request import Hook

NOT_TOLD: Final = "The answer of {name} was not sent to `{recipient}`: {why}."
CHANGED_NAME: Final = "the name means another place or person by now, or none"
NOT_FOR_THEM: Final = "it may not be known there"
"""The notice to a person about a result that could not be sent to a second place, and the reasons for it."""


class SecondRecipient:
    """Makes deliveries to second recipients."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def copied(
        self, turn: OpenTurn, background: Background, text: str, rows: list[AuditRow]
    ) -> NewDelivery | None:
        """Return a result for its recipient, or the notice in its place, None for nothing.

        The rows of the decisions join `rows`.
        """
        standing, document = turn.standing, self._gate.document
        if not background.deliver_to:
            return None
        try:
            address = recipients.find(document, standing, background.deliver_to)
        except recipients.UnknownRecipientError:
            return await self._not_copied(turn, background, CHANGED_NAME, rows)
        if recipients.meaning(document, address) != background.meant:
            return await self._not_copied(turn, background, CHANGED_NAME, rows)
        meant = principals.owner(document, address)
        spoken = self._gate.output.speak(standing, await self._gate.readers.prospect(address), text)
        rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(address)))
        if spoken.decision.verdict not in MAY_GO_ON:
            return await self._not_copied(turn, background, NOT_FOR_THEM, rows)
        return NewDelivery(
            copy_key(background.run),
            str(address),
            spoken.text,
            standing.taint,
            OutboundKind.MESSAGE,
            turn.record.id,
            meant_for=meant,
            untrusted=standing.taint.untrusted,
        )

    async def _not_copied(
        self, turn: OpenTurn, background: Background, why: str, rows: list[AuditRow]
    ) -> NewDelivery | None:
        """Return the notice to the person who set it going that its recipient was not told, if they can be told.

        It reveals the session's reads, so it goes to a private chat that is cleared for all of them.
        """
        standing, label = turn.standing, turn.standing.taint.join(turn.claim.state.visibility)
        text = NOT_TOLD.format(name=called(background), recipient=background.deliver_to, why=why)
        for place in labelling.private_places(self._gate.document, standing.asker, label, background.asked_at):
            spoken = self._gate.output.reply(standing, await self._gate.readers.prospect(place), text, label)
            rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(place)))
            if spoken.decision.verdict in MAY_GO_ON:
                return NewDelivery(
                    f"{turn.record.id}-uncopied",
                    str(place),
                    spoken.text,
                    label,
                    OutboundKind.NOTICE,
                    turn.record.id,
                    approved=OURS,
                    meant_for=standing.asker,
                )
        return None
