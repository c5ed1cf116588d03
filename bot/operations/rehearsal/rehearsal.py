"""Deciding a recorded decision again by another policy: the same engine, asked what its audit row says.

A row keeps the facts behind its requests (`bot.gate.origins`). The facts that a policy gives are looked up in the other
one: clearances, roles, tools, readers. The facts of that moment are kept: the time, the taint, the label of an item,
the readers, the answers of people. Labels of data stay as they were, as the audit does not hold the data.

The audit holds no texts either. Whether a rule that looks at content applied is known from the row, as long as the rule
looks at the same as then. Otherwise the request is decided twice, with and without such rules; if that differs, the
decision cannot be told. Nothing is guessed.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from bot.access import authorize, labelling
from bot.access.approvals import asking, put_to, someone_may_answer
from bot.access.decision_context import DecisionContext
from bot.audit.decisions import RecordedDecision, list_of, number_of, object_of, text_of, texts_of
from bot.core.errors import LockgateError
from bot.core.json_values import JsonObject
from bot.gate.judge import CurrentPolicy, Judge, Masks, ReadyPolicy, tightened
from bot.gate.origins import same_facts
from bot.gate.references import entries_digest
from bot.gate.steering import digest
from bot.operations.rehearsal.redeclared import FAMILIAR, NoFolderError, PastCaller, redeclared
from bot.secrets import Keyring
from bot.sessions.background.runs import UNREAD
from bot.tools.base import ToolCaller
from channels.messages import Address
from channels.port import Audience, Reader, ReaderKind
from policy.conditions.variables import ARG, GIVEN, HAS, Facts
from policy.decision import Decision, Verdict, combined
from policy.document.model import Document
from policy.document.parts import fingerprints, parts_of
from policy.errors import LabelTextError
from policy.fixed import APPROVAL, OUTCOME
from policy.labels import PUBLIC, Label, parse
from policy.request import (
    ArgumentRole,
    DeclaredCall,
    Destination,
    Effect,
    Hook,
    Request,
    Role,
    RunState,
    Secret,
    SteeredRole,
    TakenEntry,
    ToolFacts,
)
from policy.rules import NOT_EVALUATED, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

_CALLS: Final = frozenset({Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL})
_OF_KNOWN: Final = _CALLS | {Hook.AGENT_INVOCATION}
"""The hooks at which nothing is decided for people who are not known."""

_CLOSED: Final = "fails_closed"
_CONTENT: Final = (HAS, ARG, GIVEN)
_OF_THE_MOMENT: Final = ("taint_", "item_", "tool_name", "tool_effect", "channel", "principal", "asker")
"""Variables of a condition that no policy gives; `asker_role` and groups are not among them."""

_GIVEN_BY_POLICY: Final = ("asker_", "principal_", "channel_")
_APPLIES: Final = "applies"
_FAILS: Final = "fails"


class Untold(StrEnum):
    """Why a decision cannot be told; each is a sentence's end."""

    NO_FACTS = "its row was written before rows had facts"
    CONTENT = "a rule looks at content, which the audit does not hold"
    READERS = "its readers were too many to be listed"
    TOOL = "the policy's places differ, so its tool may declare other facts"
    UNDECIDED = "no rule was asked then, and the policy's places differ"
    FACTS = "its facts cannot be read"
    OTHERWISE = "the policy that decided gives other facts now"


