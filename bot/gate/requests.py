"""What every crossing shares: the engine, the request a standing makes, what enters the context, a decision in words.

The lowest layer of the gate and the only module that asks the policy engine.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

import anyio.to_thread
from pydantic import JsonValue

from bot.access import authorize, labelling, principals
from bot.access.approvals import DENIED, OTHERS, asking
from bot.access.decision_context import DecisionContext
from bot.core.errors import ElsewhereError, LockgateError
from bot.gate.results import OutputDecision
from bot.mcp.tool import McpTool
from bot.secrets import Keyring
from bot.sessions.audit import AuditRow
from bot.sessions.delegation import Child, Errand
from bot.sessions.deliveries import OURS
from bot.tools.base import CallFacts, Tool
from channels.messages import Address
from channels.port import Audience, ChannelError
from policy import explain
from policy.decision import Decision, Remedy, RuleOutcome, Verdict
from policy.document.model import Document
from policy.engine import Engine
from policy.fixed import APPROVAL
from policy.labels import PUBLIC, Label
from policy.redaction.patterns import SECRET
from policy.request import Destination, Effect, Hook, Request, Secret, ToolFacts

MAY_GO_ON: Final = frozenset({Verdict.ALLOW, Verdict.REDACT})
"""The verdicts with which a crossing happens; what is to be redacted is replaced on the way."""

_UNTOLD: Final = (LockgateError, ChannelError, OSError, KeyError)
"""What it may raise to ask who reads somewhere."""

_NOBODY_KNOWN: Final = Audience(frozenset(), complete=False)

NOT_KNOWN: Final = "this was asked by somebody who is not known here any more"

Audiences = Callable[[Address], Awaitable[Audience]]
"""Ask the channels who reads at an address now.

