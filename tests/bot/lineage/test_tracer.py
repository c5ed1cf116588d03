"""What something came from and where it went, in a whole application with real files and a real store."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import CursorError, NotFoundError
from bot.lineage.graph import NodeKind
from bot.lineage.loading import LineageViewer
from bot.lineage.names import LineageNameError
from bot.lineage.rendering import SEEN, lines
from bot.lineage.tracer import LineageQuery, LineageTrace
from bot.lineage.walk import Direction, ReachedNode
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.log.event_types import AgentMessage, ItemHeld, MemoriesRecalled, ToolCall, ToolResult, UserMessage
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowView
from bot.sessions.refs import CallRef
from bot.sessions.workflows.events import DecisionMade, NewWorkflowEvent
from bot.worker.schedule_firing import ScheduleFiring
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from tests.bench.lineage import fill
from tests.bot.kit import Scripted, bang, eventually, parts, policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

OPERATOR: Final = LineageViewer()
FILE: Final = "public/welcome.md"
ABOVE: Final = "confidential/pipeline.md"
CARD: Final = "4111 1111 1111 1111"
OWNER: Final = principal("console:owner")


async def back(owner: Person, name: str, viewer: LineageViewer = OPERATOR, *, limit: int = 200) -> LineageTrace:
    return await owner.app.lineage.trace(LineageQuery(name, limit=limit), viewer)


async def forward(owner: Person, name: str, viewer: LineageViewer = OPERATOR) -> LineageTrace:
    return await owner.app.lineage.trace(LineageQuery(name, Direction.FORWARD, limit=200), viewer)


def of_kind(lineage: LineageTrace, kind: NodeKind) -> list[str]:
    return [one.node.id for one in lineage.nodes if one.node.kind is kind]


def ids(lineage: LineageTrace) -> set[str]:
    return {one.node.id for one in lineage.nodes}


def titles(lineage: LineageTrace) -> list[str]:
    return [one.node.title for one in lineage.nodes]


async def event_of(owner: Person, kind: type, place: int = -1) -> str:
    """Return the id of an event of a kind, the newest if it does not say."""
    seqs = [event.seq for event in await owner.events() if isinstance(event.body, kind)]
    return f"{owner.sid}-{seqs[place]}"


def side(owner: Person, chat: str = "side") -> Person:
    """Return the owner at another chat of theirs: another session."""
    return Person(owner.app, owner.output, Address("console", chat), "console:owner")


async def learned(owner: Person, text: str) -> str:
    """Have the agent learn something; return the memory's id."""
    await owner.say(bang("memory", action="learn", text=text))
    (memory,) = (await owner.app.store.memories.page("owner", (await owner.state()).taint, 0, 1)).changed
    return memory.id


async def test_an_answer_is_traced_to_the_file_the_memory_and_the_session_it_used_and_each_of_them_to_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as owner:
        memory = await learned(side(owner), "the ferry leaves at nine")
        await owner.say(bang("read_file", path=FILE))
        await owner.say(bang("memory", action="recall", query="ferry"))
        await owner.say(bang("sessions_spawn", task="say what the tide does"))
        await reported(owner)
        answer = await event_of(owner, AgentMessage)
        found = await back(owner, answer)
        (file,) = of_kind(found, NodeKind.FILE)
        assert file.startswith(f"file:{FILE}#")
        assert of_kind(found, NodeKind.MEMORY) == [memory]
        (child,) = of_kind(found, NodeKind.SESSION)
        assert child != owner.sid
        # Over the memory it goes on into the session that learned it.
        assert f"{side(owner).sid}-3" in {name for name in ids(found) if name.startswith(side(owner).sid)}
        for source in (file, memory, child, f"file:{FILE}"):
            went = await forward(owner, source)
            assert answer in ids(went), source
            (told,) = [one for one in went.nodes if one.via == answer and one.node.kind is NodeKind.DELIVERY]
            assert (told.node.where, told.node.title) == ("console::owner:", "answer sent, for owner")
        # What was said before the memory was recalled did not come of it.
        assert await event_of(owner, AgentMessage, 0) not in ids(await forward(owner, memory))