class UntoldError(LockgateError):
    """A decision that cannot be told; `why` is the reason."""

    def __init__(self, why: Untold) -> None:
        super().__init__(why.value)
        self.why = why


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A recorded decision, and the decision by the other policy.

    Args:
        then: The recorded verdict.
        now: The verdict by the other policy, None where it cannot be told.
        rules: The rules that do not simply allow by the other policy.
        untold: Why it cannot be told, None where it can.
        approvers: The roles of the people asked then and now, None where they are the same.
        unknown: The asker, where the other policy does not know them, else empty.
        relabelled: Whether the other policy may give data other labels than they had.
    """

    then: Verdict
    now: Verdict | None
    rules: tuple[str, ...] = ()
    untold: Untold | None = None
    approvers: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    unknown: str = ""
    relabelled: bool = False

    @property
    def changed(self) -> bool:
        """Whether the other policy decides otherwise, or asks other people."""
        return self.now is not None and (self.now is not self.then or self.approvers is not None)


class Rehearsal:
    """Decides recorded decisions again by a policy.

    `known` are further policies by which rows may have been decided: their rules are recognised in the rows.
    """

    def __init__(self, document: Document, known: tuple[Document, ...] = ()) -> None:
        self._document = document
        self._prints = fingerprints(document)
        self._rules = {one.id: one for one in document.all_rules if not one.log_only and _looks_at_content(one)}
        current = CurrentPolicy(document)
        engine = current.engine
        self.parts, self.digest = engine.parts, engine.digest
        every = (self._answered(one) for one in document.all_rules if not one.log_only)
        current.put_in_force(ReadyPolicy.ruled(document, every))
        self._judge = Judge(current, Masks(current, Keyring()), {}, (), ("",), frozenset(), MappingProxyType({}))
        self._known = {engine.parts.rules: self._prints}
        for one in known:
            self._known[parts_of(one).rules] = fingerprints(one)

    def rehearsed(self, told: RecordedDecision) -> Rehearsed:
        """Decide a recorded request again."""
        then = Verdict.__members__.get(told.verdict, Verdict.BLOCK)
        try:
            return self._decided(told, then)
        except UntoldError as error:
            return Rehearsed(then, None, untold=error.why)

    def _decided(self, told: RecordedDecision, then: Verdict) -> Rehearsed:
        facts = told.facts
        if not facts:
            raise UntoldError(Untold.NO_FACTS)
        places = text_of(facts, "places") == self.parts.places
        asked = [object_of(one) for one in list_of(facts, "asked")]
        if not asked:
            # The gate itself refused, such as a call that names nothing: no rule of any policy lets it through.
            if then is not Verdict.BLOCK or not places:
                raise UntoldError(Untold.UNDECIDED)
            return Rehearsed(then, then, told.rules)
        past = _past(self._judge, told, asked[0], places=places)
        requests = list(map(past.request, asked))
        same = all(same_facts(request) == text_of(one, "same") for one, request in zip(asked, requests, strict=True))
        if told.policy == self.digest and not same:
            raise UntoldError(Untold.OTHERWISE)
        unsure = self._unsure(told, requests, same=same)
        applied = told.applied.difference(unsure)
        decision = self._whole(past, told, requests, applied)
        strict = [
            replace(one, steered=past.steered(row, outside=True), entry=past.entry(row, other=True))
            for row, one in zip(asked, requests, strict=True)
        ]
        if (unsure or strict != requests) and (
            self._whole(past, told, strict, applied | unsure).verdict is not decision.verdict
        ):
            raise UntoldError(Untold.CONTENT)
        people = tuple(role.value for role in put_to(self._document, decision, past.standing).approvers)
        asks = then is decision.verdict is Verdict.REQUIRE_APPROVAL and told.hook in _CALLS
        return Rehearsed(
            then,
            decision.verdict,
            decision.rules,
            approvers=(told.approvers, people) if asks and told.approvers != people else None,
            unknown=past.unknown,
            relabelled=text_of(facts, "labels") != self.parts.labels,
        )

    def _whole(
        self, past: "_Past", told: RecordedDecision, requests: list[Request], applied: frozenset[str]
    ) -> Decision:
        """Return the decision on all requests of a row together, with the answers that people gave then."""
        answers = ((_APPLIES, applied), (_FAILS, told.failed))
        judge = partial(self._judge.decided, now=past.now)
        decided = [
            self._judge.lifting(replace(request, arguments=answers), request.lifts, judge) for request in requests
        ]
        decision = decided[0]
        for one in decided[1:]:
            decision = combined(decision, one)
        return self._answered_then(past, told, decision)

    def _answered_then(self, past: "_Past", told: RecordedDecision, decision: Decision) -> Decision:
        """Return a decision with everything that the gate and people added to it then."""
        blocked = replace(decision, verdict=Verdict.BLOCK)
        if _CLOSED in told.rules or (told.hook in _OF_KNOWN and not past.known and not past.of_outbox):
            return blocked
        if OUTCOME in told.rules and decision.verdict < Verdict.REQUIRE_APPROVAL:
            return replace(decision, verdict=Verdict.REQUIRE_APPROVAL)
        if decision.verdict is not Verdict.REQUIRE_APPROVAL:
            return decision
        asks = asking(decision)
        refused_then = APPROVAL in told.rules and set(asks) <= set(told.rules)
        return blocked if refused_then or not self._may_be_asked(past, decision) else decision

    def _may_be_asked(self, past: "_Past", decision: Decision) -> bool:
        where = replace(past.standing, taint=past.leaving)
        readable = past.standing.home.channel in UNREAD or where.taint.flows_to(
            past.standing.destination.clearance or PUBLIC
        )
        return readable and someone_may_answer(self._document, decision, where)

    def _unsure(self, told: RecordedDecision, requests: list[Request], *, same: bool) -> frozenset[str]:
        """Return the rules that look at content of which the row does not tell whether they apply."""
        prints = self._known.get(text_of(told.facts, "rules"), {})
        hooks = {request.hook for request in requests}
        return frozenset(
            name
            for name, rule in self._rules.items()
            if rule.hook in hooks and (prints.get(name) != self._prints[name] or not (same or _by_content_alone(rule)))
        )

    def _answered(self, rule: Rule) -> Rule:
        """Return a rule that looks at content as one that takes the row's word for it."""
        if rule.id not in self._rules:
            return rule
        return replace(rule, pattern=None, when=None, test=partial(_as_then, rule.id))


