"""The console shows what it is given, escapes what a terminal would obey, and knows who reads."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.console import Console, visible
from channels.messages import Address, Button, Outbound, OutboundKind, Signal
from channels.port import AmbiguousSendError, Audience, ChannelError
from tests.channels.contract import ChannelContract, Stage

pytestmark = pytest.mark.anyio

OWNER = Address("console", "owner")
GUEST = Address("console", "guest")


class ConsoleStage(Stage):
    def __init__(self) -> None:
        self.output = io.StringIO()
        self.channel = Console(self.output)
        self.home = OWNER
        self.nowhere = Address("console", "owner", workspace="elsewhere")

    def shown(self) -> str:
        return self.output.getvalue()

    def vanish(self) -> None:
        self.output.close()

    def refuse_files(self) -> None:
        """A console takes none."""

    def lose_answer(self) -> bool:
        return False

    def shared_chat(self, count: int) -> None:
        """Return nothing: each chat of a console has one reader."""


class TestConsole(ChannelContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return ConsoleStage()


class Broken(io.StringIO):
    def flush(self) -> None:
        raise BrokenPipeError


async def shown(outbound: Outbound, *, person: str = "owner", terminal: bool = False) -> str:
    output = io.StringIO()
    await Console(output, person=person, terminal=terminal).send(outbound)
    return output.getvalue()


async def test_every_line_of_a_text_is_indented() -> None:
    assert await shown(Outbound(OWNER, "one\nlockgate [PUBLIC]> two", "k")) == "  one\n  lockgate [PUBLIC]> two\n"


async def test_another_chat_is_named() -> None:
    assert await shown(Outbound(GUEST, "hello\nyou", "k")) == "→ guest: hello\n  you\n"


async def test_a_chat_cannot_forge_a_line() -> None:
    assert await shown(Outbound(Address("console", "a\n· b\t"), "x", "k")) == "→ a\\n· b\\t: x\n"


async def test_a_repetition_is_marked() -> None:
    assert await shown(Outbound(OWNER, "x", "k", repeated=True)) == "  x (may have been shown before)\n"


async def test_a_stranger_is_shown_nothing_but_his_own() -> None:
    with pytest.raises(ChannelError):
        await shown(Outbound(OWNER, "x", "k"), person="user-eve")
    assert await shown(Outbound(Address("console", "user-eve"), "x", "k"), person="user-eve") == "  x\n"


@pytest.mark.parametrize(
    "kind,styled",
    [
        (OutboundKind.ANSWER, False),
        (OutboundKind.MESSAGE, False),
        (OutboundKind.NOTICE, True),
        (OutboundKind.QUESTION, True),
    ],
)
async def test_colours_are_for_terminals(kind: OutboundKind, styled: bool) -> None:  # noqa: FBT001
    assert "\x1b[1" not in await shown(Outbound(OWNER, "x", "k", kind))
    on_terminal = await shown(Outbound(OWNER, "[red]x[/red] \x1b[2J", "k", kind), terminal=True)
    assert "[red]x[/red] \\x1b[2J" in on_terminal
    assert on_terminal.startswith("\r\x1b[K\x1b[") is styled


async def test_a_broken_pipe_leaves_open_whether_it_was_seen() -> None:
    with pytest.raises(AmbiguousSendError):
        await Console(Broken()).send(Outbound(OWNER, "x", "k"))


async def test_what_a_stream_cannot_encode_is_escaped() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, "ascii")
    await Console(output).send(Outbound(GUEST, "ö", "k"))
    assert raw.getvalue() == b"\\u2192 guest: \\xf6\n"


async def test_a_pipe_shows_no_signal_but_tells_of_it() -> None:
    output = io.StringIO()
    console = Console(output)
    await console.signal(OWNER, Signal.WORKING)
    assert (output.getvalue(), console.changed.is_set()) == ("", True)


async def test_a_terminal_keeps_status_and_prompt_below_what_is_shown() -> None:
    output = io.StringIO()
    console = Console(output, terminal=True)
    await console.signal(OWNER, Signal.WORKING)
    await console.signal(OWNER, Signal.WORKING)
    await console.signal(GUEST, Signal.READING)
    console.prompt = lambda: "you> "
    await console.send(Outbound(OWNER, "x", "k"))
    await console.signal(OWNER, Signal.DONE)
    erase = "\r\x1b[K"
    assert output.getvalue() == f"{erase}working{erase}  x\nyou> working{erase}"


async def test_what_led_to_a_text_stands_above_it() -> None:
    output = io.StringIO()
    console = Console(output)

    async def before() -> None:
        await console.show("· read_file allowed")

    console.before = before
    await console.send(Outbound(OWNER, "x", "k"))
    assert output.getvalue() == "· read_file allowed\n  x\n"


async def test_each_chat_has_one_reader() -> None:
    console = Console(io.StringIO())
    assert await console.audience(OWNER) == Audience.of("console:owner")
    assert await console.audience(GUEST) == Audience.of("console:guest")


@given(st.text())
def test_nothing_a_terminal_obeys_is_shown(text: str) -> None:
    for char in visible(text):
        assert char in "\n\t\u200c\u200d" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_what_is_harmless_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "char,escaped", [("\x1b", "\\x1b"), ("\u202e", "\\u202e"), ("\U000e0041", "\\U000e0041"), ("\r", "\\x0d")]
)
def test_an_escape_names_the_character(char: str, escaped: str) -> None:
    assert visible(f"a{char}b") == f"a{escaped}b"


async def test_a_preview_is_the_end_of_the_text_in_the_status_line_of_a_terminal() -> None:
    output = io.StringIO()
    console = Console(output, terminal=True)
    assert console.previews
    await console.preview(Outbound(Address("console", "owner"), "one\ntwo \x1b[2J" + "x" * 500, "k"))
    shown = output.getvalue()
    assert shown.startswith("\r\x1b[K  …x")
    assert "\n" not in shown
    assert "\x1b[2J" not in shown
    assert len(shown) < 90
    await console.preview(Outbound(Address("console", "owner"), "", "k"))
    assert output.getvalue().endswith("\r\x1b[K")


async def test_a_preview_for_somebody_else_and_one_in_a_pipe_show_nothing() -> None:
    output = io.StringIO()
    await Console(output, terminal=True).preview(Outbound(Address("console", "guest"), "psst", "k"))
    piped = Console(output)
    assert not piped.previews
    await piped.preview(Outbound(Address("console", "owner"), "psst", "k"))
    assert output.getvalue() == ""


async def test_how_to_answer_a_question_is_typed_here() -> None:
    output = io.StringIO()
    buttons = (Button("Approve", "/approve 7"), Button("Deny", "/deny 7"))
    await Console(output).send(Outbound(OWNER, "sure?", "k", OutboundKind.QUESTION, buttons=buttons))
    assert output.getvalue() == "  sure?\n  Approve: `/approve 7`\n  Deny: `/deny 7`\n"
