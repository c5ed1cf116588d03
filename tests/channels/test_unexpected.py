"""An answer that no platform documents fails its call, and neither the process nor a chat."""

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.messages import Address, Attachment, Inbound, Outbound, Signal
from channels.port import AmbiguousSendError, ChannelError
from tests.channels.contract import until
from tests.channels.slack.kit import SlackStage
from tests.channels.slack.kit import at as slack_at
from tests.channels.slack.kit import staged as slack_staged
from tests.channels.telegram.kit import FAST, at, staged
from tests.sim.telegram_state import BOT_ID

pytestmark = pytest.mark.anyio

ODD: list[Any] = [None, 5, "x", [], {}, [None], {"id": "x"}, [{"status": "administrator"}], {"file": None}, True]


@pytest.mark.parametrize("answer", ODD)
async def test_telegram_administrators_that_cannot_be_read_are_an_audience_nobody_knows(answer: object) -> None:
    async with staged() as played:
        group = played.server.group("Team", played.alice)
        played.server.answers("getChatAdministrators", answer)
        audience = await played.adapter.audience(at(group))
        assert (audience.complete, audience.shared) == (False, True)
        found = await played.adapter.audience(at(group))
        assert found.shared


async def test_telegram_administrators_without_their_rights_are_no_end_of_anything() -> None:
    async with staged() as played:
        group = played.server.group("Team", played.alice)
        user = {"id": played.alice.id, "is_bot": False, "first_name": "Alice"}
        played.server.answers("getChatAdministrators", [{"status": "administrator", "user": user}])
        assert not (await played.adapter.audience(at(group))).complete


@pytest.mark.parametrize("answer", [*ODD, {"id": BOT_ID, "first_name": "Bot", "username": "thebot"}])
async def test_a_telegram_bot_that_is_not_told_who_it_is_asks_again(answer: object) -> None:
    async with staged() as played:
        played.server.answers("getMe", answer)
        async with played.serving():
            played.alice.says(None, "hello")
            await until(lambda: [one for one in played.got if isinstance(one, Inbound)])
        assert len(played.server.asked("getMe")) > 1


async def test_a_telegram_bot_without_a_name_asks_less_and_less_often() -> None:
    async with staged(timing=replace(FAST, pause=0.1, longest=1)) as played:
        played.server.answers("getMe", {"id": BOT_ID, "is_bot": True, "first_name": "Bot"}, times=3)
        began = anyio.current_time()
        async with played.serving():
            await until(lambda: played.server.asked("getUpdates"))
        assert len(played.server.asked("getMe")) == 4
        assert anyio.current_time() - began > 0.6


@pytest.mark.parametrize("answer", [None, 5, "x", {}, [7], [{"message": {}}], [{"update_id": "x"}], [None, []]])
async def test_updates_of_telegram_that_are_none_stop_no_poll(answer: object) -> None:
    async with staged() as played:
        played.server.answers("getUpdates", answer, times=2)
        async with played.serving():
            await until(lambda: len(played.server.asked("getUpdates")) > 2)
            played.alice.says(None, "hello")
            await until(lambda: [one for one in played.got if isinstance(one, Inbound)])


@pytest.mark.parametrize("answer", [5, "x", [7], {}, {"message_id": 1}, {"date": "x", "chat": 5}])
async def test_a_telegram_message_that_is_not_told_of_may_have_been_said(answer: object) -> None:
    async with staged() as played:
        played.server.answers("sendMessage", answer)
        with pytest.raises(AmbiguousSendError):
            await played.adapter.send(Outbound(played.home, "hello", "k"))


