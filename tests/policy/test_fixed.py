"""Each fixed rule is listed under the hooks it judges, under a name that no configured rule may take."""

from dataclasses import replace

import pytest

from policy.decision import Remedy, RuleOutcome, Verdict
from policy.fixed import LAWS, NAMES
from policy.labels import PUBLIC, Label, parse
from policy.request import (
    ArgumentRole,
    Destination,
    Effect,
    Hook,
    Others,
    Request,
    Role,
    RunState,
    SteeredRole,
    TakenEntry,
    ToolFacts,
    UntrustedContent,
)
from tests.policy.strategies import NOW, TOP, engine

CONFIDENTIAL = parse("CONFIDENTIAL")
BASE = Request(Hook.PRE_TOOL_CALL, "owner", Role.OWNER, "console", CONFIDENTIAL, TOP, TOP, TOP)


def test_every_hook_is_judged_and_every_name_is_taken() -> None:
    assert set(LAWS) == set(Hook)
    request = replace(BASE, tool=ToolFacts("message", Effect.SEND, PUBLIC))
    heard = {law(request, PUBLIC, PUBLIC).rule for _, laws in LAWS.values() for law in laws}
    assert heard | {"fails_closed"} == NAMES


_UNKNOWN = "unknown_is_worst"
_DOWN = "no_write_down"
_READ = "read_is_decided_before_it_happens"
_COMMAND = "untrusted_cannot_command"
_READING = ToolFacts("read_file", Effect.READ, CONFIDENTIAL)
_SENDING = ToolFacts("message", Effect.SEND, PUBLIC, TOP, consequential=True)
_OUT = replace(BASE, hook=Hook.PRE_OUTPUT)
_UNTRUSTED = replace(BASE, taint=parse("PUBLIC~"), tool=_SENDING)
_SERVED = replace(_SENDING, name="mail__send", server="mail")
_ALLOWED = replace(_SERVED, untrusted_content=UntrustedContent.ALLOW)
_SENDING_ASKED = replace(_SENDING, untrusted_content=UntrustedContent.ASK)
_PASSING_ON = replace(BASE, taint=PUBLIC, tool=_SERVED, carried=parse("PUBLIC~"), quotes=True)
_BY_ANYBODY = "anybody may have written the text of this reference"
_OTHERS = "others_cannot_command"
_HEARD = replace(BASE, others=Others(parse("INTERNAL"), frozenset({Role.MEMBER})))
_STANDING = ToolFacts("runs_start", Effect.WRITE, PUBLIC, TOP, asks=True)
_SHOWING = ToolFacts("inspect", Effect.READ, PUBLIC, shows=True)
_RAISING = ToolFacts("inspect", Effect.READ, PUBLIC, raises=CONFIDENTIAL)
_ADMINS = ToolFacts("x", Effect.READ, PUBLIC, roles=frozenset({Role.ADMIN}))

_BEGUN, _NEW, _OVER, _OPEN = (
    RunState(initialized=True),
    RunState(initialized=False),
    RunState(initialized=True, stopped=True),
    RunState(initialized=True, paused=True),
)
_FIRST, _STATE = (ToolFacts(name, Effect.NONE, PUBLIC) for name in ("session_initialize", "session_get_state"))
_NOT_YET = "this run is not initialized; call `session_initialize` first, in its own step"
_NO_MORE = "this run was stopped, so it calls no more tools"
_OUT_OF_ORDER = (
    (_NEW, _READING, _NOT_YET),
    (_NEW, replace(_FIRST, server="notes"), _NOT_YET),
    (_NEW, replace(_STATE, server="notes"), _NOT_YET),
    (_OVER, _READING, _NO_MORE),
    (_OVER, _FIRST, _NO_MORE),
    (_OPEN, _READING, "this run is paused after too many failures, so it calls no tools now"),
)
_IN_ORDER = ((_BEGUN, _READING), (_NEW, _FIRST), (_NEW, _STATE), (_OVER, _STATE), (_OPEN, _STATE), (None, _READING))


