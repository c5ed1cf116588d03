"""Admission of a message into the context: step 5 of the way of one message (hook PRE_CONTEXT_INJECTION).

Further messages of the same person enter an open turn in the same way, if the session's mode allows it, each decided
and written down alone. A message that may not enter waits, and gets its refusal in a turn of its own.

Before a file is fetched it is decided whether an item with its label may enter at all (law
`read_is_decided_before_it_happens`), and after that once more with all content. The log has each admitted message as
the model reads it.
"""

from dataclasses import replace
from functools import partial

from bot.access import principals
from bot.admission.ambient import Heard, Observer
from bot.admission.attachments import Attachments
from bot.admission.brought import ReceivedFile
from bot.admission.whole_messages import first_whole, settled
from bot.admission.wording import worded
from bot.agent.loop import GivenUp
from bot.core.errors import WithdrawnError
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import OURS, NewDelivery
from bot.sessions.inbox import InboxItem
from bot.sessions.log.event_types import YieldReason
from bot.sessions.log.events import NewEvent
from bot.sessions.models import Change, Status
from bot.sessions.refs import InputRef
from bot.turn import OpenTurn
from channels.messages import OutboundKind
from policy.decision import Decision
from policy.labels import Label
from policy.request import Hook


class Admission:
    """Lets messages in."""

    def __init__(self, gate: Gate, files: Attachments, observer: Observer, outbox: Outbox) -> None:
        self._gate = gate
        self._files = files
        self._observer = observer
        self._outbox = outbox

    async def join(self, turn: OpenTurn, *, opening: bool) -> None:
        """Admit messages that the turn's sender wrote meanwhile, up to one of another sender or one that may not enter.

        `opening` tells that the model was not asked yet in this turn. Messages of other sessions do not join a turn.
        Once a conversation is above its address, its later steps admit nothing, as they would choose among waiting
        messages (ADR 0021).
        """
        if not turn.mode.joins(opening=opening) or (opening and turn.folds.foreign):
            return
        if turn.above_home and not opening:
            return
        try:
            waiting = await turn.inbox()
            while waiting and _joins(turn, waiting[0]) and settled(waiting, turn.now):
                item = first_whole(waiting)
                if await self.admit(turn, item) is not None:
                    turn.left = item.position
                    return
                waiting = waiting[len(item.also) + 1 :]
        except WithdrawnError:
            return

    async def admit(self, turn: OpenTurn, item: InboxItem) -> GivenUp | None:
        """Admit a message to the context, together with the messages observed in its chat before.

        Returns the end of the turn that it would begin if it may not enter. Raises WithdrawnError: it does not wait any
        more.
        """
        said = (item.body.text, *item.body.quoted)
        decision, row = self._decided(turn, item, said)
        brought: tuple[ReceivedFile, ...] = ()
        if decision.verdict in MAY_GO_ON and item.body.files:
            await _begin(turn, row)
            brought = await self._files.bring(turn.standing, item, turn.folds.file_bytes, turn.audit)
            found = (text for file in brought for text in (file.name, file.text or ""))
            decision, row = self._decided(turn, item, (*said, *found))
        if decision.verdict not in MAY_GO_ON:
            return GivenUp(YieldReason.ERROR, decision=decision, rejected=row)
        # Before anything is awaited: by the policy that decided.
        clean = partial(self._gate.masks.cleaned, decision=decision)
        text, *quoted = map(clean, said)
        brought = await self._files.keep(turn.standing, item, self._files.shown(brought, clean))
        event = event_log.user_message(
            turn.standing,
            item.sender,
            worded(text, quoted, brought),
            label=item.label,
            origin=item.body.origin,
            files=[file.described() for file in brought],
            authors=item.body.authors,
            refs=(InputRef(item.dedupe), *item.refs),
            number=item.position if principals.is_of_program(item.body.account) else 0,
        )
        heard = await self._observer.before(turn, item, decision.label_after)
        await self._written(turn, item, event, heard=heard, row=row, brought=brought)
        return None

    async def _written(
        self,
        turn: OpenTurn,
        item: InboxItem,
        event: NewEvent,
        *,
        heard: Heard,
        row: AuditRow,
        brought: tuple[ReceivedFile, ...],
    ) -> None:
        """Write down that a message is admitted, and tell its sender which of its files were not accepted."""
        async with turn.lock:
            standing, record, began = turn.standing, turn.record, ()
            if item.position == record.position:
                began = (event_log.turn_started(standing, record.attempt),)
            else:
                record = replace(record, joined=(*record.joined, item.position, *item.also))
            after = replace(standing, taint=heard.label_after)
            admitted = (event,) if heard.event is None else (heard.event, event)
            cause = _cause(item, standing.taint)
            told, rows = self._told(turn, item, brought)
            deliveries = await turn.write(
                Change(
                    events=(
                        *began,
                        *event_log.taint_raised(standing, heard.label_after, cause),
                        *admitted,
                    ),
                    audit=(
                        row,
                        *heard.audit,
                        decision_row(after, Hook.AGENT_INVOCATION, self._gate.requests.invoke(after)),
                        *rows,
                    ),
                    take=item.position,
                    also=item.also,
                    turn=record,
                    status=Status.RUNNING,
                    deliver=told,
                )
            )
            turn.admitted += admitted
        await self._outbox.deliver(deliveries)

    def _decided(self, turn: OpenTurn, item: InboxItem, texts: tuple[str, ...]) -> tuple[Decision, AuditRow]:
        standing = turn.standing
        decision = self._gate.requests.admit(standing, item.label, "\n".join(texts)).decision
        return decision, decision_row(standing, Hook.PRE_CONTEXT_INJECTION, decision, position=item.position)

    def _told(
        self, turn: OpenTurn, item: InboxItem, brought: tuple[ReceivedFile, ...]
    ) -> tuple[tuple[NewDelivery, ...], tuple[AuditRow, ...]]:
        """Return the notice for a message's sender about its files, if there is one.

        It carries the label of the session too, whose taint and budget decided about the files.
        """
        text = "\n".join(file.told for file in brought if file.told)
        if not text:
            return (), ()
        standing, label = turn.standing, item.label.join(turn.standing.taint)
        spoken = self._gate.output.reply(standing, standing.destination, text, label)
        home = str(standing.home)
        row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=home)
        if spoken.decision.verdict not in MAY_GO_ON:
            return (), (row,)
        notice = NewDelivery(
            key=f"{turn.record.id}-files-{item.position}",
            address=home,
            text=spoken.text,
            label=label,
            kind=OutboundKind.NOTICE,
            turn=turn.record.id,
            approved=OURS,
            hops=turn.record.hops + 1,
        )
        return (notice,), (row,)


def _joins(turn: OpenTurn, item: InboxItem) -> bool:
    return item.sender == turn.record.sender and item.body.origin is None and item.position != turn.left


async def _begin(turn: OpenTurn, row: AuditRow) -> None:
    """Open the turn before its files are read, so that a crash of the worker on one of them counts as an attempt."""
    async with turn.lock:
        await turn.write(Change(audit=(row,), turn=turn.record, status=Status.RUNNING))


def _cause(item: InboxItem, taint: Label) -> str:
    """Return the cause of a raise by a message: an item of another session above the taint was let in by a person."""
    origin = item.body.origin
    if origin is None or not origin.session:
        return "message"
    source = f"session {origin.session}"
    return source if item.label.flows_to(taint) else f"an input from {source}"