@pytest.mark.parametrize("answer", ODD)
async def test_every_telegram_call_fails_by_itself(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with staged() as played:
        for method in ("getFile", "getWebhookInfo", "sendChatAction", "deleteMessage", "editMessageText", "getMe"):
            played.server.answers(method, answer)
        for call in (
            played.adapter.fetch(Attachment("f", "a.txt"), 10),
            played.adapter.send(Outbound(played.home, "x", "k", replaces=f"{played.alice.id}/1")),
            played.adapter.preview(Outbound(played.home, "so far", "k")),
        ):
            try:
                await call
            except ChannelError:
                continue
        await played.adapter.signal(played.home, Signal.WORKING)
        await played.adapter.signal(played.home, Signal.DONE)
        assert isinstance(await played.adapter.troubles(), tuple)
    assert played.server.token not in caplog.text


_WRONG: list[Any] = [None, 5, "", [], {"x": 1}]
SLACK: list[dict[str, Any]] = [
    *({name: value} for name in ("channel", "user", "message", "ts") for value in _WRONG),
    {"members": 5, "messages": None, "file": None, "upload_url": None, "file_id": 7, "url": None},
    {"members": [None], "messages": [], "file": [], "upload_url": "", "file_id": "", "url": 5},
    {"messages": [5], "team_id": None, "user_id": 5, "bot_id": None},
]


async def everything(played: SlackStage) -> None:
    """Ask an adapter for all that it can be asked for."""
    adapter, general = played.adapter, played.server.channel("general", played.alice)
    for call in (
        adapter.send(Outbound(played.home, "hello", "k1")),
        adapter.send(Outbound(slack_at(general), "x" * 200_000, "k2")),
        adapter.send(Outbound(slack_at(general, "1.1"), "hello", "k3")),
        adapter.send(Outbound(slack_at(general, "1.1", played.alice.id), "hello", "k4")),
        adapter.preview(Outbound(played.home, "so far", "k5")),
        adapter.fetch(Attachment(f"{played.server.team.id}/F1", "a.txt"), 10),
    ):
        try:
            await call
        except ChannelError:
            continue
    for address in (played.home, slack_at(general), Address("slack", "C0NO", played.server.team.id)):
        assert isinstance((await adapter.audience(address)).complete, bool)
    await adapter.signal(played.home, Signal.WORKING)
    assert isinstance(await adapter.troubles(), tuple)


METHODS = (
    *("auth.test", "chat.postMessage", "chat.postEphemeral", "chat.update", "conversations.info"),
    *("conversations.members", "conversations.open", "conversations.replies", "conversations.history", "users.info"),
    *("files.info", "files.getUploadURLExternal", "files.completeUploadExternal"),
)


@pytest.mark.parametrize("answer", SLACK)
async def test_every_slack_call_fails_by_itself(answer: dict[str, Any]) -> None:
    async with slack_staged() as played:
        for method in METHODS:
            played.server.fails(method, answer=answer, times=1_000)
        await everything(played)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(METHODS),
    st.dictionaries(
        st.sampled_from(["channel", "user", "message", "messages", "members", "ts", "file", "team_id", "user_id"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "user"]), inner),
            max_leaves=4,
        ),
    ),
)
async def test_whatever_slack_answers_is_no_error_of_ours(method: str, answer: dict[str, Any]) -> None:
    async with slack_staged() as played:
        played.server.fails(method, answer=answer, times=1_000)
        await everything(played)


@pytest.mark.parametrize("url", [None, 5, "", "nowhere", {"x": 1}])
async def test_a_slack_ticket_that_is_none_is_asked_for_again(url: object) -> None:
    async with slack_staged() as played:
        played.server.fails("apps.connections.open", answer={"url": url}, times=2)
        async with played.serving():
            await played.alice.says(played.alice.dm(), "hello")
            await until(lambda: played.got)


async def test_a_slack_message_that_is_not_told_of_may_have_been_said() -> None:
    async with slack_staged() as played:
        for method in ("conversations.history", "conversations.replies"):
            played.server.fails(method, answer={"messages": None}, times=10)
        played.server.fails("chat.postMessage", answer={"ts": None})
        with pytest.raises(AmbiguousSendError):
            await played.adapter.send(Outbound(played.home, "hello", "k"))
