"""Redaction: what is found, what is left, how often, how fast, whatever the text."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policy.redaction.patterns import NAMES
from policy.redaction.redactor import Redactor, fault, searcher

PLAIN = Redactor()
OWN = Redactor({"falcon": "(?i)falcon", "letters": "[a-f]+", "cut": r"x\C", "edge": r"\bq\b|q", "long": "(?s)<<.*>>"})
PIECES = (
    "4111 1111 1111 1111",
    "4111-1111",
    "DE89 3704 0044 0532 0130 00",
    "536-90-4399",
    "+1 202 555 0143",
    "(555) 123-4567",
    "ann@example.org",
    "AKIAABCDEFGHIJKLMNOP",
    "api_key=hunter2222",
    "-----BEGIN PRIVATE KEY-----\nabc",
    "[redacted: email]",
    "[redacted: ",
    "]",
    "falcon",
    "<<",
    ">>",
    " ",
    "\n",
    "\0",
    "\ud800",
    "é",
    "x☃",
    "7",
    "00",
    "ssn ",
    "token: ",
)


@pytest.mark.parametrize("redactor", [PLAIN, OWN], ids=["built-in", "configured"])
@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join), data=st.data())
def test_redacting_twice_changes_nothing_and_leaves_nothing(redactor: Redactor, text: str, data: st.DataObject) -> None:
    names = data.draw(st.frozensets(st.sampled_from(sorted(redactor.names)), min_size=1))
    once = redactor.redact(text, names)
    assert redactor.redact(once, names) == once
    assert not redactor.scan(once, names)
    if not redactor.scan(text, names):
        assert once == text


@given(st.text(), st.text(), st.sampled_from(("\n", " | ", "\ud800", "☃")))
@example("4", "1", " ")
@settings(deadline=None)
def test_what_stands_around_is_left_as_it_is(before: str, after: str, edge: str) -> None:
    text = f"{before}{edge}ann@example.org{edge}{after}"
    redacted = PLAIN.redact(text, ("email",))
    if PLAIN.scan(before, ("email",)) or PLAIN.scan(after, ("email",)) or "@" in before + after:
        return
    assert "ann@example.org" not in redacted
    assert redacted.startswith(before), ascii(redacted)
    assert redacted.endswith(after), ascii(redacted)


def test_only_what_is_named_is_replaced() -> None:
    text = "ann@example.org has 4111 1111 1111 1111"
    assert PLAIN.scan(text) == {"email", "payment-card"}
    assert PLAIN.scan(text, ("email",)) == {"email"}
    assert PLAIN.redact(text, ("email",)) == "[redacted: email] has 4111 1111 1111 1111"
    assert PLAIN.redact(text, NAMES) == "[redacted: email] has [redacted: payment-card]"
    assert PLAIN.redact(text, ()) == text


def test_an_unknown_name_redacts_everything() -> None:
    assert PLAIN.redact("anything at all", ("email", "no-such")) == "[redacted: no-such]"


def test_a_marker_is_kept_and_one_of_an_unknown_name_is_text() -> None:
    assert OWN.redact("[redacted: falcon] FALCON", ("falcon",)) == "[redacted: falcon] [redacted: falcon]"
    assert OWN.redact("[redacted: falconry]", ("falcon",)) == "[redacted: [redacted: falcon]ry]"
    assert OWN.scan("[redacted: letters] xyz", ("letters",)) == frozenset()
    assert OWN.redact("ab[redacted: letters]cd", ("letters",)) == "[redacted: letters]" * 3
    assert Redactor({"any": "(?s).+"}).redact("a[redacted: any]b", ("any",)) == "[redacted: any]" * 3


def test_overlapping_finds_become_one_marker() -> None:
    both = Redactor({"first": "abc", "second": "bcd", "third": "e"})
    assert both.redact("abcde", ("first", "second", "third")) == "[redacted: first][redacted: third]"
    assert both.redact("abcabc", ("first",)) == "[redacted: first]"


def test_single_bytes_take_their_character_along() -> None:
    assert OWN.redact("ax☃b", ("cut",)) == "a[redacted: cut]b"
    assert Redactor({"byte": r"\C"}).redact("☃", ("byte",)) == "[redacted: byte]"
    assert Redactor({"tail": r"\x{2603}"}).redact("a☃", ("tail",)) == "a[redacted: tail]"


def test_what_matches_only_beyond_any_window_redacts_everything() -> None:
    text = "a<<" + "-" * 20_000 + ">>b"
    assert OWN.scan(text, ("long",)) == {"long"}
    assert OWN.redact(text, ("long",)) == "[redacted: long]"
    assert OWN.redact("a<<->>b", ("long",)) == "a[redacted: long]b"


@pytest.mark.parametrize("offset", [0, 4000, 4090, 4096, 6140, 8190, 12_000])
def test_windows_cut_nothing(offset: int) -> None:
    digits = Redactor({"digits": "[0-9]{4,16}"})
    text = "." * offset + "1234567890123456" + "." * 9000
    assert digits.redact(text, ("digits",)) == "." * offset + "[redacted: digits]" + "." * 9000
    assert digits.redact("1" * 16_000, ("digits",)) == "[redacted: digits]"


def test_what_only_exists_between_characters_redacts_everything_once() -> None:
    between = Redactor({"between": r"\b"})
    assert between.redact("a b", ("between",)) == "[redacted: between]"
    assert between.redact("[redacted: between]", ("between",)) == "[redacted: between]"


def test_one_replacement_may_bring_the_next_to_light() -> None:
    nested = Redactor({"inner": "_", "outer": r"\Aab|\](?:cd)\z"})
    assert nested.redact("ab_cd", ("inner", "outer")) == "[redacted: outer][redacted: inner][redacted: outer]"


def test_what_never_comes_to_an_end_redacts_everything() -> None:
    endless = Redactor({"endless": r"\][^\[\]]|\A[^\[]"})
    assert endless.redact("abcdefgh", ("endless",)) == "[redacted: endless]"


def test_a_hundred_configured_patterns_of_the_largest_size_fit() -> None:
    largest = r"\pL[a-z]{750}"
    assert fault(largest) is None
    many = Redactor({f"own-{number}": f"{number}{largest}" for number in range(100)})
    assert many.scan("7é" + "a" * 750 + " ann@example.org") == {"own-7", "email"}


@pytest.mark.parametrize(
    "text, begins",
    [
        ("(", "is not an RE2 pattern: missing"),
        (r"(?=a)", "is not an RE2 pattern: invalid"),
        (r"(a)\1", "is not an RE2 pattern: invalid"),
        ("\ud800", "holds characters"),
        ("a*", "matches the empty text"),
        ("", "matches the empty text"),
        (r"\pL{1,900}", "is not an RE2 pattern|is too large"),
        (r"\pL\pL", "is too large"),
    ],
    ids=ascii,
)
def test_a_pattern_that_cannot_run_is_refused(text: str, begins: str) -> None:
    wrong = fault(text) or ""
    assert any(wrong.startswith(beginning) for beginning in begins.split("|"))


def test_a_pattern_that_can_run_is_not() -> None:
    assert fault(r"(?i)project-\d{4}") is None


def _hostile() -> Iterator[tuple[str, str]]:
    yield "spaces after a name", "api_key" + " " * 1000
    yield "digits", "4"
    yield "digit pairs", "4 1 "
    yield "card groups", "4111 "
    yield "half addresses", "a@"
    yield "addresses", "a@b.co "
    yield "plus signs", "+1"
    yield "phones", "+1 202 555 0143 "
    yield "countries", "ab12 "
    yield "accounts", "DE89370400440532013000 "
    yield "social security", "123-45-6789, "
    yield "key heads", "-----BEGIN PRIVATE KEY-----"
    yield "dashes", "-"
    yield "token heads", "eyJ"
    yield "assignments", "token:"
    yield "open quotes", 'pwd="aaaa '
    yield "addresses with passwords", "://a:b"
    yield "markers", "[redacted: email]"
    yield "nul", "\0"
    yield "surrogates", "\ud800"
    yield "configured", "abz"
    yield "greedy", "<<"


@pytest.mark.parametrize("piece", [pytest.param(piece, id=name) for name, piece in _hostile()])
def test_time_is_linear_in_hostile_text(piece: str) -> None:
    seconds: list[float] = []
    for size in (8_000, 64_000):
        text = (piece * (size // len(piece) + 1))[:size]
        began = time.process_time()
        OWN.redact(text, OWN.names)
        seconds.append(time.process_time() - began)
    # eight times the text in at most sixteen times the processor time, of which half a second may be imports
    assert seconds[1] < 16 * seconds[0] + 0.5


@pytest.mark.parametrize(
    "pattern", ["(x+x+)+y", "(?:a?){100}a{100}", "(a|aa)+b", "a(.*b)?", "(.*){10}c", "[ab]*a[ab]{20}c"]
)
def test_time_is_linear_in_pathological_patterns(pattern: str) -> None:
    assert fault(pattern) is None
    redactor = Redactor({"own": pattern})
    for piece in ("x", "a", "ab"):
        began = time.process_time()
        redactor.redact(piece * (50_000 // len(piece)), ("own",))
        assert time.process_time() - began < 10


def test_more_matches_than_the_budget_pays_for_take_the_rest_along() -> None:
    letter = Redactor({"z": "z"})
    redacted = letter.redact("z." * 20_000, ("z",))
    assert redacted.count(".") < 20_000
    assert "z" not in redacted.replace("[redacted: z]", "")
    assert letter.redact("z." * 1000, ("z",)) == "[redacted: z]." * 1000


def test_a_secret_of_any_characters_is_replaced_to_its_last_one() -> None:
    text = "é api_key=hünter2☃22 ü"
    assert PLAIN.redact(text, ("secret",)) == "é api_key=[redacted: secret] ü"


BROKEN = "ghp_" + "a1" * 9 + "\n" + "a1" * 9


@pytest.mark.parametrize("offset", [0, 500, 990, 1000, 1020, 1024, 1500, 2040])
def test_a_broken_token_is_found_wherever_it_stands(offset: int) -> None:
    filler = "word " * (offset // 5)
    assert PLAIN.redact(f"{filler}{BROKEN} and", ("secret",)) == f"{filler}[redacted: secret] and"


def test_a_broken_token_that_is_longer_than_is_looked_at_goes_in_part_and_many_cost_no_more() -> None:
    long = "ghp_" + "a1b2\n" * 600
    assert PLAIN.redact(long, ("secret",)).startswith("[redacted: secret]")
    assert PLAIN.scan("ghp_" + "ab\n" * 600, ("secret",)) == frozenset()
    assert PLAIN.redact("hf_a1\n" * 20_000, ("secret",)).endswith("[redacted: secret]")


def test_what_is_written_with_other_characters_is_replaced_where_it_stands() -> None:
    assert PLAIN.redact("é \uff14111\u200b1111 11111111\u200b ü", ("payment-card",)) == (
        "é [redacted: payment-card]\u200b ü"
    )
    own = Redactor({"wide": "\uff21", "narrow": "A"})
    assert own.scan("\uff21") == {"wide", "narrow"}
    assert own.scan("\uff21", ("wide",)) == {"wide"}
    assert own.redact("é\uff21", ("wide",)) == "é[redacted: wide]"
    assert own.scan("b\uff22\x00", ("narrow",)) == frozenset()


def test_a_pattern_of_one_value_is_searched_for_and_may_match_the_empty_text() -> None:
    assert [searcher("^[a-z]*$")(text) for text in ("", "ab", "a1", "ab\n")] == [True, True, False, False]
    with pytest.raises(ValueError, match="is not an RE2 pattern"):
        searcher("(?=a)")
