"""The common base of all gates: the policy in force, its decisions on a session's requests, and redaction of texts.

The lowest layer of the gate and the only module that calls the policy engine. Only the gates of this package have a
`Judge`; no code outside can reach it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import anyio.to_thread
from pydantic import JsonValue

from bot.access import authorize, labelling
from bot.access.agents import AgentSnapshot
from bot.access.approvals import DENIED, OTHERS, asking
from bot.access.decision_context import DecisionContext
from bot.gate.origins import begun_from
from bot.gate.results import MAY_GO_ON
from bot.secrets import Keyring
from bot.sessions.background.run_states import Breaker
from bot.sessions.deliveries import OURS
from bot.tools.base import CallFacts, Tool
from bot.tools.references import ADMIT
from policy.decision import Decision, Remedy, RuleOutcome, Verdict
from policy.document.model import Document
from policy.engine import Engine
from policy.fixed import APPROVAL
from policy.labels import PUBLIC, Label
from policy.redaction.patterns import SECRET
from policy.request import Effect, Hook, Request, RunState, Secret, ToolFacts
from policy.rules import Rule

_LONG: Final = 4_000
"""Characters: reading this many takes a few milliseconds, or a hundred if the text is hostile."""


def seen(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the visible forms of texts, each alone and all together, that differ from the written forms."""
    written = tuple(texts)
    views = (view for text in written for view in _views(text))
    return tuple(view for view in dict.fromkeys((*views, together(written))) if view not in written)


def together(texts: Iterable[str]) -> str:
    """Return the visible form of texts that stand one below the other."""
    return "\n".join(next(iter(_views(text)), text) for text in texts)


def _views(text: str) -> tuple[str, ...]:
    from channels.rich_text import views  # noqa: PLC0415 - the parser takes 40 ms to load, and only content rules need it

    return views(text)


def trial(document: Document) -> Callable[[Request, datetime], Decision]:
    """Return the decision function of a policy, for an operator's test cases; nothing follows from its decisions."""
    return Engine.from_document(document).decide


@dataclass(frozen=True, slots=True)
class ReadyPolicy:
    """A policy ready to decide: its document and the engine made of it, replaced together or not at all."""

    document: Document
    engine: Engine
    renewal: "Renewal | None" = None

    @staticmethod
    def of(document: Document, renewal: "Renewal | None" = None) -> "ReadyPolicy":
        """Return a policy made ready to be put in force; this takes time, and may be done in a thread."""
        return ReadyPolicy(document, Engine.from_document(document), renewal)

    @staticmethod
    def ruled(document: Document, rules: Iterable[Rule]) -> "ReadyPolicy":
        """Return a policy with other configured rules than its own, to decide again what was decided before."""
        engine = Engine.from_document(document)
        return ReadyPolicy(
            document, Engine.build(rules, top=document.top, redactor=engine.redactor, digest=engine.digest)
        )

    def loaded(self) -> "ReadyPolicy":
        """Return it after loading everything that its rules need, which takes time and reads files."""
        if self.engine.load():
            _views("*")
        return self


@dataclass(frozen=True, slots=True)
class Renewal:
    """The end of a policy that holds for a time, as an access ends then.

    Args:
        due: Says whether that time has come.
        made: Returns the policy from then on.
    """

    due: Callable[[], bool]
    made: Callable[[], ReadyPolicy]


class CurrentPolicy:
    """The policy in force, until another one is put in its place, or an access ends: each use looks at the time."""

    def __init__(self, document: Document) -> None:
        self._ready = ReadyPolicy.of(document)

    @property
    def document(self) -> Document:
        """The policy document in force."""
        return self._now().document

    @property
    def engine(self) -> Engine:
        """The engine made of that document."""
        return self._now().engine

    def put_in_force(self, policy: ReadyPolicy) -> None:
        """Decide by this policy from now on; a decision under way ends by the one it began with."""
        self._ready = policy

    def load(self) -> None:
        """Load everything that the rules in force need, in a thread, so that the first decision need not wait."""
        self._now().loaded()

    def _now(self) -> ReadyPolicy:
        ready = self._ready
        while ready.renewal is not None and ready.renewal.due():
            made = ready.renewal.made()
            if self._ready is ready:
                # Otherwise another policy was put in force meanwhile, and it counts.
                self._ready = made
            ready = self._ready
        return ready


