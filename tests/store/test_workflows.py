"""Workflows in the store: logs apart by label, compared and set by what their writer may know of."""

# pyright: reportPrivateUsage=false

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from bot.core.errors import FullError, SchemaError
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowView
from bot.sessions.refs import CallRef
from bot.sessions.workflows.definitions import StepDefinition, WorkflowDefinition
from bot.sessions.workflows.events import (
    DecisionMade,
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    NewWorkflowEvent,
    StateRecovered,
    StepCompleted,
    StepSkipped,
    StepStarted,
    SubStepDone,
    UnknownBody,
    WorkflowBody,
    WorkflowStarted,
)
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, workflow_keys
from bot.store.workflows.logs import RedisWorkflows
from policy.labels import PUBLIC, Label, parse
from tests.fleets import Served
from tests.store.world import KEY, command, fresh, happened, row

pytestmark = pytest.mark.anyio

INTERNAL: Final = parse("INTERNAL")
DIRTY: Final = parse("PUBLIC~")
ABOVE: Final = parse("RESTRICTED{acme}")
STEP: Final = StepDefinition("3_5", "Permits", ("ask", "wait"), 1, ("a/{project}.md",), True, "checker", True)  # noqa: FBT003 - each part differs from its default
DEFINITION: Final = WorkflowDefinition("harbour", "Harbour works", "d1", (STEP, StepDefinition("4", "Build")))
BODIES: Final[tuple[WorkflowBody, ...]] = (
    WorkflowStarted(DEFINITION, "main"),
    WorkflowStarted(DEFINITION),
    StepStarted("3_5", ("a", "b")),
    StepStarted("4"),
    SubStepDone("3_5", "ask", ("a \ud800 b",)),
    StepCompleted("3_5", "ann"),
    StepSkipped("4"),
    DecisionMade("4", "pump", "steam", "cheap"),
    FindingAdded("4", "Too shallow."),
    FindingRemoved("7"),
    FileTakenIn("{}"),
    StateRecovered("empty"),
    UnknownBody("later", '{"x":1}'),
)


def everything(_label: Label) -> bool:
    return True


def within(reader: Label) -> Callable[[Label], bool]:
    return lambda label: label.within(reader)


async def put(store: RedisStore, who: str, label: Label, reader: Label, **seen: int) -> bool:
    view = WorkflowView(reader, {parse(name): number for name, number in seen.items()})
    return await store.workflows.advance(WorkflowPlace(who, "quay", label), view, (happened(),), ()) is not None


async def test_events_come_back_as_they_were_written(store: RedisStore) -> None:
    place = WorkflowPlace(fresh(), "quay", INTERNAL)
    events = tuple(
        NewWorkflowEvent(body, "ann", by_agent=True, sid="s", call=f"c{number}", refs=(CallRef("c", "s"),))
        for number, body in enumerate(BODIES)
    )
    kept = await store.workflows.advance(place, WorkflowView(INTERNAL, {}), events, (row(),))
    assert kept is not None
    assert kept == await store.workflows.log(place.principal, "quay", everything)
    assert [one.body for one in kept] == list(BODIES)
    assert [one.order for one in kept] == list(range(1, len(BODIES) + 1))
    (first, *_) = kept
    assert (first.label, first.actor, first.by_agent, first.sid, first.call) == (INTERNAL, "ann", True, "s", "c0")
    assert first.refs == (CallRef("c", "s"),)
    found = await store.audit.records(AUDIT, limit=100_000)
    assert any(one.body == {"what": "read"} for one in found)


async def test_a_writer_that_did_not_see_all_it_may_know_of_is_refused(store: RedisStore) -> None:
    who = fresh()
    assert await put(store, who, PUBLIC, PUBLIC)
    assert not await put(store, who, PUBLIC, PUBLIC)
    assert not await put(store, who, INTERNAL, INTERNAL)
    assert not await put(store, who, PUBLIC, PUBLIC, PUBLIC=2)
    # What is above, or was written by who knows whom, is neither seen nor compared.
    assert await put(store, who, INTERNAL, INTERNAL, PUBLIC=1)
    assert await put(store, who, DIRTY, DIRTY, PUBLIC=1)
    assert await put(store, who, PUBLIC, PUBLIC, PUBLIC=1)
    assert len(await store.workflows.log(who, "quay", within(PUBLIC))) == 2
    assert len(await store.workflows.log(who, "quay", within(INTERNAL))) == 3
    assert [one.order for one in await store.workflows.log(who, "quay", everything)] == [1, 2, 3, 4]


async def test_events_read_before_are_not_read_again(store: RedisStore) -> None:
    who = fresh()
    assert await put(store, who, PUBLIC, PUBLIC)
    first = await store.workflows.log(who, "quay", within(PUBLIC))
    assert await put(store, who, INTERNAL, INTERNAL, PUBLIC=1)
    assert await put(store, who, PUBLIC, PUBLIC, PUBLIC=1)
    whole = await store.workflows.log(who, "quay", everything)
    again = await store.workflows.log(who, "quay", everything, since=first)
    assert again == whole
    assert again[0] is first[0]
    assert await store.workflows.log(who, "quay", within(PUBLIC), since=whole) == (whole[0], whole[2])


