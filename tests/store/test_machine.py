"""The scripts against a model in plain Python: two workers, a person who stops, resets and answers, and crashes."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from bot.core.errors import LeaseLostError, NotFoundError, ResetError
from bot.sessions.approvals import ApprovalState
from bot.sessions.deliveries import DEAD, Delivery, DeliveryState
from bot.sessions.inbox import ItemStatus, QueueMode, Stopped
from bot.sessions.log.event_types import YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.models import Claim, LastTurn, Status, Turn, Write, Written
from bot.sessions.usage import Usage
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.records.codec import stored_fields
from bot.store.records.form import unpack
from bot.store.records.kinds import INPUT
from policy.labels import PUBLIC, Integrity, Label, Level, join_all
from tests.fleets import Fleet, Served
from tests.store.world import KEY, answer, command, dump, end_lease, event, fresh, item, keys, question, row

LABELS = st.builds(
    Label, st.sampled_from(Level), st.frozensets(st.sampled_from(["acme", "hr"])), st.sampled_from(Integrity)
)
WORKERS = st.sampled_from(["one", "two"])
TERMINAL = {ItemStatus.CONSUMED, ItemStatus.CANCELLED}
CONSOLE = ("console",)
EXAMPLES = 5 if os.environ.get("LOCKGATE_TEST_STORES") else 1
"""How often servers take over: each time takes some seconds, which `poe stores` has and each check has not."""
HANDED_OVER, KILLED = 8, 20
"""At which steps of an example other servers take over."""
UNSAID = {DeliveryState.PENDING, DeliveryState.SENDING}
OPEN_SENDS = {DeliveryState.SENDING, DeliveryState.AMBIGUOUS}
SETTLED = [DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.AMBIGUOUS, DeliveryState.PENDING]


@dataclass
class Model:
    """What the session must be. Inputs go by their number in all generations, of which those before are `before`."""

    exists: bool = False
    generation: int = 1
    seq: int = 0
    taint: Label = PUBLIC
    fence: int = 0
    holder: str = ""
    lapsed: bool = False
    turn: Turn | None = None
    stop: bool = False
    mode: QueueMode = QueueMode.COLLECT
    waiting: list[int] = field(default_factory=list[int])
    items: dict[int, ItemStatus] = field(default_factory=dict[int, ItemStatus])
    before: int = 0
    places: dict[int, int] = field(default_factory=dict[int, int])
    approvals: dict[str, ApprovalState] = field(default_factory=dict[str, ApprovalState])
    deliveries: dict[str, DeliveryState] = field(default_factory=dict[str, DeliveryState])
    old: set[str] = field(default_factory=set[str])
    taken_back: set[str] = field(default_factory=set[str])
    audit: int = 0
    requests: int = 0

    @property
    def ripe(self) -> bool:
        if self.turn is None:
            return bool(self.waiting)
        return not self.turn.suspended or ApprovalState.PENDING not in self.approvals.values()

    @property
    def held(self) -> bool:
        return bool(self.holder) and not self.lapsed

    def cancel_waiting(self) -> int:
        cancelled = len(self.waiting)
        self.items |= dict.fromkeys(self.waiting, ItemStatus.CANCELLED)
        self.waiting.clear()
        return cancelled

    def stop_turn(self, then: ApprovalState = ApprovalState.CANCELLED) -> None:
        self.stop = True
        if self.turn is not None and self.turn.suspended:
            self.cancel_questions(then)

    @property
    def stopping(self) -> str:
        """The open turn that is to stop."""
        return self.turn.id if self.turn is not None and self.stop else ""

    def cancel_questions(self, then: ApprovalState) -> None:
        self.approvals = {
            name: then if state is ApprovalState.PENDING else state for name, state in self.approvals.items()
        }


@dataclass
class Worker:
    """What a worker believes."""

    claim: Claim
    owner: str
    seq: int


class Machine(RuleBasedStateMachine):
    """One session, driven at random; `url` is set by the test."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        # How long what comes late is left is a test's of its own; here nobody waits.
        self.store = self.loop.run(open_store(audit_key=KEY, url=self.url, options=StoreOptions(debounce_ms=0)))
        self.sid = fresh()
        self.model = Model()
        self.workers: dict[str, Worker] = {}
        self.sending: dict[str, Delivery] = {}
        self.last_taint = (1, PUBLIC)
        self.run = self.loop.run

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    # What a worker may do --------------------------------------------------------------------------

    def standing(self, name: str) -> type[Exception] | None:
        """Return the error a worker's write must meet, None if its claim holds."""
        worker = self.workers[name]
        if worker.claim.state.generation != self.model.generation:
            return ResetError
        if worker.owner != self.model.holder or worker.claim.fence != self.model.fence:
            return LeaseLostError
        return None

    @property
    def holder(self) -> str:
        """The worker whose claim holds, or nothing; lapsed or not, nobody took the session from it."""
        return next((name for name in self.workers if self.standing(name) is None), "")

    @property
    def stale(self) -> list[str]:
        """The workers whose claims do not hold any more."""
        return [name for name in self.workers if self.standing(name) is not None]

    def write(self, name: str, write: Write, *, commit: bool = False, sender: str = "", again: bool = False) -> Written:
        worker = self.workers[name]
        send = self.store.sessions.commit if commit else self.store.sessions.record
        written = self.run(send(worker.claim, write, sender=sender))
        if again:
            before = self.run(dump(self.store, self.sid))
            assert self.run(send(worker.claim, write, sender=sender)) == written
            assert self.run(dump(self.store, self.sid)) == before
        model = self.model
        model.seq += len(write.events)
        model.taint = join_all((one.label for one in write.events if one.admitted), model.taint)
        model.audit += len(write.audit)
        assert (written.seq, written.taint, written.stop) == (model.seq, model.taint, model.stop)
        assert (written.audit[0], written.mode) == (model.audit, model.mode)
        worker.seq = written.seq
        model.lapsed = False
        if commit or write.release:
            model.holder = ""
        return written

    @initialize(data=st.data())
    def first(self, data: st.DataObject) -> None:
        assert self.run(self.store.sessions.claim(self.sid, fresh(), idle=True)) is None
        assert self.run(self.store.sessions.stop(self.sid, actor="ann")) == Stopped(running=False, cancelled=0)
        self.accept(data)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One rule for all: Hypothesis leaves out rules at random, and most need others to have run before."""
        action = data.draw(st.sampled_from([name for name, may in ACTIONS if may(self)]))
        getattr(self, action)(data)

    def accept(self, data: st.DataObject) -> None:
        label = data.draw(LABELS)
        number = len(self.model.items) + 1
        position = self.model.places[number] = number - self.model.before
        accepted = self.run(self.store.sessions.accept(item(self.sid, f"d{number}", label)))
        if self.model.mode is QueueMode.INTERRUPT and self.model.turn is not None:
            self.model.stop_turn(ApprovalState.SUPERSEDED)
        assert (accepted.position, accepted.duplicate, accepted.stopping) == (position, False, self.model.stopping)
        if not self.model.exists:
            self.model.exists, self.model.seq = True, 1
        self.model.items[number] = ItemStatus.WAITING
        self.model.waiting.append(number)

    def redeliver(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.model.items)))
        accepted = self.run(self.store.sessions.accept(item(self.sid, f"d{number}")))
        assert (accepted.position, accepted.duplicate) == (self.model.places[number], True)
        assert (accepted.status, accepted.stopping) == (self.model.items[number], self.model.stopping)

    def set_mode(self, data: st.DataObject) -> None:
        self.model.mode = data.draw(st.sampled_from(QueueMode))
        self.run(self.store.queue.set_mode(self.sid, self.model.mode, (row(),)))
        self.model.audit += 1

    def withdraw(self, data: st.DataObject) -> None:
        waiting = self.run(self.store.sessions.waiting(self.sid))
        assert [one.position + self.model.before for one in waiting] == self.model.waiting
        one = data.draw(st.sampled_from(waiting))
        self.run(self.store.queue.withdraw(self.sid, one, (row(),)))
        with pytest.raises(NotFoundError):
            self.run(self.store.queue.withdraw(self.sid, one, (row(),)))
        self.model.waiting.remove(one.position + self.model.before)
        self.model.items[one.position + self.model.before] = ItemStatus.CANCELLED
        self.model.audit += 1

    def claim(self, data: st.DataObject) -> None:
        name = data.draw(WORKERS)
        idle = data.draw(st.booleans())
        owner = fresh()
        claim = self.run(self.store.sessions.claim(self.sid, owner, idle=idle))
        model = self.model
        assert (claim is not None) == (model.exists and not model.held and (model.ripe or idle))
        if claim is None:
            return
        model.fence += 1
        model.holder, model.lapsed = owner, False
        if model.turn is not None and not model.turn.suspended:
            model.turn = replace(model.turn, attempt=model.turn.attempt + 1)
        turn = claim.state.turn and replace(claim.state.turn, active=0)
        assert (claim.fence, claim.state.seq, turn) == (model.fence, model.seq, model.turn)
        assert [one.position + model.before for one in claim.items] == model.waiting
        assert [one.seq for one in claim.events] == list(range(claim.state.generation_seq, model.seq + 1))
        assert {one.id: one.state for one in claim.approvals} == model.approvals
        assert self.run(self.store.sessions.claim(self.sid, owner)) is not None
        self.workers[name] = Worker(claim, owner, model.seq)

    def claim_in_vain(self, _data: st.DataObject) -> None:
        assert self.run(self.store.sessions.claim(self.sid, fresh(), idle=True)) is None

    def crash(self, _data: st.DataObject) -> None:
        """The holder goes silent until its lease lapses; it may come back later with its old claim."""
        self.run(end_lease(self.store, self.sid))
        self.model.lapsed = True

    def open_turn(self, data: st.DataObject) -> None:
        again = data.draw(st.booleans())
        name, model = self.holder, self.model
        number = model.waiting[0]
        position = model.places[number]
        turn = Turn(fresh(), position, f"d{number}", "ann", 1)
        opened = Write(
            fresh(), self.workers[name].seq, events=(event(),), take=position, turn=turn, status=Status.RUNNING
        )
        self.write(name, opened, again=again)
        model.waiting.pop(0)
        model.items[number] = ItemStatus.TAKEN
        model.turn = turn

    def join(self, data: st.DataObject) -> None:
        """Take one more input into the open turn."""
        again = data.draw(st.booleans())
        name, model = self.holder, self.model
        assert model.turn is not None
        number = model.waiting[0]
        position = model.places[number]
        turn = replace(model.turn, joined=(*model.turn.joined, position))
        taken = Write(fresh(), self.workers[name].seq, events=(event(),), take=position, turn=turn)
        written = self.write(name, taken, again=again)
        model.waiting.pop(0)
        model.items[number] = ItemStatus.TAKEN
        model.turn = turn
        assert written.waiting == len(model.waiting)

    def record(self, data: st.DataObject) -> None:
        read = data.draw(st.lists(st.tuples(LABELS, st.booleans()), max_size=3))
        say = data.draw(st.booleans())
        again = data.draw(st.booleans())
        name = self.holder
        events = tuple(event(label, admitted=admitted) for label, admitted in read)
        key = fresh()
        deliver = (answer(key),) if say else ()
        self.write(
            name, Write(fresh(), self.workers[name].seq, events=events, audit=(row(),), deliver=deliver), again=again
        )
        if say:
            self.model.deliveries[key] = DeliveryState.PENDING

    def suspend(self, _data: st.DataObject) -> None:
        name, model = self.holder, self.model
        assert model.turn is not None
        asked = replace(question(self.workers[name].claim, fresh()), generation=model.generation)
        turn = replace(model.turn, suspended=True)
        waiting = Write(fresh(), self.workers[name].seq, ask=(asked,), turn=turn, release=True)
        self.write(name, replace(waiting, status=self.next_status(Status.AWAITING_INPUT)))
        model.turn = turn
        model.approvals[asked.id] = ApprovalState.PENDING

    def next_status(self, wanted: Status) -> Status | None:
        state = self.run(self.store.sessions.state(self.sid))
        assert state is not None
        return wanted if state.status in {Status.RUNNING, wanted} else None

    def spend(self, data: st.DataObject) -> None:
        name = self.holder
        asked = data.draw(st.sampled_from(sorted(self.model.approvals)))
        write = Write(fresh(), self.workers[name].seq, use=asked)
        if self.model.approvals[asked] is ApprovalState.APPROVED:
            self.write(name, write)
            self.model.approvals[asked] = ApprovalState.USED
        else:
            self.refused(name, write, NotFoundError)

    def commit(self, data: st.DataObject) -> None:
        again = data.draw(st.booleans())
        claimed = data.draw(st.booleans())
        name, model = self.holder, self.model
        assert model.turn is not None
        key, turn = fresh(), model.turn
        positions = (turn.position, *turn.joined)
        end = LastTurn(turn.id, YieldReason.COMPLETED)
        write = Write(
            fresh(),
            self.workers[name].seq,
            events=(event(),),
            audit=(row(), row()),
            settle=tuple((position, ItemStatus.CONSUMED) for position in positions),
            end=end,
            usage=Usage(1, 1, 1),
            deliver=(answer(key),),
        )
        behind = any(state in UNSAID for state in model.deliveries.values())
        written = self.write(name, write, commit=True, sender="me" if claimed else "", again=again)
        assert written.behind == (frozenset({key}) if claimed and behind else frozenset())
        claimed = claimed and not behind
        model.items |= {position + model.before: ItemStatus.CONSUMED for position in positions}
        model.deliveries[key] = DeliveryState.SENDING if claimed else DeliveryState.PENDING
        if claimed:
            (self.sending[key],) = [one for one in self.run(self.store.outbox.deliveries(self.sid)) if one.key == key]
        model.turn, model.stop = None, False
        model.requests += 1
        state = self.run(self.store.sessions.state(self.sid))
        assert state is not None
        assert state.status is (Status.QUEUED if model.waiting else Status.IDLE)

    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.workers)))
        held = name == self.holder
        self.run(self.store.sessions.release(self.workers[name].claim))
        if held and self.model.turn is not None and not self.model.turn.suspended:
            self.model.turn = replace(self.model.turn, handed=self.model.turn.handed + 1)
        if held:
            self.model.holder = ""

    def renew(self, _data: st.DataObject) -> None:
        assert self.run(self.store.sessions.renew(self.workers[self.holder].claim)) is self.model.stop
        self.model.lapsed = False

    def refused(self, name: str, write: Write, error: type[Exception]) -> None:
        before = self.run(dump(self.store, self.sid))
        for send in (self.store.sessions.record, self.store.sessions.commit):
            with pytest.raises(error) as caught:
                self.run(send(self.workers[name].claim, write))
            assert caught.type is error
        assert self.run(dump(self.store, self.sid)) == before

    def stale_fence_writes_nothing(self, data: st.DataObject) -> None:
        label = data.draw(LABELS)
        name = data.draw(st.sampled_from(self.stale))
        error = self.standing(name)
        assert error is not None
        late = Write(fresh(), self.model.seq, events=(event(label),), audit=(row(),), deliver=(answer(fresh()),))
        self.refused(name, late, error)

    def wrong_cursor_writes_nothing(self, data: st.DataObject) -> None:
        off = data.draw(st.sampled_from([-1, 1]))
        self.refused(self.holder, Write(fresh(), self.model.seq + off, events=(event(),)), LeaseLostError)

    # What people and senders may do ----------------------------------------------------------------

    def stop(self, _data: st.DataObject) -> None:
        model = self.model
        running = model.turn is not None
        cancelled = model.cancel_waiting()
        stopped = self.run(self.store.sessions.stop(self.sid, actor="ann"))
        assert (stopped.running, stopped.cancelled, len(stopped.unanswered)) == (running, cancelled, cancelled)
        if running:
            model.stop_turn()

    def reset(self, _data: st.DataObject) -> None:
        state = self.run(self.store.sessions.reset(self.sid, op=fresh(), actor="ann", audit=(row(),)))
        model = self.model
        model.cancel_waiting()
        for number, status in model.items.items():
            if status is ItemStatus.TAKEN:
                model.items[number] = ItemStatus.CANCELLED
        model.before = len(model.items)
        model.generation += 1
        model.seq += 1
        model.fence += 1
        model.audit += 1
        model.holder, model.turn, model.stop, model.taint = "", None, False, PUBLIC
        model.requests = 0
        model.approvals.clear()
        for key, was in model.deliveries.items():
            if was in UNSAID:
                model.deliveries[key] = DeliveryState.CANCELLED
                model.taken_back.add(key)
        model.old = set(model.deliveries)
        assert (state.generation, state.seq, state.generation_seq) == (model.generation, model.seq, model.seq)
        assert (state.taint, state.creation, state.inbox_label) == (PUBLIC, PUBLIC, PUBLIC)

    def resolve(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from([ApprovalState.APPROVED, ApprovalState.DENIED]))
        asked = data.draw(st.sampled_from(sorted(self.model.approvals)))
        (resolved,) = self.run(self.store.approvals.resolve(self.sid, (asked,), state, actor="boss", audit=(row(),)))
        if self.model.approvals[asked] is ApprovalState.PENDING:
            self.model.approvals[asked] = state
            self.model.audit += 1
        assert resolved.state is self.model.approvals[asked]

    def take(self, _data: st.DataObject) -> None:
        taken = self.run(self.store.outbox.take(self.sid, "me", CONSOLE))
        waiting = [one for one in self.model.deliveries.items() if one[1] in UNSAID]
        # All are for one address, so nothing overtakes what somebody is sending.
        pending = [key for key, _ in takewhile(lambda one: one[1] is DeliveryState.PENDING, waiting)]
        assert [one.key for one in taken] == pending
        for one in taken:
            self.model.deliveries[one.key] = DeliveryState.SENDING
            self.sending[one.key] = one

    def settle(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(SETTLED))
        key = data.draw(st.sampled_from(sorted(self.sending)))
        held = self.run(self.store.outbox.settle(self.sending[key], "me", state, audit=(row(),)))
        was, model = self.model.deliveries[key], self.model
        if state is DeliveryState.PENDING and key in model.old:
            state = DeliveryState.CANCELLED
        assert held == (key not in model.taken_back and was in {*OPEN_SENDS, state})
        if held and was is not state:
            model.deliveries[key] = state
            model.audit += 1

    # Laws ------------------------------------------------------------------------------------------

    @invariant()
    def log_is_gap_free(self) -> None:
        log = self.run(self.store.sessions.events(self.sid))
        assert [one.seq for one in log] == list(range(1, self.model.seq + 1))
        resets = [one.type is EventType.SESSION_RESET for one in log]
        assert [one.generation for one in log] == [1 + sum(resets[: n + 1]) for n in range(len(log))]

    @invariant()
    def taint_is_the_fold(self) -> None:
        state = self.run(self.store.sessions.state(self.sid))
        if state is not None:
            log = self.run(self.store.sessions.events(self.sid, after=state.generation_seq - 1))
            assert state.taint == join_all(one.label for one in log if one.admitted) == self.model.taint

    @invariant()
    def taint_never_falls(self) -> None:
        state = self.run(self.store.sessions.state(self.sid))
        if state is not None:
            generation, before = self.last_taint
            assert state.generation > generation or before.join(state.taint) == state.taint
            self.last_taint = (state.generation, state.taint)

    @invariant()
    def accepted_once_in_order(self) -> None:
        stored: Any = self.run(command(self.store, "HGETALL", keys(self.sid).inputs))
        found = {int(name[1:]): unpack(INPUT, one) for name, one in zip(stored[::2], stored[1::2], strict=True)}
        assert {number: ItemStatus(one["status"]) for number, one in found.items()} == self.model.items
        assert {number: one["position"] for number, one in found.items()} == self.model.places
        taken = [n for n, status in self.model.items.items() if status not in {ItemStatus.WAITING} | TERMINAL]
        assert not taken or not self.model.waiting or max(taken) < min(self.model.waiting)

    @invariant()
    def the_record_is_the_model(self) -> None:
        state = self.run(self.store.sessions.state(self.sid))
        model = self.model
        assert (state is not None) == model.exists
        if state is not None:
            assert (state.waiting_items, state.turn and replace(state.turn, active=0), state.seq) == (
                len(model.waiting),
                model.turn,
                model.seq,
            )
            assert (state.usage.requests, state.mode) == (model.requests, model.mode)
        assert {one.key: one.state for one in self.run(self.store.outbox.deliveries(self.sid))} == model.deliveries
        assert {one.id: one.state for one in self.run(self.store.approvals.of(self.sid))} == model.approvals
        assert self.run(self.store.audit.head(self.sid))[0] == model.audit

    @invariant()
    def only_what_is_settled_is_forgotten(self) -> None:
        model = self.model
        unsaid = [key for key, state in model.deliveries.items() if state in UNSAID]
        letters = [key for key, state in model.deliveries.items() if state in DEAD and key not in model.old]
        names = stored_fields("undelivered", "dead_until")
        out, dead = self.run(command(self.store, "HMGET", keys(self.sid).state, *names))
        assert int(out or 0) == len(unsaid)
        assert dead is not None or not letters
        assert dead is None or unsaid or letters
        left: int = self.run(command(self.store, "PTTL", keys(self.sid).outbox))
        assert (left > 0) == bool(model.deliveries and not unsaid and not letters)


class FailingMachine(Machine):
    """The same, while other servers take over: once without a loss by agreement, and once by `kill -9`."""

    fleet: Fleet

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.steps += 1
        if self.steps == HANDED_OVER:
            self.fleet.hand_over()
        elif self.steps == KILLED:
            self.fleet.kill()
        super().step(data)

    def teardown(self) -> None:
        super().teardown()
        self.fleet.mend()


ACTIONS: tuple[tuple[str, Callable[[Machine], object]], ...] = (
    ("accept", lambda m: len(m.model.waiting) < 3),
    ("redeliver", lambda m: m.model.items),
    ("set_mode", lambda m: m.model.exists),
    ("withdraw", lambda m: m.model.waiting),
    ("claim", lambda m: not m.model.held),
    ("claim_in_vain", lambda m: m.model.held),
    ("crash", lambda m: m.model.held),
    ("open_turn", lambda m: m.holder and m.model.turn is None and m.model.waiting),
    ("join", lambda m: m.holder and m.model.turn and m.model.waiting),
    ("record", lambda m: m.holder),
    ("suspend", lambda m: m.holder and m.model.turn and not m.model.turn.suspended),
    ("spend", lambda m: m.holder and m.model.approvals),
    ("commit", lambda m: m.holder and m.model.turn),
    ("release", lambda m: m.workers),
    ("renew", lambda m: m.holder),
    ("stale_fence_writes_nothing", lambda m: m.stale),
    ("wrong_cursor_writes_nothing", lambda m: m.holder),
    ("stop", lambda m: m.model.turn or m.model.waiting),
    ("reset", lambda m: m.model.seq >= 5 * m.model.generation),
    ("resolve", lambda m: m.model.approvals),
    ("take", lambda _: True),
    ("settle", lambda m: m.sending),
)
"""What may happen next, and when it makes sense."""


@pytest.mark.explores
@pytest.mark.timeout(600)  # some thousand round trips, each of which waits when the machine is busy
def test_scripts_do_what_the_model_does(server: Served) -> None:
    class OnServer(Machine):
        url = server.url

    run_state_machine_as_test(OnServer, settings=settings(max_examples=25, stateful_step_count=50))


@pytest.mark.several_servers
@pytest.mark.timeout(600)
def test_the_laws_hold_over_a_failover(fleet: Fleet) -> None:
    class OnFleet(FailingMachine):
        url = fleet.url

    OnFleet.fleet = fleet
    run_state_machine_as_test(OnFleet, settings=settings(max_examples=EXAMPLES, stateful_step_count=30))
