"""Law `no_read_up` for all that is counted: places, tokens and answers tell nothing of what is above (ADR 0015).

Two principals of one installation do the same below a line: their sessions spawn, some of what they spawned reads
something CONFIDENTIAL, and people ask and stop. Above the line only one of them does anything: what has risen goes on,
spawns, spends and ends as it likes. All that is answered below is compared. A risen child is known to have risen, and
nothing more of it: so it keeps its place until it is due, or is stopped from below.
"""

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from bot.access.authorize import Caller, Ingress
from bot.access.decision_context import DecisionContext
from bot.budgets import Budget, BudgetError
from bot.core.errors import RequestError
from bot.core.ids import Ids
from bot.sessions.background.delegation import Child, Errand
from bot.sessions.budgets import Budgets
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import ToolOutcome, ToolResult
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Write
from bot.sessions.usage import Usage
from bot.store.records.kinds import SLOT
from bot.store.schema import slots_key
from bot.tools.sessions import SessionsList, SessionStatus
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Role
from tests.bot.kit import NOW, policy, standing, tool_call
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import alter, command, event, fresh

pytestmark = pytest.mark.anyio

SECRET: Final = parse("CONFIDENTIAL{hr}~")
LEVELS: Final = tuple(map(parse, ("CONFIDENTIAL", "CONFIDENTIAL{hr}~", "PUBLIC{hr}", "RESTRICTED")))
HERE: Final = Address("console", "outside")
TOKENS: Final = Budgets(person=1000)
PUBLIC_HR: Final = parse("PUBLIC{hr}")
_FIVE: Final = (("spawn", 0, SECRET),) * 5
_RISEN: Final = (("rise", 0, SECRET),) * 5
LOW: Final = ("spawn", "spawn", "rise", "end", "stop", "cancel", "spend", "due", "ask")
HIGH: Final = ("end risen", "spawn above", "spawn below risen", "spend above", "ask above", "stop risen")

Step: TypeAlias = tuple[str, int, Label]
"""What happens, which of several it happens to, and how high above the line."""

_POLICY: Final = policy(
    blocks={"limits": {"person_daily_tokens": 1000, "simulations_per_minute": 3}},
    compartments=["hr"],
    principals={"owner": principal("console:owner")},
)
_steps = st.lists(
    st.tuples(st.sampled_from(LOW + HIGH), st.integers(0, 7), st.sampled_from(LEVELS)), min_size=4, max_size=40
)


