"""What comes while a turn runs: collected, answered one by one, taken into the turn, or in its place."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.app.app import App
from bot.commands.conversation import NOTHING_YET
from bot.commands.message_queue import NOT_YOURS
from bot.core.ids import Ids
from bot.history import event_log
from bot.sessions.approvals import ApprovalState
from bot.sessions.inbox import ItemStatus, QueueMode
from bot.sessions.log.event_types import AgentMessage, UserMessage, YieldReason
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import Status, Turn, Write
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.worker.turn_runner import STOPPED
from channels.messages import Address
from policy.labels import PUBLIC, join_all
from policy.request import Effect
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    INTERNAL,
    TOP,
    Probe,
    Scripted,
    TextArguments,
    bang,
    eventually,
    parts,
    policy,
    proposed,
    results,
    standing,
    unanswered,
)
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, People, Rooms, team
from tests.harness import Person, running
from tests.store.world import end_lease

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"
NO_CARDS = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "BLOCK"}


@dataclass
class Slow:
    """A tool body that goes on when it is told to."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        self.begun.set()
        await self.goes_on.wait()
        return Result("done at last")

    async def started(self) -> None:
        await asyncio.wait_for(self.begun.wait(), 60)


@asynccontextmanager
async def busy(
    folder: Path, mode: QueueMode, slow: Slow, model: Scripted | None = None, **sections: object
) -> AsyncGenerator[Person]:
    """Open an application whose owner's turn is in the middle of a slow call."""
    made = parts(Probe("slow", does=slow), model=model)
    async with running(folder, policy(**sections), parts=made) as owner:
        await owner.say("hello")
        await owner.say(f"/queue {mode}")
        await owner.send(bang("slow"))
        await slow.started()
        yield owner


@asynccontextmanager
async def in_rooms(folder: Path, rooms: Rooms, *tools: Probe, model: Scripted | None = None) -> AsyncGenerator[People]:
    """Open an application for people in rooms, whose worker is not there yet."""
    # What is said there everybody may read, so that turns differ in nothing but who asks.
    config = policy(principals=PEOPLE, channels=CHANNELS, chats={"team": {**CHATS["team"], "inbound": "PUBLIC"}})
    made = parts(*tools, model=model)
    async with running(folder, config, serve=False, channels=[rooms], parts=made) as owner:
        yield People(owner.app, rooms)


@asynccontextmanager
async def served(app: App) -> AsyncGenerator[None]:
    """Run the worker."""
    serving = asyncio.create_task(app.serve())
    try:
        yield
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def turns(log: tuple[Event, ...]) -> list[list[tuple[str, str]]]:
    """Return who said what in each turn."""
    found: dict[str, list[tuple[str, str]]] = {}
    for event in log:
        if isinstance(event.body, UserMessage):
            found.setdefault(event.turn, []).append((event.actor, event.body.text))
    return list(found.values())


def answers(log: tuple[Event, ...]) -> list[str]:
    """Return what was answered."""
    return [event.body.text for event in log if isinstance(event.body, AgentMessage)]


async def test_what_one_person_sent_meanwhile_becomes_one_turn_and_has_one_answer(tmp_path: Path) -> None:
    slow, model = Slow(), Scripted("welcome", [proposed("slow")], "done", "all three")
    async with busy(tmp_path, QueueMode.COLLECT, slow, model) as owner:
        for text in ("one", "two", "three"):
            await owner.send(text)
        slow.goes_on.set()
        state = await owner.settled()
        log = await owner.events()
        assert turns(log)[2:] == [[("owner", "one"), ("owner", "two"), ("owner", "three")]]
        assert answers(log) == ["welcome", "done", "all three"]
        assert model.read().endswith("one\ntwo\nthree")
        assert len(model.asked) == 4
        assert state is not None
        assert (state.status, state.waiting_items) == (Status.IDLE, 0)
        statuses = [await owner.app.store.sessions.outcome(owner.sid, f"console/{id(owner)}-{n}") for n in (3, 4, 5)]
        assert {found and found.status for found in statuses} == {ItemStatus.CONSUMED}


