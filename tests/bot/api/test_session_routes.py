"""Sessions of programs over real HTTP: begun once, steered, read, ended, and hidden from those who may not know."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from pydantic import JsonValue

from bot.sessions.api_tokens import Scope
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import UserMessage
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SessionState, Status
from bot.store.records.codec import stored_fields
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from policy.labels import parse
from tests.bot.api.kit import CONSOLE, ApiHost, api_config, served
from tests.bot.kit import Scripted, bang, eventually, parts
from tests.store.world import child, claimed, command, opening, put_state

pytestmark = pytest.mark.anyio

_FIELDS: Final = "`body` takes `agent`, `credential`, `input`, `key`, `limits`, `metadata`, `mode`, and no other field."

READING = ("", "/result", "/turns", "/turns/t1")
CHANGING = ("messages", "pause", "resume", "restore", "cancel", "archive")
BLIND = ("cancel", "archive")


@asynccontextmanager
async def asking(host: ApiHost, scope: Scope = Scope.STEER, **facts: Any) -> AsyncGenerator[httpx2.AsyncClient]:  # noqa: ANN401 - as of `token`
    """Connect as a program of a new token."""
    token = await host.token(facts.pop("name", "ci"), scope, **facts)
    async with host.client(token) as client:
        yield client


async def begin(client: httpx2.AsyncClient, text: str = "hello", **fields: object) -> str:
    answer = await client.post("/v1/sessions", json={"input": text, **fields})
    assert answer.status_code == 201, answer.text
    assert answer.json()["created"]
    return answer.json()["id"]


async def state_of(host: ApiHost, sid: str) -> SessionState:
    state = await host.app.store.sessions.state(sid)
    assert state is not None
    return state


async def raise_session(host: ApiHost, sid: str, label: str = "CONFIDENTIAL") -> None:
    """Let a session rise, as what another session sends it does."""
    state = await state_of(host, sid)
    item = NewItem(sid, "up", state.principal, parse(label), SessionMessage("up"), state.home, state.principal)
    await host.app.store.sessions.accept(item)


def told(answer: httpx2.Response) -> tuple[int, dict[str, str], str]:
    """Return all that a caller can tell of an answer, but for its id and the time."""
    name = answer.headers["x-request-id"]
    shown = {one: value for one, value in answer.headers.items() if one not in {"x-request-id", "date"}}
    return answer.status_code, shown, answer.text.replace(name, "ID")


async def test_a_session_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    model = Scripted("the answer")
    async with served(tmp_path, parts=parts(model=model)) as host, asking(host) as client:
        sid = await begin(client, "what?", metadata={"job": 7})
        result = (await client.get(f"/v1/sessions/{sid}/result", params={"wait": 20})).json()
        assert result["status"] == "idle"
        assert result["result"] == {"type": "agent.message", "level": "user", "body": {"text": "the answer"}}
        assert result["inputs"] == [1]
        assert (result["last_turn"]["state"], result["last_turn"]["yield_reason"]) == ("ok", "completed")
        one = (await client.get(f"/v1/sessions/{sid}")).json()
        assert (one["agent"], one["metadata"], one["mode"]) == ("default", {"job": 7}, "queue")
        assert (one["waiting"], one["last_turn"]) == (0, result["last_turn"])
        (turn,) = (await client.get(f"/v1/sessions/{sid}/turns")).json()["turns"]
        assert turn["id"] == result["last_turn"]["id"]
        assert turn == (await client.get(f"/v1/sessions/{sid}/turns/{turn['id']}")).json()
        (listed,) = (await client.get("/v1/sessions")).json()["sessions"]
        assert listed == one
        assert (await client.post(f"/v1/sessions/{sid}/archive")).status_code == 204
        assert (await client.get("/v1/sessions")).json()["sessions"] == []
        (listed,) = (await client.get("/v1/sessions", params={"status": "archived"})).json()["sessions"]
        assert (listed["id"], listed["status"]) == (sid, "archived")
        refused = await client.post(f"/v1/sessions/{sid}/messages", json={"text": "more"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "archived")
        assert (await client.post(f"/v1/sessions/{sid}/restore")).status_code == 204
        assert (await client.delete(f"/v1/sessions/{sid}")).status_code == 200
        assert (await client.delete(f"/v1/sessions/{sid}")).status_code == 404


async def test_a_message_has_the_number_that_its_event_tells(tmp_path: Path) -> None:
    async with served(tmp_path, parts=parts(model=Scripted("a", "b"))) as host, asking(host) as client:
        sid = await begin(client)
        answer = await client.post(f"/v1/sessions/{sid}/messages", json={"text": "/archive is no command here"})
        assert (answer.status_code, answer.json()) == (202, {"seq": 2})
        headers = {"idempotency-key": "m1"}
        for _ in range(2):
            again = await client.post(f"/v1/sessions/{sid}/messages", json={"text": "more"}, headers=headers)
            assert (again.status_code, again.json()) == (202, {"seq": 3})
        other = await client.post(f"/v1/sessions/{sid}/messages", json={"text": "other"}, headers=headers)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")

        async def consumed() -> bool:
            return (await state_of(host, sid)).status is Status.IDLE

        await eventually(consumed)
        events = await host.app.store.sessions.events(sid)
        numbers = [event.body.number for event in events if isinstance(event.body, UserMessage)]
        assert numbers == [1, 2, 3]
        (*_, last) = (event.turn for event in events if isinstance(event.body, UserMessage))
        taken = [event.body.number for event in events if isinstance(event.body, UserMessage) and event.turn == last]
        assert (await client.get(f"/v1/sessions/{sid}/result")).json()["inputs"] == taken


@pytest.mark.parametrize("by_header", [False, True])
async def test_one_key_is_one_session(tmp_path: Path, by_header: bool) -> None:  # noqa: FBT001 - a case
    headers, key = ({"idempotency-key": "k"}, {}) if by_header else ({}, {"key": "k"})
    async with served(tmp_path, works=False) as host, asking(host) as client, asking(host, name="other") as another:

        async def post(by: httpx2.AsyncClient = client, /, **fields: object) -> httpx2.Response:
            return await by.post("/v1/sessions", json={"input": "hello", **key, **fields}, headers=headers)

        first = await post(metadata={"a": 1, "b": [2.5, None]})
        again = await post(metadata={"b": [2.5, None], "a": 1})
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json() == {**first.json(), "created": False}
        others: tuple[dict[str, object], ...] = (
            {},
            {"metadata": {"a": 2}},
            {"metadata": {"a": 1, "b": [2.5, None]}, "mode": "steer"},
        )
        for other in others:
            refused = await post(client, **other)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        # Another program's key is another key.
        assert (await post(another)).status_code == 201
        sid = first.json()["id"]
        assert (await client.post(f"/v1/sessions/{sid}/archive")).status_code == 204
        assert (await post(metadata={"a": 1, "b": [2.5, None]})).json() == again.json()
        assert (await client.delete(f"/v1/sessions/{sid}")).status_code == 200
        new = await post()
        assert new.status_code == 201
        assert new.json()["id"] != sid
        assert (await post()).json() == {**new.json(), "created": False}


async def test_a_key_and_an_idempotency_key_are_two_names(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        keyed = await begin(client, key="k")
        headed = await client.post("/v1/sessions", json={"input": "hello"}, headers={"idempotency-key": "k"})
        assert headed.json()["id"] != keyed
        both = await client.post("/v1/sessions", json={"input": "hello", "key": "k"}, headers={"idempotency-key": "x"})
        assert both.json()["id"] == keyed
        assert await begin(client) != await begin(client)


async def test_two_processes_begin_one_session(tmp_path: Path) -> None:
    async with (
        served(tmp_path, works=False) as host,
        served(tmp_path, works=False) as second,
        asking(host) as client,
        second.client(client.headers["authorization"].removeprefix("Bearer ")) as beside,
    ):
        bodies = [{"input": text, "key": "k"} for text in ("hello", "bye")]
        answers = list[httpx2.Response]()
        async with asyncio.TaskGroup() as tasks:

            async def ask(by: httpx2.AsyncClient, body: dict[str, str]) -> None:
                answers.append(await by.post("/v1/sessions", json=body))

            for _ in range(5):
                for by in (client, beside):
                    for body in bodies:
                        tasks.create_task(ask(by, body))
        codes = sorted(answer.status_code for answer in answers)
        assert codes == [200] * 9 + [201] + [409] * 10
        assert len({answer.json()["id"] for answer in answers if answer.status_code < 300}) == 1
        # One process learns that another deleted it.
        (sid,) = {answer.json()["id"] for answer in answers if answer.status_code < 300}
        assert (await beside.delete(f"/v1/sessions/{sid}")).status_code == 200
        new = await begin(client, "new", key="k")
        assert (await beside.post("/v1/sessions", json={"input": "new", "key": "k"})).json()["id"] == new


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{",
        '{"input": ""}',
        '{"input": "  \\n"}',
        '{"input": 1}',
        '{"input": "x", "strange": 1}',
        '{"input": "x", "metadata": [1]}',
        '{"input": "x", "metadata": "x"}',
        '{"input": "x", "metadata": {"a": NaN}}',
        '{"input": "x", "metadata": {"a": Infinity}}',
        '{"input": "x", "metadata": {"\\ud800": 1}}',
        '{"input": "x", "metadata": {"a": "\\udfff"}}',
        '{"input": "\\ud800"}',
        json.dumps({"input": "x", "metadata": {"a": "é" * 8200}}),
        '{"input": "x", "metadata": {"a": ' + "[" * 20_000 + "]" * 20_000 + "}}",
        '{"input": "x", "metadata": {"a": ' + "[" * 400 + "]" * 400 + "}}",
        '{"input": "x", "metadata": {"a": ' + "9" * 5000 + "}}",
        '{"input": "x", "key": ""}',
        json.dumps({"input": "x", "key": "k" * 257}),
        '{"input": "x", "mode": "loud"}',
        '{"input": "x", "limits": {"tokens": 1}}',
        '{"input": "x", "limits": {"tokens": 5000.5}}',
        '{"input": "x", "limits": {"turns": true}}',
        '{"input": "x", "limits": {"hours": 1}}',
    ],
)
async def test_a_malformed_session_is_not_begun(tmp_path: Path, body: str) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        answer = await client.post("/v1/sessions", content=body.encode(), headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
        assert not [state async for state in host.app.store.sessions.states()]


@pytest.mark.parametrize(
    "body,step",
    [
        ('{"input": "x"', "The body is not JSON, see its character 13."),
        ("[]", "`body` should be a JSON object."),
        ("{}", "`body.input` is missing."),
        ('{"text": "x"}', f"`body.input` is missing; {_FIELDS}"),
        ('{"input": "x", "a planted secret": 1}', _FIELDS),
        ('{"input": 5}', "`body.input` is not as documented: input should be a valid string."),
        ('{"input": " "}', "`body.input` does not have the form that is documented."),
        (
            '{"input": "x", "mode": "planted"}',
            "`body.mode` is not as documented: input should be 'queue', 'collect', 'steer' or 'interrupt'.",
        ),
        (
            '{"input": "x", "metadata": {"a": "\\udfff"}}',
            "`body.metadata` is not as documented: it should be JSON.",
        ),
        (
            json.dumps({"input": "x", "metadata": {"a": "é" * 8200}}),
            "`body.metadata` is not as documented: it has at most 16 KB as JSON.",
        ),
    ],
)
async def test_what_is_wrong_with_a_session_is_told(tmp_path: Path, body: str, step: str) -> None:
    typed = {"content-type": "application/json"}
    async with served(tmp_path, works=False) as host, asking(host) as client:
        answer = await client.post("/v1/sessions", content=body.encode(), headers=typed)
    assert answer.json()["error"]["next_step"] == f"{step} `lockgate openapi` prints the fields of each request."
    assert "planted" not in answer.text


async def test_a_body_that_does_not_say_that_it_is_json_is_told_so(tmp_path: Path) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    async with served(tmp_path, works=False) as host, asking(host) as client:
        answer = await client.post("/v1/sessions", content=b'{"input": "x"}', headers=form)
    assert answer.json()["error"]["next_step"].startswith("Send `Content-Type: application/json`. ")


async def test_parameters_that_a_path_does_not_take_are_told_beside_those_that_it_does(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        answer = await client.get("/v1/sessions?planted=1")
        twice = await client.get("/v1/sessions?limit=1&limit=2")
        none = await client.get("/v1/whoami?limit=1")
    takes = "This route takes `cursor`, `kind`, `limit`, `status`. "
    assert answer.json()["error"]["next_step"].startswith(takes)
    assert twice.json()["error"]["next_step"].startswith("Send each parameter once. ")
    assert "This route takes no parameters." in none.json()["error"]["next_step"]
    assert "planted" not in answer.text


async def test_metadata_is_16_kb_at_most_and_is_given_back(tmp_path: Path) -> None:
    most = {"a": "é" * ((16_384 - len('{"a":""}')) // 2)}
    async with served(tmp_path, works=False) as host, asking(host) as client:
        sid = await begin(client, metadata=most)
        assert (await client.get(f"/v1/sessions/{sid}")).json()["metadata"] == most
        sid = await begin(client, metadata={"": {"x": [1e300, -0.5, 2**70, True, None, "\x00"]}})
        found = (await client.get(f"/v1/sessions/{sid}")).json()["metadata"]
        assert found == {"": {"x": [1e300, -0.5, 2**70, True, None, "\x00"]}}


async def test_metadata_has_the_label_of_its_writer(tmp_path: Path) -> None:
    channels = {"api": {"classification": "top", "inbound": "INTERNAL"}, "console": CONSOLE}
    async with served(tmp_path, api_config({"channels": channels}), works=False) as host:
        async with asking(host, clearance="INTERNAL~") as client:
            sid = await begin(client, metadata={"job": 7})
            state = await state_of(host, sid)
        assert state.metadata is not None
        assert str(state.metadata.label) == "INTERNAL"


def secret(folder: Path) -> dict[str, JsonValue]:
    """Return the settings of a secret."""
    (folder / "secret").write_text("sk-acme-hunter2")
    return {"file": str(folder / "secret")}


AGENTS: Final[Mapping[str, Any]] = {
    "billing": {"limits": {"tokens": 50_000, "turn_seconds": 60}, "credential": "acme"},
    "support": {"instructions": "Help."},
}


async def test_a_session_has_the_agent_and_the_limits_that_it_was_begun_with(tmp_path: Path) -> None:
    blocks = {"agents": AGENTS, "secrets": {"acme": secret(tmp_path)}}
    async with served(tmp_path, api_config(blocks=blocks), works=False) as host, asking(host) as client:
        sid = await begin(client, agent="billing", limits={"tokens": 2000, "turns": 3})
        pinned = await host.app.agents.pinned((await state_of(host, sid)).agent)
        assert pinned.limits is not None
        assert (pinned.name, pinned.limits.tokens, pinned.limits.turn_seconds) == ("billing", 2000, 60)
        assert (pinned.limits.turns, pinned.credential) == (3, "acme")
        sid = await begin(client, agent="support", credential="acme")
        pinned = await host.app.agents.pinned((await state_of(host, sid)).agent)
        assert (pinned.name, pinned.credential, pinned.instructions) == ("support", "acme", "Help.")


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"agent": "nobody"}, "unknown_agent"),
        ({"agent": "billing", "limits": {"tokens": 50_001}}, "limits"),
        ({"agent": "billing", "limits": {"turn_seconds": 61}}, "limits"),
        ({"credential": "other"}, "credential"),
        ({"credential": "nothing"}, "credential"),
        ({"agent": "elsewhere", "credential": "acme"}, "credential"),
    ],
)
async def test_what_an_agent_may_not_have_is_refused(tmp_path: Path, fields: dict[str, JsonValue], code: str) -> None:
    """`other` is a secret that no agent has, and `elsewhere` an agent with other models than those of `acme`."""
    agents = {**AGENTS, "elsewhere": {"model": {"name": "openai:gpt-5"}}}
    secrets = {"acme": secret(tmp_path), "other": secret(tmp_path)}
    blocks = {"agents": agents, "secrets": secrets, "model": {"choices": ["openai:gpt-5"]}}
    async with served(tmp_path, api_config(blocks=blocks), works=False) as host, asking(host) as client:
        answer = await client.post("/v1/sessions", json={"input": "hello", **fields})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), answer.text
        assert not [state async for state in host.app.store.sessions.states()]


async def test_what_may_not_be_known_is_absent_everywhere(tmp_path: Path) -> None:
    """Law `no_read_up`: cross-owner, absent, risen and deleted are alike by body, by size and by header."""
    async with (
        served(tmp_path, works=False) as host,
        asking(host, name="low", clearance="INTERNAL~") as client,
        asking(host, name="other", clearance="RESTRICTED~") as other,
    ):
        theirs, risen, gone, own = [await begin(one) for one in (other, client, client, client)]
        await raise_session(host, risen)
        assert (await client.delete(f"/v1/sessions/{gone}")).status_code == 200
        hidden = {
            "theirs": theirs,
            "risen": risen,
            "gone": gone,
            "absent": "a" * 32,
            "long": "a" * 500,
            "audit": "audit",
        }

        async def answers(sid: str) -> dict[str, tuple[int, dict[str, str], str]]:
            found = {path: await client.get(f"/v1/sessions/{sid}{path}") for path in READING}
            found["wait"] = await client.get(f"/v1/sessions/{sid}/result", params={"wait": 1})
            for verb in CHANGING:
                if sid != risen or verb not in BLIND:
                    body = {"text": "x"} if verb == "messages" else None
                    found[verb] = await client.post(f"/v1/sessions/{sid}/{verb}", json=body)
            if sid != risen:
                found["delete"] = await client.delete(f"/v1/sessions/{sid}")
            return {name: told(answer) for name, answer in found.items()}

        expected = await answers("nothing")
        assert {status for status, _, _ in expected.values()} == {404}
        assert len(set(map(str, expected.values()))) == 1
        for name, sid in hidden.items():
            found = await answers(sid)
            assert found == {one: expected[one] for one in found}, name
        listed = (await client.get("/v1/sessions")).json()
        assert [one["id"] for one in listed["sessions"]] == [own]
        # Nothing was done to the other one's.
        assert (await state_of(host, theirs)).status is Status.QUEUED


async def test_what_was_before_a_reset_is_over(tmp_path: Path) -> None:
    """Turns of a generation that may have been above a program are not told in the next one, by no route."""
    async with served(tmp_path, parts=parts(model=Scripted("the answer"))) as host, asking(host) as client:
        sid = await begin(client)
        before = (await client.get(f"/v1/sessions/{sid}/result", params={"wait": 30})).json()
        turn = before["last_turn"]["id"]
        assert (await client.get(f"/v1/sessions/{sid}/turns/{turn}")).status_code == 200
        await host.app.store.sessions.reset(sid, op="r1", actor="ci", audit=())
        assert (await client.get(f"/v1/sessions/{sid}/turns")).json() == {"turns": [], "next": None}
        assert told(await client.get(f"/v1/sessions/{sid}/turns/{turn}")) == told(
            await client.get(f"/v1/sessions/{sid}/turns/none")
        )
        after = (await client.get(f"/v1/sessions/{sid}/result")).json()
        assert (after["last_turn"], after["result"]) == (None, None)
        assert (await client.get(f"/v1/sessions/{sid}")).json()["last_turn"] is None


async def test_a_record_that_cannot_be_read_is_as_absent(tmp_path: Path) -> None:
    """One that a newer Lockgate wrote: whose it is cannot be told."""
    async with served(tmp_path, works=False) as host, asking(host) as client:
        sid = await begin(client)
        await put_state(host.app.store, sid, version=10**6)
        for path in (*READING, "/events", "/questions", "/export"):
            found, absent = [await client.get(f"/v1/sessions/{one}{path}") for one in (sid, "nothing")]
            assert told(found) == told(absent), path


async def test_a_program_ends_its_own_session_blindly(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host, clearance="INTERNAL~") as client:
        for verb in ("cancel", "archive", "delete"):
            seen, risen, twice = [await begin(client) for _ in range(3)]
            for sid in (risen, twice):
                await raise_session(host, sid)
            await host.app.store.lifecycle.archive(twice, actor="x", audit=())

            async def act(sid: str, verb: str = verb) -> tuple[int, dict[str, str], str]:
                if verb == "delete":
                    return told(await client.delete(f"/v1/sessions/{sid}"))
                return told(await client.post(f"/v1/sessions/{sid}/{verb}"))

            answers = [await act(sid) for sid in (seen, risen, twice)]
            assert answers[0][0] == {"cancel": 202, "archive": 204, "delete": 200}[verb]
            assert answers[0] == answers[1] == answers[2]
            after = await host.app.store.sessions.state(risen)
            if verb == "delete":
                assert after is None
            else:
                assert after is not None
                assert after.waiting_items == 0
                assert after.status is (Status.ARCHIVED if verb == "archive" else Status.IDLE)


async def test_why_it_failed_is_not_told_blindly(tmp_path: Path) -> None:
    """A turn that does not end keeps a session from being archived, which only who may know of it is told."""
    async with served(tmp_path, works=False) as host, asking(host, clearance="INTERNAL~") as client:
        seen, risen = await begin(client), await begin(client)
        for sid in (seen, risen):
            claim = await claimed(host.app.store, sid)
            await host.app.store.sessions.record(claim, opening(claim, dedupe=claim.items[0].dedupe))
        await raise_session(host, risen)
        # Each waits for the turn's end for some seconds.
        refused, done = await asyncio.gather(*(client.post(f"/v1/sessions/{sid}/archive") for sid in (seen, risen)))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "busy")
        assert (done.status_code, done.content) == (204, b"")
        assert (await state_of(host, risen)).status is Status.RUNNING


async def test_a_mode_comes_with_its_message(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        sid = await begin(client)
        for said, mode in (({"mode": "steer"}, "steer"), ({}, "steer"), ({"mode": "collect"}, "collect")):
            await client.post(f"/v1/sessions/{sid}/messages", json={"text": "more", **said})
            assert (await client.get(f"/v1/sessions/{sid}")).json()["mode"] == mode


async def test_nothing_that_a_session_read_changes_how_it_is_begun_again(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host, clearance="INTERNAL~") as client:
        sid = await begin(client, key="k")
        body = {"input": "hello", "key": "k"}
        before = [told(await client.post("/v1/sessions", json=one)) for one in (body, {**body, "input": "bye"})]
        await raise_session(host, sid)
        after = [told(await client.post("/v1/sessions", json=one)) for one in (body, {**body, "input": "bye"})]
        assert before == after
        assert (await client.get(f"/v1/sessions/{sid}")).status_code == 404


async def test_a_token_that_reads_changes_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, works=False) as host,
        asking(host) as steering,
        asking(host, Scope.READ, name="r") as client,
    ):
        sid = await begin(steering)
        found = list[httpx2.Response]()
        for one in (sid, "absent"):
            found += [await client.post(f"/v1/sessions/{one}/{verb}", json={"text": "x"}) for verb in CHANGING]
            found.append(await client.delete(f"/v1/sessions/{one}"))
        found.append(await client.post("/v1/sessions", json={"input": "hello"}))
        found.append(await client.post("/v1/sessions", json={"input": "", "strange": 1}))
        assert {answer.status_code for answer in found} == {403}
        assert len({told(answer)[2] for answer in found}) == 1
        assert (await state_of(host, sid)).status is Status.QUEUED


async def test_a_result_that_is_there_is_not_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, parts=parts(model=Scripted("yes"))) as host, asking(host) as client:
        sid = await begin(client)
        await client.get(f"/v1/sessions/{sid}/result", params={"wait": 30})
        began = time.monotonic()
        answer = await client.get(f"/v1/sessions/{sid}/result", params={"wait": 60})
        assert answer.json()["result"]["body"] == {"text": "yes"}
        assert time.monotonic() - began < 30


async def test_waiting_holds_nobody_up(tmp_path: Path) -> None:
    """Many requests wait while nothing is worked; another one is answered meanwhile."""
    async with served(tmp_path, works=False) as host, asking(host) as client:
        sid = await begin(client)
        async with asyncio.TaskGroup() as tasks:
            path, waits = f"/v1/sessions/{sid}/result", {"wait": 60}
            asked = [tasks.create_task(client.get(path, params=waits)) for _ in range(50)]
            await asyncio.sleep(0.5)
            assert (await client.get(f"/v1/sessions/{sid}")).status_code == 200
            assert not any(one.done() for one in asked)
            assert (await client.post(f"/v1/sessions/{sid}/cancel")).status_code == 202
        assert {one.result().json()["status"] for one in asked} == {"idle"}


async def test_a_session_that_rises_while_its_result_is_waited_for_is_absent(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host, clearance="INTERNAL~") as client:
        sid = await begin(client)
        absent = await client.get("/v1/sessions/absent/result")
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(client.get(f"/v1/sessions/{sid}/result", params={"wait": 60}))
            await asyncio.sleep(0.5)
            began = time.monotonic()
            await raise_session(host, sid)
        assert time.monotonic() - began < 40
        assert told(asked.result()) == told(absent)


async def test_a_token_that_is_revoked_waits_for_nothing_more(tmp_path: Path) -> None:
    """Also where another process revoked it."""
    async with (
        served(tmp_path, works=False) as host,
        served(tmp_path, works=False) as second,
        asking(host) as client,
    ):
        sid = await begin(client)
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(client.get(f"/v1/sessions/{sid}/result", params={"wait": 30}))
            await asyncio.sleep(0.5)
            await second.app.token_keeper.revoke("ci", "owner")
        assert asked.result().status_code == 401
        assert (await client.get(f"/v1/sessions/{sid}")).status_code == 401


async def test_reading_stands_in_the_audit_once(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, served(tmp_path, works=False) as second, asking(host) as client:
        sid = await begin(client)
        token = client.headers["authorization"].removeprefix("Bearer ")
        async with second.client(token) as beside:
            for by in (client, beside, client):
                for path in ("", "/result", "/turns"):
                    await by.get(f"/v1/sessions/{sid}{path}")
                await by.get("/v1/sessions/absent")
            await raise_session(host, sid, "INTERNAL")
            await client.get(f"/v1/sessions/{sid}")
        rows = [row for row in await host.app.store.audit.records("audit", limit=10_000) if row.kind == "read"]
        assert [(row.actor, row.body["reading"], row.body["label"]) for row in rows] == [
            ("program:ci", "record", "PUBLIC"),
            ("program:ci", "result", "PUBLIC"),
            ("program:ci", "record", "INTERNAL"),
        ]


async def test_lists_come_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        begun = {await begin(client) for _ in range(5)}
        paused = next(iter(begun))
        assert (await client.post(f"/v1/sessions/{paused}/pause")).status_code == 204
        found, cursor = list[str](), ""
        while True:
            page = (await client.get("/v1/sessions", params={"limit": 2, "cursor": cursor})).json()
            found += [one["id"] for one in page["sessions"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert sorted(found) == sorted(begun)
        (one,) = (await client.get("/v1/sessions", params={"status": "paused"})).json()["sessions"]
        assert one["id"] == paused
        assert (await client.get("/v1/sessions", params={"kind": "task"})).json()["sessions"] == []
        refused = await client.get("/v1/sessions", params={"cursor": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "cursor")
        assert (await client.post(f"/v1/sessions/{paused}/resume")).status_code == 204


async def test_a_background_session_takes_no_messages(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        principal = (await state_of(host, await begin(client))).principal
        task = replace(child("parent"), principal=principal, sender=principal)
        await host.app.store.sessions.accept(task)
        (listed,) = (await client.get("/v1/sessions", params={"kind": "task"})).json()["sessions"]
        assert (listed["id"], listed["kind"]) == (task.sid, "task")
        refused = await client.post(f"/v1/sessions/{task.sid}/messages", json={"text": "more"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "request")
        assert (await state_of(host, task.sid)).waiting_items == 1


async def test_a_body_does_not_wait_for_its_headers(tmp_path: Path) -> None:
    """A caller of some requests confirms headers after 40 ms, and the body must not wait for that."""
    async with served(tmp_path, works=False) as host, asking(host) as client:
        place = client.base_url
        shown = f"GET /v1/whoami HTTP/1.1\r\nhost: x\r\nauthorization: {client.headers['authorization']}\r\n\r\n"
        reader, writer = await asyncio.open_connection(place.host, place.port)
        waited = list[float]()
        for _ in range(40):
            writer.write(shown.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            began = time.monotonic()
            (length,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(length.partition(b":")[2]))
            waited.append(time.monotonic() - began)
        writer.close()
        # A quarter of them, as a machine that is busy takes its time for some.
        assert sorted(waited[20:])[5] < 0.03


async def test_the_state_that_is_asked_for_may_be_there_already(tmp_path: Path) -> None:
    """A program whose answer was lost asks again."""
    async with served(tmp_path, works=False) as host, asking(host) as client:
        sid = await begin(client)

        async def act(verb: str) -> tuple[int, str]:
            answer = await client.post(f"/v1/sessions/{sid}/{verb}")
            return answer.status_code, answer.text

        for verb in ("resume", "restore", "pause", "restore", "resume", "archive"):
            assert [await act(verb) for _ in range(2)] == [(204, "")] * 2, verb
        for verb in ("pause", "resume"):
            status, told = await act(verb)
            assert (status, json.loads(told)["error"]["code"]) == (409, "archived"), verb
        assert [await act("restore") for _ in range(2)] == [(204, "")] * 2
        assert (await state_of(host, sid)).status is Status.IDLE
        rows = [row.body["did"] for row in await host.app.store.audit.records(sid) if row.kind == "session"]
        assert rows == ["paused", "resumed", "archived", "restored"]


async def test_one_that_failed_is_not_resumed(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, asking(host) as client:
        sid = await begin(client)
        await put_state(host.app.store, sid, status=Status.FAILED.value)
        refused = await client.post(f"/v1/sessions/{sid}/resume")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "illegal_move")


async def test_what_is_deleted_lists_the_copies_that_were_sent(tmp_path: Path) -> None:
    told = "message(console, owner)"
    async with served(tmp_path) as host, asking(host, clearance="INTERNAL~") as client:
        sent, silent, risen, quiet = [
            await begin(client, bang("message", channel="console", recipient="owner", text=told) if says else "hello")
            for says in (True, False, True, False)
        ]
        for sid in (sent, silent, risen, quiet):
            await client.get(f"/v1/sessions/{sid}/result", params={"wait": 30})
        for sid in (risen, quiet):
            await raise_session(host, sid)
        answers = {sid: await client.delete(f"/v1/sessions/{sid}") for sid in (sent, silent, risen, quiet)}
        nothing: dict[str, object] = {"children": 0, "sent": [], "handed": [], "files_left": False, "kept": []}
        (place,) = answers[sent].json()["sent"]
        assert place["address"].startswith("console:")
        assert answers[sent].json() == {**nothing, "sent": [{**place, "messages": 1}]}
        assert answers[silent].json() == nothing
        assert answers[risen].content == answers[quiet].content == answers[silent].content


async def test_a_turn_is_found_by_its_id_however_old_it_is(tmp_path: Path) -> None:
    copied = "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1] "
    copied += "local n = tonumber(string.match(e[1], '^%d+')) "
    copied += "for i = n + 1, n + 90000 do redis.call('XADD', KEYS[1], i .. '-0', unpack(e[2])) end "
    copied += "redis.call('HSET', KEYS[2], ARGV[1], n + 90000)"
    (seq,) = stored_fields("seq")
    async with served(tmp_path) as host, asking(host) as client:
        sid = await begin(client)
        first = (await client.get(f"/v1/sessions/{sid}/result", params={"wait": 30})).json()["last_turn"]["id"]
        path = f"/v1/sessions/{sid}/turns"
        one = (await client.get(f"{path}/{first}")).json()
        # What follows is no turn: many events, as of one that calls tools again and again.
        await client.post(f"/v1/sessions/{sid}/pause")
        keys = session_keys(sid)
        assert isinstance(host.app.store, RedisStore)
        await command(host.app.store, "EVAL", copied, 2, keys.log, keys.state, seq)
        refused = await client.get(f"{path}/{first}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_reached")
        (before,) = re.findall(r"before=(\d+)", refused.json()["error"]["next_step"])
        assert (await client.get(f"{path}/{first}", params={"before": before})).json() == one
        absent = await client.get(f"{path}/none", params={"before": before})
        assert absent.status_code == 404
