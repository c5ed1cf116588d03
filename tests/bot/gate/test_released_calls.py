"""The release of a whole call: when it is offered, what a yes is bound to, and that it runs once as it was shown."""

from dataclasses import replace
from datetime import date

import pytest
from pydantic import JsonValue

from bot.access.approvals import RELEASE, asking, may_answer
from bot.access.decision_context import DecisionContext
from bot.gate.calls import MAY_BE_LOST, UNSEEN
from bot.gate.results import CallDecision
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.sessions.consents.released_calls import LONGEST, CallRelease
from bot.sessions.log.events import DeferredResult
from bot.sessions.log.serialization import question_from, question_json
from bot.tools.base import Arguments, CallFacts
from policy.decision import Verdict
from policy.document.model import Document
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect
from tests.bot.kit import CONFIDENTIAL, GUEST, HOME, INTERNAL, NOW, Probe, call, document, gate, standing
from tests.people import principal

OWNER = principal("console:owner", may_release=True)
ANN = principal("console:ann", role="approver", clearance="INTERNAL", may_release=True)
SINK = CallRelease("the sink", PUBLIC)
FACTS = CallFacts(clearance=PUBLIC, releases_to=SINK.sink)
ARGUMENTS: dict[str, JsonValue] = {"text": "hello"}


def people(**changes: object) -> Document:
    """Return a policy whose owner may release, with some sections replaced."""
    return document(**{"principals": {"owner": OWNER}, **changes})


def sender(declared: CallFacts = FACTS, **changes: object) -> Probe:
    """Return a tool that sends its arguments to a public sink."""
    return Probe(declared=declared, effect=Effect.SEND, **changes)  # pyright: ignore[reportArgumentType] - as in the kit


def decided(
    here: DecisionContext,
    *approvals: Approval,
    probe: Probe | None = None,
    policy: Document | None = None,
    arguments: dict[str, JsonValue] | None = None,
    begun: bool = False,
) -> CallDecision:
    """Return a decision on a call of the probe."""
    made = gate([sender() if probe is None else probe], people() if policy is None else policy)
    return made.calls.prepare(
        here, call("probe", ARGUMENTS if arguments is None else arguments), approvals, begun=begun
    )


def approval(asked: CallDecision, **changes: object) -> Approval:
    """Return the owner's yes to a call."""
    rules = asking(asked.decision)
    given = Approval(
        id="a1",
        sid="s1",
        generation=1,
        turn="t1",
        call="c1",
        tool="probe",
        binding=asked.binding,
        label=asked.decision.label_before.join(asked.carried),
        principal="owner",
        question=ApprovalQuestion("probe", ARGUMENTS, rules=rules, withheld=asked.shown is None and bool(asked.open)),
        rules=rules,
        expires_at=NOW + 1,
        state=ApprovalState.APPROVED,
        resolved_by="owner",
    )
    return replace(given, **changes)  # pyright: ignore[reportArgumentType] - as in the kit


def test_a_call_above_its_sink_waits_for_a_release_and_runs_as_shown_once() -> None:
    here = standing(INTERNAL)
    asked = decided(here)
    assert (asked.decision.verdict, asking(asked.decision)) == (Verdict.REQUIRE_APPROVAL, (RELEASE,))
    assert (asked.release, asked.released, "released" in asked.audited) == (SINK, "", False)
    yes = approval(asked)
    let = decided(here, yes)
    assert (let.decision.verdict, let.use, let.released) == (Verdict.ALLOW, "a1", "owner")
    assert {name: let.audited[name] for name in ("released", "sink", "clearance")} == {
        "released": "owner",
        "sink": "the sink",
        "clearance": "PUBLIC",
    }
    assert "released by owner" in [outcome.message for outcome in let.decision.outcomes]
    # The same call in another step has another id.
    made = gate([sender()], people())
    again = made.calls.prepare(here, call("probe", ARGUMENTS, "c2"), (replace(yes, state=ApprovalState.USED),))
    assert again.decision.verdict is Verdict.REQUIRE_APPROVAL


