"""Each document about workflows in full: every field tells what the store has, and no field is left out."""

from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from bot.sessions.api_tokens import Scope
from bot.workflows.views import WorkflowActor
from policy.labels import PUBLIC
from tests.bot.api.kit import ApiHost, served

pytestmark = pytest.mark.anyio

NIGHTLY: Final = "program:nightly"
NEW: Final = {"project": "harbour", "definition": "note-review", "branch": "quay"}
CHOICE: Final = {"title": "Format", "choice": "Markdown", "rationale": "It is short."}
BRIEF: Final = {"project": "harbour", "definition": "note-review"}


async def told(client: httpx2.AsyncClient, path: str = "", **query: str) -> Any:  # noqa: ANN401 - as JSON has it
    answer = await client.get(f"/v1/workflows{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def once(client: httpx2.AsyncClient, path: str, body: object, status: int = 200) -> Any:  # noqa: ANN401 - as above
    """Send a change twice under one key, and return the one answer."""
    headers = {"idempotency-key": f"once{path}"}
    answers = [await client.post(f"/v1/workflows{path}", json=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status] * 2, answers[0].text
    assert answers[0].json() == answers[1].json()
    return answers[0].json()


async def add_finding(host: ApiHost, version: int) -> None:
    """Add a finding, as a person does."""
    person = WorkflowActor(NIGHTLY, "owner", PUBLIC, PUBLIC)
    await host.app.workflows.add_finding(person, "harbour", version, "It is too long.", op="finding")


async def test_a_workflow_from_its_beginning_to_a_finding(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        made = await once(client, "", NEW, 201)
        stands: dict[str, object] = {**BRIEF, "version": 1, "step": "1", "status": "pending", "sub_step": None}
        stands |= {"open_findings": 0}
        written = {"exported": "agent-output/harbour/00-session-state.json", "note": None}
        assert made == {**stands, **written}
        begun = await once(client, "/harbour/steps", {"step": "1", "version": 1, "files": ["notes.md"]})
        assert begun == {**stands, **written, "version": 2, "status": "in_progress"}
        part = {"sub_step": "outline", "version": 2, "artifacts": ["draft.md"]}
        stands |= {"version": 3, "status": "in_progress", "sub_step": "outline"}
        assert await once(client, "/harbour/checkpoints", part) == {**stands, **written}
        stands |= {"version": 4}
        assert await once(client, "/harbour/decisions", {"version": 3, **CHOICE}) == {**stands, **written}
        await add_finding(host, 4)
        stands |= {"version": 5, "open_findings": 1}
        listed = await told(client)
        assert listed["workflows"] == [{**stands, "label": "PUBLIC"}]
        (note,) = [one for one in listed["definitions"] if one["name"] == "note-review"]
        assert note == {"name": "note-review", "title": "Note review", "steps": ["1", "2", "3"]}
        whole = await told(client, "/harbour")
        first, _, _ = whole["steps"]
        assert first == {
            "id": "1",
            "name": "Draft",
            "status": "in_progress",
            "sub_step": "outline",
            "artifacts": ["draft.md"],
            "context_files_used": ["notes.md"],
            "sub_steps": ["outline", "text"],
            "context_files": 2,
            "expected_artifacts": ["agent-output/harbour/01-draft.md"],
            "gate": False,
        }
        assert whole == {
            **stands,
            "label": "PUBLIC",
            "branch": "quay",
            "steps": whole["steps"],
            "decision_log": [{"id": "D1", "step": "1", **CHOICE}],
            "open_findings": [{"id": "F1", "step": "1", "text": "It is too long."}],
        }
        assert [step["gate"] for step in whole["steps"]] == [False, True, False]
        assert await told(client, "/harbour/resume") == {
            **stands,
            "branch": "continue",
            "name": "Draft",
            "sub_step": "text",
            "done": "outline",
            "open_before": [],
            "sub_steps": ["outline", "text"],
            "context_files": 2,
            "expected_artifacts": ["agent-output/harbour/01-draft.md"],
            "gate": False,
        }
        other = await told(client, "/harbour/resume", step="2")
        assert (other["branch"], other["step"], other["open_before"], other["gate"]) == ("start", "2", ["1"], True)


async def test_the_log_of_a_workflow(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token("nightly", Scope.STEER)) as client:
        await once(client, "", NEW, 201)
        await once(client, "/harbour/steps", {"step": "1", "version": 1, "files": ["notes.md"]})
        await once(client, "/harbour/checkpoints", {"sub_step": "outline", "version": 2, "artifacts": ["draft.md"]})
        await once(client, "/harbour/decisions", {"version": 3, **CHOICE})
        done = await once(client, "/harbour/complete", {"version": 4})
        assert (done["version"], done["step"], done["status"]) == (5, "2", "pending")
        again = await client.post("/v1/workflows/harbour/steps", json={"step": "1", "version": 5, "again": True})
        assert (again.status_code, again.json()["status"]) == (200, "in_progress")
        await add_finding(host, 6)
        told_log = await told(client, "/harbour/log")
        events = told_log["events"]
        kept = (await host.app.workflows.found(NIGHTLY, "harbour", PUBLIC)).events
        assert list(told_log) == ["events"]
        empty: dict[str, object] = {
            "step": None,
            "sub_step": None,
            "definition": None,
            "branch": None,
            "files": [],
            "artifacts": [],
        }
        empty |= {"passed_by": None, "title": None, "choice": None, "rationale": None, "text": None, "reason": None}
        by = {"actor": NIGHTLY, "by_agent": True, "label": "PUBLIC", "session": None}
        said = [
            {"what": "started", "definition": "note-review", "branch": "quay"},
            {"what": "step_started", "step": "1", "files": ["notes.md"]},
            {"what": "sub_step_done", "step": "1", "sub_step": "outline", "artifacts": ["draft.md"]},
            {"what": "decided", "step": "1", **CHOICE},
            {"what": "step_completed", "step": "1"},
            {"what": "step_started", "step": "1"},
            {"what": "finding_added", "step": "1", "text": "It is too long.", "actor": "owner", "by_agent": False},
        ]
        assert events == [{**empty, **by, "at": event.at, **one} for event, one in zip(kept, said, strict=True)]
