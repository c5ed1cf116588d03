"""Approval requests at the end of a turn: one question for all calls of a step, bound to exactly the shown facts.

The question is sent to the session's home, and to the private chats of people who may answer but are not there. The
home of a background session has no readers. It asks the person who set it going, alone, in one private chat that is
cleared for the question, and until its deadline at most. The turn then waits in the store, without a worker.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap

from bot.access import approvals, labelling, principals
from bot.access.decision_context import Call, DecisionContext
from bot.agent.calls import answered
from bot.core.ids import Ids
from bot.delivery import approval_prompts
from bot.gate.calls import MAY_BE_DONE, MAY_BE_LOST, nobody
from bot.gate.gate import Gate
from bot.gate.results import CallDecision, decision_row, ended_rows, explained
from bot.gate.steering import in_words, vouched, within_bounds
from bot.history import event_log
from bot.sessions.approvals import Approval, ApprovalQuestion
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import OURS, Delivery, NewDelivery, question_key
from bot.sessions.log.events import NewEvent
from bot.sessions.messages import named
from bot.sessions.models import Change, Status
from bot.tools.references import referred
from bot.turn import OpenTurn
from channels.messages import OutboundKind
from policy.decision import Decision, Verdict
from policy.fixed import OUTCOME
from policy.labels import join_all
from policy.request import Destination, Hook


class ApprovalRequests:
    """Asks people. `approval_life` is the lifetime of a question to them, in milliseconds, None for ever."""

    def __init__(self, gate: Gate, ids: Ids, approval_life: int | None) -> None:
        self._gate = gate
        self._ids = ids
        self._approval_life = approval_life

    async def ask(self, turn: OpenTurn, calls: tuple[CallDecision, ...]) -> tuple[Delivery, ...] | None:
        """Ask people, in one question for all calls that need an approval, and wait without holding a worker.

        Agents' own questions to their askers were placed before, each in a question of its own. People who answer must
        be cleared, where they are asked, for all the facts that they are shown.

        Returns:
            The deliveries, or None if the question may not be said here: then nobody was asked, and nothing was
            written.

        Raises:
            LeaseLostError: Another worker has the session now.
        """
        placed = [prepared.question for prepared in calls if prepared.question is not None]
        calls = tuple(prepared for prepared in calls if prepared.question is None)
        openly = question = _Question(())
        if calls:
            openly, question = await self._question(turn, calls)
            if not question.deliver:
                return None
        standing = turn.standing
        rows = [
            decision_row(standing, _hook(prepared), prepared.decision, tool=prepared.call.tool, call=prepared.call.id)
            for prepared in calls
        ]
        rows += ended_rows(standing, *calls)
        used = turn.record.usage.plus(turn.usage)
        refers = {prepared.call.id: referred(prepared.call.arguments) for prepared in calls}
        return await turn.end(
            Change(
                events=(
                    *(self._asked(turn, prepared) for prepared in calls),
                    # The log is the same for any held text, so it has the question without it.
                    *(
                        event_log.approval_requested(standing, approval, refers.get(approval.call, ()))
                        for approval in openly.asked
                    ),
                    *(event_log.approval_requested(standing, one.question) for one in placed),
                ),
                audit=(*rows, *question.audit, *(row for one in placed for row in one.audit)),
                ended=tuple({one.grant: one for prepared in calls for one in prepared.ended}.values()),
                ask=(*question.asked, *(one.question for one in placed)),
                turn=replace(turn.record, suspended=True, usage=used, active=turn.active),
                status=Status.AWAITING_INPUT,
                deliver=(*question.deliver, *(new for one in placed for new in one.deliver)),
            )
        )

    async def _question(self, turn: OpenTurn, calls: tuple[CallDecision, ...]) -> "tuple[_Question, _Question]":
        """Return the question as far as it may be known of, and as people are shown it.

        Whether they are asked, which people, and where, must reveal nothing of held texts: that is decided without
        them. The texts behind references are shown if they may be shown at all these places, else at none. Where no
        person may know of their label, people are asked at the label that may be shown, and without them.
        """
        name = self._ids.approval()
        blank = tuple(replace(prepared, shown=None, missing=False) for prepared in calls)
        openly = await self._put(turn, tuple(replace(prepared, carried=prepared.known) for prepared in blank), name)
        if not openly.deliver or all(prepared.open is None for prepared in calls):
            return openly, openly
        without = await self._put(turn, blank, name)
        if not without.deliver or not all(
            map(partial(approvals.anybody_may_answer, self._gate.document), without.asked)
        ):
            return openly, openly
        whole = await self._put(turn, calls, name)
        return openly, whole if whole.places == without.places else without

    async def _put(self, turn: OpenTurn, calls: tuple[CallDecision, ...], name: str) -> "_Question":
        """Return a question with the places where it may be said: the home, and the chats of others who may answer."""
        document, standing = self._gate.document, turn.standing
        asked = self._approvals(turn, calls, name)
        text = approval_prompts.wording(document, asked, turn.background)
        label = join_all((approval.label for approval in asked), standing.taint)
        home = f"{text}\n{approval_prompts.IN_OPERATORS_CHAT}"
        await self._gate.output.read_ahead((text, home))
        deliver = NewDelivery(
            key=question_key(turn.record.id, asked[0].asked_in),
            address="",
            text=text,
            label=label,
            kind=OutboundKind.QUESTION,
            turn=turn.record.id,
            approved=OURS,
            meant_for=standing.asker if turn.background is not None else "",
        )
        operators, told, instead = await self._to_operators(turn, asked, deliver)
        said = await self._said(turn, asked, replace(deliver, text=home) if operators else deliver)
        if said is None:
            return _Question(asked)
        first, row = said
        private, rows = ([], []) if instead else await self._elsewhere(turn, asked, deliver)
        return _Question(asked, (first, *operators, *private), (row, *told, *rows))

    async def _to_operators(
        self, turn: OpenTurn, asked: tuple[Approval, ...], question: NewDelivery
    ) -> tuple[list[NewDelivery], list[AuditRow], bool]:
        """Return the question for the operators' chat, nothing if it may not be said there or nobody may answer there.

        Also return whether it stands in place of private chats: a known reader may answer. Readers who are not known
        may, but nothing tells that one of them does. If the conversation is that chat, it is asked there already.
        """
        document = self._gate.document
        address = approval_prompts.operators(document, asked)
        if address is None or address.place == turn.standing.home.place:
            return [], [], False
        readers = await self._gate.readers.audience(address)
        known = approval_prompts.may_be_answered(document, asked, readers)
        if readers.complete and not known:
            return [], [], False
        decision = self._spoken(turn, await self._gate.readers.prospect(address), asked, question)
        if decision.verdict is not Verdict.ALLOW:
            return [], [], False
        row = decision_row(turn.standing, Hook.PRE_OUTPUT, decision, destination=str(address))
        there = replace(question, key=f"{question.key}-{address}", address=str(address), meant_for="")
        return [there], [row], known

    async def _said(
        self, turn: OpenTurn, asked: tuple[Approval, ...], question: NewDelivery
    ) -> tuple[NewDelivery, AuditRow] | None:
        """Return the question as it is asked first, with the row of that decision; None if it may be said nowhere."""
        standing, background = turn.standing, turn.background
        if background is None:
            places = [(standing.home, standing.destination)]
        else:
            chats = labelling.private_places(self._gate.document, standing.asker, question.label, background.asked_at)
            places = [(chat, await self._gate.readers.prospect(chat)) for chat in chats]
        for address, destination in places:
            decision = self._spoken(turn, destination, asked, question)
            if decision.verdict is Verdict.ALLOW:
                row = decision_row(standing, Hook.PRE_OUTPUT, decision, destination=str(address))
                return replace(question, address=str(address)), row
        return None

    async def _elsewhere(
        self, turn: OpenTurn, asked: tuple[Approval, ...], question: NewDelivery
    ) -> tuple[list[NewDelivery], list[AuditRow]]:
        """Return the question for the known chats of people who may answer, where it may be said."""
        deliver, rows = list[NewDelivery](), list[AuditRow]()
        for address in approval_prompts.places(self._gate.document, asked, turn.standing.home):
            decision = self._spoken(turn, await self._gate.readers.prospect(address), asked, question)
            rows.append(decision_row(turn.standing, Hook.PRE_OUTPUT, decision, destination=str(address)))
            if decision.verdict is Verdict.ALLOW:
                meant = principals.owner(self._gate.document, address)
                key = f"{question.key}-{address}"
                deliver.append(replace(question, key=key, address=str(address), meant_for=meant))
        return deliver, rows

    def _spoken(
        self, turn: OpenTurn, destination: Destination, asked: tuple[Approval, ...], question: NewDelivery
    ) -> Decision:
        """Decide on a question leaving for an address, with the buttons that it may have there."""
        buttons = approval_prompts.buttons(self._gate.document, asked, asked[0].asked_in, None)
        standing, text, label = turn.standing, question.text, question.label
        return self._gate.output.speak(
            standing, destination, text, approved=OURS, carried=label, buttons=buttons
        ).decision

    def refusal(self, turn: OpenTurn, decision: Decision, call: Call) -> str | None:
        """Return why an answer is not asked about: people refused it, or none can be asked; None if they can."""
        if approvals.someone_may_answer(self._gate.document, decision, turn.standing):
            return answered(turn, call.id)
        return nobody(turn.standing)

    def _approvals(self, turn: OpenTurn, calls: tuple[CallDecision, ...], name: str) -> tuple[Approval, ...]:
        """Return the approvals of one question: it has one id, and one expiry time for all."""
        names = [name] if len(calls) == 1 else [f"{name}-{number}" for number in range(1, len(calls) + 1)]
        asked = [self._approval(turn, prepared, one) for prepared, one in zip(calls, names, strict=True)]
        until = min(approval.expires_at for approval in asked)
        if turn.background is not None:
            until = min(until, turn.background.deadline)
        return tuple(replace(approval, expires_at=until) for approval in asked)

    def _approval(self, turn: OpenTurn, prepared: CallDecision, name: str) -> Approval:
        standing, call = turn.standing, prepared.call
        rules = approvals.asking(prepared.decision)
        doubt = MAY_BE_DONE if prepared.asks_again else MAY_BE_LOST
        question = ApprovalQuestion(
            call.tool,
            prepared.shown or call.arguments or {},
            rules=rules,
            withheld=prepared.open is not None and not prepared.shown,
            missing=prepared.missing,
            interrupted=doubt if OUTCOME in rules else "",
            authors=named(standing.others) if {approvals.OTHERS, approvals.RELEASE} & set(rules) else (),
            endorsed=standing.endorsed,
            steers=self._steers(standing, prepared),
            vouches=() if prepared.shown is None else _vouches(prepared),
            scope=prepared.scope,
            release=prepared.release,
        )
        return Approval(
            id=name,
            sid=standing.sid,
            generation=standing.generation,
            turn=turn.record.id,
            call=call.id,
            tool=call.tool,
            binding=prepared.binding,
            label=standing.taint.join(prepared.decision.label_before).join(prepared.carried),
            principal=standing.asker,
            question=question,
            rules=rules,
            expires_at=approvals.until(self._gate.document, rules, standing.now, self._approval_life),
            asked_at=standing.now,
            alone=turn.background is not None,
        )

    def _steers(self, standing: DecisionContext, prepared: CallDecision) -> str:
        """Return the values that steer a call as people are told them, with its entries of lists and its condition.

        Empty where an answer is asked about. Where a held value lies is not among them, as the log has these words.
        """
        made = prepared.opened or prepared.accepted
        if made is None:
            return ""
        tool, arguments = made
        within = within_bounds(self._gate.document, standing, prepared)
        told = in_words(self._gate.document, tool.name, arguments, standing.now, within=within)
        condition = "" if prepared.condition is None else prepared.condition.told
        entries = dict.fromkeys(entry.told for entry in prepared.entries)
        return "; ".join(filter(None, (told, *entries, condition)))

    def _asked(self, turn: OpenTurn, prepared: CallDecision) -> NewEvent:
        decision, tool = prepared.decision, prepared.call.tool
        decision = approvals.put_to(self._gate.document, decision, turn.standing)
        why = explained(decision, turn.standing.taint, tool)
        told = event_log.policy_decision(turn.standing, _hook(prepared), decision, about=tool, text=why)
        return event_log.decided(turn.standing, told, prepared.beside)


def _vouches(prepared: CallDecision) -> tuple[str, ...]:
    """Return the held values that steer a call as people are shown them, entries of lists among them."""
    return (*starmap(vouched, prepared.steers), *(entry.vouched for entry in prepared.entries))


@dataclass(frozen=True, slots=True)
class _Question:
    """A question with its deliveries, none if it may be said nowhere, and the audit rows of their decisions."""

    asked: tuple[Approval, ...]
    deliver: tuple[NewDelivery, ...] = ()
    audit: tuple[AuditRow, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """The addresses where it is asked."""
        return tuple(one.address for one in self.deliver)


def _hook(prepared: CallDecision) -> Hook:
    return Hook.PRE_OUTPUT if prepared.call.tool == approvals.ANSWER else prepared.hook
