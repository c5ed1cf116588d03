"""What is said as Slack is to show it: within its limits, with buttons as far as they fit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import Address, Button, Outbound, OutboundKind
from channels.slack import limits
from channels.slack.letter import ACTION, EMPTY, REPEATED, compose
from tests.channels.hostile import REPEATED as BOMBS
from tests.sim.slack_blocks import check_message, clickable, notified
from tests.sim.slack_blocks import shown as words

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
        assert limits.size(json.dumps(blocks, ensure_ascii=False)) <= limits.BLOCKS
        assert 0 < limits.size(sheet.text) <= limits.TEXT
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