@pytest.mark.parametrize(
    "request_, rule, verdict, message, remedies",
    [
        (BASE, _UNKNOWN, Verdict.BLOCK, "this tool is not known", set[Remedy]()),
        (
            replace(BASE, tool=ToolFacts("x", Effect.READ, None)),
            _UNKNOWN,
            Verdict.BLOCK,
            "this tool declares no label for its result",
            {Remedy.DECLARE_TOOL},
        ),
        (_OUT, _UNKNOWN, Verdict.BLOCK, "the destination is not known", {Remedy.OTHER_DESTINATION}),
        (
            _OUT,
            _DOWN,
            Verdict.BLOCK,
            "this holds more than its readers may know",
            {
                Remedy.PRIVATE_CHAT,
                Remedy.OTHER_DESTINATION,
                Remedy.CLASSIFY_LOWER,
                Remedy.VOUCH,
                Remedy.RECLASSIFY,
                Remedy.CLEAR_READER,
            },
        ),
        (
            replace(BASE, tool=ToolFacts("message", Effect.SEND, PUBLIC)),
            _DOWN,
            Verdict.BLOCK,
            "this session has read more than may be known where the tool writes or sends",
            {Remedy.OTHER_DESTINATION, Remedy.VOUCH, Remedy.RECLASSIFY, Remedy.CLEAR_READER, Remedy.RELEASE},
        ),
        (
            replace(BASE, taint=PUBLIC, tool=ToolFacts("message", Effect.SEND, PUBLIC), carried=CONFIDENTIAL),
            _DOWN,
            Verdict.BLOCK,
            "the text or answer that this call refers to is above the clearance of its destination",
            {Remedy.OTHER_DESTINATION, Remedy.VOUCH, Remedy.RECLASSIFY, Remedy.CLEAR_READER},
        ),
        (
            replace(BASE, tool=_READING, ceiling=PUBLIC),
            _READ,
            Verdict.BLOCK,
            "this session would know more than the person it acts for may",
            {Remedy.RECLASSIFY},
        ),
        (
            replace(BASE, tool=_READING, provider=PUBLIC),
            _READ,
            Verdict.BLOCK,
            "this session would know more than its model provider may",
            {Remedy.OTHER_MODEL, Remedy.RECLASSIFY},
        ),
        (
            replace(BASE, taint=PUBLIC, tool=_SHOWING, held=True, carried=CONFIDENTIAL, provider=parse("INTERNAL")),
            _READ,
            Verdict.BLOCK,
            "this would show a model more than its provider may know",
            {Remedy.OTHER_MODEL, Remedy.RECLASSIFY},
        ),
        (
            replace(BASE, tool=_READING, home=PUBLIC, overshoot="block"),
            "overshoot",
            Verdict.BLOCK,
            "after reading this the session could not answer here",
            {Remedy.RECLASSIFY, Remedy.VOUCH},
        ),
        (
            replace(BASE, tool=_READING, home=PUBLIC, overshoot="ask"),
            "overshoot",
            Verdict.BLOCK,
            "after reading this the session could not answer here",
            {Remedy.PRIVATE_CHAT, Remedy.RECLASSIFY, Remedy.VOUCH},
        ),
        (
            _UNTRUSTED,
            _COMMAND,
            Verdict.REQUIRE_APPROVAL,
            "this session has read something that anybody may have written",
            {Remedy.APPROVER},
        ),
        (replace(_UNTRUSTED, approved=True), _COMMAND, Verdict.ALLOW, "approved", set[Remedy]()),
        (_PASSING_ON, _COMMAND, Verdict.REQUIRE_APPROVAL, _BY_ANYBODY, {Remedy.APPROVER}),
        (
            replace(_PASSING_ON, tool=_SENDING_ASKED),
            _COMMAND,
            Verdict.REQUIRE_APPROVAL,
            _BY_ANYBODY,
            {Remedy.APPROVER},
        ),
        (replace(_PASSING_ON, approved=True), _COMMAND, Verdict.ALLOW, "approved", set[Remedy]()),
        (replace(_PASSING_ON, quotes=False), _COMMAND, Verdict.ALLOW, "", set[Remedy]()),
        (replace(_PASSING_ON, carried=PUBLIC), _COMMAND, Verdict.ALLOW, "", set[Remedy]()),
        (replace(_PASSING_ON, tool=_SENDING), _COMMAND, Verdict.ALLOW, "", set[Remedy]()),
        (replace(_PASSING_ON, tool=_ALLOWED), _COMMAND, Verdict.ALLOW, "", set[Remedy]()),
        *(
            (
                replace(BASE, tool=_SENDING, steered=(SteeredRole(ArgumentRole.TIME, outside=False), outside)),
                "endorsed_cannot_steer",
                Verdict.REQUIRE_APPROVAL,
                f"a bounded answer from data that nobody vouches for was heard, and {words}",
                {Remedy.APPROVER, Remedy.BOUND_TOOL},
            )
            for outside, words in (
                (SteeredRole(ArgumentRole.AMOUNT, outside=True), "its amount is not within a bound of the operator"),
                (SteeredRole(None, outside=True), "an argument without a role steers this call"),
            )
        ),
        *(
            (
                replace(BASE, tool=_SENDING, entry=entry, approved=approved),
                "endorsed_cannot_steer",
                verdict,
                told,
                remedies,
            )
            for entry, approved, verdict, told, remedies in (
                (TakenEntry.BOUND, False, Verdict.ALLOW, "", set[Remedy]()),
                (
                    TakenEntry.HEARD,
                    False,
                    Verdict.REQUIRE_APPROVAL,
                    "an entry of a held list may depend on a bounded answer from data that nobody vouches for",
                    {Remedy.APPROVER},
                ),
                (
                    TakenEntry.UNBOUND,
                    False,
                    Verdict.REQUIRE_APPROVAL,
                    "an entry of a held list would steer this call, and no bound of the operator names it",
                    {Remedy.APPROVER, Remedy.BOUND_ENTRY},
                ),
                (TakenEntry.UNBOUND, True, Verdict.ALLOW, "approved", set[Remedy]()),
            )
        ),
        (
            replace(BASE, tool=_SENDING, steered=(SteeredRole(None, outside=True),), approved=True),
            "endorsed_cannot_steer",
            Verdict.ALLOW,
            "approved",
            set[Remedy](),
        ),
        (
            replace(_HEARD, tool=_SENDING),
            _OTHERS,
            Verdict.REQUIRE_APPROVAL,
            "this conversation holds words of other people than the asker",
            {Remedy.APPROVER, Remedy.ALONE},
        ),
        (replace(_HEARD, tool=_SENDING, approved=True), _OTHERS, Verdict.ALLOW, "approved", set[Remedy]()),
        (
            replace(_HEARD, tool=_READING),
            _OTHERS,
            Verdict.REQUIRE_APPROVAL,
            "this conversation holds words of people who may not know this",
            {Remedy.APPROVER, Remedy.ALONE},
        ),
        (replace(_HEARD, tool=replace(_READING, result=None)), _OTHERS, Verdict.ALLOW, "", set[Remedy]()),
        (replace(_HEARD, tool=replace(_READING, effect=Effect.NONE)), _OTHERS, Verdict.ALLOW, "", set[Remedy]()),
        (
            replace(_HEARD, tool=replace(_READING, effect=Effect.NONE, server="notes")),
            _OTHERS,
            Verdict.REQUIRE_APPROVAL,
            "this conversation holds words of people who may not know this",
            {Remedy.APPROVER, Remedy.ALONE},
        ),
        (
            replace(_HEARD, tool=_ADMINS, asker_role=Role.ADMIN),
            _OTHERS,
            Verdict.REQUIRE_APPROVAL,
            "this conversation holds words of people who may not use this tool",
            {Remedy.APPROVER, Remedy.ALONE},
        ),
        (
            replace(_HEARD, tool=replace(_ADMINS, roles=frozenset({Role.MEMBER}))),
            _OTHERS,
            Verdict.ALLOW,
            "",
            set[Remedy](),
        ),
        (
            replace(_HEARD, hook=Hook.POST_TOOL_RESPONSE, tool=_READING, item=CONFIDENTIAL),
            _OTHERS,
            Verdict.BLOCK,
            "this conversation holds words of people who may not know what was found",
            {Remedy.ALONE},
        ),
        (
            replace(BASE, taint=PUBLIC, tool=_STANDING),
            "standing_work_is_approved",
            Verdict.REQUIRE_APPROVAL,
            "this begins work that goes on after this turn, so a person decides",
            {Remedy.APPROVER},
        ),
        (
            replace(BASE, taint=PUBLIC, tool=_STANDING, approved=True),
            "standing_work_is_approved",
            Verdict.ALLOW,
            "approved",
            set[Remedy](),
        ),
        (
            replace(BASE, tool=_ADMINS, asker_role=Role.MEMBER),
            "tool_is_for_the_role",
            Verdict.BLOCK,
            "this tool is for other roles",
            {Remedy.GRANT_TOOL},
        ),
        (replace(BASE, tool=_ADMINS, asker_role=Role.ADMIN), "tool_is_for_the_role", Verdict.ALLOW, "", set[Remedy]()),
        *(
            (replace(BASE, run=run, tool=tool), "run_is_initialized", Verdict.BLOCK, why, set[Remedy]())
            for run, tool, why in _OUT_OF_ORDER
        ),
        *(
            (replace(BASE, run=run, tool=tool), "run_is_initialized", Verdict.ALLOW, "", set[Remedy]())
            for run, tool in _IN_ORDER
        ),
        (
            replace(BASE, hook=Hook.SESSION_RESET),
            "reset_is_confirmed",
            Verdict.REQUIRE_APPROVAL,
            "a reset forgets this conversation and its workspace",
            {Remedy.CONFIRM},
        ),
    ],
)
def test_what_a_fixed_rule_says(
    request_: Request, rule: str, verdict: Verdict, message: str, remedies: set[Remedy]
) -> None:
    heard = {outcome.rule: outcome for outcome in engine().decide(request_, NOW).outcomes}
    assert heard[rule] == RuleOutcome(rule, verdict, fixed=True, message=message, remedies=heard[rule].remedies)
    assert set(heard[rule].remedies) == remedies


