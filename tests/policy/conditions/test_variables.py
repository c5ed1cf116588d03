"""Every variable is bound at its hooks, of its type, and a fact that is missing reads as the worst."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from policy.conditions.expressions import BOOL, DOUBLE, INT, LEVEL, STRING, TEXTS
from policy.conditions.variables import CALL_HOOKS, VARIABLES, Facts, at, elsewhere, flag, reader
from policy.labels import PUBLIC, parse
from policy.request import Destination, Effect, Hook, Request, Role, ToolFacts
from tests.policy.strategies import TOP, requests

BASE = Request(Hook.PRE_OUTPUT, "ann", Role.MEMBER, "console", PUBLIC, TOP, TOP, TOP)
LABEL = parse("CONFIDENTIAL{hr,acme}~")
TYPES = {BOOL: bool, INT: int, STRING: str, LEVEL: int, TEXTS: list}


def facts(request: Request, found: tuple[str, ...] = ()) -> Facts:
    return Facts(request, LABEL, TOP, frozenset(found))


def values(request: Request) -> dict[str, object]:
    return {
        name: variable.read(facts(request)) for name, variable in VARIABLES.items() if request.hook in variable.hooks
    }


@given(requests())
def test_every_variable_of_a_hook_is_bound_and_of_its_type(request: Request) -> None:
    for name, value in values(request).items():
        assert type(value) is TYPES[VARIABLES[name].type]


def test_what_is_missing_reads_as_the_worst() -> None:
    assert values(BASE) == {
        "principal": "ann",
        "role": "member",
        "channel": "console",
        "taint_level": 2,
        "taint_compartments": ["acme", "hr"],
        "taint_untrusted": True,
        "destination_channel": "",
        "destination_address": "",
        "destination_shared": True,
        "destination_level": 0,
        "destination_compartments": [],
    }
    call = values(replace(BASE, hook=Hook.PRE_TOOL_CALL))
    assert {name: value for name, value in call.items() if name.startswith(("tool", "result"))} == {
        "tool_name": "",
        "tool_effect": "send",
        "tool_consequential": True,
        "result_level": 3,
        "result_compartments": ["acme", "hr"],
        "result_untrusted": True,
    }
    assert values(replace(BASE, hook=Hook.PRE_CONTEXT_INJECTION))["item_level"] == 3


def test_what_is_there_is_read() -> None:
    there = Destination("console::guest:", "console", parse("INTERNAL{hr}"), shared=False)
    output = values(replace(BASE, destination=there))
    assert output["destination_channel"] == "console"
    assert output["destination_address"] == "console::guest:"
    assert output["destination_shared"] is False
    assert (output["destination_level"], output["destination_compartments"]) == (1, ["hr"])
    tool = ToolFacts("read_file", Effect.READ, parse("INTERNAL"))
    call = values(replace(BASE, hook=Hook.PRE_TOOL_CALL, tool=tool))
    assert (call["tool_name"], call["tool_effect"], call["tool_consequential"]) == ("read_file", "read", False)
    assert (call["result_level"], call["result_untrusted"]) == (1, False)
    assert values(replace(BASE, hook=Hook.POST_TOOL_RESPONSE, item=parse("INTERNAL")))["item_level"] == 1


def test_patterns_and_arguments_add_variables_where_there_are_any() -> None:
    assert at(Hook.PRE_OUTPUT, ("us-ssn",), {"n": INT})["has_us_ssn"] == BOOL
    assert "arg_n" not in at(Hook.PRE_OUTPUT, (), {"n": INT})
    call = at(Hook.MCP_TOOL_CALL, ("us-ssn",), {"n": INT})
    assert (call["has_us_ssn"], call["arg_n"], call["given_n"]) == (BOOL, INT, BOOL)
    assert "has_us_ssn" not in at(Hook.SESSION_RESET, ("us-ssn",), {})
    assert "has_us_ssn" in elsewhere(Hook.SESSION_RESET, ("us-ssn",))
    assert "has_us_ssn" not in elsewhere(Hook.PRE_OUTPUT, ("us-ssn",))
    assert "principal" not in elsewhere(Hook.SESSION_RESET, ())


def test_a_pattern_is_a_truth_value() -> None:
    assert flag("us-ssn") == "has_us_ssn"
    has = reader("has_us_ssn", BOOL, ("email", "us-ssn"))
    assert has(facts(BASE, ("us-ssn",))) is True
    assert has(facts(BASE, ("email",))) is False


@pytest.mark.parametrize(
    "kind, given_value, read",
    [
        (INT, 7, 7),
        (INT, None, 0),
        (DOUBLE, 7, 7.0),
        (DOUBLE, 2.5, 2.5),
        (STRING, "a", "a"),
        (STRING, None, ""),
        (BOOL, True, True),
        (BOOL, None, False),
        (TEXTS, ("a", "b"), ["a", "b"]),
        (TEXTS, ["a"], ["a"]),
        (TEXTS, None, []),
    ],
)
def test_an_argument_is_read_and_an_absent_one_is_empty(kind: str, given_value: object, read: object) -> None:
    request = replace(BASE, arguments=(("other", 1), ("x", given_value)))
    value = reader("arg_x", kind, ())(facts(request))
    assert (value, type(value)) == (read, type(read))
    assert reader("given_x", BOOL, ())(facts(request)) is (given_value is not None)
    assert reader("given_y", BOOL, ())(facts(request)) is False


@pytest.mark.parametrize(
    "kind, wrong",
    [
        (INT, True),
        (INT, "7"),
        (INT, 2**63),
        (INT, -(2**63) - 1),
        (DOUBLE, True),
        (STRING, 7),
        (BOOL, 1),
        (TEXTS, "ab"),
        (TEXTS, [7]),
    ],
)
def test_an_argument_of_another_type_has_no_value(kind: str, wrong: object) -> None:
    with pytest.raises((TypeError, OverflowError)):
        reader("arg_x", kind, ())(facts(replace(BASE, arguments=(("x", wrong),))))


def test_the_guide_tells_of_every_variable() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "policy-guide.md").read_text("utf-8")
    told = guide[guide.index("| variable |") :].split("\n\n")[0].splitlines()
    hooks = {frozenset(Hook): "every hook", CALL_HOOKS: "calls"}
    expected = list[str]()
    for name, variable in VARIABLES.items():
        places = hooks.get(variable.hooks) or ", ".join(hook for hook in Hook if hook in variable.hooks)
        expected.append(f"| `{name}` | {variable.type} | {places} | {variable.meaning} |")
    assert [row for row in told[2:] if "<" not in row.split("|")[1]] == expected
