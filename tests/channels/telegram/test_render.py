"""Markdown as messages: what is shown, what cannot be clicked, and that nothing is lost or too long."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.messages import FROM_OUTSIDE, OUTSIDE_FILE, Address, Outbound, OutboundKind
from channels.rich_text import is_visible, utf16_units
from channels.telegram.render import (
    LEFT_OUT,
    LONGEST_SOURCE,
    LONGEST_TEXT,
    MOST_ENTITIES,
    Rendering,
    TelegramPart,
    can_be_linked,
    clean,
    compose,
    cut,
    offsets,
    render,
    spelled,
)


@given(st.text())
def test_units_are_those_of_utf_16(text: str) -> None:
    expected = len(text.encode("utf-16-le")) // 2

    assert utf16_units(text) == expected
    assert offsets(text)[-1] == expected
    assert len(offsets(text)) == len(text) + 1


def test_offsets_count_a_pair_as_two() -> None:
    assert offsets("a😀b") == (0, 1, 3, 4)


@pytest.mark.parametrize(
    "given,cleaned",
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x00b\x1f\x7f", "ab"),
        ("tab\tstays\nline", "tab\tstays\nline"),
        ("left\u202eright\u2066x", "leftrightx"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("1\u20652\ufff83\U000e01f0", "123"),
    ],
)
def test_clean_takes_out_what_telegram_takes_out(given: str, cleaned: str) -> None:
    assert clean(given) == cleaned


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b", "\u00a0\u200d"])
def test_nothing_to_see(text: str) -> None:
    assert not is_visible(text)


def test_something_to_see() -> None:
    assert is_visible(" \n.")


@pytest.mark.parametrize(
    "text,end,expected",
    [
        ("one two", 7, 7),  # it all fits
        ("aaaaaaa\n\nbb\ncc dd", 14, 7),  # a paragraph before a line
        ("aa aa\nbb cc", 9, 5),  # a line before a word
        ("aaaaa bbbbb", 9, 5),  # a word
        ("a bbbbbbbbbbbbb", 10, 10),  # no gap in the second half
        ("aaa\n\nbbbbbbbbbbbb", 12, 12),  # a paragraph in the first half is too early
    ],
)
def test_cut_prefers_the_larger_gap(text: str, end: int, expected: int) -> None:
    assert cut(text, 0, end) == expected


@pytest.mark.parametrize(
    "character",
    [
        "👨\u200d👩\u200d👧",  # joined
        "👍🏽",  # with a skin tone
        "e\u0301\u0323",  # with accents
        "❤\ufe0f",  # with a variation selector
        "🏴\U000e0067\U000e0062\U000e007f",  # a region's flag
    ],
)
def test_cut_keeps_a_character_whole(character: str) -> None:
    text = "x" * 20 + character + "y" * 20
    for end in range(20, 20 + len(character) + 1):
        assert cut(text, 0, end) in {20, 20 + len(character)}


def test_cut_keeps_flags_whole() -> None:
    text = "🇩🇪" * 40

    assert all(cut(text, 0, end) % 2 == 0 for end in range(2, 60))


def test_cut_gives_up_on_a_character_without_end() -> None:
    text = "a" + "\u0301" * 500

    assert cut(text, 0, 300) == 300


@given(st.text(alphabet="ab \n\u0301\u200d🇩😀", min_size=2), st.data())
def test_cut_goes_forward(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))

    assert start < cut(text, start, end) <= end


MARKS = (
    *("*", "**", "_", "__", "~~", "`", "``", "```", "\n```\n", "~~~", "[", "](", ")", "![", "<", ">", "\n> ", "\n- "),
    *(
        "\n1. ",
        "\n  - ",
        "\n    ",
        "|",
        "\n|-|-|\n",
        "\n",
        "\n\n",
        " ",
        "\\",
        "#",
        "\n# ",
        '"',
        "'",
        "(",
        "&amp;",
        "&#35;",
    ),
    *(
        "http://",
        "tg://user?id=",
        "javascript:",
        "@everyone",
        "@",
        "/",
        ".de",
        "😀",
        "👨\u200d👩",
        "\u202e",
        "\n---\n",
        ":",
    ),
)
WORDS = st.integers(0, 10**6).map(lambda number: f"w{number}w")
MARKDOWN = st.lists(st.one_of(WORDS, st.sampled_from(MARKS), st.text(max_size=3)), max_size=60).map("".join)
LONG = st.tuples(MARKDOWN, st.integers(1, 60)).map(lambda drawn: drawn[0] * drawn[1])


def shown(part: TelegramPart) -> list[tuple[str, str]]:
    return [(entity.kind, covered(part, entity.offset, entity.length)) for entity in part.entities]


def covered(part: TelegramPart, offset: int, length: int) -> str:
    return part.text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le")


def one(source: str, *, links: bool = True) -> TelegramPart:
    (part,) = render(source, links=links).parts
    return part


def whole(rendering: Rendering) -> str:
    return "\n".join(part.text for part in rendering.parts)


# --- what is shown


@pytest.mark.parametrize(
    "source,text,entities",
    [
        ("plain", "plain", []),
        ("**b** *i* ~~s~~ `c`", "b i s c", [("bold", "b"), ("italic", "i"), ("strikethrough", "s"), ("code", "c")]),
        ("**b *bi* b**", "b bi b", [("bold", "b bi b"), ("italic", "bi")]),
        ("*a**b***__c__", "abc", [("italic", "ab"), ("bold", "b"), ("bold", "c")]),
        ("**a `c` b**", "a c b", [("bold", "a "), ("code", "c"), ("bold", " b")]),
        ("x `  ` y", "x    y", []),
        ("# Head\ntext", "Head\n\ntext", [("bold", "Head")]),
        ("one\ntwo  \nthree\n\nfour", "one\ntwo\nthree\n\nfour", []),
        ("a\n\n---\n\nb", "a\n\n———\n\nb", []),
        ("> q\n> > r\n\n> s", "q\n\nr\n\ns", [("blockquote", "q\n\nr"), ("blockquote", "s")]),
        ("> `c`", "c", [("blockquote", "c"), ("code", "c")]),
        ("- a\n- b\n  - c\n    d\n- e", "• a\n• b\n  • c\n    d\n• e", []),
        ("3. a\n4. b\n\n   more", "3. a\n\n4. b\n\n  more", []),
        ("- \n- x", "•\n• x", []),
        ("- - a", "•\n  • a", []),
        ("- a\n\n  ```\n  code\n  ```", "• a\n\ncode", [("pre", "code")]),
        ("\\\nfoo", "foo", []),
        ("<b>x</b> &amp; y &lt;", "<b>x</b> & y <", []),
        ("[r]: http://a.de", "[r]: http://a.de", []),
        ("x&#8238;y", "xy", []),
        ("```\n", None, []),
        ("", None, []),
        (" \n\u200b", None, []),
    ],
)
def test_markdown_is_shown(source: str, text: str | None, entities: list[tuple[str, str]]) -> None:
    parts = render(source, links=True).parts

    assert [part.text for part in parts] == ([] if text is None else [text])
    assert [found for part in parts for found in shown(part)] == entities


def test_code_block_keeps_its_language_and_indent() -> None:
    part = one("```py\nx = 1\n\n  y\n```")

    assert part.text == "x = 1\n\n  y"
    assert [(entity.kind, entity.language) for entity in part.entities] == [("pre", "py")]


def test_what_stands_behind_a_fence_is_shown_unless_it_names_a_language() -> None:
    assert one("```two words\ncode\n```").text == "two words\ncode"
    assert one("~~~word\n~~~").text == "word"


def test_unclosed_fence_holds_the_rest() -> None:
    assert shown(one("a\n```\nx *y*\n\nz")) == [("pre", "x *y*\n\nz")]


def test_table_is_aligned() -> None:
    part = one("|a|b|\n|-|-|\n|漢字|[l](http://x.de)|\n|`1`|**2**|")

    assert part.text == "a    | b\n-----+----------------\n漢字 | l (http://x.de)\n1    | 2"
    assert shown(part) == [("pre", part.text)]


def test_table_with_more_cells_than_its_head_is_shown_as_written() -> None:
    assert one("|a|\n|-|\n|b|c|").text == "|a|\n|-|\n|b|c|"


def test_table_that_would_grow_is_shown_as_written() -> None:
    source = "|a" * 200 + "|\n" + "|-" * 200 + "|\n" + "|b|\n" * 200

    assert whole(render(source, links=True)).count("|b|") == 200


def test_text_nested_too_deeply_is_shown_as_written() -> None:
    source = "> " * 60 + "deep"

    assert one(source).text == source.strip()


# --- links


def test_link_is_put_under_its_label() -> None:
    part = one("see [the *site*](http://a.de/x?y=1#z) and <https://b.de>")

    assert shown(part) == [("text_link", "the site"), ("italic", "site"), ("text_link", "https://b.de")]
    assert [entity.url for entity in part.entities] == ["http://a.de/x?y=1#z", "", "https://b.de"]
    assert part.plain == "see the site (http://a.de/x?y=1#z) and https://b.de"


def test_code_within_a_link_is_a_link() -> None:
    assert shown(one("[`f`](http://a.de)")) == [("text_link", "f")]


def test_image_is_a_link() -> None:
    assert shown(one("![a cat](http://a.de/c.png)")) == [("text_link", "a cat")]
    assert shown(one("![](http://a.de/c.png)")) == [("text_link", "http://a.de/c.png")]


def test_image_within_a_link_names_its_address() -> None:
    part = one("[![a](http://i.de)](http://h.de)")

    assert part.text == "a (http://i.de)"
    assert ("code", "http://i.de") in shown(part)


def test_title_of_a_link_is_written_out() -> None:
    assert one('[a](http://a.de "the title")').text == "a “the title”"


@pytest.mark.parametrize(
    "address",
    [
        *(
            "tg://user?id=1",
            "TG://user?id=1",
            "tg:user?id=1",
            "ton://x",
            "ftp://a.de",
            "mailto:a@b.de",
            "/path",
            "a.de",
        ),
        *(
            "http://localhost",
            "http://",
            "http://a.de:port",
            "http://a.de:0",
            "http://u@a.de",
            "http://a_b.de",
        ),
        "http://a.de/" + "x" * 2048,
    ],
)
def test_address_that_is_not_of_the_web_is_shown_as_code(address: str) -> None:
    part = one(f"[label]({address})")

    assert "text_link" not in {entity.kind for entity in part.entities}
    assert any(kind == "code" and address.lower() in text.lower() for kind, text in shown(part))
    assert part.text.startswith("label (")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "vbscript:x"])
def test_address_that_runs_is_text(address: str) -> None:
    assert one(f"[label]({address})").entities == ()


@pytest.mark.parametrize("text", ["tg://user?id=1", "xtg://user?id=1", "@everyone", "(@HERE)", "t**g:**//user?id=1"])
def test_what_would_come_alive_by_itself_is_code(text: str) -> None:
    part = one(text)

    assert [kind for kind, _ in shown(part)] == ["code"]
    assert "tg://" not in part.plain
    assert "@" not in part.plain


def test_broken_address_is_no_link() -> None:
    assert not can_be_linked("http://[::1")


def test_empty_address() -> None:
    assert one("[a]() []()").text == "a"


@pytest.mark.parametrize(
    "text",
    [
        *("[a](http://a.de)", "http://a.de", "a.de/x", "<http://a.de>", "x@a.de", "@name", "#tag", "$TAG", "/start"),
        *("192.168.0.1", "[*a*](tg://user?id=1)", "a.**de**", "![x](http://a.de)", "/start@bot", "<x@a.de>"),
    ],
)
def test_nothing_can_be_clicked_without_links(text: str) -> None:
    part = one(text, links=False)

    assert {entity.kind for entity in part.entities} <= {"code", "italic"}
    code = [covered(part, entity.offset, entity.length) for entity in part.entities if entity.kind == "code"]
    assert len(code) == 1
    assert len(part.plain) == len(part.text)
    assert not any(sign in part.plain for sign in ("://", ".de", "@", "#", "$", "/"))


@pytest.mark.parametrize("text", ["3.14", "and/or", "e.g. this", "v1.2", "50 %", "a - b", "wait..."])
def test_ordinary_words_are_left_alone_without_links(text: str) -> None:
    part = one(text, links=False)

    assert part.entities == ()
    assert part.plain == text


def test_plain_leaves_addresses_out_where_there_is_no_room() -> None:
    part = one("[a](http://a.de) " + "x" * 4090)

    assert part.plain == part.text


# --- parts


def test_long_text_is_cut_between_paragraphs() -> None:
    parts = render("\n\n".join(["word " * 300] * 5), links=True).parts

    assert [len(part.text) for part in parts] == [2999 + 1, 2999 + 1, 1499]
    assert all(part.text.startswith("word") and part.text.endswith("word") for part in parts)


def test_long_line_is_cut_between_words() -> None:
    parts = render("word " * 2000, links=True).parts

    assert all(part.text.startswith("word") and part.text.endswith("word") for part in parts)


def test_text_is_never_cut_within_a_pair() -> None:
    parts = render("x" + "😀" * 5000, links=True).parts

    assert "".join(part.text for part in parts) == "x" + "😀" * 5000
    assert all(utf16_units(part.text) <= LONGEST_TEXT for part in parts)


def test_code_block_stays_whole_where_it_can() -> None:
    code = "line\n" * 500
    parts = render("text\n" * 400 + f"\n```py\n{code}```\nafter", links=True).parts

    assert [entity.kind for entity in parts[0].entities] == []
    assert shown(parts[1])[0] == ("pre", code.rstrip())


def test_code_block_that_is_too_long_goes_on_in_the_next_part() -> None:
    parts = render("```py\n" + "  line of code\n" * 700 + "```\nafter", links=True).parts

    assert [[(entity.kind, entity.language) for entity in part.entities] for part in parts] == [[("pre", "py")]] * 3
    assert all(part.text.startswith("  line") for part in parts)


def test_entities_beyond_a_hundred_go_into_the_next_part() -> None:
    parts = render(" ".join(["**b**"] * 250), links=True).parts

    assert max(len(part.entities) for part in parts) == MOST_ENTITIES
    assert sum(len(part.entities) for part in parts) == 250


def test_quotation_that_goes_on_is_an_entity_of_each_part() -> None:
    parts = render("> " + " ".join(["**b**"] * 250), links=True).parts

    assert max(len(part.entities) for part in parts) == MOST_ENTITIES
    assert all(part.entities[0].kind == "blockquote" for part in parts)


def test_many_parts_are_better_a_file() -> None:
    assert not render("word " * 8000, links=True).as_file
    assert render("# a\n\n" + "**b** " * 6000, links=True).as_file


def test_source_that_is_too_long_is_not_read_as_markdown() -> None:
    rendering = render("**b** http://a.de tg://user?id=1\n" * (LONGEST_SOURCE // 20), links=False)

    assert rendering.parts[0].text.startswith("**b** http://a.de tg://user?id=1")
    assert {entity.kind for entity in rendering.parts[0].entities} == {"code"}


@given(LONG, st.booleans())
def test_every_part_is_within_limits(source: str, links: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
    for part in render(source, links=links).parts:
        assert is_visible(part.text)
        assert utf16_units(part.text) <= LONGEST_TEXT
        assert utf16_units(part.plain) <= LONGEST_TEXT
        assert is_visible(part.plain)
        assert len(part.entities) <= MOST_ENTITIES


@given(LONG, st.booleans())
def test_entities_are_valid_sorted_and_nested(source: str, links: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
    for part in render(source, links=links).parts:
        assert [entity.offset for entity in part.entities] == sorted(entity.offset for entity in part.entities)
        ends: list[int] = []
        for entity in part.entities:
            text = covered(part, entity.offset, entity.length)  # raises within a pair
            assert text
            assert not text.isspace()
            assert 2 * (entity.offset + entity.length) <= len(part.text.encode("utf-16-le"))
            while ends and ends[-1] <= entity.offset:
                ends.pop()
            assert not ends or entity.offset + entity.length <= ends[-1]
            ends.append(entity.offset + entity.length)
            assert entity.kind != "text_link" or links


@given(MARKDOWN, st.booleans())
def test_every_written_word_is_seen(source: str, links: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
    rendering = render(source, links=links)
    addresses = [entity.url + entity.language for part in rendering.parts for entity in part.entities]
    seen = whole(rendering).replace("\n", "") + " ".join(addresses)

    assert all(f"w{number}w" in seen for number in source.split("w") if number.isdigit() and f"w{number}w" in source)


# --- hostile sources


def bomb(pattern: str) -> Callable[[int], str]:
    return lambda size: (pattern * (size // len(pattern) + 1))[:size]


BOMBS: dict[str, Callable[[int], str]] = {
    pattern: bomb(pattern)
    for pattern in (
        *(
            "*",
            "_",
            "~~a ",
            "*a _b ",
            "a**b",
            "**a *b ",
            "*_",
            "[",
            "![",
            "[a](",
            "[a](<b",
            '[a](b "',
            "](",
            "`a",
            "` ",
        ),
        *(
            ">",
            "> ",
            "- ",
            "<",
            "<!--",
            "<?",
            "a <!A ",
            "&",
            "&#",
            "\\",
            "|a",
            "|a|b|\n",
            "\n",
            "---\n",
            "> a\n",
            "[a]: <",
        ),
        *("1. ", "**a**", "a" * 40 + "://", "http://", "@", "a.", "/", "\u0301", "🇩", "```\n", "[**a**](http://a.de)"),
    )
}
BOMBS["ticks"] = lambda size: "".join("e" + "`" * width for width in range(int((2 * size) ** 0.5)))
BOMBS["table"] = lambda size: "|a" * (size // 8) + "|\n" + "|-" * (size // 8) + "|\n" + "|b|\n" * (size // 8)
BOMBS["cell"] = lambda size: "|a|\n|-|\n|" + "x" * (size // 2) + "|\n" + "|b|\n" * (size // 8)
BOMBS["label"] = lambda size: "[" + "**a** " * (size // 12) + "](http://a.de/" + "x" * (size // 2) + ")"
BOMBS["lists"] = lambda size: "\n".join(" " * (line % 40) + "- a" for line in range(size // 20))


def steps(work: Callable[[], Any]) -> int:
    """Count the lines of Python that a piece of work runs."""
    counted = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Any:  # noqa: ANN401 - as `sys.settrace` has it
        nonlocal counted
        counted += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_source_takes_linear_time(name: str) -> None:
    render("warm *up*", links=False)
    small, large = (steps(lambda size=size: render(BOMBS[name](size), links=False)) for size in (800, 3_200))

    assert large <= 4.6 * small + 20_000


@pytest.mark.parametrize("name", ["*", "[", "> ", "table", "http://", "\u0301"])
def test_hostile_source_of_200_kb_is_shown_as_it_is(name: str) -> None:
    source = BOMBS[name](200_000)
    rendering = render(source, links=False)

    assert rendering.as_file or not is_visible(source)
    assert all(utf16_units(part.text) <= LONGEST_TEXT for part in rendering.parts)


HOME = Address("telegram", "5")
ASKED = 'May `message` run?\n{"text": "**all** of [this](https://a.example) `really`"}'


@pytest.mark.parametrize("kind", [OutboundKind.QUESTION, OutboundKind.NOTICE])
def test_what_people_are_asked_about_is_shown_as_it_is_written(kind: OutboundKind) -> None:
    (part,) = compose(Outbound(HOME, ASKED, "k", kind)).parts
    assert part.text == ASKED
    assert not {entity.kind for entity in part.entities} & {"bold", "text_link"}


@pytest.mark.parametrize("kind", [OutboundKind.ANSWER, OutboundKind.MESSAGE])
def test_what_an_agent_writes_is_formatted(kind: OutboundKind) -> None:
    (part,) = compose(Outbound(HOME, "**all** of this", "k", kind)).parts
    assert part.text == "all of this"
    assert [entity.kind for entity in part.entities] == ["bold"]


def test_the_line_above_the_file_of_a_question_is_as_it_is_written() -> None:
    made = compose(Outbound(HOME, "send **~~all~~** of it\n" + "x " * 60_000, "k", OutboundKind.QUESTION))
    assert (made.parts[0].text, bool(made.file)) == ("send **~~all~~** of it", True)


@pytest.mark.parametrize("length, whole", [(LONGEST_TEXT, True), (50 * LONGEST_TEXT, False)])
def test_a_text_whose_file_is_refused_is_said_and_that_the_rest_is_left_out(length: int, *, whole: bool) -> None:
    made = spelled(Outbound(Address("telegram", "7"), "x" * length, "k"))
    assert not made.file
    assert (made.parts[-1].text == LEFT_OUT) is not whole


@given(LONG, st.booleans())
def test_a_mark_stands_above_every_part_and_changes_no_word(source: str, links: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
    marked = render(source, links=links, mark=FROM_OUTSIDE).parts
    for part in marked:
        assert part.text.startswith(f"{FROM_OUTSIDE}\n")
        assert part.plain.startswith(f"{FROM_OUTSIDE}\n")
        assert utf16_units(part.text) <= LONGEST_TEXT
        assert utf16_units(part.plain) <= LONGEST_TEXT
        assert len(part.entities) <= MOST_ENTITIES
        first, *others = part.entities
        assert covered(part, first.offset, first.length) == FROM_OUTSIDE
        assert all(entity.offset > first.length for entity in others)
    said = "".join(part.text.removeprefix(f"{FROM_OUTSIDE}\n") for part in marked)
    assert said.split() == "".join(part.text for part in render(source, links=links).parts).split()


def test_a_file_from_outside_is_named_so_and_stands_below_the_mark() -> None:
    made = compose(Outbound(HOME, "pay now\n" + "x " * 60_000, "k", OutboundKind.MESSAGE, untrusted=True))
    assert made.name == OUTSIDE_FILE
    assert made.parts[0].text == f"{FROM_OUTSIDE}\npay now"
    (part,) = spelled(Outbound(HOME, "pay now", "k", untrusted=True)).parts
    assert part.text == f"{FROM_OUTSIDE}\npay now"
