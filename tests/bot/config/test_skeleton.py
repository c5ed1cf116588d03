"""Marks of described results and arguments are refused where they would mean nothing, or could not be counted."""

from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from bot.config.mcp import McpToolSettings, naming_problems
from bot.mcp.shapes import shape, takes
from bot.sessions.background.delegation import FieldKind, ResultField
from bot.tools.held.handles import TakenKind
from bot.tools.held.skeletons import Bounded, Hidden, Named, ObjectField, ObjectFields, ServerWritten, Several

TEXT: dict[str, JsonValue] = {"type": "string"}
HANDLE: dict[str, JsonValue] = {"type": "string", "handle": "mail"}
RANGE: dict[str, JsonValue] = {"minimum": 0, "maximum": 5}


MADE: dict[str, JsonValue] = {**HANDLE, "made": True}


def tool(output: dict[str, Any] | None = None, effect: str = "read", **arguments: JsonValue) -> McpToolSettings:
    described = None if output is None else {"type": "object", "fields": output}
    return McpToolSettings.model_validate(
        {"description": "x", "effect": effect, "arguments": arguments, "output": described}
    )


@pytest.mark.parametrize(
    "part,seen",
    [
        (TEXT, Hidden()),
        ({**TEXT, "written_by": "server"}, ServerWritten()),
        (HANDLE, Named("mail")),
        ({"type": "boolean", "bounded": {}}, Bounded(ResultField("", FieldKind.BOOLEAN))),
        (
            {"type": "number", "bounded": {**RANGE, "step": 0.5}},
            Bounded(ResultField("", FieldKind.NUMBER, (), "0", "5", "0.5")),
        ),
        ({"type": "integer", "bounded": RANGE}, Bounded(ResultField("", FieldKind.NUMBER, (), "0", "5", "1"))),
        (
            {**TEXT, "bounded": {"earliest": "2026-01-01", "latest": "2026-02-01"}},
            Bounded(ResultField("", FieldKind.DATE, (), "2026-01-01", "2026-02-01")),
        ),
        ({**TEXT, "bounded": {"values": ["a"]}}, Bounded(ResultField("", FieldKind.ENUM, ("a",)))),
        ({**TEXT, "bounded": {"list": "channels"}}, Bounded(ResultField("", FieldKind.ENUM), "channels")),
        ({"type": "array", "items": TEXT, "max_items": 3}, Hidden()),
        ({"type": "array", "items": TEXT, "written_by": "server"}, ServerWritten()),
        ({"type": "array", "items": HANDLE, "max_items": 3}, Several(Named("mail"), 0, 3)),
        ({"type": "array", "items": HANDLE, "min_items": 1, "max_items": 3}, Several(Named("mail"), 1, 3)),
        ({"type": "object", "open": True}, Hidden()),
        ({"type": "object", "fields": {"id": HANDLE}}, ObjectFields((ObjectField("id", Named("mail")),))),
        (
            {"type": "object", "fields": {"id": {**HANDLE, "optional": True}, "n": {**TEXT, "nullable": True}}},
            ObjectFields((ObjectField("id", Named("mail"), optional=True), ObjectField("n", Hidden(), optional=True))),
        ),
    ],
)
def test_a_described_result_is_shown_by_its_marks(part: dict[str, JsonValue], seen: object) -> None:
    assert shape(tool({"x": part}).output) == ObjectFields((ObjectField("x", seen),))  # pyright: ignore[reportArgumentType]


def test_a_result_without_fields_has_no_skeleton() -> None:
    assert shape(None) is None
    settings = {"description": "x", "effect": "read", "output": {"type": "object", "open": True}}
    assert shape(McpToolSettings.model_validate(settings).output) is None


def test_an_argument_takes_handles_alone_or_in_a_list() -> None:
    described = tool(None, id=HANDLE, ids={"type": "array", "items": HANDLE}, word=TEXT).arguments
    assert takes(described) == {"id": TakenKind("mail"), "ids": TakenKind("mail", several=True)}


