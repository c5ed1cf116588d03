"""`lockgate policy test` decides references in a case's call as the gate does, and refuses those that it cannot."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.cli.policy import FAILED
from bot.cli.policy import test as run_cases
from bot.config.load import load_config
from bot.config.model import Config
from bot.tools.catalogue import ARGUMENTS
from bot.tools.held.conditions import NO_EFFECT
from bot.tools.held.entries import NO_LIST, WHOLE
from bot.tools.references import NO_CONTENT
from tests.bot.mailbox import LABELLED
from tests.bot.tools.held.moving import BOUNDED, MOVES

_LIST: JsonValue = {"label": "INTERNAL~", "tool": "mail__find"}
_ANSWER: JsonValue = {"label": "INTERNAL~", "tool": "inspect", "answer": {"place": "number", "yes": "boolean"}}
_ENTRY: JsonValue = {"$ref": "list", "entry": 1}


@pytest.fixture
def mailbox(tmp_path: Path) -> Config:
    """Return a configuration in which a bound names the entries of a list of mails."""
    path = tmp_path / "config.yaml"
    served = {"mail": {"command": "x", "tools": MOVES}}
    path.write_text(json.dumps({"mcp_servers": served, "policy": {"mcp_servers": LABELLED, "tools": BOUNDED}}))
    return load_config(path, {}, ARGUMENTS)


_NOTHING: Final[Mapping[str, JsonValue]] = {}
_MOVES: Final[Mapping[str, JsonValue]] = {"name": "mail__move", "effect": "write", "consequential": True}


def ran(
    config: Config,
    arguments: JsonValue,
    verdict: str = "ALLOW",
    *,
    facts: Mapping[str, JsonValue] = _MOVES,
    more: Mapping[str, JsonValue] = _NOTHING,
) -> int:
    """Run a case with a call, and `more` facts of its request; return the exit code."""
    said: JsonValue = {**facts, "server": "mail"}
    held: JsonValue = {"list": _LIST, "answer": _ANSWER, "text": {"label": "INTERNAL~"}}
    request: JsonValue = {"hook": "MCP_TOOL_CALL", "tool": said, "held": held, "arguments": arguments, **more}
    path = Path(str(config.source)).parent / "cases.yaml"
    path.write_text(json.dumps({"cases": [{"case": "one", "request": request, "verdict": verdict}]}))
    return run_cases(config, path, as_json=False)


@pytest.mark.parametrize(
    "arguments, verdict, more",
    [
        # As the gate: the bound names the entry, so the folder needs none.
        ({"id": _ENTRY, "folder": "bills"}, "ALLOW", {}),
        ({"id": {"$ref": "list", "entry": {"answer": "answer", "field": "place"}}, "folder": "bills"}, "ALLOW", {}),
        # It was heard before, so the place may depend on it.
        ({"id": _ENTRY, "folder": "bills"}, "REQUIRE_APPROVAL", {"endorsed": True}),
        # The text of others goes along.
        ({"id": "4711", "folder": "bills", "note": {"$ref": "text"}}, "REQUIRE_APPROVAL", {}),
        # A person has to vouch for the folder.
        ({"id": "4711", "folder": {"$ref": "text"}}, "REQUIRE_APPROVAL", {}),
        ({"id": "4711", "folder": "bills", "_if": {"answer": "answer", "field": "yes"}}, "ALLOW", {}),
        ({"id": "mail-1-k7qd", "folder": "bills", "_hold": True}, "ALLOW", {}),
        # Its level leaves for the server.
        (
            {"id": "4711", "folder": "bills", "note": {"$ref": "high"}},
            "BLOCK",
            {"held": {"high": {"label": "RESTRICTED"}}},
        ),
    ],
)
def test_references_are_decided_as_the_gate_does(
    mailbox: Config, arguments: JsonValue, verdict: str, more: dict[str, JsonValue]
) -> None:
    assert ran(mailbox, arguments, verdict, more=more) == 0


def test_an_entry_without_a_bound_asks(mailbox: Config) -> None:
    assert ran(mailbox, {"id": _ENTRY}, "REQUIRE_APPROVAL", facts={**_MOVES, "name": "mail__delete"}) == 0


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"id": {"$ref": "lst", "entry": 1}, "folder": "x"}, "no held result `lst`, did you mean `list`?"),
        ({"id": {"$ref": "lst", "entry": 1}, "folder": "x"}, "describe it under `request.held`, as `ID: {label: LABEL"),
        ({"id": {"$ref": "list"}, "folder": "x"}, WHOLE),
        ({"id": {"$ref": "text", "entry": 1}, "folder": "x"}, NO_LIST),
        ({"id": {"$ref": "list", "entry": 0}, "folder": "x"}, "an entry is written"),
        ({"id": _ENTRY, "folder": "x", "_hold": False}, "is held; `admit` reads it afterwards"),
        ({"id": "a", "folder": "x", "_if": {"answer": "answer", "field": "place"}}, "needs a boolean field"),
        ({"id": "a", "folder": "x", "other": {"$ref": "text"}}, NO_CONTENT),
    ],
)
def test_a_call_that_the_gate_refuses_is_no_case(
    mailbox: Config, arguments: JsonValue, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(mailbox, arguments) == FAILED
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    "facts, arguments, told",
    [
        ({"name": "mail__copy", "effect": "none"}, {"words": {"$ref": "text"}}, "give `request.tool` its `effect`"),
        (
            {"name": "mail__move", "effect": "write"},
            {"id": "a", "folder": "x", "_if": {"answer": "answer", "field": "yes"}},
            NO_EFFECT,
        ),
    ],
)
def test_the_facts_of_the_tool_have_to_fit(
    mailbox: Config,
    facts: dict[str, JsonValue],
    arguments: JsonValue,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ran(mailbox, arguments, facts=facts) == FAILED
    assert told in capsys.readouterr().out


def test_a_held_result_names_a_tool_there_is(mailbox: Config, capsys: pytest.CaptureFixture[str]) -> None:
    held: JsonValue = {"list": {"label": "INTERNAL~", "tool": "mail__fnd"}}
    assert ran(mailbox, {"id": _ENTRY, "folder": "x"}, more={"held": held}) == FAILED
    assert "the held result `list` is of an unknown tool `mail__fnd`" in capsys.readouterr().out
