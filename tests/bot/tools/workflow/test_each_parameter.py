"""Each parameter of `workflow` that no other test of the tool shows at work: a reviewer's findings, and steps anew."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.access.agents import AgentSnapshot
from bot.tools.base import ToolContext
from bot.tools.workflow.workflow import WorkflowArguments, WorkflowTool
from policy.labels import PUBLIC, Label
from tests.bot.kit import INTERNAL, Services, tool_context
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

REVIEWER = AgentSnapshot("challenger", "", ("offline",), None, None)


def at(owner: Person, taint: Label = PUBLIC, /, **changes: object) -> ToolContext:
    return tool_context(taint, **{"now": owner.app.clock.wall_ms(), **changes})


def reviewing(owner: Person, key: str) -> ToolContext:
    context = at(owner, key=key)
    return replace(context, session=replace(context.session, agent=REVIEWER))


async def told(owner: Person, context: ToolContext, label: Label = PUBLIC, /, **given: object) -> dict[str, Any]:
    """Return what a call tells."""
    tool, arguments = WorkflowTool(owner.app.workflows), WorkflowArguments.model_validate_json(json.dumps(given))
    tool.declare(arguments, context)
    result = await tool.run(arguments, context, Services())
    assert (result.failed, result.label) == (False, label), result.text
    return json.loads(result.text)


async def begun(owner: Person, taint: Label = PUBLIC) -> int:
    """Begin the first of seven steps; return the version."""
    await told(owner, at(owner, taint, key="a"), taint, action="start", project="quay", definition="seven-step")
    step = {"action": "step", "project": "quay", "step": "1", "version": 1}
    return (await told(owner, at(owner, taint, key="b"), taint, **step))["version"]


async def test_a_reviewer_adds_a_finding_and_removes_it(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        finding = {"action": "finding", "project": "quay"}
        version = await begun(owner)
        reviewer = reviewing(owner, "c")
        added = await told(owner, reviewer, **finding, version=version, text="It is too long.")
        assert added["open_findings"] == [{"id": "F1", "step": "1", "text": "It is too long."}]
        removed = await told(owner, reviewing(owner, "d"), **finding, version=version + 1, id="F1")
        assert (removed["version"], removed["open_findings"]) == (version + 2, [])


async def test_a_finding_is_added_to_what_is_known_up_to_a_label(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        version = await begun(owner, INTERNAL)
        given = {"action": "finding", "project": "quay", "version": version, "text": "It is too long."}
        reviewer = reviewing(owner, "c")
        added = await told(owner, reviewer, INTERNAL, **given, up_to="INTERNAL")
        assert [one["id"] for one in added["open_findings"]] == ["F1"]


async def test_a_step_is_begun_anew_where_that_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        version = await begun(owner)
        step = {"action": "step", "project": "quay", "step": "1", "version": version}
        tool, arguments = WorkflowTool(owner.app.workflows), WorkflowArguments.model_validate_json(json.dumps(step))
        refused = await tool.run(arguments, at(owner, key="c"), Services())
        assert refused.failed
        assert (await told(owner, at(owner, key="d"), **step, again=True))["version"] == version + 1
