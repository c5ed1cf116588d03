"""Runs and schedules of a program: started, followed, steered and ended by the routes under `/v1/runs`."""

from urllib.parse import quote

from pydantic import JsonValue

from lockgate.retries import new_key, sendable
from lockgate.shapes import (
    NotePriority,
    Run,
    RunKind,
    RunPage,
    RunStats,
    ScheduledKind,
    ScheduledWork,
    SchedulePage,
    SentNote,
    StartedRun,
)
from lockgate.transport import IDEMPOTENCY_KEY, ClientRequest, Query, Transport


class Runs:
    """The runs of the program whose token this is: sessions that go on by themselves."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def start(  # noqa: PLR0913 - the options of a run
        self,
        goal: str,
        *,
        kind: RunKind | None = None,
        title: str | None = None,
        slot: str | None = None,
        hours: int | None = None,
        deliver_to: str | None = None,
        key: str | None = None,
    ) -> StartedRun:
        """Start a run.

        Args:
            goal: the goal of the run.
            kind: `autonomous` goes on by itself, and is the default; `manual` waits for messages.
            title: its title.
            slot: the name that no two runs may hold at a time; None for one of its own.
            hours: the hours until it ends at the latest; None for the configured limit.
            deliver_to: who hears its last answer besides.
            key: an idempotency key of the program's own, in place of one for this call.

        Raises:
            ApiError: with code `refused` if the policy does not allow it, `busy` if as many go on as may.
            ValueError: the key is not valid.
        """
        given = {
            "type": kind,
            "title": title,
            "slot": slot,
            "hours": hours,
            "deliver_to": deliver_to,
        }
        body: dict[str, JsonValue] = {"goal": goal, **{name: value for name, value in given.items() if value}}
        return await self._transport.value(_once("/runs", body, key), StartedRun)

    async def list(self, *, cursor: str | None = None, limit: int | None = None, ended: bool = False) -> RunPage:
        """Return a page of runs, newest first.

        Args:
            cursor: the `cursor` of the page before; None for the first page.
            limit: the most entries of the page; None for the API's default.
            ended: include the runs that are over.
        """
        query: Query = {"cursor": cursor, "limit": limit, "ended": "true" if ended else None}
        return await self._transport.value(ClientRequest("GET", "/runs", query, repeatable=True), RunPage)

    async def get(self, run: str) -> Run:
        """Return a run; its `session` has its events and its result."""
        return await self._transport.value(ClientRequest("GET", _run(run), repeatable=True), Run)

    async def stats(self, run: str) -> RunStats:
        """Return a run in numbers; an unknown number is None."""
        return await self._transport.value(ClientRequest("GET", f"{_run(run)}/stats", repeatable=True), RunStats)

    async def steer(
        self, run: str, text: str, *, priority: NotePriority | None = None, key: str | None = None
    ) -> SentNote:
        """Give a run a steering note; the run reads it at its next heartbeat.

        Args:
            run: its id.
            text: the note.
            priority: `urgent` is to stop and pivot, `abort` to finish safely and end; None for `normal`.
            key: an idempotency key of the program's own, in place of one for this call.
        """
        body: dict[str, JsonValue] = {"text": text} if priority is None else {"text": text, "priority": priority}
        return await self._transport.value(_once(f"{_run(run)}/notes", body, key), SentNote)

    async def pause(self, run: str) -> None:
        """Let a run rest: no turn of it begins."""
        await self._does(run, "pause")

    async def resume(self, run: str) -> None:
        """Resume a paused run, also one whose breaker opened."""
        await self._does(run, "resume")

    async def stop(self, run: str) -> None:
        """End a run for good, with all that it set going, also one that rose above this token."""
        await self._does(run, "stop")

    async def _does(self, run: str, what: str) -> None:
        await self._transport.content(ClientRequest("POST", f"{_run(run)}/{what}", repeatable=True))


class Schedules:
    """The schedules and reminders of the program whose token this is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(  # noqa: PLR0913 - the options of a schedule
        self,
        when: str,
        text: str,
        *,
        kind: ScheduledKind = "run",
        time_zone: str | None = None,
        title: str | None = None,
        deliver_to: str | None = None,
        overlap: bool = False,
        key: str | None = None,
    ) -> ScheduledWork:
        """Make a schedule, or with the kind `reminder` one.

        Args:
            when: a moment in words, as `tomorrow 9:00` or `every weekday 7:30`, or a line of cron.
            text: the goal of its runs, or the text of the reminder.
            kind: `run` or `reminder`.
            time_zone: such as `Europe/Berlin`; None for the configured one.
            title: its title.
            deliver_to: who hears it.
            overlap: begin a run also while the last one still goes on.
            key: an idempotency key of the program's own, in place of one for this call.

        Raises:
            ApiError: with code `refused` if the policy does not allow it.
            ValueError: the key is not valid.
        """
        given = {
            "time_zone": time_zone,
            "title": title,
            "deliver_to": deliver_to,
            "overlap": "allow" if overlap else None,
        }
        body: dict[str, JsonValue] = {"kind": kind, "when": when, "text": text}
        body |= {name: value for name, value in given.items() if value}
        return await self._transport.value(_once("/schedules", body, key), ScheduledWork)

    async def list(self) -> SchedulePage:
        """Return the schedules of this program, the oldest first."""
        return await self._transport.value(ClientRequest("GET", "/schedules", repeatable=True), SchedulePage)

    async def get(self, schedule: str) -> ScheduledWork:
        """Return a schedule by its id."""
        return await self._transport.value(ClientRequest("GET", _schedule(schedule), repeatable=True), ScheduledWork)

    async def cancel(self, schedule: str) -> None:
        """Forget a schedule; a run that it started goes on."""
        await self._transport.content(ClientRequest("DELETE", _schedule(schedule)))

    async def pause(self, schedule: str) -> None:
        """Let a schedule rest."""
        await self._transport.content(ClientRequest("POST", f"{_schedule(schedule)}/pause", repeatable=True))

    async def resume(self, schedule: str) -> None:
        """Resume a paused schedule, from its next moment."""
        await self._transport.content(ClientRequest("POST", f"{_schedule(schedule)}/resume", repeatable=True))


def _once(path: str, body: JsonValue, key: str | None) -> ClientRequest:
    """Return a request that is done once, however often it is sent. Raises ValueError: the key is none."""
    headers = {IDEMPOTENCY_KEY: new_key() if key is None else sendable(key)}
    return ClientRequest("POST", path, body=body, headers=headers, repeatable=True)


def _run(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"


def _schedule(schedule: str) -> str:
    return f"/schedules/{quote(schedule, safe='')}"
