"""A stored value is of the kind that its reader promises, or it raises."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from bot.core.json_values import JsonObject, child, flag, objects, text, texts, whole, whole_object

GOOD: dict[str, JsonValue] = {
    "text": "a",
    "number": 3,
    "yes": True,
    "nothing": None,
    "object": {"a": 1},
    "texts": ["a", "b"],
    "objects": [{}, {"a": 1}],
    "mixed": [{}, "a"],
}


def test_what_is_there_is_read() -> None:
    assert (text(GOOD, "text"), text(GOOD, "missing", "b")) == ("a", "b")
    assert (whole(GOOD, "number"), whole(GOOD, "missing", 0)) == (3, 0)
    assert (flag(GOOD, "yes"), flag(GOOD, "missing")) == (True, False)
    assert (child(GOOD, "object"), child(GOOD, "nothing"), child(GOOD, "missing")) == ({"a": 1}, None, None)
    assert (texts(GOOD, "texts"), texts(GOOD, "missing")) == (("a", "b"), ())
    assert (objects(GOOD, "objects"), objects(GOOD, "missing")) == (({}, {"a": 1}), ())


@pytest.mark.parametrize(
    "read, name",
    [
        (text, "missing"),
        (text, "number"),
        (text, "nothing"),
        (whole, "missing"),
        (whole, "text"),
        (whole, "yes"),
        (flag, "number"),
        (child, "text"),
        (child, "texts"),
        (texts, "text"),
        (texts, "mixed"),
        (objects, "object"),
        (objects, "mixed"),
    ],
)
def test_what_is_missing_or_of_another_kind_raises(read: Callable[[JsonObject, str], object], name: str) -> None:
    with pytest.raises(TypeError):
        read(GOOD, name)


def test_a_list_is_no_object() -> None:
    with pytest.raises(TypeError):
        whole_object([])
