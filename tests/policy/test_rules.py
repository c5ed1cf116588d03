"""The index leaves the rules a request may concern, and remembers without being seen to."""

from zoneinfo import ZoneInfo

import pytest

from policy.conditions.schedule import WeeklyWindow
from policy.decision import Verdict
from policy.labels import Level
from policy.request import Hook
from policy.rules import Rule, RuleIndex
from tests.policy.strategies import condition

# The index takes its six selectors by position, as its memo's key is; these name the last two.
TRUSTED, UNTRUSTED, UNAPPROVED = False, True, False
RULE = Rule("one", Hook.PRE_TOOL_CALL, Verdict.BLOCK, tools=("read_*",), channels=("t?legram",), untrusted=True)


@pytest.mark.parametrize(
    "tool, channel, level, untrusted, left",
    [
        ("read_file", "telegram", Level.PUBLIC, True, 1),
        ("READ_FILE", "telegram", Level.PUBLIC, True, 0),
        ("write_file", "telegram", Level.PUBLIC, True, 0),
        ("read_file", "console", Level.PUBLIC, True, 0),
        ("read_file", "telegram", Level.PUBLIC, False, 0),
        ("read_" + "x" * 500, "telegram", Level.PUBLIC, True, 1),
        ("read_file", "x" * 500, Level.PUBLIC, True, 0),
    ],
)
def test_selectors(tool: str, channel: str, level: Level, untrusted: bool, left: int) -> None:  # noqa: FBT001
    index = RuleIndex([RULE])
    for _ in range(2):
        assert (
            len(
                index.candidates(
                    Hook.PRE_TOOL_CALL, tool, channel=channel, level=level, untrusted=untrusted, approved=UNAPPROVED
                ).settled
            )
            == left
        )
    assert (
        index.candidates(
            Hook.MCP_TOOL_CALL, tool, channel=channel, level=level, untrusted=untrusted, approved=UNAPPROVED
        ).settled
        == ()
    )


def test_rules_with_patterns_schedules_or_conditions_stay_open() -> None:
    index = RuleIndex(
        [
            Rule("c", Hook.PRE_OUTPUT, Verdict.BLOCK),
            Rule("b", Hook.PRE_OUTPUT, Verdict.BLOCK, pattern="email"),
            Rule(
                "a",
                Hook.PRE_OUTPUT,
                Verdict.REQUIRE_APPROVAL,
                schedule=WeeklyWindow(frozenset({0}), 0, 60, ZoneInfo("UTC")),
            ),
            Rule("d", Hook.PRE_OUTPUT, Verdict.BLOCK, when=condition("has_us_ssn", Hook.PRE_OUTPUT)),
            Rule("e", Hook.PRE_OUTPUT, Verdict.BLOCK, when=condition("has_us_ssn", Hook.PRE_OUTPUT)),
        ],
        ("us-ssn", "iban"),
    )
    left = index.candidates(
        Hook.PRE_OUTPUT, "", channel="console", level=Level.PUBLIC, untrusted=TRUSTED, approved=UNAPPROVED
    )
    assert [outcome.rule for outcome in left.settled] == ["c"]
    assert [rule.applies.rule for rule in left.open] == ["d", "e", "a", "b"]
    assert left.patterns == {"email", "us-ssn"}
    assert left.verdict is Verdict.BLOCK


def test_names_too_long_to_remember_do_not_fill_the_memo() -> None:
    index = RuleIndex([RULE])
    for number in range(5000):
        index.candidates(
            Hook.PRE_TOOL_CALL,
            f"{number}",
            channel="telegram",
            level=Level.PUBLIC,
            untrusted=UNTRUSTED,
            approved=UNAPPROVED,
        )
    assert index.remembered() <= 4096
    before = index.remembered()
    index.candidates(
        Hook.PRE_TOOL_CALL, "x" * 201, channel="telegram", level=Level.PUBLIC, untrusted=UNTRUSTED, approved=UNAPPROVED
    )
    assert index.remembered() == before
