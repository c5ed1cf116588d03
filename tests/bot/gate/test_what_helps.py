"""What is offered instead of a refusal helps with who really reads there, and names what it is about."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.access import labelling
from bot.access.principals import of_chat
from bot.access.recipients import UNKNOWN, UNKNOWN_THERE
from bot.cli.terminal.view import ConsoleView
from bot.commands import table
from bot.tools.message import Message
from bot.worker.second_recipient import NOT_FOR_THEM
from channels.messages import Address, Membership, OutboundKind
from channels.port import Audience
from policy.decision import Remedy, Verdict
from tests.bot.kit import (
    CONFIDENTIAL,
    INTERNAL,
    TOP,
    bang,
    document,
    eventually,
    gate,
    policy,
    send,
    standing,
)
from tests.bot.rooms import CHANNELS, PEOPLE, TEAM, Rooms
from tests.harness import Person, running
from tests.people import principal

if TYPE_CHECKING:
    from pydantic import JsonValue

READS = bang("read_file", path="confidential/pipeline.md")
TO_GUEST: "dict[str, JsonValue]" = {"task": "say hi", "deliver_to": "guest"}
OWNER = principal("console:owner")
ANN = principal("console:ann", role="member", clearance="INTERNAL")


# --- what is told to somebody else, too --------------------------------------------------------------


@pytest.mark.anyio
async def test_no_write_down_what_can_never_be_told_to_a_recipient_is_refused_at_once(tmp_path: Path) -> None:
    """The task carries what was read, so nothing that follows from it could be told there; a preview says so."""
    async with running(tmp_path) as owner:
        await owner.say(READS)
        shown = await owner.say(bang("simulate_tool_call", tool_name="sessions_spawn", args=TO_GUEST))
        assert '"verdict": "BLOCK"' in shown
        shown = await owner.say(bang("sessions_spawn", **TO_GUEST))
        assert "Refused: sessions_spawn.\n  Rule `no_write_down`" in shown
        assert not await owner.app.store.approvals.of(owner.sid)
        assert not await owner.app.store.delegation.slots("owner")


@pytest.mark.anyio
async def test_no_write_down_who_reads_there_counts_and_not_the_name_alone(tmp_path: Path) -> None:
    """An alias that is cleared for it, whose reader is nobody here."""
    desk = {"desk": {"channel": "console", "chat": "desk", "clearance": "top"}}
    async with running(tmp_path, policy(recipients=desk)) as owner:
        await owner.say(READS)
        shown = await owner.say(bang("sessions_spawn", task="say hi", deliver_to="desk"))
        assert "Refused: sessions_spawn.\n  Rule `no_write_down`" in shown


@pytest.mark.anyio
async def test_what_a_rule_says_of_the_moment_does_not_refuse_what_is_told_later(tmp_path: Path) -> None:
    rule = {"id": "never", "hook": "PRE_OUTPUT", "action": "BLOCK", "when": 'destination_address == "console::guest:"'}
    async with running(tmp_path, policy(rules=[rule])) as owner:
        assert "accepted" in await owner.say(bang("sessions_spawn", **TO_GUEST))


@pytest.mark.anyio
async def test_its_person_is_told_in_private_that_nobody_else_was(tmp_path: Path) -> None:
    """It rose after it was given, so nothing is told to the recipient; its person hears that where they are cleared."""
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=READS, deliver_to="guest"))

        async def told() -> bool:
            return "was not sent to `guest`" in owner.shown

        await eventually(told)
        assert NOT_FOR_THEM in owner.shown
        assert "→ guest" not in owner.shown


@pytest.mark.anyio
async def test_its_person_is_told_nothing_where_nobody_may_know_it(tmp_path: Path) -> None:
    """Neither is anybody at an address that is not cleared for what was read."""
    channels = {"console": {"classification": "PUBLIC", "inbound": "PUBLIC", "overshoot": "allow"}}
    async with running(tmp_path, policy(channels=channels)) as owner:
        await owner.say(bang("sessions_spawn", task=READS, deliver_to="guest"))

        async def over() -> bool:
            slots = await owner.app.store.delegation.slots("owner")
            states = [await owner.app.store.sessions.state(slot.sid) for slot in slots]
            return bool(states) and all(state is None or state.ended_at for state in states)

        await eventually(over)
        await owner.settled()
        assert "was not sent" not in owner.shown


# --- whose clearance -----------------------------------------------------------------------------------


async def offered(recipients: Mapping[str, object], name: str, **people: object) -> set[Remedy]:
    """Return what is offered against sending what is CONFIDENTIAL to somebody at the console."""

    async def alone(address: Address) -> Audience:
        return Audience.of(f"console:{address.chat}")

    known = document(principals={"owner": OWNER, **people}, recipients=recipients)
    keeper = gate([Message()], known, audiences=alone)
    here = standing(CONFIDENTIAL)
    decision = (await keeper.calls.foresee(here, keeper.calls.prepare(here, send("hi", name)))).decision
    assert decision.verdict is Verdict.BLOCK
    return set(decision.remedies)


@pytest.mark.anyio
async def test_for_a_person_it_is_their_clearance_that_is_named() -> None:
    """As it works: with that raised, the same is let through."""
    remedies = await offered({}, "ann", ann=ANN)
    assert Remedy.CLEAR_READER in remedies
    assert Remedy.RECLASSIFY not in remedies
    known = document(principals={"owner": OWNER, "ann": {**ANN, "clearance": "CONFIDENTIAL"}})
    decision = gate([Message()], known).calls.prepare(standing(CONFIDENTIAL), send("hi", "ann")).decision
    assert decision.verdict is Verdict.ALLOW


@pytest.mark.anyio
async def test_where_a_guest_reads_no_clearance_helps() -> None:
    alias = {"desk": {"channel": "console", "chat": "desk", "clearance": "PUBLIC"}}
    remedies = await offered(alias, "desk")
    assert not {Remedy.CLEAR_READER, Remedy.RECLASSIFY, Remedy.VOUCH} & remedies
    assert Remedy.OTHER_DESTINATION in remedies


@pytest.mark.anyio
async def test_where_the_place_is_classified_too_low_that_is_named() -> None:
    alias = {"desk": {"channel": "console", "chat": "ann", "clearance": "PUBLIC"}}
    cleared = {**ANN, "clearance": "CONFIDENTIAL"}
    remedies = await offered(alias, "desk", ann=cleared)
    assert Remedy.RECLASSIFY in remedies
    assert Remedy.CLEAR_READER not in remedies


def test_a_group_that_cannot_be_listed_is_vouched_for_also_where_something_is_read() -> None:
    """After somebody joined, what is typed there goes no further than into a refusal, whose cause that is."""
    chat = {"channel": "room", "chat": "team", "classification": "INTERNAL", "overshoot": "ask"}
    known = document(principals=PEOPLE, channels=CHANNELS, chats={"team": chat})
    there = labelling.destination(known, TEAM, Audience.of("room:ann", complete=False, shared=True))
    here = standing(home=TEAM, destination=there, principal=of_chat(TEAM), asker="ann")
    assert Remedy.VOUCH in gate([], known).requests.admit(here, INTERNAL, "hello").decision.remedies


# --- names -----------------------------------------------------------------------------------------------


async def progress(owner: Person) -> list[str]:
    """Return the status lines of the console."""
    lines = list[str]()

    async def show(line: str) -> None:
        lines.append(line)

    await ConsoleView(
        owner.app.store.sessions, owner.sid, show, frozenset(tool.name for tool in owner.app.gate.tools)
    ).follow(TOP)
    return lines


@pytest.mark.anyio
async def test_a_misspelt_tool_is_told_the_nearest_name(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        shown = await owner.say("!web_fetsh {}")
        assert await progress(owner) == ["· a call refused by unknown_is_worst"]
        assert "this tool is not known, did you mean `web_fetch`?" in shown
        assert "declare the tool" not in shown + await owner.say("/why")
        assert "did you mean `web_fetch`?" in await owner.say("/simulate web_fetsh")


@pytest.mark.anyio
async def test_an_unknown_recipient_is_told_in_the_words_of_the_tool(tmp_path: Path) -> None:
    """`message` has its channel in a field of its own, `deliver_to` in the name."""
    async with running(tmp_path) as owner:
        await owner.say("hello")
        assert UNKNOWN_THERE in await owner.say("/message console console:guest hi")
        assert UNKNOWN in await owner.say(bang("sessions_spawn", task="x", deliver_to="nobody"))


# --- who vouches -----------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_admins_are_told_once_that_a_join_took_back_what_was_vouched_for(tmp_path: Path) -> None:
    rooms = Rooms({"team": frozenset({"room:ann"})}, complete=False)
    chats = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL", "members_vouched": True}}
    async with running(
        tmp_path, policy(principals=PEOPLE, channels=CHANNELS, chats=chats), serve=False, channels=[rooms]
    ) as owner:
        for number in range(2):
            await owner.app.receive(Membership(TEAM, "room:eve", joined=True, dedupe=f"m{number}"))
        (told,) = [sent for sent in rooms.sent if sent.kind is OutboundKind.NOTICE]
        assert told.address.chat == "ann"
        assert "Nobody vouches for the members of room:team any more" in told.text
        (button,) = told.buttons
        assert button.command == "/classify room:team vouch"
        assert table.may_be_pressed(button.command)
