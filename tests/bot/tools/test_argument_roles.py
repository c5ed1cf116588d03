"""Roles of arguments: what each value of a call steers, and that only content steers nothing."""

from typing import Annotated

import pytest
from pydantic import Field, JsonValue

from bot.config.mcp import McpArgument
from bot.mcp.arguments import arguments_type, passed_on
from bot.tools.arguments import role_at, steering, types
from bot.tools.background.run_starting import StartArguments
from bot.tools.background.scheduling import CancelArguments, CreateArguments
from bot.tools.background.spawning import SpawnArguments
from bot.tools.base import (
    CONTENT,
    Amount,
    Arguments,
    Content,
    Identifier,
    PathText,
    Recipient,
    RoleMark,
    Time,
)
from bot.tools.files import FolderArguments, ReadArguments, WriteArguments
from bot.tools.knowledge.memory import MemoryArguments
from bot.tools.message import MessageArguments
from bot.tools.sending import SendArguments
from bot.tools.web.fetch import FetchArguments
from policy.request import ArgumentRole

RECIPIENT, AMOUNT, IDENTIFIER = ArgumentRole.RECIPIENT, ArgumentRole.AMOUNT, ArgumentRole.IDENTIFIER
TIME, PATH = ArgumentRole.TIME, ArgumentRole.PATH


class Line(Arguments):
    """A part of a call."""

    item: Identifier
    text: Content = ""


class Either(Arguments):
    """Another part of a call."""

    item: Identifier
    text: Identifier = ""


class Order(Arguments):
    """A call with values at every depth."""

    to: list[Recipient] = Field(default_factory=list[str])
    copy_to: Annotated[tuple[str, ...], RoleMark(RECIPIENT)] = ()
    sum: Amount | None = None
    on: Time = ""
    file: PathText | None = None
    lines: tuple[Line, ...] = ()
    some: Line | Either | None = None
    by_name: dict[str, Recipient] = Field(default_factory=dict[str, str])
    parts: dict[str, Line] = Field(default_factory=dict[str, Line])
    named: Annotated[dict[str, str], RoleMark(IDENTIFIER)] = Field(default_factory=dict[str, str])
    free: Annotated[dict[str, str], CONTENT] = Field(default_factory=dict[str, str])
    bare: str = ""
    either: Annotated[Line | Either, Field(description="one of two")] | None = None


Found = tuple[dict[str, JsonValue], list[tuple[str, ArgumentRole | None, JsonValue]]]

STEERS: list[Found] = [
    ({}, []),
    ({"to": ["a", "b"]}, [("to.0", RECIPIENT, "a"), ("to.1", RECIPIENT, "b")]),
    ({"to": []}, [("to", None, [])]),
    ({"copy_to": []}, [("copy_to", RECIPIENT, [])]),
    ({"copy_to": ["a"]}, [("copy_to.0", RECIPIENT, "a")]),
    ({"sum": "1.50"}, [("sum", AMOUNT, "1.50")]),
    ({"sum": None, "on": "2026-11-29"}, [("sum", AMOUNT, None), ("on", TIME, "2026-11-29")]),
    ({"file": "a/b"}, [("file", PATH, "a/b")]),
    ({"lines": [{"item": "x", "text": "said"}]}, [("lines.0.item", IDENTIFIER, "x")]),
    ({"some": {"item": "x", "text": "y"}}, [("some.item", IDENTIFIER, "x"), ("some.text", None, "y")]),
    ({"either": {"item": "x", "text": "y"}}, [("either.item", IDENTIFIER, "x"), ("either.text", None, "y")]),
    ({"by_name": {"k": "a"}}, [("by_name.k", None, "k"), ("by_name.k", RECIPIENT, "a")]),
    ({"parts": {"k": {"item": "x"}}}, [("parts.k", None, "k"), ("parts.k.item", IDENTIFIER, "x")]),
    ({"parts": {}}, [("parts", None, {})]),
    ({"named": {"k": "v"}}, [("named.k", IDENTIFIER, "k"), ("named.k", IDENTIFIER, "v")]),
    ({"free": {"k": "v"}, "bare": "x"}, [("bare", None, "x")]),
    ({"made_up": "x"}, [("made_up", None, "made_up"), ("made_up", None, "x")]),
    ({"bare": {"made": "up"}}, [("bare.made", None, "made"), ("bare.made", None, "up")]),
]


