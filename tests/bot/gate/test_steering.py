"""What steers a call: asked about after an endorsed answer, out of bounds; and a held value that people vouch for."""

from dataclasses import replace
from decimal import Decimal

import pytest
from pydantic import Field, JsonValue

from bot.access.approvals import binding, may_answer
from bot.access.decision_context import Call, DecisionContext
from bot.gate.calls import UNSEEN
from bot.gate.results import CallDecision
from bot.gate.routes import ELSEWHERE
from bot.gate.steering import digest, in_words, steered, vouched
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.tools.base import (
    Amount,
    Arguments,
    CallFacts,
    Content,
    Identifier,
    Recipient,
    RefusedCallError,
    Time,
    ToolContext,
)
from bot.tools.message import Message
from bot.tools.references import NO_CONTENT, asked
from policy.decision import Remedy, Verdict
from policy.document.model import Document, load
from policy.labels import PUBLIC, Label, parse
from policy.request import ArgumentRole, Effect, SteeredRole
from tests.bot.kit import BOUND_MESSAGE, CONFIDENTIAL, NOW, Probe, call, document, gate, send, standing, unrecorded
from tests.people import principal

pytestmark = pytest.mark.anyio

RULE = "endorsed_cannot_steer"
HEARD = (Endorsed("child", '{"n": 3}', "run", 4000),)
REF: JsonValue = {"$ref": "held-a"}
PAY: dict[str, object] = {
    "recipient": ["DE1", "DE2"],
    "amount": {"min": 0, "max": 200, "unit": "EUR"},
    "identifier": ["invoice"],
}


class Transfer(Arguments):
    """A transfer of money."""

    to: list[Recipient] = Field(default_factory=list[str])
    account: Recipient | None = None
    amount: Amount | None = None
    kind: Identifier | None = None
    on: Time | None = None
    note: Content = ""
    urgent: bool | None = None


class Bank(Probe):
    """Transfers money; what it declares may depend on its arguments."""

    def declare(self, arguments: Arguments, context: ToolContext) -> CallFacts:  # pyright: ignore[reportIncompatibleMethodOverride] - its own type
        """Declare a call that others notice, with a secret for one account."""
        secrets = (("key", ""),) if isinstance(arguments, Transfer) and arguments.account == "VIP" else ()
        return CallFacts(consequential=True, secrets=secrets)


def bank(**more: object) -> Bank:
    facts: dict[str, object] = {"name": "bank__pay", "effect": Effect.SEND, "server": "bank", "arguments": Transfer}
    return Bank(**{**facts, **more})  # pyright: ignore[reportArgumentType] - a field of any type


def policy_of(bounds: object = PAY, **more: object) -> Document:
    tools = {"bank__pay": {"bounds": bounds}} if bounds else {}
    server = {"bank": {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "top"}}
    return load({"mcp_servers": server, "tools": tools, **more}, tools=("bank__pay",), servers=("bank",))


def prepared(given: dict[str, JsonValue], where: DecisionContext, bounds: object = PAY) -> CallDecision:
    return gate([bank()], policy_of(bounds)).calls.prepare(where, call("bank__pay", given))


GOOD: dict[str, JsonValue] = {"to": ["DE1"], "amount": "150", "kind": "invoice", "note": "thanks"}


@pytest.mark.parametrize(
    "changed",
    [
        {"to": ["DE1", "DE3"]},
        {"to": []},
        {"amount": 201},
        {"amount": None},
        {"kind": "gift"},
        {"urgent": False},
        {"on": "2026-12-01"},
    ],
)
def test_after_an_endorsed_answer_what_steers_beyond_its_bound_asks(changed: dict[str, JsonValue]) -> None:
    heard, fresh = standing(endorsed=HEARD), standing()
    assert prepared(GOOD, heard).decision.verdict is Verdict.ALLOW
    beyond = prepared({**GOOD, **changed}, heard).decision
    assert (beyond.verdict, beyond.rules) == (Verdict.REQUIRE_APPROVAL, (RULE,))
    assert {Remedy.APPROVER, Remedy.BOUND_TOOL, Remedy.RESET} == set(beyond.remedies)
    # Without such an answer nothing chose it but people and the model, and without bounds nothing is within them.
    assert prepared({**GOOD, **changed}, fresh).decision.verdict is Verdict.ALLOW
    assert prepared(GOOD, heard, bounds=None).decision.rules == (RULE,)


