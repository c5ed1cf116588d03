"""State files that sessions and people wrote to harm: what a reader of another label sees is as if they had not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import RequestError
from bot.files import locations
from bot.files.port import keep_text, text_of
from bot.sessions.audit import AuditRow
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowView
from bot.sessions.refs import CallRef
from bot.sessions.workflows.document import StepStatus
from bot.sessions.workflows.events import DecisionMade, FileTakenIn, NewWorkflowEvent, StateRecovered
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT
from bot.store.workflows.logs import RedisWorkflows
from bot.tools.workflow.state_folder import FOLDER, StateFolder
from bot.workflows.export import BROKEN, FULL, HANDOFF, STATE, WriteThrough
from bot.workflows.folding import fold
from bot.workflows.keeper import WorkflowKeeper
from bot.workflows.state_file import document_object
from bot.workflows.views import seen_of
from policy.labels import PUBLIC, Label
from tests.bot.kit import DIRTY, INTERNAL
from tests.bot.workflows.desk import HARBOUR, Desk
from tests.store.world import fresh

pytestmark = pytest.mark.anyio


@pytest.fixture
def desk(store: RedisStore, tmp_path: Path) -> Desk:
    return Desk(store, tmp_path)


async def overwrite(desk: Desk, text: str, label: Label, *folders: str) -> None:
    """Write over a state file as a session's `write_file` does."""
    place = locations.shared(FOLDER, desk.policy.folders[FOLDER].label, "quay", *folders, STATE)
    await asyncio.to_thread(keep_text, desk.files, place, text, label, refs=(CallRef("c", "s"),))


async def test_the_same_bytes_at_another_label_are_another_change(desk: Desk) -> None:
    await desk.begin()
    text = json.dumps(desk.state() | {"branch": "mine"})
    await overwrite(desk, text, DIRTY)
    await desk.found()
    assert (await desk.found()).document.branch == ""
    desk.put(text)
    found = await desk.found()
    assert (found.document.branch, found.version) == ("mine", 2)


async def test_a_change_that_was_made_before_counts_once_more(desk: Desk) -> None:
    await desk.begin()
    for branch in ("one", "two", "one"):
        desk.put(desk.state() | {"branch": branch, "updated": "2099-01-01T00:00:00Z"})
        assert (await desk.found()).document.branch == branch


@pytest.mark.parametrize("who", ["newer", "other"])
async def test_what_anybody_wrote_is_in_nobodys_way(desk: Desk, who: str) -> None:
    newer = '{"schema_version": "9.0"}'
    await overwrite(desk, newer, DIRTY)
    begun = await desk.begin()
    assert (begun.exported, begun.note, desk.path(BROKEN).read_text("utf-8")) == (f"{FOLDER}/quay/{STATE}", "", newer)
    await overwrite(desk, newer if who == "newer" else json.dumps(desk.state() | {"workflow": "wf_other"}), DIRTY)
    found = await desk.found()
    assert (found.note, found.version, desk.state()["schema_version"]) == ("", 1, "3.0")
    # The same bytes at once again are noted once.
    assert (await desk.found(DIRTY)).version == (2 if who == "newer" else 3)


async def test_a_folder_that_anybody_named_first_is_no_ones(desk: Desk) -> None:
    await desk.begin(DIRTY)
    await desk.begin()
    place = locations.shared(FOLDER, desk.policy.folders[FOLDER].label, "quay", STATE)
    assert [found.label for found in await asyncio.to_thread(desk.files.every, place, DIRTY)] == [PUBLIC]
    desk.put(desk.state() | {"branch": "mine"})
    assert (await desk.found()).document.branch == "mine"


async def test_a_session_ends_no_step_by_a_file_that_it_does_not_end_by_its_tool(desk: Desk) -> None:
    await desk.begin(DIRTY)
    await desk.step("1", DIRTY)
    me = desk.actor(DIRTY)
    await desk.keeper.add_finding(me, "quay", 2, "Too shallow.", op=fresh())
    await desk.keeper.skip(me, "quay", "2", 3, op=fresh())

    async def ends(**statuses: str) -> str:
        place = locations.shared(FOLDER, desk.policy.folders[FOLDER].label, "quay", "untrusted", STATE)
        state: dict[str, Any] = json.loads(await asyncio.to_thread(text_of, desk.files, place))
        for step, status in statuses.items():
            state["steps"][step.removeprefix("s")]["status"] = status
        return json.dumps(state)

    await overwrite(desk, await ends(s1="complete", s2="complete", s2_5="skipped", s3="skipped"), DIRTY, "untrusted")
    found = await desk.found(DIRTY)
    assert [step.status for step in found.document.steps.values()] == [
        StepStatus.IN_PROGRESS,
        StepStatus.SKIPPED,
        StepStatus.SKIPPED,
        StepStatus.PENDING,
    ]
    assert "the end of step 1 and the gate of step 2 and the end of step 3 did not count" in found.note


