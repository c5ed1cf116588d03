"""The gate's services for a running call: each decision is written down before it takes effect."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

from pydantic import JsonValue

from bot.access import labelling
from bot.access.decision_context import DecisionContext, key
from bot.access.recipients import ChangedRecipientError, meaning
from bot.config.references import references
from bot.core.errors import RequestError
from bot.gate.calls import CallGate
from bot.gate.judge import Judge, answered_for
from bot.gate.results import CallDecision, denial
from bot.sessions.background.delegation import BoundedAnswer, Child, Errand, ResultField
from bot.sessions.background.runs import RunOrder, RunWish, StartedRun
from bot.sessions.messages import named
from bot.sessions.refs import CallRef
from bot.tools.arguments import strings
from bot.tools.references import HOLD
from channels.messages import Address
from policy.decision import Decision, Verdict
from policy.labels import Label
from policy.request import Effect, Hook, ToolFacts

Record = Callable[[Hook, Decision, Mapping[str, JsonValue]], Awaitable[None]]
"""Write down a decision made while a call runs: the hook, the decision, and further facts of its audit row."""


class Minter(Protocol):
    """Creates background sessions; only the gate calls it."""

    async def mint_child(self, standing: DecisionContext, key: str, errand: Errand) -> Child:
        """Create a background session with its task; the same key is the same session."""
        ...

    async def endorse(
        self, standing: DecisionContext, key: str, fields: tuple[ResultField, ...], seconds: int
    ) -> BoundedAnswer:
        """Charge an answer of fields within a call; the same key is charged once."""
        ...

    async def charge(self, standing: DecisionContext, run: str, millibits: int) -> bool:
        """Charge the bits that a skeleton may carry to the session's conversation; the same run is charged once."""
        ...


class RefusedRunError(RequestError):
    """A run would act for a principal who is not known, or who may not read its goal."""

    code = "run_refused"

    def __init__(self) -> None:
        super().__init__("no run may be started for this principal with this goal")


class RunMinter(Protocol):
    """Creates runs; only the gate calls it."""

    async def mint_run(self, order: RunOrder) -> StartedRun:
        """Create a run with its goal; the same key is the same run."""
        ...