def test_one_question_is_for_laws_2_and_9() -> None:
    here = standing(parse("INTERNAL~"))
    probe = sender(replace(FACTS, consequential=True))
    asked = decided(here, probe=probe)
    assert asking(asked.decision) == (RELEASE, "untrusted_cannot_command")
    assert decided(here, approval(asked), probe=probe).decision.verdict is Verdict.ALLOW
    one = approval(asked, rules=("untrusted_cannot_command",))
    assert decided(here, one, probe=probe).decision.verdict is Verdict.REQUIRE_APPROVAL


@pytest.mark.parametrize(
    "declared",
    [
        CallFacts(clearance=PUBLIC),
        CallFacts(releases_to="the sink"),
        replace(FACTS, says=(GUEST, "hello")),
        replace(FACTS, tells=GUEST),
    ],
    ids=["no tool of that kind", "unknown clearance", "a text", "a result told elsewhere"],
)
def test_other_calls_stay_blocked(declared: CallFacts) -> None:
    refused = decided(standing(INTERNAL), probe=sender(declared))
    assert refused.decision.verdict is Verdict.BLOCK
    assert RELEASE in refused.decision.rules
    assert refused.release is None


@pytest.mark.parametrize(
    "changes",
    [
        {"taint": CONFIDENTIAL},
        {"generation": 2},
        {"sid": "s2"},
        {"asker": "ann"},
        {"authors": frozenset({"console:guest"})},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_yes_is_bound_to_the_session_as_it_was(changes: dict[str, object]) -> None:
    policy = people(principals={"owner": OWNER, "ann": {**ANN, "clearance": "top"}})
    yes = approval(decided(standing(INTERNAL), policy=policy))
    here = standing(**{"taint": INTERNAL, **changes})  # pyright: ignore[reportArgumentType] - as in the kit
    assert decided(here, yes, policy=policy).decision.verdict is not Verdict.ALLOW


@pytest.mark.parametrize(
    "probe",
    [
        sender(replace(FACTS, releases_to="another sink")),
        sender(replace(FACTS, clearance=Label(PUBLIC.level, compartments=frozenset({"hr"})))),
        sender(description="now it does something else"),
        sender(name="other"),
    ],
    ids=["sink", "clearance", "declaration", "tool"],
)
def test_a_yes_is_bound_to_the_tool_and_its_sink(probe: Probe) -> None:
    policy = people(compartments=["hr"])
    yes = approval(decided(standing(INTERNAL), policy=policy))
    made = gate([probe], policy)
    assert made.calls.prepare(standing(INTERNAL), call(probe.name, ARGUMENTS), (yes,)).decision.verdict is not (
        Verdict.ALLOW
    )


def test_a_yes_is_bound_to_every_argument() -> None:
    here = standing(INTERNAL)
    yes = approval(decided(here))
    others: list[dict[str, JsonValue]] = [
        {"text": "hell\u043e"},
        {"text": "hello "},
        {**ARGUMENTS, "more": {}},
        {**ARGUMENTS, "_hold": True},
    ]
    for other in others:
        assert decided(here, yes, arguments=other).decision.verdict is Verdict.REQUIRE_APPROVAL


def test_what_cannot_be_shown_whole_is_not_offered() -> None:
    here = standing(INTERNAL)
    assert decided(here, arguments={"text": "x" * LONGEST}).decision.verdict is Verdict.BLOCK
    assert decided(here, arguments={"text": " " * (LONGEST // 5)}).decision.verdict is Verdict.BLOCK
    assert decided(here, arguments={"text": "\u202e" * (LONGEST // 5)}).decision.verdict is Verdict.BLOCK
    assert decided(here, arguments={"text": "x" * (LONGEST // 2)}).decision.verdict is Verdict.REQUIRE_APPROVAL


class _Day(Arguments):
    """A day, which a model may write in several ways."""

    day: date


def test_a_value_that_the_tool_would_write_otherwise_is_not_offered() -> None:
    probe = sender(arguments=_Day)
    for day, verdict in (("2030-01-02", Verdict.REQUIRE_APPROVAL), ("2030-01-02T00:00:00", Verdict.BLOCK)):
        assert decided(standing(INTERNAL), probe=probe, arguments={"day": day}).decision.verdict is verdict


def test_without_a_person_who_may_it_stays_blocked() -> None:
    here = standing(INTERNAL)
    refused = decided(here, policy=document())
    assert (refused.decision.verdict, refused.release) == (Verdict.BLOCK, None)
    assert refused.decision == decided(here, policy=document(), probe=sender(CallFacts(clearance=PUBLIC))).decision
    # Nobody who may release is cleared for it, or the place where it would be asked is not.
    low = {"owner": principal("console:owner"), "ann": ANN}
    assert decided(standing(CONFIDENTIAL), policy=people(principals=low)).decision.verdict is Verdict.BLOCK
    assert decided(standing(INTERNAL), policy=people(principals=low)).decision.verdict is Verdict.REQUIRE_APPROVAL
    away = replace(here, destination=Destination(str(HOME), "console", PUBLIC))
    assert decided(away).decision.verdict is Verdict.BLOCK


def test_the_right_counts_when_the_call_is_made() -> None:
    here = standing(INTERNAL)
    yes = approval(decided(here))
    assert decided(here, yes, policy=document()).decision.verdict is Verdict.BLOCK
    assert decided(here, replace(yes, resolved_by="ann")).decision.verdict is Verdict.REQUIRE_APPROVAL
    late = replace(yes, expires_at=NOW)
    assert decided(here, late).decision.verdict is Verdict.REQUIRE_APPROVAL


def test_who_may_answer() -> None:
    policy = people(
        principals={
            "owner": OWNER,
            "ann": ANN,
            "bob": principal("console:bob", role="approver", clearance="INTERNAL"),
            "mel": principal("console:mel", role="member", clearance="INTERNAL", may_release=True),
        }
    )
    asked = approval(decided(standing(INTERNAL), policy=policy))
    told = {name: may_answer(policy, asked, name) for name in ("owner", "ann", "bob", "mel", "nobody")}
    assert told == {"owner": True, "ann": True, "bob": False, "mel": False, "nobody": False}
    assert not may_answer(policy, replace(asked, label=CONFIDENTIAL), "ann")
    theirs = replace(asked, question=replace(asked.question, authors=("console:ann",)))
    assert not may_answer(policy, theirs, "ann")
    assert may_answer(policy, replace(theirs, principal="ann"), "ann")


def test_rules_stay_in_force() -> None:
    here = standing(INTERNAL)
    for action in ("BLOCK", "REDACT"):
        rule = {"id": "no-hello", "hook": "PRE_TOOL_CALL", "pattern": "hi", "action": action}
        stops = people(patterns={"hi": "hello"}, rules=[rule])
        assert decided(here, policy=stops).decision.verdict is Verdict.BLOCK
        assert decided(here, approval(decided(here)), policy=stops).decision.verdict is Verdict.BLOCK
    asks = {"rules": [{"id": "look", "hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL"}]}
    # The rule wants another person than the asker.
    assert decided(here, policy=people(**asks)).decision.verdict is Verdict.BLOCK
    two = people(**asks, principals={"owner": OWNER, "ann": {**ANN, "role": "admin"}})
    asked = decided(here, policy=two)
    assert asking(asked.decision) == (RELEASE, "look")
    assert decided(here, approval(asked, resolved_by="ann"), policy=two).decision.verdict is Verdict.ALLOW
    assert decided(here, approval(asked), policy=two).decision.verdict is Verdict.REQUIRE_APPROVAL


def test_no_other_law_is_lifted() -> None:
    above = sender(replace(FACTS, result=CONFIDENTIAL))
    refused = decided(standing(INTERNAL, ceiling=INTERNAL), probe=above)
    assert refused.decision.verdict is Verdict.BLOCK
    assert refused.decision.rules == ("no_write_down", "read_is_decided_before_it_happens")


@pytest.mark.parametrize("consequential", [True, False])
def test_a_call_in_doubt_is_not_asked_about_and_not_repeated(*, consequential: bool) -> None:
    here, probe = standing(INTERNAL), sender(replace(FACTS, consequential=consequential))
    yes = approval(decided(here, probe=probe))
    for given in ((), (yes,), (replace(yes, state=ApprovalState.USED),)):
        again = decided(here, *given, probe=probe, begun=True)
        assert (again.in_doubt, again.asks_again, again.repeatable) == (True, False, False)
    assert decided(here, yes, probe=probe, begun=True, policy=document()).decision.verdict is Verdict.BLOCK


def test_nothing_is_released_where_events_were_lost() -> None:
    lost = standing(INTERNAL, truncated=True)
    yes = approval(decided(standing(INTERNAL)))
    assert decided(lost, yes).decision.verdict is Verdict.BLOCK
    assert decided(lost, begun=True).in_doubt
    held = decided(lost, probe=sender(replace(FACTS, consequential=True)), arguments={**ARGUMENTS, "_hold": True})
    assert [one.message for one in held.decision.outcomes if one.rule == "fails_closed"] == [MAY_BE_LOST]


def _holding(text: str, label: Label, floor: Label, taint: Label) -> DecisionContext:
    return standing(taint, held=(DeferredResult("held-a", text, label, floor),))


REFERS: dict[str, JsonValue] = {"text": {"$ref": "held-a"}}


def test_a_reference_is_released_with_its_text_shown() -> None:
    here = _holding("the text", INTERNAL, INTERNAL, PUBLIC)
    asked = decided(here, arguments=REFERS)
    assert asking(asked.decision) == (RELEASE,)
    assert asked.shown == {"text": {"$ref": "held-a", "label": "INTERNAL", "holds": "the text"}}
    let = decided(here, approval(asked), arguments=REFERS)
    assert (let.decision.verdict, let.concealed, let.released) == (Verdict.ALLOW, False, "owner")
    other = _holding("another text", INTERNAL, INTERNAL, PUBLIC)
    assert decided(other, approval(asked), arguments=REFERS).decision.verdict is Verdict.REQUIRE_APPROVAL


@pytest.mark.parametrize("text", ["short", "x" * LONGEST])
def test_the_length_of_a_referenced_text_does_not_show(text: str) -> None:
    here = _holding(text, INTERNAL, INTERNAL, INTERNAL)
    asked = decided(here, arguments=REFERS)
    assert (asked.decision.verdict, asked.concealed) == (Verdict.REQUIRE_APPROVAL, False)
    let = decided(here, approval(asked), arguments=REFERS)
    assert let.told.verdict is Verdict.ALLOW
    if text == "short":
        assert let.decision.verdict is Verdict.ALLOW
    else:
        assert let.decision.outcomes[-1].message == UNSEEN


@pytest.mark.parametrize("label", [PUBLIC, INTERNAL, CONFIDENTIAL])
def test_a_text_that_turned_out_higher_is_told_by_nothing(label: Label) -> None:
    """Openly the call flows, so no person is asked: to ask would tell of the text."""
    here = _holding("the text", label, PUBLIC, PUBLIC)
    let = decided(here, arguments=REFERS)
    assert (let.told.verdict, let.hold) == (Verdict.ALLOW, True)
    assert (let.decision.verdict is Verdict.ALLOW) == (label == PUBLIC)
    assert let.release is None


@pytest.mark.anyio
async def test_simulate_tells_the_same() -> None:
    for policy in (people(), document()):
        made = gate([sender()], policy)
        real = made.calls.prepare(standing(INTERNAL), call("probe", ARGUMENTS))
        told = await made.calls.simulate(standing(INTERNAL), "probe", ARGUMENTS, INTERNAL)
        assert (told["verdict"], told["remedies"] != []) == (real.decision.verdict.name, True)


def test_a_question_about_a_release_is_stored_whole() -> None:
    question = ApprovalQuestion("probe", ARGUMENTS, rules=(RELEASE,), release=CallRelease("the sink", INTERNAL))
    assert question_from(question_json(question)) == question
    assert "release" not in question_json(replace(question, release=None))
