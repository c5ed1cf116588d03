"""What a program is told of its memories, and what it changes of them."""

from pathlib import Path
from typing import Final

import pytest

from bot.sessions.api_tokens import Scope
from bot.sessions.knowledge.memories import Memory
from policy.labels import PUBLIC, Label, parse
from tests.bot.api.kit import ApiHost, api_config, served
from tests.bot.kit import CONFIDENTIAL, INTERNAL

pytestmark = pytest.mark.anyio

NIGHTLY: Final = "program:nightly"
NUMBER: Final = "536-22-8726"


async def learned(host: ApiHost, number: int, label: Label = PUBLIC, text: str = "", whose: str = NIGHTLY) -> str:
    memory = Memory(f"mem_{number:012}", whose, label, text or f"fact {number}", number, whose)
    return (await host.app.store.memories.learn(memory, 1000, ())).id


async def test_a_program_teaches_finds_corrects_and_forgets(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        said = {"text": "The ferry leaves at nine.", "domain": "harbor"}
        key = {"idempotency-key": "first"}
        made = await client.post("/v1/memories", json=said, headers=key)
        assert made.status_code == 201
        name = made.json()["id"]
        assert (await client.post("/v1/memories", json=said, headers=key)).json() == {"id": name}
        (found,) = (await client.post("/v1/memories/recall", json={"query": "ferry"})).json()["memories"]
        assert (found["id"], found["text"], found["domain"]) == (name, "The ferry leaves at nine.", "harbor")
        assert (found["asker"], found["by_agent"], found["state"]) == (NIGHTLY, False, "kept")
        assert (await client.post("/v1/memories/recall", json={"query": "ferry", "domain": "sea"})).json() == {
            "memories": []
        }
        right = {"text": "The ferry leaves at ten."}
        corrected = await client.post(f"/v1/memories/{name}/correct", json=right, headers=key)
        assert corrected.status_code == 201
        new = corrected.json()["id"]
        assert new != name
        assert (await client.post(f"/v1/memories/{name}/correct", json=right, headers=key)).json() == {"id": new}
        assert [one["id"] for one in (await client.get("/v1/memories")).json()["memories"]] == [new]
        before = (await client.get(f"/v1/memories/{name}")).json()
        assert (before["state"], before["corrected_by"], before["uses"]) == ("corrected", new, 0)
        for _ in range(2):
            assert (await client.delete(f"/v1/memories/{new}")).status_code == 204
        gone = (await client.get(f"/v1/memories/{new}")).json()
        assert (gone["state"], gone["text"], gone["corrects"]) == ("forgotten", None, name)
        assert (await client.get("/v1/memories")).json() == {"memories": [], "cursor": None}


async def test_a_key_that_comes_with_something_else_is_a_conflict(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        key = {"idempotency-key": "first"}
        said = {"text": "The ferry leaves at nine.", "domain": "harbor"}
        name = (await client.post("/v1/memories", json=said, headers=key)).json()["id"]
        right = {"text": "The ferry leaves at ten."}
        path = f"/v1/memories/{name}/correct"
        assert (await client.post(path, json=right, headers=key)).status_code == 201
        for where, body in (
            ("/v1/memories", {**said, "text": "The ferry leaves at six."}),
            ("/v1/memories", {**said, "domain": "sea"}),
            (path, {"text": "The ferry leaves at six."}),
        ):
            refused = await client.post(where, json=body, headers=key)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        assert [one["text"] for one in (await client.get("/v1/memories")).json()["memories"]] == [right["text"]]


async def test_a_program_is_told_what_anybody_may_have_written_with_its_label(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        name = await learned(host, 1, parse("PUBLIC~"), "The ferry leaves at nine.")
        (listed,) = (await client.get("/v1/memories")).json()["memories"]
        (found,) = (await client.post("/v1/memories/recall", json={"query": "ferry"})).json()["memories"]
        assert (listed["id"], found["id"], found["label"]) == (name, name, "PUBLIC~")
        assert (await client.delete(f"/v1/memories/{name}")).status_code == 204


async def test_what_is_above_a_program_changes_nothing_of_what_it_is_told(tmp_path: Path) -> None:
    async with (
        served(tmp_path, works=False) as host,
        host.client(await host.token("nightly", Scope.STEER, "PUBLIC")) as client,
    ):
        for number in range(1, 8):
            await learned(host, number)

        async def told() -> list[dict[str, list[object]]]:
            page = (await client.get("/v1/memories", params={"limit": 3})).json()
            more = await client.get("/v1/memories", params={"limit": 3, "cursor": page["cursor"]})
            recalled = await client.post("/v1/memories/recall", json={"query": "fact 3", "limit": 4})
            return [page, more.json(), recalled.json()]

        before = await told()
        assert [len(one["memories"]) for one in before] == [3, 3, 4]
        for number in range(20, 60):
            await learned(host, number, CONFIDENTIAL if number % 2 else INTERNAL, "fact 3 fact 3")
        assert await told() == before
        hidden, absent = [
            await client.get("/v1/memories", params={"cursor": cursor}) for cursor in ("mem_000000000021", "mem_0")
        ]
        assert (hidden.status_code, hidden.json()["error"]) == (absent.status_code, absent.json()["error"])
        assert hidden.status_code == 400


async def test_a_rule_about_learning_counts_for_programs(tmp_path: Path) -> None:
    rule = {
        "id": "no-learning",
        "hook": "PRE_TOOL_CALL",
        "tools": ["memory"],
        "when": 'arg_action in ["learn", "correct"]',
        "action": "BLOCK",
    }
    async with (
        served(tmp_path, api_config({"rules": [rule]}), works=False) as host,
        host.client(await host.token("nightly", Scope.STEER)) as client,
    ):
        name = await learned(host, 1)
        for path in ("/v1/memories", f"/v1/memories/{name}/correct"):
            refused = await client.post(path, json={"text": "tea"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "refused")
        assert len((await client.get("/v1/memories")).json()["memories"]) == 1


@pytest.mark.parametrize("action", ["BLOCK", "REDACT"])
async def test_what_a_rule_keeps_back_is_told_by_no_route(tmp_path: Path, action: str) -> None:
    rule: dict[str, object] = {"id": "no-ssn", "hook": "PRE_OUTPUT", "channels": ["api"], "action": action}
    rule |= {"when": "has_us_ssn"} if action == "BLOCK" else {"pattern": "us-ssn"}
    async with (
        served(tmp_path, api_config({"rules": [rule]}), works=False) as host,
        host.client(await host.token("nightly", Scope.STEER)) as client,
    ):
        name = await learned(host, 1, text=f"it is {NUMBER}")
        other = await learned(host, 2)
        answers = [
            await client.get("/v1/memories"),
            await client.get(f"/v1/memories/{name}"),
            await client.post("/v1/memories/recall", json={"query": "it"}),
        ]
        assert not [one for one in answers if NUMBER in one.text]
        assert {one["id"] for one in answers[0].json()["memories"]} == {name, other}
        assert (answers[1].json()["text"] is None) is (action == "BLOCK")


@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": " "}, {"text": "x" * 4_001}, {"text": "x", "label": "PUBLIC"}]
)
async def test_what_is_no_memory_is_invalid(tmp_path: Path, body: dict[str, str]) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        assert (await client.post("/v1/memories", json=body)).status_code == 422


async def test_where_as_many_are_kept_as_may_it_is_told_what_makes_room(tmp_path: Path) -> None:
    config = api_config(blocks={"knowledge": {"memories": 1}})
    async with (
        served(tmp_path, config, works=False) as host,
        host.client(await host.token("nightly", Scope.STEER)) as client,
    ):
        assert (await client.post("/v1/memories", json={"text": "tea"})).status_code == 201
        full = await client.post("/v1/memories", json={"text": "coffee"})
        assert (full.status_code, "retry-after" in full.headers) == (409, False)
        assert full.json()["error"] == {
            "code": "full",
            "message": "As many memories as may be are kept at this label (`knowledge.memories`).",
            "next_step": "Forget one first.",
        }
