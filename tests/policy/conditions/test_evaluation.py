"""Conditions are evaluated together, and one that cannot be told takes no other with it."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product, repeat
from zoneinfo import ZoneInfo

import pytest

from policy.conditions.evaluation import Fused
from policy.conditions.expressions import BOOL, INT, STRING, Expression, check
from policy.conditions.schedule import WeeklyWindow
from policy.conditions.variables import Facts, at
from policy.decision import Verdict
from policy.labels import PUBLIC, Integrity, Label, Level
from policy.request import Effect, Hook, Request, Role, ToolFacts
from policy.rules import Rule
from tests.policy.strategies import NOW, REDACTOR, TOP, engine

CALL = Request(
    Hook.PRE_TOOL_CALL, "ann", Role.MEMBER, "console", PUBLIC, TOP, TOP, TOP, tool=ToolFacts("pay", Effect.NONE, PUBLIC)
)


def written(text: str, **arguments: str) -> Expression:
    return check(text, at(Hook.PRE_TOOL_CALL, REDACTOR.names, arguments))


def truths(*expressions: Expression, **arguments: object) -> list[object]:
    request = replace(CALL, arguments=tuple(arguments.items()))
    awake = Fused(expressions, REDACTOR.names).awake(Facts(request, PUBLIC, TOP, frozenset({"us-ssn"})))
    return [awake.get(place, False) for place in range(len(expressions))]


def test_each_condition_has_its_own_answer() -> None:
    both = written('role == "member"'), written("has_us_ssn && has_email"), written("has_us_ssn || has_email")
    assert truths(*both) == [True, False, True]
    assert truths() == []


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25])
def test_of_many_conditions_each_is_told_apart(count: int) -> None:
    numbers = [written(f"arg_n > {number}", n=INT) for number in range(count)]
    for amount in range(count + 1):
        assert truths(*numbers, n=amount) == [number < amount for number in range(count)]
        # One that cannot be told beside any that holds, which the library would be content with.
        broken = [*numbers[:amount], written("1 / (arg_n - arg_n) == 1", n=INT), *numbers[amount:]]
        assert truths(*broken, n=amount) == [True] * amount + [None] + [False] * (count - amount)


@pytest.mark.parametrize("amount", [0, 2**62, 2**63, "text", 1.5, "\ud800"])
def test_only_what_cannot_be_told_is_without_an_answer(amount: object) -> None:
    fine, broken = written('role == "member"'), written("arg_n * 4 / arg_n > 100", n=INT)
    assert truths(fine, broken, written("has_email"), n=amount) == [True, None, False]


def test_a_condition_need_not_look_at_what_cannot_be_told() -> None:
    assert truths(written("has_us_ssn || 1 / arg_n == 1", n=INT), n=0) == [True]


def test_one_name_may_have_two_types_in_two_conditions() -> None:
    number, text = written("arg_x == 7", x=INT), written('arg_x == "7"', x=STRING)
    assert truths(number, text, x=7) == [True, None]
    assert truths(number, text, x="7") == [None, True]
    assert truths(number, written("given_x", x=BOOL), x=7) == [True, True]


ROUNDS = 200


def test_remembered_values_are_those_of_the_request_at_hand_in_any_thread() -> None:
    texts = ('role == "owner"', "taint_level >= CONFIDENTIAL", "taint_untrusted", '"hr" in taint_compartments')
    together = Fused([written(text) for text in texts], REDACTOR.names)
    cases = [
        (Facts(replace(CALL, role=role), label, TOP, frozenset()), (role is Role.OWNER, level, untrusted, hr))
        for role, level, untrusted, hr in product((Role.OWNER, Role.MEMBER), *repeat((False, True), 3))
        for label in [
            Label(
                Level.CONFIDENTIAL if level else Level.PUBLIC,
                frozenset({"acme", "hr"} if hr else {"acme"}),
                Integrity.UNTRUSTED if untrusted else Integrity.TRUSTED,
            )
        ]
    ]

    def wrong(turn: int) -> list[int]:
        asked = random.Random(turn).choices(cases, k=ROUNDS)  # noqa: S311 - cases, not secrets
        return [
            number
            for number, (facts, expected) in enumerate(asked)
            if tuple(place in together.awake(facts) for place in range(len(texts))) != expected
        ]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(wrong, range(8))) == [[]] * 8


def test_so_many_combinations_are_remembered_and_no_arguments() -> None:
    named = Fused([written('principal == "p7"')], REDACTOR.names)
    for number in range(200):
        facts = Facts(replace(CALL, principal=f"p{number}"), PUBLIC, TOP, frozenset())
        assert (0 in named.awake(facts)) == (number == 7)
        assert 1 <= named.remembered() <= 64
    given = Fused([written("arg_n > 5", n=INT)], REDACTOR.names)
    assert given.awake(Facts(replace(CALL, arguments=(("n", 7),)), PUBLIC, TOP, frozenset()))
    assert given.remembered() == 0


def test_the_rule_that_fails_blocks_and_the_others_say_what_they_say() -> None:
    rules = (
        Rule("asks", Hook.PRE_TOOL_CALL, Verdict.REQUIRE_APPROVAL, when=written("arg_n == 0", n=INT)),
        Rule("breaks", Hook.PRE_TOOL_CALL, Verdict.REQUIRE_APPROVAL, when=written("1 / arg_n == 1", n=INT)),
        Rule("rests", Hook.PRE_TOOL_CALL, Verdict.BLOCK, when=written("arg_n > 5", n=INT)),
    )
    decision = engine(*rules).decide(replace(CALL, arguments=(("n", 0),)), NOW)
    assert decision.verdict is Verdict.BLOCK
    assert decision.rules == ("breaks", "asks")
    (breaks,) = (outcome for outcome in decision.outcomes if outcome.rule == "breaks")
    assert breaks.message == "this rule could not be evaluated"
    fine = engine(*rules).decide(replace(CALL, arguments=(("n", 9),)), NOW)
    assert fine.rules == ("rests",)


def test_a_schedule_asked_at_no_moment_blocks() -> None:
    rule = Rule(
        "at-night", CALL.hook, Verdict.REQUIRE_APPROVAL, schedule=WeeklyWindow(frozenset({0}), 0, 1, ZoneInfo("UTC"))
    )
    decision = engine(rule).decide(CALL, NOW.replace(tzinfo=None))
    assert (decision.verdict, decision.rules) == (Verdict.BLOCK, ("at-night",))