@dataclass(frozen=True, slots=True)
class Masks:
    """Removes secrets and redacted parts from texts, by the policy in force and the configured secrets."""

    policy: CurrentPolicy
    keyring: Keyring

    def masked(self, text: str) -> str:
        """Return a text without the values of configured secrets and without text that looks like a secret."""
        return self.policy.engine.redactor.redact(self.keyring.scrub(text), (SECRET,)) if text else ""

    @property
    def longest_secret(self) -> int:
        """How many characters after a cut must be known, so that no part of a secret's value is left."""
        return self.keyring.longest

    def scrubbed(self, text: str, most: int | None = None) -> str:
        """Return a text, or as many of its first characters as `most`, without the value of any secret."""
        return self.keyring.scrub(text, most)

    def cleaned(self, text: str, decision: Decision) -> str:
        """Return a text as it may be used: without any secret's value, and with the decision's redactions."""
        return self.replaced(self.keyring.scrub(text), decision)

    def replaced(self, text: str, decision: Decision) -> str:
        """Return a text with the decision's redactions in all its visible forms."""
        return self.policy.engine.redact(text, decision, _views)


def _run_state(standing: DecisionContext) -> RunState | None:
    """Return the state of a session's run for a request, None for any other session."""
    if standing.run is None:
        return None
    progress = standing.run.progress
    return RunState(progress.initialized, progress.over, progress.breaker is Breaker.OPEN)


