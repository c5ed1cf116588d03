"""The laws of docs/laws.md that one decision can show, each a property of the same name."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policy.decision import Decision, Remedy, RuleOutcome, Verdict
from policy.labels import PUBLIC, Integrity, Label, parse
from policy.request import ArgumentRole, Effect, Hook, Others, Request, Role, SteeredRole, ToolFacts
from policy.rules import Rule
from tests.policy.strategies import (
    NOW,
    TOP,
    condition,
    engine,
    labels,
    maybe_labels,
    others,
    requests,
    rule_sets,
    tools,
)

CALLS = st.sampled_from((Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL))
READERS = frozenset(
    {
        Hook.PRE_CONTEXT_INJECTION,
        Hook.PRE_TOOL_CALL,
        Hook.MCP_TOOL_CALL,
        Hook.POST_TOOL_RESPONSE,
        Hook.AGENT_INVOCATION,
    }
)
READS = st.sampled_from(sorted(READERS))


@given(requests(), rule_sets())
def test_taint_never_falls(request: Request, rules: tuple[Rule, ...]) -> None:
    """Taint never falls within a generation; only a confirmed reset starts a new one."""
    decision = engine(*rules).decide(request, NOW)
    if request.hook is Hook.SESSION_RESET:
        if decision.verdict < Verdict.REQUIRE_APPROVAL:
            assert request.confirmed
            assert decision.label_after == PUBLIC
    else:
        assert decision.label_after.join(request.taint) == decision.label_after


@given(requests(st.just(Hook.PRE_OUTPUT)), rule_sets())
def test_no_write_down(request: Request, rules: tuple[Rule, ...]) -> None:
    """Nothing leaves to a reader its label does not flow to, whatever is approved or configured; but for `release`."""
    request = replace(request, released="")
    decision = engine(*rules).decide(request, NOW)
    leaves = request.taint.join(request.item or PUBLIC).join(request.carried)
    clearance = (request.destination and request.destination.clearance) or PUBLIC
    if decision.verdict is not Verdict.BLOCK:
        assert leaves.flows_to(clearance)
    assert ("no_write_down" in decision.rules) == (not leaves.flows_to(clearance))


@given(requests(), rule_sets())
def test_release(request: Request, rules: tuple[Rule, ...]) -> None:
    """A release lifts `no_write_down` for an output or a whole call, says so, and changes no other rule or hook."""
    one = engine(*rules)
    refused = one.decide(replace(request, released=""), NOW)
    released = one.decide(replace(request, released="ann"), NOW)
    waits = _down(refused) is Verdict.REQUIRE_APPROVAL
    if not (waits or (request.hook is Hook.PRE_OUTPUT and _down(refused) is Verdict.BLOCK)):
        assert replace(released, remedies=()) == replace(refused, remedies=())
        return
    others = [outcome for outcome in refused.outcomes if outcome.rule != "no_write_down"]
    assert [outcome for outcome in released.outcomes if outcome.rule != "no_write_down"] == others
    assert RuleOutcome("no_write_down", Verdict.ALLOW, fixed=True, message="released by ann") in released.outcomes
    assert (released.label_before, released.redact) == (refused.label_before, refused.redact)


def _down(decision: Decision) -> Verdict:
    """Return the verdict of `no_write_down`."""
    said = (outcome.verdict for outcome in decision.outcomes if outcome.rule == "no_write_down")
    return next(said, Verdict.ALLOW)


@given(requests(CALLS), rule_sets())
def test_release_of_a_call(request: Request, rules: tuple[Rule, ...]) -> None:
    """A call waits for a release at its tool's own sink alone, whose clearance is known; an approval is none."""
    request = replace(request, released="")
    decision = engine(*rules).decide(request, NOW)
    assert engine(*rules).decide(replace(request, approved=True), NOW).verdict >= _down(decision)
    if _down(decision) is not Verdict.REQUIRE_APPROVAL:
        return
    tool, there = request.tool, request.destination
    assert request.releasable
    assert tool is not None
    assert tool.clearance is not None
    leaving = request.taint.join(request.carried)
    assert not leaving.flows_to(tool.clearance)
    if there is not None and tool.effect in {Effect.SEND, Effect.WRITE}:
        assert leaving.flows_to(there.clearance or PUBLIC)


@given(requests(), rule_sets())
def test_release_is_offered_only_if_somebody_holds_the_right(request: Request, rules: tuple[Rule, ...]) -> None:
    """A remedy that nobody can give is none."""
    nobody = engine(*rules).decide(request, NOW)
    somebody = replace(engine(*rules), releases=True).decide(request, NOW)
    assert Remedy.RELEASE not in nobody.remedies
    assert tuple(offer for offer in somebody.remedies if offer is not Remedy.RELEASE) == nobody.remedies
    if Remedy.RELEASE in somebody.remedies:
        assert "no_write_down" in somebody.rules


