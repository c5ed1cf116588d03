"""Law `no_read_up`, run twice: once without and once with what is hidden, and every answer is the same byte for byte.

An installation is asked everything a PUBLIC session and a person at a PUBLIC address can ask about sessions. Then
sessions above PUBLIC, and another person's, are put into the same store, under the very ids that were asked for, and
all is asked again. `QUESTIONS` and `COMMANDS` are the table: a new tool or command about sessions belongs there. Time
is outside the law: how long an answer takes may tell that there was more to look at, and nothing here measures it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.access.authorize import Caller, Ingress
from bot.access.decision_context import Call
from bot.core.errors import ArchivedError, BusyError
from bot.core.ids import receipt_id
from bot.delegation.handoff import dedupe
from bot.sessions.background.delegation import SESSION, Arrival, Errand, Lineage, Parcel
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import ToolOutcome, ToolResult
from bot.sessions.log.events import NewEvent
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Title, Write
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Role
from tests.bot.kit import NOW, policy, standing, unrecorded
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import event, fresh, taken_slot

HIDDEN: Final = "hidden0"
"""The id that is asked for, of a session that is not there in the first run and hidden in the second."""

QUESTIONS: Final[tuple[tuple[str, dict[str, JsonValue]], ...]] = (
    ("sessions_list", {}),
    ("sessions_list", {"limit": 1}),
    ("sessions_list", {"limit": 3}),
    ("sessions_list", {"limit": 2, "cursor": "{cursor}"}),
    ("sessions_list", {"cursor": "forged"}),
    ("sessions_list", {"kind": "task"}),
    ("sessions_list", {"active_within": 1_000_000}),
    ("sessions_list", {"principal": "ann"}),
    ("sessions_history", {"session_id": HIDDEN}),
    ("sessions_history", {"session_id": HIDDEN, "cursor": 3, "include_tools": True}),
    ("sessions_history", {"session_id": "{own}", "include_tools": True}),
    ("sessions_history", {"session_id": "{other}"}),
    ("session_status", {"session_id": HIDDEN}),
    ("session_status", {"session_id": "{own}"}),
    ("session_status", {"session_id": "{other}"}),
    ("session_status", {}),
    ("sessions_send", {"session_id": HIDDEN, "content": "hi"}),
    ("sessions_send", {"session_id": "{own}", "content": "hi"}),
    ("sessions_send", {"session_id": "parent", "content": "hi"}),
    ("session_status", {"receipt": "receipt-invented"}),
    *(("session_status", {"receipt": f"{{receipt{n}}}"}) for n in range(4)),
    ("session_status", {"receipt": "{receipt-to-other}"}),
    ("session_status", {"receipt": "{receipt-of-other}"}),
    ("simulate_tool_call", {"tool_name": "sessions_history", "args": {"session_id": HIDDEN}}),
    ("simulate_tool_call", {"tool_name": "session_status", "args": {"session_id": HIDDEN}}),
    ("simulate_tool_call", {"tool_name": "sessions_list", "args": {}}),
)
"""Tool calls of a PUBLIC session."""

COMMANDS: Final = (
    "/sessions",
    "/sessions {page}",
    "/sessions forged",
    "/history",
    "/history {other}",
    f"/history {HIDDEN}",
    f"/history {HIDDEN} 3",
    "/export",
    "/export {other}",
    f"/export {HIDDEN}",
    "/sessions kind=task",
    "/sessions active=1000000 {page}",
    "/history tools",
    f"/history {HIDDEN} 3 tools",
    "/status",
    "/status receipt-invented",
    *(f"/status {{receipt{n}}}" for n in range(4)),
    "/status {receipt-to-other}",
    "/status {receipt-of-other}",
    "/taint",
    "/approvals",
    f"/send {HIDDEN} hi",
    "/agents",
    f"/agents log {HIDDEN}",
    f"/agents cancel {HIDDEN}",
    "/queue",
    "/queue drop 1",
    "/held",
    f"/held accept {HIDDEN}",
    f'/simulate sessions_history {{"session_id": "{HIDDEN}"}}',
)
"""What a person types at a PUBLIC address."""

_POLICY: Final = policy(
    blocks={"limits": {"simulations_per_minute": 10_000}},
    compartments=["hr"],
    principals={
        "owner": principal("console:owner"),
        "ann": principal("console:ann", role="member"),
    },
)
_LABELS: Final = ("INTERNAL", "CONFIDENTIAL", "CONFIDENTIAL{hr}~", "PUBLIC{hr}")


@dataclass(frozen=True)
class Secret:
    """One thing to hide: a session above PUBLIC or another person's, or something sent to one that is seen."""

    label: str
    who: str = "owner"
    child: bool = False
    raised: bool = False
    parcel: bool = False
    title: str = ""


_ALWAYS: Final = (
    Secret("CONFIDENTIAL", child=True, title="x"),
    Secret("INTERNAL", raised=True),
    Secret("INTERNAL", parcel=True),
    Secret("PUBLIC", who="ann"),
)


