"""Copies of questions: once a question is decided, or not asked any more, every copy says so.

Each copy that can be edited loses its buttons and gets one line. That line passes the session's outbox like every text,
where its readers are asked for again. The store knows the copies, so that another process edits those that this one
left. Copies are of questions, and of notices about held items. The person who answered is named only in private chats,
whose people were asked or did ask.

A question that could not be delivered is asked again at its home as soon as a person writes there. Otherwise they would
wait behind a question they never saw.
"""

from collections import Counter
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bot.core.errors import NotFoundError, SchemaError
from bot.delivery.outbox import Outbox
from bot.delivery.time_left import lasting
from bot.gate.gate import Gate
from bot.sessions.approvals import Approval, ApprovalState, QuestionCopy
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import OURS, Delivery, DeliveryState, NewDelivery
from bot.sessions.ports.store import Store
from channels.messages import Address, OutboundKind

if TYPE_CHECKING:
    from pydantic import JsonValue

GONE: Final = "not asked any more"
NOT_HELD: Final = "not held any more"
LONGEST: Final = 1_000
"""A question of more characters is not repeated above its line: it may have taken several messages."""

_WORDS: Final = MappingProxyType(
    {
        ApprovalState.APPROVED: "approved",
        ApprovalState.USED: "approved",
        ApprovalState.REPLIED: "answered",
        ApprovalState.DENIED: "refused",
        ApprovalState.CANCELLED: "cancelled",
        ApprovalState.SUPERSEDED: "superseded",
        ApprovalState.EXPIRED: "not answered in time",
    }
)


class QuestionUpdates:
    """Has the copies of questions edited."""

    def __init__(self, store: Store, gate: Gate, outbox: Outbox) -> None:
        self._store = store
        self._gate = gate
        self._outbox = outbox

    async def sweep(self) -> None:
        """Put the edits of all questions that are not asked any more into the outboxes, and mark the sessions ready.

        Copies at channels of other processes are left to them. Raises StoreError.
        """
        for copy in await self._store.question_copies.copies():
            # The copy of a session that cannot be read is closed when it can; the others do not wait for it.
            with suppress(SchemaError):
                await self._close(copy)

    async def close(self, sid: str) -> None:
        """Edit the copies of a session's questions now. Raises StoreError."""
        copies = await self._store.question_copies.copies(sid)
        for copy in copies:
            await self._close(copy)
        if copies:
            await self._outbox.collect(sid)

    async def ask_again(self, sid: str) -> None:
        """Retry the undelivered questions of a session at its home, if a person wrote there since.

        Raises StoreError.
        """
        state = await self._store.sessions.state(sid)
        if state is None or state.turn is None or not (state.asks and state.unsaid and state.waiting_items):
            return
        newest = max((one.accepted_at for one in await self._store.sessions.waiting(sid)), default=0)
        for one in await self._store.outbox.deliveries(sid):
            here = (one.address, one.kind, one.turn) == (state.home, OutboundKind.QUESTION, state.turn.id)
            if here and one.state is DeliveryState.FAILED and one.created_at < newest:
                body: dict[str, JsonValue] = {"what": "retry", "key": one.key, "destination": one.address}
                # A person may have dropped it, or another process was faster.
                with suppress(NotFoundError):
                    await self._store.outbox.decide_dead(
                        one, again=True, audit=(AuditRow("deadletter", "worker", body),)
                    )

    async def _close(self, copy: QuestionCopy) -> None:
        question, asked = await self._store.question_copies.copied(copy)
        if any(one.state is ApprovalState.PENDING for one in asked):
            # A server took over that does not know the answer: the question waits again.
            return
        if question is not None:
            address = Address.parse(question.address)
            if address.channel not in self._outbox.channels:
                # The readers are known where the channel is.
                return
            destination = await self._gate.readers.destination(address)
            held = f"{copy.asked}: {NOT_HELD}" if copy.holder else ""
            line = held or outcome(copy.asked, asked, named=not destination.shared)
            # A session that is gone sends nothing any more.
            with suppress(NotFoundError):
                await self._store.outbox.put(copy.sid, _edit(question, line))
        await self._store.question_copies.uncopied(copy)


def outcome(name: str, asked: tuple[Approval, ...], *, named: bool) -> str:
    """Return the outcome of a question in one line; with `named` it names the person who answered."""
    told = Counter(_word(approval, named=named) for approval in asked)
    if len(told) > 1:
        return f"{name}: {', '.join(f'{count} {word}' for word, count in told.items())}"
    return f"{name}: {next(iter(told), GONE)}"


def _word(approval: Approval, *, named: bool) -> str:
    word = _WORDS.get(approval.state, GONE)
    if named and approval.resolved_by and approval.state is not ApprovalState.EXPIRED:
        word += f" by {approval.resolved_by}"
    return word if approval.grant is None else f"{word}, {lasting(approval)}"


def _edit(question: Delivery, line: str) -> NewDelivery:
    # After its first line a notice about a held item tells how to decide.
    told = question.text.partition("\n")[0] if question.holds is not None else question.text
    return NewDelivery(
        # A question that is asked again stands in another message, which gets an edit of its own.
        key=f"{question.key}-then-{question.attempt}",
        address=question.address,
        text=f"{told}\n\n{line}" if len(told) <= LONGEST else line,
        label=question.label,
        kind=OutboundKind.NOTICE,
        turn=question.turn,
        approved=OURS,
        replaces=question.receipt,
        meant_for=question.meant_for,
        refs=question.refs,
    )