def test_a_fixed_rule_that_allows_says_nothing() -> None:
    reading = replace(BASE, tool=_READING)
    speaking = replace(_OUT, destination=Destination("console:ann", "console", TOP))
    resetting = replace(BASE, hook=Hook.SESSION_RESET, confirmed=True)
    for request in (reading, speaking, resetting):
        outcomes = engine().decide(request, NOW).outcomes
        assert outcomes == tuple(RuleOutcome(one.rule, Verdict.ALLOW, fixed=True) for one in outcomes)


@pytest.mark.parametrize(
    "effect, clearance, rules",
    [
        (Effect.NONE, None, ()),
        (Effect.READ, None, ()),
        (Effect.READ, PUBLIC, ("no_write_down",)),
        (Effect.WRITE, None, ("no_write_down",)),
        (Effect.SEND, None, ("no_write_down",)),
        (Effect.SEND, CONFIDENTIAL, ()),
    ],
)
def test_a_sink_is_what_writes_or_sends_or_has_a_clearance(
    effect: Effect, clearance: Label | None, rules: tuple[str, ...]
) -> None:
    call = replace(BASE, tool=ToolFacts("message", effect, PUBLIC, clearance))
    assert engine().decide(call, NOW).rules == rules


def test_the_destination_is_a_sink_of_what_sends() -> None:
    there = Destination("console:guest", "console", PUBLIC)
    call = replace(BASE, tool=ToolFacts("message", Effect.SEND, PUBLIC, TOP), destination=there)
    assert engine().decide(call, NOW).rules == ("no_write_down",)
    assert engine().decide(replace(call, destination=replace(there, clearance=CONFIDENTIAL)), NOW).rules == ()
    assert engine().decide(replace(call, tool=ToolFacts("read_file", Effect.READ, PUBLIC)), NOW).rules == ()