@dataclass(frozen=True, slots=True)
class Judge:
    """The policy in force, asked about a session.

    Args:
        policy: The policy in force.
        masks: Removes secrets and redacted parts.
        tools: All tools by their names.
        labelled: The tools that models may be offered: those with a label when this was made.
        models: The names of the models. The first model of a session's agent is asked first, or the first of these
            where there is no session, unless people chose another of these for a conversation.
        for_runs: The names of the tools that work only in runs.
        aliases: Other names of tools: each with the tool's name, and the arguments that it stands for.
    """

    policy: CurrentPolicy
    masks: Masks
    tools: Mapping[str, Tool]
    labelled: tuple[Tool, ...]
    models: tuple[str, ...]
    for_runs: frozenset[str]
    aliases: Mapping[str, tuple[str, Mapping[str, JsonValue]]]

    @property
    def document(self) -> Document:
        """The policy document in force."""
        return self.policy.document

    def offered(self, standing: DecisionContext) -> tuple[Tool, ...]:
        """Return the tools that a model is offered in a turn: those of its agent that are for the asker."""
        document, agent, in_run = self.document, standing.agent, standing.run is not None
        asker = authorize.role(document, standing.asker, standing.asker)
        return tuple(
            tool
            for tool in self.labelled
            if document.offers(tool.name, asker) and self._has(agent, tool, in_run=in_run)
        )

    def tool(self, standing: DecisionContext, name: str) -> Tool | None:
        """Return a tool by its name, None if there is none or the session's agent does not have it."""
        tool = self.tools.get(name)
        return tool if tool is not None and self._has(standing.agent, tool, in_run=True) else None

    def _has(self, agent: AgentSnapshot | None, tool: Tool, *, in_run: bool) -> bool:
        """Say whether a session has a tool: a run also has those for runs only, whether or not its agent has."""
        if tool.name in self.for_runs:
            return in_run and (agent is None or not agent.lost)
        return agent is None or agent.offers(tool.name)

    def model(self, standing: DecisionContext) -> str:
        """Return the model that is asked first: the one people chose, unless it is not configured any more.

        Otherwise it is the first one of the session's agent; a lost agent has none, so the name is empty.
        """
        if standing.agent is not None and standing.agent.lost:
            return ""
        if standing.model in self.models:
            return standing.model
        return self.models[0] if standing.agent is None else standing.agent.models[0]

    def knows(self, standing: DecisionContext) -> bool:
        """Say whether a session's principal and asker are still known: a removed person asks for no more."""
        return labelling.ceiling(self.document, standing.principal, standing.asker) is not None

    def ceiling(self, standing: DecisionContext) -> Label:
        """Return the most a session may know now: a lowered clearance takes effect in an open turn, too."""
        known = labelling.ceiling(self.document, standing.principal, standing.asker)
        return PUBLIC if known is None else standing.ceiling.meet(known)

    def request(self, hook: Hook, standing: DecisionContext) -> Request:
        """Return the request about a session at a hook, without the item to be decided on."""
        document, home, there, model = self.document, standing.home, standing.destination, self.model(standing)
        groups, asker = document.groups_of(standing.principal), standing.asker
        return Request(
            hook=hook,
            principal=standing.principal,
            role=standing.role,
            channel=home.channel,
            taint=standing.taint,
            ceiling=self.ceiling(standing),
            provider=document.provider(model),
            home=there.clearance or PUBLIC,
            overshoot=document.overshoot(home.channel, home.workspace, home.chat),
            home_readers=there.readers,
            home_vouched=there.vouched,
            asker=asker,
            asker_role=authorize.role(document, asker, asker),
            others=labelling.others(document, standing.principal, home, standing.others),
            principal_groups=groups,
            asker_groups=groups if asker == standing.principal else document.groups_of(asker),
            run=_run_state(standing),
            origin=begun_from(document, standing, model),
        )

    def unlock(self, standing: DecisionContext, tool: ToolFacts, name: str, host: str) -> Decision:
        """Decide on a tool's use of a secret for a host (hook SECRET_ACCESS); `host` is as `Keyring.grants` takes it.

        The caller records the decision before the value is put in its place.
        """
        secret = Secret(name, granted=self.masks.keyring.grants(name, tool.name, host))
        request = replace(self.request(Hook.SECRET_ACCESS, standing), tool=tool, secret=secret)
        return self.settled(request, standing)

    def may_enter(self, standing: DecisionContext, tool: str, label: Label, *, held: bool) -> bool:
        """Say whether a result of this label may enter the context, or be held, regardless of its content."""
        facts = ToolFacts(tool, Effect.READ, label)
        request = replace(self.request(Hook.POST_TOOL_RESPONSE, standing), item=label, tool=facts, held=held)
        return self.settled(request, standing).verdict in MAY_GO_ON

    def settled(self, request: Request, standing: DecisionContext) -> Decision:
        """Decide on a session's request. Remedies are tried only for a refused one, since only it shows them."""
        decision = self.decided(request, standing.now)
        if decision.verdict in MAY_GO_ON:
            return decision
        return self.decided(self.asked_anew(request, standing), standing.now)

    def decided(self, request: Request, now: int) -> Decision:
        """Decide on a request at a moment, in milliseconds."""
        return self.policy.engine.decide(request, datetime.fromtimestamp(now / 1000, UTC))

    @staticmethod
    def lifting(request: Request, approved: tuple[str, ...], judge: Callable[[Request], Decision]) -> Decision:
        """Decide with the approved rules lifted; nothing is lifted if a rule asks that people were not asked about."""
        if approved:
            request = replace(request, lifts=approved)
        decision = judge(request)
        if decision.verdict is not Verdict.REQUIRE_APPROVAL:
            return decision
        if approved == OURS or set(asking(decision)).issubset(approved):
            return judge(replace(request, approved=True))
        return decision

    def showing(self, request: Request, *texts: str, standing: DecisionContext | None = None) -> Request:
        """Return a request with the visible forms of these texts, if a rule may look for a pattern in them.

        A rule may do so also after a session's remedy was taken. A call of an MCP server's tool is decided at two
        hooks.
        """
        served = request.tool is not None and bool(request.tool.server)
        hooks = (request.hook, Hook.MCP_TOOL_CALL) if served else (request.hook,)
        if not any(map(self.policy.engine.reads_at, hooks)):
            return request
        request = request if standing is None else self.asked_anew(request, standing)
        asked = (self.policy.engine.reads(replace(request, hook=hook)) for hook in hooks)
        return replace(request, shown=seen(texts)) if any(asked) else request

    def asked_anew(self, request: Request, standing: DecisionContext) -> Request:
        """Return a session's request with the labels after a remedy: the asker asks again at home."""
        fresh, _ = labelling.asked_anew(self.document, standing.home, standing.role, standing.destination)
        there, lowered = request.destination, None
        if request.hook is Hook.PRE_OUTPUT and there is not None and there.address == str(standing.home):
            _, lowered = labelling.asked_anew(self.document, standing.home, standing.role, there)
        return replace(request, fresh=fresh, lowered=lowered)

    def refused(self, standing: DecisionContext, why: str, decided: Decision | None = None) -> Decision:
        """Return a BLOCK by `fails_closed`, keeping the outcomes of the rules; `why` is a constant."""
        return self._blocked(standing, "fails_closed", why, decided)

    def unapproved(self, standing: DecisionContext, why: str, decided: Decision) -> Decision:
        """Return a question to people as a BLOCK, since they did not approve; `why` is a constant.

        After a person's refusal, no other way to the same effect is offered.
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
            policy=self.policy.engine.digest,
            would=() if decided is None else decided.would,
            requests=() if decided is None else decided.requests,
            parts=self.policy.engine.parts,
        )

    async def read_ahead(self, texts: Iterable[str], hook: Hook = Hook.PRE_OUTPUT) -> None:
        """Read long texts of a later decision at a hook ahead, in a thread: the decision then finds them read."""
        if self.policy.engine.reads_at(hook):
            for text in texts:
                if len(text) > _LONG:
                    await anyio.to_thread.run_sync(_views, text)


def call_facts(document: Document, tool: Tool, declared: CallFacts) -> ToolFacts:
    """Return a call's facts as declared and as tightened by the operator; a tool without a label stays without one."""
    return tightened(document, declared_facts(tool, declared), declared.result)


