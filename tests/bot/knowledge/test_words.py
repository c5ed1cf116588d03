"""Words as texts are compared by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.knowledge.index import phrases
from bot.knowledge.words import asked_for, significant, stem


@pytest.mark.parametrize(
    "forms, expected",
    [
        ("meet meeting meetings", "meet"),
        ("report reports reported reporting", "report"),
        ("note notes noted", "not"),
        ("run running", "run"),
        ("summary summaries", "summary"),
        ("class classes", "class"),
        ("tell telling", "tell"),
        ("week weekly", "week"),
        ("ring", "ring"),
        ("bee", "bee"),
        ("süß", "süß"),
    ],
)
def test_forms_of_a_word_are_alike(forms: str, expected: str) -> None:
    assert {stem(form) for form in forms.split()} == {expected}


def test_what_any_text_has_says_nothing() -> None:
    found = significant("The Reports of 2024 go to you, and reporting is done by 5pm on 17 Fridays.")
    assert dict(found) == {"report": "reports", "5pm": "5pm", "friday": "fridays"}
    assert list(significant("金庫の中 safe")) == ["金 庫", "庫 の", "の 中", "saf"]
    assert significant("金庫")["金 庫"] == "金庫"
    assert not significant(" …! \ud800 ")


def test_a_query_has_no_words_that_any_text_has() -> None:
    assert asked_for("Draft the Q1 report, as of 2024, for Bea") == "Draft Q1 report 2024 Bea"
    assert phrases(asked_for("金庫の中")) == phrases("金庫の中")
    assert asked_for("to be or not to be") == ""


@given(st.text())
def test_any_text_has_words(text: str) -> None:
    for short, word in significant(text).items():
        assert short
        assert word
        assert "-" not in word
        assert not any(char.isspace() for char in word)
