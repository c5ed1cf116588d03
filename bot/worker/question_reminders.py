"""Reminders of open questions: once for each question, while a quarter of its time is left.

A question's timer is set before the question is written, so that none is forgotten after a crash. A reminder is put
into the outbox under a key of its own, once, for each place where the question was said. It passes the outbox like any
text, at the question's label and for the same person. It has no buttons: people must see what they answer. A person who
is not known any more, or whose account has another owner now, is not reminded. The outbox drops a reminder that waited
until its question was over.
"""

from typing import Final

from bot.access import principals
from bot.core.errors import NotFoundError
from bot.delivery.time_left import left
from bot.gate.gate import Gate
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.background.schedules import Timer
from bot.sessions.deliveries import OURS, Delivery, DeliveryState, NewDelivery, reminder_key
from bot.sessions.ports.store import Store
from channels.messages import Address, OutboundKind

WAITS: Final = "Question {id} still waits for an answer, {left}. `/{command} {id}` shows it."

_SAID: Final = frozenset({DeliveryState.SENT, DeliveryState.AMBIGUOUS})


class QuestionReminders:
    """Carries out the timers of kind REMIND, each about a session and one of its questions."""

    def __init__(self, store: Store, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    async def due(self, timer: Timer) -> None:
        """Remind people of a question that is still open, where it was said. Raises StoreError."""
        sid, _, name = timer.about.rpartition("/")
        waiting = [
            one
            for one in await self._store.approvals.of(sid)
            if one.asked_in == name and one.state is ApprovalState.PENDING
        ]
        if not waiting:
            return
        text = _told(waiting[0], max(self._store.tokens.now_ms(), timer.due))
        for one in await self._store.outbox.deliveries(sid):
            if one.kind == OutboundKind.QUESTION and one.asked == name and self._reaches(one):
                try:
                    await self._store.outbox.put(sid, _reminder(one, text))
                except NotFoundError:
                    # The session was deleted meanwhile.
                    return

    def _reaches(self, said: Delivery) -> bool:
        """Say whether a question was said, and its place still has the same owner."""
        address = Address.parse(said.address)
        return said.state in _SAID and not principals.is_anothers(self._gate.document, address, said.meant_for)


def _told(question: Approval, now: int) -> str:
    command = "questions" if question.is_question else "approvals"
    return WAITS.format(id=question.asked_in, left=left(question, now), command=command)


def _reminder(question: Delivery, text: str) -> NewDelivery:
    return NewDelivery(
        key=reminder_key(question.key),
        address=question.address,
        text=text,
        label=question.label,
        kind=OutboundKind.NOTICE,
        turn=question.turn,
        approved=OURS,
        meant_for=question.meant_for,
        refs=question.refs,
    )
