"""What is sent again, what is not, and what is told of it; against a server that answers by a script."""

import asyncio
import json
import socket
import time

import pytest

from lockgate.client import Client
from lockgate.errors import ApiError, UnexpectedAnswerError, UnreachableError
from tests.lockgate.scripted import CUT, answer, refusal, scripted

pytestmark = pytest.mark.anyio

TOKEN = "lg_abc_NeverToBeShown"  # noqa: S105 - of no installation
CREATED = answer(201, {"id": "s1", "created": True, "created_at": 1})


async def test_a_request_with_a_key_is_sent_again_with_the_same_key() -> None:
    async with scripted(CUT, refusal(503, "store_gone"), CREATED) as server, Client(server.url, TOKEN) as client:
        created = await client.sessions.create("hello")
    assert (created.id, len(server.asked)) == ("s1", 3)
    keys = {asked.headers["idempotency-key"] for asked in server.asked}
    assert len(keys) == 1
    assert len(keys.pop()) >= 16


async def test_two_calls_have_two_keys() -> None:
    async with scripted(CREATED) as server, Client(server.url, TOKEN) as client:
        await client.sessions.create("hello")
        await client.sessions.create("hello")
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 2


async def test_an_answer_that_was_lost_is_not_asked_for_again_without_a_key() -> None:
    async with scripted(CUT, answer(204)) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(UnreachableError):
            await client.sessions.cancel("s1")
    assert len(server.asked) == 1


@pytest.mark.parametrize("verb", ["pause", "resume", "archive", "restore"])
async def test_what_asks_for_a_state_is_sent_again(verb: str) -> None:
    async with scripted(CUT, answer(204)) as server, Client(server.url, TOKEN) as client:
        await getattr(client.sessions, verb)("s1")
    assert len(server.asked) == 2


async def test_an_answer_to_an_approval_is_sent_again() -> None:
    settled = answer(200, {"approvals": [], "waiting": 0})
    async with scripted(CUT, settled) as server, Client(server.url, TOKEN) as client:
        assert (await client.approvals.approve("a1")).approvals == ()
    assert len(server.asked) == 2


async def test_what_may_have_been_done_in_a_broken_store_is_not_asked_for_again_without_a_key() -> None:
    async with scripted(refusal(503, "unavailable"), answer(204)) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(ApiError):
            await client.sessions.cancel("s1")
    assert len(server.asked) == 1


async def test_a_message_has_a_key_of_its_own_that_is_the_same_when_it_is_sent_again() -> None:
    taken = answer(202, {"seq": 1})
    async with scripted(CUT, taken, taken) as server, Client(server.url, TOKEN) as client:
        await client.sessions.say("s1", "hello")
        await client.sessions.say("s1", "hello")
    first, again, other = (asked.headers["idempotency-key"] for asked in server.asked)
    assert first == again != other


@pytest.mark.parametrize("first", [refusal(429, "rate"), refusal(503, "not_serving")])
async def test_what_was_refused_for_now_is_sent_again(first: bytes) -> None:
    async with scripted(first, answer(202, {})) as server, Client(server.url, TOKEN) as client:
        await client.sessions.cancel("s1")
    assert len(server.asked) == 2


async def test_the_api_says_how_long_to_wait() -> None:
    async with scripted(refusal(429, "rate", Retry_After="1"), CREATED) as server, Client(server.url, TOKEN) as client:
        begun = time.monotonic()
        await client.sessions.create("hello")
    assert time.monotonic() - begun >= 1


async def test_a_wait_that_is_longer_than_the_patience_is_told_at_once() -> None:
    async with (
        scripted(refusal(429, "rate", Retry_After="60")) as server,
        Client(server.url, TOKEN, patience=2) as client,
    ):
        begun = time.monotonic()
        with pytest.raises(ApiError) as told:
            await client.sessions.get("s1")
    assert time.monotonic() - begun < 30
    assert (told.value.retry_after, len(server.asked)) == (60, 1)


async def test_a_refusal_is_told_with_all_it_says() -> None:
    async with scripted(refusal(404, "not_found")) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(ApiError) as told:
            await client.sessions.get("s1")
    error = told.value
    assert (error.status, error.code, error.message, error.next_step, error.request_id) == (
        404,
        "not_found",
        "No.",
        "Ask for less.",
        "req-1",
    )
    assert str(error) == "No. Ask for less. (not_found, request req-1)"
    assert len(server.asked) == 1


async def test_an_api_that_is_not_there_is_told_with_its_address() -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{place.getsockname()[1]}"
        async with Client(url, TOKEN, patience=0) as client:
            with pytest.raises(UnreachableError, match=f"the API at {url} does not answer"):
                await client.whoami()
            async with client.sessions.events("s1") as events:
                with pytest.raises(UnreachableError, match=f"the API at {url} does not answer"):
                    await anext(events)


