"""`lockgate workflow`: what an operator sees of workflows, begins, and carries out and in."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest

from bot.cli.workflows import workflow
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import NotFoundError, OperatorError
from bot.tools import catalogue
from bot.workflows.views import WorkflowActor
from policy.labels import PUBLIC
from tests.bot.commands.kit import COUPLE
from tests.bot.kit import DIRTY, policy
from tests.harness import running
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio


async def refused(command: Awaitable[None]) -> str:
    with pytest.raises(OperatorError) as caught:
        await command
    return f"{caught.value}; {caught.value.next_step}"


async def config_of(folder: Path) -> Config:
    place = await SERVERS.place(folder / "data")
    return await asyncio.to_thread(load_config, folder / "config.yaml", place, catalogue.ARGUMENTS)


async def test_a_workflow_is_begun_shown_and_carried_out_and_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, COUPLE, serve=False):
        config = await config_of(tmp_path)

        async def sees(command: Awaitable[None]) -> str:
            capsys.readouterr()
            await command
            return capsys.readouterr().out

        empty = await sees(workflow.list_workflows(config, "", as_json=False))
        assert "there are no workflows" in empty
        assert "definition note-review: Note review" in empty
        made = await sees(workflow.start_workflow(config, "", "harbour", ("note-review", "quay")))
        assert "workflow harbour is begun" in made
        there = await refused(workflow.start_workflow(config, "", "harbour", ("note-review", "")))
        assert "is there already" in there
        assert "there is no workflow `nothing`" in await refused(
            workflow.start_workflow(config, "", "pier", ("nothing", ""))
        )
        assert "harbour: note-review" in await sees(workflow.list_workflows(config, "", as_json=False))
        (listed,) = json.loads(await sees(workflow.list_workflows(config, "", as_json=True)))
        assert (listed["project"], listed["version"], listed["label"]) == ("harbour", 1, "PUBLIC")
        shown = await sees(workflow.show_workflow(config, "", "harbour", as_json=False))
        assert ("Workflow harbour: Note review, version 1." in shown, "Branch: quay" in shown) == (True, True)
        whole = json.loads(await sees(workflow.show_workflow(config, "", "harbour", as_json=True)))
        assert [one["id"] for one in whole["steps"]] == ["1", "2", "3"]
        resumed = await sees(workflow.resume_workflow(config, "", ("harbour", "2"), as_json=False))
        assert "workflow harbour goes on with step 2 (Review) at read (start)" in resumed or "(fresh)" in resumed
        assert "earlier steps are open: 1" in resumed
        told = json.loads(await sees(workflow.resume_workflow(config, "", ("harbour", ""), as_json=True)))
        assert (told["step"], told["sub_step"]) == ("1", "outline")
        assert "no step `9`" in await refused(workflow.resume_workflow(config, "", ("harbour", "9"), as_json=False))

        text = await sees(workflow.export_workflow(config, "", "harbour", None))
        assert json.loads(text)["schema_version"] == "3.0"
        out = tmp_path / "state.json"
        await workflow.export_workflow(config, "", "harbour", out)
        assert json.loads(out.read_text()) == json.loads(text)
        assert "is there already" in await refused(workflow.export_workflow(config, "", "harbour", out))
        assert "cannot be written" in await refused(
            workflow.export_workflow(config, "", "harbour", tmp_path / "none" / "x")
        )


async def test_a_state_of_an_older_version_is_brought_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        config = await config_of(tmp_path)
        old: dict[str, object] = {
            "schema_version": "1.0",
            "project": "pier",
            "updated": "2026-01-02T03:04:05Z",
            "current_step": 1,
            "lock": {"holder": "x"},
            "steps": {"1": {"name": "Draft", "status": "in_progress", "sub_step": "outline", "artifacts": []}},
        }
        file = tmp_path / "old.json"
        file.write_text(json.dumps(old))
        await workflow.import_workflow(config, "", ("pier", "note-review"), file)
        assert "workflow pier is at version" in capsys.readouterr().out
        # A file is what anybody may have written, as what it was exported from may be.
        with pytest.raises(NotFoundError):
            await owner.app.workflows.found("owner", "pier", PUBLIC)
        found = await owner.app.workflows.found("owner", "pier", DIRTY)
        assert (found.document.steps["1"].status.value, found.document.steps["1"].sub_step) == (
            "in_progress",
            "outline",
        )
        file.write_text('{"schema_version": "9.0", "project": "pier"}')
        assert "9.0" in await refused(workflow.import_workflow(config, "", ("pier", "note-review"), file))
        file.write_bytes(b"\xff\xfe")
        assert "cannot be read" in await refused(workflow.import_workflow(config, "", ("pier", "note-review"), file))
        absent = tmp_path / "absent.json"
        assert "cannot be read" in await refused(workflow.import_workflow(config, "", ("pier", "note-review"), absent))


async def test_those_of_another_principal_are_seen_and_what_there_is_not_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        config = await config_of(tmp_path)
        actor = WorkflowActor("bea", "bea", PUBLIC, PUBLIC)
        await owner.app.workflows.start(actor, "harbour", "note-review", op="b")
        await workflow.show_workflow(config, "bea", "harbour", as_json=False)
        assert "Workflow harbour" in capsys.readouterr().out
        for command in (
            workflow.show_workflow(config, "", "harbour", as_json=False),
            workflow.resume_workflow(config, "", ("harbour", ""), as_json=False),
            workflow.export_workflow(config, "", "harbour", None),
        ):
            assert await refused(command) == "there is no such workflow; `lockgate workflow list` names them"


async def test_the_owner_lets_a_programs_workflow_pass_its_gate_and_no_other_persons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        config, keeper = await config_of(tmp_path), owner.app.workflows
        for who in ("program:crane", "bea", "owner"):
            actor = WorkflowActor(who, who, PUBLIC, PUBLIC)
            await keeper.start(actor, "harbour", "note-review", op=f"start {who}")
            await keeper.skip(actor, "harbour", "1", 1, op=f"skip {who}")
            await keeper.begin_step(actor, "harbour", "2", 2, op=f"step {who}")
        for whose in ("", "program:crane"):
            await workflow.pass_gate(config, whose, "harbour", 3)
            assert "step 2 of workflow harbour is complete" in capsys.readouterr().out
        found = await keeper.found("program:crane", "harbour", PUBLIC)
        assert "owner" in str(found.document.review_audit["2"])
        assert "by a person who decides here" in await refused(workflow.pass_gate(config, "bea", "harbour", 3))
        assert "at version 4 by now" in await refused(workflow.pass_gate(config, "", "harbour", 3))


async def test_a_rule_counts_for_an_operator_too(tmp_path: Path) -> None:
    rules = [{"id": "none", "hook": "PRE_TOOL_CALL", "tools": ["workflow"], "action": "BLOCK", "message": "not now"}]
    async with running(tmp_path, policy(rules=rules), serve=False):
        config = await config_of(tmp_path)
        assert "not now" in await refused(workflow.start_workflow(config, "", "harbour", ("note-review", "")))