Raises ElsewhereError: another process has that channel.
"""


_LONG: Final = 4_000
"""Characters; reading as many takes a few milliseconds, of a hostile text a hundred."""


class Minter(Protocol):
    """Who makes background sessions; the gate alone asks."""

    async def mint_child(self, standing: DecisionContext, key: str, errand: Errand) -> Child:
        """Create a background session with its task; the same key is the same session."""
        ...


def seen(texts: Iterable[str]) -> tuple[str, ...]:
    """Return what people may see of texts, and of all of them together, beside what is written."""
    written = tuple(texts)
    views = (view for text in written for view in _views(text))
    return tuple(view for view in dict.fromkeys((*views, together(written))) if view not in written)


def together(texts: Iterable[str]) -> str:
    """Return what people see of texts that stand one below the other."""
    return "\n".join(next(iter(_views(text)), text) for text in texts)


def _views(text: str) -> tuple[str, ...]:
    from channels.rich_text import views  # noqa: PLC0415 - the parser takes 40 ms to load, and only content rules need it

    return views(text)


def trial(document: Document) -> Callable[[Request, datetime], Decision]:
    """Return how a policy decides, for requests that nobody makes: cases of an operator. Nothing follows from it."""
    return Engine.from_document(document).decide


@dataclass(frozen=True, slots=True)
class ReadyPolicy:
    """A policy ready to decide: its document and the engine made of it, replaced together or not at all."""

    document: Document
    engine: Engine

    def loaded(self) -> "ReadyPolicy":
        """Return it once what its rules need is loaded, which takes time and reads files."""
        if self.engine.load():
            _views("*")
        return self


class RequestGate:
    """One document in force, the tools it labels, the models, and the secrets that tools may use.

    The first of `models` thinks, unless people chose another of them for a conversation.
    """

    def __init__(
        self,
        document: Document,
        tools: Iterable[Tool],
        models: Sequence[str],
        audiences: Audiences,
        keyring: Keyring,
        spawner: Minter,
    ) -> None:
        self._force = self.prepared_policy(document)
        self._tools = {tool.name: tool for tool in tools}
        self._offered = tuple(
            tool for tool in self._tools.values() if self._facts(tool, CallFacts()).result is not None
        )
        self._models = tuple(models)
        self._audiences = audiences
        self._keyring = keyring
        self._spawner = spawner

    @staticmethod
    def prepared_policy(document: Document) -> ReadyPolicy:
        """Return a policy made ready to be put in force; this takes time, and may be done in a thread."""
        return ReadyPolicy(document, Engine.from_document(document))

    def put_in_force(self, policy: ReadyPolicy) -> None:
        """Decide by this policy from now on; a decision under way ends by the one it began with."""
        self._force = policy

    def load(self) -> None:
        """Load what the rules in force need, in a thread: the first decision need not wait for it."""
        self._force.loaded()

    @property
    def document(self) -> Document:
        """The policy document in force."""
        return self._force.document

    @property
    def _engine(self) -> Engine:
        return self._force.engine

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that models are offered, in order; one that nobody labelled is not among them."""
        return self._offered

    def offered(self, standing: DecisionContext) -> tuple[Tool, ...]:
        """Return the tools that a model is offered in a turn: those that are for the asker."""
        asker = authorize.role(self.document, standing.asker, standing.asker)
        return tuple(tool for tool in self._offered if self.document.offers(tool.name, asker))

    def model(self, standing: DecisionContext) -> str:
        """Return the model that is asked first: the one people chose, unless it is not configured any more."""
        return standing.model if standing.model in self._models else self._models[0]

    async def destination(self, address: Address) -> Destination:
        """Return an address with its effective clearance now; a channel that cannot tell makes it unknown."""
        return labelling.destination(self.document, address, await self.audience(address))

    async def audience(self, address: Address) -> Audience:
        """Return who reads at an address now; a channel that cannot tell makes it unknown."""
        try:
            return await self._audience(address)
        except _UNTOLD:
            return _NOBODY_KNOWN

    async def prospect(self, address: Address) -> Destination:
        """Return an address for what waits in the outbox, and is decided again by the process that says it.

        Where another process serves its channel, that one asks who reads there. Until then it is cleared for the most
        that may be said there, as a private chat of a known person or by its classification.
        """
        try:
            audience = await self._audience(address)
        except ElsewhereError:
            account = principals.reader(replace(address, recipient=address.chat))
            if self.document.principal(account) is None:
                known = labelling.classification(self.document, address)
                return Destination(str(address), address.channel, known, shared=True)
            audience = Audience.of(account)
        except _UNTOLD:
            audience = _NOBODY_KNOWN
        return labelling.destination(self.document, address, audience)

    async def _audience(self, address: Address) -> Audience:
        """Ask who reads at an address; what one account alone gets to see needs no question."""
        return Audience.of(principals.reader(address)) if address.recipient else await self._audiences(address)

    def admit(self, standing: DecisionContext, label: Label, text: str) -> OutputDecision:
        """Decide on an item entering the context (hook PRE_CONTEXT_INJECTION)."""
        request = replace(self._request(Hook.PRE_CONTEXT_INJECTION, standing), item=label, content=text)
        decision = self._decide(request, standing)
        return OutputDecision(decision, self.cleaned(text, decision), standing.destination)

    async def read_ahead(self, texts: Iterable[str], hook: Hook = Hook.PRE_OUTPUT) -> None:
        """Read long texts that will be decided on at a hook, in a thread: there their decision finds them read."""
        if self._engine.scans_at(hook):
            for text in texts:
                if len(text) > _LONG:
                    await anyio.to_thread.run_sync(_views, text)

    def masked(self, text: str) -> str:
        """Return a text without the values of configured secrets and without what looks like one."""
        return self._engine.redactor.redact(self._keyring.scrub(text), (SECRET,))

    def invoke(self, standing: DecisionContext, model: str = "") -> Decision:
        """Decide on a model call with the context as it is (hook AGENT_INVOCATION).

        `model` is a fall-back's name: its own provider's clearance counts then. What a session may read is
        always decided by the clearance of the model that is asked first.
        """
        if not self._knows(standing):
            return self.refused(standing, NOT_KNOWN)
        request = self._request(Hook.AGENT_INVOCATION, standing)
        if model:
            request = replace(request, provider=self.document.provider(model))
        return self._decide(request, standing)

    def transcribe(self, standing: DecisionContext, label: Label, transcriber: str) -> Decision:
        """Decide on a transcriber hearing a recording of this label, and nothing else (hook AGENT_INVOCATION)."""
        if not self._knows(standing):
            return self.refused(standing, NOT_KNOWN)
        request = self._request(Hook.AGENT_INVOCATION, replace(standing, taint=label))
        return self._decide(replace(request, provider=self.document.transcriber(transcriber)), standing)

    def reset(self, standing: DecisionContext, *, confirmed: bool) -> Decision:
        """Decide on a new generation (hook SESSION_RESET)."""
        return self._decide(replace(self._request(Hook.SESSION_RESET, standing), confirmed=confirmed), standing)

    def unlock(self, standing: DecisionContext, tool: ToolFacts, name: str, host: str) -> Decision:
        """Decide on a tool's use of a secret for a host (hook SECRET_ACCESS); `host` is as `Keyring.grants` takes it.

        The caller records the decision before the value is put in its place.
        """
        secret = Secret(name, granted=self._keyring.grants(name, tool.name, host))
        request = replace(self._request(Hook.SECRET_ACCESS, standing), tool=tool, secret=secret)
        return self._decide(request, standing)

    def scrubbed(self, text: str, most: int | None = None) -> str:
        """Return a text, or as many of its first characters as `most`, without the value of any secret."""
        return self._keyring.scrub(text, most)

    @property
    def longest_secret(self) -> int:
        """How many characters behind a cut have to be known, so that no secret's value is left in part."""
        return self._keyring.longest

    @staticmethod
    def explained(decision: Decision, reader: Label, subject: str, told: explain.LabelWording = explain.SESSION) -> str:
        """Return a decision about `subject` in words for a reader with this clearance, with its labels as `told`."""
        return "\n".join(explain.render(decision, reader, subject=subject, told=told))

    def row(self, standing: DecisionContext, hook: Hook, decision: Decision, **more: JsonValue) -> AuditRow:
        """Return the audit row of a decision; its actor is who set it going."""
        return AuditRow("decision", standing.asker, self.facts(hook, decision, **more))

    @staticmethod
    def facts(hook: Hook, decision: Decision, **more: JsonValue) -> dict[str, JsonValue]:
        """Return a decision for an audit row: names and labels, never content."""
        return {
            "hook": hook.value,
            "verdict": decision.verdict.name,
            "rules": list(decision.rules),
            "before": str(decision.label_before),
            "after": str(decision.label_after),
            "policy": decision.policy,
            **more,
        }

    def refused(self, standing: DecisionContext, why: str, decided: Decision | None = None) -> Decision:
        """Return a BLOCK by `fails_closed`, keeping what the rules had said; `why` is a constant."""
        return self._blocked(standing, "fails_closed", why, decided)

    def unapproved(self, standing: DecisionContext, why: str, decided: Decision) -> Decision:
        """Return a question to people as a BLOCK, since they did not approve; `why` is a constant.

        Where a person said no, no other way to the same is offered.
        """
        blocked = self._blocked(standing, APPROVAL, why, decided)
        return replace(blocked, remedies=()) if why == DENIED else blocked

    def _blocked(self, standing: DecisionContext, rule: str, why: str, decided: Decision | None) -> Decision:
        said = () if decided is None else decided.outcomes
        offered = () if decided is None else decided.remedies
        return Decision(
            verdict=Verdict.BLOCK,
            outcomes=(*said, RuleOutcome(rule, Verdict.BLOCK, fixed=True, message=why)),
            label_before=standing.taint,
            label_after=standing.taint,
            remedies=tuple(offer for offer in offered if offer is not Remedy.APPROVER),
            policy=self._engine.digest,
        )

    @staticmethod
    def _answered_for(standing: DecisionContext, approved: tuple[str, ...]) -> DecisionContext:
        """Return where a session stands for what a call gives that people approved: beyond what others may order."""
        return replace(standing, authors=frozenset()) if OTHERS in approved else standing

    def _may_enter(self, standing: DecisionContext, tool: str, label: Label, *, held: bool) -> bool:
        """Say whether a result of this label may enter the context, or be held, whatever it says."""
        facts = ToolFacts(tool, Effect.READ, label)
        request = replace(self._request(Hook.POST_TOOL_RESPONSE, standing), item=label, tool=facts, held=held)
        return self._decide(request, standing).verdict in MAY_GO_ON

    def _facts(self, tool: Tool, declared: CallFacts) -> ToolFacts:
        """Return a call's facts as declared and as the operator tightened them; one that nobody labelled stays so."""
        server = tool.server if isinstance(tool, McpTool) else ""
        known = ToolFacts(tool.name, tool.effect, tool.label, declared.clearance, declared.consequential, server)
        facts = self.document.tool(known)
        return facts if facts.result is None else replace(facts, result=facts.result.join(declared.result))

    def cleaned(self, text: str, decision: Decision) -> str:
        """Return a text as it may go on: without any secret's value, and with what the decision replaces replaced."""
        return self._replaced(self._keyring.scrub(text), decision)

    def _replaced(self, text: str, decision: Decision) -> str:
        """Return a text with what the decision replaces replaced in all that people may see of it."""
        return self._engine.redact(text, decision, _views)

    def _showing(self, request: Request, *texts: str, standing: DecisionContext | None = None) -> Request:
        """Return a request for these texts with what people may see of them, if a rule may look for a pattern.

        A rule may do so also once a session's remedy was taken. A call of an MCP server's tool is asked about at two
        hooks.
        """
        served = request.tool is not None and bool(request.tool.server)
        hooks = (request.hook, Hook.MCP_TOOL_CALL) if served else (request.hook,)
        if not any(map(self._engine.scans_at, hooks)):
            return request
        request = request if standing is None else self._asked_anew(request, standing)
        asked = (self._engine.scans(replace(request, hook=hook)) for hook in hooks)
        return replace(request, shown=seen(texts)) if any(asked) else request

    def _knows(self, standing: DecisionContext) -> bool:
        """Say whether whom a session acts for is still known, and who asks: one who was removed asks for no more."""
        return labelling.ceiling(self.document, standing.principal, standing.asker) is not None

    def _ceiling(self, standing: DecisionContext) -> Label:
        """Return what a session may know now: a clearance that was lowered counts for a turn under way, too."""
        known = labelling.ceiling(self.document, standing.principal, standing.asker)
        return PUBLIC if known is None else standing.ceiling.meet(known)

    def _request(self, hook: Hook, standing: DecisionContext) -> Request:
        home, there = standing.home, standing.destination
        return Request(
            hook=hook,
            principal=standing.principal,
            role=standing.role,
            channel=home.channel,
            taint=standing.taint,
            ceiling=self._ceiling(standing),
            provider=self.document.provider(self.model(standing)),
            home=there.clearance or PUBLIC,
            overshoot=self.document.overshoot(home.channel, home.workspace, home.chat),
            home_readers=there.readers,
            home_vouched=there.vouched,
            asker=standing.asker,
            asker_role=authorize.role(self.document, standing.asker, standing.asker),
            others=labelling.others(self.document, standing.principal, home, standing.others),
        )

    @staticmethod
    def _lifting(request: Request, approved: tuple[str, ...], judge: Callable[[Request], Decision]) -> Decision:
        """Decide, with the rules lifted that people approved; a rule that nobody was asked about lifts nothing."""
        decision = judge(request)
        if decision.verdict is not Verdict.REQUIRE_APPROVAL:
            return decision
        if approved == OURS or set(asking(decision)).issubset(approved):
            return judge(replace(request, approved=True))
        return decision

    def _decide(self, request: Request, standing: DecisionContext) -> Decision:
        """Decide on a session's request; only one that is stopped has remedies to try, and needs to tell of them."""
        decision = self._decide_at(request, standing.now)
        if decision.verdict in MAY_GO_ON:
            return decision
        return self._decide_at(self._asked_anew(request, standing), standing.now)

    def _asked_anew(self, request: Request, standing: DecisionContext) -> Request:
        """Return a session's request with what a remedy would make of it: the asker asks again at home."""
        fresh, _ = labelling.asked_anew(self.document, standing.home, standing.role, standing.destination)
        there, lowered = request.destination, None
        if request.hook is Hook.PRE_OUTPUT and there is not None and there.address == str(standing.home):
            _, lowered = labelling.asked_anew(self.document, standing.home, standing.role, there)
        return replace(request, fresh=fresh, lowered=lowered)

    def _decide_at(self, request: Request, now: int) -> Decision:
        return self._engine.decide(request, datetime.fromtimestamp(now / 1000, UTC))