def test_a_tool_of_ours_is_bounded_by_its_entry() -> None:
    one, heard = gate([Message()], document(tools=BOUND_MESSAGE)), standing(endorsed=HEARD)
    assert one.calls.prepare(heard, send("hi")).decision.verdict is Verdict.ALLOW
    free = gate([Message()]).calls.prepare(heard, send("hi")).decision
    assert (free.verdict, free.rules) == (Verdict.REQUIRE_APPROVAL, (RULE,))


async def test_what_is_simulated_says_the_same() -> None:
    one, heard = gate([bank()], policy_of()), standing(endorsed=HEARD)
    for given in (GOOD, {**GOOD, "amount": 500}):
        real = one.calls.prepare(heard, call("bank__pay", given)).decision
        told = await one.calls.simulate(heard, "bank__pay", given, heard.taint)
        assert told["verdict"] == real.verdict.name


def test_an_approval_of_exactly_this_call_lifts_it() -> None:
    one, heard, asks = gate([bank()], policy_of()), standing(endorsed=HEARD), call("bank__pay", {**GOOD, "amount": 500})
    given = approved(heard, asks)
    assert may_answer(policy_of(), given, "owner")
    allowed = one.calls.prepare(heard, asks, (given,))
    assert (allowed.decision.verdict, allowed.use) == (Verdict.ALLOW, "a")
    other = one.calls.prepare(heard, call("bank__pay", {**GOOD, "amount": 501}), (given,))
    assert other.decision.verdict is Verdict.REQUIRE_APPROVAL


def test_the_roles_are_told_with_their_bounds() -> None:
    policy, arguments = policy_of(), Transfer.model_validate_json('{"to": ["DE1", "X"], "amount": 5, "urgent": true}')
    found = steered(policy, "bank__pay", arguments, NOW)
    assert found == (
        SteeredRole(ArgumentRole.RECIPIENT, outside=True),
        SteeredRole(ArgumentRole.AMOUNT, outside=False),
        SteeredRole(None, outside=True),
    )
    bounds = policy.bounds("bank__pay")
    assert [one.bound for one in found] == [
        digest(bounds, ArgumentRole.RECIPIENT),
        digest(bounds, ArgumentRole.AMOUNT),
        "",
    ]
    assert digest(bounds, ArgumentRole.RECIPIENT) != digest(
        policy_of({"recipient": ["X"]}).bounds("bank__pay"), ArgumentRole.RECIPIENT
    )


WORDS: list[tuple[str, object, str]] = [
    (
        '{"to": ["DE1", "DE2", "X"], "amount": 150}',
        PAY,
        "3 recipients, 1 of them outside the bounds; 1 amount, within the bounds, up to 150 EUR",
    ),
    (
        '{"to": ["X"], "amount": "1.50"}',
        PAY,
        "1 recipient, outside the bounds; 1 amount, within the bounds, up to 1.50 EUR",
    ),
    ('{"amount": 900.0}', PAY, "1 amount, outside the bounds, up to 900 EUR"),
    ('{"to": ["DE1", "DE2"]}', PAY, "2 recipients, within the bounds"),
    ('{"amount": 7, "kind": "x"}', None, "1 amount, up to 7; 1 identifier"),
    ('{"amount": 7}', {"amount": {"min": 0, "max": 9}}, "1 amount, within the bounds, up to 7"),
    ('{"amount": null, "urgent": true}', PAY, "1 amount, outside the bounds; 1 value without a role"),
    ('{"note": "words"}', PAY, ""),
]


@pytest.mark.parametrize("written,bounds,words", WORDS)
def test_people_are_told_the_roles_in_words(written: str, bounds: object, words: str) -> None:
    assert in_words(policy_of(bounds), "bank__pay", Transfer.model_validate_json(written), NOW) == words


def test_a_held_value_is_shown_so_that_nothing_looks_like_it() -> None:
    held = DeferredResult("held-a", "DE1\u202e\nа", PUBLIC, PUBLIC)  # noqa: RUF001 - a Cyrillic letter
    assert vouched(ArgumentRole.RECIPIENT, held) == r'recipient `"DE1\u202e\n\u0430"`, the held result `held-a`'


# A held value that people vouch for.


