"""Questions, approvals, copies, simulations and the audit over real HTTP."""

from pathlib import Path

import httpx2
import pytest

from bot.sessions.api_tokens import Scope
from bot.sessions.exports import VerifiedExport
from channels.messages import Address
from tests.bot.api.kit import ApiHost, api_config, served
from tests.bot.kit import bang
from tests.harness import Person
from tests.people import principal

pytestmark = pytest.mark.anyio

COLOUR = bang("ask_user", question="Which colour?", schema={"type": "enum", "values": ["red", "blue"]})
DIRTY = bang("read_file", path="public/welcome.md")
READ = bang("read_file", path="confidential/pipeline.md")
TELL = bang("message", channel="console", recipient="owner", text="hello")
WRITE = bang("write_file", path="public/note.md", text="mine")
BOSS = {"owner": principal("console:owner"), "boss": principal("console:boss", role="approver")}
LOW = {
    "channels": {
        "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
        "api": {"classification": "PUBLIC~", "inbound": "PUBLIC", "overshoot": "allow"},
    }
}
"""Programs may be told what is PUBLIC alone, and their sessions may read more."""


def speaking(host: ApiHost, name: str, thread: str = "k:one") -> Person:
    """Return a program as it speaks in a session of its own."""
    return Person(host.app, host.person.output, Address("api", name, thread=thread), f"api:{name}")


def error(answer: httpx2.Response) -> tuple[int, str]:
    """Return a refusal's status and code."""
    return answer.status_code, answer.json()["error"]["code"]


def same(one: httpx2.Response, other: httpx2.Response) -> bool:
    """Say whether nothing but their ids tells two answers apart."""
    left, right = ({k: v for k, v in r.headers.items() if k not in {"x-request-id", "date"}} for r in (one, other))
    bodies = [r.text.replace(r.headers["x-request-id"], "") for r in (one, other)]
    return (one.status_code, left, bodies[0]) == (other.status_code, right, bodies[1])