@pytest.mark.parametrize("given,found", STEERS)
def test_every_value_that_is_not_content_steers(
    given: dict[str, JsonValue], found: list[tuple[str, ArgumentRole | None, JsonValue]]
) -> None:
    listed = [(".".join(map(str, one.path)), one.role, one.value) for one in steering(Order, given)]
    assert listed == found


def test_what_an_operator_declares_has_its_role() -> None:
    kind = arguments_type(
        "t",
        {
            "to": McpArgument(type="array", items=McpArgument(type="string"), role=RECIPIENT),
            "amount": McpArgument(type="number", minimum=0, nullable=True, role=AMOUNT),
            "kind": McpArgument(values=["a", "b"], role=IDENTIFIER, default="a"),
            "note": McpArgument(type="string", max_length=9, role=ArgumentRole.CONTENT),
            "more": McpArgument(type="object", open=True),
        },
    )
    arguments = kind.model_validate({"to": ["x"], "amount": 5.0, "note": "n", "more": {"k": 1}})
    assert [(one.path, one.role, one.value) for one in steering(kind, passed_on(arguments))] == [
        (("to", 0), RECIPIENT, "x"),
        (("amount",), AMOUNT, 5.0),
        (("kind",), IDENTIFIER, "a"),
        (("more", "k"), None, "k"),
        (("more", "k"), None, 1),
    ]


def test_our_own_tools_declare_what_steers_them() -> None:
    """A new argument without a role asks after an endorsed value, so each of these is a decision."""
    declared = {
        (MessageArguments, "recipient"): RECIPIENT,
        (MessageArguments, "channel"): IDENTIFIER,
        (MessageArguments, "text"): ArgumentRole.CONTENT,
        (SendArguments, "session_id"): RECIPIENT,
        (SpawnArguments, "deliver_to"): RECIPIENT,
        (SpawnArguments, "returns"): None,
        (StartArguments, "deliver_to"): RECIPIENT,
        (CreateArguments, "deliver_to"): RECIPIENT,
        (CreateArguments, "when"): TIME,
        (CreateArguments, "kind"): IDENTIFIER,
        (CancelArguments, "id"): IDENTIFIER,
        (ReadArguments, "path"): PATH,
        (FolderArguments, "path"): PATH,
        (WriteArguments, "path"): PATH,
        (MemoryArguments, "id"): IDENTIFIER,
        (FetchArguments, "url"): RECIPIENT,
        (FetchArguments, "headers"): None,
    }
    assert {place: role_at(place[0], place[1:]) for place in declared} == declared
    assert types(MemoryArguments)["id"] == "text"


@pytest.mark.parametrize(
    "written",
    [
        {"type": "string"},
        {"type": "any"},
        {"values": [1, "2"]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "fields": {"sum": {"type": "number"}, "unit": {"type": "string"}}},
        {"type": "object", "open": True},
        {"type": "object", "others": {"type": "string"}},
        {"any_of": [{"type": "number"}, {"type": "string"}]},
    ],
)
def test_an_amount_is_no_text(written: dict[str, JsonValue]) -> None:
    """A server may read `1.000` as one or as a thousand, and nobody could bound it."""
    with pytest.raises(ValueError, match="role `amount` belongs to numbers"):
        McpArgument.model_validate({**written, "role": "amount"})


def test_an_amount_is_a_number_at_any_depth() -> None:
    for written in (
        {"type": "integer"},
        {"values": [1, 2.5]},
        {"type": "array", "items": {"type": "number"}},
        {"type": "object", "fields": {"sum": {"type": "number"}}},
    ):
        assert McpArgument.model_validate({**written, "role": "amount"}).role is AMOUNT