def _as_then(rule: str, facts: Facts, _now: datetime) -> bool:
    """Say whether a rule applied then. Raises LookupError: it could not be evaluated then."""
    answers = cast("Mapping[str, frozenset[str]]", dict(facts.request.arguments))
    if rule in answers[_FAILS]:
        raise LookupError(NOT_EVALUATED)
    return rule in answers[_APPLIES]


def _looks_at_content(rule: Rule) -> bool:
    """Say whether a rule looks at a fact that no audit row holds."""
    named = () if rule.when is None else rule.when.variables
    return rule.pattern is not None or rule.test is not None or any(name.startswith(_CONTENT) for name, _ in named)


def _by_content_alone(rule: Rule) -> bool:
    """Say whether a rule looks at nothing that a policy gives, so that it applies under every policy as it did."""
    if rule.test is not None:
        return False
    named = () if rule.when is None else rule.when.variables
    return all(
        name.startswith(_CONTENT) or (name.startswith(_OF_THE_MOMENT) and not name.startswith(_GIVEN_BY_POLICY))
        for name, _ in named
    )


def _past(judge: Judge, told: RecordedDecision, first: JsonObject, *, places: bool) -> "_Past":
    """Return a session as it stood. Raises UntoldError: its facts cannot be read."""
    try:
        return _Past(judge, told, first, places=places)
    except (LabelTextError, KeyError, ValueError):
        raise UntoldError(Untold.FACTS) from None


