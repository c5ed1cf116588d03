"""What is said on Slack: where it was to be said, once, readable, and what became of it is told."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from channels.begun_sends import BegunSends
from channels.messages import Address, Button, Outbound, OutboundKind, Signal
from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.slack.clients import Clients
from channels.slack.render import compose
from channels.slack.sender import SlackSender
from channels.slack.web_api import remember
from tests.channels.contract import Kept
from tests.sim.slack import Slack, slack
from tests.sim.slack_blocks import shown as words
from tests.sim.slack_people import Person
from tests.sim.slack_state import Channel, Message

pytestmark = pytest.mark.anyio

LONG = "\n\n".join(f"paragraph {number} " + "word " * 600 for number in range(5))
PARTS = 5


class Scene:
    """A Slack with somebody in a channel and in a direct message, and who speaks there."""

    def __init__(self, played: Slack) -> None:
        self.played = played
        self.clients = Clients(played.bot.value, server=played.api, seconds=5)
        self.vault = Kept()
        self.speaker = self.another()
        self.alice, self.bob = played.user("alice"), played.user("bob")
        self.general = played.channel("general", self.alice, self.bob)
        self.home = self.at(self.alice.dm())

    def another(self, **more: float) -> SlackSender:
        """Return what speaks as another process does, with the same vault."""
        return SlackSender(self.clients, BegunSends(self.vault, "slack"), frozenset({"why"}), **{"pace": 0.0, **more})

    def at(self, channel: Channel | str, thread: Message | str = "", recipient: str = "") -> Address:
        chat = channel if isinstance(channel, str) else channel.id
        ts = thread if isinstance(thread, str) else thread.ts
        return Address("slack", chat, self.played.team.id, ts, recipient)

    async def says(self, address: Address, text: str = "x", key: str = "k", **more: Any) -> str:  # noqa: ANN401 - fields
        return await self.speaker.send(Outbound(address, text, key, **more))

    async def shows(self, address: Address, text: str, key: str = "k") -> None:
        await self.speaker.preview(Outbound(address, text, key))

    def private(self, person: Person | None = None) -> list[Message]:
        who = person or self.alice
        return who.messages(who.dm())

    def asked(self, method: str) -> int:
        return sum(call.method == method for call in self.played.calls)


@pytest.fixture
async def scene() -> AsyncGenerator[Scene]:
    async with slack() as played:
        made = Scene(played)
        yield made
        await made.clients.close()


async def test_a_text_is_shown_by_blocks_and_mentions_nobody(scene: Scene) -> None:
    await scene.says(scene.home, "**bold** <!channel> @everyone http://a.example", links=True)
    await scene.says(scene.home, "http://a.example", "k2")
    first, second = scene.private()
    assert scene.alice.sees(scene.alice.dm())[0].strip() == "bold <!channel> @everyone http://a.example"
    assert (scene.alice.can_click(first), scene.alice.can_click(second)) == ({"http://a.example"}, set())
    assert not scene.alice.notified_by(first)
    calls = [call.args for call in scene.played.calls if call.method == "chat.postMessage"]
    assert [(call["unfurl_links"], call["unfurl_media"], call["link_names"]) for call in calls] == [(False,) * 3] * 2


async def test_refused_blocks_become_the_plain_text_and_its_buttons_are_written(scene: Scene) -> None:
    scene.played.fails("chat.postMessage", error="invalid_blocks")
    await scene.says(scene.home, "**bold** <!here>", buttons=(Button("Yes", "/approve 1"),), links=True)
    (message,) = scene.private()
    assert (message.text, message.blocks) == ("bold &lt;!here&gt;\n\nYes: `!approve 1`", [])


@pytest.mark.parametrize("kind", [OutboundKind.QUESTION, OutboundKind.NOTICE])
async def test_what_people_are_asked_about_is_shown_as_it_is_written(scene: Scene, kind: OutboundKind) -> None:
    asked = 'May `message` run?\n{"text": "**all** of [this](https://a.example) `really`"}'
    await scene.says(scene.home, asked, kind=kind)
    assert scene.alice.sees(scene.alice.dm())[0].strip() == asked


async def test_commands_are_named_as_they_are_typed_there(scene: Scene) -> None:
    for length in (1, 3_000):
        await scene.says(scene.home, "see `/why`" + "." * length, str(length), kind=OutboundKind.NOTICE)
    assert [words[:11] for words in scene.alice.sees(scene.alice.dm())] == ["\nsee `!why`"] * 2


async def test_a_long_text_is_said_in_parts_and_the_last_has_the_buttons(scene: Scene) -> None:
    far = [Button("Far", f"/{letter} {letter * 860}") for letter in "xy"]
    buttons = (Button("Yes", "/approve 1"), *far, Button("No", "/deny 1"))
    await scene.says(scene.home, LONG, buttons=buttons)
    shown = scene.private()
    assert [message.text.split()[1:3] for message in shown] == [["paragraph", str(n)] for n in range(PARTS)]
    assert [len(message.blocks) for message in shown] == [1, 1, 1, 1, 2]
    keys = shown[-1].blocks[-1]["elements"]
    assert [key["value"][:10] for key in keys] == ["/approve 1", "/x xxxxxxx", "/deny 1"]
    assert "Far: !y yyy" in scene.alice.sees(scene.alice.dm())[-1]


async def test_what_is_very_long_is_a_file_below_a_first_line_with_the_buttons(scene: Scene) -> None:
    text = "# Title of it\n\n" + "@everyone <!channel> http://a.example " * 8_000
    asked = await scene.alice.says(scene.general, "go")
    thread = scene.at(scene.general, asked)
    receipt = await scene.says(thread, text, buttons=(Button("Yes", "/yes"),))
    _, lead, file = scene.alice.messages(scene.general, asked)
    assert (lead.text, receipt.partition("/")[2]) == ("```\nTitle of it\n```", lead.ts)
    assert [block["type"] for block in lead.blocks] == ["rich_text", "actions"]
    (kept,) = scene.played.state.uploads.values()
    assert (kept.data.decode(), kept.name, file.body["files"][0]["id"]) == (text, "answer.md", kept.id)
    assert len(scene.alice.messages(scene.general)) == 1


async def test_a_file_that_slack_does_not_take_is_not_announced(scene: Scene) -> None:
    scene.played.fails("files.getUploadURLExternal", error="missing_scope")
    with pytest.raises(ChannelError):
        await scene.says(scene.home, "x\n" * 50_000)
    assert scene.private() == []


async def test_a_wait_in_the_middle_goes_on_where_it_stopped(scene: Scene) -> None:
    texts = (LONG, "title\n" + "x\n" * 50_000)
    for text, method, shown in zip(texts, ("chat.postMessage", "files.completeUploadExternal"), (2, 1), strict=True):
        before = len(scene.private())
        fault = scene.played.fails(method, status=429, retry_after=7)
        fault.meets = lambda asked, _args, before=before, fault=fault, method=method, shown=shown: (  # type: ignore[method-assign]
            asked == method and len(scene.private()) == before + shown and fault.times > 0
        )
        with pytest.raises(BusyChannelError) as raised:
            await scene.says(scene.home, text, method)
        assert raised.value.seconds == 7
        fault.times = 0
        assert len(scene.private()) == before + shown
        # Whichever process goes on with it.
        scene.speaker = scene.another()
        receipt = await scene.says(scene.home, text, method)
        assert receipt.partition("/")[2] in {message.ts for message in scene.private()}
        said = [message.text for message in scene.private()[before:]]
        assert len(said) == len(set(said)) == (PARTS if text == LONG else 2)


async def test_what_was_shown_before_a_wait_and_cannot_be_kept_is_ambiguous(scene: Scene) -> None:
    fault = scene.played.fails("chat.postMessage", status=429, retry_after=7)
    fault.meets = lambda asked, _args: (  # type: ignore[method-assign]
        asked == "chat.postMessage" and len(scene.private()) == 1 and breaks(scene)
    )
    with pytest.raises(AmbiguousSendError):
        await scene.says(scene.home, LONG)
    assert len(scene.private()) == 1


def breaks(scene: Scene) -> bool:
    scene.vault.broken = True
    return True


async def test_a_failure_after_the_first_part_is_ambiguous(scene: Scene) -> None:
    scene.played.fails("files.completeUploadExternal", error="invalid_arguments")
    with pytest.raises(AmbiguousSendError):
        await scene.says(scene.home, "title\n" + "x\n" * 50_000)
    assert len(scene.private()) == 1


async def test_a_hostile_text_arrives_readable_or_as_a_file_and_mentions_nobody(scene: Scene) -> None:
    for number, bit in enumerate(("<!channel> @everyone <@U1> ", "[a](http://evil.example) ", "![[]()", "> - **a\n")):
        for size in (9_000, 200_000):
            await scene.says(scene.home, bit * (size // len(bit)), f"{number} {size}")
    for message in scene.private():
        assert not scene.alice.notified_by(message)
        assert scene.alice.can_click(message) == set()
    assert sum(len(file.data) > 190_000 for file in scene.played.state.uploads.values()) == 4


async def test_others_go_on_while_a_long_text_is_rendered(scene: Scene) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.005)
            ticks += 1

    await scene.says(scene.home)
    began = anyio.current_time()
    await anyio.to_thread.run_sync(compose, Outbound(scene.home, "![" * 4_000, "k2"))
    takes = anyio.current_time() - began
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        # Another text: one that was read a moment ago is remembered.
        await scene.says(scene.home, "![" * 4_000 + "x", "k2")
        tasks.cancel_scope.cancel()
    # On the loop it would be none; a loaded machine lets it tick seldom.
    assert ticks > takes / 0.3


async def test_a_gone_thread_is_no_reason_to_say_it_in_the_channel(scene: Scene) -> None:
    asked = await scene.alice.says(scene.general, "go")
    await scene.says(scene.at(scene.general, asked), "answer")
    await scene.alice.deletes(asked)
    for strict in (True, False):
        scene.played.state.strict_threads = strict
        with pytest.raises(GoneError):
            await scene.says(scene.at(scene.general, asked), "late", f"late {strict}")
    assert scene.alice.messages(scene.general) == []


async def test_where_nothing_can_be_said_is_gone(scene: Scene) -> None:
    private = scene.played.channel("private", scene.alice, kind="private", bot=False)
    outside = scene.played.channel("outside", scene.alice, bot=False)
    archived = scene.played.channel("archived", scene.alice)
    archived.archived = True
    elsewhere = Address("slack", scene.general.id, "T404")
    for address in (*map(scene.at, (private, outside, archived)), elsewhere):
        with pytest.raises(GoneError):
            await scene.says(address)
    scene.played.bot.revoked = True
    with pytest.raises(GoneError):
        await scene.says(scene.home)


@pytest.mark.parametrize("address", [Address("telegram", "5", "T"), Address("slack", "C1"), Address("slack", "", "T")])
async def test_an_address_of_somewhere_else_is_an_error(scene: Scene, address: Address) -> None:
    with pytest.raises(ChannelError):
        await scene.says(address)
    assert scene.played.calls == []


@pytest.mark.parametrize("thread", [False, True])
async def test_what_was_said_though_nobody_heard_is_found_again(scene: Scene, thread: bool) -> None:  # noqa: FBT001 - parametrized
    asked = await scene.alice.says(scene.general, "go")
    address = scene.at(scene.general, asked if thread else "")
    scene.played.fails("chat.postMessage", cut="after")
    receipt = await scene.says(address, "answer")
    shown = scene.alice.messages(scene.general, asked if thread else None)
    assert [message.ts for message in shown][1:] == [receipt.partition("/")[2]]
    assert scene.asked("chat.postMessage") == 1


@pytest.mark.parametrize("fault", [{"cut": "before"}, {"status": 503}, {"delay": 60.0}, {"error": "fatal_error"}])
async def test_what_may_have_been_said_is_ambiguous_and_not_repeated(scene: Scene, fault: dict[str, Any]) -> None:
    scene.played.fails("chat.postMessage", **fault)
    with pytest.raises(AmbiguousSendError):
        await scene.says(scene.home)
    assert scene.asked("chat.postMessage") <= 1


async def test_what_is_repeated_is_marked_unless_it_is_found(scene: Scene) -> None:
    scene.played.fails("conversations.history", error="missing_scope")
    scene.played.fails("chat.postMessage", cut="after")
    with pytest.raises(AmbiguousSendError):
        await scene.says(scene.home, LONG)
    assert len(scene.private()) == 1
    await scene.says(scene.home, "once", "k2")
    found = await scene.says(scene.home, "once", "k2", repeated=True)
    assert found.partition("/")[2] == scene.private()[-1].ts
    assert len(scene.private()) == 2
    await scene.says(scene.home, LONG, repeated=True)
    assert "may have been shown before" in scene.private()[2].text
    assert len(scene.private()) == 2 + PARTS


@pytest.mark.parametrize("fault", [{"cut": "before"}, {"delay": 60.0}])
async def test_what_was_never_sent_is_not_ambiguous(scene: Scene, fault: dict[str, Any]) -> None:
    scene.played.fails("auth.test", **fault)
    away = Clients(scene.played.bot.value, server="http://127.0.0.1:1/api/", seconds=1)
    for speaker in (scene.speaker, SlackSender(away, BegunSends(Kept(), "slack"))):
        with pytest.raises(ChannelError) as raised:
            await speaker.send(Outbound(scene.home, "x", "k"))
        assert not isinstance(raised.value, AmbiguousSendError)
    await away.close()


# --- for one alone


async def test_what_is_for_one_is_hidden_from_the_others_of_a_channel(scene: Scene) -> None:
    receipt = await scene.says(scene.at(scene.general, recipient=scene.alice.id), "psst")
    assert (receipt, scene.alice.sees(scene.general), scene.bob.sees(scene.general)) == ("", ["\npsst"], [])
    with pytest.raises(ChannelError) as raised:
        await scene.says(scene.at(scene.general, recipient=scene.played.user("carol").id), "psst")
    assert not isinstance(raised.value, GoneError)
    assert len(scene.general.messages) == 1


async def test_what_is_for_one_where_the_bot_is_not_is_said_in_private(scene: Scene) -> None:
    outside = scene.played.channel("outside", scene.alice, scene.bob, bot=False)
    receipt = await scene.says(scene.at(outside, recipient=scene.alice.id), "psst")
    assert receipt == f"{scene.alice.dm().id}/{scene.private()[0].ts}"
    assert (scene.alice.sees(scene.alice.dm()), outside.messages) == (["\npsst"], [])
    scene.played.fails("conversations.open", error="user_not_found")
    with pytest.raises(ChannelError) as raised:
        await scene.says(scene.at(outside, recipient=scene.bob.id), "psst")
    assert not isinstance(raised.value, GoneError)


async def test_what_is_for_one_in_private_is_said_only_if_it_is_theirs(scene: Scene) -> None:
    await scene.says(scene.at(scene.alice.dm(), recipient=scene.alice.id), "yours")
    with pytest.raises(ChannelError):
        await scene.says(scene.at(scene.alice.dm(), recipient=scene.bob.id), "not hers")
    assert [message.text for message in scene.private()] == ["```\nyours\n```"]
    assert scene.private(scene.bob) == []


async def test_a_file_for_one_goes_to_their_private_conversation(scene: Scene) -> None:
    await scene.says(scene.at(scene.general, recipient=scene.alice.id), "x\n" * 50_000)
    assert scene.general.messages == []
    assert len(scene.private()) == 2


async def test_an_account_stands_for_the_conversation_with_it(scene: Scene) -> None:
    receipt = await scene.says(scene.at(scene.alice.id), "hello")
    assert receipt == f"{scene.alice.dm().id}/{scene.private()[0].ts}"
    await scene.says(scene.at(scene.alice.id, recipient=scene.alice.id), "hello", "k2")
    await scene.shows(scene.at(scene.alice.id), "half", "k3")
    assert len(scene.private()) == 3
    assert scene.asked("conversations.open") == 1
    scene.played.fails("conversations.open", delay=60.0)
    with pytest.raises(ChannelError) as raised:
        await scene.says(scene.at(scene.bob.id), "hello")
    assert type(raised.value) is ChannelError
    scene.bob.member.deleted = True
    with pytest.raises(GoneError):
        await scene.says(scene.at(scene.bob.id), "hello")


async def test_what_is_for_one_is_in_the_thread_where_they_would_see_it(scene: Scene) -> None:
    asked = await scene.alice.says(scene.general, "!status")
    aside = scene.at(scene.general, asked, scene.alice.id)
    await scene.says(aside, "below nothing")
    assert [message.shown_to for message in scene.alice.messages(scene.general)] == ["", scene.alice.id]
    await scene.bob.says(scene.general, "reply", asked)
    scene.played.fails("conversations.replies", error="ratelimited")
    for key in ("k2", "k3", "k4"):
        await scene.says(aside, "below a reply", key)
    assert len(scene.alice.messages(scene.general, asked)) == 5
    assert len(scene.bob.messages(scene.general, asked)) == 2
    assert scene.asked("conversations.replies") == 3


# --- in the place of what was said


async def test_the_last_message_of_what_was_said_is_edited_and_loses_its_buttons(scene: Scene) -> None:
    receipt = await scene.says(scene.home, LONG, buttons=(Button("Yes", "/approve 1"),))
    scene.played.fails("chat.update", cut="after")
    assert await scene.says(scene.home, "**no**", "k2", replaces=receipt) == receipt
    *_, last = scene.private()
    assert scene.alice.sees(scene.alice.dm())[-1].strip() == "no"
    assert [block["type"] for block in last.blocks] == ["rich_text"]
    scene.played.fails("chat.update", error="invalid_blocks")
    await scene.says(scene.home, "plain", "k3", replaces=receipt)
    assert scene.private()[-1].blocks == []
    assert len(scene.private()) == PARTS


async def test_what_cannot_be_edited_any_more_is_not_said_anew(scene: Scene) -> None:
    receipt = await scene.says(scene.home, "sure?")
    with pytest.raises(ChannelError):
        await scene.says(scene.home, LONG, "k2", replaces=receipt)
    scene.private()[0].deleted = True
    with pytest.raises(ChannelError):
        await scene.says(scene.home, "no", "k2", replaces=receipt)
    assert scene.private() == []


# --- previews


async def test_a_preview_is_edited_and_the_answer_stands_in_its_place(scene: Scene) -> None:
    for text in ("one", "one", "one two"):
        await scene.shows(scene.home, text)
    assert scene.asked("chat.update") == 1
    assert scene.alice.sees(scene.alice.dm()) == ["\none two"]
    receipt = await scene.says(scene.home, "one **two**\n\n" + LONG)
    first, *others = scene.private()
    assert receipt.endswith(others[-1].ts)
    assert first.text.startswith("```\none two\n\nparagraph 0")
    assert first.body["metadata"]["event_payload"]["number"] == 1
    await scene.speaker.signal(scene.home, Signal.DONE)
    assert scene.asked("chat.delete") == 0


async def test_previews_are_paced_and_a_wait_stops_them(scene: Scene) -> None:
    asked = await scene.alice.says(scene.general, "go")
    slow = SlackSender(scene.clients, BegunSends(Kept(), "slack"))
    for address, key in ((scene.home, "a"), (scene.at(scene.general, asked), "b")):
        await slow.preview(Outbound(address, "one", key))
    assert (len(scene.private()), len(scene.alice.messages(scene.general, asked))) == (1, 1)
    await scene.shows(scene.home, "one")
    scene.played.fails("chat.update", status=429, retry_after=7)
    with pytest.raises(BusyChannelError):
        await scene.shows(scene.home, "one two")
    with pytest.raises(BusyChannelError) as raised:
        await scene.shows(scene.at(scene.general, asked), "one")
    assert 6 < raised.value.seconds <= 7
    await scene.says(scene.home, "whole")
    assert scene.alice.sees(scene.alice.dm())[-1] == "\nwhole"


@pytest.mark.parametrize("ends", ["done", "empty", "deleted", "another", "repeated", "file"])
async def test_what_is_left_of_a_preview_is_taken_back(scene: Scene, ends: str) -> None:
    await scene.shows(scene.home, "half")
    text = "whole" if ends != "file" else "whole\n" + "x\n" * 50_000
    match ends:
        case "done":
            await scene.speaker.signal(scene.home, Signal.DONE)
        case "empty":
            await scene.shows(scene.home, "")
        case "deleted":
            scene.private()[0].deleted = True
        case "another":
            await scene.shows(scene.home, "other half", "k2")
            assert scene.alice.sees(scene.alice.dm()) == ["\nother half"]
            await scene.says(scene.home, text, "k2")
        case _:
            pass
    if ends in {"done", "empty"}:
        assert scene.private() == []
    if ends != "another":
        await scene.says(scene.home, text, repeated=ends == "repeated")
    said = scene.alice.sees(scene.alice.dm())
    assert (len(said), said[0].strip().split("\n")[-1]) == (2 if ends == "file" else 1, "whole")


async def test_a_preview_that_cannot_be_taken_back_is_tried_again(scene: Scene) -> None:
    await scene.shows(scene.home, "half")
    scene.played.fails("chat.delete", status=429)
    with pytest.raises(BusyChannelError):
        await scene.shows(scene.home, "")
    await scene.speaker.signal(scene.home, Signal.DONE)
    assert scene.private() == []
    await scene.shows(scene.home, "half", "k2")
    scene.played.fails("chat.delete", status=429, times=2)
    await scene.says(scene.home, "whole", "k3")
    await scene.speaker.signal(scene.home, Signal.DONE)
    assert len(scene.private()) == 2
    await scene.speaker.signal(scene.home, Signal.DONE)
    assert scene.alice.sees(scene.alice.dm()) == ["\nwhole"]


async def test_a_preview_that_may_be_there_gets_no_second_beside_it(scene: Scene) -> None:
    scene.played.fails("chat.postMessage", cut="before")
    with pytest.raises(AmbiguousSendError):
        await scene.shows(scene.home, "half")
    await scene.shows(scene.home, "half of it")
    assert scene.private() == []
    await scene.says(scene.home, "whole")
    await scene.speaker.signal(scene.home, Signal.DONE)
    assert len(scene.private()) == 1


async def test_a_preview_that_somebody_deleted_begins_anew(scene: Scene) -> None:
    await scene.shows(scene.home, "half")
    scene.private()[0].deleted = True
    with pytest.raises(ChannelError):
        await scene.shows(scene.home, "half of it")
    await scene.shows(scene.home, "half of it all")
    await scene.shows(scene.home, "")
    await scene.shows(scene.home, "half", "k2")
    scene.private()[0].deleted = True
    await scene.shows(scene.home, "")
    await scene.shows(scene.home, "half of it all", "k3")
    assert scene.alice.sees(scene.alice.dm()) == ["\nhalf of it all"]


async def test_what_is_for_one_alone_has_no_preview(scene: Scene) -> None:
    for address in (scene.at(scene.general, recipient=scene.alice.id), scene.at(scene.alice.id, "home")):
        with pytest.raises(ChannelError):
            await scene.shows(address, "half")
    assert scene.played.calls == []


# --- what goes on, and the Home


async def test_a_status_is_shown_in_threads_and_cleared(scene: Scene) -> None:
    asked = await scene.alice.says(scene.alice.dm(), "go")
    thread, key = scene.at(scene.alice.id, asked), (scene.alice.dm().id, asked.ts)
    statuses = scene.played.state.statuses
    for signal, shown in ((Signal.WORKING, "is thinking…"), (Signal.WRITING, "is writing…"), (Signal.DONE, "")):
        await scene.speaker.signal(thread, signal)
        assert statuses[key] == shown
    await scene.speaker.signal(thread, Signal.WORKING)
    await scene.says(thread, "may I?", kind=OutboundKind.QUESTION)
    assert statuses[key] == ""
    before = len(scene.played.calls)
    for address in (scene.home, scene.at(scene.alice.id, "home"), Address("slack", "C1", "T404", "1.0")):
        for signal in Signal:
            await scene.speaker.signal(address, signal)
    await scene.speaker.signal(thread, Signal.DONE)
    assert len(scene.played.calls) == before


async def test_a_status_that_slack_would_take_away_is_shown_again_until_the_end(scene: Scene) -> None:
    asked = await scene.alice.says(scene.alice.dm(), "go")
    thread, key = scene.at(scene.alice.id, asked), (scene.alice.dm().id, asked.ts)
    for renewed, times in ((60.0, 1), (0.0, 4)):
        speaker = scene.another(renewed=renewed)
        before = scene.asked("assistant.threads.setStatus")
        await speaker.signal(thread, Signal.STILL)
        await speaker.signal(thread, Signal.WORKING)
        for _ in range(3):
            await speaker.signal(thread, Signal.STILL)
        assert scene.played.state.statuses[key] == "is thinking…"
        assert scene.asked("assistant.threads.setStatus") == before + times
        # One that is on its way when it ends does not stay.
        if renewed == 0:
            scene.played.fails("assistant.threads.setStatus", delay=0.3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(speaker.signal, thread, Signal.STILL)
            await anyio.sleep(0.1)
            tasks.start_soon(speaker.signal, thread, Signal.DONE)
        assert scene.played.state.statuses[key] == ""


async def test_a_place_that_refuses_a_status_is_not_asked_again(scene: Scene) -> None:
    asked = await scene.alice.says(scene.general, "go")
    scene.played.fails("assistant.threads.setStatus", error="ratelimited")
    scene.played.fails("assistant.threads.setStatus", error="not_allowed", times=1)
    for _ in range(4):
        await scene.speaker.signal(scene.at(scene.general, asked), Signal.WORKING)
    assert scene.asked("assistant.threads.setStatus") == 2


async def test_what_is_said_at_home_is_published(scene: Scene) -> None:
    home = scene.at(scene.alice.id, "home")
    for text in ("# Your sessions\n- one", "# Your sessions\n- two"):
        await scene.says(home, text, buttons=(Button("Stop", "/stop"),), repeated=True)
    assert [block["type"] for block in scene.alice.home()["blocks"]] == ["rich_text", "actions"]
    assert "two" in words(scene.alice.home())
    await scene.says(home, "# Long\n" + "x\n" * 50_000)
    assert [line for line in words(scene.alice.home()).split("\n") if line] == ["Long", "(too long to be shown here)"]
    with pytest.raises(GoneError):
        await scene.says(scene.at("U404", "home"))
    for wrong in (scene.at(scene.general, "home"), scene.at(scene.alice.id, "home", scene.bob.id)):
        with pytest.raises(ChannelError):
            await scene.says(wrong)


def test_what_is_remembered_has_a_bound() -> None:
    kept = dict[int, int]()
    for number in range(1_000):
        remember(kept, number, number)
    assert (len(kept), max(kept)) == (256, 999)


FILED = "\n".join(f"w{number:05}" for number in range(8_000))


def spoken(messages: list[Message]) -> list[str]:
    """Return the words of messages in order, without what shows them as they are."""
    return [word for message in messages for word in message.text.split() if word != "```"]


@pytest.mark.parametrize("method, lead", [("files.getUploadURLExternal", 0), ("files.completeUploadExternal", 1)])
async def test_a_file_that_a_workspace_refuses_is_said_in_messages(scene: Scene, method: str, lead: int) -> None:
    scene.played.fails(method, error="file_uploads_disabled")
    receipt = await scene.says(scene.home, FILED, buttons=(Button("Yes", "/yes"),))
    shown = scene.private()
    assert spoken(shown[lead:]) == FILED.split()
    assert receipt.partition("/")[2] == shown[-1].ts
    assert shown[-1].blocks[-1]["type"] == "actions"


async def test_a_file_that_is_too_large_is_said_in_messages(scene: Scene) -> None:
    scene.played.http.largest = 1_000
    await scene.says(scene.home, FILED)
    assert spoken(scene.private()) == FILED.split()


async def test_what_is_said_in_messages_goes_on_after_a_wait_where_it_stopped(scene: Scene) -> None:
    scene.played.fails("files.getUploadURLExternal", error="file_uploads_disabled", times=2)
    fault = scene.played.fails("chat.postMessage", status=429, retry_after=7)
    fault.meets = lambda asked, _args: asked == "chat.postMessage" and len(scene.private()) == 3 and fault.times > 0  # type: ignore[method-assign]
    with pytest.raises(BusyChannelError):
        await scene.says(scene.home, FILED)
    fault.times = 0
    await scene.says(scene.home, FILED)
    assert spoken(scene.private()) == FILED.split()
