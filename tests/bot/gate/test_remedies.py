"""What is offered in place of a refusal works from where it is offered, when it is carried out for real."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.access import labelling
from bot.access.principals import of_chat
from bot.gate.results import denial
from bot.sessions.background.runs import run_home
from bot.sessions.log.events import EventType
from bot.tools.base import CallFacts
from bot.tools.sending import ABOVE_TARGET, UNLESS_PARENT_ROSE
from channels.messages import Address
from channels.port import Audience, Reader, ReaderKind
from policy.decision import Decision, Remedy, Verdict
from policy.document.model import Document
from policy.document.reading import API
from policy.explain import REST, REST_SHARED
from policy.labels import Label, parse
from policy.request import Destination, Role
from tests.bot.kit import Probe, bang, call, document, eventually, gate, standing
from tests.bot.kit import policy as config
from tests.bot.rooms import CHANNELS, PEOPLE, TEAM, talking, team
from tests.harness import Person, running
from tests.people import principal

if TYPE_CHECKING:
    from pydantic import JsonValue

READS = bang("read_file", path="confidential/pipeline.md")
CLASSES = ("PUBLIC", "INTERNAL", "CONFIDENTIAL")
ROLES = {"ann": Role.ADMIN, "mel": Role.MEMBER, "eve": Role.GUEST}


def preview(sid: str) -> str:
    """Return a call that looks at what sending to a session would come to."""
    args: dict[str, JsonValue] = {"session_id": sid, "content": "x"}
    return bang("simulate_tool_call", tool_name="sessions_send", args=args)


def classified(label: str, *, vouched: bool = False) -> Document:
    chat = {"channel": "room", "chat": "team", "classification": label, "members_vouched": vouched}
    return document(principals=PEOPLE, channels=CHANNELS, chats={"team": chat})


def said(policy: Document, audience: Audience, asker: str, taint: Label) -> tuple[Verdict, tuple[Remedy, ...]]:
    """Return what is decided on an answer in the team's room, and what is offered."""
    there = labelling.destination(policy, TEAM, audience)
    here = standing(
        taint,
        principal=of_chat(TEAM),
        asker=asker,
        role=ROLES[asker],
        ceiling=labelling.ceiling(policy, of_chat(TEAM), asker),
        home=TEAM,
        destination=there,
    )
    decision = gate([], policy).output.speak(here, there, "hello").decision
    return decision.verdict, decision.remedies


@dataclass(frozen=True)
class Room:
    """The team's room: what it is classified for, who reads there, who asks, and what was read."""

    label: str
    vouched: bool
    readers: frozenset[str]
    complete: bool
    asker: str
    read: str

    def decided(self, policy: Document, taint: Label) -> tuple[Verdict, tuple[Remedy, ...]]:
        audience = Audience.of(*self.readers, complete=self.complete, shared=True)
        return said(policy, audience, self.asker, taint)

    def typed(self, policy: Document) -> Label:
        return labelling.inbound(policy, TEAM, ROLES[self.asker], authored=True, shared=True)


ROOMS = st.builds(
    Room,
    label=st.sampled_from(CLASSES),
    vouched=st.booleans(),
    readers=st.frozensets(st.sampled_from(("room:ann", "room:mel", "room:eve", "room:x"))),
    complete=st.booleans(),
    asker=st.sampled_from(tuple(ROLES)),
    read=st.sampled_from(CLASSES),
)


@given(ROOMS)
def test_what_is_offered_in_a_shared_chat_works_there(room: Room) -> None:
    """Each remedy is carried out in the policy, or on what was read, and the same is decided again."""
    policy = classified(room.label, vouched=room.vouched)
    taint = room.typed(policy).join(parse(room.read))
    verdict, remedies = room.decided(policy, taint)
    lower = [classified(one, vouched=room.vouched) for one in CLASSES]
    tried = {
        Remedy.RESET: lambda: room.decided(policy, room.typed(policy)),
        Remedy.RECLASSIFY: lambda: room.decided(classified("CONFIDENTIAL", vouched=room.vouched), taint),
        Remedy.VOUCH: lambda: room.decided(classified(room.label, vouched=True), taint),
        Remedy.CLASSIFY_LOWER: lambda: min(room.decided(one, room.typed(one)) for one in lower),
    }
    for remedy in tried.keys() & set(remedies):
        assert tried[remedy]()[0] < verdict