class _Past:
    """A session as it stood at a recorded decision, with the clearances and roles of a policy."""

    def __init__(self, judge: Judge, told: RecordedDecision, first: JsonObject, *, places: bool) -> None:
        self._judge = judge
        self._document = judge.document
        self._told = told
        self._places = places
        facts = told.facts
        self._before = parse(told.before)
        self.now = number_of(facts, "at") or told.at
        self.of_outbox = "there" not in facts
        principal, self.asker = text_of(facts, "principal"), text_of(facts, "asker")
        known = labelling.ceiling(self._document, principal, self.asker)
        self.known = self.of_outbox or known is not None
        self.unknown = "" if self.known else (principal if self.asker in self._document.principals else self.asker)
        there = object_of(facts.get("there"))
        home = Address.parse(text_of(facts, "home") or text_of(there, "address") or "console:")
        role, bound = text_of(facts, "role"), _label(facts, "bound")
        self.standing = DecisionContext(
            sid="",
            generation=0,
            turn="",
            principal=principal,
            asker=self.asker,
            role=Role(role) if role else authorize.role(self._document, principal, self.asker),
            ceiling=bound or self._document.top,
            home=home,
            destination=Destination(str(home), home.channel, PUBLIC) if self.of_outbox else self._place(there),
            taint=self._before,
            now=self.now,
            authors=frozenset(texts_of(facts, "others")),
        )
        self.leaving = self._before.join(_label(first, "carried") or PUBLIC)

    def request(self, asked: JsonObject) -> Request:
        """Return a request of the row as another policy is asked it. Raises UntoldError."""
        try:
            return self._request(asked)
        except (LabelTextError, KeyError, ValueError):
            raise UntoldError(Untold.FACTS) from None

    def _request(self, asked: JsonObject) -> Request:
        hook = Hook(text_of(asked, "hook"))
        taint = _label(asked, "taint") or self._before
        standing = replace(self.standing, taint=taint)
        carried = _label(asked, "carried") or PUBLIC
        request = self._judge.request(hook, standing)
        transcriber, model = text_of(asked, "transcriber"), text_of(asked, "model")
        to, secret = object_of(asked.get("to")), object_of(asked.get("secret"))
        if self.of_outbox:
            request = self._outbox(request, to)
        return replace(
            request,
            provider=self._provider(transcriber, model),
            item=_label(asked, "item"),
            tool=self._tool(hook, object_of(asked.get("tool")), taint.join(carried)),
            destination=self._destination(to),
            secret=Secret(text_of(secret, "name"), granted=secret.get("granted") is True) if secret else None,
            confirmed=asked.get("confirmed") is True,
            released=self._released(text_of(asked, "released"), standing),
            releasable=asked.get("releasable") is True,
            held=asked.get("held") is True,
            carried=carried,
            steered=self.steered(asked, outside=False),
            quotes=asked.get("quotes") is True,
            unvouched=asked.get("unvouched") is True,
            entry=self.entry(asked, other=False),
            run=_run(object_of(self._told.facts.get("run"))),
            lifts=texts_of(asked, "lifts"),
        )

    def steered(self, asked: JsonObject, *, outside: bool) -> tuple[SteeredRole, ...]:
        """Return the roles that steered a call; `outside` says it of values whose place in another bound is not known.

        The audit holds no values: under the same bound they are as they were, and where there is none they are outside.
        """
        bounds = self._document.bounds(_tool_in(asked))
        found = list[SteeredRole]()
        for told in map(object_of, list_of(asked, "steered")):
            role = ArgumentRole(text_of(told, "role")) if text_of(told, "role") else None
            bound, known = digest(bounds, role), told.get("outside") is True
            same = not bound or bound == text_of(told, "bound")
            found.append(SteeredRole(role, outside=not bound or (known if same else outside), bound=bound))
        return tuple(found)

    def entry(self, asked: JsonObject, *, other: bool) -> TakenEntry | None:
        """Return how the entries that steered a call stand to the bounds; `other` says it the other way if not known.

        The audit holds no kinds of entries: where the bounds name the same ones they stand as they did.
        """
        if not text_of(asked, "entry"):
            return None
        told, named = TakenEntry(text_of(asked, "entry")), entries_digest(self._document.bounds(_tool_in(asked)))
        if not named:
            return TakenEntry.UNBOUND
        if not other or named == text_of(asked, "entry_bounds"):
            return told
        return TakenEntry.BOUND if told is TakenEntry.UNBOUND else TakenEntry.UNBOUND

    def _outbox(self, request: Request, to: JsonObject) -> Request:
        """Return the request of a text at the moment of sending, behind which no session stands."""
        top, there = self._document.top, self._destination(to)
        home = PUBLIC if there is None or there.clearance is None else there.clearance
        return replace(
            request,
            role=Role.MEMBER,
            channel=request.channel if there is None else there.channel,
            ceiling=top,
            home=home,
            overshoot="allow",
            asker="",
            asker_role=Role.STRANGER,
        )

    def _provider(self, transcriber: str, model: str) -> Label:
        if self.of_outbox:
            return self._document.top
        return self._document.transcriber(transcriber) if transcriber else self._document.provider(model)

    def _released(self, person: str, standing: DecisionContext) -> str:
        """Return the person who released a text, empty if the policy does not let them."""
        known = self._document.principals.get(person)
        if known is None or not known.may_release or not standing.taint.flows_to(known.clearance):
            return ""
        reader = self._judge.ceiling(standing).meet(standing.destination.clearance or PUBLIC)
        return person if self.of_outbox or standing.taint.flows_to(reader) else ""

    def _destination(self, to: JsonObject) -> Destination | None:
        if not to:
            return None
        return self.standing.destination if to.get("home") is True else self._place(to)

    def _place(self, told: JsonObject) -> Destination:
        """Return an address with the readers it had, as the policy clears them. Raises UntoldError."""
        address, shared = Address.parse(text_of(told, "address")), told.get("shared") is True
        if told.get("many") is True:
            if not self._places:
                raise UntoldError(Untold.READERS)
            return Destination(str(address), address.channel, _label(told, "clearance"), shared=shared)
        if "readers" not in told:
            return replace(labelling.expected(self._document, address), shared=shared)
        readers = frozenset(
            Reader(str(account), ReaderKind(kind))
            for kind, accounts in object_of(told["readers"]).items()
            for account in cast("list[object]", accounts)
        )
        audience = Audience(readers, complete=told.get("partial") is not True, shared=shared)
        return labelling.destination(self._document, address, audience)

    def _tool(self, hook: Hook, told: JsonObject, words: Label) -> ToolFacts | None:
        """Return a call's tool as the policy tightens it. Raises UntoldError."""
        if not told:
            return None
        tool = ToolFacts(
            text_of(told, "name"),
            Effect(text_of(told, "effect")),
            _label(told, "result"),
            _label(told, "clearance"),
            told.get("consequential") is True,
            text_of(told, "server"),
            asks=told.get("asks") is True,
            raises=_label(told, "raises") or PUBLIC,
            shows=told.get("shows") is True,
            spared=told.get("spared") is True,
            identifier=text_of(told, "identifier"),
        )
        if hook not in _CALLS or "adds" not in told:
            return tool
        if not (self._places or tool.server or tool.name in FAMILIAR):
            raise UntoldError(Untold.TOOL)
        folder = object_of(told.get("folder"))
        call = DeclaredCall(
            tool,
            parse(text_of(told, "adds")),
            (text_of(folder, "name"), parse(text_of(folder, "beside"))) if folder else None,
            text_of(told, "place"),
        )
        try:
            call = call if self._places else redeclared(self._document, self._caller(words), call)
        except NoFolderError:
            return replace(tool, result=None)
        return tightened(self._document, call.tool, call.result)

    def _caller(self, words: Label) -> PastCaller:
        standing, ceiling = self.standing, self._judge.ceiling(self.standing)
        caller = ToolCaller(standing.principal, standing.asker, standing.role, ceiling, standing.taint, by_model=True)
        return PastCaller(caller, standing.home, words)


def _tool_in(asked: JsonObject) -> str:
    return text_of(object_of(asked.get("tool")), "name")


def _run(told: JsonObject) -> RunState | None:
    if not told:
        return None
    return RunState(told["initialized"] is True, told["stopped"] is True, told["paused"] is True)


def _label(facts: JsonObject, name: str) -> Label | None:
    written = text_of(facts, name)
    return parse(written) if written else None
