"""The scripts between sessions against a model in plain Python: slots within caps, and what arrives from others."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bot.core.errors import BusyError, NotFoundError
from bot.sessions.background.delegation import Arrival, Caps, Parcel, Slot
from bot.sessions.deliveries import RISEN_KEY
from bot.sessions.models import Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.form import unpack
from bot.store.records.kinds import HELD, INPUT
from policy.labels import PUBLIC, Integrity, Label, Level, join_all, parse
from tests.fleets import Served
from tests.store.world import (
    KEY,
    TOP,
    child,
    claimed,
    command,
    dump,
    event,
    fresh,
    item,
    keys,
    parcel,
    put_state,
    row,
    slot,
    stored_record,
)

LABELS = st.builds(
    Label, st.sampled_from(Level), st.frozensets(st.sampled_from(["acme", "hr"])), st.sampled_from(Integrity)
)
CAPS = Caps(children=2, live=3, depth=2)
LIMITS = StoreOptions(inbox_limit=6, held_limit=2)
RUNS = tuple(f"r{number}" for number in range(6))
PARENTS = ("one", "two")
POOLS = tuple(map(parse, ("PUBLIC", "CONFIDENTIAL", "CONFIDENTIAL{hr}")))


@dataclass
class Slots:
    """What a principal's slots must be; a `record` is told from another by the number of its reservation."""

    parent: dict[str, str] = field(default_factory=dict[str, str])
    pool: dict[str, Label] = field(default_factory=dict[str, Label])
    record: dict[str, int] = field(default_factory=dict[str, int])
    live: set[str] = field(default_factory=set[str])
    reserved: int = 0

    def reserve(self, run: str, parent: str, pool: Label) -> bool:
        """Say whether there is a slot.

        A run that ended stays ended and takes none; one asked for from another pool is left as it was.
        """
        if run in self.parent and (run not in self.live or self.pool[run] != pool):
            return True
        others = {one for one in self.live - {run} if self.pool[one] == pool}
        if len(others) >= CAPS.live or sum(self.parent[one] == parent for one in others) >= CAPS.children:
            return False
        self.reserved += 1
        self.parent[run], self.record[run], self.pool[run] = parent, self.reserved, pool
        self.live.add(run)
        return True


