"""What a JSON schema can say reaches a tool through the gate: dates, choices, ids, amounts and fixed lists."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import JsonValue

from bot.tools.arguments import as_json, checked, contents, is_content, types
from bot.tools.base import Arguments, CallFacts, Content, RefusedCallError, Result, ToolContext, ToolServices
from bot.tools.references import offered
from policy.decision import Verdict
from policy.document.model import load
from policy.labels import PUBLIC
from policy.request import Effect
from tests.bot.kit import Probe, call, document, gate, standing, unrecorded

ID = "12345678-1234-5678-1234-567812345678"


class Colour(Enum):
    """One of two."""

    RED = "red"
    BLUE = "blue"


class Typed(Arguments):
    """One field of each type that JSON writes as something else."""

    day: date | None = None
    at: datetime | None = None
    colour: Colour | None = None
    ident: UUID | None = None
    amount: Decimal | None = None
    pair: tuple[int, str] | None = None
    numbers: set[int] | None = None
    words: frozenset[str] | None = None


class Lists(Arguments):
    """Content at fixed places of lists."""

    mixed: tuple[Content, str] = ("", "")
    any_length: tuple[Content, ...] = ()
    words: frozenset[Content] = frozenset()


FITS: list[tuple[str, JsonValue, object]] = [
    ("day", "2026-11-24", date(2026, 11, 24)),
    ("at", "2026-11-24T10:00:00Z", datetime(2026, 11, 24, 10, tzinfo=UTC)),
    ("colour", "blue", Colour.BLUE),
    ("ident", ID, UUID(ID)),
    ("amount", "1.50", Decimal("1.50")),
    ("amount", 2, Decimal(2)),
    ("pair", [1, "x"], (1, "x")),
    ("numbers", [1, 2, 1], {1, 2}),
    ("words", ["a"], frozenset({"a"})),
]

REFUSED: list[tuple[str, JsonValue, str]] = [
    ("day", "tomorrow", "`day` should be a valid date in the format YYYY-MM-DD"),
    ("day", 20261124, "`day` should be a valid date"),
    ("at", "hunter2", "`at` should be a valid datetime"),
    ("colour", "hunter2", "`colour` should be 'red' or 'blue'"),
    ("ident", "hunter2", "`ident` should be a valid UUID"),
    ("amount", "hunter2", "`amount` should be a number"),
    ("amount", ["hunter2"], "`amount` should be a number"),
    ("pair", [1], "`pair.1` is missing"),
    ("pair", [1, "x", 2], "`pair` should have at most 2 items"),
    ("pair", "hunter2", "`pair` should be a valid array"),
    ("numbers", ["hunter2"], "`numbers.0` should be a valid integer"),
    ("numbers", {"hunter2": 1}, "`numbers` should be a valid array"),
]


@dataclass
class Dated:
    """Keeps what it was given."""

    given: Typed | None = None
    name = "dated"
    description = "takes typed arguments"
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = Typed

    def declare(self, arguments: Typed, context: ToolContext) -> CallFacts:
        return CallFacts()

    async def run(self, arguments: Typed, context: ToolContext, services: ToolServices) -> Result:
        self.given = arguments
        return Result("done")


@pytest.mark.anyio
@pytest.mark.parametrize("name,given,expected", FITS)
async def test_a_typed_argument_reaches_the_tool_as_its_type(name: str, given: JsonValue, expected: object) -> None:
    tool = Dated()
    keeper = gate([tool])
    prepared = keeper.calls.prepare(standing(), call("dated", {name: given}))
    assert prepared.decision.verdict is Verdict.ALLOW
    assert not (await keeper.run(standing(), prepared, unrecorded)).failed
    assert getattr(tool.given, name) == expected


@pytest.mark.parametrize("name,given,said", REFUSED)
def test_a_value_of_another_type_is_refused_in_a_sentence(name: str, given: JsonValue, said: str) -> None:
    with pytest.raises(RefusedCallError) as refused:
        checked(Dated(), {name: given})
    assert str(refused.value) == f"arguments of `dated` do not fit: {said}"


def test_what_json_cannot_write_is_taken_as_it_was_given_or_refused() -> None:
    with pytest.raises(RefusedCallError, match="`day` should be a valid date"):
        checked(Dated(), {"day": 10**5000})
    half = checked(Probe(), {"text": "\ud800"})
    assert as_json(half, given=True) == {"text": "\ud800"}


def test_a_model_is_offered_the_schema_of_what_is_taken() -> None:
    properties: dict[str, Any] = offered(Dated())["properties"]
    assert properties["day"] == {"type": "string", "format": "date"}


def test_rules_know_typed_arguments_as_json_writes_them() -> None:
    assert types(Typed) == {
        "day": "text",
        "at": "text",
        "colour": "text",
        "ident": "text",
        "amount": "text",
        "pair": "tuple[int, str]",
        "numbers": "set[int]",
        "words": "list of text",
    }


@pytest.mark.parametrize(
    "condition,given,verdict",
    [
        ('arg_day == "2026-11-24"', {"day": "2026-11-24"}, Verdict.BLOCK),
        ('arg_day == "2026-11-24"', {"day": "2026-11-25"}, Verdict.ALLOW),
        ('arg_colour == "red"', {"colour": "red"}, Verdict.BLOCK),
        (f'arg_ident == "{ID}"', {"ident": ID.replace("-", "")}, Verdict.BLOCK),
        ('"a" in arg_words', {"words": ["a", "b"]}, Verdict.BLOCK),
    ],
)
def test_a_rule_looks_at_typed_arguments(condition: str, given: dict[str, JsonValue], verdict: Verdict) -> None:
    rule = {"id": "mine", "hook": "PRE_TOOL_CALL", "tools": ["dated"], "when": condition, "action": "BLOCK"}
    keeper = gate([Dated()], load({"rules": [rule]}, tools={"dated": types(Typed)}))
    assert keeper.calls.prepare(standing(), call("dated", given)).decision.verdict is verdict


def test_a_pattern_finds_an_argument_as_the_tool_gets_it() -> None:
    rule = {"id": "mine", "hook": "PRE_TOOL_CALL", "pattern": "known-id", "action": "REDACT"}
    keeper = gate([Dated()], document(patterns={"known-id": ID}, rules=[rule]))
    asked = keeper.calls.prepare(standing(), call("dated", {"ident": ID.replace("-", "")}))
    assert asked.decision.verdict is Verdict.BLOCK


def test_content_stands_at_its_own_place_of_a_fixed_list() -> None:
    assert is_content(Lists, ("mixed", 0))
    assert not is_content(Lists, ("mixed", 1))
    assert not is_content(Lists, ("mixed", 2))
    assert is_content(Lists, ("any_length", 5))
    assert is_content(Lists, ("words", 0))
    assert list(contents(Lists)) == ["mixed[0]", "any_length[]", "words[]"]


def test_a_probe_may_stand_for_any_of_them() -> None:
    assert checked(Probe(name="lists", arguments=Lists), {"mixed": ["a", "b"]}) == Lists(mixed=("a", "b"))
