"""The gate: the parts that decide on each crossing, and the only module that runs a tool.

Each crossing is one method of a part. `requests.admit` decides on an item that enters the context, `requests.invoke` on
a model call, `requests.reset` on a new generation. `calls.prepare` decides on a tool call, `run` runs it, and
`results.respond` decides on its result. `output.speak` decides on a text to an address; `calls.simulate` only reports.

Each takes a `DecisionContext`, the frozen facts of the session at that moment, and returns the decision with its
consequences. The parts write nothing: their caller records the decision before acting on it (law
`every_effect_has_a_decision`).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from bot.access import principals
from bot.access.decision_context import DecisionContext, key
from bot.access.recipients import CHANGED, meaning
from bot.core.ids import held_id
from bot.delegation import structured_result
from bot.gate.bounded import answered, arrival, endorsement, spent_rows
from bot.gate.calls import CallGate
from bot.gate.judge import CurrentPolicy, Judge, Masks, answered_for, call_facts
from bot.gate.output import OutputGate
from bot.gate.readers import Audiences, Readers
from bot.gate.requests import RequestGate
from bot.gate.results import MAY_GO_ON, CallDecision, ResultDecision, decision_row, denial
from bot.gate.services import GateServices, Minter, Record, RunMinter, revealed, started
from bot.gate.sparing import Sparing
from bot.gate.tool_contexts import tool_context
from bot.secrets import Keyring
from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import RunOrder, StartedRun
from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.event_types import HeldIdentifiers
from bot.sessions.log.events import DeferredResult
from bot.tools.arguments import strings
from bot.tools.base import CallFacts, GoesByOtherNames, Result, Tool, WorksInRuns
from bot.tools.held.entries import FULL, identifiers
from bot.tools.held.skeletons import ShowsParts
from bot.tools.references import notice
from channels.messages import Address, OutboundKind
from policy.decision import Decision, Verdict
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import Effect, Hook, ToolFacts

_LOGGER: Final = logging.getLogger(__name__)

FAILED: Final = "the tool failed"
"""The model reads this instead of an exception's text, which has no label."""


def _refused(hook: Hook, decision: Decision, text: str, *, label: Label, rows: list[AuditRow]) -> ResultDecision:
    return ResultDecision(hook, decision, text, label, failed=True, deliver=(), audit=tuple(rows))


def _aliases(known: Mapping[str, Tool]) -> dict[str, tuple[str, Mapping[str, JsonValue]]]:
    """Return the other names of tools; where a tool itself has such a name, the name stays that tool's."""
    named = (tool for tool in known.values() if isinstance(tool, GoesByOtherNames))
    return {alias: (tool.name, fixed) for tool in named for alias, fixed in tool.aliases.items() if alias not in known}


