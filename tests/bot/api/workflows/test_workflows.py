"""What a program is told of its workflows, and how it carries them on."""

from pathlib import Path
from typing import Any, Final

import pytest

from bot.sessions.api_tokens import Scope
from bot.workflows.views import WorkflowActor
from policy.labels import PUBLIC, Label
from tests.bot.api.kit import ApiHost, api_config, served
from tests.bot.kit import CONFIDENTIAL, INTERNAL, bang

pytestmark = pytest.mark.anyio

NIGHTLY: Final = "program:nightly"
NUMBER: Final = "536-22-8726"
NEW: Final = {"project": "harbour", "definition": "note-review"}


async def begun(host: ApiHost, label: Label = PUBLIC, project: str = "harbour", whose: str = NIGHTLY) -> None:
    """Leave a workflow of a program with a step in progress."""
    actor, keeper = WorkflowActor(whose, whose, label, label, by_agent=True), host.app.workflows
    made = await keeper.start(actor, project, "note-review", op=f"{whose}/{project}/{label}")
    await keeper.begin_step(actor, project, "1", made.workflow.version, op=f"{whose}/{project}/{label}/1")


async def test_a_program_goes_through_a_step(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        listed = (await client.get("/v1/workflows")).json()
        assert listed["workflows"] == []
        assert {one["name"] for one in listed["definitions"]} == {"note-review", "seven-step"}
        key = {"idempotency-key": "first"}
        made = await client.post("/v1/workflows", json={**NEW, "branch": "quay"}, headers=key)
        assert (made.status_code, made.json()["version"], made.json()["status"]) == (201, 1, "pending")
        assert (await client.post("/v1/workflows", json={**NEW, "branch": "quay"}, headers=key)).json() == made.json()

        async def does(what: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
            done = await client.post(f"/v1/workflows/harbour/{what}", json=given)
            assert done.status_code == 200, done.text
            return done.json()

        assert (await does("steps", step="1", version=1, files=["notes.md"]))["status"] == "in_progress"
        done = await does("checkpoints", sub_step="outline", version=2, artifacts=["draft.md"])
        assert (done["version"], done["sub_step"]) == (3, "outline")
        choice = {"title": "Format", "choice": "Markdown", "rationale": "It is short."}
        assert (await does("decisions", version=3, **choice))["version"] == 4
        resumed = (await client.get("/v1/workflows/harbour/resume")).json()
        assert (resumed["branch"], resumed["sub_step"], resumed["done"]) == ("continue", "text", "outline")
        assert (await does("complete", version=4))["version"] == 5
        whole = (await client.get("/v1/workflows/harbour")).json()
        assert [one["status"] for one in whole["steps"]] == ["complete", "pending", "pending"]
        assert whole["decision_log"] == [{"id": "D1", "step": "1", **choice}]
        events = (await client.get("/v1/workflows/harbour/log")).json()["events"]
        assert [one["what"] for one in events] == [
            "started",
            "step_started",
            "sub_step_done",
            "decided",
            "step_completed",
        ]
        # A program is no person, so it reviews nothing either.
        assert {(one["actor"], one["by_agent"]) for one in events} == {(NIGHTLY, True)}
        assert (await client.get("/v1/workflows/harbour/resume", params={"step": "1"})).json()["branch"] == "rerun"


async def test_a_program_passes_no_gate(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        await client.post("/v1/workflows", json=NEW)
        await client.post("/v1/workflows/harbour/steps", json={"step": "2", "version": 1})
        held = await client.post("/v1/workflows/harbour/complete", json={"version": 2})
        assert (held.status_code, held.json()["error"]["code"]) == (409, "gate")
        odd = await client.post("/v1/workflows/harbour/complete", json={"version": 2, "passed_by": "owner"})
        assert odd.status_code == 422


async def test_a_change_that_cannot_be_made_is_told_with_its_code(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        await client.post("/v1/workflows", json=NEW)
        for path, body, code in (
            ("/v1/workflows", NEW, "conflict"),
            ("/v1/workflows", {**NEW, "project": "quay", "definition": "nothing"}, "request"),
            ("/v1/workflows/harbour/steps", {"step": "1", "version": 7}, "conflict"),
            ("/v1/workflows/harbour/steps", {"step": "1", "version": 1, "files": ["a", "b", "c"]}, "context_budget"),
            ("/v1/workflows/harbour/checkpoints", {"sub_step": "outline", "version": 1}, "request"),
        ):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, code), refused.text
        gone = await client.post("/v1/workflows/nothing/complete", json={"version": 1})
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")


async def test_what_is_above_a_token_or_anothers_is_as_absent(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host:
        low = await host.token("nightly", Scope.STEER, "INTERNAL")
        await begun(host, CONFIDENTIAL)
        await begun(host, PUBLIC, "quay", "program:other")
        await begun(host, INTERNAL, "pier")
        async with host.client(low) as client:
            assert [one["project"] for one in (await client.get("/v1/workflows")).json()["workflows"]] == ["pier"]
            for what in ("", "/log", "/resume"):
                told = [
                    (await client.get(f"/v1/workflows/{project}{what}")).json()["error"]
                    for project in ("harbour", "quay", "nothing")
                ]
                assert told == [told[0]] * 3
            # Nor is it in the way.
            assert (await client.post("/v1/workflows", json=NEW)).status_code == 201


async def test_what_a_rule_keeps_back_is_not_told(tmp_path: Path) -> None:
    rule = {"id": "ssn", "hook": "PRE_OUTPUT", "pattern": "us-ssn", "action": "BLOCK"}
    rules = {"rules": [{**rule, "message": "no numbers"}]}
    opened = served(tmp_path, api_config(rules), works=False)
    async with opened as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        await client.post("/v1/workflows", json=NEW)
        choice = {"title": "Who", "choice": NUMBER, "rationale": "It is so."}
        assert (await client.post("/v1/workflows/harbour/decisions", json={"version": 1, **choice})).status_code == 200
        for what in ("", "/log"):
            refused = await client.get(f"/v1/workflows/harbour{what}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "refused")
        assert (await client.get("/v1/workflows")).status_code == 200


async def test_what_the_policy_does_not_allow_is_refused(tmp_path: Path) -> None:
    rules = {"rules": [{"id": "none", "hook": "PRE_TOOL_CALL", "tools": ["workflow"], "action": "BLOCK"}]}
    opened = served(tmp_path, api_config(rules), works=False)
    async with opened as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        refused = await client.post("/v1/workflows", json=NEW)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "refused")


async def test_the_agent_of_a_program_has_nobody_to_pass_its_gate(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly", Scope.ADMIN)) as client:
        await client.post("/v1/workflows", json=NEW)
        await client.post("/v1/workflows/harbour/steps", json={"step": "2", "version": 1})
        said = bang("workflow", action="complete", project="harbour", version=2)
        sid = (await client.post("/v1/sessions", json={"input": said})).json()["id"]
        told = (await client.get(f"/v1/sessions/{sid}/result", params={"wait": 30})).json()
        assert '"error": "gate"' in str(told)
        assert (await client.get(f"/v1/sessions/{sid}/questions")).json()["questions"] == []
        assert (await client.get("/v1/workflows/harbour")).json()["status"] == "in_progress"