@dataclass
class Target:
    """What a session that others send to must be; `waiting` and `held` are dedupe keys, oldest first.

    `labels` are those of all that was let in, and `senders` whose what other sessions sent was.
    What was held once is held for ever for its sender, whatever a person decided. `reports` are those of what it
    spawned, `above` tells that it once had read what its parent, which had read nothing, had not, and `unsaid` that the
    notice of that is still to be said; `silent` that it was above from the start, of which there is no notice. A task
    that has ended and said everything is archived, and comes back for a report.
    """

    task: bool
    exists: bool = False
    generation: int = 1
    taint: Label = PUBLIC
    typed: Label = PUBLIC
    made: Label = PUBLIC
    archived: bool = False
    ended: bool = False
    waiting: list[str] = field(default_factory=list[str])
    labels: dict[str, Label] = field(default_factory=dict[str, Label])
    senders: dict[str, str] = field(default_factory=dict[str, str])
    untold: set[str] = field(default_factory=set[str])
    held: dict[str, Label] = field(default_factory=dict[str, Label])
    reports: set[str] = field(default_factory=set[str])
    above: bool = False
    unsaid: bool = False
    silent: bool = False
    known: dict[str, str] = field(default_factory=dict[str, str])
    were_held: set[str] = field(default_factory=set[str])

    def put(self, dedupe: str, label: Label) -> None:
        """Let an item into the inbox."""
        self.waiting.append(dedupe)
        self.labels[dedupe] = label
        self.known[dedupe] = "waiting"
        self.typed = self.typed.join(label)
        self.rise()

    def rise(self) -> None:
        """Note whether it is above its parent by now."""
        risen = self.task and not self.typed.join(self.taint).flows_to(PUBLIC)
        self.unsaid = self.unsaid or (risen and not self.above and not self.silent)
        self.above = self.above or risen

    def receive(self, sent: Parcel) -> Arrival | None:
        """Return what becomes of something sent, None for busy."""
        if not self.exists:
            return Arrival.ABSENT
        seen = self.made.join(self.typed).join(self.taint)
        above = not (seen.flows_to(sent.told) and sent.label.flows_to(sent.told))
        if sent.dedupe not in {*self.known, *self.were_held}:
            fits = sent.label.flows_to(self.taint)
            room = sent.report or not fits or not self.full(sent.label, sent.sender)
            refusal = self._refusal(sent, room=fits and room)
            if refusal is not Arrival.WAITING:
                return Arrival.UNTOLD if above and refusal is not Arrival.RESET else refusal
            if not room and not above:
                return None
            self._take(sent, fits=fits, room=room)
        if sent.dedupe in self.were_held:
            return Arrival.UNTOLD if sent.dedupe in self.untold else Arrival.HELD
        return Arrival.WAITING

    def _take(self, sent: Parcel, *, fits: bool, room: bool) -> None:
        """Let something in or hold it; where it fits and has no room, nobody is to hear of that."""
        self.senders[sent.dedupe] = sent.sender
        if fits and room:
            self.ended = self.archived = False
            self.put(sent.dedupe, sent.label)
            return
        self.were_held.add(sent.dedupe)
        self.held[sent.dedupe] = sent.label
        self.reports |= {sent.dedupe} if sent.report else set()
        self.untold |= set() if room else {sent.dedupe}

    def _refusal(self, sent: Parcel, *, room: bool) -> Arrival:
        """Return why something new is not taken, WAITING if it is; with `room` it enters and need not be held."""
        if sent.generation != self.generation:
            return Arrival.RESET
        if self.archived and not self.ended:
            return Arrival.ARCHIVED
        if sent.report:
            return Arrival.WAITING
        if self.ended:
            return Arrival.ENDED
        alike = [one for one, held in self.held.items() if held.flows_to(sent.label) and sent.label.flows_to(held)]
        full = len(set(alike) - self.reports) >= LIMITS.held_limit
        return Arrival.FULL if full and not room else Arrival.WAITING

    def full(self, label: Label, sender: str) -> bool:
        """Say whether as many inputs of a level and its compartments wait of what sessions sent as may.

        That is half of what people may have waiting, and of that half as much as is left for others, if `sender` is not
        the session's own person.
        """
        waiting = (one for one in self.waiting if one in self.senders)
        alike = [one for one in waiting if self.labels[one].flows_to(label) and label.flows_to(self.labels[one])]
        room = LIMITS.inbox_limit // 2 - len(alike)
        own = [one for one in alike if self.senders[one] == sender]
        return room <= 0 or (sender != "ann" and len(own) >= room)

    def drop(self, dedupes: list[str], status: str) -> None:
        """Give inputs their terminal status, as far as they are inputs already."""
        self.known |= {one: status for one in dedupes if one in self.known}


