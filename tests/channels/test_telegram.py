"""The Telegram adapter says what it is given where it is to be said, once, and tells what became of it."""

import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from bot.access.labelling import CONFIGURED
from bot.operations.diagnostics import channel
from channels.messages import Address, Button, Event, Inbound, Membership, Moved, Outbound, OutboundKind, Signal
from channels.port import (
    AmbiguousSendError,
    Audience,
    BusyChannelError,
    ChannelError,
    GoneError,
    Platform,
    Reader,
    ReaderKind,
)
from tests.channels.contract import ChannelContract, Listener, ListeningContract, Stage, until
from tests.channels.telegram.kit import FAST, TelegramStage, at, staged
from tests.sim.telegram_state import BOT_ID, TOKEN

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[TelegramStage]:
    async with staged() as made:
        yield made


class TestTelegram(ChannelContract):
    @pytest.fixture
    def stage(self, played: TelegramStage) -> Stage:
        return played


class TelegramListener(Listener):
    def __init__(self, played: TelegramStage) -> None:
        self.channel = played.adapter
        self._played = played

    async def says(self, text: str, times: int = 1) -> None:
        server = self._played.server
        self._played.alice.says(self._played.alice.private, text)
        await until(lambda: text in str(server.state.given))
        for _ in range(times - 1):
            server.repeat_updates()

    async def again(self) -> None:
        """Do nothing: Telegram tells of an update until it is confirmed."""

    async def restarted(self) -> Platform:
        await self._played.adapter.close()
        self.channel = self._played.adapter = self._played.another()
        return self.channel


class TestTelegramListening(ListeningContract):
    @pytest.fixture
    def listener(self, played: TelegramStage) -> Listener:
        return TelegramListener(played)


def says(address: Address, text: str = "x", key: str = "k", **more: Any) -> Outbound:  # noqa: ANN401 - its fields
    return Outbound(address, text, key, **more)


LONG = "\n\n".join(f"paragraph {number} " + "word " * 600 for number in range(5))
PARTS = 5


async def test_markdown_is_shown_by_entities_and_nothing_is_previewed(played: TelegramStage) -> None:
    await played.channel.send(says(played.home, "**bold** http://a.example", links=True))
    await played.channel.send(says(played.home, "http://a.example", "k2"))
    first, second = played.alice.private.shows
    assert (first.marked("bold"), first.clickable) == (["bold"], ["http://a.example"])
    assert second.clickable == []
    calls = played.server.asked("sendMessage")
    assert all('"is_disabled": true' in call["link_preview_options"] for call in calls)
    assert not any("parse_mode" in call for call in calls)


async def test_refused_entities_become_the_plain_text(played: TelegramStage) -> None:
    for method in ("sendMessage", "sendDocument"):
        played.server.fails(method, status=400, told="Bad Request: can't parse entities: so it is")
    await played.channel.send(says(played.home, "see [**this**](http://a.example)", links=True))
    await played.channel.send(says(played.home, "**Title**\n" + "x\n" * 50_000, "k2"))
    short, file = played.alice.private.shows
    assert (short.text, short.marked("bold", "text_link")) == ("see this (http://a.example)", [])
    assert (file.text, file.entities) == ("Title", [])


async def test_a_long_text_is_said_in_parts_and_the_last_has_the_buttons(played: TelegramStage) -> None:
    buttons = (Button("Yes", "/approve 1"), Button("No", "/deny 1"), Button("Far", "/x " + "y" * 70))
    await played.channel.send(says(played.home, LONG, buttons=buttons))
    shows = played.alice.private.shows
    assert [shown.text.split()[:2] for shown in shows] == [["paragraph", str(number)] for number in range(PARTS)]
    assert [len(shown.buttons) for shown in shows] == [0, 0, 0, 0, 2]
    assert [button["callback_data"] for button in shows[-1].buttons] == ["/approve 1", "/deny 1"]
    assert "Far: /x yyy" in shows[-1].text