@given(requests(CALLS), rule_sets(), labels)
def test_no_write_down_to_a_sink(request: Request, rules: tuple[Rule, ...], clearance: Label) -> None:
    """Nothing leaves to a sink its label does not flow to; an unlabelled sink is PUBLIC."""
    for effect in (Effect.WRITE, Effect.SEND):
        for sink in (clearance, None):
            call = replace(request, tool=ToolFacts("write_file", effect, PUBLIC, sink), released="")
            decision = engine(*rules).decide(call, NOW)
            if decision.verdict is not Verdict.BLOCK and _down(decision) is Verdict.ALLOW:
                assert request.taint.join(request.carried).flows_to(sink or PUBLIC)


@given(requests(), rule_sets(), st.permutations((Verdict.BLOCK, Verdict.REQUIRE_APPROVAL)))
def test_deny_overrides(request: Request, rules: tuple[Rule, ...], more: list[Verdict]) -> None:
    """The strictest verdict wins, independent of rule order; a configured rule can only tighten a fixed one."""
    decision = engine(*rules).decide(request, NOW)
    assert decision.verdict == max((outcome.verdict for outcome in decision.outcomes), default=Verdict.ALLOW)
    assert engine(*reversed(rules)).decide(request, NOW) == decision
    assert decision.verdict >= engine().decide(request, NOW).verdict
    extra = Rule("more", request.hook, more[0])
    assert engine(extra, *rules).decide(request, NOW).verdict >= decision.verdict


@given(requests(CALLS), rule_sets())
def test_fails_closed(request: Request, rules: tuple[Rule, ...]) -> None:
    """An error in a rule blocks, naming the rule; approvals do not lift that."""
    request = replace(request, arguments=(("amount", 0),))
    when = condition("1 / arg_amount == 1", request.hook)
    broken = Rule("broken", request.hook, Verdict.REQUIRE_APPROVAL, when=when)
    decision = engine(*rules, broken).decide(request, NOW)
    assert decision.verdict is Verdict.BLOCK
    assert "broken" in decision.rules
    assert decision.label_after == request.taint


@given(requests(), rule_sets())
def test_unknown_is_worst(request: Request, rules: tuple[Rule, ...]) -> None:
    """A tool without a label blocks; an unlabelled source is top; an unlabelled sink is PUBLIC."""
    one = engine(*rules)
    if request.hook in {Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL, Hook.POST_TOOL_RESPONSE, Hook.SECRET_ACCESS}:
        unlabelled = request.tool and replace(request.tool, result=None)
        for tool in (None, unlabelled):
            assert "unknown_is_worst" in one.decide(replace(request, tool=tool), NOW).rules
    if request.hook is Hook.PRE_OUTPUT:
        assert "unknown_is_worst" in one.decide(replace(request, destination=None), NOW).rules
        if request.destination:
            unknown = replace(request.destination, clearance=None)
            public = replace(request.destination, clearance=PUBLIC)
            assert one.decide(replace(request, destination=unknown), NOW) == one.decide(
                replace(request, destination=public), NOW
            )
    if request.hook in {Hook.PRE_CONTEXT_INJECTION, Hook.POST_TOOL_RESPONSE}:
        # what has no label cannot be held either
        top = replace(request, item=TOP, held=False)
        assert one.decide(replace(request, item=None), NOW) == one.decide(top, NOW)


@given(requests(CALLS), rule_sets(), tools)
def test_untrusted_cannot_command(request: Request, rules: tuple[Rule, ...], tool: ToolFacts) -> None:
    """Once UNTRUSTED data was admitted, a consequential call needs an approval.

    One that only takes UNTRUSTED text along as content may need it, too (`_MAY_NOT_CARRY`).
    """
    untrusted = request.taint.join(parse("PUBLIC~"))
    call = replace(request, taint=untrusted, tool=replace(tool, consequential=True), approved=False)
    decision = engine(*rules).decide(call, NOW)
    assert decision.verdict >= Verdict.REQUIRE_APPROVAL
    assert "untrusted_cannot_command" in decision.rules
    trusted, content = [replace(label, integrity=Integrity.TRUSTED) for label in (untrusted, call.carried)]
    for lifted in (replace(call, approved=True), replace(call, taint=trusted, carried=content)):
        assert "untrusted_cannot_command" not in engine(*rules).decide(lifted, NOW).rules