async def test_a_question_is_answered_once(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(COLOUR)
        async with host.client(token) as client:
            path = f"/v1/sessions/{nightly.sid}/questions"
            (asked,) = (await client.get(path)).json()["questions"]
            assert (asked["state"], asked["text"], asked["takes"]) == (
                "pending",
                "Which colour?",
                "one of: red, blue",
            )
            one = f"{path}/{asked['id']}"
            assert error(await client.post(one, json={"answer": "green"})) == (422, "unfit")
            assert error(await client.post(one, json={"answer": True})) == (422, "unfit")
            assert error(await client.post(f"{path}/none", json={"answer": "red"})) == (404, "not_found")
            told = await client.post(one, json={"answer": "red"})
            assert (told.status_code, told.json()["state"]) == (200, "replied")
            again = await client.post(one, json={"answer": "red"})
            assert again.json() == told.json()
            assert error(await client.post(one, json={"answer": "blue"})) == (409, "answered")
        await nightly.settled()
        assert any('"answer": "red"' in str(event.body) for event in await nightly.events())


async def test_a_question_is_that_of_its_session_and_no_call_to_approve(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.ADMIN)
        one, other = speaking(host, "nightly"), speaking(host, "nightly", "k:two")
        for each in (one, other):
            await each.say(COLOUR)
        async with host.client(token) as client:
            path = "/v1/sessions/{}/questions"
            (asked,) = (await client.get(path.format(one.sid))).json()["questions"]
            assert asked["session"] == one.sid
            misplaced = f"{path.format(other.sid)}/{asked['id']}"
            assert error(await client.post(misplaced, json={"answer": "red"})) == (404, "not_found")
            approval = f"/v1/approvals/{asked['id']}"
            assert error(await client.post(approval, json={"answer": "approve"})) == (409, "is_question")
            declined = await client.post(approval, json={"answer": "deny"})
            assert [each["state"] for each in declined.json()["approvals"]] == ["denied"]
            waiting = (await client.get("/v1/approvals")).json()["approvals"]
            assert [each["session"] for each in waiting] == [other.sid]


async def test_a_question_is_nothing_to_another_program(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        await host.token("nightly", Scope.STEER)
        other = await host.token("other", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say(COLOUR)
        (question,) = await host.app.store.approvals.of(nightly.sid)
        async with host.client(other) as client:
            for path in ("/v1/sessions/{}/questions", "/v1/sessions/{}/export"):
                assert same(await client.get(path.format(nightly.sid)), await client.get(path.format("none")))
            path, body = f"/v1/sessions/{{}}/questions/{question.id}", {"answer": "red"}
            there, absent = [await client.post(path.format(sid), json=body) for sid in (nightly.sid, "none")]
            assert same(there, absent)
            assert (await client.get("/v1/approvals")).json() == {"approvals": []}


async def test_a_program_that_steers_takes_back_and_does_not_approve(tmp_path: Path) -> None:
    async with served(tmp_path, api_config({"principals": BOSS})) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(DIRTY)
        await nightly.say(TELL)
        async with host.client(token) as client:
            (waits,) = (await client.get("/v1/approvals")).json()["approvals"]
            assert (waits["tool"], waits["may_approve"], waits["rules"]) == (
                "message",
                False,
                ["untrusted_cannot_command"],
            )
            assert waits["asks"]["arguments"]["text"] == "hello"
            one = f"/v1/approvals/{waits['id']}"
            refused = await client.post(one, json={"answer": "approve"})
            assert error(refused) == (403, "forbidden")
            assert same(refused, await client.post("/v1/approvals/none", json={"answer": "approve"}))
            denied = await client.post(one, json={"answer": "deny"})
            assert [call["state"] for call in denied.json()["approvals"]] == ["denied"]
            assert same(await client.post(one, json={"answer": "deny"}), denied)
        async with host.client(await host.token("other", Scope.ADMIN)) as other:
            refused = await other.post(one, json={"answer": "deny"})
            assert same(refused, await other.post("/v1/approvals/none", json={"answer": "deny"}))
        await nightly.settled()
        assert "a person refused this call" in str([event.body for event in await nightly.events()])


async def test_nobody_is_asked_where_a_program_alone_could_answer(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", role="member")}
    async with served(tmp_path, api_config({"principals": people})) as host:
        await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(DIRTY)
        await nightly.say(TELL)
        assert await host.app.store.approvals.of(nightly.sid) == ()


async def test_an_admin_s_token_approves(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say(DIRTY)
        await nightly.say(TELL)
        async with host.client(token) as client:
            (waits,) = (await client.get("/v1/approvals")).json()["approvals"]
            assert waits["may_approve"]
            done = await client.post(f"/v1/approvals/{waits['id']}", json={"answer": "approve"})
            assert done.json() == {"approvals": [{**waits, "state": "approved"}], "waiting": 0}
            await nightly.settled()
            assert "hello" in host.person.shown
            # The call has run since, and the approval is used.
            one = f"/v1/approvals/{waits['id']}"
            assert same(await client.post(one, json={"answer": "approve"}), done)
            assert error(await client.post(one, json={"answer": "deny"})) == (409, "answered")


async def test_a_grant_is_given_listed_and_revoked(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say(DIRTY)
        await nightly.say(TELL)
        async with host.client(token) as client:
            assert (await client.get("/v1/grants")).json() == {"grants": []}
            (waits,) = (await client.get("/v1/approvals")).json()["approvals"]
            assert "up to 10 calls of `message`" in waits["asks"]["longer"]
            assert "scope" not in waits["asks"]
            one = f"/v1/approvals/{waits['id']}"
            assert error(await client.post(one, json={"answer": "deny", "grant": "conversation"})) == (422, "no_grant")
            assert error(await client.post(one, json={"answer": "approve", "grant": "ever"})) == (400, "grant_terms")
            assert (await client.post(one, json={"answer": "approve", "grant": "until 2h"})).status_code == 200
            await nightly.settled()
            await nightly.say(TELL.replace("hello", "again"))
            assert "again" in host.person.shown
            (grant,) = (await client.get("/v1/grants")).json()["grants"]
            assert grant == {
                "id": waits["id"],
                "session": nightly.sid,
                "tool": "message",
                "principal": waits["principal"],
                "given_by": waits["principal"],
                "worst": waits["asks"]["longer"],
                "rules": ["untrusted_cannot_command"],
                "left": 8,
                "until": grant["until"],
                "may_revoke": True,
                "label": grant["label"],
            }
            assert 0 < grant["until"] - host.app.clock.wall_ms() <= 2 * 3_600_000
            simulated = {"tool": "message", "arguments": {"channel": "console", "recipient": "owner", "text": "x"}}
            told = await client.post(f"/v1/sessions/{nightly.sid}/simulate", json=simulated)
            assert told.json()["report"]["grant"] == grant["id"]
            ended = await client.delete(f"/v1/grants/{grant['id']}")
            assert ended.json() == {**grant, "left": 0}
            assert error(await client.delete(f"/v1/grants/{grant['id']}")) == (404, "not_found")
            assert (await client.get("/v1/grants")).json() == {"grants": []}
        async with host.client(await host.token("other", Scope.ADMIN)) as other:
            assert (await other.get("/v1/grants")).json() == {"grants": []}


async def test_a_rule_that_may_not_be_granted_is_answered_once(tmp_path: Path) -> None:
    rule = {"id": "ask-first", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    config = api_config({"rules": [{**rule, "approvers": ["admin"]}]})
    async with served(tmp_path, config) as host:
        token = await host.token("nightly", Scope.ADMIN)
        await host.person.say(bang("current_time"))
        async with host.client(token) as client:
            (waits,) = (await client.get("/v1/approvals")).json()["approvals"]
            assert "longer" not in waits["asks"]
            one = f"/v1/approvals/{waits['id']}"
            refused = await client.post(one, json={"answer": "approve", "grant": "conversation"})
            assert error(refused) == (400, "not_grantable")


async def test_a_configured_rule_needs_another(tmp_path: Path) -> None:
    rule = {"id": "ask-first", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    async with served(tmp_path, api_config({"principals": BOSS, "rules": [rule]})) as host:
        token = await host.token("nightly", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say(bang("current_time"))
        async with host.client(token) as client:
            (waits,) = (await client.get("/v1/approvals")).json()["approvals"]
            refused = await client.post(f"/v1/approvals/{waits['id']}", json={"answer": "approve"})
        assert error(refused) == (403, "not_eligible")
        assert "an approver" in refused.json()["error"]["next_step"]


async def test_a_copy_is_signed_and_brought_in_once(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say("hello")
        async with host.client(token) as client:
            path = f"/v1/sessions/{nightly.sid}/export"
            made = await client.get(path, params={"whole": True})
            assert made.headers["content-type"].startswith("application/jsonl")
            first = await client.post("/v1/import", content=made.content)
            assert first.status_code == 201, first.text
            assert not first.json()["known"]
            again = await client.post("/v1/import", content=made.content)
            assert (again.status_code, again.json()) == (200, {**first.json(), "known": True})
            changed = made.content.replace(b"hello", b"hallo")
            assert error(await client.post("/v1/import", content=changed)) == (400, "import_refused")
            copy = await client.get(f"/v1/sessions/{first.json()['id']}/export")
            assert b"hello" in copy.content
        rows = await host.app.chains.newest("audit", 20)
        read = [row.body["session"] for row in rows if row.kind == "read" and row.body["reading"] == "export"]
        assert read == [nightly.sid, first.json()["id"]]


async def test_an_export_that_leaves_something_out_is_for_reading(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say("hello")
        async with host.client(token) as client:
            path = f"/v1/sessions/{nightly.sid}/export"
            made = await client.get(path)
            assert isinstance(host.app.exporter.verified(made.content), VerifiedExport)
            refused = await client.post("/v1/import", content=made.content)
            assert error(refused) == (400, "import_refused")
            assert "leaves nothing out" in refused.json()["error"]["message"]
            whole = await client.get(path, params={"whole": True})
            assert error(whole) == (403, "forbidden")
            assert same(whole, await client.get("/v1/sessions/none/export", params={"whole": True}))


async def test_an_answer_that_waits_for_people_is_in_no_export(tmp_path: Path) -> None:
    rule = {"id": "said-by-two", "hook": "PRE_OUTPUT", "channels": ["api"], "action": "REQUIRE_APPROVAL"}
    async with served(tmp_path, api_config({"principals": BOSS, "rules": [rule]})) as host:
        token = await host.token("nightly", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say("hello")
        async with host.client(token) as client:
            (waits,) = (await client.get("/v1/approvals")).json()["approvals"]
            assert waits["asks"] is None
            path = f"/v1/sessions/{nightly.sid}/export"
            assert "You said" not in (await client.get(path)).text
            assert error(await client.get(path, params={"whole": True})) == (403, "refused")


async def test_a_rule_refuses_an_export(tmp_path: Path) -> None:
    rule = {"id": "no-api", "hook": "PRE_OUTPUT", "channels": ["api"], "pattern": "payment-card", "action": "BLOCK"}
    async with served(tmp_path, api_config({"rules": [rule]})) as host:
        token = await host.token("nightly", Scope.READ)
        nightly = speaking(host, "nightly")
        await nightly.say("4111 1111 1111 1111")
        async with host.client(token) as client:
            refused = await client.get(f"/v1/sessions/{nightly.sid}/export")
        assert error(refused) == (403, "refused")
        assert "no-api" in refused.json()["error"]["message"]


async def test_a_session_that_rose_is_as_absent(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(LOW)) as host:
        token = await host.token("nightly", Scope.ADMIN)
        nightly = speaking(host, "nightly")
        await nightly.say(READ)
        assert str((await nightly.state()).visibility) == "CONFIDENTIAL~"
        async with host.client(token) as client:
            for path in ("/v1/sessions/{}/questions", "/v1/sessions/{}/export"):
                assert same(await client.get(path.format(nightly.sid)), await client.get(path.format("none")))
            call = {"tool": "current_time"}
            path = "/v1/sessions/{}/simulate"
            assert same(
                await client.post(path.format(nightly.sid), json=call),
                await client.post(path.format("none"), json=call),
            )
            rows = (await client.get("/v1/audit", params={"chain": nightly.sid})).json()
            assert rows == (await client.get("/v1/audit", params={"chain": "none"})).json() == {"rows": []}
            chains = (await client.get("/v1/audit/verify")).json()["chains"]
            assert [chain["name"] for chain in chains] == ["audit"]


async def test_what_is_simulated_is_short_as_all_wait_for_it(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        calls = [{"tool": "read_file", "arguments": {"path": ["x" * size]}} for size in (65_523, 65_524)]
        answers = [await client.post("/v1/simulate", json=call) for call in calls]
    assert [answer.status_code for answer in answers] == [200, 422]
    assert (
        "`body.arguments` is not as documented: it has at most 64 KB as JSON."
        in answers[1].json()["error"]["next_step"]
    )


async def test_a_call_is_simulated_in_a_session_as_it_stands(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("nightly", Scope.READ)
        nightly = speaking(host, "nightly")
        await nightly.say(DIRTY)
        before = await nightly.state()
        call = {"tool": "message", "arguments": {"channel": "console", "recipient": "owner", "text": "x"}}
        async with host.client(token) as client:
            inside = (await client.post(f"/v1/sessions/{nightly.sid}/simulate", json=call)).json()["report"]
            outside = (await client.post("/v1/simulate", json=call)).json()["report"]
            unknown = await client.post("/v1/simulate", json={"tool": "x", "more": 1})
        assert (inside["verdict"], inside["taint_before"]) == ("REQUIRE_APPROVAL", "PUBLIC~")
        assert (outside["verdict"], outside["taint_before"]) == ("ALLOW", "PUBLIC")
        assert error(unknown) == (422, "invalid")
        assert await nightly.state() == before


async def test_the_audit_is_for_admins_and_counts_nothing_above(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(LOW)) as host:
        low, admin = await host.token("low", Scope.STEER), await host.token("admin", Scope.ADMIN)
        nightly = speaking(host, "low")
        await nightly.say("hello")
        async with host.client(low) as client:
            for path in ("/v1/audit", "/v1/audit/verify", "/v1/audit/audit/x"):
                assert error(await client.get(path)) == (403, "forbidden")
        async with host.client(admin) as client:
            rows = (await client.get("/v1/audit", params={"chain": nightly.sid, "limit": 200})).json()["rows"]
            assert {row["kind"] for row in rows} >= {"decision"}
            assert all(row["label"] in {"PUBLIC", "PUBLIC~"} for row in rows)
            chain, _, name = rows[0]["id"].rpartition(":")
            assert (await client.get(f"/v1/audit/{chain}/{name}")).json() == rows[0]
            assert error(await client.get(f"/v1/audit/{chain}/none")) == (404, "not_found")
            checked = (await client.get("/v1/audit/verify")).json()
            assert {"name": nightly.sid, "intact": True} in checked["chains"]


async def test_a_question_is_told_as_it_was_asked(tmp_path: Path) -> None:
    """The mark behind which people read each line is none of the agent's."""
    async with served(tmp_path) as host:
        nightly = speaking(host, "nightly")
        token = await host.token("nightly", Scope.READ)
        await nightly.say(bang("ask_user", question="Which one?\n> this\nor that"))
        async with host.client(token) as client:
            (asked,) = (await client.get(f"/v1/sessions/{nightly.sid}/questions")).json()["questions"]
        assert asked["text"] == "Which one?\n> this\nor that"


@pytest.mark.parametrize(
    "method, path, sent, steps",
    [
        ("GET", "/sessions?state=idle&limit=2", None, ["This route takes `cursor`, `kind`, `limit`, `status`."]),
        ("GET", "/whoami?secret=1", None, ["This route takes no parameters."]),
        ("GET", "/sessions/x/events?from=1", None, ["This route takes `after`, `level`, `limit`, `type`."]),
        ("GET", "/sessions?limit=1&limit=2", None, ["Send each parameter once."]),
        (
            "POST",
            "/approvals/x",
            {"answer": "deny", "secret": 1},
            ["`body` takes `answer`, `grant`, and no other field."],
        ),
        (
            "POST",
            "/sessions",
            {"input": "x", "mode": "loud", "limits": {"secret": 1}},
            [
                "`body.mode` is not as documented: ",
                "`body.limits` takes `tokens`, `turn_seconds`, `turns`, and no other field",
            ],
        ),
    ],
)
async def test_what_a_route_does_not_take_is_refused_by_what_it_takes(
    tmp_path: Path, method: str, path: str, sent: object, steps: list[str]
) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        refused = await client.request(method, f"/v1{path}", json=sent)
        assert error(refused) == (422, "invalid")
        step = refused.json()["error"]["next_step"]
        assert all(one in step for one in steps), step
        assert "secret" not in step