class Machine(RuleBasedStateMachine):
    """A principal's slots, a chat and a task that others send to; `url` is set by the test."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.run = self.loop.run
        self.store = self.run(open_store(audit_key=KEY, url=self.url, options=LIMITS))
        self.principal = fresh()
        self.slots = Slots()
        self.seen: list[tuple[Slot, int]] = []
        self.targets = {fresh(): Target(task=task) for task in (False, True)}
        self.sent = 0

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    def target(self, data: st.DataObject, may: Callable[[Target], object] = lambda _: True) -> tuple[str, Target]:
        return data.draw(st.sampled_from([(sid, one) for sid, one in self.targets.items() if may(one)]))

    @initialize()
    def nobody_yet(self) -> None:
        assert self.run(self.store.delegation.slots(self.principal)) == ()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One rule for all, as in the machine of a single session."""
        action = data.draw(st.sampled_from([name for name, may in ACTIONS if may(self)]))
        getattr(self, action)(data)

    # Slots -----------------------------------------------------------------------------------------

    def reserve(self, data: st.DataObject) -> None:
        run, parent = data.draw(st.sampled_from(RUNS)), data.draw(st.sampled_from(PARENTS))
        # A run is one call of one session.
        parent = self.slots.parent.get(run, parent)
        pool, tainted = data.draw(st.sampled_from(POOLS)), data.draw(st.sampled_from(Integrity))
        fits = self.slots.reserve(run, parent, pool)
        try:
            new = slot(run, f"of {run}", parent, replace(pool, integrity=tainted))
            reserved = self.run(self.store.delegation.reserve(self.principal, new, CAPS))
        except BusyError:
            assert not fits
        else:
            assert fits
            assert reserved.until == 1 or reserved.until > reserved.now - 60_000

    def look(self, _data: st.DataObject) -> None:
        """Remember slots as they are now, to free them later."""
        found = self.run(self.store.delegation.slots(self.principal))
        self.seen = [(slot, self.slots.record[slot.run]) for slot in found]

    def free(self, data: st.DataObject) -> None:
        """Free what was seen: of that, what was not reserved again since."""
        chosen = data.draw(st.lists(st.sampled_from(self.seen), unique_by=lambda one: one[0].run))
        self.run(self.store.delegation.free(self.principal, tuple(one for one, _ in chosen)))
        for seen, record in chosen:
            same = [one for one in self.run(self.store.delegation.slots(self.principal)) if one.run == seen.run]
            if seen.live and self.slots.record[seen.run] == record:
                self.slots.live.discard(seen.run)
            assert [one.live for one in same] == [seen.run in self.slots.live]

    # What arrives ----------------------------------------------------------------------------------

    def create(self, data: st.DataObject) -> None:
        sid, target = self.target(data, lambda one: not one.exists)
        label = data.draw(LABELS)
        if target.task:
            lapsed = data.draw(st.booleans())
            new = replace(child("one", label=label), sid=sid)
            target.made = label
            if lapsed:
                with pytest.raises(BusyError):
                    self.run(self.store.sessions.accept(replace(new, reserved=1)))
                assert self.run(dump(self.store, sid)) == {}
                return
        else:
            new = item(sid, "task", label)
        self.run(self.store.sessions.accept(new))
        target.exists, target.silent = True, target.task and not label.flows_to(PUBLIC)
        target.put("task", label)

    def receive(self, data: st.DataObject) -> None:
        sid, target = self.target(data)
        known = sorted({*target.known, *target.were_held})
        again = known and data.draw(st.booleans())
        if not again:
            self.sent += 1
        dedupe = data.draw(st.sampled_from(known)) if again else f"p{self.sent}"
        sent = parcel(
            sid,
            data.draw(LABELS),
            dedupe=dedupe,
            generation=target.generation + data.draw(st.sampled_from((0, 0, 0, -1, 1))),
            report=data.draw(st.booleans()),
            sender=data.draw(st.sampled_from(("ann", "bo"))),
            told=data.draw(st.one_of(st.just(TOP), LABELS)),
        )
        before, seen = self.run(dump(self.store, sid)), self.run(self.store.sessions.state(sid))
        stored = {*target.known, *target.were_held}
        expected = target.receive(sent)
        kept = {*target.known, *target.were_held} - stored
        if expected is None:
            with pytest.raises(BusyError):
                self.run(self.store.delegation.receive(sent))
        else:
            # A reply that was lost is asked for again.
            assert [self.run(self.store.delegation.receive(sent)) for _ in range(2)] == [expected, expected]
        if not kept:
            assert self.run(dump(self.store, sid)) == before, "what is not taken leaves nothing"
        if expected in {Arrival.HELD, Arrival.UNTOLD}:
            assert self.run(self.store.sessions.state(sid)) == seen, "no reader of the session hears of what is held"
            assert _but_held(self.run(dump(self.store, sid))) == _but_held(before), "nor is anything else left"

    def decide(self, data: st.DataObject) -> None:
        sid, target = self.target(data, lambda one: one.held)
        held = data.draw(st.sampled_from(self.run(self.store.delegation.held(sid))))
        dedupe = self._dedupe(sid, held.id)
        accept, op = data.draw(st.booleans()), fresh()
        if accept and (dedupe not in target.reports if target.ended else target.archived):
            error: type[Exception] | None = NotFoundError
        else:
            crowded = accept and target.full(target.held[dedupe], target.senders[dedupe])
            error = BusyError if crowded else None
        for _ in range(2):
            decided = self.store.delegation.decide_held(sid, held.id, accept=accept, op=op, audit=(row(),))
            if error is not None:
                with pytest.raises(error):
                    self.run(decided)
            else:
                self.run(decided)
        if error is None:
            label = target.held.pop(dedupe)
            if accept:
                target.ended = target.archived = False
                target.put(dedupe, label)

    def _dedupe(self, sid: str, held: str) -> str:
        """Return the key under which a held item came."""
        return self.run(stored_record(self.store, HELD, keys(sid).held, held))["dedupe"]

    def nothing_of_that_id(self, data: st.DataObject) -> None:
        sid, _ = self.target(data)
        with pytest.raises(NotFoundError):
            self.run(self.store.delegation.decide_held(sid, "nothing", accept=True, op=fresh(), audit=()))

    # What else happens to a session ----------------------------------------------------------------

    def read(self, data: st.DataObject) -> None:
        """A turn's read raises the taint, so that more may enter."""
        sid, target = self.target(data, lambda one: one.exists and not one.archived)
        label = data.draw(LABELS)
        claim = self.run(claimed(self.store, sid, idle=True))
        self.run(
            self.store.sessions.record(claim, Write(fresh(), claim.state.seq, events=(event(label),), release=True))
        )
        target.taint = target.taint.join(label)
        target.rise()

    def stop(self, data: st.DataObject) -> None:
        """A background session that nothing runs in has ended with that."""
        sid, target = self.target(data, lambda one: one.exists and not one.archived)
        self.run(self.store.sessions.stop(sid, actor="ann"))
        target.drop(target.waiting, "cancelled")
        target.waiting, target.ended = [], target.task
        target.archived = target.task and not target.unsaid

    def reset(self, data: st.DataObject) -> None:
        sid, target = self.target(data, lambda one: one.exists and not one.archived)
        self.run(self.store.sessions.reset(sid, op=fresh(), actor="ann", audit=()))
        target.drop(target.waiting, "cancelled")
        target.waiting, target.held, target.unsaid = [], {}, False
        target.generation, target.taint, target.typed = target.generation + 1, PUBLIC, PUBLIC

    def archive(self, data: st.DataObject) -> None:
        sid, target = self.target(data, lambda one: one.exists and not one.archived)
        self.run(put_state(self.store, sid, status="archived"))
        target.archived = True

    # Laws ------------------------------------------------------------------------------------------

    @invariant()
    def exactly_the_caps_live(self) -> None:
        found = self.run(self.store.delegation.slots(self.principal))
        assert {slot.run: (slot.parent, slot.pool) for slot in found} == {
            run: (parent, self.slots.pool[run]) for run, parent in self.slots.parent.items()
        }
        assert {slot.run for slot in found if slot.live} == self.slots.live
        for pool in POOLS:
            live = {slot.run for slot in found if slot.live and slot.pool == pool}
            assert len(live) <= CAPS.live
            assert all(sum(self.slots.parent[run] == parent for run in live) <= CAPS.children for parent in PARENTS)

    @invariant()
    def what_arrived_is_there_once(self) -> None:
        for sid, target in self.targets.items():
            state = self.run(self.store.sessions.state(sid))
            assert (state is not None) == target.exists
            if state is None:
                continue
            stored: Any = self.run(command(self.store, "HGETALL", keys(sid).inputs))
            known = {name.decode(): unpack(INPUT, one)["status"] for name, one in zip(*[iter(stored)] * 2, strict=True)}
            assert known == target.known
            assert state.waiting_items == len(target.waiting)
            assert (state.inbox_label, state.taint) == (target.typed, target.taint)
            assert (state.ended_at > 0) == target.ended
            assert sorted(str(held.label) for held in self.run(self.store.delegation.held(sid))) == sorted(
                map(str, target.held.values())
            )

    @invariant()
    def its_parent_is_told_once_when_it_rises(self) -> None:
        for sid, target in self.targets.items():
            told = [one.key.endswith(RISEN_KEY) for one in self.run(self.store.outbox.deliveries(sid))]
            assert told == [True] * (target.above and not target.silent)

    @invariant()
    def nothing_that_arrives_raises(self) -> None:
        for sid in self.targets:
            log = self.run(self.store.sessions.events(sid))
            state = self.run(self.store.sessions.state(sid))
            if state is not None:
                read = [one.label for one in log if one.admitted and one.generation == state.generation]
                assert state.taint == join_all((PUBLIC, *read))