class ResultGate:
    """Decides on the result of a call, before it enters the context."""

    def __init__(self, judge: Judge, output: OutputGate, readers: Readers, minter: Minter) -> None:
        self._judge = judge
        self._output = output
        self._readers = readers
        self._sparing = Sparing(judge, minter)

    async def respond(self, standing: DecisionContext, prepared: CallDecision, result: Result) -> ResultDecision:
        """Decide on a result (hook POST_TOOL_RESPONSE) and on every text it wants sent (hook PRE_OUTPUT).

        `standing` is the session's now, not when the call was made. A refused result is replaced by a constant text. If
        its label was refused, no part of it is admitted; if its content was, the refusal reveals part of the content
        and carries its label (law `unknown_is_worst`). Any result of a held call is held: the notice admitted in its
        place does not depend on the result. Of a spared call's result a skeleton may be admitted.
        """
        standing, spent = answered_for(standing, prepared.approved), spent_rows(standing, prepared, result)
        enters = arrival(prepared, result)
        if enters is not None:
            response = await self._bounded(standing, prepared, replace(result, label=enters))
            return replace(response, audit=(*response.audit, *spent))
        response = await self._responded(standing, prepared, result)
        response = replace(response, audit=(*response.audit, *spent))
        if not prepared.keeps:
            return response
        whole = response.decision.verdict is Verdict.ALLOW and not result.failed
        found = result.structured if whole else None
        held = self.kept(standing, prepared, response.text, response.label, found=found)
        if not prepared.hold:
            return await self._sparing.shown(standing, prepared, result, response, held=held)
        held = replace(held, answer=answered(standing.sid, prepared, result))
        return replace(response, text=notice(held, standing.taint), label=standing.taint, held=held, acknowledge=())

    async def _bounded(self, standing: DecisionContext, prepared: CallDecision, result: Result) -> ResultDecision:
        """Decide on a bounded answer that enters the context with the label that it has by now.

        One that a rule refuses or changes becomes the constant that any failure is.
        """
        openly = replace(prepared, hold=False, label=PUBLIC)
        response = await self._responded(standing, openly, result)
        rows = response.audit
        if response.decision.verdict is not Verdict.ALLOW:
            response = await self._responded(standing, openly, replace(result, text=structured_result.FAILED))
            rows += response.audit
        endorsed = endorsement(standing.sid, result, response.text)
        return replace(response, audit=rows, endorsed=endorsed)

    def kept(
        self, standing: DecisionContext, prepared: CallDecision, text: str, label: Label, *, found: JsonValue = None
    ) -> DeferredResult:
        """Return the result of a call as an item to be held, under the call's own reference.

        `found` is the value that calls may take entries of, None for a result without one. Which lists it has depends
        on the call alone, also if that is refused or interrupted.
        """
        tool, listed = self._judge.tools.get(prepared.call.tool), tuple[HeldIdentifiers, ...]()
        if prepared.hold and isinstance(tool, ShowsParts) and tool.shape is not None:
            listed = identifiers(tool.shape, found, self._judge.masks.scrubbed, own=prepared.own)
        server = tool.server if tool is not None and listed else ""
        label = label.join(prepared.floor).join(prepared.carried)
        held = DeferredResult(held_id(key(standing, prepared.call)), text, label, prepared.floor, server=server)
        return replace(held, listed=listed, tool="" if tool is None else tool.name, at=standing.now)

    async def _responded(self, standing: DecisionContext, prepared: CallDecision, result: Result) -> ResultDecision:
        facts = ToolFacts(prepared.call.tool, Effect.READ, prepared.label)
        label = result.label.join(prepared.label)
        parts = strings(result.structured) if prepared.keeps else ()
        request = replace(
            self._judge.request(Hook.POST_TOOL_RESPONSE, standing),
            tool=facts,
            item=label,
            content="\n".join((result.text, *parts)),
            held=prepared.keeps,
        )
        await self._output.read_ahead(delivery.text for delivery in result.deliver)
        decision = self._judge.settled(request, standing)
        rows = [
            decision_row(standing, Hook.POST_TOOL_RESPONSE, decision, tool=prepared.call.tool, call=prepared.call.id)
        ]
        if decision.verdict not in MAY_GO_ON:
            enters = self._judge.may_enter(standing, prepared.call.tool, label, held=prepared.keeps)
            told = denial(standing, decision, standing.taint, prepared.call.tool)
            return _refused(
                Hook.POST_TOOL_RESPONSE, decision, told, label=label if enters else standing.taint, rows=rows
            )
        # Here, by the policy that decided: another one may be put in force while the channels are asked.
        text = self._judge.masks.replaced(result.text, decision)
        spoken = await self._delivered(standing, prepared, result, decision, label=label)
        rows += spoken.rows
        if spoken.refused is not None:
            return _refused(Hook.PRE_OUTPUT, spoken.refused, spoken.why, label=label, rows=rows)
        summary = None if result.summary is None else replace(result.summary, text=text)
        return ResultDecision(
            Hook.POST_TOOL_RESPONSE,
            decision,
            text,
            label,
            result.failed,
            spoken.deliver,
            tuple(rows),
            summary=summary,
            refs=result.refs,
            acknowledge=result.acknowledge,
        )

    async def _delivered(
        self, standing: DecisionContext, prepared: CallDecision, result: Result, decision: Decision, *, label: Label
    ) -> "_Delivered":
        """Decide on all texts that a call wants sent (hook PRE_OUTPUT), up to the first that is refused.

        The result, which has this `label`, counts as read by then; `decision` is the one on it.
        """
        deliver, rows = list[NewDelivery](), list[AuditRow]()
        after = replace(standing, taint=standing.taint.join(label))
        for delivery in result.deliver:
            address = Address.parse(delivery.address)
            if prepared.leads and meaning(self._judge.document, address) not in prepared.leads:
                changed = self._judge.refused(standing, CHANGED, decision)
                rows.append(decision_row(standing, Hook.PRE_OUTPUT, changed, destination=delivery.address))
                return _Delivered((), tuple(rows), changed, CHANGED)
            spoken = self._output.speak(
                after, await self._readers.prospect(address), delivery.text, approved=prepared.approved
            )
            rows.append(decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=delivery.address))
            if spoken.decision.verdict not in MAY_GO_ON:
                why = denial(standing, spoken.decision, standing.taint, prepared.call.tool)
                return _Delivered((), tuple(rows), spoken.decision, why)
            meant = principals.owner(self._judge.document, address)
            deliver.append(
                replace(
                    delivery,
                    text=spoken.text,
                    label=after.taint,
                    approved=prepared.approved,
                    meant_for=meant,
                    untrusted=delivery.untrusted
                    or (prepared.content.untrusted and delivery.kind == OutboundKind.MESSAGE),
                )
            )
        return _Delivered(tuple(deliver), tuple(rows))


