"""One try: signed as Standard Webhooks says, to an address that is looked up and checked anew each time."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.extensions import Extensions
from bot.core.clock import SystemClock
from bot.tools.web.connection import Connector
from bot.webhooks.attempt import REDIRECT, TIMEOUT, UNENCRYPTED, Attempted, Poster, WebhookMessage, message, signed
from tests.bot.webhooks.kit import begin, hook_config, program, until
from tests.sim.receiver import HANG, Receiver, receiver

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NOT_PUBLIC = "that is no public address, and only those are fetched"


class Names:
    """A resolver whose answer a test changes."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    async def resolve(self, _host: str, _port: int) -> tuple[str, ...]:
        self.asked += 1
        return self.addresses


@asynccontextmanager
async def posting(names: Names, *, seconds: float = 20) -> AsyncGenerator[tuple[Receiver, Poster]]:
    """Run a receiver, and what posts to it by a name."""
    async with receiver() as here:
        connector = Connector(names.resolve, frozenset({("127.0.0.1", here.port)}))
        yield here, Poster(connector, seconds, SystemClock())


def named(here: Receiver) -> str:
    return here.url.replace("127.0.0.1", "hooks.example.com")


def test_a_signature_is_made_by_the_standard() -> None:
    sent = message("msg-1", "agent.message", 1_700_000_000_123, {"session": "s"})
    assert sent.payload == ('{"type":"agent.message","timestamp":"2023-11-14T22:13:20.123Z","data":{"session":"s"}}')
    headers = signed(sent, (SECRET,), 1_700_000_001_999)
    content = f"msg-1.1700000001.{sent.payload}".encode()
    expected = base64.b64encode(hmac.digest(bytes(range(32)), content, hashlib.sha256)).decode()
    assert headers == {
        "Content-Type": "application/json",
        "webhook-id": "msg-1",
        "webhook-timestamp": "1700000001",
        "webhook-signature": f"v1,{expected}",
    }


def test_a_text_that_is_no_unicode_is_sent_all_the_same() -> None:
    sent = message("msg-1", "agent.message", 0, {"text": "\ud800"})
    assert sent.payload.encode()


@pytest.mark.parametrize("later", ["127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "192.168.1.1"])
async def test_a_name_that_comes_to_mean_a_place_inside_is_refused(later: str) -> None:
    names = Names("127.0.0.1")
    async with posting(names) as (here, poster):
        assert await poster.post(named(here), {}, "{}") == Attempted()
        names.addresses = ("127.0.0.1", later)
        assert await poster.post(named(here), {}, "{}") == Attempted(NOT_PUBLIC)
        assert names.asked == 2
        assert len(here.got) == 1


async def test_nothing_is_sent_to_a_public_address_unencrypted() -> None:
    names = Names("93.184.216.34")
    async with posting(names) as (_, poster):
        assert await poster.post("http://hooks.example.com/x", {}, "{}") == Attempted(UNENCRYPTED)


@pytest.mark.parametrize(
    "status, answered",
    [
        (200, Attempted()),
        (204, Attempted()),
        (302, Attempted(REDIRECT)),
        (308, Attempted(REDIRECT)),
        (404, Attempted("it answered with status 404")),
        (410, Attempted("it answered with status 410", gone=True)),
        (429, Attempted("it answered with status 429", after=7)),
        (500, Attempted("it answered with status 500")),
    ],
)
async def test_what_an_answer_means(status: int, answered: Attempted) -> None:
    async with posting(Names("127.0.0.1")) as (here, poster):
        here.usual, here.extra = status, (f"Location: {here.url}/inside", "Retry-After: 7")
        assert await poster.post(named(here), {}, "{}") == answered
        assert [one.path for one in here.got] == ["/hook"]


@pytest.mark.parametrize(
    "written, least, most",
    [
        ("Fri, 31 Dec 2999 23:59:59 GMT", 10**9, 10**11),
        ("yesterday", 0, 0),
        ("-1", 0, 0),
        ("1" * 30, 1, 10**9),
        # Dates that the library reads, and no computer holds.
        ("Mon, 01 Jan 2020 99999999999:00:00 GMT", 0, 0),
        (f"Mon, 01 Jan 2020 00:00:00 +{'9' * 20}", 0, 0),
    ],
)
async def test_a_receiver_says_when_it_takes_more(written: str, least: float, most: float) -> None:
    async with posting(Names("127.0.0.1")) as (here, poster):
        here.usual, here.extra = 503, (f"Retry-After: {written}",)
        assert least <= (await poster.post(named(here), {}, "{}")).after <= most


async def test_one_that_does_not_answer_is_left() -> None:
    async with posting(Names("127.0.0.1"), seconds=0.3) as (here, poster):
        here.usual = HANG
        async with asyncio.timeout(60):
            assert await poster.post(named(here), {}, "{}") == Attempted(TIMEOUT)


async def test_a_secret_stands_in_no_value_that_is_shown() -> None:
    assert "payload" not in repr(WebhookMessage("msg-1", "{}"))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest",
        "https://10.1.2.3/x",
        "https://user:word@example.com/",
        "ftp://example.com/",
        "nothing",
    ],
)
async def test_an_address_that_nothing_is_ever_sent_to_is_refused(tmp_path: Path, url: str) -> None:
    async with program(tmp_path, hook_config()) as ci:
        answer = await ci.client.post("/v1/webhooks", json={"url": url})
        assert 400 <= answer.status_code < 500
        assert "example" not in answer.text
        assert await ci.listed() == []


async def test_a_name_is_looked_up_at_each_try_and_not_before(tmp_path: Path) -> None:
    names = Names("10.0.0.1")
    async with program(tmp_path, hook_config(retries=(1,)), parts=Extensions(resolve=names.resolve)) as ci:
        await ci.hook("https://hooks.example.com/x")
        assert names.asked == 0
        await begin(ci.app)
        await until(ci.dead)
        assert names.asked == 2
        (dead,) = await ci.dead()
        assert dead["error"] == NOT_PUBLIC
