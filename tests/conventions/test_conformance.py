"""docs/conformance.md leaves nothing out: each tool, parameter, route and field has a row, with tests of it."""

import re

from tests.conventions.conformance import Row, asked_for, is_name, required, rows, source, told_in

ROWS = tuple(rows())


def test_every_tool_parameter_route_and_field_has_one_row() -> None:
    subjects = [row.subject for row in ROWS if is_name(row.subject)]
    assert sorted(required() - set(subjects)) == []
    assert sorted(set(subjects) - required()) == []
    assert sorted(subjects) == sorted(set(subjects))


def test_every_row_names_a_test_that_there_is() -> None:
    assert len(ROWS) > len(required())
    assert [row.line for row in ROWS if not row.tests] == []
    missing = [f"{path}::{name}" for row in ROWS for path, name in row.tests if not source(path, name)]
    assert missing == []
    assert [name for row in ROWS for _, name in row.tests if not name.startswith("test_")] == []


def test_a_test_of_each_row_names_what_the_row_is_about() -> None:
    assert {row.line: words for row in ROWS if (words := _unnamed(row))} == {}


def _unnamed(row: Row) -> list[str]:
    """Return what no test of a row names, of all that it is about."""
    named = set(re.findall(r"\w+", _plain("\n".join(source(path, name) for path, name in row.tests))))
    words = {*told_in(row.subject, row.line), asked_for(row.subject) if is_name(row.subject) else ""}
    return [word for word in sorted(words) if word and _plain(word) not in named]


def _plain(text: str) -> str:
    """Return a text in which a header, a parameter and a class of one name are written alike."""
    return text.lower().replace("-", "").replace("_", "")
