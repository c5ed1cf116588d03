"""The scripts against a model in plain Python: two workers, a person who stops, resets and answers, and crashes."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from bot.errors import LeaseLostError, NotFoundError, ResetError
from bot.sessions.values import (
    ApprovalState,
    Claim,
    Delivery,
    DeliveryState,
    EventType,
    ItemStatus,
    LastTurn,
    Status,
    Turn,
    Usage,
    Write,
    Written,
    YieldReason,
)
from bot.store.opening import open_store
from bot.store.supervisor import Supervisor
from policy.labels import PUBLIC, Integrity, Label, Level, join_all
from tests.store.world import KEY, answer, command, dump, end_lease, event, fresh, item, keys, question, row

LABELS = st.builds(
    Label, st.sampled_from(Level), st.frozensets(st.sampled_from(["acme", "hr"])), st.sampled_from(Integrity)
)
WORKERS = st.sampled_from(["one", "two"])
TERMINAL = {ItemStatus.CONSUMED, ItemStatus.CANCELLED}
CONSOLE = ("console",)


@dataclass
class Model:
    """What the session must be."""

    exists: bool = False
    generation: int = 1
    seq: int = 0
    taint: Label = PUBLIC
    fence: int = 0
    holder: str = ""
    lapsed: bool = False
    turn: Turn | None = None
    stop: bool = False
    waiting: list[int] = field(default_factory=list[int])
    items: dict[int, ItemStatus] = field(default_factory=dict[int, ItemStatus])
    approvals: dict[str, ApprovalState] = field(default_factory=dict[str, ApprovalState])
    deliveries: dict[str, DeliveryState] = field(default_factory=dict[str, DeliveryState])
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

    def cancel_questions(self) -> None:
        self.approvals = {
            name: ApprovalState.CANCELLED if state is ApprovalState.PENDING else state
            for name, state in self.approvals.items()
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
        self.store = self.loop.run(open_store(audit_key=KEY, url=self.url))
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

    def holds(self, name: str) -> bool:
        return name in self.workers and self.standing(name) is None

    def write(self, name: str, write: Write, *, commit: bool = False, sender: str = "", again: bool = False) -> Written:
        worker = self.workers[name]
        send = self.store.commit if commit else self.store.record
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
        assert written.audit[0] == model.audit
        worker.seq = written.seq
        model.lapsed = False
        if commit or write.release:
            model.holder = ""
        return written

    @rule(label=LABELS)
    def accept(self, label: Label) -> None:
        position = len(self.model.items) + 1
        accepted = self.run(self.store.accept(item(self.sid, f"d{position}", label)))
        assert (accepted.position, accepted.duplicate) == (position, False)
        if not self.model.exists:
            self.model.exists, self.model.seq = True, 1
        self.model.items[position] = ItemStatus.WAITING
        self.model.waiting.append(position)

    @precondition(lambda self: self.model.items)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.model.items)))
        accepted = self.run(self.store.accept(item(self.sid, f"d{position}")))
        assert (accepted.position, accepted.duplicate) == (position, True)
        assert accepted.status is self.model.items[position]

    @rule(name=WORKERS, idle=st.booleans())
    def claim(self, name: str, idle: bool) -> None:  # noqa: FBT001 - drawn
        owner = fresh()
        claim = self.run(self.store.claim(self.sid, owner, idle=idle))
        model = self.model
        assert (claim is not None) == (model.exists and not model.held and (model.ripe or idle))
        if claim is None:
            return
        model.fence += 1
        model.holder, model.lapsed = owner, False
        if model.turn is not None and not model.turn.suspended:
            model.turn = replace(model.turn, attempt=model.turn.attempt + 1)
        assert (claim.fence, claim.state.seq, claim.state.turn) == (model.fence, model.seq, model.turn)
        assert [one.position for one in claim.items] == model.waiting
        assert [one.seq for one in claim.events] == list(range(claim.state.generation_seq, model.seq + 1))
        assert {one.id: one.state for one in claim.approvals} == model.approvals
        assert self.run(self.store.claim(self.sid, owner)) is not None
        self.workers[name] = Worker(claim, owner, model.seq)

    @precondition(lambda self: self.model.held)
    @rule()
    def crash(self) -> None:
        """The holder goes silent until its lease lapses; it may come back later with its old claim."""
        self.run(end_lease(self.store, self.sid))
        self.model.lapsed = True

    @rule(name=WORKERS, again=st.booleans())
    def open_turn(self, name: str, again: bool) -> None:  # noqa: FBT001 - drawn
        model = self.model
        if not self.holds(name) or model.turn is not None or not model.waiting:
            return
        position = model.waiting[0]
        turn = Turn(fresh(), position, f"d{position}", "ann", 1)
        opened = Write(
            fresh(), self.workers[name].seq, events=(event(),), take=position, turn=turn, status=Status.RUNNING
        )
        self.write(name, opened, again=again)
        model.waiting.pop(0)
        model.items[position] = ItemStatus.TAKEN
        model.turn = turn

    @rule(
        name=WORKERS,
        read=st.lists(st.tuples(LABELS, st.booleans()), max_size=3),
        say=st.booleans(),
        again=st.booleans(),
    )
    def record(self, name: str, read: list[tuple[Label, bool]], say: bool, again: bool) -> None:  # noqa: FBT001 - drawn
        if not self.holds(name):
            return
        events = tuple(event(label, admitted=admitted) for label, admitted in read)
        key = fresh()
        deliver = (answer(key),) if say else ()
        self.write(
            name, Write(fresh(), self.workers[name].seq, events=events, audit=(row(),), deliver=deliver), again=again
        )
        if say:
            self.model.deliveries[key] = DeliveryState.PENDING

    @rule(name=WORKERS)
    def suspend(self, name: str) -> None:
        model = self.model
        if not self.holds(name) or model.turn is None or model.turn.suspended:
            return
        asked = replace(question(self.workers[name].claim, fresh()), generation=model.generation)
        turn = replace(model.turn, suspended=True)
        waiting = Write(fresh(), self.workers[name].seq, ask=(asked,), turn=turn, release=True)
        self.write(name, replace(waiting, status=self.next_status(Status.AWAITING_INPUT)))
        model.turn = turn
        model.approvals[asked.id] = ApprovalState.PENDING

    def next_status(self, wanted: Status) -> Status | None:
        state = self.run(self.store.state(self.sid))
        assert state is not None
        return wanted if state.status in {Status.RUNNING, wanted} else None

    @rule(name=WORKERS, data=st.data())
    def spend(self, name: str, data: st.DataObject) -> None:
        if not self.holds(name) or not self.model.approvals:
            return
        asked = data.draw(st.sampled_from(sorted(self.model.approvals)))
        write = Write(fresh(), self.workers[name].seq, use=asked)
        if self.model.approvals[asked] is ApprovalState.APPROVED:
            self.write(name, write)
            self.model.approvals[asked] = ApprovalState.USED
        else:
            self.refused(name, write, NotFoundError)

    @rule(name=WORKERS, again=st.booleans(), claimed=st.booleans())
    def commit(self, name: str, again: bool, claimed: bool) -> None:  # noqa: FBT001 - drawn
        model = self.model
        if not self.holds(name) or model.turn is None:
            return
        key, turn = fresh(), model.turn
        end = LastTurn(turn.id, YieldReason.COMPLETED, 1, 2, turn.attempt, 0, "", Usage(1, 1, 1))
        write = Write(
            fresh(),
            self.workers[name].seq,
            events=(event(),),
            audit=(row(), row()),
            settle=((turn.position, ItemStatus.CONSUMED),),
            end=end,
            deliver=(answer(key),),
        )
        self.write(name, write, commit=True, sender="me" if claimed else "", again=again)
        model.items[turn.position] = ItemStatus.CONSUMED
        model.deliveries[key] = DeliveryState.SENDING if claimed else DeliveryState.PENDING
        if claimed:
            (self.sending[key],) = [one for one in self.run(self.store.deliveries(self.sid)) if one.key == key]
        model.turn, model.stop = None, False
        model.requests += 1
        state = self.run(self.store.state(self.sid))
        assert state is not None
        assert state.status is (Status.QUEUED if model.waiting else Status.IDLE)

    @rule(name=WORKERS)
    def release(self, name: str) -> None:
        if name not in self.workers:
            return
        holds = self.holds(name)
        self.run(self.store.release(self.workers[name].claim))
        if holds:
            self.model.holder = ""

    @rule(name=WORKERS)
    def renew(self, name: str) -> None:
        if self.holds(name):
            assert self.run(self.store.renew(self.workers[name].claim)) is self.model.stop
            self.model.lapsed = False

    def refused(self, name: str, write: Write, error: type[Exception]) -> None:
        before = self.run(dump(self.store, self.sid))
        for send in (self.store.record, self.store.commit):
            with pytest.raises(error) as caught:
                self.run(send(self.workers[name].claim, write))
            assert caught.type is error
        assert self.run(dump(self.store, self.sid)) == before

    @rule(name=WORKERS, label=LABELS)
    def stale_fence_writes_nothing(self, name: str, label: Label) -> None:
        if name not in self.workers or (error := self.standing(name)) is None:
            return
        late = Write(fresh(), self.model.seq, events=(event(label),), audit=(row(),), deliver=(answer(fresh()),))
        self.refused(name, late, error)

    @rule(name=WORKERS, off=st.sampled_from([-1, 1]))
    def wrong_cursor_writes_nothing(self, name: str, off: int) -> None:
        if self.holds(name):
            self.refused(name, Write(fresh(), self.model.seq + off, events=(event(),)), LeaseLostError)

    # What people and senders may do ----------------------------------------------------------------

    @rule()
    def stop(self) -> None:
        model = self.model
        running = model.turn is not None
        cancelled = model.cancel_waiting()
        assert self.run(self.store.stop(self.sid, actor="ann")) == (running, cancelled)
        model.stop = running
        if model.turn is not None and model.turn.suspended:
            model.cancel_questions()

    @precondition(lambda self: self.model.exists)
    @rule()
    def reset(self) -> None:
        state = self.run(self.store.reset(self.sid, op=fresh(), actor="ann", audit=(row(),)))
        model = self.model
        model.cancel_waiting()
        for position, status in model.items.items():
            if status is ItemStatus.TAKEN:
                model.items[position] = ItemStatus.CANCELLED
        model.generation += 1
        model.seq += 1
        model.fence += 1
        model.audit += 1
        model.holder, model.turn, model.stop, model.taint = "", None, False, PUBLIC
        model.approvals.clear()
        for key, was in model.deliveries.items():
            if was in {DeliveryState.PENDING, DeliveryState.SENDING}:
                model.deliveries[key] = DeliveryState.CANCELLED
        assert (state.generation, state.seq, state.generation_seq) == (model.generation, model.seq, model.seq)
        assert (state.taint, state.creation, state.inbox_label) == (PUBLIC, PUBLIC, PUBLIC)

    @precondition(lambda self: self.model.approvals)
    @rule(data=st.data(), state=st.sampled_from([ApprovalState.APPROVED, ApprovalState.DENIED]))
    def resolve(self, data: st.DataObject, state: ApprovalState) -> None:
        asked = data.draw(st.sampled_from(sorted(self.model.approvals)))
        resolved = self.run(self.store.resolve(self.sid, asked, state, actor="boss", audit=(row(),)))
        if self.model.approvals[asked] is ApprovalState.PENDING:
            self.model.approvals[asked] = state
            self.model.audit += 1
        assert resolved.state is self.model.approvals[asked]

    @rule()
    def take(self) -> None:
        taken = self.run(self.store.take(self.sid, "me", CONSOLE))
        pending = [key for key, state in self.model.deliveries.items() if state is DeliveryState.PENDING]
        assert [one.key for one in taken] == pending
        for one in taken:
            self.model.deliveries[one.key] = DeliveryState.SENDING
            self.sending[one.key] = one

    @precondition(lambda self: self.sending)
    @rule(data=st.data(), state=st.sampled_from([DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.PENDING]))
    def settle(self, data: st.DataObject, state: DeliveryState) -> None:
        key = data.draw(st.sampled_from(sorted(self.sending)))
        held = self.run(self.store.settle(self.sending[key], "me", state, audit=(row(),)))
        was = self.model.deliveries[key]
        assert held == (was in {DeliveryState.SENDING, state})
        if was is DeliveryState.SENDING:
            self.model.deliveries[key] = state
            self.model.audit += 1

    # Laws ------------------------------------------------------------------------------------------

    @invariant()
    def log_is_gap_free(self) -> None:
        log = self.run(self.store.events(self.sid))
        assert [one.seq for one in log] == list(range(1, self.model.seq + 1))
        resets = [one.type is EventType.SESSION_RESET for one in log]
        assert [one.generation for one in log] == [1 + sum(resets[: n + 1]) for n in range(len(log))]

    @invariant()
    def taint_is_the_fold(self) -> None:
        state = self.run(self.store.state(self.sid))
        if state is not None:
            log = self.run(self.store.events(self.sid, after=state.generation_seq - 1))
            assert state.taint == join_all(one.label for one in log if one.admitted) == self.model.taint

    @invariant()
    def taint_never_falls(self) -> None:
        state = self.run(self.store.state(self.sid))
        if state is not None:
            generation, before = self.last_taint
            assert state.generation > generation or before.join(state.taint) == state.taint
            self.last_taint = (state.generation, state.taint)

    @invariant()
    def accepted_once_in_order(self) -> None:
        stored: Any = self.run(command(self.store, "HGETALL", keys(self.sid).idem))
        words = [value.split() for value in stored[1::2]]
        assert {int(word[1]): ItemStatus(word[2].decode()) for word in words} == self.model.items
        taken = [n for n, status in self.model.items.items() if status not in {ItemStatus.WAITING} | TERMINAL]
        assert not taken or not self.model.waiting or max(taken) < min(self.model.waiting)

    @invariant()
    def the_record_is_the_model(self) -> None:
        state = self.run(self.store.state(self.sid))
        model = self.model
        assert (state is not None) == model.exists
        if state is not None:
            assert (state.waiting_items, state.turn, state.seq) == (len(model.waiting), model.turn, model.seq)
            assert state.usage.requests == model.requests
        assert {one.key: one.state for one in self.run(self.store.deliveries(self.sid))} == model.deliveries
        assert {one.id: one.state for one in self.run(self.store.approvals(self.sid))} == model.approvals
        assert self.run(self.store.head(self.sid))[0] == model.audit


def test_scripts_do_what_the_model_does(server: Supervisor) -> None:
    class OnServer(Machine):
        url = server.url

    run_state_machine_as_test(OnServer, settings=settings(max_examples=25, stateful_step_count=40))
