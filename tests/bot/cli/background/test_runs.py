"""`lockgate runs` and `lockgate schedules`: what an operator sees, steers and ends, and what the record tells."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from bot.cli.background import runs, schedules
from bot.cli.background.runs import GONE, LOST, RunAct
from bot.cli.background.schedules import ScheduleAct
from bot.cli.sessions import delete_session
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.sessions.background.run_states import Priority
from bot.sessions.background.runs import RunWish
from bot.sessions.background.schedules import ScheduleKind
from bot.tools import catalogue
from policy.labels import parse
from tests.bot.kit import bang, eventually, policy
from tests.harness import Person, running
from tests.people import principal
from tests.servers import SERVERS
from tests.store.world import put_state, scheduled

pytestmark = pytest.mark.anyio

GOAL: Final = (
    f"{bang('session_initialize', session_type='autonomous')} ;; "
    f"{bang('session_update', current_task_id='plums')}\n{bang('session_increment_completed')}"
)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator at the command line, beside an application that works."""

    config: Config
    owner: Person
    shell: pytest.CaptureFixture[str]

    async def sees(self, command: Awaitable[None]) -> str:
        """Run a command; return what it prints."""
        self.shell.readouterr()
        await command
        return self.shell.readouterr().out

    async def reads(self, command: Awaitable[None]) -> Any:  # noqa: ANN401 - a document of JSON
        """Run a command; return the document that it prints."""
        return json.loads(await self.sees(command))

    async def refused(self, command: Awaitable[None]) -> str:
        """Run a command that is refused; return why, and the next step."""
        with pytest.raises(OperatorError) as caught:
            await command
        return f"{caught.value}; {caught.value.next_step}"


@asynccontextmanager
async def operating(
    folder: Path, shell: pytest.CaptureFixture[str], text: str = "", *, serve: bool = True
) -> AsyncGenerator[Operator]:
    async with running(folder, text, serve=serve) as owner:
        place = await SERVERS.place(folder / "data")
        config = await asyncio.to_thread(load_config, folder / "config.yaml", place, catalogue.ARGUMENTS)
        yield Operator(config, owner, shell)


async def test_a_run_from_its_start_to_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with operating(tmp_path, capsys) as at:
        run = (await at.sees(runs.start_run(at.config, RunWish(GOAL, title="plum papers"), as_json=False))).strip()

        async def over() -> bool:
            return (await at.owner.app.runs.page(_everybody(at), ended=True)).runs[0].over

        await eventually(over)
        assert await at.reads(runs.list_runs(at.config, as_json=True, ended=False, after="", limit=5)) == []
        (listed,) = await at.reads(runs.list_runs(at.config, as_json=True, ended=True, after="", limit=5))
        assert (listed["id"], listed["status"], listed["tasks_completed"]) == (run, "ended", 1)
        numbers = await at.reads(runs.show_stats(at.config, run, as_json=True))
        assert numbers["completed"] == 1
        folder = tmp_path / "data/workspace"

        async def recorded() -> bool:
            return (await at.owner.app.recorder.found(run, at.config.policy.top)) is not None

        await eventually(recorded)
        told = await asyncio.to_thread(
            subprocess.run, ["git", "log", "--format=%s"], cwd=folder, capture_output=True, text=True, check=True
        )
        assert told.stdout == f"Run {run} ended: completed\n"
        shown = await at.reads(runs.show_run(at.config, run, as_json=True, events=True))
        assert shown["record"]["readable"]
        assert shown["record"]["document"]["texts"]["title"] == "plum papers"
        assert "Record: sessions/" in await at.sees(runs.show_run(at.config, run, as_json=False, events=True))
        await delete_session(at.config, shown["session"])
        after = await at.sees(runs.show_run(at.config, run, as_json=False, events=True))
        assert GONE in after
        assert LOST in after
        assert "completion_reason: completed" in after
        assert "plum papers" not in after
        lost = await at.reads(runs.show_run(at.config, run, as_json=True, events=True))
        assert (lost["deleted"], lost["record"]["readable"]) == (True, False)
        assert await at.reads(runs.list_runs(at.config, as_json=True, ended=True, after="", limit=5)) == []


async def test_a_run_is_steered_paused_resumed_and_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with operating(tmp_path, capsys, serve=False) as at:
        run = (await at.sees(runs.start_run(at.config, RunWish("read"), as_json=False))).strip()
        assert "priority urgent" in await at.sees(runs.steer_run(at.config, run, "turn left", Priority.URGENT))
        assert await at.sees(runs.change_run(at.config, run, RunAct.PAUSE)) == f"{run} rests\n"
        shown = await at.reads(runs.show_run(at.config, run, as_json=True, events=False))
        assert (shown["status"], shown["waiting_notes"], shown["record"]) == ("paused", 1, None)
        assert await at.sees(runs.change_run(at.config, run, RunAct.RESUME)) == f"{run} goes on\n"
        assert run in await at.sees(runs.list_runs(at.config, as_json=False, ended=False, after="", limit=5))
        assert (
            await at.sees(runs.change_run(at.config, run, RunAct.STOP)) == f"{run} ends now, with all that it spawned\n"
        )
        assert "1 to" in await at.refused(runs.steer_run(at.config, run, " ", Priority.NORMAL))


async def test_a_run_above_the_owner_is_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Law `no_read_up`: a run that rose, and one that there never was, are one answer."""
    owner = principal("console:owner", clearance="INTERNAL")
    text = policy(principals={"owner": owner}, channels={"console": {"classification": "top"}}, recipients={})
    async with operating(tmp_path, capsys, text, serve=False) as at:
        run = (await at.sees(runs.start_run(at.config, RunWish("read"), as_json=False))).strip()
        (known,) = (await at.owner.app.runs.page(_everybody(at))).runs
        await put_state(at.owner.app.store, known.state.sid, taint=str(parse("CONFIDENTIAL")))
        for name in (run, "r_0000000000000000"):
            assert await at.refused(runs.show_run(at.config, name, as_json=True, events=False)) == (
                "there is no such run; `lockgate runs list` names them"
            )
            assert await at.refused(runs.change_run(at.config, name, RunAct.PAUSE)) == (
                "there is no such run; `lockgate runs list` names them"
            )
        assert await at.reads(runs.list_runs(at.config, as_json=True, ended=True, after="", limit=5)) == []


async def test_schedules_are_shown_rested_and_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with operating(tmp_path, capsys, serve=False) as at:
        one = scheduled("owner")
        await at.owner.app.store.schedules.add(one, 5, ())
        (listed,) = await at.reads(schedules.list_schedules(at.config, as_json=True))
        assert (listed["id"], listed["kind"], listed["cron"]) == (one.id, ScheduleKind.RUN.value, one.cron)
        assert one.id in await at.sees(schedules.list_schedules(at.config, as_json=False))
        assert await at.sees(schedules.change_schedule(at.config, one.id, ScheduleAct.PAUSE)) == f"{one.id} rests\n"
        shown = await at.reads(schedules.show_schedule(at.config, one.id, as_json=True))
        assert shown["status"] == "paused"
        assert one.text in await at.sees(schedules.show_schedule(at.config, one.id, as_json=False))
        await schedules.change_schedule(at.config, one.id, ScheduleAct.RESUME)
        await schedules.change_schedule(at.config, one.id, ScheduleAct.CANCEL)
        assert await at.refused(schedules.show_schedule(at.config, one.id, as_json=True)) == (
            "there is no such schedule; `lockgate schedules list` names them"
        )


def _everybody(at: Operator) -> runs.RunViewer:
    top = at.config.policy.top
    return runs.RunViewer("", top, top, "owner")
