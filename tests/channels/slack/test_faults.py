"""What Slack does besides answering as it should: rights that are gone, a late error, answers with little in them."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from channels.messages import Button, Event, Inbound, Outbound
from channels.port import AmbiguousSendError, Answer, ChannelError, GoneError
from tests.channels.contract import until
from tests.channels.slack.kit import SlackStage, at, staged

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    async with staged() as made:
        yield made


async def test_without_the_right_to_write_nothing_is_said_and_the_chat_is_not_gone(played: SlackStage) -> None:
    crew = played.server.channel("crew", played.alice)
    crew.restricted = True
    with pytest.raises(ChannelError, match="no right to write there") as raised:
        await played.adapter.send(Outbound(at(crew), "x", "k"))
    assert not isinstance(raised.value, AmbiguousSendError | GoneError)
    crew.restricted = False
    await played.adapter.send(Outbound(at(crew), "x", "k"))
    assert played.shown().split() == ["x"]


async def test_an_error_after_a_message_was_shown_finds_the_message_or_is_ambiguous(played: SlackStage) -> None:
    played.server.fails("chat.postMessage", status=500, done=True)
    assert await played.adapter.send(Outbound(played.home, "found", "k"))
    played.server.fails("chat.postMessage", status=500, done=True)
    played.server.fails("conversations.history", error="missing_scope", times=10)
    with pytest.raises(AmbiguousSendError):
        await played.adapter.send(Outbound(played.home, "lost", "k2"))
    assert played.shown().split() == ["found", "lost"]
    await played.adapter.send(Outbound(played.home, "lost", "k2", repeated=True))
    assert played.shown().count("may have been shown before") == 1


async def test_answers_without_what_may_be_missing_are_understood(played: SlackStage) -> None:
    """Also where the bot may not read the history, in which it would find its message."""
    played.server.fails("conversations.history", error="missing_scope", times=10)
    played.server.fails("chat.postMessage", spared=True)
    receipt = await played.adapter.send(Outbound(played.home, "sure?", "k"))
    await played.adapter.send(Outbound(played.home, "done", "k2", replaces=receipt))
    assert played.shown().split() == ["done"]


async def test_a_used_button_under_a_message_for_one_person_takes_it_away_and_others_stay(played: SlackStage) -> None:
    crew = played.server.channel("crew", played.alice)
    alone = at(crew, recipient=played.alice.id)
    left = dict[str, tuple[str, ...]](kept=("/b 1",), gone=())
    got = list[Inbound]()

    async def receive(event: Event) -> Answer:
        assert isinstance(event, Inbound)
        got.append(event)
        kind = event.text.removeprefix("/")

        async def answer() -> None:
            await played.adapter.spend(event.press, lambda shown: tuple(one for one in shown if one in left[kind]))

        return answer

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(played.adapter.serve, receive)
        await played.server.sockets.connected(1)
        await played.adapter.send(Outbound(alone, "for you", "k", buttons=(Button("Gone", "/gone"),)))
        some = (Button("Kept", "/kept"), Button("Other", "/b 1"))
        await played.adapter.send(Outbound(played.home, "some", "k2", buttons=some))
        (hidden,) = (one for one in crew.messages if one.shown_to)
        await played.alice.presses(hidden, _keys(hidden.blocks)[0]["action_id"])
        await until(lambda: hidden.deleted)
        (shown,) = (one for one in played.alice.dm().messages if one.text)
        await played.alice.presses(shown, _keys(shown.blocks)[0]["action_id"])
        await until(lambda: len(_keys(shown.blocks)) == 1)
        assert _keys(shown.blocks)[0]["value"] == "/b 1"
        tasks.cancel_scope.cancel()


def _keys(blocks: list[dict[str, object]]) -> list[dict[str, str]]:
    return [key for block in blocks if block["type"] == "actions" for key in block["elements"]]  # type: ignore[attr-defined]