@dataclass(frozen=True, slots=True)
class _Delivered:
    """The texts that a call wants sent, with their audit rows; `refused` is the first refusal, and `why` its words."""

    deliver: tuple[NewDelivery, ...]
    rows: tuple[AuditRow, ...]
    refused: Decision | None = None
    why: str = ""


class Gate:
    """One policy in force, the tools it labels, the models, and the secrets that tools may use.

    `policy` is the policy in force, `readers` tells the readers of an address, `masks` removes secrets and redacted
    parts from texts. `requests` decides on a session's inputs and model calls, `output` on texts that leave, `calls` on
    tool calls, `results` on their results.
    """

    def __init__(  # noqa: PLR0913 - what decides and what is made, each given once
        self,
        document: Document,
        tools: Iterable[Tool],
        models: Sequence[str],
        audiences: Audiences,
        *,
        keyring: Keyring,
        spawner: Minter,
        runs: RunMinter,
    ) -> None:
        self.policy = CurrentPolicy(document)
        self.masks = Masks(self.policy, keyring)
        self.readers = Readers(self.policy, audiences)
        self._spawner = spawner
        self._runs = runs
        known = {tool.name: tool for tool in tools}
        self.tools = tuple(
            tool for tool in known.values() if call_facts(document, tool, CallFacts()).result is not None
        )
        """The tools that models are offered, in order; one that nobody labelled is not among them."""
        for_runs = frozenset(tool.name for tool in known.values() if isinstance(tool, WorksInRuns) and tool.in_runs)
        self._judge = Judge(self.policy, self.masks, known, self.tools, tuple(models), for_runs, _aliases(known))
        self.requests = RequestGate(self._judge)
        self.output = OutputGate(self._judge)
        self.calls = CallGate(self._judge, self.output, self.readers)
        self.results = ResultGate(self._judge, self.output, self.readers, spawner)

    @property
    def document(self) -> Document:
        """The policy document in force."""
        return self.policy.document

    async def run(self, standing: DecisionContext, prepared: CallDecision, record: Record) -> Result:
        """Run an accepted call; its decision must be in the audit already.

        `record` writes down each decision made while it runs, before that takes effect. Any exception of the tool
        becomes one constant text with the label success would have had (law `unknown_is_worst`); cancellation passes.
        """
        if prepared.accepted is None or not (prepared.decision.verdict in MAY_GO_ON or prepared.veiled):
            raise RuntimeError("a call that was not allowed reached the tools")
        tool, arguments = prepared.accepted
        try:
            services = GateServices(
                self._judge, self.calls, self._spawner, standing, runs=self._runs, made=prepared, record=record
            )
            result = await tool.run(arguments, tool_context(self._judge, standing, prepared), services)
        except Exception:
            # The exception's text may hold data that the tool read: only a debug line shows it.
            _LOGGER.exception("a tool broke", extra={"tool": tool.name})
            return Result(FAILED, failed=True)
        # Before any rule reads the text: an echo of a secret gets no further than this.
        return replace(result, text=self._judge.masks.scrubbed(result.text))

    async def counted(self, standing: DecisionContext, prepared: CallDecision) -> CallDecision:
        """Charge the choice that third parties have by the entries of a call, if the call is allowed openly.

        It is charged whether or not the call is made, so the charge tells nothing of the lists. A call that does not
        fit into the limit is refused, which depends on the calls of the session alone.
        """
        if prepared.open is None or prepared.open.verdict not in MAY_GO_ON:
            return prepared
        for one in prepared.taken:
            if not await self._spawner.charge(standing, one.run, one.millibits):
                refused = self._judge.refused(standing, FULL, prepared.open)
                return replace(prepared, decision=refused, open=None, use=None, grant=None)
        return prepared

    async def start_run(self, order: RunOrder) -> StartedRun:
        """Start a run without a tool call: one of a schedule.

        Raises RequestError: its principal is not known or may not read its goal, or a limit of runs is reached.
        """
        return await started(self._judge, self._runs, order)

    async def reveal(
        self, standing: DecisionContext, tool: Tool, text: str, *, host: str, record: Record
    ) -> str | None:
        """Return a text with the values of its secrets for a request to a tool's server, None if one is refused.

        Each is decided as for a call of the tool (hook SECRET_ACCESS), and written down by `record` before.
        """
        facts = call_facts(self._judge.document, tool, CallFacts())
        return await revealed(self._judge, standing, facts, text, host=host, record=record)
