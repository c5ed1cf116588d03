"""The client's runs and schedules, against a real API."""

from pathlib import Path

import pytest

from lockgate.client import Client
from lockgate.errors import ApiError
from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_a_run_is_started_once_rests_and_is_stopped(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, Client(host.url, await host.token()) as client:
        started = await client.runs.start("File it.", kind="manual", title="Filing", slot="filing", hours=2, key="a")
        assert await client.runs.start("File it.", kind="manual", title="Filing", slot="filing", hours=2, key="a") == (
            started
        )
        for goal, slot in (("Burn it.", "filing"), ("File it.", "furnace")):
            with pytest.raises(ApiError) as other:
                await client.runs.start(goal, kind="manual", title="Filing", slot=slot, key="a")
            assert other.value.code == "conflict"
        (run,) = (await client.runs.list(limit=5)).runs
        assert (run.id, run.type, run.title, run.slot, run.status) == (
            started.id,
            "manual",
            "Filing",
            "filing",
            "running",
        )
        assert run.deadline - run.started_at <= 2 * 3_600_000
        note = await client.runs.steer(run.id, "Leave out the drafts.", key="first")
        assert await client.runs.steer(run.id, "Leave out the drafts.", key="first") == note
        assert (await client.runs.get(run.id)).waiting_notes == 1
        for act, status in ((client.runs.pause, "paused"), (client.runs.resume, "running")):
            for _ in range(2):
                await act(run.id)
            assert (await client.runs.get(run.id)).status == status
        assert (await client.runs.stats(run.id)).completion_rate is None
        for _ in range(2):
            await client.runs.stop(run.id)
        assert (await client.runs.list()).runs == ()
        (ended,) = (await client.runs.list(ended=True)).runs
        assert (ended.status, ended.reason) == ("ended", "stopped")


async def test_a_schedule_is_made_once_rests_and_is_cancelled(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, Client(host.url, await host.token()) as client:
        made = await client.schedules.create("0 7 * * 1-5", "Report.", time_zone="Europe/Berlin", overlap=True, key="a")
        again = await client.schedules.create(
            "0 7 * * 1-5", "Report.", time_zone="Europe/Berlin", overlap=True, key="a"
        )
        assert again == made
        assert (made.cron, made.time_zone, made.overlap, made.label) == (
            "0 7 * * 1-5",
            "Europe/Berlin",
            "allow",
            "PUBLIC",
        )
        with pytest.raises(ApiError) as other:
            await client.schedules.create("0 7 * * 1-5", "Burn.", time_zone="Europe/Berlin", overlap=True, key="a")
        assert other.value.code == "conflict"
        await client.schedules.pause(made.id)
        assert (await client.schedules.get(made.id)).status == "paused"
        await client.schedules.resume(made.id)
        assert [one.status for one in (await client.schedules.list()).schedules] == ["active"]
        await client.schedules.cancel(made.id)
        assert (await client.schedules.list()).schedules == ()
        with pytest.raises(ApiError) as unclear:
            await client.schedules.create("some day", "Report.", title="Never")
        assert unclear.value.status == 400
