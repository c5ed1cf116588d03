"""The played Slack's Web API answers the unmodified client as the real one does, refusals and faults included."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.slack.render import QUIET, render
from tests.sim.slack import Slack, slack
from tests.sim.slack_blocks import clickable, notified
from tests.sim.slack_state import Json

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncIterator[Slack]:
    async with slack() as here:
        yield here


def client(played: Slack, token: str | None = None) -> Any:  # noqa: ANN401 - the client's own types are not known
    return AsyncWebClient(played.bot.value if token is None else token, base_url=played.api, retry_handlers=[])


async def refused(played: Slack, method: str, token: str | None = None, **args: Any) -> Json:  # noqa: ANN401 - any field
    """Return the answer to a call that is refused."""
    with pytest.raises(SlackApiError) as caught:
        await client(played, token).api_call(method, json=args)
    problem: Any = caught.value
    return dict(problem.response.data)


async def code(played: Slack, method: str, **args: Any) -> str:  # noqa: ANN401 - any field
    return str((await refused(played, method, **args))["error"])


async def test_who_the_bot_is(played: Slack) -> None:
    told = await client(played).auth_test()
    assert (told["team_id"], told["user_id"], told["bot_id"]) == (
        played.team.id,
        played.bot.user,
        f"B{played.bot.user}",
    )
    assert (await client(played).bots_info(bot=told["bot_id"]))["bot"]["user_id"] == played.bot.user
    assert (await client(played).team_info())["team"]["name"] == "home"


async def test_a_message_is_posted_seen_changed_and_deleted(played: Slack) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    asked = await alice.says(general, "hello")
    sent = await client(played).chat_postMessage(channel=general.id, text="hi &lt;b&gt;", thread_ts=asked.ts)
    assert alice.sees(general) == ["hello"]
    assert alice.sees(general, asked) == ["hello", "hi <b>"]
    await client(played).chat_update(channel=general.id, ts=sent["ts"], text="changed")
    assert alice.sees(general, asked) == ["hello", "changed"]
    await client(played).chat_delete(channel=general.id, ts=sent["ts"])
    assert alice.sees(general, asked) == ["hello"]


async def test_a_message_to_an_account_goes_to_their_conversation(played: Slack) -> None:
    alice = played.user("alice")
    await client(played).chat_postMessage(channel=alice.id, text="psst")
    assert alice.sees(alice.dm()) == ["psst"]
    opened = await client(played).conversations_open(users=[alice.id])
    assert opened["channel"]["id"] == alice.dm().id


WRONG: list[tuple[Json, str]] = [
    ({"text": "x" * 40_001}, "msg_too_long"),
    ({"text": ""}, "no_text"),
    ({"text": "a", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
    ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}]}, "invalid_blocks"),
    ({"blocks": [{"type": "section"}]}, "invalid_blocks"),
    ({"blocks": [{"type": "markdown", "text": "x" * 6_001}] * 2}, "invalid_blocks"),
    ({"blocks": [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}]}, "invalid_blocks"),
    ({"blocks": [{"type": "nothing"}]}, "invalid_blocks"),
    ({"blocks": ["nothing"]}, "invalid_blocks"),
    ({"blocks": [{"type": "divider", "block_id": "a"}] * 2}, "invalid_blocks"),
    ({"blocks": [{"type": "actions", "elements": []}]}, "invalid_blocks"),
    ({"blocks": [{"type": "image", "image_url": "http://a"}]}, "invalid_blocks"),
    ({"blocks": [{"type": "table", "rows": [[]] * 101}]}, "invalid_blocks"),
    ({"blocks": [{"type": "table", "rows": [[]]}] * 2}, "invalid_blocks"),
    ({"blocks": [{"type": "rich_text", "elements": []}]}, "invalid_blocks"),
    ({"blocks": [{"type": "rich_text", "elements": [{"type": "text", "text": "a"}]}]}, "invalid_blocks"),
    ({"blocks": {"type": "divider"}}, "invalid_blocks_format"),
    ({"blocks": "{"}, "invalid_blocks_format"),
    ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 2_900}}] * 5}, "msg_blocks_too_long"),
    ({"text": "a", "metadata": {"event_type": "b"}}, "invalid_metadata_format"),
    ({"text": "a", "thread_ts": "1.000000"}, "thread_not_found"),
    ({"text": "a", "channel": "C404"}, "channel_not_found"),
    ({"markdown_text": "x" * 12_001}, "msg_too_long"),
    ({"markdown_text": "x", "text": "a"}, "markdown_text_conflict"),
]


@pytest.mark.parametrize("wrong, error", WRONG)
async def test_what_the_real_one_refuses_is_refused(played: Slack, wrong: Json, error: str) -> None:
    general = played.channel("general", played.user("alice"))
    assert await code(played, "chat.postMessage", **{"channel": general.id, **wrong}) == error
    assert general.messages == []


async def test_where_the_bot_is_not_it_cannot_write(played: Slack) -> None:
    alice = played.user("alice")
    outside = played.channel("outside", alice, bot=False)
    secret = played.channel("secret", alice, kind="private", bot=False)
    assert await code(played, "chat.postMessage", channel=outside.id, text="a") == "not_in_channel"
    assert await code(played, "chat.postMessage", channel=secret.id, text="a") == "channel_not_found"
    assert await code(played, "conversations.info", channel=secret.id) == "channel_not_found"
    general = played.channel("general", alice)
    general.archived = True
    assert await code(played, "chat.postMessage", channel=general.id, text="a") == "is_archived"


async def test_a_message_of_somebody_else_is_not_changed(played: Slack) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    asked = await alice.says(general, "mine")
    assert await code(played, "chat.update", channel=general.id, ts=asked.ts, text="a") == "cant_update_message"
    assert await code(played, "chat.delete", channel=general.id, ts=asked.ts) == "cant_delete_message"
    sent = await client(played).chat_postMessage(channel=general.id, text="a")
    assert await code(played, "chat.update", channel=general.id, ts=sent["ts"], text="x" * 4_001) == "msg_too_long"


async def test_an_ephemeral_message_has_one_reader(played: Slack) -> None:
    alice, bob, carol = played.user("alice"), played.user("bob"), played.user("carol")
    general = played.channel("general", alice, bob)
    await client(played).chat_postEphemeral(channel=general.id, user=alice.id, text="for you")
    assert alice.sees(general) == ["for you"]
    assert bob.sees(general) == []
    assert (
        await code(played, "chat.postEphemeral", channel=general.id, user=carol.id, text="a") == "user_not_in_channel"
    )


async def test_a_stream_grows_and_ends(played: Slack) -> None:
    alice = played.user("alice")
    asked = await alice.says(alice.dm(), "go")
    stream = await client(played).chat_stream(channel=alice.dm().id, thread_ts=asked.ts, buffer_size=1)
    await stream.append(markdown_text="one ")
    await stream.append(markdown_text="two")
    assert alice.sees(alice.dm(), asked) == ["go", "one two"]
    assert (
        await code(played, "chat.update", channel=alice.dm().id, ts=stream.ts, text="a") == "streaming_state_conflict"
    )
    await stream.stop()
    more = {"channel": alice.dm().id, "ts": stream.ts, "markdown_text": "a"}
    assert await code(played, "chat.appendStream", **more) == "message_not_in_streaming_state"


async def test_a_stream_in_a_channel_needs_its_reader_and_expires(played: Slack) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    asked = await alice.says(general, "go")
    place = {"channel": general.id, "thread_ts": asked.ts}
    reader = {"recipient_user_id": alice.id, "recipient_team_id": played.team.id}
    assert await code(played, "chat.startStream", **place) == "missing_recipient_team_id"
    assert await code(played, "chat.startStream", **place, recipient_team_id="T") == "missing_recipient_user_id"
    assert await code(played, "chat.startStream", channel=general.id, **reader) == "invalid_arguments"
    started = await client(played).chat_startStream(**place, **reader)
    more = {"channel": general.id, "ts": started["ts"], "markdown_text": "x" * 12_001}
    assert await code(played, "chat.appendStream", **more) == "msg_too_long"
    played.skip(301)
    assert (
        await code(played, "chat.stopStream", channel=general.id, ts=started["ts"]) == "message_not_in_streaming_state"
    )


async def test_who_reads_is_told_page_by_page(played: Slack) -> None:
    people = [played.user(f"p{number}") for number in range(5)]
    general = played.channel("general", *people)
    found: list[str] = []
    cursor: str | None = None
    while cursor != "":
        page = await client(played).conversations_members(channel=general.id, limit=2, cursor=cursor)
        found += page["members"]
        cursor = page["response_metadata"]["next_cursor"]
    assert found == [*(person.id for person in people), played.bot.user]
    assert await code(played, "conversations.members", channel=general.id, cursor="x") == "invalid_cursor"


async def test_guests_strangers_and_sharing_are_told(played: Slack) -> None:
    elsewhere = played.workspace("elsewhere")
    stranger = played.user("eve", elsewhere)
    guest = played.user("gus", is_ultra_restricted=True)
    general = played.channel("general", stranger, guest)
    await played.share(general, elsewhere)
    assert (await client(played).users_info(user=stranger.id))["user"]["is_stranger"]
    told = (await client(played).users_info(user=guest.id))["user"]
    assert told["is_ultra_restricted"]
    assert "is_stranger" not in told
    info = (await client(played).conversations_info(channel=general.id))["channel"]
    assert (info["is_ext_shared"], info["is_shared"], info["is_private"]) == (True, True, False)
    await played.unshare(general, elsewhere)
    await played.share(general, elsewhere, accepted=False)
    info = (await client(played).conversations_info(channel=general.id))["channel"]
    assert (info["is_ext_shared"], info["is_pending_ext_shared"]) == (False, True)
    assert stranger.id not in general.members
    mine = await client(played).users_conversations(types="public_channel")
    assert [each["id"] for each in mine["channels"]] == [general.id]


async def test_history_and_replies(played: Slack) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    first = await alice.says(general, "first")
    marked = {"event_type": "sent", "event_payload": {"key": "k1"}}
    await client(played).chat_postMessage(channel=general.id, text="reply", thread_ts=first.ts, metadata=marked)
    await alice.says(general, "second")
    history = await client(played).conversations_history(channel=general.id)
    assert [each["text"] for each in history["messages"]] == ["second", "first"]
    replies = await client(played).conversations_replies(channel=general.id, ts=first.ts, include_all_metadata=True)
    assert [each["text"] for each in replies["messages"]] == ["first", "reply"]
    assert replies["messages"][1]["metadata"] == marked


async def test_tokens_and_scopes_are_checked(played: Slack) -> None:
    general = played.channel("general")
    assert (await refused(played, "auth.test", ""))["error"] == "not_authed"
    assert (await refused(played, "auth.test", "xoxb-no"))["error"] == "invalid_auth"
    assert (await refused(played, "auth.test", played.app_token))["error"] == "not_allowed_token_type"
    small = played.install(played.team, ["users:read"])
    answer = await refused(played, "chat.postMessage", small.value, channel=general.id, text="a")
    assert (answer["error"], answer["needed"], answer["provided"]) == ("missing_scope", "chat:write", "users:read")
    private = played.channel("private", kind="private")
    answer = await refused(played, "conversations.info", small.value, channel=private.id)
    assert answer["needed"] == "groups:read"
    assert await code(played, "no.such") == "unknown_method"
    await client(played, small.value).auth_revoke()
    assert (await refused(played, "auth.test", small.value))["error"] == "token_revoked"
    played.state.members[played.bot.user].deleted = True
    assert await code(played, "auth.test") == "account_inactive"


async def test_files_go_up_and_come_down(played: Slack) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    await client(played).files_upload_v2(
        channel=general.id, content="the answer", filename="answer.md", initial_comment="long"
    )
    (message,) = alice.messages(general)
    assert message.text == "long"
    url = message.body["files"][0]["url_private_download"]
    async with aiohttp.ClientSession() as session:
        async with session.get(url, headers={"Authorization": f"Bearer {played.bot.value}"}) as response:
            assert await response.read() == b"the answer"
        async with session.get(url) as response:
            assert response.content_type == "text/html"
    sent = await alice.uploads(general, "a.png", b"png", "image/png")
    assert sent.body["files"][0]["mimetype"] == "image/png"


async def test_views_check_what_they_show_and_who_asked(played: Slack) -> None:
    alice = played.user("alice")
    home = {"type": "home", "blocks": [{"type": "divider"}]}
    kept = await client(played).views_publish(user_id=alice.id, view=home)
    assert alice.home()["blocks"] == home["blocks"]
    assert await code(played, "views.publish", user_id=alice.id, view=home, hash="old") == "hash_conflict"
    assert await code(played, "views.publish", user_id=alice.id, view={"type": "page"}) == "invalid_arguments"
    modal: Json = {"type": "modal", "title": {"type": "plain_text", "text": "t" * 25}, "blocks": []}
    assert await code(played, "views.open", trigger_id="x", view=modal) == "invalid_arguments"
    assert (
        await code(played, "views.open", trigger_id="x", view=modal | {"title": {"text": "t"}}) == "invalid_trigger_id"
    )
    await client(played).views_update(view_id=kept["view"]["id"], view=home)
    assert await code(played, "views.update", view_id="V404", view=home) == "not_found"


async def test_the_assistant_thread_shows_status_title_and_prompts(played: Slack) -> None:
    alice = played.user("alice")
    asked = await alice.says(alice.dm(), "go")
    thread = {"channel_id": alice.dm().id, "thread_ts": asked.ts}
    await client(played).assistant_threads_setStatus(**thread, status="is thinking")
    await client(played).assistant_threads_setTitle(**thread, title="going")
    await client(played).assistant_threads_setSuggestedPrompts(**thread, prompts=[{"title": "a", "message": "b"}])
    key = (alice.dm().id, asked.ts)
    assert (played.state.statuses[key], played.state.titles[key]) == ("is thinking", "going")
    assert played.state.prompts[key][0]["message"] == "b"
    assert await code(played, "assistant.threads.setSuggestedPrompts", **thread, prompts=[]) == "invalid_arguments"


async def test_faults_meet_the_calls_they_are_for(played: Slack) -> None:
    alice = played.user("alice")
    general, other = played.channel("general", alice), played.channel("other", alice)
    played.fails("chat.postMessage", status=429, retry_after=7, channel=general.id)
    await client(played).chat_postMessage(channel=other.id, text="a")
    with pytest.raises(SlackApiError) as caught:
        await client(played).chat_postMessage(channel=general.id, text="a")
    problem: Any = caught.value
    assert (problem.response.status_code, problem.response.headers["Retry-After"]) == (429, "7")
    await client(played).chat_postMessage(channel=general.id, text="a")
    played.fails("chat.postMessage", status=503)
    with pytest.raises(SlackApiError):
        await client(played).chat_postMessage(channel=general.id, text="b")
    played.fails(error="fatal_error")
    assert await code(played, "auth.test") == "fatal_error"
    assert alice.sees(general) == ["a"]


async def test_a_lost_reply_was_done_and_a_cut_call_was_not(played: Slack) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    for cut, seen in (("before", []), ("after", ["a"])):
        played.fails("chat.postMessage", cut=cut)
        with pytest.raises(aiohttp.ClientError):
            await client(played).chat_postMessage(channel=general.id, text="a")
        assert alice.sees(general) == seen
    played.fails("auth.test", delay=30)
    with pytest.raises(TimeoutError):
        await _hurried(played)


async def _hurried(played: Slack) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.1)) as session:
        headers = {"Authorization": f"Bearer {played.bot.value}"}
        async with session.post(f"{played.api}auth.test", headers=headers):
            pass


async def test_what_a_message_notifies_and_links_is_told() -> None:
    text = "<!channel> <@U1> <!subteam^S1|x> @here https://a.b <http://c.d|e> `http://code`"
    assert notified({"text": text}) == {"!channel", "@U1", "!subteam^S1"}
    assert notified({"text": text, "link_names": True}) == {"!channel", "@U1", "!subteam^S1", "!here"}
    assert clickable({"text": text}) == {"https://a.b", "http://c.d"}
    inner = [
        {"type": "broadcast", "range": "here"},
        {"type": "user", "user_id": "U1"},
        {"type": "link", "url": "http://a"},
    ]
    rich = {"blocks": [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": inner}]}]}
    assert notified(rich) == {"!here", "@U1"}
    assert clickable(rich) == {"http://a"}


@pytest.mark.parametrize("links", [True, False])
async def test_what_the_renderer_makes_is_taken_and_mentions_nobody(played: Slack, links: bool) -> None:  # noqa: FBT001 - parametrized
    alice = played.user("alice")
    general = played.channel("general", alice)
    markdown = (
        "# t\n\n<!channel> @here <@U1>\n\n1. a\n   - b\n\n> q\n\n```\ncode\n```\n\n[l](https://a.b) https://c.d " * 40
    )
    for part in render(markdown, links=links).parts:
        await client(played).chat_postMessage(channel=general.id, text=part.text, blocks=list(part.blocks), **QUIET)
        await client(played).chat_postMessage(channel=general.id, text=part.text, **QUIET)
    for message in alice.messages(general):
        assert not alice.notified_by(message)
        assert notified(message.body) == set()
        assert links or not alice.can_click(message)
