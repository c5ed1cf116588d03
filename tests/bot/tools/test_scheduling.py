"""What an agent may have done later: by whom it is approved, who may know of it, and who may end it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.access.decision_context import Call
from bot.access.principals import of_chat
from bot.core.errors import NotFoundError
from bot.sessions.background.runs import RunWish, StartedRun
from bot.sessions.limits import RunLimits
from bot.tools.background import scheduling
from bot.tools.background.run_starting import RunsStart, StartArguments
from bot.tools.background.runs import RESERVED
from bot.tools.background.scheduling import ABOVE, FOR_RUNS, ONLY, ScheduleCancel, ScheduleCreate, SchedulesList
from bot.tools.base import RefusedCallError, Result, Tool, ToolContext
from channels.messages import Address
from policy.decision import Verdict
from policy.labels import PUBLIC, Label, join_all, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, HOME, TOP, Services, bang, document, policy, standing, tool_context
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

GIVEN = {"kind": "reminder", "when": "in 2 hours", "text": "stand up"}


def at(owner: Person, taint: Label = PUBLIC, key: str = "k", **changes: object) -> ToolContext:
    return tool_context(taint, key=key, now=owner.app.clock.wall_ms(), **changes)


async def create(owner: Person, context: ToolContext, **given: object) -> Result:
    tool = ScheduleCreate(owner.app.schedule_keeper)
    arguments = tool.arguments.model_validate_json(json.dumps(GIVEN | given))
    tool.declare(arguments, context)
    return await tool.run(arguments, context, Services())


async def listed(owner: Person, context: ToolContext, services: Services | None = None) -> tuple[Any, Label]:
    tool = SchedulesList(owner.app.schedule_keeper)
    told = await tool.run(tool.arguments(), context, services or Services())
    return json.loads(told.text), told.label


async def cancel(owner: Person, context: ToolContext, name: str, services: Services | None = None) -> Result:
    tool = ScheduleCancel(owner.app.schedule_keeper)
    return await tool.run(tool.arguments(id=name), context, services or Services())


async def test_a_schedule_is_made_listed_and_cancelled(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        context = at(owner)
        context = replace(context, session=replace(context.session, authors=("mel",)))
        made = json.loads((await create(owner, context, title="up", time_zone="Europe/Berlin")).text)
        # The same call again, after a crash, is the same schedule.
        assert json.loads((await create(owner, context, title="up", time_zone="Europe/Berlin")).text) == made
        shown, label = await listed(owner, context)
        assert (shown["note"], label) == (ONLY, PUBLIC)
        (one,) = shown["schedules"]
        assert one == {
            "id": made["id"],
            "kind": "reminder",
            "status": "active",
            "next_at": made["next_at"],
            "cron": None,
            "time_zone": "Europe/Berlin",
            "title": "up",
            "text": "stand up",
            "deliver_to": None,
            "created": one["created"],
        }
        kept = await owner.app.schedule_keeper.find("owner", PUBLIC, made["id"])
        assert (kept.by_agent, kept.asked_at, kept.asker, kept.authors) == (True, str(HOME), "owner", ("mel",))
        assert json.loads((await cancel(owner, context, made["id"])).text) == {"id": made["id"], "status": "cancelled"}
        assert (await listed(owner, context))[0]["schedules"] == []
        assert (await cancel(owner, context, made["id"])).text == str(NotFoundError())


async def test_a_moment_that_is_none_is_told_with_the_next_step(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        refused = await create(owner, at(owner), when="some day")
        assert refused.failed
        assert "names no moment; write `in 20 minutes`" in refused.text


async def test_a_schedule_is_known_where_its_label_flows_and_ended_where_nothing_more_was_read(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        low, high = at(owner, key="low"), at(owner, CONFIDENTIAL, "high")
        below, above = [json.loads((await create(owner, one)).text)["id"] for one in (low, high)]
        assert [one["id"] for one in (await listed(owner, low))[0]["schedules"]] == [below]
        assert {one["id"] for one in (await listed(owner, high))[0]["schedules"]} == {below, above}
        # Absent and above are one answer, byte for byte.
        unknown = await cancel(owner, low, "s_nothing")
        assert await cancel(owner, low, above) == unknown
        # That it is gone would tell those below what was read.
        refused = await cancel(owner, high, below)
        assert (refused.failed, refused.text) == (True, ABOVE)
        assert {one["id"] for one in (await listed(owner, high))[0]["schedules"]} == {below, above}
        # Another principal's is absent, too.
        assert (await cancel(owner, at(owner, CONFIDENTIAL, principal="mel"), above)).text == unknown.text
        assert not (await cancel(owner, high, above)).failed


async def test_what_a_schedule_says_is_as_trusted_as_what_made_it(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        made = json.loads((await create(owner, at(owner, DIRTY))).text)["id"]
        assert (await listed(owner, at(owner)))[1] == DIRTY
        careful = Services(lambda label: not label.untrusted)
        shown, label = await listed(owner, at(owner), careful)
        assert (shown["schedules"], label) == ([], PUBLIC)
        assert (await cancel(owner, at(owner), made, careful)).text == str(NotFoundError())


async def test_in_a_shared_chat_any_member_may_have_worded_it(tmp_path: Path) -> None:
    team = {"channel": "console", "chat": "team", "classification": "PUBLIC"}
    async with running(tmp_path, policy(chats={"team": team}), serve=False) as owner:
        place = Address("console", "team")
        there = at(owner, principal=of_chat(place), asker="owner", home=place, document=owner.app.gate.document)
        await create(owner, there)
        assert (await listed(owner, there))[1] == DIRTY


@pytest.mark.parametrize("read", [PUBLIC, CONFIDENTIAL, parse("CONFIDENTIAL~")], ids=str)
async def test_an_agent_begins_no_standing_work_unasked(tmp_path: Path, read: Label) -> None:
    """Law of the gate: whatever a session has read, a person decides about what goes on after its turn."""
    async with running(tmp_path, serve=False) as owner:
        gate = owner.app.gate
        calls = (
            Call("c1", "runs_start", {"goal": "tidy up"}),
            Call("c2", "schedule_create", GIVEN),
        )
        for call in calls:
            inside = gate.calls.prepare(standing(read), call).decision
            assert inside.verdict is Verdict.REQUIRE_APPROVAL
            assert "standing_work_is_approved" in inside.rules
            # What a person types is their own word.
            typed = replace(standing(join_all([read]).secrecy), turn="")
            assert gate.calls.prepare(typed, call).decision.verdict is Verdict.ALLOW
        cancelled = gate.calls.prepare(standing(read), Call("c3", "schedule_cancel", {"id": "x"})).decision
        assert (cancelled.verdict is Verdict.REQUIRE_APPROVAL) == read.untrusted


def taking(arguments: dict[str, str]) -> Tool:
    """Return the tool that takes some arguments, with nothing to keep what it makes."""
    keeper: Any = None
    return RunsStart() if "goal" in arguments else ScheduleCreate(keeper)


def test_whoever_hears_of_it_is_a_sink() -> None:
    named = document(
        principals={"owner": principal("console:owner"), "mel": principal("console:mel", clearance="PUBLIC")}
    )
    here = tool_context(document=named)
    for given in (GIVEN, {"goal": "tidy up"}):
        tool = taking(given)
        alone = tool.declare(tool.arguments.model_validate_json(json.dumps(given)), here)
        assert (alone.clearance, alone.tells, alone.asks, alone.consequential, alone.once) == (TOP, None, *[True] * 3)
        typed = tool_context(document=named, turn="")
        for to, others in (("mel", True), ("owner", False)):
            arguments = tool.arguments.model_validate_json(json.dumps({**given, "deliver_to": to}))
            told = tool.declare(arguments, typed)
            assert (told.asks, told.consequential) == (False, others)
            assert told.tells == Address("console", to)
            assert told.clearance == (PUBLIC if others else TOP)
        with pytest.raises(RefusedCallError, match="unknown recipient"):
            tool.declare(tool.arguments.model_validate_json(json.dumps({**given, "deliver_to": "nobody"})), here)


@pytest.mark.parametrize(
    "arguments, why",
    [
        ({**GIVEN, "overlap": "allow"}, FOR_RUNS),
        ({"goal": "x", "slot": "r_0123456789abcdef"}, RESERVED),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_asked(arguments: dict[str, str], why: str) -> None:
    tool = taking(arguments)
    with pytest.raises(RefusedCallError) as refused:
        tool.declare(tool.arguments.model_validate_json(json.dumps(arguments)), tool_context())
    assert str(refused.value) == why


async def test_a_run_that_an_agent_wants_begins_when_a_person_approves(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        asked = await owner.say(bang("runs_start", goal="tidy up", title="Tidying", slot="nightly", hours=1))
        assert "May `runs_start` run" in asked
        assert [state async for state in owner.app.store.sessions.states() if state.charter] == []
        (approval,) = await owner.app.store.approvals.of(owner.sid)
        shown = await owner.say(f"/approve {approval.id}")
        (run,) = [state async for state in owner.app.store.sessions.states() if state.charter]
        assert run.charter is not None
        assert (run.charter.slot, run.charter.title, run.charter.asked_at) == ("nightly", "Tidying", str(HOME))
        assert run.charter.deadline - run.created_at <= 3_600_000 < RunLimits().hours * 3_600_000
        assert f'"run_id": "{run.charter.run}", "session_id": "{run.sid}"' in shown


async def test_each_parameter_of_a_schedule_and_of_a_run_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        given = {"kind": "run", "when": "0 7 * * 1-5", "text": "Report.", "time_zone": "Europe/Berlin"}
        given |= {"title": "Morning", "deliver_to": "owner", "overlap": "allow"}
        made = json.loads((await create(owner, at(owner), **given)).text)
        kept = await owner.app.schedule_keeper.find("owner", PUBLIC, made["id"])
        assert (kept.kind.value, kept.cron, kept.text, kept.zone) == ("run", "0 7 * * 1-5", "Report.", "Europe/Berlin")
        assert (kept.title, kept.deliver_to, kept.overlap.value) == ("Morning", "owner", "allow")
        assert made["next_at"] == kept.next_at

        class Starting(Services):
            async def start_run(self, wish: RunWish) -> StartedRun:
                wishes.append(wish)
                return StartedRun("r_1", "s_1", 7)

        wishes, tool = list[RunWish](), RunsStart()
        wanted = {"goal": "tidy up", "type": "manual", "title": "Tidying", "slot": "nightly", "hours": 2}
        arguments = tool.arguments.model_validate_json(json.dumps({**wanted, "deliver_to": "owner"}))
        told = await tool.run(arguments, tool_context(document=owner.app.gate.document), Starting())
        assert json.loads(told.text) == {"run_id": "r_1", "session_id": "s_1", "deadline": 7, "status": "accepted"}
        (wish,) = wishes
        assert (wish.goal, wish.type.value, wish.title, wish.slot) == ("tidy up", "manual", "Tidying", "nightly")
        assert (wish.hours, wish.deliver_to) == (2, "owner")


async def test_no_place_is_one_constant_answer() -> None:
    tool = RunsStart()
    told = await tool.run(StartArguments(goal="x"), tool_context(), Services())
    assert told == Result("busy, try again in a moment", failed=True)


async def test_a_recipient_that_changed_since_hears_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        services = Services()
        services.leads_to = lambda _: False  # pyright: ignore[reportAttributeAccessIssue] - what a policy may do meanwhile
        tool = ScheduleCreate(owner.app.schedule_keeper)
        arguments = tool.arguments.model_validate_json(json.dumps({**GIVEN, "deliver_to": "owner"}))
        told = await tool.run(arguments, at(owner), services)
        assert (told.failed, told.text) == (True, scheduling.recipients.CHANGED)
        assert (await listed(owner, at(owner)))[0]["schedules"] == []