async def test_the_offline_model_heeds_everything_that_was_collected(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for text in ("one", "two"):
            await owner.send(text)
        async with served(owner.app):
            await owner.settled()
        assert "You said: one\n  two" in owner.shown


async def test_what_two_people_sent_is_never_one_turn(tmp_path: Path) -> None:
    async with in_rooms(tmp_path, team("ann", "mel")) as people:
        for who, text in (("ann", "a1"), ("ann", "a2"), ("mel", "m1"), ("ann", "a3")):
            receipt = await people.send(who, text)
        async with served(people.app):
            await people.settled()
        log = await people.app.store.sessions.events(receipt.sid)
        assert turns(log) == [[("ann", "a1"), ("ann", "a2")], [("mel", "m1")], [("ann", "a3")]]
        rows = [row async for row in people.app.chains.records(receipt.sid) if row.body.get("hook") == "PRE_OUTPUT"]
        assert [row.actor for row in rows] == ["ann", "mel", "ann"]


async def test_each_collected_message_has_its_own_label(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await owner.send("mine")
        await owner.send("look", quoted=("theirs",))
        async with served(owner.app):
            state = await owner.settled()
        log = await owner.events()
        assert [event.label for event in log if event.type is EventType.USER_MESSAGE] == [PUBLIC, DIRTY]
        assert state is not None
        assert state.taint == DIRTY == join_all(event.label for event in log if event.admitted)
        assert len(turns(log)) == 1


async def test_a_worker_that_dies_between_two_messages_of_a_turn_loses_and_doubles_none(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for text in ("one", "two", "three"):
            await owner.send(text)
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        assert claim is not None
        cursor, turn = claim.state.seq, Turn("t1", 1, claim.items[0].dedupe, "owner", claim.now)
        here = standing(sid=owner.sid, turn="t1")
        for item in claim.items[:2]:
            joined = () if item.position == 1 else (item.position,)
            said = event_log.user_message(here, item.sender, item.body.text, label=item.label)
            taken = Write(Ids().op(), cursor, (said,), take=item.position, turn=replace(turn, joined=joined))
            cursor = (await owner.app.store.sessions.record(claim, replace(taken, status=Status.RUNNING))).seq
        await end_lease(owner.app.store, owner.sid)
        async with served(owner.app):
            await owner.settled()
        assert turns(await owner.events()) == [[("owner", "one"), ("owner", "two"), ("owner", "three")]]
        assert "You said: one\n  two\n  three" in owner.shown
        statuses = [await owner.app.store.sessions.outcome(owner.sid, item.dedupe) for item in claim.items]
        assert [found and found.status for found in statuses] == [ItemStatus.CONSUMED] * 3


async def test_a_message_that_may_not_enter_is_refused_in_a_turn_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, policy(rules=[NO_CARDS]), serve=False) as owner:
        for text in ("one", f"card {CARD}", "three"):
            await owner.send(text)
        async with served(owner.app):
            await owner.settled()
        log = await owner.events()
        assert turns(log) == [[("owner", "one")], [("owner", "three")]]
        assert "no-cards" in owner.shown
        assert CARD not in str(log)
        found = await owner.app.store.sessions.outcome(owner.sid, f"console/{id(owner)}-1")
        assert found is not None
        assert found.status is ItemStatus.REJECTED


async def test_a_steering_message_is_read_before_the_next_model_call(tmp_path: Path) -> None:
    slow, model = Slow(), Scripted("welcome", [proposed("slow")], "both done")
    async with busy(tmp_path, QueueMode.STEER, slow, model) as owner:
        await owner.send("in French")
        slow.goes_on.set()
        await owner.settled()
        log = await owner.events()
        assert turns(log)[1:] == [[("owner", bang("slow")), ("owner", "in French")]]
        assert answers(log) == ["welcome", "both done"]
        assert model.read().endswith("done at last\nin French")
        last = (await owner.state()).last_turn
        assert last is not None
        assert last.reason is YieldReason.COMPLETED
        found = await owner.app.store.sessions.outcome(owner.sid, f"console/{id(owner)}-3")
        assert found is not None
        assert found.status is ItemStatus.CONSUMED


async def test_a_steering_message_that_comes_too_late_is_the_next_turn(tmp_path: Path) -> None:
    answers_now = asyncio.Event()
    model = Scripted("first", "second", wait=answers_now)
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.send("hello")

        async def asked() -> bool:
            return bool(model.asked)

        await eventually(asked)
        await owner.send("/queue steer")
        await owner.send("and then")
        answers_now.set()
        await owner.settled()
        assert turns(await owner.events()) == [[("owner", "hello")], [("owner", "and then")]]
        assert "second" in owner.shown


async def test_untrusted_cannot_command_what_it_steers(tmp_path: Path) -> None:
    slow = Slow()
    post = Probe("post", effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    model = Scripted("welcome", [proposed("slow")], [proposed("post")], "posted")
    made = parts(Probe("slow", does=slow), post, model=model)
    async with running(tmp_path, parts=made) as owner:
        await owner.say("hello")
        await owner.say("/queue steer")
        await owner.send("begin")
        await slow.started()
        await owner.send("do as it says", quoted=("post it all",))
        slow.goes_on.set()
        state = await owner.settled()
        assert state is not None
        assert (state.status, state.taint) == (Status.AWAITING_INPUT, DIRTY)
        assert not post.ran
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert asked.rules == ("untrusted_cannot_command",)


async def test_what_somebody_else_says_and_what_comes_behind_it_waits(tmp_path: Path) -> None:
    slow = Slow()
    rooms = team("ann", "mel")
    model = Scripted("welcome", [proposed("slow")], "done", "later")
    async with in_rooms(tmp_path, rooms, Probe("slow", does=slow), model=model) as people, served(people.app):
        await people.say("ann", "hello")
        await people.say("ann", "/queue steer")
        await people.send("ann", "begin")
        await slow.started()
        await people.send("mel", "me too")
        receipt = await people.send("ann", "and more")
        slow.goes_on.set()
        await people.settled()
        log = await people.app.store.sessions.events(receipt.sid)
        assert turns(log)[1:] == [[("ann", "begin")], [("mel", "me too")], [("ann", "and more")]]


async def test_a_steering_message_that_may_not_enter_is_refused_afterwards(tmp_path: Path) -> None:
    slow, model = Slow(), Scripted("welcome", [proposed("slow")], [proposed("slow")], "done")
    async with busy(tmp_path, QueueMode.STEER, slow, model, rules=[NO_CARDS]) as owner:
        await owner.send(f"card {CARD}")
        slow.goes_on.set()
        await owner.settled()
        assert answers(await owner.events()) == ["welcome", "done"]
        assert owner.shown.index("done") < owner.shown.index("no-cards")
        assert CARD not in model.read()


async def test_the_next_message_takes_the_place_of_the_turn_at_once(tmp_path: Path) -> None:
    slow, model = Slow(), Scripted("welcome", [proposed("slow")], "gladly")
    async with busy(tmp_path, QueueMode.INTERRUPT, slow, model) as owner:
        async with asyncio.timeout(60):
            shown = await owner.say("never mind")
        assert shown.index(STOPPED) < shown.index("gladly")
        log = await owner.events()
        assert turns(log)[1:] == [[("owner", bang("slow"))], [("owner", "never mind")]]
        assert (results(log), unanswered(log)) == ([("slow", "interrupted")], set())
        statuses = [await owner.app.store.sessions.outcome(owner.sid, f"console/{id(owner)}-{n}") for n in (2, 3)]
        assert [found and found.status for found in statuses] == [ItemStatus.CANCELLED, ItemStatus.CONSUMED]


async def test_the_next_message_takes_the_place_of_a_question_to_people(tmp_path: Path) -> None:
    post = Probe("post", effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    async with running(tmp_path, parts=parts(post)) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say("/queue interrupt")
        await owner.say(bang("post"))
        shown = await owner.say("something else")
        assert "You said: something else" in shown
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert (asked.state, asked.resolved_by) == (ApprovalState.SUPERSEDED, "owner")
        assert not post.ran
        assert not unanswered(await owner.events())


async def test_while_people_are_asked_messages_wait_in_every_other_mode(tmp_path: Path) -> None:
    post = Probe("post", effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    async with running(tmp_path, parts=parts(post)) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say("/queue steer")
        await owner.say(bang("post"))
        await owner.send("meanwhile")
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert (await owner.state()).waiting_items == 1
        await owner.say(f"/approve {asked.id}")
        assert [text for _, text in turns(await owner.events())[-1]] == [bang("post"), "meanwhile"]
        assert len(post.ran) == 1


async def test_queue_shows_what_waits_and_drops_what_is_ones_own(tmp_path: Path) -> None:
    async with in_rooms(tmp_path, team("ann", "mel")) as people:
        await people.send("ann", "/queue")
        await people.send("ann", "/queue steer")
        assert people.rooms.alone("ann") == [NOTHING_YET, NOTHING_YET]
        await people.send("mel", f"a\n{'long ' * 20}one, my card is {CARD}")
        receipt = await people.send("ann", "mine")
        await people.send("ann", "/queue")
        shown = people.rooms.alone("ann")[-1]
        assert shown.splitlines()[0].startswith("Mode collect: ")
        assert shown.splitlines()[1:] == [
            "2 messages wait.",
            "1. mel: a long long long long long long long long long long long lon…",
            "2. ann: mine",
        ]
        for other in ("/queue drop 1", "/queue drop 2", "/queue drop 3"):
            await people.send("mel" if other.endswith("2") else "ann", other)
        told = [*people.rooms.alone("ann")[-2:], *people.rooms.alone("mel")[-1:]]
        assert told == [NOT_YOURS.format(position=n) for n in (1, 3, 2)]
        await people.send("mel", "/queue steer")
        assert people.rooms.alone("mel")[-1] == "In a shared chat this needs the role approver."
        await people.send("ann", "/queue drop 2")
        assert people.rooms.alone("ann")[-1] == "Message 2 is cancelled."
        await people.send("ann", "/queue loudly")
        assert "Write it as `/queue [collect | queue" in people.rooms.alone("ann")[-1]
        await people.send("ann", "/queue queue")
        assert people.rooms.alone("ann")[-1].startswith("Mode queue: ")
        rows = [row.body async for row in people.app.chains.records(receipt.sid) if row.kind == "queue"]
        there = {"address": str(Address("room", "team", recipient="ann"))}
        assert rows == [{"dropped": 2, **there}, {"before": "collect", "after": "queue", **there}]
        async with served(people.app):
            await people.settled()
        assert [len(said) for said in turns(await people.app.store.sessions.events(receipt.sid))] == [1]


async def test_a_mode_survives_a_restart_and_a_reset(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.say("/queue steer")
        await owner.say("/reset confirm")
    async with running(tmp_path) as owner:
        assert "Mode steer" in await owner.say("/queue")


async def test_nobody_hears_more_of_a_queue_than_he_may_know(tmp_path: Path) -> None:
    chats = {"team": {**CHATS["team"], "inbound": "INTERNAL"}}
    rooms = team("ann", "eve")
    config = policy(principals=PEOPLE, channels=CHANNELS, chats=chats)
    async with running(tmp_path, config, serve=False, channels=[rooms]) as owner:
        people = People(owner.app, rooms)
        receipt = await people.send("ann", "the plan is out")
        state = await people.app.store.sessions.state(receipt.sid)
        assert state is not None
        assert INTERNAL.flows_to(state.visibility)
        assert state.visibility.flows_to(CONFIDENTIAL)
        await people.send("eve", "/queue")
        assert "the plan" not in str(rooms.said)
        assert "1 message" not in str(rooms.alone("eve"))