def declared_facts(tool: Tool, declared: CallFacts) -> ToolFacts:
    """Return a call's facts as its tool declares them."""
    return ToolFacts(
        tool.name,
        tool.effect,
        tool.label,
        declared.clearance,
        declared.consequential,
        tool.server,
        asks=declared.asks,
        raises=declared.raises,
        shows=declared.shows,
        identifier=declared.identifier,
    )


def tightened(document: Document, known: ToolFacts, result: Label) -> ToolFacts:
    """Return declared facts as tightened by the operator; `result` is the label that the call adds to its tool's.

    `admit` is never spared its result: it is the call that reads a held text after all.
    """
    facts = document.tool(known)
    if facts.name == ADMIT and facts.spared:
        facts = replace(facts, spared=False)
    return facts if facts.result is None else replace(facts, result=facts.result.join(result))


def is_spared(standing: DecisionContext, facts: ToolFacts, carried: Label, *, hold: bool) -> bool:
    """Say whether a call's text stays out of a TRUSTED session while its level enters.

    The declared label decides, which is known before anything is read: so it is a constant of the call.
    """
    if not facts.spared or hold or standing.taint.untrusted or facts.result is None:
        return False
    return facts.result.join(carried).untrusted


def answered_for(standing: DecisionContext, approved: tuple[str, ...]) -> DecisionContext:
    """Return a session's context for results of an approved call: without the restriction by other authors."""
    return replace(standing, authors=frozenset()) if OTHERS in approved else standing
