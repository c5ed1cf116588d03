"""The played Slack reaches unmodified bolt apps over sockets and requests: deadlines, redelivery, dead sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from tests.sim.slack import Slack, slack
from tests.sim.slack_events import signed
from tests.sim.slack_state import Json, SlackError

pytestmark = pytest.mark.anyio

BUTTONS: list[Json] = [
    {
        "type": "actions",
        "elements": [
            {"type": "button", "action_id": "yes", "value": "v", "text": {"type": "plain_text", "text": "Yes"}}
        ],
    }
]
MODAL: Json = {
    "type": "modal",
    "callback_id": "ask",
    "title": {"type": "plain_text", "text": "Ask"},
    "submit": {"type": "plain_text", "text": "Send"},
    "blocks": [
        {
            "type": "input",
            "block_id": "why",
            "label": {"type": "plain_text", "text": "Why"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        }
    ],
}


@dataclass
class Bot:
    """A small bolt app; `got` is every body it was given, `broken` lets it fail that often before it acknowledges."""

    app: Any
    got: list[Json] = field(default_factory=list[Json])
    retries: list[str] = field(default_factory=list[str])
    broken: int = 0
    asked: list[Any] = field(default_factory=list[Any])

    def events(self, kind: str) -> list[Json]:
        return [body["event"] for body in self.got if body.get("event", {}).get("type") == kind]


def bot_of(played: Slack) -> Bot:
    client = AsyncWebClient(played.bot.value, base_url=played.api, retry_handlers=[])
    app: Any = AsyncApp(client=client, token=played.bot.value, signing_secret=played.state.app.signing_secret)
    bot = Bot(app)

    @app.use
    async def keep(body: Json, request: Any, next: Any) -> None:  # noqa: A002, ANN401 - bolt's names and types
        bot.retries += request.headers.get("x-slack-retry-num", [])
        if bot.broken:
            bot.broken -= 1
            raise OSError("the store is down")
        bot.got.append(body)
        await next()

    _listen(app, bot)
    for kind in ("message", "member_joined_channel", "channel_shared", "tokens_revoked", "app_uninstalled"):
        app.event(kind)(_nothing)
    return bot


def _listen(app: Any, bot: Bot) -> None:  # noqa: ANN401 - bolt's types
    @app.event("app_mention")
    async def mention(event: Json, say: Any) -> None:  # noqa: ANN401 - bolt's types
        await say(text=f"heard {event['text'].partition(' ')[2]}", thread_ts=event.get("thread_ts") or event["ts"])

    @app.command("/lockgate")
    async def command(ack: Any, respond: Any, command: Json, client: Any) -> None:  # noqa: ANN401 - bolt's types
        bot.asked.append(respond)
        if command["text"] == "modal":
            await ack()
            await client.views_open(trigger_id=command["trigger_id"], view=MODAL)
        else:
            await ack(f"did {command['text']}")

    @app.action("yes")
    async def yes(ack: Any, respond: Any, body: Json) -> None:  # noqa: ANN401 - bolt's types
        await ack()
        await respond(replace_original=True, text=f"{body['user']['name']} agreed")

    @app.view("ask")
    async def view(ack: Any, view: Json) -> None:  # noqa: ANN401 - bolt's types
        if view["state"]["values"]["why"]["text"]["value"] == "no":
            await ack(response_action="errors", errors={"why": "say more"})
        else:
            await ack()

    @app.event("app_home_opened")
    async def home(event: Json, client: Any) -> None:  # noqa: ANN401 - bolt's types
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": BUTTONS})

    @app.shortcut("pass_on")
    async def shortcut(ack: Any) -> None:  # noqa: ANN401 - bolt's types
        await ack()


async def _nothing() -> None:
    """Acknowledge."""


@asynccontextmanager
async def socketed(played: Slack, bot: Bot, ping_interval: float = 5) -> AsyncGenerator[Any]:
    handler: Any = AsyncSocketModeHandler(bot.app, played.app_token, ping_interval=ping_interval)
    alive = sum(not socket.dead for socket in played.sockets.open)
    await handler.connect_async()
    await played.sockets.connected(alive + 1)
    try:
        yield handler
    finally:
        await handler.close_async()


@pytest.fixture
async def played() -> AsyncIterator[Slack]:
    async with slack() as here:
        yield here


@pytest.fixture
async def bot(played: Slack) -> AsyncIterator[Bot]:
    made = bot_of(played)
    async with socketed(played, made):
        yield made


@asynccontextmanager
async def served(bot: Bot) -> AsyncGenerator[str]:
    """Serve a bolt app's own HTTP endpoint."""
    runner = web.AppRunner(bot.app.web_app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("first", [True, False])
async def test_a_mention_comes_as_two_events_in_either_order(played: Slack, bot: Bot, first: bool) -> None:  # noqa: FBT001 - parametrized
    # On a slow machine a late acknowledgement would bring them again.
    played.reach.mention_first, played.reach.within = first, 8.0
    alice = played.user("alice")
    general = played.channel("general", alice)
    asked = await alice.mentions(general, "hello")
    await played.until(lambda: "heard hello" in alice.sees(general, asked))
    kinds = [body["event"]["type"] for body in bot.got if body["event"].get("ts") == asked.ts]
    assert sorted(kinds) == ["app_mention", "message"]
    assert (kinds == ["app_mention", "message"]) == first
    wrapped = bot.got[0]
    assert wrapped["authorizations"][0]["user_id"] == played.bot.user
    assert (wrapped["context_team_id"], wrapped["is_ext_shared_channel"]) == (played.team.id, False)
    # its own answer comes too, as what a bot said, and bolt drops it
    await played.settled()
    assert played.reach.attempts[-1].payload["event"]["bot_id"] == f"B{played.bot.user}"
    assert len(bot.got) == 2


async def test_what_is_not_acknowledged_comes_again_with_the_same_id(played: Slack, bot: Bot) -> None:
    bot.broken = 2
    alice = played.user("alice")
    await alice.says(alice.dm(), "hello")
    tries = played.reach.attempts
    assert [attempt.number for attempt in tries] == [0, 1, 2]
    assert len({attempt.payload["event_id"] for attempt in tries}) == 1
    assert bot.retries == ["0", "1", "2"]
    assert [event["text"] for event in bot.events("message")] == ["hello"]


@pytest.fixture(autouse=True)
def quick(played: Slack) -> None:
    played.reach.within = 2.5


async def test_after_three_more_tries_an_event_is_given_up(played: Slack, bot: Bot) -> None:
    bot.broken = 9
    alice = played.user("alice")
    await alice.says(alice.dm(), "hello")
    assert [attempt.failed for attempt in played.reach.attempts] == ["timeout"] * 4
    assert bot.got == []


async def test_an_event_may_come_again_although_it_was_acknowledged(played: Slack, bot: Bot) -> None:
    played.reach.extra = 3
    alice = played.user("alice")
    await alice.says(alice.dm(), "hello")
    assert len({body["event_id"] for body in bot.got}) == 1
    assert len(bot.got) == 4


async def test_any_of_several_connections_gets_an_event(played: Slack, bot: Bot) -> None:
    other = bot_of(played)
    alice = played.user("alice")
    async with socketed(played, other):
        await alice.says(alice.dm(), "one")
        await alice.says(alice.dm(), "two")
    assert [len(bot.got), len(other.got)] == [1, 1]


async def test_a_disconnect_makes_the_client_come_back(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    await played.sockets.disconnect("warning")
    old = played.sockets.open[0]
    await played.sockets.disconnect()
    async with asyncio.timeout(60):
        await played.sockets.connected()
    assert played.sockets.open[0] is not old
    await alice.says(alice.dm(), "hello")
    assert [event["text"] for event in bot.events("message")] == ["hello"]


async def test_a_socket_that_looks_alive_loses_what_is_sent(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    # Less than after what the client notices it.
    played.reach.within = 0.5
    played.sockets.die()
    await alice.says(alice.dm(), "lost")
    assert bot.got == []
    assert {attempt.failed for attempt in played.reach.attempts} == {"timeout"}
    # a new connection beside it works
    played.reach.within = 2.5
    async with socketed(played, bot):
        played.sockets.open[0].sent = 1_000
        await alice.says(alice.dm(), "found")
    assert [event["text"] for event in bot.events("message")] == ["found"]


async def test_without_a_connection_nothing_arrives(played: Slack) -> None:
    alice = played.user("alice")
    await alice.says(alice.dm(), "hello")
    assert [attempt.failed for attempt in played.reach.attempts] == ["connection_failed"] * 4


async def test_a_ticket_opens_one_socket(played: Slack) -> None:
    client: Any = AsyncWebClient(base_url=played.api)
    url = (await client.apps_connections_open(app_token=played.app_token))["url"]
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url) as stream:
            assert (await stream.receive_json())["type"] == "hello"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)


async def test_a_command_answers_its_caller_alone(played: Slack, bot: Bot) -> None:
    alice, bob = played.user("alice"), played.user("bob")
    general = played.channel("general", alice, bob)
    await alice.runs("/lockgate status", general)
    assert alice.sees(general) == ["did status"]
    assert bob.sees(general) == []
    asked = await alice.says(general, "hello")
    with pytest.raises(SlackError):
        await alice.runs("/lockgate status", general, asked)
    (respond,) = bot.asked
    for number in range(5):
        assert (await respond(f"more {number}")).status_code == 200
    assert (await respond("too much")).status_code == 404
    assert alice.sees(general)[-1] == "more 4"


async def test_a_response_url_ends_after_half_an_hour(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    await alice.runs("/lockgate status")
    played.skip(1_801)
    assert (await bot.asked[0]("late")).status_code == 404


async def test_a_command_that_is_not_acknowledged_says_so(played: Slack, bot: Bot) -> None:
    bot.broken = 1
    alice = played.user("alice")
    await alice.runs("/lockgate status")
    assert alice.sees(alice.dm()) == ["/lockgate failed with the error `operation_timeout`"]


async def test_a_button_tells_who_pressed_and_its_message_is_replaced(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    general = played.channel("general", alice)
    await bot.app.client.chat_postMessage(channel=general.id, text="agree?", blocks=BUTTONS)
    (message,) = alice.messages(general)
    await alice.presses(message, "yes")
    await played.until(lambda: "alice agreed" in alice.sees(general))
    assert alice.sees(general) == ["alice agreed"]
    with pytest.raises(SlackError):
        await alice.presses(message, "yes")


async def test_a_modal_is_opened_filled_and_sent(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    await alice.runs("/lockgate modal")
    await played.until(lambda: played.state.views)
    (view,) = played.state.views.values()
    refused = await alice.submits(view, why="no")
    assert refused.answer == {"response_action": "errors", "errors": {"why": "say more"}}
    await alice.submits(view, why="because")
    assert played.state.views == {}
    assert bot.got[-1]["view"]["state"]["values"] == {"why": {"text": {"type": "plain_text_input", "value": "because"}}}


async def test_a_trigger_expires(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    await alice.chooses("pass_on")
    trigger = bot.got[-1]["trigger_id"]
    played.skip(4)
    answer = await _answer(bot.app.client, trigger)
    assert answer["error"] == "expired_trigger_id"


async def _answer(client: Any, trigger: str) -> Json:  # noqa: ANN401 - bolt's types
    headers = {"Authorization": f"Bearer {client.token}"}
    async with aiohttp.ClientSession() as session:
        body = {"trigger_id": trigger, "view": MODAL}
        async with session.post(f"{client.base_url}views.open", json=body, headers=headers) as response:
            return await response.json()


async def test_a_home_is_published_and_pressed(played: Slack, bot: Bot) -> None:
    alice = played.user("alice")
    await alice.opens_home()
    await played.until(alice.home)
    await alice.presses_in(alice.home(), "yes")
    assert bot.got[-1]["view"]["type"] == "home"


async def test_joins_edits_deletions_shares_and_shortcuts_are_told(played: Slack, bot: Bot) -> None:
    alice, guest = played.user("alice"), played.user("gus", is_restricted=True)
    general = played.channel("general", alice)
    await guest.joins(general)
    said = await alice.says(general, "hello")
    await alice.edits(said, "hi")
    await alice.chooses("pass_on", said)
    await alice.deletes(said)
    await played.share(general, played.workspace("elsewhere"))
    assert bot.events("member_joined_channel")[0]["user"] == guest.id
    subtypes = [event.get("subtype") for event in bot.events("message")]
    assert subtypes == [None, "message_changed", "message_deleted"]
    assert bot.events("channel_shared")[0]["channel"] == general.id
    assert bot.got[-1]["is_ext_shared_channel"]
    await guest.leaves(general)
    assert guest.id not in general.members


async def test_an_uninstalled_app_is_told_and_locked_out(played: Slack, bot: Bot) -> None:
    await played.uninstalls()
    assert [body["event"]["type"] for body in bot.got] == ["tokens_revoked", "app_uninstalled"]
    assert played.state.tokens[played.bot.value].revoked


async def test_requests_are_signed_verified_and_sent_again(played: Slack) -> None:
    bot = bot_of(played)
    alice = played.user("alice")
    async with served(bot) as url:
        played.reach.url = url
        assert await played.reach.verify()
        bot.broken = 1
        await alice.says(alice.dm(), "hello")
        assert [attempt.failed for attempt in played.reach.attempts] == ["http_error", ""]
        assert bot.retries == ["1"]
        await alice.runs("/lockgate status")
        assert alice.sees(alice.dm())[-1] == "did status"
        assert await _status(url, signed(played.state, b"{}")) != 401
        assert await _status(url, signed(played.state, b"{}", at=played.state.now() - 301)) == 401
        assert await _status(url, signed(played.state, b"other")) == 401


async def _status(url: str, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession() as session:
        more = {"Content-Type": "application/json"}
        async with session.post(url, data=b"{}", headers=headers | more) as response:
            return response.status


async def test_a_slow_answer_is_too_late_and_a_refusal_may_be_final(played: Slack) -> None:
    answers = [web.Response(status=500, headers={"X-Slack-No-Retry": "1"})]

    async def answer(_request: web.Request) -> web.Response:
        if answers:
            return answers.pop()
        await asyncio.sleep(1)
        return web.Response()

    app = web.Application()
    app.router.add_post("/slack/events", answer)
    bot = Bot(_Served(app))
    alice = played.user("alice")
    played.reach.within = 60
    async with served(bot) as url:
        played.reach.url = url
        await alice.says(alice.dm(), "final")
        assert [attempt.failed for attempt in played.reach.attempts] == ["no_retry"]
        played.reach.within = 0.05
        await alice.says(alice.dm(), "slow")
        assert [attempt.failed for attempt in played.reach.attempts[1:]] == ["http_timeout"] * 4


@dataclass
class _Served:
    """An application where a bolt app is expected."""

    app: web.Application

    def web_app(self) -> web.Application:
        return self.app


async def test_what_nobody_may_see_is_not_seen(played: Slack) -> None:
    alice, bob = played.user("alice"), played.user("bob")
    secret = played.channel("secret", alice, kind="private")
    with pytest.raises(SlackError):
        bob.sees(secret)
    with pytest.raises(SlackError):
        await bob.says(secret, "a")
