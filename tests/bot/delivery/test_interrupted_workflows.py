"""What was interrupted is offered when its principal comes back: once, alone, and where it may be known."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bot.access.principals import of_chat
from bot.delivery.interrupted_workflows import MOST, SILENCE_MS, InterruptedNotice, InterruptedWorkflows, buttons
from bot.sessions.deliveries import NewDelivery, interrupted_key
from bot.sessions.log.event_types import YieldReason
from bot.sessions.messages import Origin, OriginKind
from bot.sessions.models import LastTurn
from bot.workflows.views import WorkflowActor
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC, Label
from policy.request import Destination
from tests.bot.kit import CONFIDENTIAL, DIRTY, bang, by_hand, policy
from tests.bot.rooms import TEAM, talking, team
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

BOTH: Final = {"role": "owner", "clearance": "top", "accounts": ["console:owner", "console:desk"]}
DESK: Final = {"desk": {"channel": "console", "chat": "desk", "clearance": "INTERNAL"}}
STOPPED: Final = "Workflow harbour stopped in step 1 (Draft) at outline, a moment ago."


async def begun(
    owner: Person, label: Label = PUBLIC, project: str = "harbour", *, whose: str = "owner", sid: str = "gone"
) -> None:
    """Leave a workflow with a step in progress."""
    actor, keeper = WorkflowActor(whose, "owner", label, label, sid=sid), owner.app.workflows
    made = await keeper.start(actor, project, "note-review", op=f"{whose}/{project}/{label}")
    await keeper.begin_step(actor, project, "1", made.workflow.version, op=f"{whose}/{project}/{label}/1")


def desk(owner: Person) -> Person:
    return Person(owner.app, owner.output, Address("console", "desk"), "console:desk")


async def test_it_is_offered_at_the_first_turn_and_once(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals={"owner": BOTH})) as owner:
        await begun(owner)
        said = await owner.say("good morning")
        assert STOPPED in said
        assert said.index(STOPPED) < said.index("You said: good morning")
        for button in buttons("harbour"):
            assert button.command in said
        assert "stopped in" not in await owner.say("well")
        # Nor after it was reset: the person of this chat knows.
        await owner.say("/reset confirm")
        assert "stopped in" not in await owner.say("hello")
        # Another conversation of theirs has not heard.
        assert STOPPED in await desk(owner).say("good morning")


async def test_what_goes_on_is_not_offered(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals={"owner": BOTH})) as owner:
        await owner.say("/workflow start harbour note-review")
        # A session that works on it in this very turn.
        said = await owner.say(bang("workflow", action="step", project="harbour", step="1", version=1))
        assert "stopped in" not in said
        # One that waits for its person works on it, too.
        await owner.say(bang("ask_user", question="Which quay?"), wait=False)
        await owner.settled()
        assert (await owner.state()).status.value == "awaiting_input"
        there = desk(owner)
        assert "stopped in" not in await there.say("good morning")
        await owner.say("the northern one")
        await there.say("/reset confirm")
        assert "stopped in" in await there.say("good evening")


async def test_what_is_done_is_not_offered(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await begun(owner)
        actor = WorkflowActor("owner", "owner", PUBLIC, PUBLIC)
        await owner.app.workflows.complete(actor, "harbour", 2, op="done")
        assert "stopped in" not in await owner.say("good morning")


async def test_to_resume_offers_nothing_beside(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await begun(owner)
        said = await owner.say("/workflow resume harbour")
        assert "The agent goes on with workflow harbour: step 1 (Draft) at outline." in said
        assert "stopped in" not in said


async def test_above_an_address_nothing_is_offered(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals={"owner": BOTH}, recipients=DESK)) as owner:
        await begun(owner, CONFIDENTIAL)
        said = await desk(owner).say("good morning")
        assert said.strip().removeprefix("→ desk: ") == "You said: good morning"
        assert STOPPED in await owner.say("good morning")
        (offer,) = [one for one in await owner.app.store.outbox.deliveries(owner.sid) if one.interrupted]
        assert (offer.label, offer.kind, offer.interrupted) == (CONFIDENTIAL, OutboundKind.OFFER, "harbour")
        # What the person was told is not in the context.
        assert (await owner.state()).taint == PUBLIC


async def test_what_a_session_left_that_read_a_page_is_offered_and_raises_who_resumes_it(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals={"owner": BOTH}, recipients=DESK)) as owner:
        await begun(owner, DIRTY)
        there = desk(owner)
        assert STOPPED in await there.say("good morning")
        assert (await there.state()).taint == PUBLIC
        await there.say("/workflow resume harbour")
        assert (await there.state()).taint == DIRTY


async def test_in_a_shared_chat_nothing_is_offered(tmp_path: Path) -> None:
    rooms = team("ann", "mel")
    chats = {"team": {"channel": "room", "chat": "team", "classification": "PUBLIC"}}
    async with talking(tmp_path, rooms, chats=chats) as people:
        owner = Person(people.app, None)  # pyright: ignore[reportArgumentType] - nothing is read there
        await begun(owner, whose=of_chat(TEAM))
        await begun(owner, whose="ann")
        await people.say("ann", "good morning")
        assert not any("stopped in" in text for text in rooms.said)
        await people.say("ann", "good morning", Address("room", "ann"))
        assert any(STOPPED in text for text in rooms.heard(Address("room", "ann")))


async def test_only_so_many_are_offered(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for number in range(MOST + 1):
            await begun(owner, project=f"quay-{number}")
        assert (await owner.say("good morning")).count("stopped in") == MOST


def test_a_key_tells_its_project() -> None:
    key = interrupted_key("a-b.c", 12)
    new = NewDelivery(key, "console/owner", "text", PUBLIC)
    assert new.key == "workflow-12-a-b.c"


HOUR: Final = 60 * 60 * 1000


@pytest.mark.parametrize(
    "silence, earlier, offered",
    [(SILENCE_MS - 1, 0, False), (SILENCE_MS, 0, True), (2 * HOUR, 23 * HOUR, True), (2 * HOUR, 25 * HOUR, False)],
)
async def test_after_an_hour_it_is_offered_unless_it_was_heard_of_before(
    tmp_path: Path, silence: int, earlier: int, *, offered: bool
) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await begun(owner)
        # As if the last turn had ended so long ago, and the interruption had come before that.
        (known,) = await owner.app.workflows.interrupted("owner", PUBLIC)
        last = known.touched_at + earlier
        event = replace((await owner.events())[0], turn="before", ts=last)
        state = replace(turn.claim.state, last_turn=LastTurn("before", YieldReason.COMPLETED))
        turn.claim = replace(turn.claim, events=(event,), state=state)
        turn.record = replace(turn.record, started_at=last + silence)
        app = owner.app
        made = await InterruptedWorkflows(app.workflows, app.store.sessions, app.store.outbox, app.gate).before(turn)
        assert len(made.deliver) == len(made.audit) == int(offered)


async def test_what_is_above_an_address_is_not_even_decided_about(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await begun(owner, CONFIDENTIAL)
        offering = InterruptedWorkflows(
            owner.app.workflows, owner.app.store.sessions, owner.app.store.outbox, owner.app.gate
        )
        assert len((await offering.before(turn)).deliver) == 1
        turn.standing = replace(turn.standing, destination=Destination("console/owner", "console", PUBLIC))
        assert await offering.before(turn) == InterruptedNotice()


async def test_a_turn_that_no_person_began_offers_nothing(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await begun(owner)
        app = owner.app
        offering = InterruptedWorkflows(app.workflows, app.store.sessions, app.store.outbox, app.gate)
        (item,) = turn.claim.items
        sent = replace(item, body=replace(item.body, origin=Origin(OriginKind.MESSAGE, "s2")))
        whole, turn.claim = turn.claim, replace(turn.claim, items=(sent,))
        assert await offering.before(turn) == InterruptedNotice()
        turn.claim = whole
        turn.standing = replace(turn.standing, asker="bea")
        assert await offering.before(turn) == InterruptedNotice()