def _but_held(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if ":held" not in key}


ACTIONS: tuple[tuple[str, Callable[[Machine], object]], ...] = (
    ("reserve", lambda _: True),
    ("look", lambda m: m.slots.parent),
    ("free", lambda m: m.seen),
    ("create", lambda m: not all(one.exists for one in m.targets.values())),
    ("receive", lambda _: True),
    ("receive", lambda m: any(one.exists for one in m.targets.values())),
    ("decide", lambda m: any(one.held for one in m.targets.values())),
    ("nothing_of_that_id", lambda _: True),
    ("read", lambda m: any(one.exists and not one.archived for one in m.targets.values())),
    ("stop", lambda m: any(one.exists and not one.archived for one in m.targets.values())),
    ("reset", lambda m: any(one.exists and not one.archived for one in m.targets.values())),
    ("archive", lambda m: any(one.exists and not one.archived and one.generation > 1 for one in m.targets.values())),
)
"""What may happen next, and when it makes sense."""


@pytest.mark.explores
@pytest.mark.timeout(600)  # some thousand round trips, each of which waits when the machine is busy
def test_scripts_between_sessions_do_what_the_model_does(server: Served) -> None:
    class OnServer(Machine):
        url = server.url

    run_state_machine_as_test(OnServer, settings=settings(max_examples=25, stateful_step_count=50))
