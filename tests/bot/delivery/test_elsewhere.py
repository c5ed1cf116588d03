"""What is for a channel that another process serves is left to that one, which asks who reads there."""

from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import ElsewhereError
from bot.sessions.deliveries import RISEN, Delivery
from channels.messages import Address
from channels.port import Audience
from policy.labels import Label, Level
from tests.bot.kit import INTERNAL, bang, document, eventually, gate, policy
from tests.bot.rooms import Rooms
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

TEAM, ANN, EVE = (Address("telegram", chat) for chat in ("-7", "1", "2"))
PEOPLE = {
    "owner": principal("console:owner"),
    "ann": principal("telegram:1", role="approver", clearance="INTERNAL"),
}
SECTIONS: dict[str, Any] = {
    "principals": PEOPLE,
    "channels": {
        "console": {"classification": "top", "overshoot": "allow"},
        "telegram": {"classification": "CONFIDENTIAL", "overshoot": "allow"},
    },
    "chats": {"team": {"channel": "telegram", "chat": "-7", "classification": "INTERNAL"}},
    "rules": [{"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}],
    "recipients": {"team": {"channel": "telegram", "chat": "-7", "clearance": "top"}},
}
CONFIG = policy(**SECTIONS, blocks={"channels": {"telegram": {}}})


async def left(owner: Person) -> list[Delivery]:
    """Return what any session wants said on Telegram."""
    found = [state.sid async for state in owner.app.store.sessions.states()]
    every = [one for sid in found for one in await owner.app.store.outbox.deliveries(sid)]
    return [one for one in every if one.address.startswith("telegram:")]


async def states(owner: Person) -> list[str]:
    return sorted(one.state for one in await left(owner))


@pytest.mark.parametrize("reader, said", [("telegram:1", True), ("telegram:2", False)], ids=["ann", "a stranger"])
async def test_a_process_without_the_channel_leaves_what_it_says_to_one_that_has_it(
    tmp_path: Path, reader: str, *, said: bool
) -> None:
    """A message, a background session's result, a question; whoever reads there then is asked by who says it."""
    async with running(tmp_path, CONFIG) as owner:
        read = bang("read_file", path="internal/handbook.md")
        await owner.say(bang("sessions_spawn", task=read, deliver_to="team"))

        async def told() -> bool:
            return RISEN in owner.shown

        await eventually(told)
        await owner.settled()

        async def raised() -> bool:
            # It is refused while a turn is open, as one is when something of the other comes.
            await owner.say("/taint raise INTERNAL")
            return (await owner.state()).taint.level is Level.INTERNAL

        await eventually(raised)
        await owner.say(bang("message", channel="telegram", recipient="team", text="hello there"))
        # The result of the other may come while this waits for an answer.
        await owner.say(bang("current_time"), wait=False)

        async def all_there() -> bool:
            return len(await left(owner)) == 3

        await eventually(all_there)
        assert await states(owner) == ["pending"] * 3
    rooms = Rooms({"-7": frozenset({reader})}, name="telegram")
    async with running(tmp_path, CONFIG, channels=[rooms]) as owner:

        async def done() -> bool:
            return not {"pending", "sending"} & set(await states(owner))

        await eventually(done)
        assert len(rooms.heard(TEAM)) == 2 * said
        assert len(rooms.heard(ANN)) == 1
        assert await states(owner) == ["sent", *(["sent"] * 2 if said else ["withheld"] * 2)]


async def test_what_nobody_may_hear_there_is_not_left_to_anybody(tmp_path: Path) -> None:
    """Neither what is above the place, nor what is for a channel that no process has."""
    async with running(tmp_path, CONFIG) as owner:
        above = bang("read_file", path="confidential/pipeline.md")
        shown = await owner.say(f"{above}\n{bang('message', channel='telegram', recipient='team', text='x')}")
        assert "no_write_down" in shown
        assert await left(owner) == []
    async with running(tmp_path, policy(**SECTIONS)) as owner:
        await owner.say("/reset confirm")
        read = bang("read_file", path="internal/handbook.md")
        await owner.say(bang("sessions_spawn", task=read, deliver_to="team"))

        async def reported() -> bool:
            return bool(await owner.app.store.delegation.held(owner.sid))

        await eventually(reported)
        assert RISEN in owner.shown
        assert await left(owner) == []


async def test_what_may_be_told_there_in_the_background_is_offered(tmp_path: Path) -> None:
    channels = {**SECTIONS["channels"], "console": {"classification": "PUBLIC", "overshoot": "ask"}}
    config = policy(**{**SECTIONS, "channels": channels}, blocks={"channels": {"telegram": {}}})
    async with running(tmp_path, config) as owner:
        shown = await owner.say(bang("read_file", path="internal/handbook.md"))
        assert "In the background, tell team" in shown


@pytest.mark.parametrize(
    "address, clearance", [(TEAM, INTERNAL), (ANN, INTERNAL), (EVE, None)], ids=["a chat", "a person", "a stranger"]
)
async def test_what_may_be_left_is_bounded_by_what_is_known_of_the_place(
    address: Address, clearance: Label | None
) -> None:
    async def elsewhere(_address: Address) -> Audience:
        raise ElsewhereError

    keeper = gate([], document(**SECTIONS), audiences=elsewhere)
    assert (await keeper.readers.prospect(address)).clearance == clearance
    assert (await keeper.readers.destination(address)).clearance is None


async def test_one_that_cannot_tell_its_readers_is_not_another_process() -> None:
    async def broken(_address: Address) -> Audience:
        raise OSError

    async def tells(_address: Address) -> Audience:
        return Audience.of("telegram:1")

    assert (await gate([], document(**SECTIONS), audiences=broken).readers.prospect(TEAM)).clearance is None
    assert (await gate([], document(**SECTIONS), audiences=tells).readers.prospect(TEAM)).clearance == INTERNAL


async def test_a_rule_about_shared_chats_asks_where_the_chat_is_elsewhere_too(tmp_path: Path) -> None:
    rule = {"id": "ask-shared", "hook": "PRE_OUTPUT", "when": "destination_shared", "action": "REQUIRE_APPROVAL"}
    config = policy(**{**SECTIONS, "rules": [rule]}, blocks={"channels": {"telegram": {}}})
    async with running(tmp_path, config) as owner:
        await owner.say(bang("message", channel="telegram", recipient="team", text="hello there"), wait=False)

        async def asked() -> bool:
            return "Asked by `ask-shared`" in owner.shown

        await eventually(asked)
        assert [one.kind for one in await left(owner)] == ["question"]
