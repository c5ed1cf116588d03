"""The entrance: who comes in, and that everybody else learns one constant sentence."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from bot.api.entrance.entrance import STRANGERS_PER_MINUTE
from bot.sessions.api_tokens import Scope
from tests.bot.api.kit import ApiHost, api_config, served
from tests.harness import running

pytestmark = pytest.mark.anyio

HUGE = b"x" * 300_000


def refusal(answer: httpx2.Response) -> dict[str, object]:
    """Return the error of an answer, whose shape is checked."""
    told = answer.json()
    assert set(told) == {"error", "request_id"}
    assert told["request_id"] == answer.headers["x-request-id"]
    return told["error"]


async def test_a_token_that_another_process_made_under_a_newer_session_key_counts_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host:
        before = await host.token("ci")
        async with running(tmp_path, api_config(), serve=False) as other:
            await other.app.key_keeper().rotate_session("owner")
            after = await ApiHost(other, host.url).token("crane")
        for token in (before, after):
            async with host.client(token) as client:
                assert (await client.get("/v1/sessions")).status_code == 200


async def test_a_token_tells_who_it_is(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host:
        token = await host.token("ci", Scope.READ, "INTERNAL~")
        async with host.client(token) as client:
            answer = await client.get("/v1/whoami")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "name": "ci",
        "principal": "program:ci",
        "scope": "read",
        "clearance": "INTERNAL~",
        "expires_at": 0,
    }


async def test_without_a_token_everything_is_401_and_alike(tmp_path: Path) -> None:
    """An unknown path, a method that is none, JSON that is none and too large a body are told as a good request is."""
    async with served(tmp_path, works=False) as host:
        token = await host.token()
        async with host.client() as client:
            answers = [
                await client.get("/v1/whoami"),
                await client.get("/"),
                await client.get("/docs"),
                await client.get("/openapi.json"),
                await client.get("/v1/whoami/"),
                await client.get("/v1/whoami?unknown=1"),
                await client.get("/v1/%2e%2e/%00%ff"),
                await client.request("BREW", "/v1/whoami"),
                await client.options("/v1/whoami"),
                await client.delete("/v1/whoami"),
                await client.post("/v1/whoami", content=b"{", headers={"content-type": "application/json"}),
                await client.post("/v1/whoami", content=HUGE * 5),
                await client.post("/v1/whoami", content=b"\xff", headers={"content-encoding": "gzip"}),
                await client.get("/v1/whoami", headers=[(b"authorization", b"Bearer \xfc\xff")]),
                await client.get("/v1/whoami", headers={"upgrade": "websocket", "connection": "upgrade"}),
                *[
                    await client.get("/v1/whoami", headers=[("authorization", value) for value in values])
                    for values in (
                        ["Bearer"],
                        [f"Basic {token}"],
                        [f"Bearer {token}x"],
                        [f"Bearer {token[:-1]}"],
                        [f"Bearer {token}", f"Bearer {token}"],
                        [f"Bearer {token}", "Bearer x"],
                        [f"Bearer {'x' * 20_000}"],
                    )
                ],
            ]
    assert {answer.status_code for answer in answers} == {401}
    alike = {(answer.text.replace(answer.headers["x-request-id"], ""), *sorted(names(answer))) for answer in answers}
    assert len(alike) == 1
    assert refusal(answers[0])["code"] == "unauthorized"
    assert answers[0].headers["www-authenticate"] == "Bearer"


def names(answer: httpx2.Response) -> set[tuple[str, str]]:
    """Return the headers of an answer but those that differ from one to the next."""
    return {(name, value) for name, value in answer.headers.items() if name not in {"date", "x-request-id"}}


async def test_answers_say_nothing_of_the_server_and_are_not_kept(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        answers = [await client.get("/v1/whoami"), await client.get("/v1/none")]
    for answer in answers:
        assert "server" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == 2
    assert all(one.startswith("req_") for one in ids)


@pytest.mark.parametrize(
    "method,path,status,code",
    [
        ("GET", "/v1/none", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("GET", "/redoc", 404, "not_found"),
        ("GET", "/openapi.json", 404, "not_found"),
        ("GET", "/v1/whoami/", 404, "not_found"),
        ("GET", "//v1/whoami", 404, "not_found"),
        ("POST", "/v1/whoami", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/whoami", 405, "method_not_allowed"),
        ("BREW", "/v1/whoami", 405, "method_not_allowed"),
        ("GET", "/v1/whoami?unknown=1", 422, "invalid"),
    ],
)
async def test_a_request_of_another_form_is_told_so(
    tmp_path: Path, method: str, path: str, status: int, code: str
) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        answer = await client.request(method, path)
    assert (answer.status_code, refusal(answer)["code"]) == (status, code)
    assert answer.headers.get("allow") == ("GET" if status == 405 else None)


async def test_head_is_no_method_here(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        answer = await client.head("/v1/whoami")
    assert (answer.status_code, answer.content) == (405, b"")


async def test_headers_that_two_could_read_differently_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        answer = await client.get("/v1/whoami", headers=[("idempotency-key", "a"), ("idempotency-key", "b")])
    assert (answer.status_code, refusal(answer)["code"]) == (400, "malformed")


async def test_fields_without_end_are_one_error(tmp_path: Path) -> None:
    """Everybody would wait while thousands of errors are told of one request."""
    many = {f"f{number}": 1 for number in range(101)}
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        answer = await client.post("/v1/sessions", json={"input": "hello", **many})
        inside = await client.post("/v1/sessions", json={"input": "hello", "limits": many})
    assert str(refusal(answer)["next_step"]).startswith("`body` is not as documented: it has at most 100 fields. ")
    assert str(refusal(inside)["next_step"]).startswith(
        "`body.limits` is not as documented: it has at most 100 fields. "
    )


async def test_a_body_is_limited_told_or_not(tmp_path: Path) -> None:
    """One that tells its length is refused at once, one that comes in pieces as soon as it is too large."""

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(10):
            yield b"x" * 1000

    config = api_config(settings={"most_body_bytes": 4000, "most_import_bytes": 8000})
    async with served(tmp_path, config, works=False) as host:
        steers, token = await host.token("steers", Scope.STEER), await host.token()
        async with host.client(token) as client:
            told = [
                await client.post("/v1/whoami", content=b"x" * 4001),
                await client.post("/v1/whoami", content=pieces()),
                await client.post("/v1/import", content=b"x" * 8001),
                await client.post("/v1/import", content=b"x", headers={"authorization": f"Bearer {steers}"}),
                await client.post("/v1/import", content=b"x" * 4001, headers={"authorization": f"Bearer {steers}"}),
            ]
            fits = [
                await client.post("/v1/whoami", content=b"x" * 4000),
                await client.post("/v1/import", content=b"x" * 8000),
            ]
    assert [answer.status_code for answer in told if answer is not told[3]] == [413] * 4
    assert refusal(told[0])["code"] == "too_large"
    assert 413 not in {answer.status_code for answer in (*fits, told[3])}


async def test_a_token_has_so_many_requests_in_a_minute_and_others_have_theirs(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host:
        first, second = await host.token("first", per_minute=3), await host.token("second", per_minute=3)
        async with host.client(first) as client:
            answers = [await client.get("/v1/whoami") for _ in range(5)]
            other = await client.get("/v1/whoami", headers={"authorization": f"Bearer {second}"})
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert refusal(answers[3])["code"] == "rate_limited"
    assert 1 <= int(answers[3].headers["retry-after"]) <= 20
    assert other.status_code == 200


async def test_an_address_tries_so_many_tokens_in_a_minute_and_good_ones_still_count(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        guesses = [
            await client.get("/v1/whoami", headers={"authorization": f"Bearer lg_x_{number}"})
            for number in range(STRANGERS_PER_MINUTE)
        ]
        while guesses[-1].status_code == 401:
            # Another one is looked at after each second.
            guesses.append(await client.get("/v1/whoami", headers={"authorization": "Bearer x"}))
        good = await client.get("/v1/whoami")
    assert {answer.status_code for answer in guesses[:STRANGERS_PER_MINUTE]} == {401}
    assert guesses[-1].status_code == 429
    assert guesses[-1].headers["retry-after"] == "1"
    assert good.status_code == 200


async def test_a_token_that_another_process_revoked_counts_no_more(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        assert (await client.get("/v1/whoami")).status_code == 200
        await host.app.token_keeper.revoke("ci", "owner")
        assert (await client.get("/v1/whoami")).status_code == 401


async def test_a_process_with_another_policy_takes_nothing_in(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        await host.app.store.policy.put_policy("0" * 64, "another process", ())
        answer, stranger = await client.get("/v1/whoami"), await client.get("/v1/whoami", headers={"authorization": ""})
    assert (answer.status_code, refusal(answer)["code"]) == (503, "not_serving")
    assert int(answer.headers["retry-after"]) >= 1
    assert stranger.status_code == 401


async def test_what_is_shown_of_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token(scope=Scope.READ)) as client:
        answers = [await client.get(path) for path in ("/v1/none", "/v1/whoami?x=1")]
    for answer in answers:
        error = refusal(answer)
        for shown in (str(error["message"]), str(error.get("next_step", "Nothing."))):
            assert shown[0].isupper()
            assert shown.endswith(".")
        assert json.loads(answer.content)["error"] == error