async def test_emoji_at_the_border_of_a_part_stay_whole(played: TelegramStage) -> None:
    await played.channel.send(says(played.home, "a" + "😀" * 2_100 + "\n```\nnever closed"))
    assert "".join(played.alice.private.said).count("😀") == 2_100


async def test_what_needs_too_many_parts_is_a_file(played: TelegramStage) -> None:
    text = "# Title of it\n\n" + "@everyone http://a.example " * 8_000
    await played.channel.send(says(played.home, text, buttons=(Button("Yes", "/yes"),)))
    (shown,) = played.alice.private.shows
    assert (shown.text, shown.json["document"]["file_name"], len(shown.buttons)) == ("Title of it", "answer.md", 1)
    assert shown.clickable == []
    (file,) = played.server.state.files.values()
    assert file.data.decode() == text


async def test_parts_are_counted_as_they_are_rendered(played: TelegramStage) -> None:
    await played.channel.send(says(played.home, "😀" * 30_000))
    (shown,) = played.alice.private.shows
    assert shown.json["document"]["file_size"] == 120_000


async def test_a_topic_is_named_at_every_send_but_general_is_not(played: TelegramStage) -> None:
    forum = played.server.supergroup("Forum", played.alice, forum=True)
    topic = played.server.topic(forum, "Plans", played.alice)
    for address in (at(forum, topic), at(forum, 1)):
        await played.channel.send(says(address, LONG, str(address)))
        await played.channel.send(says(address, "x" * 50_000, f"{address} file"))
        await played.channel.preview(says(address, "soon", f"{address} preview"))
        await played.channel.signal(address, Signal.WRITING)
    said = [shown.topic for shown in forum.shows if shown.by_bot]
    assert said == [topic] * (PARTS + 2) + [None] * (PARTS + 2)
    assert forum.actions == [("typing", topic), ("typing", None)]
    played.server.delete_topic(forum, topic)
    with pytest.raises(GoneError):
        await played.channel.send(says(at(forum, topic), "late", "late"))