async def test_a_log_that_a_restore_made_shorter_is_read_from_its_start(store: RedisStore) -> None:
    who = fresh()
    for number in range(3):
        assert await put(store, who, PUBLIC, PUBLIC, **({"PUBLIC": number} if number else {}))
    before = await store.workflows.log(who, "quay", everything)
    keys = workflow_keys(who, "quay", "PUBLIC")
    await command(store, "LTRIM", keys.log, "0", "0")
    await command(store, "HSET", keys.versions, "PUBLIC", "1")
    assert await store.workflows.log(who, "quay", everything, since=before) == before[:1]


async def test_of_writers_at_once_one_wins(store: RedisStore) -> None:
    who = fresh()
    won = await asyncio.gather(*(put(store, who, PUBLIC, PUBLIC) for _ in range(8)))
    assert sum(won) == 1
    assert len(await store.workflows.log(who, "quay", everything)) == 1


async def test_a_call_that_is_told_again_at_another_label_is_the_first_one(store: RedisStore) -> None:
    who, event = fresh(), happened("c1")
    first = await store.workflows.advance(WorkflowPlace(who, "quay", PUBLIC), WorkflowView(PUBLIC, {}), (event,), ())
    again = await store.workflows.advance(WorkflowPlace(who, "quay", ABOVE), WorkflowView(ABOVE, {}), (event,), ())
    assert again == first
    assert len(await store.workflows.log(who, "quay", everything)) == 1


async def test_what_is_full_at_one_label_is_not_at_another(store: RedisStore) -> None:
    who = fresh()
    small = RedisWorkflows(store._shared, events=2, projects=2)

    async def wrote(project: str, label: Label, **seen: int) -> None:
        view = WorkflowView(label, {parse(name): number for name, number in seen.items()})
        assert await small.advance(WorkflowPlace(who, project, label), view, (happened(),), ())

    await wrote("one", ABOVE)
    await wrote("one", ABOVE, **{str(ABOVE): 1})
    with pytest.raises(FullError, match="events as may be"):
        await wrote("one", ABOVE, **{str(ABOVE): 2})
    await wrote("two", ABOVE)
    with pytest.raises(FullError, match="workflows as may be"):
        await wrote("three", ABOVE)
    for project in ("one", "two"):
        await wrote(project, PUBLIC)


async def test_projects_are_listed_by_their_last_event_that_is_known(store: RedisStore) -> None:
    who = fresh()

    async def wrote(project: str, label: Label, **seen: int) -> None:
        view = WorkflowView(label, {parse(name): number for name, number in seen.items()})
        assert await store.workflows.advance(WorkflowPlace(who, project, label), view, (happened(),), ())
        await asyncio.sleep(0.005)

    await wrote("one", PUBLIC)
    await wrote("two", PUBLIC)
    await wrote("one", ABOVE, PUBLIC=1)
    await wrote("three", ABOVE)
    assert await store.workflows.projects(who, within(PUBLIC), 9) == ("two", "one")
    assert await store.workflows.projects(who, within(ABOVE), 9) == ("three", "one", "two")
    assert await store.workflows.projects(who, within(ABOVE), 1) == ("three",)
    assert await store.workflows.projects(fresh(), everything, 9) == ()


async def test_what_is_read_is_all_that_was_there_at_one_moment(server: Served) -> None:
    who = fresh()

    async def write(label: Label, **seen: int) -> None:
        other = await open_store(audit_key=KEY, url=server.url)
        view = WorkflowView(label, {parse(name): number for name, number in seen.items()})
        assert await other.workflows.advance(WorkflowPlace(who, "quay", label), view, (happened(),), ())
        await other.close()

    def meanwhile(_label: Label) -> bool:
        """Write at a new label, and at the one that is about to be read, before it is."""
        pool = ThreadPoolExecutor(1)
        for wrote in (write(DIRTY, PUBLIC=1), write(PUBLIC, PUBLIC=1)):
            doing = pool.submit(asyncio.run, wrote)
            while not doing.done():  # a wait would be taken for a call that blocks the loop, and rightly
                os.sched_yield()
            assert doing.exception() is None
        pool.shutdown(wait=False)
        return True

    await write(PUBLIC)
    store = await open_store(audit_key=KEY, url=server.url)
    assert [one.order for one in await store.workflows.log(who, "quay", meanwhile)] == [1]
    assert [one.order for one in await store.workflows.log(who, "quay", everything)] == [1, 2, 3]
    await store.close()


@pytest.mark.parametrize(
    "body", ["[]", "{", '{"step": 3}', "{}", '{"step": "1", "files": [1]}', '{"step":"1","files":"a"}']
)
async def test_an_event_that_cannot_be_read_is_told_to_the_operator(store: RedisStore, body: str) -> None:
    who = fresh()
    event = NewWorkflowEvent(UnknownBody("step_started", body), "ann")
    place = WorkflowPlace(who, "quay", PUBLIC)
    if body == "{}":
        event = NewWorkflowEvent(UnknownBody("started", '{"definition": 3}'), "ann")
    with pytest.raises(SchemaError):
        await store.workflows.advance(place, WorkflowView(PUBLIC, {}), (event,), ())
    assert await command(store, "LLEN", workflow_keys(who, "quay", "PUBLIC").log) == 1
    with pytest.raises(SchemaError):
        await store.workflows.log(who, "quay", everything)
