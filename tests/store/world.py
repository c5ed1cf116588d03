"""Short ways to say what the store's tests do again and again."""

# pyright: reportPrivateUsage=false

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.audit.chain import OlderKey
from bot.core.ids import Ids
from bot.sessions.alternatives import Alternative, Wanted
from bot.sessions.approvals import Approval, ApprovalQuestion, QuestionAnswer, QuestionKind
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import FieldKind, Lineage, NewSlot, Parcel, ResultField
from bot.sessions.background.run_states import RunType
from bot.sessions.background.runs import Charter, Progress, RunStep, run_home
from bot.sessions.background.schedules import Schedule, ScheduleKind
from bot.sessions.deliveries import DeliveryState, NewDelivery
from bot.sessions.inbox import ItemStatus, NewItem
from bot.sessions.knowledge.memories import Memory
from bot.sessions.knowledge.skills import Skill, SkillDeed, SkillEvent, SkillState, SkillText, SkillVersion
from bot.sessions.log.event_types import AgentMessage, ToolOutcome, ToolResult, UserMessage, YieldReason
from bot.sessions.log.events import NewEvent
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Claim, LastTurn, Status, Turn, Write, Written
from bot.sessions.usage import Usage
from bot.sessions.workflows.events import NewWorkflowEvent, StepStarted
from bot.store.records.fields import RecordType, Value
from bot.store.records.form import pack, pack_arguments, stored_map, unpack
from bot.store.records.kinds import DELIVERY, INPUT, LINEAGE, SLOT
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from bot.store.schema import SessionKeys, session_keys, slots_key
from bot.store.servers.connection import Reply
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC, Label, parse
from tests.folders import quick_folder

KEY = bytes(range(32))
SIGNERS = (OlderKey(KEY),)
SECRET = parse("CONFIDENTIAL{acme}~")
TOP = parse("RESTRICTED{acme,hr}~")
HOME = "console::ann:"
ONE_TURN = Progress(turns=1)
IDS = Ids()


def fresh() -> str:
    """Return an id nobody used: a session, an operation, an owner."""
    return IDS.op()


def item(sid: str, dedupe: str = "d1", label: Label = PUBLIC, text: str = "hello", creation: Label = PUBLIC) -> NewItem:
    """Return an input by ann."""
    return NewItem(sid, dedupe, "ann", label, SessionMessage(text), HOME, "ann", creation)


def event(label: Label = PUBLIC, *, admitted: bool = True, text: str = "x") -> NewEvent:
    """Return a tool's result."""
    return NewEvent("tool", label, ToolResult("c", "tool", text, ToolOutcome.OK), admitted=admitted, turn="t")


def row(what: str = "read") -> AuditRow:
    """Return an audit row."""
    return AuditRow("decision", "ann", {"what": what})


def opening(claim: Claim, position: int = 1, dedupe: str = "d1") -> Write:
    """Return the write that takes an input into a new turn."""
    return Write(
        fresh(),
        claim.state.seq,
        events=(NewEvent("ann", PUBLIC, UserMessage("hello"), admitted=True, turn="t"),),
        take=position,
        turn=Turn("t", position, dedupe, "ann", claim.now),
        status=Status.RUNNING,
    )


def ending(seq: int, *positions: int, deliver: tuple[NewDelivery, ...] = (), error: str = "") -> Write:
    """Return the write that ends a turn and consumes its inputs."""
    reason = YieldReason.ERROR if error else YieldReason.COMPLETED
    return Write(
        fresh(),
        seq,
        events=(NewEvent("agent", PUBLIC, AgentMessage("done"), admitted=True, turn="t"),),
        usage=Usage(1, 10, 20),
        settle=tuple((position, ItemStatus.CONSUMED) for position in positions),
        end=LastTurn("t", reason, seq + 1, seq + 1, error),
        deliver=deliver,
    )


def answer(key: str = "k1", text: str = "done", address: str = HOME) -> NewDelivery:
    """Return something to be said."""
    return NewDelivery(key, address, text, PUBLIC, "answer", "t")


