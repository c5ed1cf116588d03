"""Laws `no_read_up` and `stored_things_keep_their_label` for workflows.

Sessions at several labels begin workflows, carry them on, decide, complete, skip, look and write over state files. The
same is played again without the sessions that are not within a reader, as they have read more, or what anybody may have
written (law `untrusted_cannot_command`): all that the others are told must be the same byte for byte: states, versions,
conflicts, errors, lists, and what is exported, with its label.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.core.errors import RequestError, in_words
from bot.files import locations
from bot.files.port import keep_text, text_of
from bot.sessions.refs import CallRef
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.tools.workflow.state_folder import FOLDER
from bot.workflows.errors import ConflictError
from bot.workflows.export import HANDOFF, STATE
from bot.workflows.keeper import DecisionText
from bot.workflows.state_file import document_object
from bot.workflows.views import Workflow, WorkflowActor, WorkflowWrite
from policy.labels import PUBLIC, Label, parse
from tests.bot.workflows.desk import PUBLISHED, Desk
from tests.store.world import KEY, served

LABELS: Final = tuple(map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "INTERNAL~", "CONFIDENTIAL", "PUBLIC{hr}")))
READERS: Final = tuple(map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL", "PUBLIC{hr}")))
FOLDERS: Final[tuple[dict[str, str] | None, ...]] = (
    {**PUBLISHED, "clearance": "CONFIDENTIAL{hr}"},
    {"floor": "INTERNAL", "clearance": "CONFIDENTIAL"},
    {**PUBLISHED, "clearance": "INTERNAL"},
)
_TIME: Final = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z")
_ACTIONS: Final = (
    *("start", "start", "begin", "begin", "checkpoint", "decide", "find", "complete", "skip", "look", "list", "file"),
    *("stale", "write", "peek", "peek", "edit"),
)

Runner = tuple[asyncio.Runner, RedisStore]


@dataclass(frozen=True)
class Step:
    """What a session at `taint` does with a project."""

    taint: Label
    action: str
    project: str = "quay"
    step: str = "1"


_steps = st.builds(
    Step,
    st.sampled_from(LABELS),
    st.sampled_from(_ACTIONS),
    st.sampled_from(("quay", "quay", "lock")),
    st.sampled_from(("1", "1", "2", "2_5")),
)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """A loop and a real store; each run has principals of its own."""
    servers = served()
    server = next(servers)
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())
    next(servers, None)


def shown(workflow: Workflow) -> dict[str, Any]:
    """Return all of a workflow that a session can be told."""
    events = [(str(event.label), event.body, event.actor, event.call) for event in workflow.events]
    return {
        "version": workflow.version,
        "label": str(workflow.label),
        "document": document_object(workflow.document),
        "events": events,
        "note": workflow.note,
    }


async def done(desk: Desk, step: Step, number: int) -> object:
    """Do what a step says, and return what its session is told."""
    keeper, actor, op = desk.keeper, WorkflowActor(desk.who, "ann", step.taint, step.taint), str(number)
    if step.action == "start":
        return await keeper.start(actor, step.project, "harbour", op=op)
    if step.action == "list":
        return [shown(one) for one in await keeper.listed(desk.who, step.taint)]
    if step.action == "edit":
        return await asyncio.to_thread(edit, desk, step, number)
    if step.action == "peek":
        return await asyncio.to_thread(read, desk, step)
    now = await keeper.found(desk.who, step.project, step.taint)
    at = (actor, step.project, now.version)
    early = (actor, step.project, step.step, now.version - 1)
    does: dict[str, Callable[[], Awaitable[object]]] = {
        "begin": lambda: keeper.begin_step(*at[:2], step.step, at[2], op=op, again=True),
        "stale": lambda: keeper.begin_step(*early, op=op, again=True),
        "checkpoint": lambda: keeper.checkpoint(*at[:2], "currents", at[2], op=op),
        "decide": lambda: keeper.write_decision(*at, DecisionText("pump", op), op=op),
        "find": lambda: keeper.add_finding(*at, "Too shallow.", op=op),
        "complete": lambda: keeper.complete(*at, op=op, passed_by="ann"),
        "skip": lambda: keeper.skip(*at[:2], step.step, at[2], op=op),
        "write": lambda: asyncio.to_thread(write, desk, step, now, op),
        "file": lambda: asyncio.to_thread(read, desk, step),
    }
    return await does[step.action]() if step.action in does else now


def write(desk: Desk, step: Step, now: Workflow, op: str) -> None:
    """Write a changed state over the file, as `write_file` does for a session."""
    state = json.dumps(document_object(now.document) | {"branch": f"b{op}"})
    place = locations.shared(FOLDER, desk.policy.folders[FOLDER].label, step.project, STATE)
    keep_text(desk.files, place, state, step.taint, refs=(CallRef("c", "s"),))


def edit(desk: Desk, step: Step, number: int) -> None:
    """Change the file at the floor as a person with an editor does, whoever else is at work."""
    path = desk.path(STATE, step.project)
    if path.exists():
        desk.put(json.loads(path.read_text("utf-8")) | {"branch": f"b{number}"}, STATE, step.project)


def read(desk: Desk, step: Step) -> list[object]:
    """Return the files as `read_file` finds them for a session."""
    floor, told = desk.policy.folders[FOLDER].label, list[object]()
    for name in (STATE, HANDOFF):
        found = desk.files.find(locations.shared(FOLDER, floor, step.project, name), step.taint)
        told.append(None if found is None else (str(found.label), text_of(desk.files, found.place)))
    return told


async def told(desk: Desk, step: Step, number: int) -> str:
    """Return what the session of a step is told, byte for byte; times and digests apart."""
    try:
        result = await done(desk, step, number)
    except ConflictError as error:
        result = {"error": in_words(error), "now": shown(error.workflow), "since": len(error.since)}
    except RequestError as error:
        result = {"error": in_words(error), "code": error.code}
    if isinstance(result, WorkflowWrite):
        result = {**shown(result.workflow), "exported": result.exported, "told": result.note}
    if isinstance(result, Workflow):
        result = shown(result)
    return re.sub(r"wf_[0-9a-f]{12}|\b[0-9a-f]{32}\b", "id", _TIME.sub("T", repr(result)))


async def played(store: RedisStore, steps: list[tuple[int, Step]], folder: dict[str, str] | None) -> dict[int, str]:
    """Play steps, and return what each is told."""
    with TemporaryDirectory() as here:
        desk = Desk(store, Path(here), folder)
        return {number: await told(desk, step, number) for number, step in steps}


LOW, DIRTY, MIDDLE, HIGH = (
    Step(label, "start") for label in map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL"))
)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(_steps, min_size=2, max_size=12),
    reader=st.sampled_from(READERS),
    folder=st.sampled_from(FOLDERS),
)
@example(
    steps=[
        LOW,
        Step(MIDDLE.taint, "begin"),
        Step(LOW.taint, "begin"),
        Step(LOW.taint, "look"),
        Step(LOW.taint, "file"),
    ],
    reader=PUBLIC,
    folder=FOLDERS[0],
)
@example(
    steps=[
        LOW,
        Step(DIRTY.taint, "begin"),
        Step(DIRTY.taint, "write"),
        Step(LOW.taint, "file"),
        Step(LOW.taint, "begin"),
    ],
    reader=PUBLIC,
    folder=FOLDERS[0],
)
@example(
    steps=[
        LOW,
        Step(LOW.taint, "edit"),
        Step(HIGH.taint, "look"),
        Step(LOW.taint, "edit"),
        Step(LOW.taint, "look"),
    ],
    reader=PUBLIC,
    folder=FOLDERS[0],
)
@example(
    steps=[LOW, Step(DIRTY.taint, "begin"), Step(LOW.taint, "peek")],
    reader=PUBLIC,
    folder=FOLDERS[0],
)
@example(
    steps=[
        HIGH,
        LOW,
        Step(HIGH.taint, "decide"),
        Step(LOW.taint, "decide"),
        Step(LOW.taint, "find"),
        Step(LOW.taint, "list"),
    ],
    reader=PUBLIC,
    folder=FOLDERS[1],
)
@example(
    steps=[DIRTY, LOW, Step(LOW.taint, "peek"), Step(LOW.taint, "edit"), Step(LOW.taint, "look")],
    reader=PUBLIC,
    folder=FOLDERS[0],
)
@example(
    steps=[LOW, Step(LOW.taint, "write"), Step(HIGH.taint, "look"), Step(LOW.taint, "write"), Step(LOW.taint, "look")],
    reader=PUBLIC,
    folder=FOLDERS[0],
)
def test_no_read_up_by_what_is_done_with_workflows_above(
    runner: Runner, steps: list[Step], reader: Label, folder: dict[str, str] | None
) -> None:
    loop, store = runner
    # Before it is looked at, a file is as who may write there left it: `write_file` keeps no two of one level.
    written_over = any(step.action == "write" and step.taint.untrusted for step in steps)
    every = [
        (number, replace(step, action="file") if written_over and step.action == "peek" else step)
        for number, step in enumerate(steps)
    ]
    # What a person changes of a file they change whether or not those above are at work.
    below = [(number, step) for number, step in every if step.action == "edit" or step.taint.within(reader)]
    whole, alone = (loop.run(played(store, some, folder)) for some in (every, below))
    for number, _ in below:
        assert whole[number] == alone[number]


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(_steps, min_size=2, max_size=12), folder=st.sampled_from(FOLDERS))
@example(steps=[LOW, Step(DIRTY.taint, "begin"), Step(MIDDLE.taint, "begin")], folder=FOLDERS[0])
def test_stored_things_keep_their_label_in_the_log_of_a_workflow(
    runner: Runner, steps: list[Step], folder: dict[str, str] | None
) -> None:
    loop, store = runner

    async def play() -> None:
        with TemporaryDirectory() as here:
            desk = Desk(store, Path(here), folder)
            for number, step in enumerate(steps):
                await told(desk, step, number)
            for project in ("quay", "lock"):
                for event in await store.workflows.log(desk.who, project, lambda _: True):
                    # Each session of these tests has seen no more than its own label.
                    wrote = steps[int(event.call)].taint if event.call.isdecimal() else PUBLIC
                    assert wrote.within(event.label)
                    assert event.label.within(wrote) or not event.call.isdecimal()

    loop.run(play())