async def test_an_api_that_is_not_there_is_waited_for() -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]

    async def late() -> None:
        await asyncio.sleep(0.3)
        server = await asyncio.start_server(answered, "127.0.0.1", port)
        async with server:
            await done.wait()

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(204))
        writer.close()

    done = asyncio.Event()
    async with Client(f"http://127.0.0.1:{port}", TOKEN) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(late())
        # Not even with a key: there was no connection to send it by.
        await client.sessions.cancel("s1")
        done.set()


async def test_patience_ends() -> None:
    async with scripted(CUT) as server, Client(server.url, TOKEN, patience=3) as client:
        begun = time.monotonic()
        with pytest.raises(UnreachableError):
            await client.sessions.get("s1")
    assert time.monotonic() - begun < 30
    assert len(server.asked) > 1


async def test_without_patience_nothing_is_sent_again() -> None:
    async with scripted(CUT) as server, Client(server.url, TOKEN, patience=0) as client:
        with pytest.raises(UnreachableError):
            await client.sessions.get("s1")
    assert len(server.asked) == 1


async def test_the_token_follows_no_redirect() -> None:
    async with (
        scripted(CREATED) as other,
        scripted(answer(307, Location=f"{other.url}/v1/sessions")) as server,
        Client(server.url, TOKEN) as client,
    ):
        with pytest.raises(UnexpectedAnswerError):
            await client.sessions.create("hello")
    assert other.asked == []


async def test_a_server_between_that_cannot_reach_the_api_is_like_no_answer() -> None:
    script = (answer(502, plain="<html>"), answer(200, plain="<html>"))
    async with scripted(*script) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(UnexpectedAnswerError) as told:
            await client.sessions.get("s1")
    assert len(server.asked) == 2
    assert "html" not in str(told.value)


async def test_an_answer_of_another_shape_is_told_by_its_fields_alone() -> None:
    async with (
        scripted(answer(201, {"id": 5, "created": "secret", "created_at": 1})) as server,
        Client(server.url, TOKEN) as client,
    ):
        with pytest.raises(UnexpectedAnswerError, match="id, created") as told:
            await client.sessions.create("hello")
    assert "secret" not in str(told.value)


async def test_an_answer_that_cannot_be_decoded_is_told() -> None:
    broken = answer(200, plain="no gzip", Content_Encoding="gzip")
    async with scripted(broken) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(UnexpectedAnswerError, match="encoded"):
            await client.sessions.get("s1")
    assert len(server.asked) == 1


async def test_what_is_empty_is_sent_as_it_is_and_not_left_out() -> None:
    """The API refuses it; a session under no key instead would be another one with each call."""
    async with scripted(refusal(422, "invalid")) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(ApiError):
            await client.sessions.create("hello", key="", agent="")
    (asked,) = server.asked
    assert json.loads(asked.body) == {"input": "hello", "key": "", "agent": ""}
    assert "idempotency-key" not in asked.headers


@pytest.mark.parametrize("key", ["", "line\nbreak", "größe", " spaced ", "k" * 257])
async def test_a_key_that_no_header_can_hold_is_refused_at_once(key: str) -> None:
    async with scripted(answer(202, {"seq": 1})) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(ValueError, match="no idempotency key"):
            await client.sessions.say("s1", "hello", key=key)
    assert not server.asked


async def test_a_name_is_one_part_of_the_path() -> None:
    async with scripted(refusal(404, "not_found")) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(ApiError):
            await client.sessions.get("../webhooks?x=1")
    assert server.asked[0].path == "/v1/sessions/..%2Fwebhooks%3Fx%3D1"


@pytest.mark.parametrize("url", ["bot.example.org", "ftp://bot.example.org", "https://", "https://a.example/?x=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        Client(url, TOKEN)


@pytest.mark.parametrize("token", ["", "two words", "line\n", "ünicode"])
def test_a_token_that_is_none_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="no token") as told:
        Client("https://bot.example.org", token)
    assert not token or token not in str(told.value)


async def test_nothing_shows_the_token() -> None:
    async with scripted(CUT) as server, Client(server.url, TOKEN, patience=0) as client:
        with pytest.raises(UnreachableError) as told:
            await client.sessions.get("s1")
    assert TOKEN not in f"{client!r} {told.value!r} {told.value.__cause__!r} {told.getrepr()}"


async def test_a_client_is_used_while_it_is_open() -> None:
    client = Client("https://bot.example.org", TOKEN)
    with pytest.raises(RuntimeError, match="async with"):
        await client.sessions.get("s1")
    async with client:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await client.sessions.get("s1")