def offered(code: str) -> Alternative:
    """Return an offer to ask a question of `s1` anew."""
    return Alternative(
        code=code,
        wanted=Wanted.QUESTION,
        sid="s1",
        generation=2,
        turn="t1",
        principal="ann",
        binding="digest",
        label=parse("CONFIDENTIAL{hr}~"),
        told=parse("INTERNAL"),
        private="chat::ann:",
        parent="chat::ann:",
        recipients=(("vault", "there"), ("böard", "elsewhere")),
    )


def question(claim: Claim, name: str = "abc23456", lasts: int = 60_000) -> Approval:
    """Return a pending approval."""
    return Approval(
        id=name,
        sid=claim.sid,
        generation=claim.state.generation,
        turn="t",
        call="c1",
        tool="message",
        binding="b" * 64,
        label=SECRET,
        principal="ann",
        question=ApprovalQuestion("message", {"text": "may I?"}),
        rules=("untrusted_cannot_command",),
        expires_at=claim.now + lasts,
    )


def inquiry(claim: Claim, name: str = "inq23456", lasts: int = 60_000) -> Approval:
    """Return an agent's pending question to ann."""
    asked = ApprovalQuestion("ask_user", {"question": "which?"}, kind=QuestionKind.QUESTION)
    field = ResultField("answer", FieldKind.ENUM, ("red", "blue"))
    return replace(
        question(claim, name, lasts),
        tool="ask_user",
        question=asked,
        rules=(),
        wanted=field,
        default="red",
        places=(HOME,),
    )


def reply(value: str = "blue", label: Label = PUBLIC, via: str = "") -> QuestionAnswer:
    """Return an answer to it."""
    return QuestionAnswer(value, label, HOME, via)


def descent(parent: str, *, run: str = "", deadline: int = 2**45, title: str = "") -> Lineage:
    """Return where a child comes from."""
    return Lineage(parent, 1, run or fresh(), 1, deadline, title)


def child(parent: str, *, label: Label = PUBLIC, reserved: int = 2**45) -> NewItem:
    """Return the task of a new background session."""
    return replace(item(fresh(), "task", label, creation=label), lineage=descent(parent), reserved=reserved)


def goal(  # noqa: PLR0913 - what may differ of it
    sid: str = "",
    label: Label = PUBLIC,
    *,
    run: str = "",
    type: RunType = RunType.AUTONOMOUS,  # noqa: A002 - what it is called
    deadline: int = 2**45,
    who: str = "ann",
    reserved: int = 2**45,
) -> NewItem:
    """Return the goal of a new run."""
    run = run or f"r_{fresh()}"
    charter = Charter(run, type, deadline, run, who, title="nightly", asked_at=HOME)
    new = item(sid or fresh(), "goal", label, creation=label)
    return replace(new, home=str(run_home(who, run)), principal=who, sender=who, charter=charter, reserved=reserved)


async def run_started(store: RedisStore, new: NewItem | None = None) -> tuple[Claim, Written]:
    """Begin a run, and open its first turn."""
    new = new or goal()
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    return claim, await store.sessions.record(claim, opening(claim, dedupe=new.dedupe))


def stepping(seq: int, position: int, progress: Progress = ONE_TURN, text: str = "") -> Write:
    """Return the write that ends a turn of a run: how far that came by then, and what the runtime says next."""
    return replace(ending(seq, position), run=RunStep(progress, text))


def scheduled(who: str = "ann", label: Label = PUBLIC) -> Schedule:
    """Return a schedule of a run, due in years."""
    return Schedule(
        *(fresh(), who, who, ScheduleKind.RUN, "read the news", label, "0 9 * * *", "Europe/Berlin"),
        next_at=2**42,
        created_at=1,
        asked_at=HOME,
    )


def learned(who: str = "ann", label: Label = PUBLIC, text: str = "tea is at four") -> Memory:
    """Return a memory to be kept."""
    return Memory(f"mem_{fresh()}", who, label, text, learned_at=5, asker="ann")


def skilled(who: str = "ann", label: Label = PUBLIC, name: str = "Tea") -> Skill:
    """Return a draft to be kept; the secrecy of the label of what wrote it is the skill's."""
    text = SkillText(name, "Tea for all.", "office", ("Boil water.", "Pour it."))
    first = SkillVersion(1, text, label, made_at=5, asker="ann")
    return Skill(f"skill_{fresh()}", who, label.secrecy, SkillState.DRAFT, (first,), 5, 5, pool=label)


