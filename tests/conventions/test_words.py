"""A planted breach of each kind in each sort of text is found; `poe lint` holds what is written to the budget."""

from pathlib import Path

import pytest

from tests.conventions.source import Module
from tests.conventions.texts import of_module, of_other
from tests.conventions.words import budget, differences, judged, lowered

ROOT = Path(__file__).parents[2]
LONG = " ".join(["word"] * 31)
SHOWN = " ".join(["word"] * 21)


def found_in_page(text: str, name: str = "docs/page.md") -> list[str]:
    return [finding.kind for sentence in of_other(name, name, text) for finding in judged(sentence)]


def found_in_source(code: str) -> list[tuple[str, str]]:
    module = Module("bot.core.planted", "bot/core/planted.py", code)
    return [(finding.sentence.area, finding.kind) for sentence in of_module(module) for finding in judged(sentence)]


@pytest.mark.parametrize(
    "text, kind",
    [
        ("Labels of what was read rise.", "headless"),
        ("What is held stays there.", "headless"),
        ("It is told that what was read is gone.", "headless"),
        ("Ask whoever wrote it.", "headless"),
        ("Somebody who reads there may answer.", "headless"),
        ("It goes to nobody else than the owner.", "headless"),
        ("No one of them reads it.", "headless"),
        ("The sender sees his own messages.", "pronoun"),
        ("The person of whom this is known.", "pronoun"),
        (f"{LONG}.", "long"),
        (f"A sentence before. {LONG}", "long"),
        (f"- a short item\n- {LONG}", "long"),
        (f"| a | b |\n|---|---|\n| x | {LONG} |", "long"),
        ("| a | b |\n|---|---|\n| x | what is held |", "headless"),
        ("## What is held", "headless"),
        ("[what is held](held.md) waits.", "headless"),
    ],
)
def test_a_breach_in_a_page_is_found(text: str, kind: str) -> None:
    assert found_in_page(text) == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "What does it do?",
        "The page says what to do, and it tells them what happened.",
        "Somebody reads it, and nobody answers.",
        "The variable `what` and `whoever` and `his` are code.",
        f"```\n{LONG} what is held\n```",
        f"- {' '.join(['word'] * 20)}\n- {' '.join(['word'] * 20)}",
        f"| {' '.join(['word'] * 20)} | {' '.join(['word'] * 20)} |",
        f"Such a sentence uses `{LONG}` as one word.",
        "They answer; their messages stay.",
    ],
)
def test_plain_words_in_a_page_are_no_finding(text: str) -> None:
    assert found_in_page(text) == []


@pytest.mark.parametrize(
    "code, area, kind",
    [
        ('TOLD = "what is held stays"', "shown", "headless"),
        ('def told(name: str) -> str:\n    return f"{name} keeps what they said"', "shown", "headless"),
        ("def told(name: str) -> str:\n    return f\"said: {f'{name} keeps what they said'}\"", "shown", "headless"),
        ('TOLD = (\n    "the sender and "\n    "his own words"\n)', "shown", "pronoun"),
        (f'TOLD = "{SHOWN}"', "shown", "long"),
        ('@app.command("x")\ndef x() -> None:\n    """Show what is held."""', "shown", None),
        ('@app.command("x")\ndef x() -> None:\n    """Drop what is held."""', "shown", "headless"),
        ('def x(a: Annotated[str, Option(help="drop what is held")]) -> None: ...', "shown", "headless"),
        ('"""Keeps what was read."""', "docstrings", "headless"),
        (f'"""{LONG}."""', "docstrings", "long"),
        ('class Held:\n    text: str\n    """What was held."""', "docstrings", "headless"),
        (f'def x(a: int) -> None:\n    """Do it.\n\n    Args:\n        a: {LONG}\n    """', "docstrings", "long"),
        ("# whoever reads this", "comments", "headless"),
        ("X = 1  # of what was read", "comments", "headless"),
        (f"# {' '.join(['word'] * 16)}\n# {' '.join(['word'] * 16)}", "comments", "long"),
        ('X = "# what is held is a text"', "shown", "headless"),
    ],
)
def test_a_breach_in_source_is_found(code: str, area: str, kind: str | None) -> None:
    assert found_in_source(code) == ([] if kind is None else [(f"{area}/bot/core", kind)])


@pytest.mark.parametrize(
    "code",
    [
        'import re\nLOOK = re.compile(r"(what is held|by whom)")',
        'WORDS = frozenset("he she him his what".split())',
        'X = "what"',
        "X = 1  # noqa: E501 - what is long",
        f'"""{" ".join(["word"] * 20)}.\n\n{" ".join(["word"] * 20)}."""',
        f"# {' '.join(['word'] * 16)}\nX = 1\n# {' '.join(['word'] * 16)}",
    ],
)
def test_what_is_no_message_is_not_judged(code: str) -> None:
    assert found_in_source(code) == []


@pytest.mark.parametrize(
    "name, text",
    [
        ("bot/store/scripts/planted.lua", "local x = 1 -- what is held\n"),
        ("config.yaml", "key: value # what is held\n"),
        ("config.yaml", "# his own words\n"),
    ],
)
def test_a_breach_in_a_comment_of_another_language_is_found(name: str, text: str) -> None:
    assert len(found_in_page(text, name)) == 1


def test_a_count_that_differs_is_told_with_the_next_step() -> None:
    allowed = {"docs/page.md": (1, 0, 2)}
    assert differences({"docs/page.md": (1, 0, 2)}, allowed) == []
    assert "rewrite" in differences({"docs/page.md": (2, 0, 2)}, allowed)[0]
    assert "--lower" in differences({"docs/page.md": (1, 0, 1)}, allowed)[0]
    assert "rewrite" in differences({"docs/new.md": (1, 0, 0), **allowed}, allowed)[0]
    assert len(differences({}, allowed)) == 2


def test_a_budget_falls_and_never_rises() -> None:
    text = lowered({"docs/a.md": (1, 5, 0), "docs/new.md": (9, 9, 9)}, {"docs/a.md": (2, 3, 0), "docs/b.md": (1, 0, 0)})
    assert '"docs/a.md" = [1, 3, 0]' in text
    assert "docs/b.md" not in text
    assert "docs/new.md" not in text


def test_shown_messages_have_no_budget() -> None:
    assert [area for area in budget(ROOT) if area.startswith("shown/")] == []
