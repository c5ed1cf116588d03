"""Workflows as they are begun, carried on, decided and resumed, on a real store and real files."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import FullError, NotFoundError, RequestError
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowView
from bot.sessions.workflows.document import StepStatus
from bot.sessions.workflows.events import (
    NewWorkflowEvent,
    StateRecovered,
    StepStarted,
    SubStepDone,
    WorkflowStarted,
)
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT
from bot.workflows.errors import ConflictError, ContextBudgetError, GateError, NotReviewerError
from bot.workflows.keeper import MOST_ARTIFACTS, PROJECT, DecisionText
from bot.workflows.views import ResumeBranch
from policy.labels import PUBLIC
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL
from tests.bot.workflows.desk import HARBOUR, Desk
from tests.store.world import fresh

pytestmark = pytest.mark.anyio


@pytest.fixture
def desk(store: RedisStore, tmp_path: Path) -> Desk:
    return Desk(store, tmp_path)


async def test_a_workflow_goes_from_its_beginning_to_its_end(desk: Desk) -> None:
    begun = await desk.begin()
    assert (begun.workflow.version, begun.exported) == (1, "agent-output/quay/00-session-state.json")
    assert {step.status for step in begun.workflow.document.steps.values()} == {StepStatus.PENDING}
    await desk.step()
    await desk.checkpoint("depths", PUBLIC, "agent-output/quay/depths.csv")
    assert desk.state()["steps"]["1"]["sub_step"] == "depths"
    assert desk.state()["steps"]["1"]["artifacts"] == ["agent-output/quay/depths.csv"]
    done = await desk.keeper.complete(desk.actor(), "quay", 3, op=fresh())
    first = done.workflow.document.steps["1"]
    assert (first.status, first.sub_step, done.workflow.document.current_step) == (StepStatus.COMPLETE, "", "2")
    assert first.started <= first.completed
    assert desk.state()["steps"]["1"]["status"] == "complete"


async def test_a_project_begins_once_for_those_who_know_of_it(desk: Desk) -> None:
    began = await desk.keeper.start(desk.actor(), "quay", "harbour", op="first")
    again = await desk.keeper.start(desk.actor(), "quay", "harbour", op="first")
    assert again.workflow == began.workflow
    with pytest.raises(ConflictError, match="is there already") as refused:
        await desk.begin(INTERNAL)
    assert refused.value.workflow.version == 1
    # Another principal's workflow of that name is another one.
    other = Desk(desk.store, desk.root.parent)
    assert (await other.begin()).workflow.version == 1


@pytest.mark.parametrize("project", ["", ".hidden", "a/b", "x" * 65, "a b", "naïve", "..", "a\n"])
async def test_a_project_has_a_plain_name(desk: Desk, project: str) -> None:
    with pytest.raises(RequestError) as refused:
        await desk.begin(project=project)
    assert str(refused.value) == PROJECT
    with pytest.raises(NotFoundError):
        await desk.found(project=project)


async def test_what_does_not_exist_is_named_with_what_does(desk: Desk) -> None:
    with pytest.raises(RequestError, match="there is no workflow `harbor`") as refused:
        await desk.keeper.start(desk.actor(), "quay", "harbor", op=fresh())
    assert refused.value.next_step == "there are harbour"
    await desk.begin()
    with pytest.raises(RequestError, match=r"there is no step `9`, known are `1`, `2`, `2_5`, `3`$"):
        await desk.step("9")
    with pytest.raises(RequestError, match="step 1 is pending, not in progress"):
        await desk.checkpoint("depths")
    await desk.step()
    await desk.checkpoint("currents")
    for wrong in ("depths", "currents", "dig"):
        with pytest.raises(RequestError, match="that are left: report"):
            await desk.checkpoint(wrong)
    await desk.checkpoint("report")
    with pytest.raises(RequestError, match="left: none"):
        await desk.checkpoint("report")
    with pytest.raises(RequestError, match="at most 50 artifacts"):
        await _too_many(desk)


async def _too_many(desk: Desk) -> None:
    await desk.keeper.begin_step(desk.actor(), "quay", "1", 4, op=fresh(), again=True)
    many = ("a",) * (MOST_ARTIFACTS + 1)
    await desk.keeper.checkpoint(desk.actor(), "quay", "depths", 5, op=fresh(), artifacts=many)


async def test_a_step_reads_no_more_files_than_its_budget(desk: Desk) -> None:
    await desk.begin()
    start = desk.keeper.begin_step
    with pytest.raises(ContextBudgetError, match="may read 2 files at its start, and these are 3") as refused:
        await start(desk.actor(), "quay", "1", 1, op=fresh(), files=("a", "b", "c"))
    assert refused.value.code == "context_budget"
    told = await start(desk.actor(), "quay", "1", 1, op=fresh(), files=("a", "b"))
    assert told.workflow.document.steps["1"].context_files_used == ("a", "b")


async def test_a_step_that_began_begins_anew_only_where_that_is_said(desk: Desk) -> None:
    await desk.begin()
    await desk.step()
    await desk.checkpoint("depths")
    with pytest.raises(RequestError, match="step 1 is in progress"):
        await desk.step()
    await desk.keeper.complete(desk.actor(), "quay", 3, op=fresh())
    with pytest.raises(RequestError, match="step 1 is complete"):
        await desk.step()
    again = await desk.keeper.begin_step(desk.actor(), "quay", "1", 4, op=fresh(), again=True)
    assert again.workflow.document.steps["1"].status is StepStatus.IN_PROGRESS
    # What the first run left is in the log for ever.
    assert [type(event.body) for event in again.workflow.events][1:3] == [StepStarted, SubStepDone]


async def test_of_two_writers_the_loser_is_told_what_changed(desk: Desk) -> None:
    await desk.begin()
    await desk.step()
    mine, theirs = desk.actor(), desk.actor(by_agent=True)
    await desk.keeper.checkpoint(theirs, "quay", "depths", 2, op="theirs")
    with pytest.raises(ConflictError) as refused:
        await desk.keeper.checkpoint(mine, "quay", "depths", 2, op="mine")
    assert [event.body for event in refused.value.since] == [SubStepDone("1", "depths")]
    assert (refused.value.code, refused.value.workflow.version) == ("conflict", 3)
    # The winner's call, told again much later, is the same call.
    await desk.wait()
    again = await desk.keeper.checkpoint(theirs, "quay", "depths", 2, op="theirs")
    assert again.workflow.version == 3


async def test_a_write_of_those_above_changes_nothing_below(desk: Desk) -> None:
    await desk.begin()
    before = await desk.found()
    await desk.step("1", CONFIDENTIAL)
    await desk.checkpoint("depths", CONFIDENTIAL)
    dirty = await desk.keeper.begin_step(desk.actor(DIRTY), "quay", "1", 1, op=fresh())
    assert dirty.workflow.label == DIRTY
    assert await desk.found() == before
    assert (await desk.step()).workflow.version == 2
    above = await desk.found(CONFIDENTIAL)
    assert (above.version, above.label, above.document.steps["1"].sub_step) == (4, CONFIDENTIAL, "")


async def test_what_is_written_has_the_labels_of_what_was_seen(desk: Desk) -> None:
    await desk.begin()
    await desk.step("1", INTERNAL)
    # A person who reads at a higher label than they write.
    person = desk.actor(PUBLIC, CONFIDENTIAL)
    told = await desk.keeper.skip(person, "quay", "2_5", 2, op=fresh())
    assert told.workflow.events[-1].label == INTERNAL
    assert (await desk.found()).version == 1


async def test_what_would_not_be_shown_here_is_not_written_here(desk: Desk) -> None:
    await desk.begin()
    with pytest.raises(RequestError, match="a text written here is CONFIDENTIAL"):
        await desk.keeper.skip(desk.actor(CONFIDENTIAL, INTERNAL), "quay", "2_5", 1, op=fresh())


async def test_decisions_are_numbered_and_the_newest_choice_counts(desk: Desk) -> None:
    await desk.begin()
    decide = desk.keeper.write_decision
    await decide(desk.actor(), "quay", 1, DecisionText("pump", "steam", "cheap"), op=fresh())
    told = await decide(desk.actor(), "quay", 2, DecisionText("pump", "electric"), op=fresh())
    document = told.workflow.document
    assert [(one.id, one.step, one.choice) for one in document.decision_log] == [
        ("D1", "1", "steam"),
        ("D2", "1", "electric"),
    ]
    assert document.decisions == {"pump": "electric"}
    for wrong in (DecisionText("", "x"), DecisionText("x" * 201, "x"), DecisionText("a\u202eb", "x")):
        with pytest.raises(RequestError):
            await decide(desk.actor(), "quay", 3, wrong, op=fresh())


async def test_findings_are_for_the_reviewer_and_for_people(desk: Desk) -> None:
    await desk.begin()
    agent = desk.actor(by_agent=True, agent="worker")
    for step, who in (("1", "a person"), ("2", "the agent `checker` or a person")):
        now = await desk.step(step)
        with pytest.raises(NotReviewerError, match=who):
            await desk.keeper.add_finding(agent, "quay", now.workflow.version, "Too shallow.", op=fresh())
    checker = desk.actor(by_agent=True, agent="checker")
    await desk.keeper.add_finding(checker, "quay", 3, "Too shallow.", op=fresh())
    told = await desk.keeper.add_finding(desk.actor(), "quay", 4, "Too narrow.", op=fresh())
    assert [(one.id, one.step) for one in told.workflow.document.open_findings] == [("F1", "2"), ("F2", "2")]
    with pytest.raises(NotReviewerError):
        await desk.keeper.remove_finding(agent, "quay", 5, "F1", op=fresh())
    told = await desk.keeper.remove_finding(checker, "quay", 5, "F1", op=fresh())
    assert [one.id for one in told.workflow.document.open_findings] == ["F2"]
    with pytest.raises(RequestError, match="open findings: F2"):
        await desk.keeper.remove_finding(checker, "quay", 6, "F1", op=fresh())
    # Ids are not used twice.
    told = await desk.keeper.add_finding(desk.actor(), "quay", 6, "Too deep.", op=fresh())
    assert [one.id for one in told.workflow.document.open_findings] == ["F2", "F3"]


async def test_a_gate_and_open_findings_need_a_person(desk: Desk) -> None:
    await desk.begin()
    await desk.step("1")
    await desk.keeper.add_finding(desk.actor(), "quay", 2, "Too shallow.", op=fresh())
    with pytest.raises(GateError, match="open findings: F1"):
        await desk.keeper.complete(desk.actor(), "quay", 3, op=fresh())
    passed = await desk.keeper.complete(desk.actor(), "quay", 3, op=fresh(), passed_by="ann")
    assert passed.workflow.document.review_audit["1"]["passed_by"] == "ann"  # pyright: ignore[reportIndexIssue, reportArgumentType, reportOptionalSubscript, reportCallIssue]
    await desk.keeper.remove_finding(desk.actor(), "quay", 4, "F1", op=fresh())
    await desk.step("2")
    with pytest.raises(GateError, match="step 2 has a gate"):
        await desk.keeper.complete(desk.actor(), "quay", 6, op=fresh())
    assert (await desk.found()).document.steps["2"].status is StepStatus.IN_PROGRESS


async def test_an_agent_skips_what_is_optional_and_a_person_what_is_open(desk: Desk) -> None:
    await desk.begin()
    agent = desk.actor(by_agent=True)
    with pytest.raises(GateError, match="step 1 is not optional"):
        await desk.keeper.skip(agent, "quay", "1", 1, op=fresh())
    await desk.keeper.skip(agent, "quay", "2_5", 1, op=fresh())
    told = await desk.keeper.skip(desk.actor(), "quay", "1", 2, op=fresh())
    assert told.workflow.document.current_step == "2"
    with pytest.raises(RequestError, match="step 1 is skipped"):
        await desk.keeper.skip(desk.actor(), "quay", "1", 3, op=fresh())


async def test_work_goes_on_where_it_stopped(desk: Desk) -> None:
    await desk.begin()

    async def resumed(step: str = "") -> tuple[ResumeBranch, str, str, str, tuple[str, ...]]:
        found = await desk.keeper.resume(desk.who, "quay", PUBLIC, step)
        return found.branch, found.step.id, found.sub_step, found.done, found.open_before

    assert await resumed() == (ResumeBranch.FRESH, "1", "depths", "", ())
    await desk.step()
    assert await resumed() == (ResumeBranch.CONTINUE, "1", "depths", "", ())
    await desk.checkpoint("depths")
    assert await resumed() == (ResumeBranch.CONTINUE, "1", "currents", "depths", ())
    assert await resumed("3") == (ResumeBranch.START, "3", "dig", "", ("1", "2"))
    await desk.checkpoint("report")
    assert await resumed() == (ResumeBranch.CONTINUE, "1", "", "report", ())
    await desk.keeper.complete(desk.actor(), "quay", 4, op=fresh())
    assert await resumed("1") == (ResumeBranch.RERUN, "1", "", "", ())
    assert await resumed() == (ResumeBranch.START, "2", "draft", "", ())
    await desk.keeper.skip(desk.actor(), "quay", "2", 5, op=fresh())
    assert await resumed("2") == (ResumeBranch.NEXT, "2_5", "", "", ())
    with pytest.raises(RequestError, match="there is no step `8`"):
        await resumed("8")


async def test_workflows_are_listed_the_newest_change_first(desk: Desk) -> None:
    for name in ("one", "two", "three"):
        await desk.begin(project=name)
    await desk.begin(CONFIDENTIAL, project="secret")
    await desk.keeper.begin_step(desk.actor(), "one", "1", 1, op=fresh())
    names = [one.document.project for one in await desk.keeper.listed(desk.who, PUBLIC)]
    assert sorted(names) == ["one", "three", "two"]
    assert names[0] == "one"
    assert [one.document.project for one in await desk.keeper.listed(desk.who, PUBLIC, most=1)] == ["one"]
    assert [one.document.project for one in await desk.keeper.interrupted(desk.who, PUBLIC)] == ["one"]
    assert len(await desk.keeper.listed(desk.who, CONFIDENTIAL)) == 4


async def test_a_project_of_which_only_later_events_are_known_is_as_none(desk: Desk) -> None:
    await desk.begin(CONFIDENTIAL)
    place = WorkflowPlace(desk.who, "quay", PUBLIC)
    event = NewWorkflowEvent(StateRecovered("x"), "ann")
    assert await desk.store.workflows.advance(place, WorkflowView(PUBLIC, {}), (event,), ())
    assert await desk.keeper.listed(desk.who, PUBLIC) == ()
    with pytest.raises(NotFoundError):
        await desk.found()


async def test_two_beginnings_are_one_workflow_to_those_who_know_of_both(desk: Desk) -> None:
    await desk.begin(CONFIDENTIAL)
    await desk.step("1", CONFIDENTIAL)
    other = replace(HARBOUR, steps=(*HARBOUR.steps, replace(HARBOUR.steps[0], id="9", name="Feast")))
    desk.keeper.definitions = {"harbour": other}
    await desk.begin()
    assert (await desk.found()).document.steps["1"].status is StepStatus.PENDING
    above = await desk.found(CONFIDENTIAL)
    assert list(above.document.steps) == ["1", "2", "2_5", "3", "9"]
    assert above.document.steps["1"].status is StepStatus.IN_PROGRESS


async def test_a_log_has_an_end(store: RedisStore, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    await desk.begin()
    place, view = WorkflowPlace(desk.who, "quay", PUBLIC), WorkflowView(PUBLIC, {PUBLIC: 1})
    many = tuple(NewWorkflowEvent(StateRecovered("x"), "ann") for _ in range(4999))
    assert await store.workflows.advance(place, view, many, ())
    with pytest.raises(FullError, match="events as may be are kept of this workflow"):
        await desk.step()
    assert (await desk.begin(project="other")).workflow.version == 1


async def test_changes_are_in_the_audit_without_a_word_of_them(desk: Desk) -> None:
    await desk.begin(INTERNAL)
    rows = [one.body for one in await desk.store.audit.records(AUDIT, limit=10_000) if one.body.get("do") == "started"]
    assert {"do": "started", "principal": desk.who, "workflow": "quay", "label": "INTERNAL"} in rows


async def test_an_event_tells_who_did_it_and_where(desk: Desk) -> None:
    actor = desk.actor(by_agent=True, sid="s1")
    told = await desk.keeper.start(actor, "quay", "harbour", op="o1", branch="main")
    (event,) = told.workflow.events
    assert (event.actor, event.by_agent, event.sid, event.call) == ("ann", True, "s1", "o1")
    assert event.body == WorkflowStarted(HARBOUR, "main")
    assert (told.workflow.touched_by_sid, told.workflow.touched_at) == ("s1", event.at)
