"""The glossary defines each term once, and maps only terms that it defines to those of the field."""

import re
from collections import Counter
from itertools import takewhile

from tests.conventions.documents import text_of

_PAGE = "docs/glossary.md"
_ENTRY = re.compile(r"^- \*\*(?P<term>[^*]+)\*\*: \S", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?P<term>[^*]+)\*\*")


def _terms() -> list[str]:
    return [match["term"].lower() for match in _ENTRY.finditer(text_of(_PAGE))]


def test_every_term_of_the_glossary_is_defined_once() -> None:
    counts = Counter(_terms())
    assert len(counts) > 100
    assert [term for term, count in counts.items() if count > 1] == []


def test_nothing_but_a_defined_term_is_bold_in_the_glossary() -> None:
    bold = [match["term"].lower() for match in _BOLD.finditer(text_of(_PAGE))]
    assert bold == _terms()
    items = [row for row in text_of(_PAGE).splitlines() if row.startswith("- ")]
    assert [row for row in items if not _ENTRY.match(row)] == []


def test_no_group_of_the_glossary_stands_twice() -> None:
    headings = [row for row in text_of(_PAGE).splitlines() if row.startswith("#")]
    assert [heading for heading, count in Counter(headings).items() if count > 1] == []


def test_the_terms_of_the_field_are_mapped_to_defined_terms() -> None:
    _, _, section = text_of(_PAGE).partition("| field | ours | difference |\n")
    rows = [row.strip("|").split("|") for row in takewhile(lambda row: row.startswith("| "), section.splitlines()[1:])]
    assert len(rows) > 20
    defined = {*_terms(), "none"}
    unknown = [
        term
        for _, ours, _ in rows
        for term in re.split(r"[,;] ", re.sub(r"laws? `[^;]*", "", ours).strip())
        if term and term.rstrip(";") not in defined
    ]
    assert unknown == []
    fields = Counter(field.strip() for field, _, _ in rows)
    words = " ".join(fields).lower()
    expected = ("lattice", "taint tracking", "endorsement", "declassification", "noninterference", "reference monitor")
    assert [field for field in expected if field not in words] == []
    assert [field for field, count in fields.items() if count > 1] == []
