"""What a model writes, as Slack shows it: complete, within limits, mentioning nobody, linking only what we link."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from channels.messages import FROM_OUTSIDE, OUTSIDE_FILE, Address, Button, Outbound, OutboundKind
from channels.rich_text import utf16_units
from channels.slack.render import (
    ACTION,
    EMPTY,
    LEFT_OUT,
    LONGEST_ACTIONS,
    LONGEST_BLOCKS,
    LONGEST_LINK,
    LONGEST_TEXT,
    MOST_BLOCKS,
    MOST_PARTS,
    QUIET,
    REPEATED,
    Rendered,
    SlackPart,
    compose,
    escaped,
    preformatted,
    render,
    spelled,
)
from tests.channels.hostile import REPEATED as BOMBS
from tests.channels.steps import steps
from tests.sim.slack_blocks import check_message, clickable, notified
from tests.sim.slack_blocks import shown as words

MARKDOWN = st.lists(
    st.one_of(st.sampled_from([*BOMBS, "word ", "\n\n", "- ", "2. ", "> "]), st.text(max_size=8)), max_size=60
).flatmap(lambda bits: st.tuples(st.just("".join(bits)), st.sampled_from([1, 1, 5, 60])).map(lambda of: of[0] * of[1]))


def nodes(part: SlackPart) -> Iterator[dict[str, Any]]:
    """Yield every element of the blocks."""
    waiting: list[dict[str, Any]] = list(part.blocks)
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting[:0] = node.get("elements", ())


def shown(rendered: Rendered) -> str:
    return "".join(node["text"] for part in rendered.parts for node in nodes(part) if "text" in node)


def kinds(markdown: str, *, links: bool = True) -> list[str]:
    return [node["type"] for part in render(markdown, links=links).parts for node in part.blocks[0]["elements"]]


def letters(text: str) -> list[str]:
    return [char for char in text if char.isalpha()]


@given(MARKDOWN, st.booleans())
@example(markdown="> - - a\n" * 60, links=False)
def test_every_part_is_within_limits(markdown: str, links: bool) -> None:  # noqa: FBT001 - Hypothesis passes it
    rendered = render(markdown, links=links)
    for part in rendered.parts:
        assert len(part.blocks) <= MOST_BLOCKS
        assert utf16_units(json.dumps(part.blocks, ensure_ascii=False)) <= LONGEST_BLOCKS
        assert 0 < utf16_units(part.text) <= LONGEST_TEXT
        part.text.encode()
        for node in nodes(part):
            assert node.get("text", "x")
            assert node.get("elements", ["x"])
            assert len(node.get("url", "")) <= LONGEST_LINK
    assert rendered.as_file == (len(rendered.parts) > MOST_PARTS)


@given(MARKDOWN, st.booleans())
def test_nothing_can_mention_anybody(markdown: str, links: bool) -> None:  # noqa: FBT001 - Hypothesis passes it
    for part in render(markdown, links=links).parts:
        assert {node["type"] for node in nodes(part)} <= {
            *("rich_text", "rich_text_section", "rich_text_list", "rich_text_quote", "rich_text_preformatted"),
            *("text", "link"),
        }
        assert "<" not in part.text
        assert ">" not in part.text
        assert not re.search(r"&(?!(?:amp|lt|gt);)", part.text)
        assert not re.search(r"@\w", part.text)


@given(MARKDOWN)
def test_without_links_nothing_can_be_clicked(markdown: str) -> None:
    for part in render(markdown, links=False).parts:
        for node in nodes(part):
            assert node["type"] != "link"
            if "://" in node.get("text", "") and node["type"] == "text":
                inside = any(node in outer.get("elements", ()) for outer in nodes(part) if "pre" in outer["type"])
                assert inside or node["style"]["code"]
        # one fence, from the first character to the last, and nothing that closes it between
        assert part.text.startswith("```\n")
        assert part.text.endswith("\n```")
        assert "```" not in part.text[3:-3]


@given(MARKDOWN)
def test_links_are_web_or_mail_addresses(markdown: str) -> None:
    for part in render(markdown, links=True).parts:
        assert all(node["url"].startswith(("http", "HTTP", "mailto:")) for node in nodes(part) if "url" in node)


@given(st.text(alphabet="ab *_~#>-\n\t😀漢é<!@\\", max_size=300), st.sampled_from([1, 40]), st.booleans())
def test_the_letters_of_the_input_are_kept(bit: str, times: int, links: bool) -> None:  # noqa: FBT001 - Hypothesis
    # But for the language that a fence names, which is not shown.
    assume("~~~" not in bit * times)
    rendered = render(bit * times, links=links)
    assert letters(shown(rendered)) == letters(bit * times)
    text = "".join(part.text for part in rendered.parts)
    assert letters(text.replace("&lt;", "<").replace("&gt;", ">")) == letters(bit * times)


def test_a_fence_with_nothing_in_it_says_what_stands_behind_its_ticks() -> None:
    assert letters(shown(render("~~~a", links=False))) == ["a"]


# What reading costs is counted in tests/channels/test_rich_text.py; here is what makes many or long leaves of it.
@pytest.mark.parametrize(
    "bit", ["[a](http://b.c) ", "http://a.b ", "**a*", "- a\n", "&", "``", "a\n\n", "😀", "x", "#\n"]
)
def test_hostile_text_takes_steps_in_proportion(bit: str) -> None:
    short, long = (steps(lambda size=size: render(bit * (size // len(bit)), links=False)) for size in (5_000, 10_000))
    assert long <= 2.4 * short + 2_000


def test_mentions_of_every_kind_are_text() -> None:
    markdown = "<!channel> <!here> <!everyone> <@U123> <!subteam^S1> @everyone @here #general"
    (part,) = render(markdown, links=True).parts
    assert shown(Rendered((part,), as_file=False)) == markdown
    assert part.text == (
        "&lt;!channel&gt; &lt;!here&gt; &lt;!everyone&gt; &lt;@\u2060U123&gt; &lt;!subteam^S1&gt; "
        "@\u2060everyone @\u2060here #general"
    )
    assert QUIET == {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}


def test_looks_and_links_are_elements() -> None:
    (part,) = render("**a** [b](https://c.d)", links=True).parts
    assert part.blocks[0]["elements"] == [
        {
            "type": "rich_text_section",
            "elements": [
                {"type": "text", "text": "a", "style": {"bold": True}},
                {"type": "text", "text": " "},
                {"type": "link", "url": "https://c.d", "text": "b"},
            ],
        }
    ]


def test_an_address_too_long_for_a_link_is_text() -> None:
    (part,) = render("https://a.b/" + "c" * LONGEST_LINK, links=True).parts
    assert [node["type"] for node in nodes(part)] == ["rich_text", "rich_text_section", "text"]


def test_lists_go_on_after_code_with_their_numbers() -> None:
    (part,) = render("1. a\n   ```\n   b\n   ```\n   c\n2. d\n   - e\n\n     f\n3. g", links=True).parts
    elements = part.blocks[0]["elements"]
    assert [(each["type"], each.get("offset"), each.get("indent")) for each in elements] == [
        ("rich_text_list", None, 0),
        ("rich_text_preformatted", None, None),
        ("rich_text_section", None, None),
        ("rich_text_list", 1, 0),
        ("rich_text_list", None, 1),
        ("rich_text_list", 2, 0),
    ]
    assert [each["text"] for each in elements[4]["elements"][0]["elements"]] == ["e", "\n", "f"]
    assert part.text == "1. a\n\n```\nb\n```\n\nc\n2. d\n    • e\n\n    f\n3. g"


def test_items_of_one_list_stand_together() -> None:
    (part,) = render("- a\n- b\n-\n", links=True).parts
    (items,) = part.blocks[0]["elements"]
    assert [item["elements"][0]["text"] for item in items["elements"]] == ["a", "b", " "]


def test_quotes_rules_headings_and_tables() -> None:
    assert kinds("# a\n\nb\n\n---\n\n> c\n>\n> d\n>\n> - e\n>\n> ```\n> f\n> ```\n\n| g |\n|---|\n| h |") == [
        *("rich_text_section", "rich_text_quote", "rich_text_list", "rich_text_preformatted", "rich_text_preformatted")
    ]
    (part,) = render("> a\n> b\n>\n> ```\n> c\n> ```", links=True).parts
    assert part.text == "&gt; a\n&gt; b\n\n```\nc\n```"
    assert part.blocks[0]["elements"][1]["border"] == 1


def test_a_long_paragraph_is_cut_between_words_and_goes_on() -> None:
    rendered = render("words and more " * 800, links=True)
    assert len(rendered.parts) == 4
    assert not rendered.as_file
    # a slice of a paragraph follows the one before without a gap
    assert [len(part.blocks[0]["elements"]) for part in rendered.parts] == [1, 1, 1, 1]
    assert shown(rendered) == ("words and more " * 800).strip()
    assert all(part.text.split()[-1] in {"words", "and", "more"} for part in rendered.parts)


def test_a_paragraph_that_fits_one_message_is_not_cut() -> None:
    rendered = render("a" * 3_000 + "\n\n" + "b" * 3_000, links=True)
    assert [set(part.text) for part in rendered.parts] == [{"a"}, {"b"}]


def test_a_word_longer_than_a_message_is_cut_between_characters() -> None:
    rendered = render("😀" * 4_100, links=True)
    assert shown(rendered) == "😀" * 4_100
    assert all(utf16_units(part.text) <= LONGEST_TEXT for part in rendered.parts)


def test_long_code_is_opened_again_in_the_next_part() -> None:
    rendered = render("```\n" + "line of code\n" * 600 + "```", links=True)
    assert len(rendered.parts) > 1
    for part in rendered.parts:
        assert {each["type"] for each in part.blocks[0]["elements"]} == {"rich_text_preformatted"}
        assert part.text.startswith("```\n")
        assert part.text.endswith("\n```")


def test_a_long_list_is_opened_again_in_the_next_part() -> None:
    rendered = render("\n".join(f"{n}. {'item ' * 20}" for n in range(1, 101)), links=True)
    numbers = [part.blocks[0]["elements"][0].get("offset", 0) for part in rendered.parts]
    assert numbers == [
        sum(len(part.blocks[0]["elements"][0]["elements"]) for part in rendered.parts[:at])
        for at in range(len(numbers))
    ]


def test_a_long_item_goes_on_in_its_place() -> None:
    rendered = render("- " + "word " * 1_000, links=True)
    assert [part.blocks[0]["elements"][0]["type"] for part in rendered.parts] == ["rich_text_list", "rich_text_section"]
    assert all(len(part.blocks[0]["elements"]) == 1 for part in rendered.parts)


def test_the_label_of_a_cut_link_repeats_no_address() -> None:
    rendered = render(f"[{'label ' * 2_000}](https://a.b/{'c' * 2_000})", links=True)
    assert sum(node["type"] == "link" for part in rendered.parts for node in nodes(part)) == 1


def test_two_hundred_kilobytes_go_as_a_file() -> None:
    rendered = render("*bold* <!channel> " * 11_000, links=True)
    assert rendered.as_file
    assert letters(shown(rendered)) == letters("boldchannel" * 11_000)


def test_nothing_visible_is_no_message() -> None:
    assert render(" \n\x00", links=True) == Rendered((), as_file=False)


def test_texts_without_blocks() -> None:
    assert escaped("a & <b> @c") == "a &amp; &lt;b&gt; @\u2060c"
    assert preformatted("a ```` b") == "```\na `\u200b``\u200b` b\n```"


HOME = Address("slack", "D1", "T1")
BUTTONS = st.lists(
    st.builds(Button, st.text(max_size=90), st.one_of(st.just("/a"), st.text(max_size=9), st.just("/" + "b" * 999))),
    max_size=30,
)


def says(text: str, **more: object) -> Outbound:
    return Outbound(HOME, text, "k", **more)  # pyright: ignore[reportArgumentType] - fields of it


@given(
    st.lists(st.one_of(st.sampled_from(BOMBS), st.text(max_size=8)), max_size=40),
    st.sampled_from([1, 40]),
    BUTTONS,
    st.sampled_from(OutboundKind),
    st.booleans(),
)
def test_every_message_is_what_slack_takes(
    bits: list[str],
    times: int,
    buttons: list[Button],
    kind: OutboundKind,
    links: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    letter = compose(says("".join(bits) * times, buttons=tuple(buttons), kind=kind, links=links))
    assert letter.sheets
    for sheet in letter.sheets:
        blocks = check_message(list(sheet.blocks))
        assert utf16_units(json.dumps(blocks, ensure_ascii=False)) <= LONGEST_BLOCKS
        assert 0 < utf16_units(sheet.text) <= LONGEST_TEXT
        for body in ({"blocks": blocks}, {"text": sheet.text}, {"text": sheet.plain}):
            assert notified(body) == set()
            assert links or clickable(body) == set()
    pressed = [key for block in letter.sheets[-1].blocks[1:] for key in block["elements"]]
    assert [key["action_id"] for key in pressed] == [f"{ACTION}.{number}" for number in range(len(pressed))]
    assert {key["value"] for key in pressed} <= {button.command for button in buttons}


@pytest.mark.parametrize("text", ["", "\x00", "\u200b", " \n"])
def test_nothing_to_see_is_said_to_be_nothing(text: str) -> None:
    (sheet,) = compose(says(text)).sheets
    assert sheet.text == EMPTY


def test_what_is_repeated_is_marked_also_above_a_file() -> None:
    assert REPEATED in compose(says("x", repeated=True)).sheets[0].text
    letter = compose(says("x\n" * 50_000, repeated=True))
    assert REPEATED in letter.sheets[0].text
    assert letter.file.startswith(REPEATED.encode())


def test_the_line_above_the_file_of_a_question_is_as_it_is_written() -> None:
    letter = compose(says("send **~~all~~** of it\n" + "x " * 60_000, kind=OutboundKind.QUESTION))
    assert ("send **~~all~~** of it" in letter.sheets[0].text, bool(letter.file)) == (True, True)


def test_a_first_line_is_cut() -> None:
    assert "x" * 200 + "…" in compose(says("x" * 60_000)).sheets[0].text


def test_a_button_that_cannot_be_pressed_is_written_below() -> None:
    buttons = (Button("", "/a"), Button("Dark", "/b\u202e"), Button("<!here>", "/c"))
    letter = compose(says("x", buttons=buttons))
    assert [key["value"] for key in letter.sheets[0].blocks[1]["elements"]] == ["/c"]
    assert ": !a\n\nDark: !b" in letter.sheets[0].text
    assert "here" not in letter.sheets[0].text
    assert letter.sheets[0].plain.endswith("&lt;!here&gt;: `!c`")


def test_what_the_program_tells_names_commands_as_they_are_typed_on_slack() -> None:
    told = "/help [COMMAND]  list\nsee `/why`, or /why. But /etc/why, /why.txt, a/why, //why and /other are none"
    meant = told.replace("/help", "!help").replace("`/why`, or /why.", "`!why`, or !why.")
    for kind, shown in (
        (OutboundKind.NOTICE, meant),
        (OutboundKind.OFFER, meant),
        (OutboundKind.QUESTION, told),
        (OutboundKind.ANSWER, told),
    ):
        (sheet,) = compose(says(told, kind=kind), frozenset({"help", "why"})).sheets
        assert words({"blocks": sheet.blocks}).strip() == shown.replace("`", "" if kind is OutboundKind.ANSWER else "`")


@pytest.mark.parametrize("length, whole", [(LONGEST_TEXT, True), (50 * LONGEST_TEXT, False)])
def test_a_text_whose_file_is_refused_is_said_and_that_the_rest_is_left_out(length: int, *, whole: bool) -> None:
    made = spelled(Outbound(Address("slack", "7"), "x" * length, "k"))
    assert not made.file
    assert (LEFT_OUT in str(made.sheets[-1])) is not whole


@given(MARKDOWN, st.booleans())
def test_a_mark_stands_above_every_message(markdown: str, links: bool) -> None:  # noqa: FBT001 - Hypothesis passes it
    rendered = render(markdown, links=links, mark=FROM_OUTSIDE)
    for part in rendered.parts:
        assert part.blocks[0]["elements"][0]["text"] == FROM_OUTSIDE
        assert part.text.startswith(f"{FROM_OUTSIDE}\n")
        assert utf16_units(json.dumps(part.blocks, ensure_ascii=False)) <= LONGEST_BLOCKS - LONGEST_ACTIONS
        assert utf16_units(part.text) <= LONGEST_TEXT
    bare = [replace(part, blocks=part.blocks[1:]) for part in rendered.parts]
    assert letters(shown(replace(rendered, parts=tuple(bare)))) == letters(shown(render(markdown, links=links)))


def test_a_file_from_outside_is_named_so_and_stands_below_the_mark() -> None:
    made = compose(Outbound(HOME, "pay now\n" + "x " * 110_000, "k", OutboundKind.MESSAGE, untrusted=True))
    assert made.name == OUTSIDE_FILE
    assert words({"blocks": list(made.sheets[0].blocks)}).split() == [*FROM_OUTSIDE.split(), "pay", "now"]
    (sheet,) = spelled(Outbound(HOME, "pay now", "k", untrusted=True)).sheets
    assert sheet.plain.startswith(FROM_OUTSIDE)