def item(text: str = "DE9", label: Label = PUBLIC, floor: Label = PUBLIC) -> DeferredResult:
    untrusted = parse("PUBLIC~")
    return DeferredResult("held-a", text, label.join(untrusted), floor.join(untrusted))


def approved(
    where: DecisionContext, asks: Call, *, refers: tuple[DeferredResult, ...] = (), **more: object
) -> Approval:
    facts: dict[str, object] = {
        "id": "a",
        "sid": where.sid,
        "generation": where.generation,
        "turn": where.turn,
        "call": asks.id,
        "tool": asks.tool,
        "binding": binding(where, asks, refers),
        "label": where.taint,
        "principal": where.principal,
        "question": ApprovalQuestion(asks.tool, {}),
        "rules": (RULE,),
        "expires_at": NOW + 1,
        "state": ApprovalState.APPROVED,
        "resolved_by": "owner",
    }
    return Approval(**{**facts, **more})  # pyright: ignore[reportArgumentType] - a field of any type


PAYS = call("bank__pay", {"account": REF, "amount": 5})


@pytest.mark.parametrize("held", [item(), item("x" * 300), item("VIP"), item(label=CONFIDENTIAL)])
def test_a_held_value_that_would_steer_asks_whatever_it_is(held: DeferredResult) -> None:
    """Also where nothing was endorsed, and before anything depends on the value or its label."""
    asks = gate([bank()], policy_of()).calls.prepare(standing(held=(held,)), PAYS)
    assert (asks.told.verdict, asks.told.rules) == (Verdict.REQUIRE_APPROVAL, (RULE,))
    whys = {outcome.message for outcome in asks.told.outcomes if outcome.rule == RULE}
    assert whys == {"a held value that nobody vouches for would steer this call"}
    assert asks.hold
    plain = gate([bank()], policy_of()).calls.prepare(standing(held=(item(),)), PAYS)
    assert (asks.told.remedies, asks.told.label_after) == (plain.told.remedies, plain.told.label_after)


async def test_people_vouch_for_one_value_in_one_call() -> None:
    tool, held = bank(), item()
    one, where = gate([tool], policy_of()), standing(held=(held,))
    asks = one.calls.prepare(where, PAYS)
    assert asks.steers == ((ArgumentRole.RECIPIENT, held),)
    assert asks.shown == {"account": {"$ref": "held-a", "label": "PUBLIC~", "holds": "DE9"}, "amount": 5}
    given = approved(where, PAYS, refers=(held,))
    allowed = one.calls.prepare(where, PAYS, (given,))
    assert (allowed.decision.verdict, allowed.use, allowed.hold) == (Verdict.ALLOW, "a", True)
    assert not (await one.run(where, allowed, unrecorded)).failed
    assert tool.said == [Transfer(account="DE9", amount=Decimal(5))]


@pytest.mark.parametrize(
    "other,asks",
    [
        ({"held": (item("DE8"),)}, PAYS),
        ({"held": (item(label=CONFIDENTIAL),)}, PAYS),
        ({"generation": 2}, PAYS),
        ({"sid": "s2"}, PAYS),
        ({"principal": "eve"}, PAYS),
        ({}, replace(PAYS, id="c2")),
        ({}, call("bank__pay", {"account": REF, "amount": 6})),
        ({}, call("bank__pay", {"kind": REF, "amount": 5})),
        ({}, call("bank__pay", {"to": [REF], "amount": 5})),
    ],
)
def test_no_other_call_takes_what_people_vouched_for(other: dict[str, object], asks: Call) -> None:
    given = approved(standing(held=(item(),)), PAYS, refers=(item(),))
    here = replace(standing(held=(item(),)), **other)  # pyright: ignore[reportArgumentType] - a field of any type
    again = gate([bank()], policy_of()).calls.prepare(here, asks, (given,))
    assert again.use is None
    assert again.decision.verdict in {Verdict.REQUIRE_APPROVAL, Verdict.BLOCK}


def test_what_was_spent_or_not_shown_vouches_for_nothing() -> None:
    where, one = standing(held=(item(),)), gate([bank()], policy_of())
    for state in (ApprovalState.PENDING, ApprovalState.DENIED, ApprovalState.EXPIRED):
        given = approved(where, PAYS, refers=(item(),), state=state)
        assert one.calls.prepare(where, PAYS, (given,)).decision.verdict is Verdict.REQUIRE_APPROVAL
    unseen = approved(where, PAYS, refers=(item(),), question=ApprovalQuestion(PAYS.tool, {}, withheld=True))
    refused = one.calls.prepare(where, PAYS, (unseen,))
    assert UNSEEN in [outcome.message for outcome in refused.decision.outcomes]


