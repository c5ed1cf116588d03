"""The part of the store for runs: their places and slots, their progress, and people's steering notes.

A place is counted in the pool of its run's label, and a slot is locked there: neither reveals runs of another level
(law `no_read_up`). A run's progress is part of its session's record, so the holder of the claim changes it.
"""

import hashlib
from typing import NoReturn

from bot.core.errors import BusyError, LeaseLostError, NotFoundError, RequestError, ResetError
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import LATE
from bot.sessions.background.run_states import Priority
from bot.sessions.background.runs import NewNote, Note, Progress, ProgressChange, RunSlot
from bot.sessions.models import Claim
from bot.store.calls import Arguments, ScriptAnswer, call, nested, session_call
from bot.store.records import codec, run_parts
from bot.store.records.codec import Bodies, raw, text
from bot.store.records.form import unpack
from bot.store.records.kinds import NOTE, RUN_SLOT
from bot.store.run_steps import continuation
from bot.store.schema import OPEN, run_fences_key, run_slots_key, session_keys
from bot.store.scripts.loader import Script
from bot.store.session_index import Filing
from bot.store.sessions import claim_argument
from bot.store.shared import SessionChange, Shared
from policy.labels import Label


class RedisRuns:
    """Implements the port `RunStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def reserve(self, principal: str, slot: RunSlot, most: int) -> RunSlot:
        """Reserve a place for a new run."""
        facts = {"session": slot.sid, "pool": str(slot.pool.secrecy), "deadline": slot.until, "most": most}
        got = await self._place(Script.RESERVE_RUN, principal, {"run": slot.run, **facts})
        if got.word == "full":
            raise BusyError
        return _slot(slot.run, got.value("slot"))

    async def lock(self, principal: str, run: str, slot: str, fence: int) -> RunSlot:
        """Lock a slot for a run, or return the place of the run that has it."""
        args = {"run": run, "slot": slot, "holder": fence, "lock": hashlib.sha256(raw(slot)).hexdigest()[:32]}
        got = await self._place(Script.LOCK_SLOT, principal, args)
        if got.word == "none":
            raise NotFoundError
        if got.word == "stale":
            raise LeaseLostError("another worker has the session")
        return _slot(got.text("run"), got.value("slot"))

    async def slots(self, principal: str) -> tuple[RunSlot, ...]:
        """Return the places of a principal's runs."""
        (flat,) = await self._shared.connection.commands(("HGETALL", run_slots_key(principal)))
        found = [_slot(text(run), record) for run, record in codec.pairs(flat).items()]
        return tuple(sorted(found, key=lambda slot: (slot.since, slot.run)))

    async def free(self, principal: str, run: str) -> None:
        """Give a run's place back, with the slot that it locked."""
        await self._place(Script.FREE_RUN, principal, {"run": run})

    async def progress(self, sid: str) -> Progress | None:
        """Return a run's progress, None for a session that is not a run."""
        asked = ("HMGET", session_keys(sid).state, *codec.stored_fields("charter", "progress"))
        ((charter, stored),) = await self._shared.connection.commands(asked)
        return None if charter is None else codec.reading(lambda: run_parts.read_progress(stored))

    async def change(self, claim: Claim, change: ProgressChange) -> Progress:
        """Change a run's progress."""
        args = {
            "claim": claim_argument(claim),
            "late": LATE,
            "task": change.task,
            "status": None if change.status is None else change.status.value,
            "auth_method": None if change.auth_method is None else change.auth_method.value,
            "failed": change.failed,
            "skipped": change.skipped,
            "consecutive": change.consecutive,
            "completes": change.completes,
            "initializes": change.initializes,
            "beats": change.beats,
            "next_action": change.next_action,
        }
        got = await self._shared.run(session_call(Script.CHANGE_RUN, session_keys(claim.sid), args))
        if got.word != "ok":
            _refuse(got)
        return codec.reading(lambda: run_parts.read_progress(got.value("progress")))

    async def steer(self, sid: str, note: NewNote, audit: tuple[AuditRow, ...]) -> None:
        """Give a run a steering note."""
        told = {"priority": note.priority.value, "text": note.text, "label": str(note.label), "sender": note.sender}
        args = {"id": note.id, "note": nested(told), "most": self._shared.options.notes_limit}
        got = await self._shared.change(SessionChange(Script.STEER, sid, args), audit)
        if got.word == "none":
            raise NotFoundError
        if got.word == "busy":
            raise BusyError

    async def notes(self, sid: str) -> tuple[Note, ...]:
        """Return a run's steering notes, oldest first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", session_keys(sid).notes))
        found = codec.reading(lambda: [_note(text(name), record) for name, record in codec.pairs(flat).items()])
        return tuple(sorted(found, key=lambda note: (note.at, note.id)))

    async def wake(self, sid: str, op: str, text: str, label: Label, *, hops: int = 0, probe: bool = False) -> bool:
        """Put a continuation into a run's inbox unless one waits or a turn is open."""
        bodies = Bodies()
        item = {**continuation(text, op, bodies, hops), **nested({"label": str(label)})}
        args = {"item": item, "op": self._shared.ids.op(), "probe": probe}
        got = await self._shared.run(session_call(Script.WAKE_RUN, session_keys(sid), args, bodies=bodies))
        if not got.flag("woken"):
            return False
        await self._shared.connection.commands(("SADD", OPEN, raw(sid)))
        await self._shared.mark_ready(sid, got)
        await self._filing.refile([sid])
        return True

    async def forget_slot(self, principal: str, sid: str) -> None:
        """Forget the slot name of an erased session's run. Its place is given back by its pool."""
        await self._place(Script.FREE_RUN, principal, {"session": sid})

    async def _place(self, script: Script, principal: str, args: Arguments) -> ScriptAnswer:
        keys = {"slots": run_slots_key(principal), "fences": run_fences_key(principal)}
        return await self._shared.run(call(script, keys, {**args, "keep": self._shared.options.keep_ms}))


def _refuse(got: ScriptAnswer) -> NoReturn:
    """Turn a refusal to change a run into an error."""
    match got.word:
        case "stale":
            raise LeaseLostError("another worker has the session")
        case "reset":
            raise ResetError("the session was reset; this turn's work is dropped")
        case "none":
            raise NotFoundError
        case "down":
            raise RequestError("`tasks_failed` and `tasks_skipped` never go down, give the number of all so far")
        case "task":
            raise RequestError("no task is named, set `current_task_id` first")
        case _:
            raise RequestError("the run has ended or is stopped, nothing of it changes any more")


def _slot(run: str, record: bytes) -> RunSlot:
    got = codec.reading(lambda: unpack(RUN_SLOT, record))
    return RunSlot(
        run=run,
        sid=got["session"],
        pool=codec.reading(lambda: codec.label(got["pool"])),
        slot=got["slot"],
        since=got["since"],
        until=got["deadline"],
        fence=got["fence"],
        live=got["live"],
    )


def _note(name: str, record: bytes) -> Note:
    got = unpack(NOTE, record)
    return Note(
        id=name,
        priority=Priority(got["priority"]),
        text=got["text"],
        label=codec.label(got["label"]),
        sender=got["sender"],
        at=got["time"],
        read_at=got["read_at"],
    )