def test_a_call_to_its_tools_own_sink_waits_for_a_release() -> None:
    call = replace(BASE, tool=ToolFacts("web_fetch", Effect.SEND, PUBLIC, PUBLIC), releasable=True)
    waits = engine().decide(call, NOW)
    assert (waits.verdict, waits.rules, waits.remedies) == (
        Verdict.REQUIRE_APPROVAL,
        (_DOWN,),
        (Remedy.RESET, Remedy.APPROVER),
    )
    assert engine().decide(replace(call, approved=True), NOW).verdict is Verdict.REQUIRE_APPROVAL
    released = engine().decide(replace(call, released="ann"), NOW)
    assert (released.verdict, released.outcomes[3].message) == (Verdict.ALLOW, "released by ann")
    assert engine().decide(replace(call, releasable=False, released="ann"), NOW).verdict is Verdict.BLOCK


def test_a_release_takes_what_a_call_refers_to_along() -> None:
    call = replace(BASE, tool=ToolFacts("web_fetch", Effect.SEND, PUBLIC, PUBLIC), taint=PUBLIC, carried=CONFIDENTIAL)
    assert engine().decide(replace(call, releasable=True), NOW).verdict is Verdict.REQUIRE_APPROVAL
    assert engine().decide(replace(call, releasable=True, released="ann"), NOW).verdict is Verdict.ALLOW


