"""A text that Telegram shows while it is written: edited, in the place of its answer in the end, or taken back."""

from collections.abc import AsyncGenerator

import pytest

from channels.messages import Address, Outbound, Signal
from channels.port import AmbiguousSendError, BusyChannelError
from tests.channels.telegram.kit import TelegramStage, at, staged

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[TelegramStage]:
    async with staged() as made:
        yield made


def says(address: Address, text: str, key: str = "k") -> Outbound:
    return Outbound(address, text, key)


async def test_a_preview_is_edited_and_the_answer_stands_in_its_place(played: TelegramStage) -> None:
    for text in ("one", "one", "one two"):
        await played.channel.preview(says(played.home, text))
    assert len(played.server.asked("editMessageText")) == 1
    await played.channel.send(says(played.home, "one **two** three"))
    (shown,) = played.alice.private.shows
    assert shown.versions == ["one", "one two", "one two three"]
    assert shown.marked("bold") == ["two"]
    await played.channel.signal(played.home, Signal.DONE)
    assert played.alice.private.said == ["one two three"]


async def test_an_answer_that_is_as_its_preview_stays(played: TelegramStage) -> None:
    await played.channel.preview(says(played.home, "same"))
    await played.channel.send(says(played.home, "same"))
    assert played.alice.private.said == ["same"]


@pytest.mark.parametrize("ends", ["done", "empty", "deleted"])
async def test_what_is_left_of_a_preview_is_taken_back(played: TelegramStage, ends: str) -> None:
    await played.channel.preview(says(played.home, "half"))
    match ends:
        case "done":
            await played.channel.signal(played.home, Signal.DONE)
        case "empty":
            await played.channel.preview(says(played.home, ""))
        case _:
            played.alice.private.shows[0].deleted = True
    assert played.alice.private.said == []
    await played.channel.send(says(played.home, "whole"))
    assert played.alice.private.said == ["whole"]


async def test_a_preview_whose_beginning_stays_as_it_is_is_not_edited(played: TelegramStage) -> None:
    begun = "word " * 1_000
    for text in (begun, f"{begun} and more", f"{begun} and more again"):
        await played.channel.preview(says(played.home, text))
    assert (len(played.alice.private.said), played.server.asked("editMessageText")) == (1, [])


async def test_a_wait_stops_the_previews_of_its_chat(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    await played.channel.preview(says(played.home, "half"))
    played.server.fails("editMessageText", retry_after=7)
    for text in ("half of it", "half of it all", ""):
        with pytest.raises(BusyChannelError) as raised:
            await played.channel.preview(says(played.home, text))
        assert 6 < raised.value.seconds <= 7
    await played.channel.preview(says(at(group), "half"))
    assert (played.alice.private.said, group.said) == (["half"], ["half"])
    await played.channel.signal(played.home, Signal.DONE)
    assert played.alice.private.said == []


async def test_a_preview_that_may_be_there_gets_no_second_beside_it(played: TelegramStage) -> None:
    played.server.fails("sendMessage", status=502)
    with pytest.raises(AmbiguousSendError):
        await played.channel.preview(says(played.home, "half"))
    await played.channel.preview(says(played.home, "half of it"))
    assert played.alice.private.said == []
    await played.channel.send(says(played.home, "whole"))
    await played.channel.signal(played.home, Signal.DONE)
    assert played.alice.private.said == ["whole"]