def test_a_reset_is_not_offered_where_an_uncleared_person_reads_what_is_typed() -> None:
    """In a group classified INTERNAL the same would be refused alike; a lower classification is the way."""
    audience = Audience.of("room:mel", "room:eve", shared=True)
    verdict, remedies = said(classified("INTERNAL"), audience, "mel", parse("INTERNAL"))
    assert verdict is Verdict.BLOCK
    assert set(remedies) == {Remedy.PRIVATE_CHAT, Remedy.OTHER_DESTINATION, Remedy.CLASSIFY_LOWER}


def test_a_public_channel_of_a_workspace_is_classified_lower_not_higher() -> None:
    workspace = Audience(
        frozenset({Reader("room:mel"), Reader("room:x", ReaderKind.MEMBER)}), complete=True, shared=True
    )
    _, remedies = said(classified("INTERNAL"), workspace, "mel", parse("INTERNAL"))
    assert Remedy.CLASSIFY_LOWER in remedies
    assert not {Remedy.RECLASSIFY, Remedy.VOUCH, Remedy.RESET} & set(remedies)


def test_an_admin_may_vouch_for_a_group_that_cannot_be_listed() -> None:
    group = Audience.of("room:mel", complete=False, shared=True)
    _, remedies = said(classified("INTERNAL"), group, "mel", parse("INTERNAL"))
    assert Remedy.VOUCH in remedies
    assert Remedy.RECLASSIFY not in remedies


def test_a_background_session_is_not_told_to_reset() -> None:
    home = Address("session", "s1", "owner", "run")
    here = standing(parse("CONFIDENTIAL"), home=home)
    assert (
        Remedy.RESET
        not in gate([]).output.speak(here, labelling.destination(document(), home, _nobody()), "x").decision.remedies
    )


def _nobody() -> Audience:
    return Audience(frozenset(), complete=False)


@pytest.mark.anyio
async def test_why_finds_a_denial_in_a_thread_and_no_other_persons(tmp_path: Path) -> None:
    thread = Address("room", "team", thread="7")
    async with talking(tmp_path, team("ann", "mel")) as people:
        await people.say("ann", bang("read_file", path="confidential/pipeline.md"), thread)
        await people.say("ann", "/why")
        assert "no_write_down" in people.rooms.alone("ann")[-1]
        await people.say("mel", "/why")
        assert people.rooms.alone("mel") == ["Nothing was refused in this conversation."]


@pytest.mark.anyio
async def test_a_preview_tells_that_what_is_sent_will_be_held(tmp_path: Path) -> None:
    """As far as the caller may know of the target; one it may not know of is absent."""
    recipients = {"desk": {"channel": "console", "chat": "desk", "clearance": "top"}}
    both = principal("console:owner", "console:desk")
    async with running(tmp_path, config(principals={"owner": both}, recipients=recipients)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        await desk.say("hello")
        assert ABOVE_TARGET not in await owner.say(preview(desk.sid))
        await owner.say(READS)
        assert ABOVE_TARGET in await owner.say(preview(desk.sid))
        assert "there is no such session" in await desk.say(preview(owner.sid))


@pytest.mark.anyio
async def test_a_background_session_previews_what_its_parent_will_not_be_let_hear(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=preview("parent")))
        await owner.say(bang("sessions_spawn", task=f"{READS}\n{preview('parent')}"))

        async def previews() -> list[str]:
            children = [slot.sid for slot in await owner.app.store.delegation.slots("owner")]
            logs = [await owner.app.store.sessions.events(child) for child in children]
            results = [str(event.body) for log in logs for event in log if event.type is EventType.TOOL_RESULT]
            return [result for result in results if "taint_before" in result]

        async def both() -> bool:
            return len(await previews()) == 2

        await eventually(both)
        assert sum(UNLESS_PARENT_ROSE in one for one in await previews()) == 1