class GateServices:
    """Implements `ToolServices` for one call `made` by a session in the context `standing`."""

    def __init__(  # noqa: PLR0913 - made by the gate from its parts, for one call
        self,
        judge: Judge,
        calls: CallGate,
        minter: Minter,
        standing: DecisionContext,
        *,
        runs: RunMinter,
        made: CallDecision,
        record: Record,
    ) -> None:
        self._judge = judge
        self._calls = calls
        self._minter = minter
        self._runs = runs
        self._standing = standing
        self._made = made
        self._record = record
        self._permitted = dict[Label, bool]()

    def permits(self, label: Label) -> bool:
        """Say whether data of a label may be read, into the context or to be held; decided once in a call."""
        if label not in self._permitted:
            self._permitted[label] = self._permits(label)
        return self._permitted[label]

    def _permits(self, label: Label) -> bool:
        if self._made.call.own_level and not label.within(self._standing.taint):
            return False
        beyond = answered_for(self._standing, self._made.approved)
        return self._judge.may_enter(beyond, self._made.call.tool, label, held=self._made.keeps)

    def mask(self, text: str) -> str:
        """Return a text without the values of configured secrets and without text that looks like a secret."""
        return self._judge.masks.masked(text)

    def scrub(self, text: str) -> str:
        """Return a text without the values of configured secrets."""
        return self._judge.masks.scrubbed(text)

    async def simulate(self, name: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the decision that another call would get."""
        return await self._calls.simulate(self._standing, name, arguments, self._standing.taint)

    async def spawn(self, errand: Errand) -> Child:
        """Create a background session.

        Raises RequestError: a limit is reached, or the recipient of its result has changed.
        """
        if errand.meant and errand.meant not in self._made.leads:
            raise ChangedRecipientError
        call = self._made.call
        came = replace(errand, refs=(CallRef(call.id, self._standing.sid),))
        return await self._minter.mint_child(self._carrying, key(self._standing, call), came)

    async def endorse(self, fields: tuple[ResultField, ...], seconds: int) -> BoundedAnswer:
        """Charge an answer of fields at the caller's own level, for any items of the call."""
        return await self._minter.endorse(self._standing, key(self._standing, self._made.call), fields, seconds)

    @property
    def veil(self) -> str:
        """The refusal by the items that the call refers to, empty if they may be shown."""
        made, standing = self._made, self._standing
        return denial(standing, made.decision, standing.taint, made.call.tool) if made.veiled else ""

    async def start_run(self, wish: RunWish) -> StartedRun:
        """Start a run for the caller.

        Raises RequestError: a limit is reached, or the recipient of its result has changed.
        """
        if wish.meant and wish.meant not in self._made.leads:
            raise ChangedRecipientError
        call, standing = self._made.call, self._carrying
        came = replace(wish, refs=(CallRef(call.id, standing.sid),) if standing.turn else wish.refs)
        return await started(self._judge, self._runs, ordered(standing, key(standing, call), came))

    def leads_to(self, address: Address) -> bool:
        """Say whether an address that the call names still means the same as when the call was decided."""
        return meaning(self._judge.document, address) in self._made.leads

    async def reveal(self, text: str, host: str) -> str | None:
        """Return a text with its secrets' values for a host, None if one is refused."""
        call = self._made.call

        async def called(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
            await self._record(hook, decision, {**told, "call": call.id})

        facts = ToolFacts(call.tool, Effect.READ, self._made.label)
        return await revealed(self._judge, self._standing, facts, text, host=host, record=called)

    async def onward(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Say whether the call may proceed as if it had been made with these arguments."""
        # The answering server wrote these arguments, not the model, so they count as verbatim in the context.
        heard = self._standing.addresses | frozenset(strings(dict(arguments)))
        call, given = self._made.call, {**arguments, HOLD: True} if self._made.hold else arguments
        # No grant covers it: the server chose where it leads, and no use of a grant is spent here.
        standing = replace(self._carrying, addresses=heard, grants=())
        further = self._calls.prepare(standing, replace(call, arguments=given))
        row: dict[str, JsonValue] = {"tool": call.tool, "call": call.id, "arguments": further.call.digest}
        await self._record(Hook.PRE_TOOL_CALL, further.decision, {**row, "onward": True})
        label = self._made.label
        return further.decision.verdict is Verdict.ALLOW and further.label.join(label) == label

    @property
    def _carrying(self) -> DecisionContext:
        """The session's context, raised by the label of the call's references."""
        return replace(self._standing, taint=self._standing.taint.join(self._made.carried))


def ordered(standing: DecisionContext, key: str, wish: RunWish) -> RunOrder:
    """Return the order for a run, for a session or for a person who asks outside a turn.

    Its label covers everything the session has read and its visibility: the wish for a run reveals both.
    """
    inside = bool(standing.turn)
    state = None if standing.claim is None else standing.claim.state
    above = "" if state is None or state.background is None else state.background.asked_at
    return RunOrder(
        wish,
        key,
        principal=standing.principal,
        asker=standing.asker,
        label=standing.taint.join(standing.visibility) if inside else standing.taint,
        asked_at=above or str(standing.home),
        session=standing.sid if inside else "",
        turn=standing.turn,
        typed=standing.typed,
        endorsed=standing.passed_on,
        authors=named(standing.others),
        by_agent=inside,
    )


async def started(judge: Judge, runs: RunMinter, order: RunOrder) -> StartedRun:
    """Start a run, if its principal is known and may read its goal.

    Raises RequestError: they may not, or a limit is reached.
    """
    ceiling = labelling.ceiling(judge.document, order.principal, order.asker)
    if ceiling is None or not order.label.flows_to(ceiling):
        raise RefusedRunError
    return await runs.mint_run(order)


async def revealed(
    judge: Judge, standing: DecisionContext, tool: ToolFacts, text: str, *, host: str, record: Record
) -> str | None:
    """Return a text with the values of its secrets for a host, None if one is refused.

    Each use is decided (hook SECRET_ACCESS), and written down by `record` before.
    """
    for name in references(text):
        decision = judge.unlock(standing, tool, name, host)
        granted = decision.verdict is Verdict.ALLOW
        # If a secret is not granted, even its name is not recorded as a fact.
        secret: JsonValue = name if granted else None
        await record(Hook.SECRET_ACCESS, decision, {"tool": tool.name, "secret": secret})
        if not granted:
            return None
    return judge.masks.keyring.filled(text)