def test_a_value_that_leads_the_call_elsewhere_is_refused_once_people_answered() -> None:
    where = standing(held=(item("VIP"),))
    asks = gate([bank()], policy_of()).calls.prepare(where, PAYS)
    assert (asks.told.verdict, asks.shown) == (Verdict.REQUIRE_APPROVAL, None)
    given = approved(where, PAYS, refers=(item("VIP"),))
    refused = gate([bank()], policy_of()).calls.prepare(where, PAYS, (given,))
    assert ELSEWHERE in [outcome.message for outcome in refused.decision.outcomes]
    assert refused.told.verdict is Verdict.ALLOW


class Ledger(Bank):
    """Looks something up, which nobody else notices; what it declares may depend on its arguments."""

    def declare(self, arguments: Arguments, context: ToolContext) -> CallFacts:
        """Declare as a transfer does, but for its consequences."""
        return replace(super().declare(arguments, context), consequential=False)


@pytest.mark.parametrize("held", [item(), item(label=parse("INTERNAL~"))])
async def test_a_held_value_chooses_what_is_looked_up_without_a_question(held: DeferredResult) -> None:
    """Nothing of it is told, and the result is held: the session may do the same by reading the value."""
    tool = Ledger(name="bank__pay", effect=Effect.READ, server="bank", arguments=Transfer)
    one, where = gate([tool], policy_of()), standing(held=(held,), endorsed=HEARD)
    allowed = one.calls.prepare(where, PAYS)
    assert (allowed.told.verdict, allowed.decision.verdict, allowed.hold) == (Verdict.ALLOW, Verdict.ALLOW, True)
    assert not (await one.run(where, allowed, unrecorded)).failed
    assert tool.said == [Transfer(account="DE9", amount=Decimal(5))]


def test_what_is_looked_up_leads_nowhere_else_and_not_above_its_sink() -> None:
    tool = Ledger(name="bank__pay", effect=Effect.READ, server="bank", arguments=Transfer)
    low = policy_of(mcp_servers={"bank": {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "PUBLIC"}})
    elsewhere = gate([tool], policy_of()).calls.prepare(standing(held=(item("VIP"),)), PAYS)
    above = gate([tool], low).calls.prepare(standing(held=(item(label=CONFIDENTIAL),)), PAYS)
    assert {elsewhere.decision.verdict, above.decision.verdict} == {Verdict.BLOCK}
    assert ELSEWHERE in [outcome.message for outcome in elsewhere.decision.outcomes]
    assert (elsewhere.told.verdict, elsewhere.hold) == (Verdict.ALLOW, True)


@pytest.mark.parametrize(
    "tool,given",
    [
        (bank(), {"urgent": REF}),
        (bank(server=""), {"account": REF}),
        (bank(), {"account": REF, "urgent": REF}),
    ],
)
def test_a_value_without_a_role_and_a_tool_of_ours_take_none(tool: Bank, given: dict[str, JsonValue]) -> None:
    with pytest.raises(RefusedCallError, match=NO_CONTENT):
        asked(tool, given, (item(),))


def test_a_person_whose_words_may_have_caused_it_is_asked_by_the_other_rule_too() -> None:
    policy = policy_of(principals={"owner": principal("console:owner"), "eve": principal("console:eve", role="member")})
    where = standing(held=(item(),), authors=frozenset({"eve"}))
    asks = gate([bank()], policy).calls.prepare(where, PAYS)
    assert RULE in asks.told.rules


@pytest.mark.parametrize("text", ["DE1", "DE9"])
def test_what_is_known_of_a_call_says_nothing_of_a_held_value(text: str) -> None:
    """Whether it is within a bound is a fact of the value, so neither the open request nor its words tell."""
    made = prepared({"account": REF}, standing(held=(item(text),), endorsed=HEARD))
    assert made.opened is not None
    assert in_words(policy_of(), "bank__pay", made.opened[1], NOW) == "1 recipient, outside the bounds"
    assert [one.outside for request in made.told.requests for one in request.steered] == [True] * 2