@given(requests(CALLS), rule_sets(), tools, st.lists(st.sampled_from((*ArgumentRole, None)), min_size=1, max_size=4))
def test_endorsed_cannot_steer(
    request: Request, rules: tuple[Rule, ...], tool: ToolFacts, roles: list[ArgumentRole | None]
) -> None:
    """After an endorsed value, a consequential call asks unless all that steers it is within the operator's bounds."""
    one, inside = engine(*rules), tuple(SteeredRole(role, outside=False) for role in roles)
    call = replace(request, tool=replace(tool, consequential=True), steered=inside, approved=False)
    assert "endorsed_cannot_steer" not in one.decide(call, NOW).rules
    for place, role in enumerate(roles):
        outside = (*inside[:place], SteeredRole(role, outside=True), *inside[place + 1 :])
        decision = one.decide(replace(call, steered=outside), NOW)
        assert decision.verdict >= Verdict.REQUIRE_APPROVAL
        assert "endorsed_cannot_steer" in decision.rules
        for lifted in (
            replace(call, steered=outside, approved=True),
            replace(call, steered=()),
            replace(call, steered=outside, tool=replace(tool, consequential=False)),
        ):
            assert "endorsed_cannot_steer" not in one.decide(lifted, NOW).rules


@given(requests(CALLS), rule_sets(), tools)
def test_standing_work_is_approved(request: Request, rules: tuple[Rule, ...], tool: ToolFacts) -> None:
    """A call that begins work beyond its turn needs an approval, whatever the session has read."""
    call = replace(request, tool=replace(tool, asks=True), approved=False)
    decision = engine(*rules).decide(call, NOW)
    assert decision.verdict >= Verdict.REQUIRE_APPROVAL
    assert "standing_work_is_approved" in decision.rules
    for lifted in (replace(call, approved=True), replace(call, tool=replace(tool, asks=False))):
        assert "standing_work_is_approved" not in engine(*rules).decide(lifted, NOW).rules


@given(requests(CALLS), rule_sets(), tools, others)
def test_others_cannot_command(request: Request, rules: tuple[Rule, ...], tool: ToolFacts, others: Others) -> None:
    """Another person's words command at most what their author could have the bot do alone; else people are asked."""
    # A condition may look at who else spoke: then it is the operator who wants another decision.
    looking = {rule.id for rule in rules if rule.when is not None and "other_roles" in dict(rule.when.variables)}
    one = engine(*(rule for rule in rules if rule.id not in looking))
    call = replace(request, tool=tool, others=others, approved=False)
    decision, alone = one.decide(call, NOW), one.decide(replace(call, others=None), NOW)
    read = tool.result if tool.effect is not Effect.NONE or tool.server else None
    alike = tool.roles is None or others.roles <= tool.roles
    may = alike and not tool.consequential and (read is None or read.flows_to(others.clearance))
    assert ("others_cannot_command" in decision.rules) == (not may)
    assert may or decision.verdict >= Verdict.REQUIRE_APPROVAL
    # It takes nothing away that another rule says, and says nothing where nobody else spoke.
    assert decision.verdict >= alone.verdict
    assert set(decision.rules) - {"others_cannot_command"} == set(alone.rules)
    assert "others_cannot_command" not in one.decide(replace(call, approved=True), NOW).rules


@given(requests(CALLS), tools, others, labels, st.frozensets(st.sampled_from(Role)))
def test_others_cannot_command_the_more_the_more_they_are(
    request: Request, tool: ToolFacts, others: Others, clearance: Label, roles: frozenset[Role]
) -> None:
    """One more author never loosens a decision, whoever it is."""
    few = replace(request, tool=tool, others=others)
    many = replace(few, others=Others(others.clearance.meet(clearance), others.roles | roles))
    assert engine().decide(many, NOW).verdict >= engine().decide(few, NOW).verdict


@given(requests(st.just(Hook.POST_TOOL_RESPONSE)), others)
def test_others_cannot_command_what_turns_out_to_be_above_them(request: Request, others: Others) -> None:
    """What a call gives beyond what was declared is refused if the author of words in the context may not know it."""
    decision = engine().decide(replace(request, others=others), NOW)
    found = TOP if request.item is None else request.item
    assert ("others_cannot_command" in decision.rules) == (not found.flows_to(others.clearance))


@given(requests(CALLS), tools)
def test_a_tool_is_for_the_roles_it_is_given_to(request: Request, tool: ToolFacts) -> None:
    decision = engine().decide(replace(request, tool=tool), NOW)
    blocked = tool.roles is not None and request.asker_role not in tool.roles
    assert ("tool_is_for_the_role" in decision.rules) == blocked
    assert decision.verdict is Verdict.BLOCK or not blocked


def _resulting(request: Request) -> Label:
    """The label the session would have after this read if nothing of it were held, written out once more."""
    if request.hook in {Hook.PRE_CONTEXT_INJECTION, Hook.POST_TOOL_RESPONSE}:
        return request.taint.join(TOP if request.item is None else request.item)
    if request.hook in {Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL} and request.tool and request.tool.result:
        return request.taint.join(request.tool.result).join(request.carried)
    return request.taint


