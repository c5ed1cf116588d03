"""Every remedy that is offered works: the same request, made again once it was taken, meets a milder verdict."""

from dataclasses import replace

import pytest
from hypothesis import given

from policy.decision import OTHER_WAYS, Remedy, Verdict
from policy.labels import PUBLIC, parse
from policy.remedies import TRIALS, taken
from policy.request import Destination, Hook, Request, Role
from policy.rules import Rule
from tests.policy import reference
from tests.policy.strategies import NOW, TOP, engine, requests, rule_sets

INTERNAL = parse("INTERNAL")
HERE = Destination("room::team:", "room", PUBLIC, shared=True, readers=PUBLIC)
SAID = Request(
    hook=Hook.PRE_OUTPUT,
    principal="chat:room::team:",
    role=Role.MEMBER,
    channel="room",
    taint=INTERNAL,
    ceiling=INTERNAL,
    provider=TOP,
    home=PUBLIC,
    destination=HERE,
    fresh=INTERNAL,
    lowered=PUBLIC,
    home_readers=PUBLIC,
)
"""An answer in a chat that is classified INTERNAL, in which a person reads who is cleared for nothing."""


def offered(request: Request, *rules: Rule) -> set[Remedy]:
    return set(engine(*rules).decide(request, NOW).remedies)


def verdict(request: Request, rules: tuple[Rule, ...]) -> Verdict:
    return Verdict[reference.decide(request, rules, TOP, NOW)[0]]


@given(requests(), rule_sets())
def test_what_is_offered_works(request: Request, rules: tuple[Rule, ...]) -> None:
    """As the second reading of the specification decides, too."""
    decision = engine(*rules).decide(request, NOW)
    for remedy in set(decision.remedies) - OTHER_WAYS:
        again = taken(remedy, request, TOP)
        assert again is not None
        assert verdict(again, rules) < decision.verdict


def test_each_remedy_is_tried_or_goes_another_way() -> None:
    assert TRIALS.keys() | OTHER_WAYS == set(Remedy)
    assert not TRIALS.keys() & OTHER_WAYS


def test_a_reset_is_no_remedy_where_what_is_typed_is_too_high_already() -> None:
    assert offered(SAID) == {Remedy.PRIVATE_CHAT, Remedy.OTHER_DESTINATION, Remedy.CLASSIFY_LOWER}
    assert Remedy.RESET in offered(replace(SAID, taint=parse("CONFIDENTIAL"), fresh=PUBLIC, lowered=None))


def test_a_higher_classification_is_no_remedy_against_who_reads_there() -> None:
    assert Remedy.RECLASSIFY not in offered(SAID)
    for readers in (INTERNAL, None):
        assert Remedy.RECLASSIFY in offered(replace(SAID, destination=replace(HERE, readers=readers)))


def test_vouching_is_a_remedy_where_it_raises_what_may_be_said() -> None:
    unknown = replace(HERE, clearance=None)
    assert Remedy.VOUCH not in offered(replace(SAID, destination=unknown))
    assert Remedy.VOUCH in offered(replace(SAID, destination=replace(unknown, vouched=INTERNAL)))
    assert Remedy.VOUCH not in offered(replace(SAID, destination=replace(unknown, vouched=PUBLIC)))


def test_a_private_chat_is_no_remedy_for_what_is_said_in_one() -> None:
    assert Remedy.PRIVATE_CHAT not in offered(replace(SAID, destination=replace(HERE, shared=False)))
    read = replace(SAID, hook=Hook.PRE_CONTEXT_INJECTION, taint=PUBLIC, item=INTERNAL, overshoot="ask")
    assert Remedy.PRIVATE_CHAT in offered(replace(read, destination=None))


@pytest.mark.parametrize("remedy", sorted(TRIALS))
def test_what_another_rule_refuses_all_the_same_is_not_offered(remedy: Remedy) -> None:
    never = Rule("never", Hook.PRE_OUTPUT, Verdict.BLOCK)
    assert remedy not in offered(replace(SAID, taint=parse("CONFIDENTIAL")), never)