@pytest.mark.parametrize(
    "part,problem",
    [
        ({**HANDLE, "written_by": "server"}, "`written_by` and `handle` exclude each other"),
        ({"type": "boolean", "handle": "mail"}, "`handle` belongs to type `string` or `integer` only"),
        ({**HANDLE, "role": "content"}, "`handle` and `role: content` exclude each other"),
        ({**TEXT, "handle": "Mail-1"}, "a `handle` is a short name"),
        ({"type": "array", "items": TEXT, "bounded": {}}, "`bounded` belongs to types"),
        (
            {"type": "integer", "bounded": {}},
            "`bounded` of type `integer` has `minimum` with `maximum`, or `minimum` with",
        ),
        ({"type": "boolean", "bounded": RANGE}, "`bounded` of type `boolean` has nothing"),
        ({**TEXT, "bounded": {"values": ["a"], "list": "b"}}, "`bounded` of type `string` has"),
        ({"type": "integer", "bounded": {"minimum": 6, "maximum": 5}}, "`minimum` is above `maximum`"),
        ({"type": "integer", "bounded": {**RANGE, "step": 0}}, "`step` is at least"),
        ({**TEXT, "bounded": {"earliest": "2026-02-01", "latest": "2026-01-01"}}, "`earliest` is after `latest`"),
        ({**TEXT, "bounded": {"earliest": "1.2.26", "latest": "2026-01-01"}}, "a day is written as"),
        ({**TEXT, "bounded": {"earliest": "2026-02-31", "latest": "2026-03-01"}}, "day is out of range"),
        ({"type": "array", "items": HANDLE}, "`output.x` is shown by entries, so it needs `max_items` of at most 100"),
        ({**TEXT, "role": "content"}, "`role` belongs to `arguments`, and `output.x` is a part of a result"),
        ({"type": "array", "items": {**TEXT, "role": "recipient"}}, r"`output.x\[\]` is a part of a result"),
        ({"type": "array", "items": HANDLE, "max_items": 101}, "needs `max_items` of at most 100"),
        ({"type": "object", "others": HANDLE}, "stand neither in `any_of` nor in `others`"),
        ({"any_of": [HANDLE, {"type": "integer"}]}, "stand neither in `any_of` nor in `others`"),
    ],
)
def test_a_mark_that_cannot_be_counted_is_refused(part: dict[str, JsonValue], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        tool({"x": part})


@pytest.mark.parametrize(
    "part,problem",
    [
        ({**TEXT, "written_by": "server"}, "`written_by` and `bounded` belong to `output`"),
        ({"type": "boolean", "bounded": {}}, "`written_by` and `bounded` belong to `output`"),
        (MADE, "`made` belongs to `output`"),
        ({"type": "object", "fields": {"id": HANDLE}}, "an argument with `handle` is a value, or a list of values"),
        ({"type": "array", "items": {"type": "array", "items": HANDLE}}, "is a value, or a list of values"),
    ],
)
def test_only_handles_stand_in_arguments(part: dict[str, JsonValue], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        tool(None, x=part)


def test_a_call_that_makes_something_names_it_alone() -> None:
    made = ObjectField("id", Named("mail", made=True))
    assert shape(tool({"id": MADE}, "write").output) == ObjectFields((made,))
    within = tool({"x": {"type": "object", "fields": {"id": MADE}}, "to": {**HANDLE, "handle": "box"}}, "send").output
    assert shape(within) == ObjectFields(
        (ObjectField("x", ObjectFields((made,))), ObjectField("to", Named("box"))),
    )


@pytest.mark.parametrize(
    "output,effect,problem",
    [
        ({"id": MADE}, "read", "`made` belongs to tools that write or send"),
        ({"id": MADE}, "none", "`made` belongs to tools that write or send"),
        ({"id": {**TEXT, "made": True}}, "write", "`made` belongs to a part with `handle`"),
        ({"id": MADE, "of": HANDLE}, "write", "a result with `made` has one `handle: mail`, which is in no list"),
        ({"id": MADE, "of": MADE}, "write", "has one `handle: mail`"),
        ({"ids": {"type": "array", "max_items": 1, "items": MADE}}, "write", "which is in no list"),
    ],
)
def test_what_others_may_choose_is_not_called_made(output: dict[str, Any], effect: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        tool(output, effect)


def test_a_list_that_the_policy_does_not_have_is_a_problem() -> None:
    part = {"type": "array", "items": {**TEXT, "bounded": {"list": "channels"}}}
    section = {"notes": {"tools": {"find": {"output": {"type": "object", "fields": {"x": part}}}}}}
    (problem,) = naming_problems(section, (), {"notes": {}}, {"members": ["ann"]})
    assert (problem.path, problem.message) == (
        ("mcp_servers", "notes", "tools", "find", "output", "fields", "x", "items", "bounded", "list"),
        "there is no list `channels`, add it to `policy.lists`",
    )
    (problem,) = naming_problems(section, (), {"notes": {}}, {"channel": ["ann"]})
    assert problem.message == "there is no list `channels`, did you mean `channel`?"
    assert list(naming_problems(section, (), {"notes": {}}, {"channels": ["general"]})) == []
