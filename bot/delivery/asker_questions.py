"""The delivery of an agent's question to its asker: the places for it are decided before the turn waits for it.

It leaves like any other output of the agent (hook PRE_OUTPUT), at each place on its own. A rule that asks people about
an agent's words prevents it, since nobody is asked whether a person may be asked. A question that may be said nowhere
is not asked, and the agent is told so.
"""

from dataclasses import replace
from typing import Final

from bot.access.decision_context import Call
from bot.core.ids import Ids
from bot.delivery import question_prompts
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, PlacedQuestion, decision_row
from bot.sessions.approvals import Approval, ApprovalQuestion, QuestionKind
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import NewDelivery, question_key
from bot.tools.base import Inquiry
from bot.turn import OpenTurn
from channels.messages import Address, OutboundKind
from policy.request import Hook

NOWHERE: Final = "nobody was asked: the question may not be said anywhere your user reads; go on without an answer"
"""The result of a call whose question may be said nowhere."""


class AskerQuestions:
    """Places agents' questions. `life` is the longest time that one waits, in milliseconds."""

    def __init__(self, gate: Gate, ids: Ids, life: int) -> None:
        self._gate = gate
        self._ids = ids
        self._life = life

    async def place(self, turn: OpenTurn, call: Call, inquiry: Inquiry) -> PlacedQuestion | None:
        """Return a question with the places where it may be said, None if there are none; nothing is written."""
        question = self._question(turn, call, inquiry)
        standing, document = turn.standing, self._gate.document
        text = question_prompts.wording(question, standing.now, turn.background)
        await self._gate.output.read_ahead((text,))
        deliver, rows = list[NewDelivery](), list[AuditRow]()
        for address in question_prompts.places(document, question, standing.home, turn.background):
            destination = await self._gate.readers.prospect(address)
            buttons = question_prompts.buttons(question, None)
            spoken = self._gate.output.speak(standing, destination, text, buttons=buttons)
            rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(address)))
            as_it_is = spoken.text == text or not inquiry.literal
            if spoken.decision.verdict in MAY_GO_ON and as_it_is:
                deliver.append(_delivery(turn, question, address, spoken.text))
                if turn.background is not None:
                    # It asks in one chat, as it does about approvals.
                    break
        if not deliver:
            return None
        places = tuple(one.address for one in deliver)
        return PlacedQuestion(replace(question, places=places), tuple(deliver), tuple(rows))

    def _question(self, turn: OpenTurn, call: Call, inquiry: Inquiry) -> Approval:
        standing, background = turn.standing, turn.background
        until = standing.now + min(inquiry.minutes * 60_000 or self._life, self._life)
        return Approval(
            id=self._ids.approval(),
            sid=standing.sid,
            generation=standing.generation,
            turn=turn.record.id,
            call=call.id,
            tool=call.tool,
            binding="",
            label=standing.taint,
            principal=standing.asker,
            question=ApprovalQuestion(call.tool, question_prompts.facts(call, inquiry), kind=QuestionKind.QUESTION),
            rules=(),
            expires_at=until if background is None else min(until, background.deadline),
            asked_at=standing.now,
            alone=background is not None,
            wanted=inquiry.wanted,
            default=inquiry.default,
        )


def _delivery(turn: OpenTurn, question: Approval, address: Address, text: str) -> NewDelivery:
    key, home = question_key(turn.record.id, question.id), turn.standing.home
    return NewDelivery(
        key=key if address == home else f"{key}-{address}",
        address=str(address),
        text=text,
        label=question.label,
        kind=OutboundKind.QUESTION,
        turn=turn.record.id,
        meant_for="" if address == home else turn.standing.asker,
    )
