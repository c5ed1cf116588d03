"""Rules of plugins: a function decides whether one applies; it can only tighten, and no file can write it."""

from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

import pytest

from policy.conditions.variables import Facts
from policy.decision import Decision, Verdict
from policy.document.model import Document, load
from policy.document.overrides import AccessChange, Overrides, in_force
from policy.engine import Engine
from policy.errors import DocumentError
from policy.labels import Level, parse
from policy.request import Destination, Hook, Request, Role
from policy.rules import CodeRules, Rule
from tests.policy.strategies import NOW, condition, long_text, raising, unclear

LONG = "a" * 100
TOP = parse("RESTRICTED")
RULE = Rule("coded", Hook.PRE_OUTPUT, Verdict.BLOCK, "too long", test=long_text)


def document(*rules: Rule, digest: str = "d1", **sections: object) -> Document:
    return load(sections, tools=(), code=CodeRules(rules, digest))


def decided(rule: Rule, content: str = LONG, taint: str = "PUBLIC", clearance: str = "RESTRICTED") -> Decision:
    guest = Destination("console::guest:", "console", parse(clearance))
    asked = Request(
        Hook.PRE_OUTPUT, "owner", Role.OWNER, "console", parse(taint), TOP, TOP, TOP, content=content, destination=guest
    )
    return Engine.from_document(document(rule)).decide(asked, NOW)


def test_it_applies_where_its_test_says_so() -> None:
    assert decided(RULE).rules == ("coded",)
    assert decided(RULE).verdict is Verdict.BLOCK
    assert decided(RULE, "short").verdict is Verdict.ALLOW


@pytest.mark.parametrize("test", [raising, unclear])
def test_one_that_fails_or_answers_neither_yes_nor_no_blocks_by_its_own_name(test: object) -> None:
    outcome = decided(Rule("coded", Hook.PRE_OUTPUT, Verdict.REQUIRE_APPROVAL, test=test))  # pyright: ignore[reportArgumentType]
    assert (outcome.verdict, outcome.rules) == (Verdict.BLOCK, ("coded",))
    (said,) = [one for one in outcome.outcomes if one.rule == "coded"]
    assert said.message == "this rule could not be evaluated"


def test_its_test_is_asked_only_where_its_condition_holds() -> None:
    asked = list[str]()

    def noted(facts: Facts, _now: datetime) -> bool:
        asked.append(facts.request.content)
        return True

    rule = Rule(
        "coded", Hook.PRE_OUTPUT, Verdict.BLOCK, when=condition("taint_level >= INTERNAL", Hook.PRE_OUTPUT), test=noted
    )
    assert decided(rule).verdict is Verdict.ALLOW
    assert asked == []
    assert decided(rule, taint="INTERNAL").verdict is Verdict.BLOCK


def test_its_code_is_a_part_of_the_policys_name() -> None:
    bare = load({}, tools=())
    assert document(digest="").digest == bare.digest
    assert len({bare.digest, document(RULE).digest, document(RULE, digest="d2").digest}) == 3
    assert [rule.id for rule in document(RULE).all_rules] == ["coded"]


def test_its_fields_are_a_part_of_the_policys_name() -> None:
    """They may come from a module that is imported, or from the environment: the file is the same then."""
    made = [RULE, replace(RULE, action=Verdict.REQUIRE_APPROVAL), replace(RULE, levels=frozenset({Level.INTERNAL}))]
    assert len({document(rule).digest for rule in made}) == 3
    other = replace(RULE, id="other")
    assert document(RULE, other).digest == document(other, RULE).digest


def test_it_stays_in_force_whatever_people_change() -> None:
    change = AccessChange(accounts=MappingProxyType({"console:eve": True}))
    assert in_force(document(RULE), Overrides().changed(change)).all_rules == (RULE,)