def happened(call: str = "", step: str = "1") -> NewWorkflowEvent:
    """Return an event of a workflow to be written, by ann."""
    return NewWorkflowEvent(StepStarted(step), "ann", call=call or fresh())


def done(do: SkillDeed = SkillDeed.CREATED, version: int = 1) -> SkillEvent:
    """Return a line of a skill's log, by ann."""
    return SkillEvent(5, "ann", do, version)


def slot(
    run: str = "", sid: str = "", parent: str = "p", pool: Label = PUBLIC, *, life: int = 600_000, deadline: int = 0
) -> NewSlot:
    """Return a slot to be reserved."""
    return NewSlot(run or fresh(), sid or fresh(), parent, pool, life, deadline)


def parcel(  # noqa: PLR0913 - what may differ of it
    sid: str,
    label: Label = PUBLIC,
    *,
    dedupe: str = "p1",
    generation: int = 1,
    report: bool = False,
    sender: str = "ann",
    told: Label = TOP,
) -> Parcel:
    """Return what another session sends, of which readers may know everything unless `told` says otherwise."""
    return Parcel(sid, generation, dedupe, sender, label, SessionMessage("handed over"), report, told=told)


async def claimed(store: RedisStore, sid: str, *, owner: str = "", idle: bool = False) -> Claim:
    """Claim a session that can be claimed."""
    claim = await store.sessions.claim(sid, owner or fresh(), idle=idle)
    assert claim is not None
    return claim


async def started(store: RedisStore, sid: str = "") -> tuple[Claim, Written]:
    """Accept an input and open its turn."""
    sid = sid or fresh()
    await store.sessions.accept(item(sid))
    claim = await claimed(store, sid)
    return claim, await store.sessions.record(claim, opening(claim))


async def suspended(
    store: RedisStore, lasts: int = 60_000, ask: Callable[..., Approval] = question, *, sid: str = ""
) -> tuple[Claim, Approval]:
    """Leave a session waiting for one approval, or for an agent's question."""
    claim, written = await started(store, sid)
    asked = ask(claim, lasts=lasts)
    turn = Turn("t", 1, "d1", "ann", claim.now, suspended=True)
    waiting = Write(fresh(), written.seq, ask=(asked,), turn=turn, status=Status.AWAITING_INPUT, release=True)
    await store.sessions.record(claim, waiting)
    return claim, asked


async def command(store: RedisStore, *words: str | bytes | int) -> Reply:
    """Say something to the server directly; to all of them what has no key, as to find keys or to change a server."""
    name, *rest = words
    if name in {"DEL", "EXISTS"}:
        # In a Cluster no command may name keys of several slots.
        return sum(await store._shared.connection.commands(*((name, key) for key in rest)))
    if name not in {"ACL", "CLIENT", "CONFIG", "FLUSHALL", "INFO", "KEYS", "SCRIPT"}:
        (reply,) = await store._shared.connection.commands(words)
        return reply
    replies = [reply for _, reply in await store._shared.connection.everywhere(words)]
    if isinstance(replies[0], list):
        return [one for reply in replies for one in reply]
    return b"".join(replies) if name in {"CLIENT", "INFO"} and isinstance(replies[0], bytes) else replies[0]


async def depart(gone: RedisStore, seen_by: RedisStore) -> None:
    """End a process's connection, and wait until the server has noticed."""
    await gone.close()
    async with asyncio.timeout(60):
        while gone.process.encode() in await command(seen_by, "CLIENT", "LIST"):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


