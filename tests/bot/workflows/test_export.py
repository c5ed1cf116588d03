"""State files: written at every moment, taken in where a person changed them, and recovered where they broke."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import RequestError
from bot.files import locations
from bot.files.port import keep_text, text_of
from bot.operations.workflows.wording import workflow_lines
from bot.sessions.refs import CallRef
from bot.sessions.workflows.events import FileTakenIn, StateRecovered
from bot.store.redis_store import RedisStore
from bot.tools.workflow import telling
from bot.tools.workflow.state_folder import ABOVE, FOLDER, FOLDERLESS
from bot.workflows.errors import ConflictError, NewerSchemaError
from bot.workflows.export import BAK, BROKEN, FOREIGN, HANDOFF, NOT_WRITTEN, STATE
from bot.workflows.keeper import DecisionText
from bot.workflows.state_file import rendered
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, RESTRICTED
from tests.bot.workflows.desk import PUBLISHED, Desk
from tests.store.world import fresh

pytestmark = pytest.mark.anyio

LATER = "2099-01-01T00:00:00Z"


@pytest.fixture
def desk(store: RedisStore, tmp_path: Path) -> Desk:
    return Desk(store, tmp_path)


@pytest.fixture
async def midway(desk: Desk) -> Desk:
    """A workflow in the middle of its first step."""
    await desk.begin()
    await desk.step()
    await desk.checkpoint("depths", PUBLIC, "agent-output/quay/depths.csv")
    return desk


def files(desk: Desk) -> set[str]:
    return {path.name for path in desk.path().parent.iterdir() if not path.name.startswith(".")}


async def test_every_moment_is_written_through(midway: Desk) -> None:
    desk, who = midway, midway.actor()
    seen = [desk.path().read_text("utf-8")]

    async def wrote() -> None:
        seen.append(desk.path().read_text("utf-8"))
        assert seen[-1] == rendered((await desk.found()).document)
        assert desk.path(BAK).read_text("utf-8") == seen[-2]
        assert json.loads(seen[-1])["updated"] >= json.loads(seen[-2])["updated"]

    await desk.keeper.write_decision(who, "quay", 3, DecisionText("pump", "steam"), op=fresh())
    await wrote()
    await desk.keeper.add_finding(who, "quay", 4, "Too shallow.", op=fresh())
    await wrote()
    await desk.keeper.remove_finding(who, "quay", 5, "F1", op=fresh())
    await wrote()
    await desk.keeper.complete(who, "quay", 6, op=fresh())
    await wrote()
    assert files(desk) == {STATE, BAK}
    await desk.step("2")
    await wrote()
    await desk.keeper.complete(who, "quay", 8, op=fresh(), passed_by="ann")
    await wrote()
    assert files(desk) == {STATE, BAK, HANDOFF}
    lines = desk.path(HANDOFF).read_text("utf-8").splitlines()
    assert len(lines) < 60
    assert "- agent-output/quay/depths.csv" in lines


async def test_a_hand_off_that_was_not_written_is_written_with_the_next_moment(midway: Desk) -> None:
    desk = midway
    await desk.keeper.complete(desk.actor(), "quay", 3, op=fresh(), passed_by="ann")
    before = desk.path(HANDOFF).read_text("utf-8")
    desk.path(HANDOFF).unlink()
    await desk.step("2")
    assert desk.path(HANDOFF).read_text("utf-8") == before


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "  \n",
        "{",
        '{"schema_version": "3.0", "project": "qu',
        "[]",
        "null",
        "\ud83d",
        "[" * 100_000,
        '{"project": 3',
    ],
)
async def test_a_broken_file_is_written_anew_and_nothing_is_lost(midway: Desk, broken: str) -> None:
    desk, before = midway, await midway.found()
    desk.path().write_bytes(broken.encode("utf-8", "surrogatepass"))
    now = await desk.found()
    assert "was broken" in now.note
    assert now.document.steps == before.document.steps
    assert isinstance(now.events[-1].body, StateRecovered)
    assert desk.path().read_text("utf-8") == rendered(now.document)
    assert desk.path(BROKEN).read_bytes() == broken.encode("utf-8", "surrogatepass")
    again = await desk.found()
    assert (again.version, again.note) == (now.version, "")


async def test_a_truncated_file_meets_a_writer_that_is_told(midway: Desk) -> None:
    desk = midway
    text = desk.path().read_text("utf-8")
    desk.put(text[: len(text) // 2])
    with pytest.raises(ConflictError) as refused:
        await desk.keeper.checkpoint(desk.actor(), "quay", "currents", 3, op=fresh())
    assert isinstance(refused.value.since[0].body, StateRecovered)
    told = await desk.keeper.checkpoint(desk.actor(), "quay", "currents", 4, op=fresh())
    assert told.workflow.document.steps["1"].sub_step == "currents"


async def test_the_file_of_another_project_is_not_taken_in(midway: Desk) -> None:
    desk = midway
    await desk.begin(project="other")
    desk.put(desk.path(project="other").read_text("utf-8"))
    now = await desk.found()
    assert "it is of the project `other`" in now.note
    assert now.document.steps["1"].sub_step == "depths"
    assert desk.state()["project"] == "quay"


async def test_the_file_of_another_principal_is_left_as_it_is(midway: Desk, store: RedisStore) -> None:
    theirs = Desk(store, midway.root.parent)
    before = midway.path().read_text("utf-8")
    told = await theirs.begin()
    assert (told.exported, told.note) == ("", FOREIGN)
    assert midway.path().read_text("utf-8") == before
    assert (await midway.found()).note == ""
    assert (await theirs.found()).document.steps["1"].sub_step == ""


async def test_a_newer_file_is_refused_and_never_written_over(midway: Desk, store: RedisStore) -> None:
    desk = midway
    newer = json.dumps({**desk.state(), "schema_version": "3.1"})
    desk.put(newer)
    now = await desk.found()
    assert "is of schema 3.1, and this program knows 3.0; upgrade lockgate" in now.note
    told = await desk.checkpoint("currents")
    assert (told.exported, told.workflow.document.steps["1"].sub_step) == ("", "currents")
    assert desk.path().read_text("utf-8") == newer
    other = Desk(store, desk.root.parent)
    with pytest.raises(NewerSchemaError):
        await other.begin()
    with pytest.raises(NewerSchemaError):
        await other.keeper.imported(other.actor(), "quay", newer, "harbour", op=fresh())


async def test_a_persons_newer_edit_is_taken_in(midway: Desk) -> None:
    desk = midway
    changed: dict[str, Any] = desk.state() | {"branch": "works", "updated": LATER}
    changed["steps"]["1"]["sub_step"] = "currents"
    changed["steps"]["1"]["artifacts"].append("agent-output/quay/currents.csv")
    changed["decision_log"].append({"title": "pump", "choice": "steam", "step": "1"})
    changed["decisions"]["pump"] = "steam"
    desk.put(changed)
    now = await desk.found()
    assert now.note == "a change of the state file was taken in"
    step = now.document.steps["1"]
    assert (now.document.branch, step.sub_step, step.artifacts[-1]) == (
        *("works", "currents"),
        "agent-output/quay/currents.csv",
    )
    assert [(one.id, one.choice) for one in now.document.decision_log] == [("D1", "steam")]
    assert isinstance(now.events[-1].body, FileTakenIn)
    assert desk.state()["updated"] < LATER
    assert (await desk.found()).version == now.version == 4


async def test_an_edit_of_the_state_as_it_is_counts_without_another_time(midway: Desk) -> None:
    desk = midway
    desk.put(desk.state() | {"branch": "works"})
    assert (await desk.found()).document.branch == "works"


async def test_an_edit_takes_nothing_from_what_was_done_since_its_state(midway: Desk) -> None:
    """They had the file open while the work went on, and named a later time when they saved it."""
    desk = midway
    open_since: dict[str, Any] = desk.state()
    await desk.checkpoint("currents", PUBLIC, "agent-output/quay/currents.csv")
    decision = DecisionText("pump", "electric", "It is quiet.")
    await desk.keeper.write_decision(desk.actor(), "quay", 4, decision, op=fresh())
    desk.put(open_since | {"branch": "works", "updated": LATER})
    now = (await desk.found()).document
    assert (now.branch, now.steps["1"].sub_step, now.steps["1"].artifacts[-1]) == (
        *("works", "currents"),
        "agent-output/quay/currents.csv",
    )
    assert (dict(now.decisions), [one.choice for one in now.decision_log]) == ({"pump": "electric"}, ["electric"])


async def test_an_edit_ends_no_step_over_findings_that_its_state_did_not_have(midway: Desk) -> None:
    desk = midway
    open_since: dict[str, Any] = desk.state()
    await desk.keeper.add_finding(desk.actor(), "quay", 3, "Too shallow.", op=fresh())
    open_since["steps"]["1"] |= {"status": "complete", "completed": LATER}
    desk.put(open_since | {"updated": LATER})
    now = await desk.found()
    assert now.document.steps["1"].status.value == "in_progress"
    assert "did not count, as people are asked about that" in now.note


async def test_an_edit_of_an_older_state_is_kept_beside_and_told(midway: Desk) -> None:
    desk = midway
    older = desk.state() | {"branch": "works", "updated": "2020-01-01T00:00:00Z"}
    desk.put(older)
    now = await desk.found()
    assert "is older than the state" in now.note
    assert now.document.branch == ""
    assert json.loads(desk.path(BROKEN).read_text("utf-8"))["branch"] == "works"


async def test_a_file_of_an_older_schema_takes_nothing_away_that_it_cannot_say(midway: Desk) -> None:
    desk = midway
    decision = DecisionText("pump", "electric", "It is quiet.")
    await desk.keeper.write_decision(desk.actor(), "quay", 3, decision, op=fresh())
    older = {"schema_version": "2.0", "project": "quay", "updated": LATER, "branch": "works", "tool": {"name": "x"}}
    await desk.keeper.add_finding(desk.actor(), "quay", 4, "Too shallow.", op=fresh())
    desk.put(older | {"decisions": {"pump": "diesel"}, "steps": {"1": {"sub_step": "currents"}}})
    now = await desk.found()
    assert [(one.id, one.choice) for one in now.document.decision_log] == [("D1", "electric")]
    step = now.document.steps["1"]
    assert (now.document.branch, step.status.value, step.sub_step) == ("works", "in_progress", "currents")
    assert step.artifacts == ("agent-output/quay/depths.csv",)
    assert [one.id for one in now.document.open_findings] == ["F1"]
    assert now.note == "a change of the state file was taken in"
    log: Any = telling.whole(now)["decision_log"]
    told = [(one["id"], one["title"], one["choice"]) for one in log]
    assert told == [("D1", "pump", "electric"), ("", "pump", "diesel"), ("", "tool", '{"name": "x"}')]
    assert [line for line in workflow_lines(now, str) if line.startswith("Decision")] == [
        "Decision D1 (step 1): pump: electric",
        "Decision: pump: diesel",
        'Decision: tool: {"name": "x"}',
    ]


async def test_an_edit_meets_a_writer_that_did_not_see_it(midway: Desk) -> None:
    desk = midway
    desk.put(desk.state() | {"branch": "works", "updated": LATER})
    with pytest.raises(ConflictError) as refused:
        await desk.keeper.checkpoint(desk.actor(), "quay", "currents", 3, op=fresh())
    assert isinstance(refused.value.since[0].body, FileTakenIn)
    told = await desk.keeper.checkpoint(desk.actor(), "quay", "currents", 4, op=fresh())
    assert (told.workflow.document.branch, told.workflow.document.steps["1"].sub_step) == ("works", "currents")


async def test_an_edit_takes_nothing_from_what_others_wrote_above(midway: Desk) -> None:
    desk = midway
    await desk.checkpoint("currents", INTERNAL)
    desk.put(desk.state() | {"branch": "works", "updated": LATER})
    await desk.found()
    above = (await desk.found(INTERNAL)).document
    assert (above.branch, above.steps["1"].sub_step) == ("works", "currents")


async def test_no_edit_of_a_file_passes_a_gate_or_removes_a_finding(midway: Desk) -> None:
    desk = midway
    await desk.keeper.add_finding(desk.actor(), "quay", 3, "Too shallow.", op=fresh())
    changed: dict[str, Any] = desk.state() | {
        "open_findings": list[object](),
        "updated": LATER,
        "branch": "works",
        "current_step": "3",
    }
    changed["steps"]["2"]["status"] = "complete"
    changed["review_audit"] = {"2": {"passed_by": "ann"}}
    desk.put(changed)
    now = await desk.found()
    assert "the gate of step 2 and changes of findings did not count" in now.note
    document = now.document
    assert (document.branch, document.steps["2"].status.value, document.current_step) == ("works", "pending", "1")
    assert [one.id for one in document.open_findings] == ["F1"]
    assert not document.review_audit


@pytest.mark.parametrize("taint", [PUBLIC, DIRTY])
async def test_what_a_session_wrote_over_a_state_file_is_untrusted(midway: Desk, taint: Label) -> None:
    desk = midway
    before = await desk.found()
    changed = json.dumps(desk.state() | {"branch": "theirs", "updated": LATER})
    place = locations.shared(FOLDER, PUBLIC, "quay", STATE)
    await asyncio.to_thread(keep_text, desk.files, place, changed, taint, refs=(CallRef("c1", "s1"),))
    now = await desk.found()
    assert (now.version, now.document.branch, now.note) == (before.version, "", "")
    assert desk.state()["branch"] == ""
    assert (await desk.found(DIRTY)).document.branch == "theirs"
    # Once it is written anew, what a person changes counts again.
    desk.put(desk.state() | {"branch": "works", "updated": LATER})
    assert (await desk.found()).document.branch == "works"


async def test_what_is_untrusted_is_exported_apart(midway: Desk) -> None:
    desk, text = midway, midway.path().read_text("utf-8")
    told = await desk.checkpoint("currents", DIRTY)
    assert told.exported == "agent-output/quay/untrusted/00-session-state.json"
    assert desk.path().read_text("utf-8") == text
    assert json.loads(desk.path(f"untrusted/{STATE}").read_text("utf-8"))["steps"]["1"]["sub_step"] == "currents"


async def test_what_is_above_the_floor_is_exported_in_a_tree_of_its_own(midway: Desk) -> None:
    desk, text = midway, midway.path().read_text("utf-8")
    told = await desk.checkpoint("currents", CONFIDENTIAL)
    assert told.exported == "agent-output/quay/00-session-state.json"
    assert desk.path().read_text("utf-8") == text
    place = locations.shared(FOLDER, PUBLIC, "quay", STATE)
    found = await asyncio.to_thread(desk.files.find, place, CONFIDENTIAL)
    assert found is not None
    assert found.label == CONFIDENTIAL
    assert json.loads(await asyncio.to_thread(text_of, desk.files, found.place))["steps"]["1"]["sub_step"] == "currents"
    assert await asyncio.to_thread(desk.files.find, place, PUBLIC) != found


async def test_a_workflow_above_its_folder_exports_nothing_and_says_so(midway: Desk) -> None:
    desk = midway
    before = sorted(path for path in desk.root.rglob("*") if path.is_file())
    told = await desk.checkpoint("currents", RESTRICTED)
    assert (told.exported, told.note) == ("", ABOVE)
    assert sorted(path for path in desk.root.rglob("*") if path.is_file()) == before
    assert told.workflow.document.steps["1"].sub_step == "currents"


async def test_without_a_folder_nothing_is_exported_and_that_is_said(store: RedisStore, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path, None)
    told = await desk.begin()
    assert (told.exported, told.note) == ("", FOLDERLESS)
    assert not desk.root.exists()


async def test_an_unwritable_folder_is_told_and_written_later(midway: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk = midway
    folder = desk.path().parent
    moved = folder.with_name("away")
    folder.rename(moved)
    folder.write_text("in the way")
    for sub_step in ("currents", "report"):
        told = await desk.checkpoint(sub_step)
        assert (told.exported, told.note) == ("", NOT_WRITTEN)
        assert told.workflow.document.steps["1"].sub_step == sub_step
    assert caplog.text.count("cannot be written") == 1
    folder.unlink()
    moved.rename(folder)
    now = await desk.found()
    assert now.note == ""
    assert desk.state()["steps"]["1"]["sub_step"] == "report"


async def test_a_broken_file_that_cannot_be_replaced_is_noted_once(midway: Desk) -> None:
    desk = midway
    desk.put("{")
    desk.path(BAK).unlink()
    (desk.path(BAK) / "in the way").mkdir(parents=True)
    for _ in range(3):
        now = await desk.found()
        assert (now.note, now.version) == (NOT_WRITTEN, 4)
        await desk.wait()
        assert isinstance(now.events[-1].body, StateRecovered)


async def test_a_folder_with_a_floor_takes_edits_at_its_floor(store: RedisStore, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path, {**PUBLISHED, "floor": "INTERNAL"})
    told = await desk.begin()
    assert told.exported
    desk.put(desk.state() | {"branch": "works", "updated": LATER})
    now = await desk.found()
    assert (now.version, now.document.branch, now.note) == (1, "", "")
    assert (await desk.found(INTERNAL)).document.branch == "works"
    # What is below the floor does not write over what is at it.
    await desk.step()
    assert desk.state()["branch"] == "works"
    assert desk.state()["steps"]["1"]["status"] == "in_progress"


async def test_a_file_that_is_there_first_begins_the_workflow(desk: Desk) -> None:
    desk.put({"schema_version": "2.0", "project": "quay", "steps": {"1": {"status": "complete"}}, "current_step": 2})
    told = await desk.begin()
    assert "was taken in" in told.note
    document = told.workflow.document
    assert (document.steps["1"].status.value, document.current_step) == ("complete", "2")
    assert desk.state()["schema_version"] == "3.0"


@pytest.mark.parametrize("bak", [None, "", "{}", json.dumps({"project": "other"})])
async def test_a_broken_file_without_a_copy_begins_from_nothing(desk: Desk, bak: str | None) -> None:
    desk.put("{")
    if bak is not None:
        desk.put(bak, BAK)
    told = await desk.begin()
    assert isinstance(told.workflow.events[-1].body, StateRecovered)
    assert {step.status.value for step in told.workflow.document.steps.values()} == {"pending"}
    assert desk.path(BROKEN).read_text("utf-8") == "{"


async def test_a_broken_file_begins_from_its_copy(desk: Desk) -> None:
    desk.put("")
    desk.put({"project": "quay", "steps": {"1": {"status": "in_progress", "sub_step": "depths"}}}, BAK)
    told = await desk.begin()
    assert [type(event.body) for event in told.workflow.events[1:]] == [StateRecovered, FileTakenIn]
    assert told.workflow.document.steps["1"].sub_step == "depths"
    assert told.note.endswith(f"{BAK} was taken in")


async def test_a_state_is_imported(desk: Desk, store: RedisStore) -> None:
    await desk.begin()
    await desk.step()
    await desk.checkpoint("depths")
    text = desk.path().read_text("utf-8")
    other = Desk(store, desk.root.parent / "other")
    old: dict[str, Any] = json.loads(text) | {"workflow": ""}
    told = await other.keeper.imported(other.actor(), "quay", json.dumps(old), "harbour", op="i1")
    assert told.workflow.document.steps == (await desk.found()).document.steps
    with pytest.raises(RequestError, match="and the workflow of"):
        await other.keeper.imported(other.actor(), "quay", json.dumps(old), "harbour", op=fresh())
    newer = json.dumps(old | {"updated": LATER, "branch": "works"})
    told = await other.keeper.imported(other.actor(), "quay", newer, "harbour", op=fresh())
    assert (told.workflow.document.branch, told.workflow.version) == ("works", 3)
    same = await other.keeper.imported(other.actor(), "quay", rendered(told.workflow.document), "harbour", op=fresh())
    assert same.workflow.version == 3
    with pytest.raises(RequestError, match="that is no state of workflow `lock`: it is of the project `quay`"):
        await other.keeper.imported(other.actor(), "lock", text, "harbour", op=fresh())


async def test_an_agent_imports_no_gate_that_was_passed(desk: Desk) -> None:
    text = json.dumps({"project": "quay", "steps": {"1": {"status": "done"}, "2": {"status": "done"}}})
    agent = desk.actor(by_agent=True)
    told = await desk.keeper.imported(agent, "quay", text, "harbour", op=fresh())
    assert [told.workflow.document.steps[one].status.value for one in "12"] == ["complete", "pending"]
    person = await desk.keeper.imported(desk.actor(), "lock", text.replace("quay", "lock"), "harbour", op=fresh())
    assert [person.workflow.document.steps[one].status.value for one in "12"] == ["complete", "complete"]


async def test_those_who_read_below_what_asks_leave_the_file_alone(midway: Desk) -> None:
    desk = midway
    desk.put(desk.state() | {"branch": "works", "updated": LATER})
    # A session that has read more looks at no file below it: what it does would be told there.
    await desk.keeper.found(desk.who, "quay", CONFIDENTIAL)
    assert desk.state()["updated"] == LATER
    await desk.keeper.found(desk.who, "quay", CONFIDENTIAL, by=PUBLIC)
    assert desk.state()["updated"] < LATER
