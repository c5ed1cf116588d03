"""The webhook at Telegram: set when its port is bound, taken off when nobody of this bot listens at it any more."""

import json
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from io import BytesIO

import aiohttp
import anyio
import pytest

from channels.messages import Event, Inbound
from channels.port import ListenError
from channels.telegram.webhook import LONGEST, Webhook
from tests.channels.contract import until
from tests.channels.telegram.kit import TelegramStage, staged
from tests.sim.ports import free_port
from tests.sim.telegram_state import BOT_ID
from tests.sim.telegram_state import Webhook as Set

pytestmark = pytest.mark.anyio

SECRET = "a-secret-of-the-webhook"  # noqa: S105 - it opens nothing
HEADER = "X-Telegram-Bot-Api-Secret-Token"


@pytest.fixture
async def hook() -> Webhook:
    port = free_port()
    return Webhook(f"http://127.0.0.1:{port}/telegram", SECRET, "127.0.0.1", port)


@pytest.fixture
async def played(hook: Webhook) -> AsyncGenerator[TelegramStage]:
    async with staged(webhook=hook) as made:
        yield made


def texts(played: TelegramStage) -> list[str]:
    return [event.text for event in played.got if isinstance(event, Inbound)]


async def posted(hook: Webhook, body: bytes, secret: str | None = SECRET) -> int:
    headers = {} if secret is None else {HEADER: secret}
    async with (
        aiohttp.ClientSession() as session,
        session.post(hook.url, data=BytesIO(body), headers=headers) as response,
    ):
        assert await response.text() == ""
        return response.status


async def test_what_is_posted_is_handed_on_and_nobody_polls(played: TelegramStage) -> None:
    async with played.serving():
        for word in ("one", "two"):
            played.alice.says(None, word)
        await until(lambda: len(texts(played)) == 2 and not played.server.state.updates)
        assert played.server.asked("getUpdates") == []
        assert all("privacy" in trouble.problem for trouble in await played.adapter.troubles())
    assert texts(played) == ["one", "two"]
    assert played.server.state.webhook.secret == SECRET
    assert "chat_member" in (played.server.state.allowed or ())


async def test_what_could_not_be_kept_is_told_again(played: TelegramStage) -> None:
    played.refusals, played.vault.full = 2, True
    async with played.serving():
        played.alice.says(None, "one")
        await until(lambda: played.refusals < 2)
        assert played.server.state.updates
        await until(lambda: texts(played))
    assert texts(played) == ["one"]
    assert "503" in played.server.state.webhook.error


async def test_whoever_does_not_know_the_secret_is_told_nothing(played: TelegramStage, hook: Webhook) -> None:
    update = json.dumps({"update_id": 1, "message": {"chat": {}}}).encode()
    async with played.serving():
        await until(lambda: played.server.state.webhook.url)
        played.alice.says(None, "ready")
        await until(lambda: texts(played))
        for secret in (None, "", SECRET[:-1], "ü"):
            assert await posted(hook, update, secret) == 403
        assert await posted(hook, b" " * 2 * LONGEST, None) == 403
        assert await posted(hook, b" " * (LONGEST + 1)) == 413
        for body in (b"", b"{", b"[]", b"[" * 100_000):
            assert await posted(hook, body) == 400
    assert texts(played) == ["ready"]


async def test_what_is_wrong_with_a_webhook_is_told(played: TelegramStage) -> None:
    played.refusals, played.vault.full = 1_000_000, True
    async with played.serving():
        played.alice.says(None, "one")
        await until(lambda: played.server.state.webhook.error)
        assert "1 updates wait" in str(await played.adapter.troubles())
        played.server.state.webhook.url = "http://127.0.0.1:1/"
        assert "another webhook" in str(await played.adapter.troubles())


@pytest.mark.parametrize("secret", ["", "short", "x" * 257, "with space in the middle"])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="16 to 256"):
        Webhook("https://bot.example/x", secret, "127.0.0.1", 8443)
    assert SECRET not in repr(Webhook("https://bot.example/x", SECRET, "127.0.0.1", 8443))


OWN = f"telegram/{BOT_ID}/webhook"


def webhook_at(port: int = 0, path: str = "telegram") -> Webhook:
    port = port or free_port()
    return Webhook(f"http://127.0.0.1:{port}/{path}", SECRET, "127.0.0.1", port)


def texts_of(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Inbound)]