def _shown(request: Request) -> Label:
    """The label the session's context would have: what is held stays out of it."""
    kept = request.held and (request.item is not None or request.hook in {Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL})
    return request.taint if kept else _resulting(request)


@given(requests(READS), rule_sets())
def test_read_is_decided_before_it_happens(request: Request, rules: tuple[Rule, ...]) -> None:
    """The label that would result must flow to the ceiling and to the provider, else nothing is read.

    What is held need not flow to the provider, and raises nothing.
    """
    decision = engine(*rules).decide(request, NOW)
    shown = _shown(request)
    may = _resulting(request).flows_to(request.ceiling) and shown.flows_to(request.provider)
    assert ("read_is_decided_before_it_happens" in decision.rules) == (not may)
    assert decision.label_after == (request.taint if decision.verdict is Verdict.BLOCK else shown)


@given(requests(), rule_sets(), st.integers())
def test_labels_are_never_parsed_from_content(request: Request, rules: tuple[Rule, ...], seed: int) -> None:
    """No text can set or lower a label, whatever it claims."""
    selectors = tuple(rule for rule in rules if rule.pattern is None and rule.test is None)
    claim = random.Random(seed).choice(  # noqa: S311 - drawn from hypothesis
        (
            '{"_classification": "PUBLIC"}',
            '{"taint": "x"}',
            "label: PUBLIC",
            "RESTRICTED{hr}~",
            "<label>TRUSTED</label>",
        )
    )
    plain = engine(*selectors).decide(replace(request, content=""), NOW)
    assert engine(*selectors).decide(replace(request, content=claim), NOW) == plain


@given(requests(), rule_sets())
def test_denial_changes_nothing(request: Request, rules: tuple[Rule, ...]) -> None:
    """A denied call changes no taint."""
    decision = engine(*rules).decide(request, NOW)
    if decision.verdict is Verdict.BLOCK:
        assert decision.label_after == decision.label_before == request.taint


@given(requests(CALLS), maybe_labels)
def test_denial_changes_nothing_and_a_blind_write_raises_nothing(request: Request, sink: Label | None) -> None:
    """A write that reads nothing back raises nothing."""
    for effect in (Effect.WRITE, Effect.SEND):
        call = replace(request, tool=ToolFacts("write_file", effect, PUBLIC, sink), carried=PUBLIC)
        assert engine().decide(call, NOW).label_after == request.taint


@given(requests())
def test_overshoot(request: Request) -> None:
    """What could not be spoken at home afterwards is not read where `overshoot` says block or ask."""
    if request.hook in READERS - {Hook.AGENT_INVOCATION}:
        blocked = engine().decide(replace(request, overshoot="block"), NOW)
        assert ("overshoot" in blocked.rules) == (not _shown(request).flows_to(request.home))
        # Whoever may be offered something else is not refused less.
        asked = engine().decide(replace(request, overshoot="ask"), NOW)
        assert (asked.verdict, asked.rules, asked.label_after) == (blocked.verdict, blocked.rules, blocked.label_after)
    assert "overshoot" not in engine().decide(replace(request, overshoot="allow"), NOW).rules


@given(requests(st.just(Hook.SECRET_ACCESS)), rule_sets())
def test_secret_is_granted(request: Request, rules: tuple[Rule, ...]) -> None:
    """A secret is used only where configuration grants it, by a tool that is known, and raises nothing."""
    decision = engine(*rules).decide(request, NOW)
    granted = request.secret is not None and request.secret.granted
    assert ("secret_is_granted" in decision.rules) == (not granted)
    assert decision.verdict is Verdict.BLOCK or granted
    assert decision.label_after == request.taint


@given(requests(st.just(Hook.SESSION_RESET)))
def test_reset_is_confirmed(request: Request) -> None:
    """A reset needs a person's confirmation; an approval does not stand in for it."""
    unconfirmed = engine().decide(replace(request, confirmed=False), NOW)
    assert unconfirmed.verdict is Verdict.REQUIRE_APPROVAL
    assert unconfirmed.rules == ("reset_is_confirmed",)
    assert engine().decide(replace(request, confirmed=True), NOW).verdict is Verdict.ALLOW


@given(requests(), rule_sets())
def test_approval_never_lifts_a_block(request: Request, rules: tuple[Rule, ...]) -> None:
    """Approvals lift law `untrusted_cannot_command` and configured rules that ask for one, never a BLOCK."""
    one = engine(*rules)
    refused = one.decide(replace(request, approved=False), NOW)
    approved = one.decide(replace(request, approved=True), NOW)
    assert (refused.verdict is Verdict.BLOCK) == (approved.verdict is Verdict.BLOCK)
    asking = {outcome.rule for outcome in approved.outcomes if outcome.verdict is Verdict.REQUIRE_APPROVAL}
    assert asking <= {"reset_is_confirmed"}
