"""By a webhook, Telegram is told that an update was taken when it was kept, and strangers are told nothing."""

import json
from collections.abc import AsyncGenerator
from io import BytesIO

import aiohttp
import pytest

from channels.message import Inbound
from channels.telegram.webhook import LONGEST, Webhook
from tests.channels.contract import until
from tests.channels.telegram.kit import TelegramStage, staged
from tests.sim.ports import free_port

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
