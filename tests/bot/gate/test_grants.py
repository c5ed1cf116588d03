"""The scope of a grant, and which calls a grant covers."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.gate.calls import UNASKED
from bot.gate.grants import LONGEST_WORST, MOST_OPEN, point
from bot.gate.results import ended_rows
from bot.sessions.approvals import FOR_EVER, ApprovalQuestion, ApprovalState
from bot.sessions.consents.grants import EndedGrant, Grant, GrantEnd, GrantUse
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.tools.base import Result, ToolContext, ToolServices
from bot.tools.message import Message
from channels.messages import Address
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, parse
from policy.request import Hook
from tests.bot.granting import ASKED, FACTS, Pay, PayArguments, granted, having, pay
from tests.bot.kit import DIRTY, NOW, document, gate, send, standing
from tests.people import principal

pytestmark = pytest.mark.anyio

ASKS = Verdict.REQUIRE_APPROVAL
GATE = gate([Pay()])


# --- what is offered --------------------------------------------------------------------------------


def test_a_question_states_the_worst_call_of_a_longer_answer() -> None:
    scope = GATE.calls.prepare(standing(DIRTY), pay()).scope
    assert scope is not None
    assert scope.worst == (
        'up to 10 calls of `pay`, to `"ann"`, `amount` from 0 to 100, any file of `"bills/"` in `file`, any words, by '
        "any author, in `text`; all else exactly as shown; at `PUBLIC~` at most"
    ), scope.worst
    assert (scope.rules, scope.uses, scope.label) == (("untrusted_cannot_command",), 10, DIRTY)


def test_the_worst_call_of_fixed_arguments_is_the_shown_one() -> None:
    scope = GATE.calls.prepare(standing(DIRTY), pay(to=None, amount=None, file="x", text=None)).scope
    assert scope is not None
    assert "up to 10 calls of `pay`, each with exactly the shown arguments;" in scope.worst


def test_a_name_that_the_caller_chose_is_quoted() -> None:
    lines: list[JsonValue] = [{"`x`; nothing": 1}]
    scope = GATE.calls.prepare(standing(DIRTY), pay(lines=lines)).scope
    assert scope is not None
    assert '``"lines[0].`x`; nothing"`` from 0 to 1' in scope.worst


@pytest.mark.parametrize(
    "taint, changes",
    [
        pytest.param("PUBLIC", {}, id="nothing asks"),
        pytest.param("PUBLIC~", {"to": "a" * LONGEST_WORST}, id="too long to read"),
        pytest.param("PUBLIC~", {"lines": [{str(n): n} for n in range(MOST_OPEN)]}, id="too much to read"),
    ],
)
def test_no_scope_is_offered(taint: str, changes: dict[str, JsonValue]) -> None:
    assert GATE.calls.prepare(standing(parse(taint)), Call("c2", "pay", {**ASKED, **changes})).scope is None


def test_a_background_session_is_answered_call_by_call() -> None:
    asked = GATE.calls.prepare(standing(DIRTY, home=Address("session", "parent")), pay())
    assert asked.decision.verdict is ASKS
    assert asked.scope is None


def test_a_call_whose_outcome_is_unknown_is_answered_once() -> None:
    asked = gate([Pay(repeatable=False)]).calls.prepare(standing(DIRTY), pay(), begun=True)
    assert asked.decision.verdict is ASKS
    assert asked.scope is None


def test_work_beyond_its_turn_is_approved_each_time() -> None:
    asked = gate([Pay(replace(FACTS, asks=True))]).calls.prepare(standing(DIRTY), pay())
    assert "standing_work_is_approved" in {one.rule for one in asked.decision.outcomes if one.verdict is ASKS}
    assert asked.scope is None


@pytest.mark.parametrize("may", [True, False])
def test_a_configured_rule_has_to_say_that_it_may_be_granted(may: bool) -> None:  # noqa: FBT001 - a parameter
    asks = {
        "id": "look",
        "hook": "PRE_TOOL_CALL",
        "action": "REQUIRE_APPROVAL",
        "tools": ["*"],
        "may_be_granted": may,
    }
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="admin", clearance="top")}
    policy = document(rules=[asks], principals=people)
    keeper, without = gate([Pay()], policy), gate([Pay()], document(principals=people))
    asked = keeper.calls.prepare(standing(), pay())
    assert (asked.scope is not None) is may
    if asked.scope is None:
        return
    grant = granted(keeper, here=standing(), by="ada")
    assert keeper.calls.prepare(having(grant, here=standing()), pay()).decision.verdict is Verdict.ALLOW
    own = granted(keeper, here=standing(), by="owner")
    assert keeper.calls.prepare(having(own, here=standing()), pay()).decision.verdict is ASKS
    later = gate([Pay()], document(rules=[{**asks, "may_be_granted": False}], principals=people))
    assert later.calls.prepare(having(grant, here=standing()), pay()).decision.verdict is ASKS
    # The rule is there, the law is not lifted with it: the question told of another rule.
    assert keeper.calls.prepare(having(grant, here=standing(DIRTY)), pay()).decision.verdict is ASKS
    assert without.calls.prepare(having(grant, here=standing(DIRTY)), pay()).decision.verdict is ASKS


# --- what is covered --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, covered",
    [
        pytest.param({}, True, id="the shown call"),
        pytest.param({"text": "words of a stranger"}, True, id="any words"),
        pytest.param({"text": None}, False, id="no words"),
        pytest.param({"amount": 0}, True, id="nothing at all"),
        pytest.param({"amount": 99.5}, True, id="less"),
        pytest.param({"amount": 101}, False, id="more"),
        pytest.param({"amount": 10**400}, False, id="more than a float"),
        pytest.param({"amount": -1}, False, id="below nothing"),
        pytest.param({"amount": None}, False, id="no amount"),
        pytest.param({"file": "bills/june.pdf"}, True, id="another file of the folder"),
        pytest.param({"file": "bills/old/may.pdf"}, False, id="a folder below"),
        pytest.param({"file": "bills/../secret/x"}, False, id="a way out of the folder"),
        pytest.param({"file": "bills"}, False, id="the folder itself"),
        pytest.param({"file": ""}, False, id="no file"),
        pytest.param({"to": "bob"}, False, id="another recipient"),
        pytest.param({"plain": "usd"}, False, id="another value without a role"),
        pytest.param({"plain": None}, False, id="a value left out"),
        pytest.param({"lines": [{"x": 1}]}, False, id="a value more"),
    ],
)
def test_a_grant_covers_its_scope_and_nothing_else(changes: dict[str, JsonValue], covered: bool) -> None:  # noqa: FBT001 - a parameter
    given = {**ASKED, **changes}
    call = replace(pay(), arguments={key: value for key, value in given.items() if value is not None})
    made = GATE.calls.prepare(having(granted(GATE)), call)
    assert made.decision.verdict is (Verdict.ALLOW if covered else ASKS)
    assert made.grant == (GrantUse("g1", "c2") if covered else None)
    assert made.use is None


def test_a_grant_is_a_bound_that_a_person_gave() -> None:
    here = standing(endorsed=(Endorsed("s1", '{"amount": 12}', "r1", 4_000),))
    given = granted(GATE, here=here)
    assert given.rules == ("endorsed_cannot_steer",)
    covered = GATE.calls.prepare(having(given, here=here), pay(amount=12))
    assert (covered.decision.verdict, covered.grant) == (Verdict.ALLOW, GrantUse("g1", "c2"))
    assert GATE.calls.prepare(having(given, here=here), pay(amount=101)).decision.verdict is ASKS


@pytest.mark.parametrize("folder", ["x/..", "./x", "x/.", "x/", "", "x\\y", "x\x00"])
def test_a_folder_that_is_not_written_plainly_is_fixed_to_its_file(folder: str) -> None:
    one, two = (point(Pay(), PayArguments(file=f"{folder}/{name}"), FACTS, ()).shape for name in "ab")
    assert one != two


def test_a_tool_of_a_server_has_exact_paths() -> None:
    def shape(server: str, file: str) -> str:
        return point(Pay(server=server), PayArguments(file=file), FACTS, ()).shape

    assert shape("", "bills/may.pdf") == shape("", "bills/june.pdf")
    assert shape("bank", "bills/may.pdf") == shape("bank", "bills/may.pdf")
    assert shape("bank", "bills/may.pdf") != shape("bank", "bills/june.pdf")


def test_a_value_that_is_left_out_is_no_null_for_a_server() -> None:
    """Null may clear a field that stays as it is if nothing is given, and the server gets what was given."""

    def shape(server: str, given: PayArguments) -> str:
        return point(Pay(server=server), given, FACTS, ()).shape

    assert shape("bank", PayArguments(to="ann")) != shape("bank", PayArguments(to="ann", plain=None))
    assert shape("", PayArguments(to="ann")) == shape("", PayArguments(to="ann", plain=None))


@pytest.mark.parametrize(
    "here",
    [
        pytest.param(standing(parse("INTERNAL~")), id="a higher level"),
        pytest.param(standing(parse("PUBLIC{hr}~")), id="a compartment more"),
        pytest.param(standing(DIRTY, asker="ada"), id="another asker"),
        pytest.param(standing(DIRTY, sid="s2"), id="another session"),
        pytest.param(standing(DIRTY, generation=2), id="another generation"),
    ],
)
def test_a_grant_covers_its_session_as_it_was_shown(here: DecisionContext) -> None:
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="admin", clearance="top")}
    keeper = gate(
        [Pay(replace(FACTS, clearance=parse("RESTRICTED{hr}~")))], document(principals=people, compartments=["hr"])
    )
    grant = granted(keeper)
    assert keeper.calls.prepare(having(grant), pay()).decision.verdict is Verdict.ALLOW
    made = keeper.calls.prepare(replace(here, grants=(grant,)), pay())
    assert made.decision.verdict is not Verdict.ALLOW
    assert made.grant is None


def test_a_grant_covers_only_as_long_as_it_counts() -> None:
    for grant, covered in (
        (Grant(FOR_EVER, 1), True),
        (Grant(NOW + 1, 1), True),
        (Grant(NOW, 1), False),
        (Grant(FOR_EVER, 0), False),
        (Grant(FOR_EVER, 0, ("c2",)), True),
        (Grant(FOR_EVER, 0, ("c1",)), False),
        (Grant(FOR_EVER, 1, ("c2",), GrantEnd.REVOKED), False),
    ):
        made = GATE.calls.prepare(having(replace(granted(GATE), grant=grant)), pay())
        assert (made.decision.verdict is Verdict.ALLOW) is covered, grant


def test_the_giver_has_to_be_entitled_at_each_use() -> None:
    grant = granted(GATE, by="ada")
    admin = document(
        principals={
            "owner": principal("console:owner"),
            "ada": principal("console:ada", role="approver", clearance="top"),
        }
    )
    low = document(principals={"owner": principal("console:owner"), "ada": principal("console:ada", role="member")})
    assert gate([Pay()], admin).calls.prepare(having(grant), pay()).decision.verdict is Verdict.ALLOW
    assert gate([Pay()], low).calls.prepare(having(grant), pay()).decision.verdict is ASKS
    assert GATE.calls.prepare(having(grant), pay()).decision.verdict is ASKS, "unknown here"


def test_an_answer_to_this_very_call_stands() -> None:
    grant = granted(GATE)
    denied = replace(grant, id="q2", call="c2", state=ApprovalState.DENIED, grant=None)
    assert GATE.calls.prepare(having(grant), pay(), (denied,)).decision.verdict is ASKS
    assert GATE.calls.prepare(having(grant), pay("c3"), (denied,)).decision.verdict is Verdict.ALLOW


def test_an_approval_without_a_scope_covers_nothing() -> None:
    grant = granted(GATE)
    for none in (
        replace(grant, question=ApprovalQuestion("pay", {})),
        replace(grant, grant=None),
    ):
        made = GATE.calls.prepare(having(none), pay())
        assert (made.decision.verdict, made.ended) == (ASKS, ())


# --- when it ends -----------------------------------------------------------------------------------


def test_a_changed_tool_or_place_ends_a_grant() -> None:
    grant = granted(GATE)
    over = (EndedGrant("g1", GrantEnd.CHANGED),)
    for tool in (
        Pay(description="Pay anyone."),
        Pay(repeatable=False),
        Pay(replace(FACTS, account_of="ann")),
        Pay(replace(FACTS, clearance=parse("INTERNAL~"))),
        Pay(replace(FACTS, folder=("bills", PUBLIC))),
    ):
        made = gate([tool]).calls.prepare(having(grant), pay())
        assert (made.decision.verdict, made.ended) == (ASKS, over), tool


def test_a_call_of_another_shape_ends_nothing_and_an_expired_grant_ends() -> None:
    grant = granted(GATE)
    assert GATE.calls.prepare(having(grant), pay(to="bob")).ended == ()
    late = replace(grant, grant=Grant(NOW, 9))
    made = GATE.calls.prepare(having(late, replace(late, id="g2", tool="message")), pay())
    assert made.ended == (EndedGrant("g1", GrantEnd.EXPIRED),)
    told = [row.body for row in ended_rows(having(late), made)]
    assert told == [{"what": "ended", "grant": "g1", "why": "expired"}]


def test_a_session_above_a_grant_ends_it_not() -> None:
    """Readers of the grant may not know whether it makes a call."""
    tool = Pay(replace(FACTS, clearance=parse("RESTRICTED~")), "Pay anyone.")
    above = having(granted(GATE), here=standing(parse("INTERNAL~")))
    assert gate([tool]).calls.prepare(above, pay()).ended == ()


def test_an_address_with_another_meaning_is_another_one() -> None:
    here, there = ({"channel": "console", "chat": chat, "clearance": "top"} for chat in ("ann", "eve"))
    before, after = (gate([Message()], document(recipients={"ann": place})) for place in (here, there))
    grant = granted(before, send("hi", "ann"))
    assert before.calls.prepare(having(grant), send("other", "ann")).decision.verdict is Verdict.ALLOW
    made = after.calls.prepare(having(grant), send("other", "ann"))
    assert (made.decision.verdict, made.ended) == (ASKS, (EndedGrant("g1", GrantEnd.CHANGED),))


def test_the_last_use_is_told_once() -> None:
    last = replace(granted(GATE), grant=Grant(FOR_EVER, 1))
    made = GATE.calls.prepare(having(last), pay())
    assert [row.body["why"] for row in ended_rows(having(last), made)] == ["used_up"]
    again = having(replace(last, grant=Grant(FOR_EVER, 0, ("c2",))))
    assert ended_rows(again, GATE.calls.prepare(again, pay())) == ()
    more = having(granted(GATE))
    assert ended_rows(more, GATE.calls.prepare(more, pay())) == ()
    assert made.audited["grant"] == "g1"


# --- references and simulation ----------------------------------------------------------------------


def _held(label: str) -> DeferredResult:
    return DeferredResult("held-1", "a text", parse(label), PUBLIC)


def test_a_text_behind_a_reference_is_covered_up_to_the_label() -> None:
    keeper = gate([Pay(replace(FACTS, clearance=parse("RESTRICTED~")))])
    grant = granted(keeper)
    call = pay(text={"$ref": "held-1"})
    low = having(grant, here=standing(DIRTY, held=(_held("PUBLIC~"),)))
    made = keeper.calls.prepare(low, call)
    assert (made.decision.verdict, made.grant) == (Verdict.ALLOW, GrantUse("g1", "c2"))
    high = having(grant, here=standing(DIRTY, held=(_held("INTERNAL~"),)))
    made = keeper.calls.prepare(high, call)
    assert made.decision.verdict is Verdict.BLOCK
    assert UNASKED in {one.message for one in made.decision.outcomes}
    assert made.told.verdict is Verdict.ALLOW, "openly it is covered"
    assert made.grant == GrantUse("g1", "c2"), "the use is spent all the same"


def test_a_call_with_references_offers_no_scope() -> None:
    here = standing(DIRTY, held=(_held("PUBLIC~"),))
    made = GATE.calls.prepare(here, pay(text={"$ref": "held-1"}))
    assert made.decision.verdict is ASKS
    assert made.scope is None


def test_the_text_behind_a_reference_selects_no_grant() -> None:
    """Where nothing asks openly, no grant answers for the text: none of its uses would be spent."""
    card = "4111 1111 1111 1111"
    asks = {"id": "look", "hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL", "pattern": "payment-card"}
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="admin", clearance="top")}
    keeper = gate([Pay()], document(rules=[{**asks, "may_be_granted": True}], principals=people))
    grant = granted(keeper, pay("c1", text=card), here=standing(), by="ada")
    assert keeper.calls.prepare(having(grant, here=standing()), pay(text=card)).grant == GrantUse("g1", "c2")
    held = DeferredResult("held-1", card, PUBLIC, PUBLIC)
    made = keeper.calls.prepare(having(grant, here=standing(held=(held,))), pay(text={"$ref": "held-1"}))
    assert made.decision.verdict is Verdict.BLOCK
    assert UNASKED in {one.message for one in made.decision.outcomes}
    assert (made.told.verdict, made.grant) == (Verdict.ALLOW, None)


async def test_simulating_names_the_grant_to_those_who_may_know_of_it() -> None:
    grant = granted(GATE)
    told = await GATE.calls.simulate(having(grant), "pay", pay().arguments or {}, DIRTY)
    assert (told["verdict"], told["grant"]) == ("ALLOW", "g1")
    above = replace(grant, label=parse("INTERNAL~"))
    told = await GATE.calls.simulate(having(above), "pay", pay().arguments or {}, PUBLIC)
    assert told["verdict"] == "REQUIRE_APPROVAL"
    assert "grant" not in told


# --- while a call runs ------------------------------------------------------------------------------


class _Forwarded(Pay):
    """A call that its server sends on to the same arguments; `went` tells whether it may follow."""

    went: bool | None = None

    async def run(self, arguments: PayArguments, context: ToolContext, services: ToolServices) -> Result:
        self.went = await services.onward(ASKED)
        return Result("paid")


async def test_a_call_that_is_sent_on_is_covered_by_no_grant() -> None:
    tool = _Forwarded()
    keeper = gate([tool])
    here = having(granted(keeper))
    told = list[Decision]()

    async def record(_hook: Hook, decision: Decision, _told: Mapping[str, JsonValue]) -> None:
        told.append(decision)

    made = keeper.calls.prepare(here, pay())
    assert made.decision.verdict is Verdict.ALLOW
    await keeper.run(here, made, record)
    assert tool.went is False
    assert [one.verdict for one in told] == [ASKS]
