"""What the lint tells of a rule is so, whatever the request; it never cries wolf."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.decision import Verdict
from policy.document.model import load
from policy.lint import lint
from policy.request import Hook, Request
from tests.policy.strategies import NOW, engine, requests

TOOLS = ("read_file", "write_file", "message")


def kinds(*rules: dict[str, object]) -> list[tuple[int, str]]:
    """Return the place and kind of each finding about rules at PRE_TOOL_CALL that block, but for what is given."""
    entries = [
        {"id": f"rule-{place}", "hook": "PRE_TOOL_CALL", "action": "BLOCK", **rule} for place, rule in enumerate(rules)
    ]
    found = lint(load({"rules": entries}, tools=TOOLS).rules)
    assert all(f"`rule-{finding.place}`" in finding.message for finding in found)
    return [(finding.place, finding.kind) for finding in found]


ASK: dict[str, object] = {"action": "REQUIRE_APPROVAL"}
NIGHT: dict[str, object] = {"schedule": {"from": "18:00", "zone": "UTC"}}


ANY: dict[str, object] = {}
FOUND: list[tuple[list[dict[str, object]], list[tuple[int, str]]]] = [
    ([{}, ASK], [(1, "shadowed")]),
    ([ASK, {}], [(0, "shadowed")]),
    ([{"tools": ["*_file"]}, {"tools": ["read_file"], "action": "REDACT", "pattern": "iban"}], [(1, "shadowed")]),
    ([{"tools": ["*_file"]}, {**ASK, "tools": ["read_*"]}], []),
    ([{"tools": ["*_file"]}, {**ASK, "tools": ["*_file"]}], [(1, "shadowed")]),
    ([{"tools": ["read_file"]}, ASK], []),
    ([{"tools": ["*"]}, ASK], [(1, "shadowed")]),
    ([{"taint": ">= INTERNAL"}, {**ASK, "taint": ">= CONFIDENTIAL"}], [(1, "shadowed")]),
    ([{"taint": ">= CONFIDENTIAL"}, {**ASK, "taint": ">= INTERNAL"}], []),
    ([{"untrusted": True}, ASK], []),
    ([{"untrusted": True}, {**ASK, "untrusted": True}], [(1, "shadowed")]),
    ([{"pattern": "iban"}, {**ASK, "pattern": "email"}], []),
    ([NIGHT, ASK], []),
    ([NIGHT, {**ASK, **NIGHT}], [(1, "shadowed")]),
    ([{"when": "taint_untrusted"}, {**ASK, "when": "taint_untrusted"}], [(1, "shadowed")]),
    ([{"when": "taint_untrusted"}, {**ASK, "when": "tool_consequential"}], []),
    ([{}, {}], [(1, "redundant")]),
    ([{}, {"channels": ["console"]}], [(1, "redundant")]),
    ([{"channels": ["console"]}, {}], [(0, "redundant")]),
    ([ASK, {**ASK, **NIGHT}], [(1, "redundant")]),
    ([ASK, {**ASK, "timeout": "5m"}], []),
    ([ASK, {"action": "REDACT", "pattern": "iban"}], []),
    (
        [{"action": "REDACT", "pattern": "iban"}, {"action": "REDACT", "pattern": "iban", "untrusted": True}],
        [(1, "redundant")],
    ),
    ([{"action": "REDACT", "pattern": "iban"}, {"action": "REDACT", "pattern": "email"}], []),
    ([{"hook": "PRE_OUTPUT"}], [(0, "silencing")]),
    ([{"hook": "PRE_OUTPUT", "channels": ["console"]}], [(0, "silencing")]),
    ([{"hook": "PRE_OUTPUT", "pattern": "iban"}, {"hook": "PRE_OUTPUT", "when": "destination_shared"}], []),
    ([{"hook": "PRE_OUTPUT", **ASK}, {"hook": "PRE_TOOL_CALL"}], []),
    ([], []),
]


@pytest.mark.parametrize("rules, found", FOUND)
def test_what_is_found(rules: list[dict[str, object]], found: list[tuple[int, str]]) -> None:
    assert kinds(*rules) == found


FIELDS: list[dict[str, object]] = [
    {"tools": tools, "taint": taint, "action": action, **pattern}
    for tools, taint, action, pattern in product(
        (["*_file"], ["read_file"], ["message", "read_*"]),
        (">= PUBLIC", ">= CONFIDENTIAL"),
        ("BLOCK", "REQUIRE_APPROVAL"),
        ({}, {"pattern": "us-ssn"}, {"when": "taint_untrusted"}),
    )
]


@settings(max_examples=300)
@given(requests(st.just(Hook.PRE_TOOL_CALL)), st.lists(st.sampled_from(FIELDS), max_size=4))
def test_a_rule_that_is_found_changes_no_verdict(request: Request, fields: list[dict[str, object]]) -> None:
    entries = [{"id": f"rule-{place}", "hook": "PRE_TOOL_CALL", **rule} for place, rule in enumerate(fields)]
    document = load({"rules": entries}, tools=TOOLS)
    told = {finding.place for finding in lint(document.rules)}
    rules = [entry.compiled() for entry in document.rules]
    kept = [rule for place, rule in enumerate(rules) if place not in told]
    for approved in (False, True):
        asked = replace(request, approved=approved)
        assert engine(*rules).decide(asked, NOW).verdict is engine(*kept).decide(asked, NOW).verdict
    assert all(rule.action in Verdict for rule in kept)