@pytest.mark.anyio
async def test_nobody_is_asked_about_what_would_then_be_withheld(tmp_path: Path) -> None:
    """Who reads there is asked before people are, and a preview says the same."""
    config_chats = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}}
    recipients = {"team": {"channel": "room", "chat": "team", "clearance": "INTERNAL"}}
    async with talking(tmp_path, team("ann", "eve"), chats=config_chats, recipients=recipients) as people:
        home = Address("room", "ann")
        tell: dict[str, JsonValue] = {"channel": "room", "recipient": "team", "text": "hi"}
        await people.say("ann", bang("read_file", path="internal/office.md"), home)
        await people.say("ann", bang("simulate_tool_call", tool_name="message", args=tell), home)
        assert '"verdict": "BLOCK"' in people.rooms.heard(home)[-1]
        await people.say("ann", bang("message", **tell), home)
        assert "Refused: " in people.rooms.heard(home)[-1]
        assert not await people.app.store.approvals.of(people.app.session_id(home))


def test_a_question_that_can_be_shown_to_nobody_is_not_promised() -> None:
    """Neither where its readers may not know what was read, nor where a rule looks at its words."""
    rule = {"id": "cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}
    nowhere = labelling.destination(document(), TEAM, _nobody())
    probe = Probe(declared=CallFacts(consequential=True))

    def decided(policy: Document, text: str, **where: object) -> Verdict:
        here = standing(parse("INTERNAL~"), **where)
        return gate([probe], policy).calls.prepare(here, call("probe", {"text": text})).decision.verdict

    assert decided(document(), "hi") is Verdict.REQUIRE_APPROVAL
    assert decided(document(), "hi", destination=nowhere) is Verdict.BLOCK
    assert decided(document(rules=[rule]), "hi") is Verdict.REQUIRE_APPROVAL
    assert decided(document(rules=[rule]), "4111 1111 1111 1111") is Verdict.BLOCK


@pytest.mark.parametrize(
    "changes,rest",
    [
        ({}, REST),
        ({"destination": Destination(str(TEAM), "room", parse("PUBLIC"), shared=True)}, REST_SHARED),
        ({"turn": ""}, ""),
        ({"home": Address(API, "s1", "api-ci")}, ""),
        ({"home": Address("session", "s1", "owner", "run")}, ""),
        ({"home": run_home("owner", "r_1")}, ""),
    ],
    ids=["chat", "shared chat", "no turn", "program", "background session", "run"],
)
def test_a_denial_is_brief_only_where_why_tells_the_rest(changes: dict[str, object], rest: str) -> None:
    remedies = (Remedy.RESET, Remedy.OTHER_DESTINATION)
    refused = Decision(Verdict.BLOCK, (), parse("PUBLIC"), parse("PUBLIC"), remedies)
    *lines, last = denial(standing(parse("PUBLIC"), **changes), refused, parse("PUBLIC"), "message").splitlines()
    assert (last == rest, len([line for line in (*lines, last) if line.startswith("You can:")])) == (
        (True, 1) if rest else (False, 2)
    )


@pytest.mark.anyio
async def test_a_denial_told_in_private_says_where_to_type_why(tmp_path: Path) -> None:
    """`/why` in the private chat, where the notice may arrive, tells the refusals of another conversation."""
    async with talking(tmp_path, team("ann", "mel")) as people:
        await people.say("ann", bang("read_file", path="confidential/pipeline.md"))
        assert REST_SHARED in people.rooms.alone("ann")[-1]