@dataclass
class Half:
    """One of the two principals: parents, what they spawned with the label it has read, and what was told below."""

    owner: Person
    name: str
    parents: list[str] = field(default_factory=list[str])
    spawned: list[tuple[Child, int]] = field(default_factory=list[tuple[Child, int]])
    risen: dict[str, Label] = field(default_factory=dict[str, Label])
    told: list[str] = field(default_factory=list[str])
    count: "itertools.count[int]" = field(default_factory=itertools.count)
    names: dict[str, str] = field(default_factory=dict[str, str])

    async def begin(self) -> None:
        """Begin two sessions below and one above."""
        for n in range(3):
            sid = fresh()
            await self.owner.app.store.sessions.accept(self._item(sid))
            self.parents.append(sid)
            self.names[sid] = f"<parent {n}>"
        self.names[self.name] = "<who>"
        await self._read(self.parents[2], parse("RESTRICTED{hr}"))

    async def step(self, what: str, which: int, label: Label) -> None:
        """Let one thing happen."""
        await getattr(self, f"_{what.replace(' ', '_')}")(which, label)

    async def ask(self) -> None:
        """Take every place that is left, ask all that counts anything below the line, and take what that gave back."""
        await self._fill()
        for parent in self.parents[:2]:
            for line in ("/agents", "/usage", "/queue", "/status", "/stop"):
                await self._typed(line, parent)
            for tool in (
                SessionStatus(self.owner.app.store, self.owner.app.agents),
                SessionsList(self.owner.app.store.index),
            ):
                await self._called(tool, parent)
        await self._fill()

    async def _fill(self) -> None:
        for n in range(12):
            await self._spawn(n, PUBLIC)

    # Below the line --------------------------------------------------------------------------------

    async def _spawn(self, which: int, _label: Label) -> None:
        parent = which % 2
        child = await self._minted(self.parents[parent], PUBLIC)
        self.told.append("spawned" if isinstance(child, Child) else child)
        if isinstance(child, Child):
            n = len(self.spawned)
            self.names |= {child.sid: f"<child {n}>", child.run: f"<run {n}>"}
            self.spawned.append((child, parent))

    async def _rise(self, which: int, label: Label) -> None:
        """Let a child read something: that it has risen is known, to what is not."""
        if (child := self._one(which, risen=False)) is not None:
            state = await self.owner.app.store.sessions.state(child.sid)
            # One that has ended reads nothing any more.
            if state is not None and not state.ended_at:
                self.risen[child.sid] = label
                await self._read(child.sid, label)

    async def _end(self, which: int, _label: Label) -> None:
        if (child := self._one(which, risen=False)) is not None:
            await self._stopped(child.sid)

    async def _stop(self, which: int, _label: Label) -> None:
        await self._typed("/stop", self.parents[which % 2])

    async def _cancel(self, which: int, _label: Label) -> None:
        if self.spawned:
            child, _ = self.spawned[which % len(self.spawned)]
            await self._typed(f"/agents cancel {child.run}", self.parents[0])

    async def _spend(self, which: int, _label: Label) -> None:
        self.told.append(await self._spent(which * 50, PUBLIC))

    async def _due(self, _which: int, _label: Label) -> None:
        """Let the deadlines pass of all that was spawned below."""
        store, key = self.owner.app.store, slots_key(self.name)
        now = int((await command(store, "TIME"))[0]) * 1000
        for slot in await store.delegation.slots(self.name):
            if slot.pool == PUBLIC:
                await alter(store, SLOT, key, slot.run, deadline=now)

    async def _ask(self, which: int, _label: Label) -> None:
        line = ("/agents", "/usage", "/status", "/queue")[which % 4]
        await self._typed(line, self.parents[which % 2])

    # Above the line --------------------------------------------------------------------------------

    async def _end_risen(self, which: int, _label: Label) -> None:
        if (child := self._one(which, risen=True)) is not None:
            await self._stopped(child.sid)
            await self.owner.app.spawner.free(self.name)

    async def _stop_risen(self, which: int, label: Label) -> None:
        """Let a command of somebody above stop one."""
        if (child := self._one(which, risen=True)) is not None:
            await self._stopped(child.sid)
            await self.owner.app.spawner.stop(self.name, child.sid, label, interrupt=_nothing)

    async def _spawn_above(self, which: int, label: Label) -> None:
        for _ in range(which):
            await self._minted(self.parents[2], label)

    async def _spawn_below_risen(self, which: int, _label: Label) -> None:
        if (child := self._one(which, risen=True)) is not None:
            await self._minted(child.sid, self.risen[child.sid])

    async def _spend_above(self, which: int, label: Label) -> None:
        await self._spent(which * 150, label)

    async def _ask_above(self, _which: int, _label: Label) -> None:
        told, self.told = self.told, []
        await self._typed("/stop", self.parents[2])
        await self._typed("/agents", self.parents[2])
        self.told = told

    # How -------------------------------------------------------------------------------------------

    def _one(self, which: int, *, risen: bool) -> Child | None:
        found = [child for child, _ in self.spawned if (child.sid in self.risen) is risen]
        return found[which % len(found)] if found else None

    async def _minted(self, parent: str, label: Label) -> Child | str:
        state = await self.owner.app.store.sessions.state(parent)
        assert state is not None
        here = self._standing(parent, label, state.visibility)
        try:
            return await self.owner.app.spawner.mint_child(here, f"{self.name}/{next(self.count)}", Errand("look"))
        except RequestError as error:
            return str(error)

    async def _spent(self, tokens: int, label: Label) -> str:
        budget = Budget(self.owner.app.store.budgets, Ids(), TOKENS, life=60_000, patience=0)
        try:
            async with budget.spending(self._standing("", label, label), lambda: tokens) as spending:
                spending.used = Usage(1, tokens, 0)
        except BudgetError as error:
            return str(error)
        return "spent"

    async def _stopped(self, sid: str) -> None:
        """End a session that no turn runs in."""
        await self.owner.app.store.sessions.stop(sid, actor="somebody")

    async def _read(self, sid: str, label: Label) -> None:
        store = self.owner.app.store
        claim = await store.sessions.claim(sid, fresh(), idle=True)
        assert claim is not None
        read = replace(event(label), body=ToolResult("c", "read_file", "high", ToolOutcome.OK))
        await store.sessions.record(claim, Write(fresh(), claim.state.seq, events=(read,), release=True))

    async def _typed(self, line: str, sid: str) -> None:
        caller = Caller(self.name, Role.OWNER, self.owner.app.config.policy.top, Ingress.COMMAND)
        context = replace(self.owner.app.commands.request(caller, HERE, sid), now=NOW)
        reply = await self.owner.app.commands.answer(context, line)
        self.told.append(self._plain(f"{line}: {reply.label}\n{reply.text}"))

    async def _called(self, tool: SessionStatus | SessionsList, sid: str) -> None:
        """Call a tool as a turn of a PUBLIC session does."""
        told = await tool.run(tool.arguments(), *tool_call(sid=sid, principal=self.name, asker=self.name))  # pyright: ignore[reportArgumentType] - each takes its own
        self.told.append(self._plain(f"{tool.name}: {told.label} {told.text}"))

    def _standing(self, sid: str, label: Label, visibility: Label) -> DecisionContext:
        return standing(
            label,
            sid=sid,
            turn="",
            principal=self.name,
            asker=self.name,
            now=NOW,
            visibility=visibility,
            destination=Destination(str(HERE), "console", PUBLIC),
        )

    def _item(self, sid: str) -> NewItem:
        return NewItem(sid, "d", self.name, PUBLIC, SessionMessage("hello"), str(HERE), self.name)

    def _plain(self, text: str) -> str:
        """Return an answer without what differs between two people: names, times, and the order of what is as old."""
        for name, instead in self.names.items():
            text = text.replace(name, instead)
        text = text.replace('{"id"', '\n{"id"').replace('], "cursor"', '\n], "cursor"')
        return "\n".join(sorted(line.strip() for line in _untimed(text).splitlines()))