async def reported(owner: Person) -> None:
    """Wait until a background session has reported, and that is answered."""

    async def heard() -> bool:
        return any(isinstance(one.body, UserMessage) and one.body.origin for one in await owner.events())

    await eventually(heard)
    await owner.settled()


async def test_edges_lead_from_source_to_what_came_of_it_and_leave_out_what_a_longer_way_tells(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path=FILE))
        answer, call = await event_of(owner, AgentMessage), await event_of(owner, ToolCall)
        message = f"{owner.sid}-3"
        found = await back(owner, answer)
        pairs = {(edge.source, edge.target) for edge in found.edges}
        (file,) = of_kind(found, NodeKind.FILE)
        result = await event_of(owner, ToolResult)
        assert {(file, result), (call, result), (result, answer)} <= pairs
        assert any(target == call for _, target in pairs), "the call came from the message"
        assert (message, answer) not in pairs
        assert not any(source == message and target == answer for source, target in pairs)


async def test_a_proposed_memory_that_a_person_keeps_is_traced_to_the_call_that_proposed_it(tmp_path: Path) -> None:
    config = policy(blocks={"agents": {"default": {"memory": "auto"}}})
    async with running(tmp_path, config) as owner:
        shown = await owner.say(bang("memory", action="learn", text="the ferry leaves at nine"))
        memory = shown.split("/memory keep ")[1].split("`")[0]
        await owner.say(f"/memory keep {memory}")
        assert await event_of(owner, ToolCall) in ids(await back(owner, memory))
        # What the runtime recalls for a message names what it recalled.
        await owner.say("when does the ferry leave?")
        assert await event_of(owner, MemoriesRecalled) in ids(await forward(owner, memory))


async def test_a_question_that_showed_a_call_is_among_what_people_have_seen(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path=FILE))
        await owner.say(bang("skill", action="create", name="tide", steps=["look", "write"]), wait=False)

        async def asks() -> bool:
            return (await owner.state()).asks

        await eventually(asks)
        await owner.say("approve")
        told = list(lines(await forward(owner, f"file:{FILE}"), "trace"))
        seen = told[told.index(SEEN) :]
        assert any(line.startswith("- console::owner: question ") for line in seen)


async def test_a_skill_is_traced_to_the_call_that_wrote_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("skill", action="create", name="tide", steps=["look", "write"]), wait=False)

        async def asks() -> bool:
            return (await owner.state()).asks

        await eventually(asks)
        await owner.say("approve")
        found = await owner.app.store.skills.versions("owner")
        (skill,) = (await owner.app.store.skills.changes("owner", next(iter(found)), 0, 5)).changed
        assert await event_of(owner, ToolCall) in ids(await back(owner, skill.id))
        await owner.say(bang("session", action="apply", task="look at the tide"))
        assert await event_of(owner, ToolResult) in ids(await forward(owner, skill.id))


async def test_what_is_held_is_traced_to_its_file_and_the_copy_to_what_was_held(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path=ABOVE, _hold=True))
        held = await event_of(owner, ItemHeld)
        found = await back(owner, held)
        assert [one.partition("#")[0] for one in of_kind(found, NodeKind.FILE)] == [f"file:{ABOVE}"]
        ref = next(event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld))
        await owner.say(bang("write_file", path="workspace/copy.txt", text={"$ref": ref}))
        copied = await back(owner, f"file:workspace/copy.txt@{owner.sid}")
        assert held in ids(copied)
        assert f"file:{ABOVE}" in {name.partition("#")[0] for name in ids(copied)}
        # Somebody who may know of the session, and not of what it holds, meets neither.
        low = LineageViewer(parse("PUBLIC~"))
        with pytest.raises(NotFoundError):
            await back(owner, held, low)
        assert not of_kind(await back(owner, owner.sid, low), NodeKind.HELD)


async def test_what_was_released_is_traced_to_the_answer_that_it_was(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals={"owner": {**OWNER, "may_release": True}})) as owner:
        await owner.say(bang("read_file", path=ABOVE))
        await owner.say("we are open on Monday")
        answer = await event_of(owner, AgentMessage)
        code = (await owner.say("/release last to guest")).split("/release confirm ")[1].split("`")[0]
        await owner.say(f"/release confirm {code}")
        went = await forward(owner, f"file:{ABOVE}")
        (released,) = of_kind(went, NodeKind.RELEASE)
        assert answer in ids(await back(owner, released))
        told = [one.node for one in went.nodes if one.node.kind is NodeKind.DELIVERY and "guest" in one.node.where]
        assert [answer in ids(await back(owner, node.id)) for node in told] == [True]