@pytest.mark.parametrize("released", ["", "ann"])
def test_no_release_to_an_unknown_sink_or_to_another_destination(released: str) -> None:
    call = replace(BASE, tool=ToolFacts("web_fetch", Effect.SEND, PUBLIC, None), releasable=True, released=released)
    assert engine().decide(call, NOW).verdict is Verdict.BLOCK
    there = Destination("console:guest", "console", PUBLIC)
    for sink in (PUBLIC, TOP):
        sends = replace(call, tool=ToolFacts("web_fetch", Effect.SEND, PUBLIC, sink), destination=there)
        assert engine().decide(sends, NOW).verdict is Verdict.BLOCK


def test_a_release_lifts_no_other_law() -> None:
    call = replace(BASE, tool=ToolFacts("web_fetch", Effect.SEND, TOP, PUBLIC), releasable=True, released="ann")
    blocked = engine().decide(replace(call, ceiling=CONFIDENTIAL), NOW)
    assert blocked.rules == ("read_is_decided_before_it_happens",)
    assert engine().decide(replace(call, tool=ToolFacts("web_fetch", Effect.SEND, None, PUBLIC)), NOW).rules == (
        "unknown_is_worst",
    )


def test_integrity_alone_stops_no_flow() -> None:
    there = Destination("console:guest", "console", PUBLIC)
    output = replace(BASE, hook=Hook.PRE_OUTPUT, taint=parse("PUBLIC~"), destination=there)
    assert engine().decide(output, NOW).rules == ()


@pytest.mark.parametrize("held", [True, False])
def test_a_declared_raise_counts_with_any_result(*, held: bool) -> None:
    request = replace(BASE, taint=PUBLIC, tool=_RAISING, held=held)
    assert engine().decide(request, NOW).label_after == CONFIDENTIAL
    for limit in ("ceiling", "provider"):
        refused = engine().decide(replace(request, **{limit: PUBLIC}), NOW)
        assert (refused.verdict, refused.rules, refused.label_after) == (Verdict.BLOCK, (_READ,), PUBLIC)
    shy = engine().decide(replace(request, home=PUBLIC, overshoot="block"), NOW)
    assert shy.rules == ("overshoot",)
    among = replace(request, others=Others(parse("INTERNAL"), frozenset({Role.MEMBER})))
    assert engine().decide(among, NOW).rules == (_OTHERS,)


def test_what_a_call_shows_a_model_may_be_as_high_as_its_provider() -> None:
    request = replace(BASE, taint=PUBLIC, tool=_SHOWING, held=True, carried=CONFIDENTIAL, provider=CONFIDENTIAL)
    assert engine().decide(request, NOW).verdict is Verdict.ALLOW
    unshown = replace(request, tool=replace(_SHOWING, shows=False), provider=PUBLIC)
    assert engine().decide(unshown, NOW).verdict is Verdict.ALLOW


def test_of_a_spared_result_the_level_enters_and_not_the_integrity() -> None:
    tool = ToolFacts("find", Effect.READ, parse("CONFIDENTIAL~"), spared=True)
    decision = engine().decide(replace(BASE, taint=PUBLIC, tool=tool), NOW)
    assert (decision.verdict, decision.label_after) == (Verdict.ALLOW, CONFIDENTIAL)
    carrying = replace(BASE, taint=PUBLIC, tool=replace(tool, result=PUBLIC), carried=parse("INTERNAL~"))
    assert engine().decide(carrying, NOW).label_after == parse("INTERNAL")
    assert engine().decide(replace(BASE, taint=parse("PUBLIC~"), tool=tool), NOW).label_after == parse("CONFIDENTIAL~")
    assert engine().decide(replace(BASE, taint=PUBLIC, tool=tool, held=True), NOW).label_after == PUBLIC
    above = replace(BASE, taint=PUBLIC, tool=tool, ceiling=parse("INTERNAL"))
    assert engine().decide(above, NOW).rules == ("read_is_decided_before_it_happens",)
