"""The tools of a run on a real store: what they return, what they refuse, and what counts once."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.access.agents import AgentSnapshot
from bot.core.ids import Ids
from bot.sessions.background.run_states import AuthMethod, Priority, RunStatus, RunType
from bot.sessions.background.runs import Charter, NewNote, RunFacts, RunOrder, RunWish, StartedRun
from bot.sessions.limits import RunLimits
from bot.sessions.models import Claim
from bot.tools.background import runs
from bot.tools.base import RefusedCallError, Result, Tool, ToolContext
from bot.tools.clock import NoArguments
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.bot.kit import CONFIDENTIAL, TOP, Services, standing, tool_context
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

NONE = NoArguments()


@dataclass(frozen=True)
class Held:
    """A run that a worker holds, with its tools."""

    owner: Person
    made: StartedRun
    claim: Claim
    charter: Charter

    def context(self, taint: Label = PUBLIC) -> ToolContext:
        state = self.claim.state
        assert state.progress is not None
        run = RunFacts(self.charter, state.progress)
        return tool_context(taint, sid=self.claim.sid, run=run, claim=self.claim, now=self.claim.now)

    def tool(self, name: str) -> Tool:
        return next(tool for tool in self.owner.app.gate.tools if tool.name == name)

    async def call(
        self, name: str, permits: Callable[[Label], bool] = lambda _: True, taint: Label = PUBLIC, **given: object
    ) -> Result:
        tool = self.tool(name)
        arguments = tool.arguments.model_validate_json(json.dumps(given))
        context = self.context(taint)
        tool.declare(arguments, context)
        return await tool.run(arguments, context, Services(permits))

    async def told(self, name: str, **given: object) -> dict[str, Any]:
        result = await self.call(name, **given)  # pyright: ignore[reportArgumentType] - arguments of the tool
        assert not result.failed, result.text
        assert result.label == PUBLIC
        return json.loads(result.text)

    async def steer(self, text: str, priority: Priority = Priority.NORMAL, label: Label = PUBLIC) -> None:
        note = NewNote(f"n-{text}", priority, text, label, "owner")
        await self.owner.app.store.runs.steer(self.claim.sid, note, ())


async def begun(
    owner: Person, key: str = "k", label: Label = PUBLIC, slot: str = "", type_: RunType = RunType.AUTONOMOUS
) -> Held:
    wish = RunWish("tidy up", type=type_, slot=slot)
    order = RunOrder(wish, key, principal="owner", asker="owner", label=label)
    made = await owner.app.run_starter.mint_run(order)
    claim = await owner.app.store.sessions.claim(made.sid, Ids().owner())
    assert claim is not None
    assert claim.state.charter is not None
    return Held(owner, made, claim, claim.state.charter)


@asynccontextmanager
async def a_run(folder: Path, **how: object) -> AsyncGenerator[Held]:
    async with running(folder, serve=False) as owner:
        yield await begun(owner, **how)  # pyright: ignore[reportArgumentType] - how it is started


async def test_a_run_begins_counts_and_tells(tmp_path: Path) -> None:
    async with a_run(tmp_path, slot="nightly") as run:
        first = await run.told("session_initialize", session_type="autonomous")
        limits = RunLimits()
        assert first == {
            "session_id": run.claim.sid,
            "slot": "nightly",
            "started_at": run.claim.state.created_at,
            "limits": {"deadline": run.made.deadline, "turns": limits.turns, "consecutive_failures": limits.failures},
            "resumed": False,
        }
        again = await run.told("session_initialize", session_type="autonomous", slot="nightly")
        assert again == first | {"resumed": True}
        stats = await run.told("session_get_stats")
        assert (stats["completion_rate"], stats["average_seconds_per_task"], stats["tokens"]) == (None, None, 0)
        assert stats["cost"] == 0
        await run.told("session_update", current_task_id="one", tasks_failed=2, tasks_skipped=1, consecutive_failures=2)
        await run.told("session_increment_completed")
        counted = await run.told("session_increment_completed")
        changed = await run.told("session_update", auth_method="api_key", consecutive_failures=1)
        assert changed == counted | {"auth_method": "api_key", "consecutive_failures": 1}
        assert changed == await run.told("session_get_state")
        assert changed == {
            "session_id": run.claim.sid,
            "session_type": "autonomous",
            "started_at": run.claim.state.created_at,
            "current_task_id": "one",
            "status": "running",
            "auth_method": "api_key",
            "tasks_completed": 1,
            "tasks_failed": 2,
            "tasks_skipped": 1,
            "consecutive_failures": 1,
        }
        stats = await run.told("session_get_stats")
        assert (stats["completion_rate"], stats["failure_rate"], stats["skip_rate"]) == (0.25, 0.5, 0.25)


async def test_counters_never_go_down_and_a_task_has_a_name(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        nameless = await run.call("session_increment_completed")
        assert (nameless.failed, nameless.text) == (True, "no task is named, set `current_task_id` first")
        await run.told("session_update", tasks_failed=2, status="paused")
        fewer = await run.call("session_update", tasks_failed=1)
        assert fewer.failed
        assert "never go down" in fewer.text
        await run.told("session_update", status="stopped")
        progress = await run.owner.app.store.runs.progress(run.claim.sid)
        assert progress is not None
        assert (progress.failed, progress.status) == (2, RunStatus.STOPPED)


async def test_a_slot_that_another_run_has_is_not_gone_on_with(tmp_path: Path) -> None:
    async with a_run(tmp_path, slot="nightly") as first:
        await first.told("session_initialize", session_type="autonomous")
        second = await begun(first.owner, "other")
        refused = await second.call("session_initialize", session_type="autonomous", slot="nightly")
        assert refused.failed
        held = json.loads(refused.text)
        assert (held["code"], held["slot"], held["held_by"]) == (runs.SLOT_LOCKED, "nightly", first.made.run)
        assert held["since"] >= first.claim.state.created_at
        progress = await first.owner.app.store.runs.progress(second.claim.sid)
        assert progress is not None
        assert not progress.initialized
        # A run of another level has slots of its own: by none it is told that there is this one.
        above = await begun(first.owner, "above", CONFIDENTIAL)
        mine = await above.told("session_initialize", session_type="autonomous", slot="nightly")
        assert mine["slot"] == "nightly"


async def test_the_slot_of_a_run_that_has_ended_is_free_though_nobody_gave_it_back(tmp_path: Path) -> None:
    """The worker that was to give it back died behind the end."""
    async with a_run(tmp_path, slot="nightly") as first:
        await first.told("session_initialize", session_type="autonomous")
        await first.owner.app.store.sessions.stop(first.claim.sid, actor="owner")
        second = await begun(first.owner, "other")
        mine = await second.told("session_initialize", session_type="autonomous", slot="nightly")
        assert mine["slot"] == "nightly"
        live = [place.run for place in await first.owner.app.store.runs.slots("owner") if place.live]
        assert live == [second.made.run]


async def test_who_holds_a_slot_is_as_trusted_as_what_that_run_has_read(tmp_path: Path) -> None:
    async with a_run(tmp_path, slot="nightly", label=parse("PUBLIC~")) as first:
        await first.told("session_initialize", session_type="autonomous")
        second = await begun(first.owner, "other", slot="nightly")
        told = await second.call("session_initialize", session_type="autonomous")
        assert told.label.untrusted
        untold = await second.call("session_initialize", lambda label: not label.untrusted, session_type="autonomous")
        assert untold.label == PUBLIC
        assert "held_by" not in json.loads(untold.text)


async def test_a_run_is_what_it_was_started_as(tmp_path: Path) -> None:
    async with a_run(tmp_path, slot="nightly", type_=RunType.MANUAL) as run:
        for given, why in (
            ({"session_type": "autonomous"}, runs.OTHER_TYPE.format(type="manual")),
            ({"session_type": "manual", "slot": "weekly"}, runs.OTHER_SLOT.format(slot="nightly")),
        ):
            with pytest.raises(RefusedCallError) as refused:
                await run.call("session_initialize", **given)  # pyright: ignore[reportArgumentType] - as above
            assert str(refused.value) == why
        own = await begun(run.owner, "own")
        with pytest.raises(RefusedCallError, match="must not begin with `r_`"):
            await own.call("session_initialize", session_type="autonomous", slot=run.made.run)
        assert (await own.told("session_initialize", session_type="autonomous"))["slot"] == own.made.run


async def test_no_read_up_by_the_slot_that_a_run_chooses(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        # Whoever looks in the pool of its beginning sees the lock: what the run has read since may choose none.
        tool, first = run.tool("session_initialize"), run.context(CONFIDENTIAL)
        chosen = runs.InitializeArguments.model_validate({"session_type": "autonomous", "slot": "risen"}, strict=False)
        assert tool.declare(chosen, first).clearance == PUBLIC
        await run.told("session_initialize", session_type="autonomous", slot="nightly")
        # Begun again it keeps its slot, which tells nothing new.
        assert await run.told("session_initialize", session_type="autonomous") == {
            **await run.told("session_initialize", session_type="autonomous", slot="nightly"),
            "slot": "nightly",
        }


async def test_outside_a_run_its_tools_are_not_there(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        gate, context = run.owner.app.gate, run.context()
        only = {tool.name for tool in gate.tools if isinstance(tool, runs.RunTool)}
        assert len(only) == 6
        elsewhere, inside = (gate.requests.offered(standing(run=one)) for one in (None, context.session.run))
        assert {tool.name for tool in inside} - {tool.name for tool in elsewhere} == only
        # Whatever tools its agent has, a run has its own.
        agent = AgentSnapshot("narrow", "", ("offline",), {"read_file": ""}, None)
        narrow = gate.requests.offered(standing(run=context.session.run, agent=agent))
        assert {tool.name for tool in narrow} == {*only, "read_file"}
        for name in only:
            tool = run.tool(name)
            given = (
                {"session_type": "autonomous"} if name == runs.INITIALIZE else {"session_id": "x", "status": "running"}
            )
            fields = {one: given[one] for one in given if one in tool.arguments.model_fields}
            with pytest.raises(RefusedCallError, match="is no run"):
                tool.declare(tool.arguments.model_validate_json(json.dumps(fields)), tool_context())


async def test_a_heartbeat_tells_notes_those_that_matter_most_first(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        for text, priority in (("a", Priority.NORMAL), ("b", Priority.URGENT), ("c", Priority.URGENT)):
            await run.steer(text, priority)
        beat = {"session_id": run.claim.sid, "status": "working", "next_action": "look"}
        told = await run.call("steering_heartbeat", **beat)  # pyright: ignore[reportArgumentType] - as above
        found = json.loads(told.text)
        assert [note["text"] for note in found["notes"]] == ["b", "c", "a"]
        assert (found["notes"][0]["priority"], found["notes"][0]["from"]) == ("urgent", "owner")
        assert (found["do"], found["more"]) == (runs.PIVOT, False)
        assert told.acknowledge == ("n-b", "n-c", "n-a")
        progress = await run.owner.app.store.runs.progress(run.claim.sid)
        assert progress is not None
        assert progress.next_action == "look"
        # Nothing was put into a log that tells them, so they are told again.
        assert (await run.call("steering_heartbeat", **beat)).text == told.text  # pyright: ignore[reportArgumentType]


async def test_long_notes_wait_for_the_next_heartbeat(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        for letter in "abc":
            await run.steer(letter * (runs.MOST_TOLD // 2))
        told = await run.call("steering_heartbeat", session_id=run.claim.sid, status="x")
        assert (len(told.acknowledge), json.loads(told.text)["more"]) == (2, True)


async def test_a_note_has_a_label_and_one_that_may_not_be_read_is_not_hinted_at(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        beat = {"session_id": run.claim.sid, "status": "working"}
        nothing = await run.call("steering_heartbeat", **beat)  # pyright: ignore[reportArgumentType] - as above
        await run.steer("secret", Priority.ABORT, CONFIDENTIAL)

        def low(label: Label) -> bool:
            return label.flows_to(PUBLIC)

        silent = await run.call("steering_heartbeat", low, **beat)  # pyright: ignore[reportArgumentType] - as above
        assert (silent.text, silent.label, silent.acknowledge) == (nothing.text, PUBLIC, ())
        told = await run.call("steering_heartbeat", **beat)  # pyright: ignore[reportArgumentType] - as above
        assert (told.label, told.acknowledge) == (CONFIDENTIAL, ("n-secret",))
        assert json.loads(told.text)["do"] == runs.FINISH


async def test_a_heartbeat_of_another_session_is_refused(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        other = await begun(run.owner, "other")
        await run.steer("mine")
        for sid in (other.claim.sid, run.made.run, "", "nobody"):
            with pytest.raises(RefusedCallError) as refused:
                await run.call("steering_heartbeat", session_id=sid, status="x")
            assert str(refused.value) == runs.OTHER_SESSION


async def test_what_changes_a_run_waits_for_its_turn_and_the_rest_does_not(tmp_path: Path) -> None:
    """Calls of one step that change the run are made one after the other, in the order of the step."""
    async with a_run(tmp_path) as run:
        changing = {"session_initialize", "session_update", "session_increment_completed"}
        for tool in run.owner.app.gate.tools:
            if isinstance(tool, runs.RunTool):
                assert (tool.effect is Effect.WRITE) == (tool.name in changing)
        declared = run.tool("session_increment_completed").declare(NONE, run.context(CONFIDENTIAL))
        assert (declared.clearance, declared.consequential, declared.asks, declared.once) == (TOP, False, False, True)


async def test_a_worker_that_lost_the_run_changes_nothing(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        lost = replace(run, claim=replace(run.claim, fence=run.claim.fence - 1))
        with pytest.raises(Exception, match="another worker"):
            await lost.call("session_update", current_task_id="one", auth_method=AuthMethod.API_KEY.value)
        assert (await run.told("session_get_state"))["current_task_id"] is None