async def moment(store: RedisStore) -> int:
    """Return what a server's clock shows, in milliseconds since the epoch."""
    seconds, micros = await command(store, "TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def dump(store: RedisStore, sid: str) -> dict[str, object]:
    """Return everything stored about a session, but answers kept for retries."""
    found: list[bytes] = await command(store, "KEYS", f"{session_keys(sid).prefix}*")
    names = sorted(name.decode() for name in found if b":op:" not in name)
    return {name: await command(store, "DUMP", name) for name in names}


async def put_state(store: RedisStore, sid: str, **fields: str | bytes | int) -> None:
    """Put fields into a session's record."""
    words = [part for name, value in fields.items() for part in (NAMES[name], value)]
    await command(store, "HSET", keys(sid).state, *words)


async def drop_state(store: RedisStore, sid: str, *names: str) -> None:
    """Take fields out of a session's record."""
    await command(store, "HDEL", keys(sid).state, *(NAMES[name] for name in names))


async def state_field(store: RedisStore, sid: str, name: str) -> bytes | None:
    """Return a field of a session's record as it is stored."""
    return await command(store, "HGET", keys(sid).state, NAMES[name])


async def stored_record(store: RedisStore, kind: RecordType, key: str, field: str) -> dict[str, Any]:
    """Return a record of a hash."""
    return unpack(kind, await command(store, "HGET", key, field))


async def alter(store: RedisStore, kind: RecordType, key: str, field: str, **changes: Value) -> None:
    """Change fields of a record of a hash."""
    stored: bytes = await command(store, "HGET", key, field)
    unpack(kind, stored)
    changed = stored_map(stored) | {NAMES[name]: value for name, value in changes.items()}
    await command(store, "HSET", key, field, pack_arguments(changed))


async def end_by(store: RedisStore, sid: str, deadline: int) -> None:
    """Change by when a background session must end."""
    lineage = unpack(LINEAGE, await state_field(store, sid, "lineage") or b"")
    await put_state(store, sid, lineage=pack(LINEAGE, {**lineage, "deadline": deadline}))


async def statuses(store: RedisStore, sid: str) -> list[ItemStatus]:
    """Return where every accepted input is, oldest first."""
    flat: list[bytes] = await command(store, "HGETALL", keys(sid).inputs)
    found = sorted((unpack(INPUT, one) for one in flat[1::2]), key=lambda one: one["position"])
    return [ItemStatus(one["status"]) for one in found]


async def taken_slot(store: RedisStore, principal: str, run: str, parent: str, **facts: Value) -> None:
    """Put a slot that is taken for long; `facts` are what differs of it."""
    slot: dict[str, Value] = {"live": True, "lapses": 2**42, "deadline": 2**42, "pool": "PUBLIC", "session": run}
    await command(store, "HSET", slots_key(principal), run, pack(SLOT, {**slot, "parent": parent, **facts}))


async def end_lease(store: RedisStore, sid: str) -> None:
    """Let the time of a lease pass: its worker has vanished."""
    await put_state(store, sid, lease_until=1)


async def end_sends(store: RedisStore, sid: str) -> None:
    """Let the minute pass after which a sender that vanished in mid-send counts as gone."""
    for entry in await store.outbox.deliveries(sid):
        if entry.state is DeliveryState.SENDING:
            await pass_time(store, sid, entry.key)


async def pass_time(store: RedisStore, sid: str, key: str) -> None:
    """Let the time of an entry come: when it may be tried again, or when its sender counts as gone."""
    await alter(store, DELIVERY, keys(sid).outbox, key, lapses=1)


def keys(sid: str) -> SessionKeys:
    """Return a session's keys."""
    return session_keys(sid)


def served() -> Iterator[Supervisor]:
    """Run a server, for a fixture to yield; going on ends it."""
    with quick_folder() as data:
        supervisor = Supervisor(Path(data))
        asyncio.run(supervisor.attach())
        yield supervisor
        asyncio.run(supervisor.detach())


def pid_of(store: RedisStore) -> int:
    """Return the process id of a store's own server."""
    assert store.server is not None
    return int(store.server.files.pid.read_text())


def kill(pid: int) -> None:
    """End one process, at once."""
    assert pid > 0, "0 stands for this process and all beside it"
    os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def earlier(store: RedisStore, *names: str) -> Callable[[], Awaitable[None]]:
    """Remember some keys as they are; calling the result puts them back."""
    kept = {name: await command(store, "DUMP", name) for name in names}

    async def back() -> None:
        for name, dumped in kept.items():
            await command(store, "DEL", name)
            if dumped is not None:
                await command(store, "RESTORE", name, 0, dumped)

    return back


async def remembered(store: RedisStore, sid: str) -> Callable[[], Awaitable[None]]:
    """Remember a session as it is; calling the result puts it back, as a replica that lagged has it."""
    keys = session_keys(sid)
    names = (keys.state, keys.log, keys.inbox, keys.inputs, keys.outbox, keys.approvals, keys.audit)
    return await earlier(store, *names)
