"""A skeleton shows what its description allows, and all that third parties may choose in it is counted."""

import math
from itertools import count

import pytest
from pydantic import JsonValue

from bot.sessions.background.delegation import FieldKind, ResultField
from bot.tools.held.handles import is_handle, named
from bot.tools.held.skeletons import (
    LONGEST,
    NOT_THERE,
    Bounded,
    Hidden,
    Named,
    ObjectField,
    ObjectFields,
    Piece,
    ServerWritten,
    Several,
    Shape,
    drawn,
    empty,
    in_force,
    is_constant,
    millibits,
    unbounded,
)
from tests.bot.kit import document

YES = Bounded(ResultField("", FieldKind.BOOLEAN))
NUMBER = Bounded(ResultField("", FieldKind.NUMBER, (), "0", "1", "0.25"))
DAY = Bounded(ResultField("", FieldKind.DATE, (), "2026-01-01", "2026-01-31"))
CHANNEL = Bounded(ResultField("", FieldKind.ENUM), "channels")
COLOUR = Bounded(ResultField("", FieldKind.ENUM, ("red", "blue")))


def fields(*, optional: bool = False, **shapes: Shape) -> ObjectFields:
    return ObjectFields(tuple(ObjectField(name, shape, optional) for name, shape in shapes.items()))


class Names:
    """Names parts by their numbers, and keeps them."""

    def __init__(self) -> None:
        self.pieces = list[Piece]()
        self._count = count(1)

    def __call__(self, piece: Piece) -> JsonValue:
        self.pieces.append(piece)
        return f"<{next(self._count)}>"


def shown(shape: Shape, value: JsonValue) -> JsonValue:
    return drawn(fields(x=shape), {"x": value}, lambda text: text.replace("4711", "***"), Names())


@pytest.mark.parametrize(
    "shape,value,seen",
    [
        (Hidden(), "words", "<1>"),
        (Hidden(), {"a": [1]}, "<1>"),
        (ServerWritten(), {"a": ["4711 times", 1, True]}, {"a": ["*** times", 1, True]}),
        (Named("mail"), "a", "<1>"),
        (Named("mail"), 17, "<1>"),
        (YES, True, True),
        (YES, "true", "<1>"),
        (NUMBER, 0.5, 0.5),
        (NUMBER, 0.6, 0.5),
        (NUMBER, 1, 1),
        (NUMBER, 1.1, "<1>"),
        (NUMBER, -0.1, "<1>"),
        (NUMBER, True, "<1>"),
        (NUMBER, 1e400, "<1>"),
        (DAY, "2026-01-05", "2026-01-05"),
        (DAY, "2026-01-05T17:59:01+02:00", "2026-01-05"),
        (DAY, "2026-02-05", "<1>"),
        (DAY, "soon", "<1>"),
        (COLOUR, "red", "red"),
        (COLOUR, "green", "<1>"),
        (Several(Hidden(), 0, 2), ["a", "b"], ["<1>", "<2>"]),
        (fields(a=YES, b=Hidden()), {"b": "x", "a": False, "evil": 1}, {"a": False, "b": "<1>"}),
        (fields(optional=True, a=YES, b=Hidden()), {"b": None}, {}),
    ],
)
def test_a_part_is_shown_as_described_or_is_a_reference(shape: Shape, value: JsonValue, seen: JsonValue) -> None:
    assert shown(shape, value) == {"x": seen}


@pytest.mark.parametrize(
    "shape,value",
    [
        (Named("mail"), True),
        (Named("mail"), ["a"]),
        (Named("mail"), "a" * 501),
        (Named("mail"), "of 4711"),
        (Several(Hidden(), 1, 2), []),
        (Several(Hidden(), 1, 2), ["a", "b", "c"]),
        (Several(Hidden(), 0, 2), "a"),
        (fields(a=YES), {}),
        (fields(a=YES), "a"),
        (ServerWritten(), "w" * LONGEST),
    ],
)
def test_a_result_that_does_not_fit_has_no_skeleton(shape: Shape, value: JsonValue) -> None:
    assert shown(shape, value) is None


def test_a_part_keeps_its_text_without_secrets_and_an_identifier_as_json() -> None:
    names = Names()
    value: JsonValue = {"id": "ä", "text": "of 4711", "more": {"n": 1}}
    shape = fields(id=Named("mail"), text=Hidden(), more=Hidden())
    drawn(shape, value, lambda text: text.replace("4711", "***"), names)
    assert names.pieces == [Piece('"ä"', "mail"), Piece("of ***"), Piece('{"n": 1}')]


@pytest.mark.parametrize(
    "shape,outcomes",
    [
        (fields(a=ServerWritten()), 1),
        (fields(optional=True, a=ServerWritten()), 1),
        (fields(a=Named("mail")), 1),
        (fields(optional=True, a=Hidden()), 2),
        (fields(a=YES, b=Hidden()), 3),
        (fields(optional=True, a=YES), 4),
        (fields(a=NUMBER, b=COLOUR), 6 * 3),
        (fields(a=Several(Named("mail"), 0, 3)), 4),
        (fields(a=Several(YES, 1, 2)), 3 + 9),
    ],
)
def test_all_that_third_parties_choose_is_counted(shape: Shape, outcomes: int) -> None:
    assert millibits(shape) == math.ceil(1000 * math.log2(outcomes + 1))


def test_a_shape_of_references_alone_looks_the_same_for_every_result() -> None:
    shape, names = fields(a=Hidden(), b=fields(c=Hidden())), Names()
    assert is_constant(shape)
    assert millibits(shape) == 0
    assert empty(shape, names) == drawn(shape, {"a": "x", "b": {"c": "y"}}, str, Names())
    assert {piece.text for piece in names.pieces} == {NOT_THERE}
    assert not is_constant(fields(a=fields(optional=True, b=Hidden())))


def test_members_are_those_that_the_policy_lists_now() -> None:
    policy = document(lists={"channels": ["general", "sales"]})
    shape = fields(a=Several(CHANNEL, 0, 1), b=YES)
    assert millibits(in_force(shape, policy)) == millibits(fields(a=Several(COLOUR, 0, 1), b=YES))
    assert in_force(shape, document()) == fields(a=Several(Hidden(), 0, 1), b=YES)


def test_without_bounded_values_fewer_bits_are_enough() -> None:
    shape = fields(a=Several(NUMBER, 0, 1), b=YES, c=Named("mail"))
    assert unbounded(shape) == fields(a=Several(Hidden(), 0, 1), b=Hidden(), c=Named("mail"))


def test_a_handle_tells_its_session_and_generation_apart() -> None:
    handles = {named(sid, generation, "mail", 3) for sid in ("one", "two") for generation in (1, 2)}
    assert len(handles) == 4
    assert all(is_handle("mail", one) and not is_handle("file", one) for one in handles)
    assert not is_handle("mail", "mail-3")
    assert not is_handle("mail", 3)
