"""Each document that the API answers with, in full: every field tells what the store has, and no field is left out."""

from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from bot.sessions.knowledge.memories import Memory
from bot.sessions.models import SessionState, Title
from policy.labels import PUBLIC
from tests.bot.api.kit import ApiHost, served
from tests.bot.kit import Scripted, bang, eventually, parts
from tests.bot.webhooks.kit import begin as begun_in_store
from tests.bot.webhooks.kit import hook_config, program, until
from tests.clocks import CLOCKS
from tests.sim.receiver import receiver
from tests.store.world import claimed, opening

pytestmark = pytest.mark.anyio

NOTHING_USED: Final = {
    "requests": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "cost": 0,
    "complete": True,
    "priced": True,
}
USED: Final = {"requests": 1, "input_tokens": 10, "output_tokens": 5, "cost": 0, "complete": True, "priced": True}
"""What `Scripted` says that it used; nobody gave it a price."""


async def begin(client: httpx2.AsyncClient, text: str = "hello", **fields: object) -> dict[str, Any]:
    answer = await client.post("/v1/sessions", json={"input": text, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def state_of(host: ApiHost, sid: str) -> SessionState:
    state = await host.app.store.sessions.state(sid)
    assert state is not None
    return state


async def get(client: httpx2.AsyncClient, path: str, **query: str | int) -> Any:  # noqa: ANN401 - as JSON has it
    answer = await client.get(f"/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(client: httpx2.AsyncClient, path: str, body: object = None, **headers: str) -> httpx2.Response:
    return await client.post(f"/v1{path}", json=body, headers={one.replace("_", "-"): headers[one] for one in headers})


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def test_a_session_its_result_and_its_turn(tmp_path: Path) -> None:
    async with served(tmp_path, parts=parts(model=Scripted("the answer"))) as host:
        async with host.client(await host.token("nightly")) as client:
            begun = await begin(client, metadata={"job": 7}, mode="steer")
            sid = begun["id"]
            result = await get(client, f"/sessions/{sid}/result", wait=20)
            await host.app.store.sessions.name(sid, Title("the plan", PUBLIC))
            session, (turn,) = (
                await get(client, f"/sessions/{sid}"),
                (await get(client, f"/sessions/{sid}/turns"))["turns"],
            )
        state = await state_of(host, sid)
        (answer,) = [event for event in await host.app.store.sessions.events(sid) if event.type == "agent.message"]
        assert state.last_turn is not None
        last = {
            "id": state.last_turn.id,
            "state": "ok",
            "yield_reason": "completed",
            "result_event_id": answer.seq,
        }
        assert begun == {"id": sid, "created": True, "created_at": state.created_at}
        assert result == {
            "status": "idle",
            "last_turn": last,
            "result": {"type": "agent.message", "level": "user", "body": {"text": "the answer"}},
            "inputs": [1],
        }
        assert session == {
            "id": sid,
            "status": "idle",
            "kind": "chat",
            "agent": "default",
            "title": "the plan",
            "taint": "PUBLIC",
            "mode": "steer",
            "waiting": 0,
            "created_at": state.created_at,
            "updated_at": state.updated_at,
            "last_turn": last,
            "usage": USED,
            "metadata": {"job": 7},
        }
        assert turn == {
            **last,
            "attempt": 1,
            "started_at": turn["started_at"],
            "completed_at": turn["completed_at"],
            "active_seconds": turn["active_seconds"],
            "usage": USED,
            "error": None,
        }
        assert state.created_at <= turn["started_at"] <= turn["completed_at"] <= state.updated_at
        assert 0 <= turn["active_seconds"] <= (turn["completed_at"] - turn["started_at"]) / 1000 + 0.001


async def test_a_turn_that_goes_on_and_one_that_failed(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly")) as client:
        sid = (await begin(client))["id"]
        claim = await claimed(host.app.store, sid)
        await host.app.store.sessions.record(claim, opening(claim, dedupe=claim.items[0].dedupe))
        state = await state_of(host, sid)
        assert state.turn is not None
        assert await get(client, f"/sessions/{sid}/turns/{state.turn.id}") == {
            "id": state.turn.id,
            "state": "running",
            "yield_reason": None,
            "attempt": 1,
            "started_at": state.turn.started_at,
            "completed_at": None,
            "active_seconds": None,
            "usage": None,
            "error": None,
            "result_event_id": None,
        }
    breaks = parts(model=Scripted(KeyError("hunter2")))
    async with (
        served(made(tmp_path / "other"), parts=breaks) as host,
        host.client(await host.token("nightly")) as client,
    ):
        sid = (await begin(client))["id"]
        last = (await get(client, f"/sessions/{sid}/result", wait=20))["last_turn"]
        assert (last["state"], last["yield_reason"]) == ("error", "error")
        failed = await get(client, f"/sessions/{sid}/turns/{last['id']}")
        state = await state_of(host, sid)
        assert state.last_turn is not None
        assert (failed["state"], failed["error"]) == ("error", state.last_turn.error)
        assert failed["error"]


async def test_turns_come_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path, parts=parts(model=Scripted("yes"))) as host:
        async with host.client(await host.token("nightly")) as client:
            sid, ended = (await begin(client))["id"], list[str]()
            for text in ("one", "two"):
                ended.insert(0, (await get(client, f"/sessions/{sid}/result", wait=20))["last_turn"]["id"])
                await post(client, f"/sessions/{sid}/messages", {"text": text})
            ended.insert(0, (await get(client, f"/sessions/{sid}/result", wait=20))["last_turn"]["id"])
            first = await get(client, f"/sessions/{sid}/turns", limit=2)
            rest = await get(client, f"/sessions/{sid}/turns", limit=2, before=first["next"])
        assert [[turn["id"] for turn in page["turns"]] for page in (first, rest)] == [ended[:2], ended[2:]]
        assert rest["next"] is None


BEGUN: Final = '!session_initialize {"session_type": "autonomous"}'
WORKED: Final = (
    '!session_update {"current_task_id": "one", "tasks_failed": 1, "tasks_skipped": 2} !session_increment_completed {} '
    '!steering_heartbeat {"session_id": "{session_id}", "status": "busy", "next_action": "look"}'
)
GOAL: Final = f"{BEGUN} ;; {WORKED}"


async def test_a_run_and_its_numbers(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        wish = {
            "goal": GOAL,
            "type": "autonomous",
            "title": "Filing",
            "slot": "quay",
            "hours": 2,
            "deliver_to": "owner",
        }
        started = (await post(client, "/runs", wish)).json()
        assert list(started) == ["id"]

        async def ended() -> bool:
            return (await get(client, f"/runs/{started['id']}"))["status"] == "ended"

        await eventually(ended)
        run = await get(client, f"/runs/{started['id']}")
        state = await state_of(host, run["session"])
        assert state.charter is not None
        assert state.progress is not None
        assert run == {
            "id": started["id"],
            "session": state.sid,
            "type": "autonomous",
            "status": "ended",
            "title": "Filing",
            "taint": "PUBLIC",
            "slot": "quay",
            "started_at": state.created_at,
            "deadline": state.charter.deadline,
            "initialized": True,
            "current_task": "one",
            "tasks_completed": 1,
            "tasks_failed": 1,
            "tasks_skipped": 2,
            "consecutive_failures": 0,
            "breaker": "closed",
            "turns": state.progress.turns,
            "waiting_notes": 0,
            "next_action": "look",
            "schedule": None,
            "ended_at": state.progress.ended_at,
            "reason": "completed",
        }
        assert 0 < run["deadline"] - run["started_at"] <= 2 * 3_600_000
        numbers = await get(client, f"/runs/{started['id']}/stats")
        runtime = (run["ended_at"] - run["started_at"]) / 1000
        assert numbers == {
            "runtime_seconds": runtime,
            "tasks_completed": 1,
            "tasks_failed": 1,
            "tasks_skipped": 2,
            "completion_rate": 0.25,
            "failure_rate": 0.25,
            "skip_rate": 0.5,
            "seconds_per_task": round(runtime / 4, 4),
            "turns": run["turns"],
            "tokens": state.usage.input_tokens + state.usage.output_tokens,
            "cost": 0,
        }

        async def heard() -> bool:
            return "steering_heartbeat" in host.person.shown

        # Its last answer is told to the one whom `deliver_to` names, too.
        await eventually(heard)


async def test_runs_come_in_pages_and_a_key_is_one_run_and_one_note(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly")) as client:
        made = [(await post(client, "/runs", {"goal": f"Do {n}.", "type": "manual"})).json()["id"] for n in range(3)]
        for key in ("a", "a", "b"):
            one = await post(client, "/runs", {"goal": "Do it.", "type": "manual"}, idempotency_key=key)
            made += [] if one.json()["id"] in made else [one.json()["id"]]
        assert len(made) == 5
        found, cursor = list[str](), ""
        while cursor is not None:
            page = await get(client, "/runs", limit=2, cursor=cursor)
            assert len(page["runs"]) <= 2
            found += [run["id"] for run in page["runs"]]
            cursor = page["cursor"]
        assert found == made[::-1]
        path, note = f"/runs/{made[0]}/notes", {"text": "Hurry.", "priority": "urgent"}
        first, again = [await post(client, path, note, idempotency_key="n") for _ in range(2)]
        assert (first.status_code, first.json()) == (202, again.json())
        assert (await post(client, path, note, idempotency_key="m")).json() != first.json()
        run = await get(client, f"/runs/{made[0]}")
        assert run["waiting_notes"] == 2
        notes = await host.app.store.runs.notes(run["session"])
        assert [(one.text, str(one.priority)) for one in notes] == [("Hurry.", "urgent")] * 2


async def test_a_schedule(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        wish = {
            "kind": "run",
            "when": "0 7 * * 1-5",
            "text": "Report.",
            "time_zone": "Europe/Berlin",
            "title": "Morning",
            "deliver_to": "owner",
            "overlap": "allow",
        }
        made, again = [(await post(client, "/schedules", wish, idempotency_key="a")).json() for _ in range(2)]
        assert again == made
        (kept,) = await host.app.store.schedules.of("program:nightly")
        assert made == {
            "id": kept.id,
            "kind": "run",
            "status": "active",
            "title": "Morning",
            "text": "Report.",
            "label": "PUBLIC",
            "cron": "0 7 * * 1-5",
            "time_zone": "Europe/Berlin",
            "next_at": kept.next_at,
            "created_at": kept.created_at,
            "deliver_to": "owner",
            "overlap": "allow",
            "by_agent": False,
            "last_at": None,
            "last_run": None,
            "failures": 0,
            "skipped": 0,
        }
        assert await get(client, f"/schedules/{made['id']}") == made
        assert await get(client, "/schedules") == {"schedules": [made]}
        soon = (await post(client, "/schedules", {"kind": "run", "when": "in 1 second", "text": "Report."})).json()

        async def done() -> bool:
            return (await get(client, f"/schedules/{soon['id']}"))["status"] == "done"

        await eventually(done)
        told = await get(client, f"/schedules/{soon['id']}")
        (run,) = (await get(client, "/runs", ended="true"))["runs"]
        assert (told["last_run"], told["last_at"], told["cron"]) == (run["id"], soon["next_at"], None)
        assert run["schedule"] == soon["id"]


async def test_a_memory(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly")) as client:
        old = (await post(client, "/memories", {"text": "The ferry leaves at nine.", "domain": "harbor"})).json()
        new = (await post(client, f"/memories/{old['id']}/correct", {"text": "The ferry leaves at ten."})).json()
        assert list(old) == list(new) == ["id"]
        keeper = host.app.knowledge.keeper
        kept = await keeper.find("program:nightly", PUBLIC, new["id"])
        told = {
            "id": new["id"],
            "text": "The ferry leaves at ten.",
            "domain": "harbor",
            "label": "PUBLIC",
            "state": "kept",
            "learned_at": kept.learned_at,
            "asker": "program:nightly",
            "by_agent": False,
            "session": None,
            "corrects": old["id"],
            "corrected_by": None,
            "ended_at": None,
        }
        assert await get(client, "/memories") == {"memories": [told], "cursor": None}
        recalled = await post(client, "/memories/recall", {"query": "ferry", "limit": 1})
        assert recalled.json() == {"memories": [told]}
        assert await get(client, f"/memories/{new['id']}") == {**told, "uses": 0}
        before = await keeper.find("program:nightly", PUBLIC, old["id"])
        assert await get(client, f"/memories/{old['id']}") == {
            **told,
            "id": old["id"],
            "text": "The ferry leaves at nine.",
            "state": "corrected",
            "learned_at": before.learned_at,
            "corrects": None,
            "corrected_by": new["id"],
            "ended_at": before.ended_at,
            "uses": 0,
        }
        assert before.ended_at
        learned = Memory("mem_0", "program:nightly", PUBLIC, "tea", 1, "program:nightly", by_agent=True, sid="s1")
        await host.app.store.memories.learn(learned, 1000, ())
        told = await get(client, "/memories/mem_0")
        assert (told["by_agent"], told["session"]) == (True, "s1")


async def test_a_question_and_a_call_that_waits(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        ask = bang("ask_user", question="Open at eight?", schema={"type": "boolean"}, default=True)
        sid = (await begin(client, ask))["id"]

        async def asked() -> bool:
            return bool((await get(client, f"/sessions/{sid}/questions"))["questions"])

        await eventually(asked)
        (kept,) = await host.app.store.approvals.of(sid)
        told = {
            "id": kept.id,
            "session": sid,
            "state": "pending",
            "text": "Open at eight?",
            "takes": "yes or no",
            "default": True,
            "expires_at": kept.expires_at,
            "label": "PUBLIC",
        }
        assert await get(client, f"/sessions/{sid}/questions") == {"questions": [told]}
        done = await post(client, f"/sessions/{sid}/questions/{kept.id}", {"answer": False})
        assert done.json() == {**told, "state": "replied"}
        await get(client, f"/sessions/{sid}/result", wait=20)
        await post(client, f"/sessions/{sid}/messages", {"text": bang("read_file", path="public/welcome.md")})
        await get(client, f"/sessions/{sid}/result", wait=20)
        call = {"channel": "console", "recipient": "owner", "text": "hello"}
        await post(client, f"/sessions/{sid}/messages", {"text": bang("message", **call)})

        async def waits() -> bool:
            return bool((await get(client, "/approvals"))["approvals"])

        await eventually(waits)
        kept = (await host.app.store.approvals.of(sid))[-1]
        (told,) = (await get(client, "/approvals"))["approvals"]
        assert told == {
            "id": kept.id,
            "session": sid,
            "kind": "approval",
            "tool": "message",
            "principal": "program:nightly",
            "asks": {**told["asks"], "arguments": call},
            "rules": ["untrusted_cannot_command"],
            "state": "pending",
            "may_approve": True,
            "expires_at": kept.expires_at,
            "label": "PUBLIC~",
        }
        denied = await post(client, f"/approvals/{kept.id}", {"answer": "deny"})
        assert denied.json() == {"approvals": [{**told, "state": "denied"}], "waiting": 0}


async def test_a_row_of_the_audit_and_its_chains(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        sid = (await begin(client, bang("current_time")))["id"]
        await get(client, f"/sessions/{sid}/result", wait=20)
        (first, *_) = (await get(client, "/audit", chain=sid, limit=200))["rows"]
        kept = (await host.app.store.audit.records(sid))[0]
        assert first == {
            "id": first["id"],
            "ts": kept.ts,
            "kind": kept.kind,
            "actor": kept.actor,
            "body": {name: value for name, value in kept.body.items() if name != "facts"},
            "label": first["label"],
        }
        chain, _, name = first["id"].partition(":")
        assert await get(client, f"/audit/{chain}/{name}") == first
        assert len((await get(client, "/audit", chain=sid, limit=1))["rows"]) == 1
        checked = await get(client, "/audit/verify")
        assert checked["complete"]
        assert {"name": sid, "intact": True} in checked["chains"]


async def test_what_was_deleted_with_the_copies_of_it(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        sid = (await begin(client, bang("sessions_spawn", task="hello", deliver_to="owner")))["id"]

        async def ended() -> list[str]:
            listed = (await get(client, "/sessions", kind="task", status="archived"))["sessions"]
            return [one["id"] for one in listed]

        async def told() -> bool:
            return bool(await ended()) and "You said: hello" in host.person.shown

        await eventually(told)
        (child,) = await ended()
        done = (await client.delete(f"/v1/sessions/{child}")).json()
        (place,) = done["sent"]
        assert done == {
            "children": 0,
            "sent": [{"address": place["address"], "messages": 1}],
            "handed": [{"session": sid, "messages": 1}],
            "files_left": False,
            "kept": [],
        }
        assert place["address"].startswith("console:")


async def test_a_deleted_session_tells_how_many_went_along(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        sid = (await begin(client, bang("sessions_spawn", task=bang("ask_user", question="Which?"))))["id"]
        await get(client, f"/sessions/{sid}/result", wait=20)
        assert (await client.delete(f"/v1/sessions/{sid}")).json()["children"] == 1


async def test_a_copy_of_a_stranger_comes_in_at_top(tmp_path: Path) -> None:
    async with served(made(tmp_path / "theirs")) as host, host.client(await host.token("nightly")) as client:
        sid = (await begin(client))["id"]
        await get(client, f"/sessions/{sid}/result", wait=20)
        file = await client.get(f"/v1/sessions/{sid}/export", params={"whole": True})
    async with served(made(tmp_path / "ours"), works=False) as host, host.client(await host.token("nightly")) as client:
        refused = await client.post("/v1/import", content=file.content)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "import_refused")
        done = await client.post("/v1/import", content=file.content, params={"as_top": True})
        assert done.status_code == 201
        sid = done.json()["id"]
        entries = len(file.text.splitlines()) - 2
        assert done.json() == {"id": sid, "label": "RESTRICTED~", "entries": entries, "known": False}
        assert (await state_of(host, sid)).taint == (await state_of(host, sid)).creation


async def test_a_webhook_and_an_event_that_was_not_taken(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=())) as ci:
        sids = [(await begun_in_store(ci.app)).sid for _ in range(2)]
        wish = {"url": f"{here.url}/hook", "level": "user", "types": ["agent.message"], "sessions": sids}
        made = (await ci.client.post("/v1/webhooks", json=wish)).json()
        (kept,) = await ci.app.store.webhooks.owned("ci")
        shown = {
            **wish,
            "id": kept.id,
            "created_at": kept.created_at,
            "failing": None,
            "disabled": None,
        }
        assert made == {**shown, "secret": made["secret"]}
        assert (await ci.client.get("/v1/webhooks")).json() == {"webhooks": [shown]}
        assert (await ci.client.get(f"/v1/webhooks/{kept.id}")).json() == shown
        here.usual = 500
        session = await begun_in_store(ci.app)
        hook = await ci.hook(here)
        await session.say("lost")
        await until(ci.dead)
        (dead, *_) = await ci.dead()
        assert dead == {
            "id": here.ids[0],
            "webhook": hook["id"],
            "session": session.sid,
            "seq": here.seqs()[0],
            "failed_at": dead["failed_at"],
            "attempts": 1,
            "error": "it answered with status 500",
            "again": False,
        }
        assert hook["created_at"] <= dead["failed_at"] <= ci.app.store.tokens.now_ms() + CLOCKS
        assert (await ci.client.get("/v1/webhooks/dead", params={"webhook": kept.id})).json() == {"dead": []}
        assert (await ci.client.get(f"/v1/webhooks/{hook['id']}")).json()["failing"]
