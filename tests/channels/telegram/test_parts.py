"""Parts of one message are recognized in any process that receives them, and after repeated delivery."""

from collections.abc import AsyncGenerator

import pytest

from channels.messages import Inbound, MessagePart
from channels.telegram.parts import NEAR, MessageParts
from channels.telegram.updates import TelegramIdentity, events
from tests.channels.contract import Kept, until
from tests.channels.telegram.kit import TelegramStage, staged
from tests.sim.telegram_state import Chat, Json

pytestmark = pytest.mark.anyio

ME = TelegramIdentity("70", "lock_bot", frozenset({"status"}))
GROUP = {"id": -100123, "type": "supergroup"}
LONG = "x" * NEAR


@pytest.fixture
async def played() -> AsyncGenerator[TelegramStage]:
    async with staged() as made:
        yield made


def told(number: int, text: str, *, date: int = 100, chat: Json = GROUP, mention: bool = False, who: int = 8) -> Json:
    """Return an update with a text in the group."""
    sender = {"id": who, "is_bot": False, "first_name": "Bob"}
    text = f"@lock_bot {text}" if mention else text
    entities = {"entities": [{"type": "mention", "offset": 0, "length": 9}]} if mention else {}
    message = {"message_id": number, "date": date, "chat": chat, "from": sender, "text": text, **entities}
    return {"update_id": number, "message": message}


async def read(parts: MessageParts, update: Json) -> list[Inbound]:
    """Return what is handed on of an update."""
    found = list[Inbound]()
    for event in events(update, ME):
        assert isinstance(event, Inbound)
        found += await parts.of(update, event, ME)
    return found


async def placed(parts: MessageParts, update: Json) -> tuple[MessagePart | None, bool]:
    (found,) = await read(parts, update)
    return found.part, found.addressed


async def test_a_text_behind_a_long_one_continues_it_for_every_process_and_whenever_it_is_told_again() -> None:
    vault = Kept()
    one, other = MessageParts(vault, "70"), MessageParts(vault, "70")
    home = {"id": 8, "type": "private"}
    assert await placed(one, told(1, LONG, chat=home)) == (MessagePart(more=True), True)
    middle, last = told(2, f"/{LONG}", date=101, chat=home), told(3, "/reset", date=101, chat=home)
    # Also without a `/`: the rest of a text is no answer to an open question.
    answer = told(3, "yes", date=101, chat=home)
    for _ in range(2):
        assert await placed(other, middle) == (MessagePart(more=True, continues=True), True)
        assert await placed(one, last) == (MessagePart(continues=True), True)
        assert await placed(one, answer) == (MessagePart(continues=True), True)
    assert await placed(one, told(1, LONG, chat=home)) == (MessagePart(more=True), True)
    assert await placed(one, told(4, "/reset", date=103, chat=home)) == (None, True)


async def test_a_part_that_is_told_again_counts_as_before_though_the_notes_before_it_are_gone() -> None:
    parts = MessageParts(Kept(), "70")
    home = {"id": 8, "type": "private"}
    for number in range(1, 26):
        await read(parts, told(number, f"/{LONG}", chat=home))
    assert await placed(parts, told(6, f"/{LONG}", chat=home)) == (MessagePart(more=True, continues=True), True)


@pytest.mark.parametrize(
    "update",
    [
        told(2, "/status", who=9),
        told(2, "/status", date=102),
        told(2, "/status", date=99),
        told(2, "/status", chat={"id": -5, "type": "supergroup"}),
    ],
)
async def test_another_sender_chat_or_time_continues_nothing(update: Json) -> None:
    parts = MessageParts(Kept(), "70")
    await read(parts, told(1, LONG, mention=True))
    assert await placed(parts, update) == (None, False)


async def test_the_rest_of_a_text_to_the_bot_is_for_the_bot_too() -> None:
    parts = MessageParts(Kept(), "70")
    assert await placed(parts, told(1, LONG, mention=True)) == (MessagePart(more=True), True)
    assert await placed(parts, told(2, LONG)) == (MessagePart(more=True, continues=True), True)
    assert await placed(parts, told(3, "the end")) == (MessagePart(continues=True), True)
    assert await placed(parts, told(4, LONG, date=200)) == (MessagePart(more=True), False)
    assert await placed(parts, told(5, "the end", date=200)) == (MessagePart(continues=True), False)


def picture(number: int, caption: str = "", *, who: int = 8) -> Json:
    """Return a part of an album in the group; the bot is mentioned in each caption."""
    update = told(number, caption, mention=bool(caption), who=who)
    message = update["message"]
    named = {"caption": message.pop("text"), "caption_entities": message.pop("entities", [])}
    file = {"photo": [{"file_id": f"f{number}", "file_unique_id": "u", "width": 1, "height": 1}]}
    update["message"] = {**message, **file, **(named if caption else {}), "media_group_id": "7"}
    return update


async def test_the_whole_album_is_for_the_bot_if_one_part_is_in_whatever_order_they_come() -> None:
    vault = Kept()
    one, other = MessageParts(vault, "70"), MessageParts(vault, "70")
    (first,) = await read(one, picture(1))
    assert not first.addressed
    # Of another sender, who may have chosen the same name for it.
    await read(one, picture(9, who=9))
    for _ in range(2):
        found = await read(other, picture(2, "what is this?"))
        assert [(part.dedupe, part.addressed) for part in found] == [("update/70/1", True), ("update/70/2", True)]
        assert {part.part for part in found} == {MessagePart(album="7")}
    (late,) = await read(one, picture(3))
    assert late.addressed
    (again,) = await read(one, picture(1))
    assert again.addressed


async def test_an_album_keeps_a_bounded_number_of_parts() -> None:
    parts = MessageParts(Kept(), "70")
    for number in range(1, 30):
        await read(parts, picture(number))
    assert len(await read(parts, picture(30, "these"))) == 11


async def test_parts_come_through_the_adapter(played: TelegramStage) -> None:
    group = _group(played)
    async with played.serving():
        me = f"@{played.server.state.username}"
        await until(lambda: played.server.asked("getUpdates"))
        played.alice.album(group, ("a.txt", b"a"), ("b.txt", b"b"), ("c.txt", b"c"), caption=f"{me} read", at=2)
        await until(lambda: sum(isinstance(one, Inbound) and one.addressed for one in played.got) >= 3)
        found = [one for one in played.got if isinstance(one, Inbound) and one.addressed]
        assert [file.name for one in found for file in one.files] == ["a.txt", "b.txt", "c.txt"]
        assert len({one.part for one in found}) == 1
        played.alice.pastes(None, "a " * 3_000 + "\n/approve 1")
        await until(lambda: any(isinstance(one, Inbound) and "/approve" in one.text for one in played.got))
        first, second = (one for one in played.got if isinstance(one, Inbound) and one.private)
        assert (first.part, second.part) == (MessagePart(more=True), MessagePart(continues=True))


def _group(played: TelegramStage) -> Chat:
    return played.server.supergroup("Crew", played.alice, bot="administrator")