async def test_a_redacted_answer_is_traced_to_what_it_came_from(tmp_path: Path) -> None:
    rules = [{"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "REDACT"}]
    async with running(tmp_path, policy(rules=rules), parts=parts(model=Scripted(f"pay {CARD} now"))) as owner:
        assert "[redacted: payment-card]" in await owner.say("how?")
        found = await back(owner, await event_of(owner, AgentMessage))
        assert titles(found) == ["answer", "message of owner"]
        assert CARD not in str(found)


async def test_files_of_one_name_under_two_labels_are_two_nodes_each_with_its_own_label(tmp_path: Path) -> None:
    folder = {"plans": {"floor": "PUBLIC", "clearance": "top", "integrity": "TRUSTED"}}
    async with running(tmp_path, policy(folders={**SHIPPED, **folder})) as owner:
        await owner.say(bang("write_file", path="plans/week.md", text="open on Monday"))
        other = side(owner)
        await other.say(bang("read_file", path=ABOVE))
        await other.say(bang("write_file", path="plans/week.md", text="sold on Monday"))
        found = await back(owner, "file:plans/week.md")
        labels = {str(one.node.label): one.node.id for one in found.nodes if one.node.kind is NodeKind.FILE}
        assert {"PUBLIC", "CONFIDENTIAL"} <= {label.removesuffix("~") for label in labels}
        low = await back(owner, "file:plans/week.md", LineageViewer(parse("PUBLIC~")))
        assert {str(one.node.label) for one in low.nodes} == {"PUBLIC"}
        assert ABOVE not in str(low)
        assert other.sid not in str(low)


async def test_a_version_that_was_overwritten_is_still_traced_to_its_writer(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("write_file", path="workspace/tides.txt", text="high at nine"))
        first = await event_of(owner, ToolCall)
        await owner.say(bang("read_file", path="workspace/tides.txt"))
        read = await event_of(owner, ToolResult)
        await owner.say(bang("write_file", path="workspace/tides.txt", text="high at ten"))
        assert first in ids(await back(owner, read))
        (version,) = [edge.source for edge in (await back(owner, read)).edges if edge.source.startswith("file:")]
        assert read in ids(await forward(owner, version))


async def test_a_deleted_session_is_a_tombstone_to_the_operator_and_nothing_to_anybody_else(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("tell me of tides")
        sid = owner.sid
        other = side(owner)
        await other.say(bang("sessions_history", session_id=sid))
        read = await event_of(other, ToolResult)
        assert f"{sid}-3" in ids(await back(owner, read))
        await owner.say("/delete")
        await owner.app.store.lifecycle.delete(sid, ())
        found = await back(owner, read)
        assert [one.node.title for one in found.nodes if one.node.id == sid] == ["deleted session"]
        assert read in ids(await forward(owner, sid))
        low = LineageViewer(parse("RESTRICTED~"))
        assert sid not in ids(await back(owner, read, low))
        with pytest.raises(NotFoundError):
            await back(owner, sid, low)
        with pytest.raises(NotFoundError):
            await back(owner, "a" * 32, low)


async def test_a_trace_goes_on_over_a_restart_and_another_process(tmp_path: Path) -> None:
    async with running(tmp_path, embedded=True) as owner:
        await owner.say(bang("read_file", path=FILE))
        before = await back(owner, owner.sid)
        memory = await learned(owner, "the ferry leaves at nine")
    async with running(tmp_path, embedded=True) as owner:
        assert (await back(owner, before.start[0])) == before
        await owner.say(bang("memory", action="recall", query="ferry"))
        assert f"file:{FILE}" in {name.partition("#")[0] for name in ids(await back(owner, owner.sid))}
        assert await event_of(owner, ToolResult) in ids(await forward(owner, memory))


async def test_pages_of_a_trace_are_its_nodes_in_their_order(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for number in range(4):
            await owner.say(f"number {number}")
        whole = await back(owner, owner.sid)
        cursor, nodes = "", list[ReachedNode]()
        while True:
            query = LineageQuery(owner.sid, cursor=cursor, limit=3)
            page = await owner.app.lineage.trace(query, OPERATOR)
            nodes += page.nodes
            cursor = page.cursor
            if not cursor:
                break
        assert tuple(nodes) == whole.nodes
        near = await owner.app.lineage.trace(LineageQuery(owner.sid, depth=1), OPERATOR)
        assert {one.depth for one in near.nodes} == {0, 1}
        for wrong in ("x", "1x", "9" * 9):
            with pytest.raises(CursorError):
                await owner.app.lineage.trace(LineageQuery(owner.sid, cursor=wrong), OPERATOR)


@pytest.mark.parametrize("name", ["", "answer", "SID:7", "x" * 6_000, "audit"])
async def test_what_is_no_id_is_told_with_the_forms(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(LineageNameError) as told:
            await back(owner, name)
        assert "file:FOLDER/NAME" in told.value.next_step


@pytest.mark.parametrize("name", ["mem_none", "skill_none", "file:public/none.md", "file:nowhere/x", "run:none"])
async def test_what_there_is_not_is_not_found(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(NotFoundError):
            await back(owner, name)


async def test_a_principal_is_told_of_nobody_elses_things(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        memory = await learned(owner, "the ferry leaves at nine")
        stranger = LineageViewer(parse("RESTRICTED~"), "somebody")
        for name in (owner.sid, memory, await event_of(owner, AgentMessage)):
            with pytest.raises(NotFoundError):
                await back(owner, name, stranger)
        assert memory in ids(await back(owner, memory, LineageViewer(parse("RESTRICTED~"), "owner")))


async def test_a_run_and_its_schedule_are_traced(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("/runs start say what the tide does")
        runs = [state async for state in owner.app.store.sessions.states() if state.charter is not None]
        charter = runs[0].charter
        assert charter is not None
        found = await forward(owner, f"run:{charter.run}")
        assert f"run {charter.run}" in titles(found)


async def test_a_session_that_looks_at_a_workflow_saw_what_was_written_into_it_before_and_nothing_later(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as owner:
        early, late = side(owner, "early"), side(owner, "late")
        await owner.say(bang("workflow", action="start", project="quay", definition="note-review"))
        await early.say(bang("workflow", action="status", project="quay", up_to="CONFIDENTIAL~"))
        await owner.say(bang("read_file", path=ABOVE))
        said = {"title": "pump", "choice": "electric", "rationale": "it is quiet"}
        await owner.say(bang("workflow", action="decide", project="quay", version=1, **said))
        asks = [
            bang("workflow", action="status", project="quay", up_to="CONFIDENTIAL~"),
            bang("workflow", action="resume", project="quay", up_to="CONFIDENTIAL~"),
            bang("workflow", action="step", project="quay", step="1", version=1),
        ]
        for ask in asks:
            await late.say(ask)
        went = await forward(owner, f"file:{ABOVE}")
        seen = ids(went)
        assert {await event_of(late, ToolResult, place) for place in range(len(asks))} <= seen
        assert late.sid in "".join(one.node.id for one in went.nodes if one.node.kind is NodeKind.DELIVERY)
        assert not any(early.sid in name for name in seen), "it looked before that was written"


async def test_a_workflow_is_traced_to_the_calls_that_wrote_it_as_far_as_its_reader_may_know(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path=FILE))
        (call,) = [event.body.call for event in await owner.events() if isinstance(event.body, ToolCall)]
        for label, project in ((PUBLIC, "harbor"), (parse("CONFIDENTIAL"), "harbor"), (parse("RESTRICTED"), "quay")):
            came = (CallRef(call, owner.sid),)
            made = NewWorkflowEvent(DecisionMade("1", "moor", f"at {label}"), "owner", call=str(label), refs=came)
            view = WorkflowView(label, await seen(owner, project, label))
            assert await owner.app.store.workflows.advance(WorkflowPlace("owner", project, label), view, (made,), ())
        whole = await back(owner, "workflow:harbor")
        assert (whole.start, str(whole.nodes[0].node.label)) == (("workflow:harbor@owner",), "CONFIDENTIAL")
        assert await event_of(owner, ToolCall) in ids(whole)
        went = await forward(owner, await event_of(owner, ToolCall))
        assert sorted(of_kind(went, NodeKind.WORKFLOW)) == ["workflow:harbor@owner", "workflow:quay@owner"]
        low = LineageViewer(parse("PUBLIC~"))
        assert str((await back(owner, "workflow:harbor", low)).nodes[0].node.label) == "PUBLIC"
        known = await forward(owner, await event_of(owner, ToolCall), low)
        assert of_kind(known, NodeKind.WORKFLOW) == ["workflow:harbor@owner"]
        for name, viewer in (("workflow:quay", low), ("workflow:harbor@owner", LineageViewer(OPEN, "somebody"))):
            with pytest.raises(NotFoundError):
                await back(owner, name, viewer)


async def test_what_tells_a_state_is_traced_to_what_wrote_it_and_to_nothing_later(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("workflow", action="start", project="harbor", definition="note-review"))
        started = await event_of(owner, ToolCall)
        path = "agent-output/harbor/00-session-state.json"
        assert started in ids(await back(owner, f"file:{path}"))
        await owner.say(bang("read_file", path=path))
        read = await event_of(owner, ToolResult)
        assert started in ids(await back(owner, read))
        await owner.say(bang("workflow", action="status", project="harbor"))
        looked = await event_of(owner, ToolResult)
        assert {read, looked} <= ids(await forward(owner, started))
        await owner.say(bang("workflow", action="step", project="harbor", step="1", version=1))
        assert ids(await forward(owner, await event_of(owner, ToolCall))).isdisjoint({read, looked})


async def seen(owner: Person, project: str, reader: Label) -> dict[Label, int]:
    """Return how many events of a project there are of each label that a reader may know of."""
    found = await owner.app.store.workflows.log("owner", project, lambda label: label.within(reader))
    return dict(Counter(event.label for event in found))


OPEN: Final = parse("RESTRICTED~")
SHIPPED: Final = {
    "public": {"floor": "PUBLIC", "integrity": "TRUSTED"},
    "confidential": {"floor": "CONFIDENTIAL", "integrity": "TRUSTED", "clearance": "CONFIDENTIAL"},
}


async def test_a_reminder_is_traced_to_the_call_that_made_it_and_to_where_it_was_said(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        app = owner.app
        asked = await owner.say(bang("schedule_create", kind="reminder", when="in 2 hours", text="the ferry leaves"))
        await owner.say(f"/approve {asked.split('`/approve ')[1].split('`')[0]}")
        result = await event_of(owner, ToolResult)
        (schedule,) = of_kind(await back(owner, result), NodeKind.SCHEDULE)
        assert await event_of(owner, ToolCall) in ids(await back(owner, schedule))
        (known,) = await app.store.schedules.of("owner")
        timer = Timer(TimerKind.SCHEDULE, known.id, known.next_at)
        await ScheduleFiring(app.store, app.gate, app.session_ids, app.agents).due(timer)
        await owner.settled()
        told = [one for one in (await forward(owner, schedule)).nodes if one.via == schedule]
        assert {one.node.kind for one in told} == {NodeKind.RESULT, NodeKind.DELIVERY}
        # Nobody else is told of it.
        with pytest.raises(NotFoundError):
            await back(owner, schedule, LineageViewer(parse("RESTRICTED~"), "somebody"))


async def test_ten_thousand_events_are_traced_page_by_page(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("when does the ferry leave?")
        await fill(owner.app.store, owner.sid, 10_000)
        pages = list[LineageTrace]()
        for cursor in ("", "50", "4900", "9999"):
            query = LineageQuery(owner.sid, cursor=cursor)
            pages.append(await owner.app.lineage.trace(query, OPERATOR))
        assert [len(page.nodes) for page in pages] == [50, 50, 50, 0]
        assert [page.cursor for page in pages] == ["50", "100", "4950", ""]
        assert len({one.node.id for page in pages for one in page.nodes}) == 150
        assert all(page.complete for page in pages)
        went = await forward(owner, f"{owner.sid}-3")
        assert (len(went.nodes), went.cursor, went.complete) == (200, "200", True)