def _sent(label: str) -> Secret:
    return Secret(label, parcel=True)


_labels = st.sampled_from(_LABELS)
_secrets = st.lists(
    st.one_of(
        st.builds(Secret, _labels, child=st.booleans(), raised=st.booleans(), title=st.text(max_size=5)),
        st.builds(Secret, st.sampled_from(("PUBLIC", *_LABELS)), who=st.just("ann")),
        st.builds(_sent, _labels),
    ),
    min_size=1,
    max_size=6,
)


class World:
    """An installation with a few sessions that everybody here may know of."""

    def __init__(self, owner: Person, now: int) -> None:
        self.own = owner
        self.other = Person(owner.app, owner.output, Address("console", "other"))
        self._now = now
        self._receipts = dict[str, str]()

    async def begin(self) -> None:
        """Say something in a few sessions and wait until all is still."""
        third = Person(self.own.app, self.own.output, Address("console", "third"))
        for person in (self.own, self.other, third):
            await person.say("hello")
        for n in range(4):
            self._receipts[f"{{receipt{n}}}"] = await self._sent(self.own, f"hidden{n}")
        self._receipts["{receipt-to-other}"] = await self._sent(self.own, self.other.sid)
        self._receipts["{receipt-of-other}"] = await self._sent(self.other, self.own.sid)
        await self.own.settled()
        for person in (self.other, third):
            await person.say("hello")
        # A sweep files what is there by its true times, which are a little different; let that be over.
        await self.own.app.store.wake.sweep()

    async def at_rest(self) -> list[str]:
        """Return the answers once they are the same twice, when what a loaded machine puts right late is put right."""
        before = list[str]()
        while before != (now := await self.answers()):
            before = now
        return now

    async def _sent(self, sender: Person, sid: str) -> str:
        """Let a session have sent something to another one, whether there is such a one or not; return the receipt."""
        await sender.settled()
        store, there = sender.app.store, str(Address(SESSION, sid, "owner", "1"))
        claim = await store.sessions.claim(sender.sid, fresh(), idle=True)
        assert claim is not None
        new = NewDelivery(sid, there, "hi", PUBLIC, "message", hops=1)
        await store.sessions.record(claim, Write(fresh(), claim.state.seq, deliver=(new,), release=True), sender="me")
        (sent,) = [one for one in await store.outbox.deliveries(sender.sid) if one.key == sid]
        await store.outbox.settle(sent, "me", DeliveryState.SENT, arrival=Arrival.WAITING)
        await store.delegation.receive(_parcel(sent, sid))
        return receipt_id(sid)

    async def hide(self, secrets: list[Secret]) -> None:
        """Put what is hidden into the store, one of each kind at least, the first under the id that was asked for."""
        for n, secret in enumerate((*_ALWAYS, *secrets)):
            await self._hide(secret, f"hidden{n}")
        for sent in await self.own.app.store.outbox.deliveries(self.own.sid):
            # What was sent arrives, and is read or waits, for all that its sender can tell.
            if sent.key.startswith("hidden"):
                await self.own.app.store.delegation.receive(_parcel(sent, sent.key))

    async def _hide(self, secret: Secret, sid: str) -> None:
        store, label = self.own.app.store, parse(secret.label)
        if secret.parcel:
            state = await self.own.state()
            await store.delegation.receive(
                Parcel(self.own.sid, state.generation, sid, "owner", label, SessionMessage("high"))
            )
            return
        # One that its parent was told of when it rose; what it does since then is hidden.
        lineage = Lineage(self.own.sid, 1, sid, 1, 2**50, known=label) if secret.child else None
        if secret.child:
            await taken_slot(store, "owner", sid, self.own.sid, pool=str(label))
        typed = PUBLIC if secret.raised else label
        # One that is to rise first is nothing for the worker, which would be done with it before.
        home = str(Address("elsewhere" if secret.raised else "console", sid))
        item = NewItem(sid, "d", secret.who, typed, SessionMessage("high"), home, secret.who, lineage=lineage)
        await store.sessions.accept(replace(item, reserved=2**50))
        if secret.raised:
            claim = await store.sessions.claim(sid, fresh(), idle=True)
            assert claim is not None
            await store.sessions.record(claim, Write(fresh(), claim.state.seq, events=(_read(label),), release=True))
        if secret.title:
            # A task that the worker has done is archived.
            with suppress(ArchivedError):
                await store.sessions.name(sid, Title(secret.title, PUBLIC))

    async def answers(self) -> list[str]:
        """Ask everything; return the answers."""
        return [answer async for answer in self._asked()]

    async def _asked(self) -> AsyncIterator[str]:
        names = {"{own}": self.own.sid, "{other}": self.other.sid}
        names |= self._receipts
        names["{cursor}"] = json.loads(await self._called("sessions_list", {"limit": 2}))["cursor"]
        for tool, arguments in QUESTIONS:
            yield await self._called(tool, json.loads(_filled(json.dumps(arguments), names)))
        caller = Caller("owner", Role.OWNER, self.own.app.config.policy.top, Ingress.COMMAND)
        context = self.own.app.commands.request(caller, Address("console", "outside"), self.own.sid)
        names["{page}"] = names["{cursor}"]
        for line in COMMANDS:
            told = await self.own.app.commands.answer(replace(context, now=self._now), _filled(line, names))
            yield f"{told.label} {told.text}"

    async def spawning(self) -> list[str]:
        """Ask for a background session in every way; return the answers."""
        task: dict[str, JsonValue] = {"task": "look", "title": "mine"}
        caller = Caller("owner", Role.OWNER, self.own.app.config.policy.top, Ingress.COMMAND)
        context = self.own.app.commands.request(caller, Address("console", "outside"), self.own.sid)
        told = await self.own.app.commands.answer(replace(context, now=self._now), "/spawn look")
        return [
            await self._called("sessions_spawn", task),
            await self._called("simulate_tool_call", {"tool_name": "sessions_spawn", "args": task}),
            f"{told.label} {told.text}",
        ]

    async def _called(self, tool: str, arguments: dict[str, JsonValue]) -> str:
        """Take a call through the gate as the caller's turn does, without a turn."""
        gate = self.own.app.gate
        here = standing(sid=self.own.sid, now=self._now, destination=Destination("console:x", "console", PUBLIC))
        prepared = gate.calls.prepare(here, Call("c1", tool, arguments))
        if prepared.accepted is None or prepared.decision.verdict.name != "ALLOW":
            return str(prepared.decision)
        response = await gate.results.respond(here, prepared, await gate.run(here, prepared, unrecorded))
        return response.text if response.label == PUBLIC else f"{response.label} {response.text}"


