"""The client's workflows, against a real API."""

from pathlib import Path

import pytest

from bot.sessions.api_tokens import Scope
from lockgate.client import Client
from lockgate.errors import ApiError
from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_a_workflow_is_begun_carried_on_and_looked_at(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, Client(host.url, await host.token(scope=Scope.STEER)) as client:
        flows = client.workflows
        made = await flows.start("harbor", "note-review", branch="main", key="a")
        assert await flows.start("harbor", "note-review", branch="main", key="a") == made
        assert (made.project, made.step, made.status) == ("harbor", "1", "pending")
        assert made.exported == "agent-output/harbor/00-session-state.json"
        begun = await flows.step("harbor", "1", made.version, files=["public/welcome.md"])
        done = await flows.checkpoint("harbor", "outline", begun.version, artifacts=["agent-output/harbor/01-draft.md"])
        why = {"title": "port", "choice": "north", "rationale": "less wind"}
        decided = await flows.decide("harbor", done.version, **why)
        with pytest.raises(ApiError) as late:
            await flows.complete("harbor", done.version)
        assert late.value.code == "conflict"
        ahead = await flows.resume("harbor")
        assert (ahead.branch, ahead.done, ahead.sub_step) == ("continue", "outline", "text")
        ended = await flows.complete("harbor", decided.version)
        assert ended.step == "2"
        whole = await flows.get("harbor")
        assert (whole.branch, whole.steps[0].artifacts) == ("main", ("agent-output/harbor/01-draft.md",))
        assert [one.choice for one in whole.decision_log] == ["north"]
        happened = (await flows.log("harbor")).events
        assert len(happened) == whole.version
        known = await flows.list()
        assert [one.project for one in known.workflows] == ["harbor"]
        assert "seven-step" in {one.name for one in known.definitions}
        again = await flows.step("harbor", "1", whole.version, again=True)
        assert again.status == "in_progress"
        with pytest.raises(ApiError) as absent:
            await flows.get("quay")
        assert absent.value.code == "not_found"
