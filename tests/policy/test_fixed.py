"""Each fixed rule is listed under the hooks it judges, under a name that no configured rule may take."""

from dataclasses import replace

import pytest

from policy.decision import Remedy, RuleOutcome, Verdict
from policy.fixed import LAWS, NAMES
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Hook, Others, Request, Role, RunState, ToolFacts
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
_OTHERS = "others_cannot_command"
_HEARD = replace(BASE, others=Others(parse("INTERNAL"), frozenset({Role.MEMBER})))
_STANDING = ToolFacts("runs_start", Effect.WRITE, PUBLIC, TOP, asks=True)
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
            "the text of this reference is above the clearance of the tool's destination",
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


def test_integrity_alone_stops_no_flow() -> None:
    there = Destination("console:guest", "console", PUBLIC)
    output = replace(BASE, hook=Hook.PRE_OUTPUT, taint=parse("PUBLIC~"), destination=there)
    assert engine().decide(output, NOW).rules == ()