async def test_who_blocked_or_removed_the_bot_is_gone(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    played.alice.blocks()
    played.server.bot_becomes(group, "kicked")
    for address in (played.home, at(group), played.nowhere):
        with pytest.raises(GoneError):
            await played.channel.send(says(address))


async def test_a_wait_is_told_with_its_seconds_and_goes_on_where_it_stopped(played: TelegramStage) -> None:
    await played.channel.send(says(played.home, "first", "k0"))
    played.server.fails("sendMessage", retry_after=7)
    with pytest.raises(BusyChannelError) as raised:
        await played.channel.send(says(played.home, "second"))
    assert raised.value.seconds == 7
    with pytest.raises(BusyChannelError):
        await played.channel.preview(says(played.home, "third", "k3"))
    await played.channel.send(says(played.home, "second"))
    assert played.alice.private.said == ["first", "second"]


async def test_parts_that_were_shown_are_not_shown_again_after_a_wait(played: TelegramStage) -> None:
    fault = played.server.fails("sendMessage", retry_after=7, chat=played.alice.id)
    fault.meets = lambda method, _args: (
        method == "sendMessage" and len(played.alice.private.said) == 2 and fault.times > 0
    )  # type: ignore[method-assign]
    with pytest.raises(BusyChannelError):
        await played.channel.send(says(played.home, LONG))
    assert len(played.alice.private.said) == 2
    # Whichever process goes on with it.
    other = played.another()
    played.vault.broken = True
    with pytest.raises(ChannelError):
        await other.send(says(played.home, LONG))
    played.vault.broken = False
    await other.send(says(played.home, LONG))
    await other.close()
    assert len(set(played.alice.private.said)) == len(played.alice.private.said) == PARTS


@pytest.mark.parametrize("fault", ["loses", "slows", "fails"])
async def test_what_may_have_been_seen_is_ambiguous_and_not_repeated(played: TelegramStage, fault: str) -> None:
    match fault:
        case "loses":
            played.server.loses("sendMessage")
        case "slows":
            played.server.slows("sendMessage", seconds=60)
        case _:
            played.server.fails("sendMessage", status=502)
    hurried = played.another(timing=replace(FAST, call=3))
    with pytest.raises(AmbiguousSendError):
        await hurried.send(says(played.home))
    await hurried.close()
    assert len(played.server.asked("sendMessage")) == 1


async def test_what_was_never_sent_is_not_ambiguous() -> None:
    async with staged() as played:
        played.server.port = 1
        nobody = played.another()
        with pytest.raises(ChannelError) as raised:
            await nobody.send(says(played.home))
        assert not isinstance(raised.value, AmbiguousSendError)
        await nobody.close()


async def test_a_failure_after_the_first_part_is_ambiguous(played: TelegramStage) -> None:
    fault = played.server.fails("sendMessage", status=403)
    fault.meets = lambda method, _args: method == "sendMessage" and len(played.alice.private.said) == 2  # type: ignore[method-assign]
    fault.status = 400
    with pytest.raises(AmbiguousSendError):
        await played.channel.send(says(played.home, LONG))
    assert len(played.alice.private.said) == 2


# --- groups that become supergroups


async def test_a_migrated_group_stays_what_it_was_to_the_application(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    await played.channel.send(says(at(group), "before"))
    async with played.serving():
        new = played.server.migrate(group)
        await until(lambda: len([event for event in played.got if isinstance(event, Moved)]) == 2)
        played.alice.says(new, f"@{played.server.state.username} hello")
        await until(lambda: [event for event in played.got if isinstance(event, Inbound)])
        (inbound,) = [event for event in played.got if isinstance(event, Inbound)]
        moves = [event for event in played.got if isinstance(event, Moved)]
    assert inbound.address == at(group)
    assert {(move.address, move.to) for move in moves} == {(at(group), at(new))}
    assert len({event.dedupe for event in moves}) == 1
    second = played.another()
    for adapter in (played.adapter, second):
        # Another process learns it by what Telegram answers.
        await adapter.send(says(at(group), "there"))
        await adapter.preview(says(at(group), "soon", "p1"))
        await adapter.signal(at(group), Signal.WRITING)
        assert Reader(f"telegram:{played.alice.id}") in (await adapter.audience(at(group))).readers
    await second.close()
    assert (group.said, new.said.count("there")) == (["before"], 2)
    assert new.actions


async def test_a_group_that_is_configured_by_the_id_it_has_since_is_told_with_the_one_to_write() -> None:
    named = set[str]()
    async with staged(chats=lambda: frozenset(named)) as played:
        group = played.server.group("Team", played.alice)
        new = played.server.migrate(group)
        async with played.serving():
            await until(lambda: [one for one in played.got if isinstance(one, Moved)])
        named |= {str(new.id), str(group.id), "-1005"}
        told = [one for one in await channel(played.adapter, CONFIGURED) if "goes on as" in one.problem]
        assert [one.label for one in told] == [CONFIGURED]
        assert [(str(new.id) in one.problem, one.next_step) for one in told] == [
            (True, f"write `{group.id}` in its place in config.yaml")
        ]


async def test_a_turn_that_runs_while_the_group_migrates_is_answered_at_the_new_id(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    new = played.server.migrate(group)
    assert Reader(f"telegram:{played.alice.id}") in (await played.channel.audience(at(group))).readers
    other = played.another()
    assert await other.send(says(at(group), "answer")) == f"{new.id}/{new.shows[-1].id}"
    assert new.said[-1] == "answer"
    await other.close()


async def test_that_a_group_moved_is_believed_only_if_telegram_answers_so(played: TelegramStage) -> None:
    group, other = played.server.group("Team", played.alice), played.server.supergroup("Other", played.alice)
    away = played.server.group("Away", played.alice)
    new = played.server.migrate(away)
    async with played.serving():
        for old, claimed in ((group.id, other.id), (away.id, other.id), (other.id, new.id)):
            played.server.state.tell("message", service(played, old, {"migrate_to_chat_id": claimed}))
        played.alice.says(other, f"@{played.server.state.username} hello")
        await until(lambda: [event for event in played.got if isinstance(event, Inbound)])
    (inbound,) = [event for event in played.got if isinstance(event, Inbound)]
    assert inbound.address == at(other)
    await played.channel.send(says(at(group), "still"))
    assert group.said == ["still"]


async def test_a_supergroup_that_spoke_for_itself_is_never_taken_for_a_group(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    new = played.server.supergroup("Team", played.alice)
    async with played.serving():
        played.alice.says(new, f"@{played.server.state.username} hello")
        await until(lambda: [event for event in played.got if isinstance(event, Inbound)])
        group.migrated_to = new.id
        with pytest.raises(ChannelError):
            await played.channel.send(says(at(group), "lost"))
        played.alice.says(new, f"@{played.server.state.username} again")
        await until(lambda: len([event for event in played.got if isinstance(event, Inbound)]) == 2)
    assert {event.address for event in played.got if isinstance(event, Inbound)} == {at(new)}
    assert not [event for event in played.got if isinstance(event, Moved)]
    assert "lost" not in played.shown()


async def test_while_it_cannot_be_kept_which_group_moved_telegram_tells_it_again(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    played.vault.broken = True
    async with played.serving():
        new = played.server.migrate(group)
        await until(lambda: len(played.server.asked("getUpdates")) > 3)
        assert not [event for event in played.got if isinstance(event, Moved)]
        played.vault.broken = False
        played.alice.says(new, f"@{played.server.state.username} hello")
        await until(lambda: [event for event in played.got if isinstance(event, Inbound)])
    assert [event.address for event in played.got if isinstance(event, Inbound)] == [at(group)]


def service(played: TelegramStage, chat: int, told: dict[str, int]) -> dict[str, Any]:
    """Return a service message as Telegram writes it."""
    kind = "supergroup" if str(chat).startswith("-100") else "group"
    sender = {"id": played.alice.id, "is_bot": False, "first_name": "Alice"}
    return {"message_id": 99, "date": 0, "chat": {"id": chat, "type": kind}, "from": sender, **told}


# --- in the place of what was said


async def test_the_last_message_of_what_was_said_is_edited_and_loses_its_buttons(played: TelegramStage) -> None:
    buttons = (Button("Yes", "/approve 1"),)
    receipts = [
        await played.channel.send(says(played.home, LONG, buttons=buttons)),
        await played.channel.send(says(played.home, "# Title of it\n\n" + "x\n" * 50_000, "k2", buttons=buttons)),
    ]
    for number, receipt in enumerate(receipts):
        assert await played.channel.send(says(played.home, "**no** _", f"no{number}", replaces=receipt)) == receipt
    shows = played.alice.private.shows
    assert [shown.text.split()[:2] for shown in shows[: PARTS - 1]] == [["paragraph", str(n)] for n in range(PARTS - 1)]
    assert [shown.text for shown in shows[PARTS - 1 :]] == ["no _", "no _"]
    assert not any(shown.buttons for shown in shows)
    assert len(shows) == PARTS + 1


async def test_what_cannot_be_edited_any_more_is_not_said_anew(played: TelegramStage) -> None:
    receipt = await played.channel.send(says(played.home, "sure?"))
    with pytest.raises(ChannelError):
        await played.channel.send(says(played.home, LONG, "k2", replaces=receipt))
    played.alice.private.shows[0].deleted = True
    with pytest.raises(ChannelError):
        await played.channel.send(says(played.home, "no", "k2", replaces=receipt))
    assert played.alice.private.shows == []


async def test_refused_entities_of_an_edit_become_the_plain_text(played: TelegramStage) -> None:
    receipt = await played.channel.send(says(played.home, "sure?"))
    played.server.fails("editMessageText", status=400, told="Bad Request: can't parse entities: so it is")
    await played.channel.send(says(played.home, "**no**", "k2", replaces=receipt))
    played.server.fails("editMessageText", retry_after=7)
    with pytest.raises(BusyChannelError):
        await played.channel.send(says(played.home, "yes", "k3", replaces=receipt))
    (shown,) = played.alice.private.shows
    assert (shown.text, shown.entities) == ("no", [])


async def test_what_is_for_one_is_edited_where_that_one_saw_it(played: TelegramStage) -> None:
    group = played.server.supergroup("Team", played.alice)
    aside = at(group, recipient=played.alice.id)
    receipt = await played.channel.send(says(aside, "sure?"))
    await played.channel.send(says(aside, "no", "k2", replaces=receipt))
    assert (group.said, played.alice.private.said) == ([], ["no"])


# --- for one alone


async def test_what_is_for_one_goes_to_the_private_chat_and_never_to_the_group(played: TelegramStage) -> None:
    group = played.server.supergroup("Team", played.alice)
    bob = played.server.user("Bob")
    bob.joins(group)
    await played.channel.send(says(at(group, recipient=played.alice.id), "psst"))
    assert (group.said, played.alice.private.said) == ([], ["psst"])
    with pytest.raises(ChannelError) as raised:
        await played.channel.send(says(at(group, recipient=bob.id), "psst"))
    assert not isinstance(raised.value, GoneError)
    assert group.said == []


async def test_what_is_for_one_is_ephemeral_where_the_server_knows_how() -> None:
    async with staged() as played:
        played.server.state.ephemeral = True
        group = played.server.supergroup("Team", played.alice)
        receipt = await played.channel.send(says(at(group, recipient=played.alice.id), "psst"))
        assert [(shown.text, shown.seen_by) for shown in group.shows] == [("psst", played.alice.id)]
        assert receipt == ""
        played.server.state.ephemeral = False
        with pytest.raises(AmbiguousSendError):
            await played.channel.send(says(at(group, recipient=played.alice.id), "psst", "k2"))
        assert [shown.text for shown in group.shows] == ["psst"]
        await played.channel.send(says(at(group, recipient=played.alice.id), "psst", "k2"))
        assert played.alice.private.said == ["psst"]


# --- who reads


async def test_readers_of_a_private_chat_are_one(played: TelegramStage) -> None:
    account = f"telegram:{played.alice.id}"
    assert await played.channel.audience(played.home) == Audience.of(account)
    group = played.server.group("Team", played.alice)
    assert await played.channel.audience(at(group, recipient=played.alice.id)) == Audience.of(account)
    for chat in ("@name", "-1009", "x"):
        unknown = await played.channel.audience(Address("telegram", chat))
        assert unknown == Audience(frozenset(), complete=False, shared=True)


async def test_readers_of_a_group_are_its_administrators_and_who_was_seen(played: TelegramStage) -> None:
    bob, robot = played.server.user("Bob"), played.server.user("Robot", bot=True)
    group = played.server.supergroup("Team", played.alice, bot="administrator")
    boss = Reader(f"telegram:{played.alice.id}")
    assert await played.channel.audience(at(group)) == Audience(frozenset({boss}), complete=False, shared=True)
    async with played.serving():
        # nobody is told of who joins before that was asked for
        await until(lambda: played.server.asked("getUpdates"))
        bob.joins(group)
        robot.joins(group)
        await until(lambda: len([one for one in played.got if isinstance(one, Membership)]) >= 4)
        await until(lambda: not played.server.state.updates)
        readers = (await played.channel.audience(at(group))).readers
        assert readers == {
            boss,
            Reader(f"telegram:{bob.id}"),
            Reader(f"telegram:{robot.id}", ReaderKind.BOT),
        }
        asked = len(played.server.asked("getChatAdministrators"))
        await played.channel.audience(at(group))
        assert len(played.server.asked("getChatAdministrators")) == asked
        bob.leaves(group)
        await until(lambda: [one for one in played.got if isinstance(one, Membership) and not one.joined])
        readers = (await played.channel.audience(at(group))).readers
        assert Reader(f"telegram:{bob.id}") not in readers
        assert len(played.server.asked("getChatAdministrators")) == asked + 1
    assert not any(str(BOT_ID) in reader.account for reader in readers)


async def test_readers_that_cannot_be_asked_for_are_unknown(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    played.server.fails("getChatAdministrators")
    assert await played.channel.audience(at(group)) == Audience(frozenset(), complete=False, shared=True)
    assert (await played.channel.audience(at(group))).readers


@pytest.mark.parametrize("typing, times", [(60.0, 2), (0.0, 4)])
async def test_typing_is_shown_again_when_telegram_stopped_showing_it(typing: float, times: int) -> None:
    async with staged(timing=replace(FAST, typing=typing)) as played:
        for signal in (Signal.WORKING, Signal.STILL, Signal.STILL, Signal.WORKING):
            await played.channel.signal(played.home, signal)
        assert len(played.server.asked("sendChatAction")) == times


# --- buttons, and the token


async def test_a_press_is_answered_and_is_a_command(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    await played.channel.send(says(at(group), "sure?", buttons=(Button("Yes", "/approve 7"),)))
    bob = played.server.user("Bob")
    async with played.serving():
        query = bob.presses(group.shows[-1], "Yes")
        await until(lambda: [one for one in played.got if isinstance(one, Inbound)])
        (inbound,) = [one for one in played.got if isinstance(one, Inbound)]
        assert (inbound.account, inbound.text, inbound.how.value) == (f"telegram:{bob.id}", "/approve 7", "button")
        assert not inbound.private
        await until(lambda: query.answer)
        assert query.answer == {"text": "", "show_alert": False}
        strange = played.alice.says(group, "a copy")
        strange.json["reply_markup"] = group.shows[0].json["reply_markup"]
        foreign = bob.presses(strange, "Yes")
        await until(lambda: foreign.answer)
        assert foreign.answer is not None
        assert foreign.answer["show_alert"]
    assert len([one for one in played.got if isinstance(one, Inbound)]) == 1


async def test_who_pressed_a_button_in_a_group_is_told_in_a_window_that_nobody_else_sees(played: TelegramStage) -> None:
    """Also somebody without a chat with the bot; what has no room in it, or comes too late, is said otherwise."""
    group = played.server.group("Team", played.alice)
    bob = played.server.user("Bob")
    buttons = (Button("Yes", "/approve 7"),)
    await played.channel.send(says(at(group), "sure?", buttons=buttons))
    texts = ["`no`", "no", "x" * 201, "late"]

    async def answers(event: Event) -> None:
        await played.receive(event)
        if isinstance(event, Inbound):
            text, before = texts.pop(0), len(played.server.asked("answerCallbackQuery"))
            if text == "late":
                await until(lambda: played.server.asked("answerCallbackQuery")[before:])
            where = at(group, recipient=int(event.account.partition(":")[2]))
            await played.channel.send(says(where, text, text, kind=OutboundKind.NOTICE, press=event.press))

    async with played.serving(answers):
        query = bob.presses(group.shows[-1], "Yes")
        await until(lambda: query.answer)
        assert query.answer == {"text": "`no`", "show_alert": True}
        played.refusals = 1
        again = bob.presses(group.shows[-1], "Yes")
        await until(lambda: again.answer)
        assert again.answer == {"text": "no", "show_alert": True}
        for _ in range(2):
            other = played.alice.presses(group.shows[-1], "Yes")
            await until(lambda other=other: other.answer)
            assert other.answer == {"text": "", "show_alert": False}
        await until(lambda: played.alice.private.said == ["x" * 201, "late"])
    assert group.said == ["sure?"]


async def test_who_pressed_a_button_in_private_is_answered_by_a_message(played: TelegramStage) -> None:
    await played.channel.send(says(played.home, "sure?", buttons=(Button("Yes", "/approve 7"),)))

    async def answers(event: Event) -> None:
        if isinstance(event, Inbound):
            await played.channel.send(says(event.address, "approved", "k2", press=event.press))

    async with played.serving(answers):
        query = played.alice.presses(played.alice.private.shows[-1], "Yes")
        await until(lambda: query.answer)
        assert query.answer == {"text": "", "show_alert": False}
    assert played.alice.private.said == ["sure?", "approved"]


async def test_the_token_is_nowhere(played: TelegramStage, caplog: pytest.LogCaptureFixture) -> None:
    secret = TOKEN.partition(":")[2]
    caplog.set_level(logging.DEBUG)
    wrong = played.another(token=f"{BOT_ID}:wrong-{secret}")
    told = [repr(played.channel), repr(wrong), str(await wrong.troubles())]
    played.server.fails("sendMessage", status=502)
    for adapter in (wrong, played.channel):
        with pytest.raises(ChannelError) as raised:
            await adapter.send(says(played.home))
        told += [str(raised.value), repr(raised.value)]
        assert raised.value.__suppress_context__
    await played.channel.send(says(played.home))
    assert "sendMessage" not in caplog.text
    for name in ("aiohttp", "telegram"):
        caplog.set_level(logging.DEBUG, name)
    await played.channel.send(says(played.home, "again", "k2"))
    await wrong.close()
    assert "sendMessage" in caplog.text
    assert secret not in "".join(told) + caplog.text


FILED = "\n".join(f"w{number:05}" for number in range(8_000))


@pytest.mark.parametrize(
    "status, told",
    [
        (400, "Bad Request: not enough rights to send documents to the chat"),
        (400, "Bad Request: CHAT_SEND_DOCS_FORBIDDEN"),
        (413, "Request Entity Too Large"),
    ],
)
async def test_a_file_that_a_chat_refuses_is_said_in_messages(played: TelegramStage, status: int, told: str) -> None:
    played.server.fails("sendDocument", status=status, told=told)
    group = played.server.group("Team", played.alice)
    await played.channel.send(says(at(group), FILED, buttons=(Button("Yes", "/yes"),)))
    assert "\n".join(group.said).split() == FILED.split()
    assert [len(shown.buttons) for shown in group.shows if shown.by_bot] == [0] * (len(group.said) - 1) + [1]
    assert played.server.state.files == {}


async def test_what_is_said_in_messages_goes_on_after_a_wait_where_it_stopped(played: TelegramStage) -> None:
    played.refuse_files()
    fault = played.server.fails("sendMessage", retry_after=7)
    fault.meets = lambda method, _args: (
        method == "sendMessage" and len(played.alice.private.said) == 3 and fault.times > 0
    )  # type: ignore[method-assign]
    with pytest.raises(BusyChannelError):
        await played.channel.send(says(played.home, FILED))
    await played.channel.send(says(played.home, FILED))
    assert "\n".join(played.alice.private.said).split() == FILED.split()


@pytest.mark.parametrize("status, told", [(400, "Bad Request: chat not found"), (502, ""), (429, "")])
async def test_a_file_that_is_refused_for_another_reason_is_not_said_in_messages(
    played: TelegramStage, status: int, told: str
) -> None:
    played.server.fails("sendDocument", status=status, told=told, retry_after=7 if status == 429 else 0)
    with pytest.raises(ChannelError):
        await played.channel.send(says(played.home, FILED))
    assert played.alice.private.said == []


async def test_a_chat_that_takes_neither_file_nor_text_is_an_error(played: TelegramStage) -> None:
    played.refuse_files()
    played.server.fails(
        "sendMessage", status=400, told="Bad Request: not enough rights to send text messages to the chat"
    )
    with pytest.raises(ChannelError) as raised:
        await played.channel.send(says(played.home, FILED))
    assert not isinstance(raised.value, AmbiguousSendError | GoneError)
