"""Albums and cut texts are one message, wherever and whenever their parts arrive."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from bot.admission.whole_messages import CHARACTERS, CUT, MOST, PAUSE_MS, first_whole, settled
from bot.sessions.inbox import TEXT_PART, InboxItem, ItemStatus, QueueMode
from bot.sessions.log.event_types import UserMessage
from bot.sessions.messages import SessionMessage
from bot.sessions.refs import InputRef
from channels.messages import Attachment, Inbound, MessagePart
from policy.labels import PUBLIC, Label, Level
from tests.bot.admission.test_attachments import answered, listening
from tests.bot.kit import Scripted, parts, policy
from tests.channels.telegram.kit import FAST, staged
from tests.events import bodies
from tests.harness import HOME, running

pytestmark = pytest.mark.anyio

ALBUM: Final = "album/1/7"
LONG: Final = "x" * CUT
CLOSE: Final = "y" * (CUT - 100)


def item(position: int, text: str = "", part: str = "", *, at: int = 0, **facts: Any) -> InboxItem:  # noqa: ANN401 - fields
    body = SessionMessage(text, facts.pop("account", "room:ann"), **facts)
    return InboxItem(position, f"d{position}", "ann", PUBLIC, body, at, part=part)


def file(name: str) -> Attachment:
    return Attachment(name, name)


def test_an_album_is_one_message_with_all_files_the_caption_and_the_join_of_the_labels() -> None:
    waiting = [
        item(1, part=ALBUM, files=(file("a"),)),
        replace(item(2, "both?", ALBUM, files=(file("b"),)), label=Label(Level.INTERNAL), refs=(InputRef("other"),)),
        item(3, "next"),
    ]
    whole = first_whole(waiting)
    assert (whole.position, whole.also, whole.label) == (1, (2,), Label(Level.INTERNAL))
    assert (whole.body.text, [one.name for one in whole.body.files]) == ("both?", ["a", "b"])
    assert whole.refs == (InputRef("d2"), InputRef("other"))
    assert first_whole(waiting[2:]) == waiting[2]


@pytest.mark.parametrize(
    "texts,joined",
    [
        ((LONG, "z"), f"{LONG}z"),
        ((CLOSE, "z"), f"{CLOSE}\nz"),
        ((LONG, CLOSE, "/stop"), f"{LONG}{CLOSE}\n/stop"),
        (("😀" * (CUT // 2), "z"), "😀" * (CUT // 2) + "z"),
    ],
)
def test_a_cut_text_is_whole_again(texts: Sequence[str], joined: str) -> None:
    *long, last = texts
    waiting = [*(item(place, text, TEXT_PART) for place, text in enumerate(long)), item(9, last, at=PAUSE_MS)]
    assert first_whole(waiting).body.text == joined


@pytest.mark.parametrize(
    "other",
    [
        item(2, "z", account="room:eve"),
        item(2, "z", at=PAUSE_MS + 1),
        item(2, quoted=("theirs",)),
        item(2, "z", quoted=("theirs",)),
        item(2, "z", files=(file("a"),)),
        item(2, "z", ALBUM),
        item(2, "z", opens=True),
        replace(item(2, "z"), sender="eve"),
    ],
)
def test_what_another_wrote_or_what_is_not_a_plain_text_continues_no_text(other: InboxItem) -> None:
    assert first_whole([item(1, LONG, TEXT_PART), other]).also == ()


def test_a_message_has_bounded_parts_and_characters() -> None:
    many = [item(number, "x", TEXT_PART) for number in range(MOST + 5)]
    assert len(first_whole(many).also) == MOST - 1
    huge = [item(number, "x" * (CHARACTERS // 2), TEXT_PART) for number in range(3)]
    assert first_whole(huge).also == (1,)


def test_a_message_is_settled_when_no_part_is_expected() -> None:
    begun = [item(1, LONG, TEXT_PART, at=1_000)]
    assert not settled(begun, 1_000)
    assert settled(begun, 1_000 + PAUSE_MS)
    assert settled([*begun, item(2, "end", at=1_001)], 1_001)
    assert settled([*begun, replace(item(2, "end", at=1_001), sender="eve")], 1_001)
    assert not settled([item(1, part=ALBUM, at=1), item(2, part=ALBUM, at=2)], 3)
    assert settled([item(number, "x", TEXT_PART, at=1) for number in range(MOST)], 1)


def said(events: Sequence[Any]) -> list[UserMessage]:
    return bodies(events, UserMessage)


async def test_an_album_and_a_paste_at_telegram_are_one_message_each(tmp_path: Path) -> None:
    """Also in the mode that makes each message a turn of its own, and a part that looks like a command is text."""
    model = Scripted("album read", "paste read")
    async with staged(timing=replace(FAST, press=1)) as played:
        account, home = f"telegram:{played.alice.id}", played.home
        async with listening(tmp_path, played.adapter, account, home, parts(model=model)) as alice:
            queue = Inbound(home, account, f"/queue {QueueMode.QUEUE}", "q1")
            await alice.app.router.receive(queue)
            played.alice.album(None, ("a.txt", b"first"), ("b.txt", b"second"), caption="compare them", at=1)
            await answered(model, 1)
            await alice.settled()
            # The border of the first part is just before a line that looks like a command.
            text = "w" * 4_090 + " /reset now\n" + "vvv " * 1_500
            played.alice.pastes(None, text)
            await answered(model, 2)
            await alice.settled()
            album, paste = said(await alice.events())
            assert [one.name for one in album.files] == ["a.txt", "b.txt"]
            assert {"compare them", "first", "second"} <= set(album.text.replace("> ", "").splitlines())
            assert paste.text.split() == text.split()
            inputs = [event.refs for event in await alice.events() if isinstance(event.body, UserMessage)]
            dedupes = [ref.dedupe for refs in inputs for ref in refs if isinstance(ref, InputRef)]
            assert len(dedupes) == 2 + 3
            for dedupe in dedupes:
                outcome = await alice.app.store.sessions.outcome(alice.sid, dedupe)
                assert outcome is not None
                assert outcome.status is ItemStatus.CONSUMED
            assert len(model.asked) == 2


async def test_a_crash_between_the_parts_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """The first part is in the store before it is acknowledged, and another process takes the second one."""

    def part(number: int, text: str, place: MessagePart | None) -> Inbound:
        return Inbound(HOME, "console:owner", text, f"update/{number}", part=place)

    async with running(tmp_path, policy(), serve=False, embedded=True) as owner:
        await owner.app.router.receive(part(1, LONG, MessagePart(more=True)))
    model = Scripted("read")
    async with running(tmp_path, policy(), serve=False, embedded=True, parts=parts(model=model)) as owner:
        # The platform did not see the first one confirmed.
        await owner.app.router.receive(part(1, LONG, MessagePart(more=True)))
        await owner.app.router.receive(part(2, "/help is text here", MessagePart(continues=True)))
        serving = asyncio.create_task(owner.app.serve())
        await owner.settled()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        found = "".join(one.text for one in said(await owner.events()))
        assert found == f"{LONG}/help is text here"
        assert len(model.asked) == 1


async def test_the_last_part_is_waited_for_and_no_longer_than_that(tmp_path: Path) -> None:
    async with running(tmp_path, policy(), parts=parts(model=Scripted("read", "read"))) as owner:
        await owner.send(LONG, part=MessagePart(more=True))
        await asyncio.sleep(0.05)
        await owner.send("the rest", part=None)
        state = await owner.settled()
        assert [one.text for one in said(await owner.events())] == [f"{LONG}the rest"]
        assert state is not None
        assert state.waiting_items == 0
        await owner.send("", files=(file("a"),), part=MessagePart(album="7"))
        await owner.settled()
        assert len(said(await owner.events())) == 2