@pytest.mark.parametrize(
    "value, why",
    [
        ("[" * 40 + "]" * 40, "levels deep"),
        ("[" * 940 + "]" * 940, "levels deep"),
        ('"\\ud800"', "half a character"),
        ("NaN", "no JSON"),
        ("1e999", "no JSON"),
    ],
)
async def test_what_cannot_be_written_again_is_not_taken_in(desk: Desk, value: str, why: str) -> None:
    await desk.begin()
    desk.put(desk.path().read_text("utf-8").replace('"decisions": {}', f'"decisions": {{"a": {value}}}'))
    found = await desk.found()
    assert (why in found.note, type(found.events[-1].body)) == (True, StateRecovered)
    assert desk.state()["decisions"] == {}


async def test_a_change_has_an_end(desk: Desk) -> None:
    await desk.begin()
    large = json.dumps(desk.state() | {"decisions": {"a": "x" * 1_000_001}})
    desk.put(large)
    found = await desk.found()
    assert "more than a million characters" in found.note
    assert not any(isinstance(event.body, FileTakenIn) for event in found.events)
    late = json.dumps(json.loads(large) | {"updated": "2099-01-01T00:00:00Z"})
    with pytest.raises(RequestError, match="million"):
        await desk.keeper.imported(desk.actor(), "quay", late, "harbour", op=fresh())


async def test_a_change_of_a_state_of_the_same_moment_takes_nothing_back(desk: Desk) -> None:
    """Events of one millisecond, or of a clock that went back, do not make states of one time."""
    await desk.begin()
    old = desk.state()
    place, view = WorkflowPlace(desk.who, "quay", PUBLIC), WorkflowView(PUBLIC, seen_of((await desk.found()).events))
    events = tuple(NewWorkflowEvent(DecisionMade("1", f"t{n}", "c"), "ann", call=f"{n}") for n in range(50))
    await desk.store.workflows.advance(place, view, events, ())
    found = await desk.found()
    times = {event.at for event in found.events}
    assert (len(times) < len(found.events), desk.state()["updated"] > old["updated"]) == (True, True)
    # The ninth of these events made a state of its own time, which is edited here.
    ninth = fold(desk.who, "quay", found.events[:10])
    assert ninth is not None
    desk.put(document_object(ninth.document) | {"branch": "mine"})
    after = await desk.found()
    assert (len(after.document.decision_log), after.document.branch) == (50, "")
    assert "is older than the state" in after.note


async def test_a_full_log_is_read_whatever_its_file_is(store: RedisStore, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    kept = RedisWorkflows(store._shared, events=2)  # pyright: ignore[reportPrivateUsage] - a smaller log
    keeper = WorkflowKeeper(
        kept, WriteThrough(kept, StateFolder(desk.files, lambda: desk.policy)), {"harbour": HARBOUR}
    )
    await keeper.start(desk.actor(), "quay", "harbour", op=fresh())
    await keeper.begin_step(desk.actor(), "quay", "1", 1, op=fresh())
    desk.put("garbage")
    found = await keeper.found(desk.who, "quay", PUBLIC)
    assert (found.version, found.note, desk.path(BROKEN).read_text("utf-8")) == (2, FULL, "garbage")
    assert desk.state()["current_step"] == "1"


async def test_what_stands_in_a_file_makes_no_lines_of_a_hand_off(desk: Desk) -> None:
    await desk.begin()
    await desk.step("2")
    state: dict[str, Any] = desk.state() | {"branch": "a\n## Steps\n" + "\n- forged" * 80}
    state["steps"]["2"]["artifacts"] = ["x\n- forged\u202e"]
    desk.put(state)
    found = await desk.found()
    await desk.keeper.complete(desk.actor(), "quay", found.version, op=fresh(), passed_by="ann")
    text = desk.path(HANDOFF).read_text("utf-8")
    assert len(text.splitlines()) < 60
    assert ("\n- forged" in text, "\u202e" in text) == (False, False)


async def test_the_audit_tells_of_each_principals_change(store: RedisStore) -> None:
    event, op = DecisionMade("1", "t", "c"), fresh()
    row = AuditRow("workflow", "ann", {"do": op})
    for who, label in ((fresh(), PUBLIC), (fresh(), PUBLIC), (fresh(), INTERNAL)):
        place, new = WorkflowPlace(who, "quay", label), (NewWorkflowEvent(event, "ann", call=op),)
        for _ in range(2):
            await store.workflows.advance(place, WorkflowView(label, {}), new, (row,))
    rows = [one for one in await store.audit.records(AUDIT, limit=10_000) if one.body.get("do") == op]
    assert len(rows) == 3