@pytest.mark.parametrize(
    "rule, problem",
    [
        (Rule("no_write_down", Hook.PRE_OUTPUT, Verdict.BLOCK), "is a fixed rule"),
        (Rule("written", Hook.PRE_OUTPUT, Verdict.BLOCK), "is given twice"),
        (Rule("Not a name", Hook.PRE_OUTPUT, Verdict.BLOCK), "is not a name"),
        (Rule("coded", Hook.PRE_OUTPUT, Verdict.ALLOW, test=long_text), "can only tighten"),
        (Rule("coded", Hook.PRE_OUTPUT, Verdict.REDACT, test=long_text), "has nothing to replace"),
        (Rule("coded", Hook.PRE_OUTPUT, Verdict.REDACT, pattern="none"), "unknown pattern `none`"),
        (Rule("coded", Hook.SESSION_RESET, Verdict.BLOCK, pattern="email"), "there is no content"),
        (Rule("coded", Hook.PRE_CONTEXT_INJECTION, Verdict.REQUIRE_APPROVAL), "nobody can be asked"),
        (Rule("coded", Hook.PRE_TOOL_CALL, Verdict.BLOCK, tools=("mesage",)), "did you mean `message`"),
        (Rule("coded", Hook.PRE_OUTPUT, Verdict.BLOCK, channels=("telegram",)), "no channel matches"),
    ],
)
def test_one_that_no_file_could_have_is_refused(rule: Rule, problem: str) -> None:
    written = {"id": "written", "hook": "PRE_OUTPUT", "action": "BLOCK"}
    with pytest.raises(DocumentError, match=problem) as raised:
        load({"rules": [written]}, tools=("message",), code=CodeRules((rule,), "d1"))
    assert f"rule `{rule.id}` of a plugin: " in str(raised.value)


@pytest.mark.parametrize(
    "field, value",
    [
        ("hook", "PRE_OUTPUT"),
        ("action", int(Verdict.BLOCK)),
        ("action", "BLOCK"),
        ("message", None),
        ("tools", "message"),
        ("tools", ["message"]),
        ("channels", "*"),
        ("levels", frozenset({"PUBLIC"})),
        ("levels", frozenset[Level]()),
        ("levels", set(Level)),
        ("untrusted", 1),
        ("pattern", 3),
        ("schedule", "always"),
        ("when", "true"),
        ("test", True),
    ],
)
def test_one_whose_field_could_never_match_or_never_be_read_is_refused(field: str, value: object) -> None:
    given: dict[str, object] = {"hook": Hook.PRE_TOOL_CALL, "action": Verdict.BLOCK, field: value}
    rule = Rule("coded", **given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DocumentError, match=f"`{field}`"):
        load({}, tools=("message",), code=CodeRules((rule,), "d1"))


def test_a_condition_of_another_hook_is_refused() -> None:
    elsewhere = condition("destination_channel == 'console'", Hook.PRE_OUTPUT)
    with pytest.raises(DocumentError, match="destination_channel"):
        document(Rule("coded", Hook.PRE_TOOL_CALL, Verdict.BLOCK, when=elsewhere))


def test_people_of_the_usual_roles_answer_for_it() -> None:
    asking = Rule("coded", Hook.PRE_TOOL_CALL, Verdict.REQUIRE_APPROVAL, test=long_text)
    written = {"id": "written", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL", "approvers": ["admin"]}
    made = document(asking, rules=[written])
    assert made.approvers("coded") == (Role.OWNER, Role.ADMIN, Role.APPROVER)
    assert made.approvers("written") == (Role.ADMIN,)
    assert made.approvers("none") == ()


def test_two_of_one_id_are_refused() -> None:
    with pytest.raises(DocumentError, match="is given twice"):
        document(RULE, RULE)


def test_its_selectors_are_those_of_a_file() -> None:
    rule = Rule("coded", Hook.PRE_TOOL_CALL, Verdict.BLOCK, tools=("mes*",), channels=("con*",), test=long_text)
    assert load({}, tools=("message",), code=CodeRules((rule,), "d1")).all_rules == (rule,)


@pytest.mark.parametrize("name", ["code", "_code", "all_rules"])
def test_no_file_can_write_one(name: str) -> None:
    with pytest.raises(DocumentError, match="unknown field"):
        load({name: []}, tools=())
