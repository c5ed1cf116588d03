"""A file is called by a name of one line that leads nowhere, whatever its sender calls it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.admission.names import NAMELESS, safe_name


@pytest.mark.parametrize(
    "name,safe",
    [
        ("report.pdf", "report.pdf"),
        ("Bericht für Ärzte (2).PDF", "Bericht für Ärzte (2).PDF"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/", NAMELESS),
        ("", NAMELESS),
        ("..", NAMELESS),
        (".hidden", "hidden"),
        ("...", NAMELESS),
        ("a/b/", "b"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("a\nb\t c.txt", "a b c.txt"),
        ("\x00\x1b[31mred.txt", "31mred.txt"),
        ("`rm` [x](y) <b>.md", "rm x(y) b.md"),
        ("archive.tar.gz", "archive.tar.gz"),
        ("ends.in a sentence", "ends.in a sentence"),
        ("\ud800.txt", "txt"),
    ],
)
def test_what_a_file_is_called(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_a_long_name_keeps_its_ending() -> None:
    assert safe_name("x" * 300 + ".pdf") == "x" * 97 + ".pdf"
    wide = safe_name("\U0001f600" * 300 + ".pdf")
    assert wide.endswith(".pdf")
    assert len(wide.encode()) <= 180


@given(st.text(max_size=400))
def test_every_name_is_one_of_a_file(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert safe.isprintable()
    assert safe[0] not in ". "
    assert len(safe.encode()) <= 180
    assert not set(safe) & set("/\\`[]<>")
    assert not any(unicodedata.category(char) in {"Cf", "Cc", "Cs"} for char in safe)
    assert safe_name(safe) == safe