def _untimed(text: str) -> str:
    words = (word for word in text.replace(",", " ").replace("{", " ").replace("}", " ").split(" "))
    return " ".join(word for word in words if not word.isdigit() or len(word) < len(str(NOW)))


def _nothing(_sid: str) -> None:
    """Interrupt nothing: no worker runs."""


# An example takes a second or two, so a failing one is shrunk no longer than it takes to read.
@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@example([*_FIVE, *_RISEN, *(("end risen", n, SECRET) for n in range(5))])
@example([*_FIVE, *_RISEN, *(("stop risen", n, SECRET) for n in range(5)), ("spawn", 0, SECRET)])
@example([*_FIVE, *_RISEN, *(("spawn below risen", n, SECRET) for n in range(5)), ("stop", 0, SECRET)])
@example([("spawn above", 7, PUBLIC_HR), ("spend above", 7, PUBLIC_HR), ("spend", 7, SECRET), ("spend", 7, SECRET)])
@given(_steps)
def test_no_read_up_by_what_is_counted(steps: list[Step]) -> None:
    async def law() -> None:
        with TemporaryDirectory() as folder:
            async with running(Path(folder), _POLICY, serve=False) as owner:
                still, busy = Half(owner, fresh()), Half(owner, fresh())
                for half in (still, busy):
                    await half.begin()
                    for n in range(4):
                        await half.step("spawn", n, SECRET)
                    for _ in range(2):
                        await half.step("rise", 0, SECRET)
                for what, which, label in steps:
                    if what not in HIGH:
                        await still.step(what, which, label)
                    await busy.step(what, which, label)
                    assert still.told == busy.told, what
                for half in (still, busy):
                    await half.ask()
                assert still.told == busy.told

    asyncio.run(law())
