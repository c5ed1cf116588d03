"""A session that rises while it is read tells nothing, on every route that reads one (law `no_read_up`).

The race is played: as soon as a request has looked at the session for the first time, the session rises.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

import pytest

from bot.api import server
from bot.app.programs import api_services
from bot.audit.visibility import AuditTrail
from bot.operations.approval_answers import ApprovalAnswers
from bot.operations.background.runs import RunOperations
from bot.operations.reading import SessionReader
from bot.sessions.api_tokens import Scope
from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import run_home
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.attacks.api.cases import RouteCase, cases
from tests.attacks.api.targets import ADMINISTERS, CONFIG, OTHER, Situation, Targets, heard
from tests.bot.api.kit import ApiHost
from tests.bot.kit import bang
from tests.harness import Person, running

if TYPE_CHECKING:
    from bot.sessions.ports.people import ApprovalStore
    from bot.sessions.ports.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

_STREAMS: Final = "accept"
"""The header of a case whose answer goes on: streams end by what they read, see `tests/bot/api`."""

CASES: Final = tuple(
    case
    for case in cases()
    if any(kind in case.path for kind in ("{sid}", "{aid}", "{rid}")) and _STREAMS not in case.headers
)


class Between:
    """A part of the store in which something happens as soon as a method has answered."""

    def __init__(self, part: object, method: str, then: Callable[[], Awaitable[None]]) -> None:
        self._part, self._method, self._then = part, method, then

    def __getattr__(self, name: str) -> object:
        found = getattr(self._part, name)
        if name != self._method:
            return found

        async def asked(*given: object, **named: object) -> object:
            answer = await found(*given, **named)
            await self._then()
            return answer

        return asked


@dataclass
class Rise:
    """Lets a session rise once, when it is `due`."""

    person: Person
    due: str = ""

    async def __call__(self) -> None:
        sid, self.due = self.due, ""
        state = await self.person.app.store.sessions.state(sid) if sid else None
        if state is not None:
            label = parse("CONFIDENTIAL")
            item = NewItem(sid, "up", state.principal, label, SessionMessage("up"), state.home, state.principal)
            await self.person.app.store.sessions.accept(item)


@asynccontextmanager
async def racing(folder: Path) -> AsyncGenerator[tuple[ApiHost, Rise]]:
    """Serve an API in which a session rises right after it was looked at first."""
    async with running(folder, CONFIG, serve=True) as person:
        app, rise = person.app, Rise(person)
        looked = SimpleNamespace(sessions=Between(app.store.sessions, "state", rise), audit=app.store.audit)
        approvals = cast("ApprovalStore", Between(app.store.approvals, "waiting", rise))
        seen = SimpleNamespace(sessions=looked.sessions, runs=app.store.runs, schedules=app.store.schedules)
        services = replace(
            api_services(app),
            runs=RunOperations(
                store=cast("Store", seen),
                calls=app.calls,
                lifecycle=app.lifecycle,
                session_ids=app.session_ids,
                clock=app.clock,
            ),
            reading=SessionReader(cast("Store", looked), app.clock, app.gate.masks.masked),
            approval_answers=ApprovalAnswers(approvals, app.gate, app.question_updates.close),
        )
        began = asyncio.get_running_loop().create_future()
        answering = asyncio.create_task(server.serve(services, began.set_result))
        try:
            yield ApiHost(person, await began), rise
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering


async def session_of(host: ApiHost, path: str) -> str:
    """Return the session that a path of a case is about."""
    if "/approvals/" not in path:
        named = path.split("/")[3]
        return host.app.session_id(run_home(f"program:{ADMINISTERS}", named)) if "/runs/" in path else named
    waiting = await host.app.store.approvals.waiting()
    return next(state.sid for state, approval in waiting if approval.id == path.split("/")[3])


async def expected(targets: Targets, case: RouteCase) -> str:
    """Return the path of what is answered alike: a risen session for a route that works on one, or none at all."""
    return await targets.path(case, Situation.RISEN if case.blind else Situation.ABSENT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_no_read_up_what_rises_while_it_is_read_is_as_absent(case: RouteCase, tmp_path: Path) -> None:
    async with racing(tmp_path) as (host, rise):
        await host.token(OTHER, Scope.ADMIN)
        targets = Targets(host, ADMINISTERS)
        async with host.client(await host.token(ADMINISTERS, Scope.ADMIN)) as client:
            hidden = await heard(client, case, await expected(targets, case))
            path = await targets.path(case, Situation.LOW)
            rise.due = await session_of(host, path)
            found = await heard(client, case, path)
            assert rise.due == "", "it was not looked at"
            assert found == hidden


async def test_no_read_up_copies_of_what_rises_while_it_is_deleted(tmp_path: Path) -> None:
    """What a session sent is listed only if it may still be known of when that was read."""
    tell = bang("message", channel="console", recipient="boss", text="hello")
    async with racing(tmp_path) as (host, rise), host.client(await host.token(ADMINISTERS, Scope.ADMIN)) as client:
        lists = list[list[object]]()
        for rises in (False, True):
            address = Address("api", ADMINISTERS, thread=f"r:{rises}")
            person = Person(host.app, host.person.output, address, f"api:{ADMINISTERS}")
            await person.say(tell)
            rise.due = person.sid if rises else ""
            lists.append((await client.delete(f"/v1/sessions/{person.sid}")).json()["sent"])
        assert [len(one) for one in lists] == [1, 0]


async def test_no_read_up_the_audit_of_what_rises_while_it_is_read(tmp_path: Path) -> None:
    """What the chain has by then is told by the label that its session had when that was written."""
    async with running(tmp_path, CONFIG) as person:
        await person.say("hello")
        app, rise = person.app, Rise(person)

        async def more() -> None:
            if rise.due:
                sid = rise.due
                await rise()
                await app.store.lifecycle.pause(sid, actor="x", audit=(AuditRow("session", "x", {"did": "secret"}),))

        rise.due = person.sid
        sessions = Between(app.store.sessions, "state", more)
        store = cast("Store", SimpleNamespace(sessions=sessions, audit=app.store.audit))
        trail = AuditTrail(store, app.chains, lambda: app.gate.document.top)
        rows = [row async for row in trail.rows(person.sid, PUBLIC)]
        assert rows
        assert not [row for row in rows if row.record.body.get("did") == "secret"]
