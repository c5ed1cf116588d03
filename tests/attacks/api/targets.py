"""The sessions that a program with a low token asks about: its own, which it may know of or not, and others'."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from types import MappingProxyType
from typing import Final

import httpx2

from bot.app.programs import api_services
from bot.operations.background.runs import RunViewer
from bot.sessions.approvals import FOR_EVER, ApprovalState
from bot.sessions.background.run_states import RunType
from bot.sessions.background.runs import RunOrder, RunWish, run_home
from bot.sessions.background.schedules import Schedule, ScheduleKind
from bot.sessions.consents.grants import Grant
from bot.sessions.inbox import NewItem
from bot.sessions.knowledge.memories import Memory
from bot.sessions.log.events import Visibility
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SessionState
from bot.webhooks.keeper import WebhookRequest
from bot.workflows.views import WorkflowActor
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.attacks.api.cases import RouteCase
from tests.bot.api.kit import ApiHost, api_config
from tests.bot.kit import bang, eventually
from tests.harness import Person
from tests.people import principal

STEERS: Final = "nightly"
ADMINISTERS: Final = "chief"
READS: Final = "reader"
OTHER: Final = "other"

CONFIG: Final = api_config(
    {
        "channels": {
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
            "api": {"classification": "PUBLIC~", "inbound": "PUBLIC", "overshoot": "allow"},
        },
        "principals": {"owner": principal("console:owner"), "boss": principal("console:boss", role="approver")},
    },
    blocks={"limits": {"simulations_per_minute": 10_000}},
)
"""A program may hear what is PUBLIC alone, whatever its token is cleared for, and its sessions may read more."""

ABSENT: Final = "a" * 32
_DIRTY: Final = bang("read_file", path="public/welcome.md")
_READ: Final = bang("read_file", path="confidential/pipeline.md")
_ASK: Final = bang("ask_user", question="Which?", schema={"type": "enum", "values": ["red", "blue"]})
_TELL: Final = bang("message", channel="console", recipient="boss", text="hello")


class Situation(StrEnum):
    """Why a program may not know of a session, or that it may."""

    LOW = "its own"
    ARCHIVED = "its own, archived"
    ABSENT = "absent"
    ANOTHER = "another program's"
    PERSON = "a person's"
    RISEN = "its own, risen above it"
    RESTED = "its own, risen and archived"
    DELETED = "its own, deleted"
    RISEN_DELETED = "its own, risen and deleted"


HIDDEN: Final = (
    Situation.ANOTHER,
    Situation.PERSON,
    Situation.RISEN,
    Situation.RESTED,
    Situation.DELETED,
    Situation.RISEN_DELETED,
)
"""All of which a program hears what it hears of one that is absent."""

ABOVE: Final = frozenset({Situation.RISEN, Situation.RESTED, Situation.RISEN_DELETED})
_YEAR: Final = 365 * 24 * 3_600_000
_GONE: Final = frozenset({Situation.DELETED, Situation.RISEN_DELETED})
_AT_REST: Final = frozenset({Situation.ARCHIVED, Situation.RESTED})


_NONE: Final = MappingProxyType(
    {
        **dict.fromkeys(("sid", "chain", "lid", "tid", "wid", "did", "rid", "hid", "mid", "project"), ABSENT),
        **dict.fromkeys(("qid", "aid", "gid"), "aaaaaaaa"),
        "name": "0" * 12,
    }
)
"""What names nothing that there ever was."""


@dataclass
class Targets:
    """Makes sessions of a program for cases.

    One that a program may not know of is the same for all cases, as no case changes it. Where one may, it is new.
    """

    host: ApiHost
    program: str
    _number: "count[int]" = field(default_factory=count)
    _hidden: dict[tuple[Situation, str], dict[str, str]] = field(
        default_factory=dict[tuple[Situation, str], dict[str, str]]
    )

    async def path(self, case: RouteCase, situation: Situation) -> str:
        """Return the path of a route, with the ids of a session in this situation."""
        ids = {**_NONE}
        if situation is not Situation.ABSENT and "{" in case.path:
            ids |= await self._ids(case, situation)
        return case.path.format(**ids)

    def hidden(self, case: RouteCase) -> Iterable[Situation]:
        """Return why a program may not know of what a route names."""
        if "{did}" in case.path:
            return ()
        if "{wid}" in case.path:
            return (Situation.ANOTHER,)
        if any(name in case.path for name in ("{hid}", "{mid}", "{project}")):
            return (Situation.ANOTHER, Situation.PERSON, Situation.RISEN)
        return ABOVE if case.labelled else HIDDEN

    async def _ids(self, case: RouteCase, situation: Situation) -> dict[str, str]:
        if "{wid}" in case.path or "{did}" in case.path:
            return await self._webhook(OTHER if situation is Situation.ANOTHER else self.program)
        made = {"{hid}": self._schedule, "{mid}": self._memory, "{project}": self._workflow}
        for name, make in made.items():
            if name in case.path:
                return await make(situation)
        if "{rid}" in case.path:
            return await self._run(situation)
        waits = next((kind for kind in ("qid", "aid", "gid") if f"{{{kind}}}" in case.path), "")
        if case.blind or situation not in HIDDEN:
            return await self._made(situation, waits)
        if (situation, waits) not in self._hidden:
            self._hidden[situation, waits] = await self._made(situation, waits)
        return self._hidden[situation, waits]

    async def _made(self, situation: Situation, waits: str) -> dict[str, str]:
        """Make a session in which a question or an approval waits, or nothing; return the ids of what there is."""
        person = self._speaking(situation)
        if waits in {"aid", "gid"}:
            await person.say(_DIRTY)
        await person.say(_READ if situation in ABOVE else "hello")
        state = await person.state()
        # What a session may not tell at home it does not ask there either.
        waits = "" if situation in ABOVE else waits
        if waits:
            await person.say(_ASK if waits == "qid" else _TELL)
        asked = [one for one in await self.host.app.store.approvals.of(person.sid) if one.state == "pending"]
        assert len(asked) == bool(waits), (situation, waits)
        if waits == "gid":
            given = (replace(asked[0], grant=Grant(FOR_EVER, 9)),)
            ids, state_now = (asked[0].id,), ApprovalState.APPROVED
            await self.host.app.store.approvals.resolve(
                person.sid, ids, state_now, actor="owner", audit=(), granted=given
            )
            await person.settled()
        rows = await self.host.app.chains.newest(person.sid, 1)
        await self._ended(situation, await person.state())
        turn = state.last_turn
        assert turn is not None
        ids = {"sid": person.sid, "chain": person.sid, "lid": person.sid, "name": rows[0].hash[:12], "tid": turn.id}
        return {**ids, waits: asked[0].id} if asked else ids

    async def _webhook(self, name: str) -> dict[str, str]:
        caller = self.host.app.tokens.of(name)
        assert caller is not None
        made = await api_services(self.host.app).webhooks.make(
            caller, WebhookRequest("https://example.com/hook", Visibility.USER)
        )
        return {"wid": made.webhook.id}

    async def _run(self, situation: Situation) -> dict[str, str]:
        """Make a run that waits for messages, and have it rise or end; what is not changed by a case is made anew."""
        app, key, principal = self.host.app, f"target/{next(self._number)}", self._principal(situation)
        wish = RunWish("hello", type=RunType.MANUAL)
        started = await app.run_starter.mint_run(RunOrder(wish, key, principal, principal, PUBLIC))
        if situation in ABOVE:
            home = str(run_home(principal, started.run))
            up = NewItem(started.sid, "up", principal, parse("CONFIDENTIAL"), SessionMessage("up"), home, principal)
            await app.store.sessions.accept(up)
        state = await app.store.sessions.state(started.sid)
        assert state is not None
        top = app.config.policy.top
        if situation in _AT_REST:
            await app.runs.stop(RunViewer(principal, top, top, principal), started.run)
            # A turn of it that was open ends a moment later.
            await eventually(lambda: self._over(started.sid))
        if situation in _GONE:
            await app.lifecycle.delete(state, principal, reader=top, typed=top)
        return {"rid": started.run, "sid": started.sid}

    async def _over(self, sid: str) -> bool:
        state = await self.host.app.store.sessions.state(sid)
        return state is not None and state.ended_at > 0

    async def _schedule(self, situation: Situation) -> dict[str, str]:
        app, number = self.host.app, next(self._number)
        label = parse("CONFIDENTIAL") if situation is Situation.RISEN else PUBLIC
        principal, now = self._principal(situation), app.clock.wall_ms()
        made = Schedule(
            f"s_{number}",
            principal,
            principal,
            ScheduleKind.RUN,
            "hello",
            label,
            "0 0 1 1 *",
            "UTC",
            now + _YEAR,
            now,
            "",
        )
        await app.store.schedules.add(made, 1000, ())
        return {"hid": made.id}

    async def _memory(self, situation: Situation) -> dict[str, str]:
        label = parse("CONFIDENTIAL") if situation is Situation.RISEN else PUBLIC
        principal, name = self._principal(situation), f"mem_{next(self._number):012}"
        await self.host.app.store.memories.learn(Memory(name, principal, label, "hello", 1, principal), 1000, ())
        return {"mid": name}

    async def _workflow(self, situation: Situation) -> dict[str, str]:
        """Begin a workflow and a step of it."""
        label = parse("CONFIDENTIAL") if situation is Situation.RISEN else PUBLIC
        principal, name = self._principal(situation), f"quay-{next(self._number)}"
        actor, keeper = WorkflowActor(principal, principal, label, label), self.host.app.workflows
        await keeper.start(actor, name, "note-review", op=name)
        await keeper.begin_step(actor, name, "1", 1, op=f"{name}/1")
        return {"project": name}

    def _principal(self, situation: Situation) -> str:
        if situation is Situation.PERSON:
            return "owner"
        caller = self.host.app.tokens.of(OTHER if situation is Situation.ANOTHER else self.program)
        assert caller is not None
        return caller.principal

    def _speaking(self, situation: Situation) -> Person:
        app, output = self.host.app, self.host.person.output
        number = next(self._number)
        if situation is Situation.PERSON:
            return Person(app, output, Address("console", f"desk{number}"), "console:owner")
        name = OTHER if situation is Situation.ANOTHER else self.program
        return Person(app, output, Address("api", name, thread=f"r:{number}"), f"api:{name}")

    async def _ended(self, situation: Situation, state: SessionState) -> None:
        lifecycle = self.host.app.lifecycle
        if situation in _AT_REST:
            await lifecycle.archive(state, state.principal)
        if situation in _GONE:
            top = self.host.app.config.policy.top
            await lifecycle.delete(state, state.principal, reader=top, typed=top)


@dataclass(frozen=True, slots=True)
class Heard:
    """All of an answer that its program could tell from another: its request's id and the moment are left out."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def heard(client: httpx2.AsyncClient, case: RouteCase, path: str) -> Heard:
    """Send what a case sends to a path, and return the answer."""
    content = None if case.content is None else case.content.encode()
    request = client.build_request(
        case.method, path, params=case.query, headers=case.headers, json=case.body, content=content
    )
    answer = await client.send(request, stream=True)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        # It goes on for as long as its session may be known of; that it began is the answer.
        await answer.aclose()
        return Heard(answer.status_code, (), b"")
    await answer.aread()
    request_id = answer.headers["x-request-id"]
    plain = [(name, value) for name, value in answer.headers.items() if name not in {"x-request-id", "date"}]
    # As long as before, so that the size counts.
    body = answer.content.replace(request_id.encode(), b"_" * len(request_id))
    return Heard(answer.status_code, tuple(sorted(plain)), body)
