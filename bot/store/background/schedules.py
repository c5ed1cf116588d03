"""The part of the store for schedules, reminders and timers.

They are in the slot of the chain for decisions outside a session, so that one script writes a schedule, its timer and
the audit row with its creator. A timer that was taken is due again after a while unless it is settled. So its work is
done, at the latest by the next worker that takes it.
"""

from collections.abc import Sequence
from typing import cast

from bot.core.errors import BusyError
from bot.sessions import refs
from bot.sessions.audit import AuditRow
from bot.sessions.background.run_states import RunType
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind, ScheduleStatus, Timer, TimerKind
from bot.store.calls import Arguments, ScriptAnswer, call
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import Values, complete, unpack
from bot.store.records.kinds import SCHEDULE
from bot.store.schema import SCHEDULES, TAKEN_TIMERS, TIMERS, audit_op, schedules_of_key, timer_name
from bot.store.scripts.loader import Script
from bot.store.shared import Shared

_NONE = -1
"""The answer if no timer is set."""


class RedisSchedules:
    """Implements the port `ScheduleStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def add(self, schedule: Schedule, most: int, audit: tuple[AuditRow, ...]) -> None:
        """Keep a schedule with its timer."""
        args = {"schedule": complete(SCHEDULE, _record(schedule)), "most": most}
        got = await self._change(Script.ADD_SCHEDULE, schedule.id, schedule.principal, args, audit=audit)
        if got.word == "full":
            raise BusyError

    async def of(self, principal: str) -> tuple[Schedule, ...]:
        """Return a principal's schedules, oldest first."""
        (names,) = await self._shared.connection.commands(("SMEMBERS", schedules_of_key(principal)))
        if not names:
            return ()
        (records,) = await self._shared.connection.commands(("HMGET", SCHEDULES, *names))
        there = [(name, record) for name, record in zip(names, records, strict=True) if record is not None]
        found = codec.reading(lambda: [_schedule(text(name), record) for name, record in there])
        return _by_age(found)

    async def every(self) -> tuple[Schedule, ...]:
        """Return all schedules of the installation, oldest first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", SCHEDULES))
        found = codec.reading(lambda: [_schedule(text(name), record) for name, record in codec.pairs(flat).items()])
        return _by_age(found)

    async def schedule(self, id: str) -> Schedule | None:  # noqa: A002 - as in the port
        """Return one schedule, None if there is none."""
        (record,) = await self._shared.connection.commands(("HGET", SCHEDULES, raw(id)))
        return None if record is None else codec.reading(lambda: _schedule(id, record))

    async def replace(self, before: Schedule, after: Schedule, audit: tuple[AuditRow, ...] = ()) -> bool:
        """Replace a schedule and its timer, if it is unchanged since it was read."""
        args = {"before": complete(SCHEDULE, _record(before)), "after": complete(SCHEDULE, _record(after))}
        got = await self._change(Script.REPLACE_SCHEDULE, before.id, before.principal, args, audit=audit)
        return got.word == "ok"

    async def drop(self, id: str, audit: tuple[AuditRow, ...]) -> bool:  # noqa: A002 - as in the port
        """Forget a schedule and its timer; return whether there was one."""
        known = await self.schedule(id)
        if known is None:
            return False
        return (await self._change(Script.DROP_SCHEDULE, id, known.principal, {}, audit=audit)).word == "ok"

    async def set_timer(self, timer: Timer) -> None:
        """Set a timer, replacing one of the same kind and subject."""
        await self._time(Script.SET_TIMER, {"timer": timer_name(timer.kind, timer.about), "due": timer.due})

    async def take_due(self, most: int, hold_ms: int) -> tuple[tuple[Timer, ...], int]:
        """Take due timers, earliest first."""
        got = await self._time(Script.TAKE_DUE, {"most": most, "hold": hold_ms})
        taken = codec.reading(lambda: [_timer(*one) for one in codec.pairs(got.list("timers")).items()])
        left = got.value("next")
        return tuple(taken), _NONE if left is None else int(left)

    async def keep(self, timers: Sequence[Timer], hold_ms: int) -> None:
        """Keep timers that were taken for longer."""
        keys = {"timers": TIMERS, "taken": TAKEN_TIMERS}
        asked = [{"timer": timer_name(one.kind, one.about), "due": one.due, "hold": hold_ms} for one in timers]
        await self._shared.run_all([call(Script.HOLD_TIMER, keys, args) for args in asked])

    async def settle(self, timer: Timer) -> None:
        """Forget a timer that was taken, unless it was set again meanwhile."""
        await self._time(Script.SETTLE_TIMER, {"timer": timer_name(timer.kind, timer.about), "due": timer.due})

    async def next_due(self) -> int:
        """Return the milliseconds until the next timer is due, -1 for none."""
        first, clock = await self._shared.connection.commands(("ZRANGE", TIMERS, 0, 0, "WITHSCORES"), ("TIME",))
        return max(int(first[1]) - codec.clock_ms(clock), 0) if first else _NONE

    async def _change(
        self, script: Script, name: str, principal: str, args: Arguments, *, audit: tuple[AuditRow, ...]
    ) -> ScriptAnswer:
        keys = {"schedules": SCHEDULES, "theirs": schedules_of_key(principal), "timers": TIMERS, "taken": TAKEN_TIMERS}
        told = {"id": name, "timer": timer_name(TimerKind.SCHEDULE, name), "keep": self._shared.options.keep_ms}
        return await self._shared.change_outside(script, keys, {**told, **args}, audit)

    async def _time(self, script: Script, args: Arguments) -> ScriptAnswer:
        keys = {"timers": TIMERS, "taken": TAKEN_TIMERS, "op": audit_op(self._shared.ids.op())}
        return await self._shared.run(call(script, keys, args))


def _by_age(found: list[Schedule]) -> tuple[Schedule, ...]:
    return tuple(sorted(found, key=lambda one: (one.created_at, one.id)))


def _timer(name: bytes, due: bytes) -> Timer:
    kind, _, about = text(name).partition("/")
    return Timer(TimerKind(kind), about, int(due))


_PLAIN = (
    *("principal", "asker", "text", "cron", "zone", "next_at", "asked_at", "title", "deliver_to", "meant", "slot"),
    *("by_agent", "last_at", "last_run", "failures", "skipped"),
)
"""The parts of a schedule that are written as they are."""


def _record(value: Schedule) -> Values:
    return {
        **{name: getattr(value, name) for name in _PLAIN},
        "kind": value.kind.value,
        "label": str(value.label),
        "created": value.created_at,
        "type": "" if value.run_type is RunType.AUTONOMOUS else value.run_type.value,
        "overlap": "" if value.overlap is Overlap.SKIP else value.overlap.value,
        "status": value.status.value,
        "authors": codec.listing(value.authors),
        "refs": refs.written(value.refs),
    }


def _schedule(name: str, stored: bytes) -> Schedule:
    got = unpack(SCHEDULE, stored)
    return Schedule(
        **{part: got[part] for part in _PLAIN},
        id=name,
        kind=ScheduleKind(got["kind"]),
        label=codec.label(got["label"]),
        created_at=got["created"],
        run_type=RunType(got["type"]) if got["type"] else RunType.AUTONOMOUS,
        overlap=Overlap(got["overlap"]) if got["overlap"] else Overlap.SKIP,
        status=ScheduleStatus(got["status"]),
        authors=tuple(cast("list[str]", codec.listed(got["authors"]))),
        refs=refs.read(got["refs"]),
    )