def _parcel(sent: Delivery, sid: str) -> Parcel:
    return Parcel(sid, sent.generation, dedupe(sent), "owner", PUBLIC, SessionMessage("hi"))


def _read(label: Label) -> NewEvent:
    return replace(event(label), body=ToolResult("c", "read_file", "high", ToolOutcome.OK))


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


# An example takes a second, so a failing one is not shrunk: it is short as it is.
@settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(_secrets)
def test_no_read_up_two_runs_give_the_same_bytes(secrets: list[Secret]) -> None:
    async def law() -> None:
        with TemporaryDirectory() as folder:
            async with running(Path(folder), _POLICY) as owner:
                world = World(owner, owner.app.clock.wall_ms())
                await world.begin()
                without = await world.at_rest()
                await world.hide(secrets)
                assert sum('"status": "consumed"' in answer for answer in without) == 2, "of the session that is seen"
                questions = [*map(str, QUESTIONS), *COMMANDS]
                for question, before, after in zip(questions, without, await world.answers(), strict=True):
                    assert before == after, question
                assert sum(HIDDEN in answer for answer in without) <= 2, "only in simulations of a call that names it"

    asyncio.run(law())


_FREE: Final = ("nobody", "hidden", "of others")
_FULL: Final = ("visible", "visible and hidden")


@pytest.mark.anyio
async def test_no_read_up_a_quota_refusal_tells_nothing_of_who_lives(tmp_path: Path) -> None:
    """Whoever lives above, there are all the places below, and where there are none `busy` is one sentence."""
    free = [await _spawned(tmp_path, who) for who in _FREE]
    assert [sum(str(BusyError()) in answer for answer in told) for told in free] == [0] * len(_FREE)
    refused = [await _spawned(tmp_path, who) for who in _FULL]
    for who, told in zip(_FULL, refused, strict=True):
        assert told == refused[0], who
    assert sum(str(BusyError()) in answer for answer in refused[0]) == 2


async def _spawned(folder: Path, who: str) -> list[str]:
    """Return what a PUBLIC session and a person at a PUBLIC address hear when places are taken in this way."""
    place = folder / who.replace(" ", "-")
    await asyncio.to_thread(place.mkdir)
    async with running(place, _POLICY, serve=False) as owner:
        world = World(owner, NOW)
        third = Person(owner.app, owner.output, Address("console", "third"))
        for person in (world.own, world.other, third):
            await person.send("hello")
        spawner, store = owner.app.spawner, owner.app.store
        taken = [label for word, label in (("visible", PUBLIC), ("hidden", parse("CONFIDENTIAL{hr}~"))) if word in who]
        taken += [parse("CONFIDENTIAL")] if who == "of others" else []
        parents = (world.other, third) if who == "of others" else (world.own, world.other)
        for label in taken:
            for n in range(8):
                parent = standing(label, sid=parents[n % 2].sid, turn="")
                await spawner.mint_child(parent, f"{label} {n}", Errand("look"))
        before = await store.sessions.state(owner.sid)
        told = await world.spawning()
        assert await store.sessions.state(owner.sid) == before
        lives = sum(slot.live for slot in await store.delegation.slots("owner"))
        assert lives == 8 * len(taken) + (0 if "visible" in who else 2)
        return told
