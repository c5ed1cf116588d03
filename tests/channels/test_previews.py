"""Previews on any platform: one at an address, no edit too many, and no second one beside one that may be there.

The chat of these tests does what is asked, and fails as it is told. How Telegram and Slack do it is tested with their
adapters.
"""

import asyncio

import pytest

from channels.messages import Address, Outbound
from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, FixedMessageError
from channels.previews import PreviewCalls, PreviewPace, Previews

pytestmark = pytest.mark.anyio

HOME = Address("chat", "1")
OTHER = Address("chat", "2")
ELSEWHERE = Address("chat", "3", "another")


class Chat:
    """Shows the first word of a text, and fails with what is in `errors`, once each."""

    def __init__(self, *, seconds: float = 0.0, ends_while_waiting: bool = True) -> None:
        self.shown: dict[str, str] = {}
        self.calls: list[str] = []
        self.errors: list[ChannelError | asyncio.CancelledError] = []
        pace = PreviewPace(lambda address: address.workspace, seconds, ends_while_waiting)
        self.previews = Previews(PreviewCalls(self.first, self.begin, self.update, self.end), pace)

    async def shows(self, text: str, key: str = "k", address: Address = HOME) -> None:
        await self.previews.show(Outbound(address, text, key))

    async def first(self, outbound: Outbound) -> str:
        return outbound.text.partition(" ")[0]

    async def begin(self, outbound: Outbound, form: str) -> str:
        self._called("begin")
        name = f"{outbound.key}{len(self.calls)}"
        self.shown[name] = form
        return name

    async def update(self, _address: Address, name: str, form: str) -> str:
        self._called("update")
        self.shown[name] = form
        return name

    async def end(self, _address: Address, name: str) -> None:
        self._called("end")
        del self.shown[name]

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if self.errors:
            raise self.errors.pop(0)


async def test_one_message_is_edited_and_only_for_what_changes_it() -> None:
    chat = Chat()
    for text in ("one", "one", "one two", "three"):
        await chat.shows(text)
    assert chat.calls == ["begin", "update"]
    assert list(chat.shown.values()) == ["three"]


@pytest.mark.parametrize("text,key,calls", [("", "k", ["end"]), ("other", "k2", ["end", "begin"])])
async def test_an_empty_text_and_another_one_take_it_back(text: str, key: str, calls: list[str]) -> None:
    chat = Chat()
    await chat.shows("half")
    await chat.shows(text, key)
    assert chat.calls == ["begin", *calls]
    assert list(chat.shown.values()) == [word for word in (text,) if word]


async def test_edits_of_a_scope_are_paced_together_and_taking_back_is_not() -> None:
    chat = Chat(seconds=60)
    await chat.shows("one")
    await chat.shows("two")
    await chat.shows("one", "k2", OTHER)
    await chat.shows("one", "k3", ELSEWHERE)
    assert chat.calls == ["begin", "begin"]
    await chat.shows("")
    assert len(chat.shown) == 1


@pytest.mark.parametrize("ends", [True, False])
async def test_a_wait_stops_a_scope_until_it_is_over(*, ends: bool) -> None:
    chat = Chat(ends_while_waiting=ends)
    await chat.shows("one")
    chat.errors.append(BusyChannelError(7))
    with pytest.raises(BusyChannelError):
        await chat.shows("two")
    for address in (HOME, OTHER):
        with pytest.raises(BusyChannelError) as raised:
            await chat.shows("two", address=address)
        assert 6 < raised.value.seconds <= 7
    await chat.shows("one", address=ELSEWHERE)
    assert chat.calls == ["begin", "update", "begin"]
    if ends:
        await chat.shows("")
    else:
        with pytest.raises(BusyChannelError):
            await chat.shows("")
    assert ("end" in chat.calls) == ends
    chat.previews.wait(HOME, 0)
    await chat.shows("three")
    assert "three" in chat.shown.values()


async def test_where_nobody_knows_whether_it_is_there_no_second_one_is_begun() -> None:
    chat = Chat()
    chat.errors.append(AmbiguousSendError("lost"))
    with pytest.raises(AmbiguousSendError):
        await chat.shows("one")
    await chat.shows("two")
    await chat.previews.end(HOME)
    assert chat.calls == ["begin"]
    await chat.shows("two")
    chat.errors.append(AmbiguousSendError("lost"))
    with pytest.raises(AmbiguousSendError):
        await chat.shows("three")
    await chat.shows("three")
    await chat.shows("four")
    assert chat.calls == ["begin", "begin", "update", "update"]


async def test_one_that_cannot_be_changed_begins_anew() -> None:
    chat = Chat()
    await chat.shows("one")
    chat.errors.append(FixedMessageError("gone"))
    with pytest.raises(FixedMessageError):
        await chat.shows("two")
    await chat.shows("three")
    assert chat.calls == ["begin", "update", "begin"]


@pytest.mark.parametrize("error", [ChannelError("no"), asyncio.CancelledError()])
async def test_one_that_could_not_be_taken_back_is_still_known(error: ChannelError | asyncio.CancelledError) -> None:
    chat = Chat()
    await chat.shows("one")
    chat.errors.append(error)
    with pytest.raises(type(error)):
        await chat.previews.end(HOME)
    await chat.previews.end(HOME)
    assert chat.shown == {}


async def test_what_the_answer_stands_in_is_a_preview_no_more_unless_it_is_kept() -> None:
    chat = Chat()
    await chat.shows("one")
    shown = chat.previews.standing(HOME)
    assert shown is not None
    assert (shown.key, shown.form) == ("k", "one")
    chat.previews.forget(HOME)
    await chat.previews.end(HOME)
    assert chat.previews.standing(HOME) is None
    chat.previews.keep(HOME, shown)
    await chat.shows("two")
    assert chat.calls == ["begin", "update"]