@contextmanager
def taken() -> Generator[int]:
    """Listen at a port, and give its number."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


async def refused(played: TelegramStage, error: type[Exception]) -> Exception:
    """Serve, and return why that ended."""
    began: list[str] = []
    with anyio.fail_after(60), pytest.raises(error) as raised:
        await played.adapter.serve(played.receive, lambda: began.append("began"))
    assert began == []
    return raised.value


async def test_a_port_that_is_taken_ends_it_before_telegram_is_told_anything() -> None:
    with taken() as port:
        async with staged(webhook=webhook_at(port)) as played:
            error = await refused(played, OSError)
            assert str(port) in str(error)
            assert played.server.calls == []
            assert not played.server.state.webhook.url


async def test_the_port_is_bound_before_the_webhook_is_set() -> None:
    made = webhook_at()
    async with staged(webhook=made) as played:
        fault = played.server.slows("getMe", seconds=3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.adapter.serve, played.receive)
            await until(lambda: fault.times == 0)
            assert played.server.asked("setWebhook") == []
            async with await anyio.connect_tcp("127.0.0.1", made.port):
                pass
            await until(lambda: played.server.state.webhook.url)
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "told, problem",
    [
        ("Bad Request: bad webhook: An HTTPS URL must be provided for webhook", "begins with `https://`"),
        ("Bad Request: bad webhook: Failed to resolve host: Name or service not known", "no address for its host"),
        ("Bad Request: bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443", "443, 80, 88 or 8443"),
        ("Bad Request: bad webhook: IP address 10.0.0.1 is reserved", "on the internet"),
        ("Bad Request: secret token contains unallowed characters", "refused it"),
    ],
)
async def test_a_webhook_that_telegram_refuses_ends_it_with_what_to_mend(told: str, problem: str) -> None:
    made = webhook_at()
    async with staged(webhook=made) as played:
        played.server.fails("setWebhook", status=400, told=told)
        error = await refused(played, ListenError)
        assert isinstance(error, ListenError)
        assert problem in str(error)
        assert "`channels.telegram.webhook" in error.next_step
        assert "10.0.0.1" not in str(error)
        with socket.socket() as again:
            again.bind(("127.0.0.1", made.port))


@pytest.mark.parametrize("method", ["getMe", "setWebhook"])
async def test_a_token_that_telegram_does_not_accept_ends_a_webhook(method: str) -> None:
    async with staged(webhook=webhook_at()) as played:
        played.server.fails(method, status=401, told="Unauthorized", times=1_000)
        error = await refused(played, ListenError)
        assert isinstance(error, ListenError)
        assert "does not accept the bot's token" in str(error)
        assert "@BotFather" in error.next_step


async def test_a_telegram_that_is_away_is_waited_for_and_listening_is_told_when_it_is_true() -> None:
    async with staged(webhook=webhook_at()) as played:
        began: list[str] = []
        fault = played.server.fails("setWebhook", status=502, times=3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                played.adapter.serve, played.receive, lambda: began.append(played.server.state.webhook.url)
            )
            await until(lambda: fault.times == 0)
            await until(lambda: began)
            assert began == [played.server.state.webhook.url]
            tasks.cancel_scope.cancel()
        assert began[0]


async def test_polling_is_told_to_have_begun_when_a_poll_was_answered() -> None:
    async with staged() as played:
        began: list[int] = []
        fault = played.server.fails("getUpdates", status=502, times=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.adapter.serve, played.receive, lambda: began.append(fault.times))
            await until(lambda: began)
            played.alice.says(None, "one")
            await until(lambda: texts_of(played.got))
            tasks.cancel_scope.cancel()
        assert began == [0]


async def test_what_was_set_and_is_refused_in_the_end_is_taken_off() -> None:
    async with staged(webhook=webhook_at()) as played:
        # Done, and its answer lost; the next attempt is refused.
        played.server.loses("setWebhook")
        played.server.fails("setWebhook", status=400, told="Bad Request: bad webhook: so it is")
        await refused(played, ListenError)
        assert len(played.server.asked("setWebhook")) == 2
        assert not played.server.state.webhook.url


async def test_a_port_that_is_taken_later_takes_off_what_was_set_before() -> None:
    with taken() as port:
        async with staged(webhook=webhook_at(port)) as played:
            played.vault.values[OWN] = b'["https://bot.example/earlier"]'
            played.server.state.webhook = Set("https://bot.example/earlier")
            await refused(played, OSError)
            assert not played.server.state.webhook.url
            assert played.server.asked("setWebhook") == []


async def test_a_webhook_of_others_stays_when_this_one_cannot_begin() -> None:
    with taken() as port:
        async with staged(webhook=webhook_at(port)) as played:
            played.vault.values[OWN] = b'["https://bot.example/earlier"]'
            played.server.state.webhook = Set("https://elsewhere.example/")
            await refused(played, OSError)
            assert played.server.state.webhook.url == "https://elsewhere.example/"


async def test_a_replica_that_cannot_begin_or_ends_leaves_the_webhook_to_the_others() -> None:
    made = webhook_at()
    async with staged(webhook=made) as played, played.serving():
        await until(lambda: played.server.state.webhook.url)
        unable = played.another(webhook=made)
        with anyio.fail_after(60), pytest.raises(OSError, match=str(made.port)):
            await unable.serve(played.receive)
        await unable.close()
        other = played.another(webhook=Webhook(made.url, SECRET, "127.0.0.1", free_port()))
        async with anyio.create_task_group() as tasks:
            began: list[str] = []
            tasks.start_soon(other.serve, played.receive, lambda: began.append("began"))
            await until(lambda: began)
            tasks.cancel_scope.cancel()
        await other.close()
        assert played.server.asked("deleteWebhook") == []
        played.alice.says(None, "still there")
        await until(lambda: texts_of(played.got) == ["still there"])


async def test_a_webhook_that_was_taken_off_meanwhile_is_set_again() -> None:
    async with staged(webhook=webhook_at()) as played, played.serving():
        await until(lambda: played.server.state.webhook.url)
        played.server.state.webhook = Set()
        await until(lambda: played.server.state.webhook.url)
        played.alice.says(None, "one")
        await until(lambda: texts_of(played.got) == ["one"])


async def test_a_webhook_that_another_program_set_is_told_and_not_undone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "channels")
    async with staged(webhook=webhook_at()) as played, played.serving():
        await until(lambda: played.server.state.webhook.url)
        played.server.state.webhook = Set("https://elsewhere.example/path-with-a-secret")
        await until(lambda: "another webhook" in str([vars(one).get("cause") for one in caplog.records]))
        assert played.server.state.webhook.url.startswith("https://elsewhere.example/")
    assert "path-with-a-secret" not in str([vars(one) for one in caplog.records])


async def test_a_webhook_that_cannot_be_reached_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "channels")
    made = webhook_at()
    away = Webhook(f"http://127.0.0.1:{free_port()}/telegram", SECRET, made.host, made.port)
    async with staged(webhook=away) as played, played.serving():
        await until(lambda: played.server.state.webhook.url)
        played.alice.says(None, "one")
        await until(lambda: "1 updates wait" in str([vars(one).get("cause") for one in caplog.records]))


async def test_from_a_webhook_back_to_polling_nobody_has_to_do_anything() -> None:
    async with staged(webhook=webhook_at()) as played:
        async with played.serving():
            played.alice.says(None, "one")
            await until(lambda: texts_of(played.got) == ["one"])
        assert played.server.state.webhook.url
        played.alice.says(None, "two")
        await played.adapter.close()
        played.adapter = played.another()
        async with played.serving():
            await until(lambda: texts_of(played.got)[-1:] == ["two"])
            played.alice.says(None, "three")
            await until(lambda: texts_of(played.got)[-1:] == ["three"])
        assert played.server.asked("deleteWebhook") == [{}]


async def test_polling_waits_for_the_last_that_listens_by_a_webhook() -> None:
    made = webhook_at()
    async with staged(webhook=made) as played, played.serving():
        await until(lambda: played.server.state.webhook.url)
        polls = played.another()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(polls.serve, played.receive)
            await until(lambda: len(played.server.asked("getUpdates")) > 2)
            played.alice.says(None, "one")
            await until(lambda: texts_of(played.got) == ["one"])
            assert played.server.asked("deleteWebhook") == []
            assert "another process" in str(await polls.troubles())
            tasks.cancel_scope.cancel()
        await polls.close()


async def test_a_webhook_that_was_being_set_at_a_kill_is_known_for_our_own() -> None:
    async with staged(webhook=webhook_at()) as played:
        played.server.slows("setWebhook", seconds=120)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.adapter.serve, played.receive)
            await until(lambda: played.server.state.webhook.url)
            tasks.cancel_scope.cancel()
        await played.adapter.close()
        played.adapter = played.another()
        played.alice.says(None, "one")
        async with played.serving():
            await until(lambda: texts_of(played.got) == ["one"])


async def test_a_webhook_of_another_program_is_left_and_owners_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "channels")
    async with staged() as played:
        played.server.state.webhook = Set("https://elsewhere.example/path-with-a-secret")
        async with played.serving():
            await until(lambda: len(played.server.asked("getUpdates")) > 2)
        assert played.server.state.webhook.url
    alerts = [vars(one) for one in caplog.records if vars(one).get("alert")]
    assert alerts
    assert "a webhook is set for this bot" in alerts[0]["cause"]
    assert "path-with-a-secret" not in str(alerts)


async def test_nothing_is_taken_off_while_it_cannot_be_known_whose_it_is() -> None:
    async with staged() as played:
        played.vault.values[OWN] = b'["https://bot.example/earlier"]'
        played.server.state.webhook = Set("https://bot.example/earlier")
        played.vault.broken = True
        async with played.serving():
            await until(lambda: len(played.server.asked("getUpdates")) > 2)
            assert played.server.state.webhook.url
            played.vault.broken = False
            await until(lambda: not played.server.state.webhook.url)


async def test_an_own_webhook_is_a_remark_to_whoever_does_not_poll_yet() -> None:
    async with staged() as played:
        played.vault.values[OWN] = b'["https://bot.example/earlier"]'
        played.server.state.webhook = Set("https://bot.example/earlier")
        (told,) = [one for one in await played.adapter.troubles() if "webhook" in one.problem]
        assert told.remark
