"""Rights that are gone at Telegram, an error after the message was shown, and answers with little in them."""

from collections.abc import AsyncGenerator

import pytest

from channels.messages import Button, Event, Inbound, Outbound
from channels.port import AmbiguousSendError, Answer, ChannelError, GoneError
from tests.channels.contract import until
from tests.channels.telegram.kit import TelegramStage, at, staged
from tests.sim.telegram_kinds import spared

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[TelegramStage]:
    async with staged() as made:
        yield made


async def test_without_the_right_to_write_nothing_is_said_and_the_chat_is_not_gone(played: TelegramStage) -> None:
    group = played.server.supergroup("Crew", played.alice, bot="administrator")
    played.server.restrict(group)
    for text in ("x", "line\n" * 30_000):
        with pytest.raises(ChannelError, match="no right to write there") as raised:
            await played.channel.send(Outbound(at(group), text, "k"))
        assert not isinstance(raised.value, AmbiguousSendError | GoneError)
    played.server.restrict(group, muted=False)
    await played.channel.send(Outbound(at(group), "x", "k"))
    assert group.said == ["x"]
    played.server.bot_becomes(group, "kicked")
    with pytest.raises(GoneError):
        await played.channel.send(Outbound(at(group), "x", "k2"))


@pytest.mark.parametrize("text", ["once", "line\n" * 30_000])
async def test_an_error_after_a_message_was_shown_is_ambiguous_and_repeated_only_with_a_mark(
    played: TelegramStage, text: str
) -> None:
    for method in ("sendMessage", "sendDocument"):
        played.server.breaks(method)
    with pytest.raises(AmbiguousSendError):
        await played.channel.send(Outbound(played.home, text, "k"))
    assert len(played.alice.private.shows) == 1
    await played.channel.send(Outbound(played.home, text, "k", repeated=True))
    first, again = played.alice.private.said
    assert "may have been shown before" in again
    assert "may have been shown before" not in first


async def test_answers_and_updates_without_what_may_be_missing_are_understood(played: TelegramStage) -> None:
    played.server.state.spare = spared
    played.server.spares(times=1_000)
    buttons = (Button("Yes", "/approve 1"),)
    async with played.serving():
        played.alice.says(None, "hello")
        played.alice.album(None, ("a.txt", b"a"), ("b.txt", b"b"), caption="both")
        await until(lambda: len(played.got) == 3)
        receipt = await played.channel.send(Outbound(played.home, "sure?", "k", buttons=buttons))
        await played.channel.send(Outbound(played.home, "done", "k2", replaces=receipt))
        await played.channel.audience(played.home)
        await played.adapter.troubles()
    found = [one for one in played.got if isinstance(one, Inbound)]
    assert [(one.text, [file.name for file in one.files]) for one in found] == [
        ("hello", []),
        ("both", ["document"]),
        ("", ["document"]),
    ]
    (shown,) = (one for one in played.alice.private.shows if one.by_bot)
    assert (shown.text, shown.buttons) == ("done", [])


async def test_buttons_that_are_left_stay_and_a_message_that_cannot_be_changed_is_left_alone(
    played: TelegramStage,
) -> None:
    got = list[str]()

    async def receive(event: Event) -> Answer:
        assert isinstance(event, Inbound)
        press = event.press

        async def answer() -> None:
            await played.adapter.spend(press, lambda shown: tuple(one for one in shown if one == "/held show i"))
            # It knows nothing of other presses.
            await played.adapter.spend("another", lambda _shown: ())
            got.append(press)

        return answer

    buttons = tuple(Button(word, f"/held {word} i") for word in ("accept", "drop", "show"))
    async with played.serving(receive):
        await played.channel.send(Outbound(played.home, "sure?", "k", buttons=buttons))
        (shown,) = played.alice.private.shows
        played.alice.presses(shown, "accept")
        await until(lambda: len(got) == 1)
        assert [key["text"] for key in shown.buttons] == ["show"]
        played.server.fails("editMessageReplyMarkup", status=400, told="Bad Request: message can't be edited")
        played.alice.presses(shown, "show")
        await until(lambda: len(got) == 2)
        assert shown.text == "sure?"
