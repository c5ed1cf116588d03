"""The sessions that a program with a low token asks about: its own, which it may know of or not, and others'."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final

import httpx2

from bot.sessions.api_tokens import Scope
from bot.sessions.models import SessionState
from channels.messages import Address
from tests.attacks.api.cases import RouteCase
from tests.bot.api.kit import ApiHost, api_config
from tests.bot.kit import bang
from tests.harness import Person
from tests.people import principal

MINE: Final = "nightly"
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
_TELL: Final = bang("message", channel="console", recipient="owner", text="hello")


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

_ABOVE: Final = frozenset({Situation.RISEN, Situation.RESTED, Situation.RISEN_DELETED})
_GONE: Final = frozenset({Situation.DELETED, Situation.RISEN_DELETED})
_AT_REST: Final = frozenset({Situation.ARCHIVED, Situation.RESTED})


@dataclass
class Targets:
    """Makes sessions for cases, each one new, as routes change what they name."""

    host: ApiHost
    _number: "count[int]" = field(default_factory=count)

    async def path(self, case: RouteCase, situation: Situation) -> str:
        """Return the path of a route, with the ids of a session in this situation."""
        ids = {"sid": ABSENT, "chain": ABSENT, "name": "0" * 12, "qid": "aaaaaaaa", "aid": "aaaaaaaa", "tid": ABSENT}
        if situation is not Situation.ABSENT and "{" in case.path:
            ids |= await self._made(case, situation)
        return case.path.format(**ids)

    async def _made(self, case: RouteCase, situation: Situation) -> dict[str, str]:
        person = self._speaking(situation)
        if "{aid}" in case.path:
            await person.say(_DIRTY)
        await person.say(_READ if situation in _ABOVE else "hello")
        state = await person.state()
        if "{qid}" in case.path or "{aid}" in case.path:
            await person.say(_ASK if "{qid}" in case.path else _TELL)
        asked = await self.host.app.store.approvals.of(person.sid)
        assert len(asked) == ("{qid}" in case.path or "{aid}" in case.path)
        rows = await self.host.app.chains.newest(person.sid, 1)
        await self._ended(situation, await person.state())
        turn = state.last_turn
        assert turn is not None
        ids = {"sid": person.sid, "chain": person.sid, "name": rows[0].hash[:12], "tid": turn.id}
        return ids | {name: one.id for one in asked for name in ("qid", "aid")}

    def _speaking(self, situation: Situation) -> Person:
        app, output = self.host.app, self.host.person.output
        thread = f"r:{next(self._number)}"
        if situation is Situation.PERSON:
            return Person(app, output, Address("console", "owner", thread=thread), "console:owner")
        name = OTHER if situation is Situation.ANOTHER else MINE
        return Person(app, output, Address("api", name, thread=thread), f"api:{name}")

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
    sent = {"json": case.body} if case.content is None else {"content": case.content.encode()}
    if case.body is None and case.content is None:
        sent = {}
    answer = await client.request(case.method, path, params=case.query, headers=case.headers, **sent)
    request_id = answer.headers["x-request-id"]
    plain = [(name, value) for name, value in answer.headers.items() if name not in {"x-request-id", "date"}]
    # As long as before, so that the size counts.
    body = answer.content.replace(request_id.encode(), b"_" * len(request_id))
    return Heard(answer.status_code, tuple(sorted(plain)), body)


async def program(host: ApiHost, scope: Scope, name: str = MINE) -> str:
    """Make a program that is cleared for all that its sessions read, and hears what is PUBLIC alone."""
    return await host.token(name, scope)
