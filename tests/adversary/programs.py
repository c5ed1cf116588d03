"""A program with a low token: all that the HTTP API tells it in the end, on every route and by every stream.

It asks about every session there is, as if somebody had told it their ids. Of those that it may know of, what it hears
is what a reader below could tell of the run. Of every other one it must hear what it hears of one that there never was:
a line tells where that is not so. Nothing is sent over a network: the application is called as its server calls it.
"""

# The parts are put together as the application does it, but for the planted weakness.
# pyright: reportPrivateUsage=false

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from bot.access.authorize import Caller, Ingress
from bot.api.application import make_api
from bot.api.mcp_server.mount import McpMount
from bot.app.app import App
from bot.app.programs import api_services
from bot.operations.reading import SessionReader
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.sessions.models import SessionState
from bot.sessions.visibility import sees
from channels.messages import Address
from policy.labels import PUBLIC, Label, Level, parse
from policy.request import Role
from tests.attacks.api.cases import RouteCase, cases

NAME: Final = "low"
ACCOUNT: Final = f"api:{NAME}"
HOME: Final = Address("api", NAME, thread="r:1")
"""Where the session of a program is that other sessions report to."""

UPPER: Final = Address("api", NAME, thread="r:2")
"""Where another session of it is, which rises."""

_CLEARANCE: Final = Label(Level.CONFIDENTIAL)
_MAKER: Final = Caller("owner", Role.OWNER, parse("RESTRICTED~"), Ingress.COMMAND)
_ABSENT: Final = "a" * 32
_SPENT: Final = re.compile(r'"active_seconds":[0-9.e+-]+')
_REFS: Final = re.compile(r'"refs":"[^"]+"')
_KIND: Final = re.compile(r'(?<=[" ])[a-z](?=[a-z2-7]{16})')
_CHAIN: Final = re.compile(r'"name":"[a-z2-7]{32}"')
"""A chain among others, which are sorted by ids that are drawn anew."""

_CODE: Final = re.compile(r'("(?:approval|id|question)":")[2-9a-z]{8}\b')
_CHANGING: Final = frozenset({"POST", "DELETE"})
_HARMLESS: Final = frozenset({"POST /v1/simulate", "POST /v1/sessions/{sid}/simulate"})
_MAKING: Final = frozenset({"POST /v1/sessions", "POST /v1/import", "POST /v1/webhooks"})
"""What begins something new: of what there is, it tells nothing that other routes do not."""


class LeakyReader(SessionReader):
    """The gate of reading, broken: who asks is compared, and what they are cleared for is not."""

    async def see(self, principal: str, reader: Label, sid: str) -> SessionState:
        """Return a program's own session, whatever it has read."""
        del reader
        return await self.own(principal, sid)


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, without what differs from one request to the next."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: str


class LowProgram:
    """Asks the API of a stage's application; with `leaky` its gate of reading is broken."""

    def __init__(self, app: App, *, leaky: bool) -> None:
        services = api_services(app)
        if leaky:
            services = replace(services, reading=LeakyReader(app.store, app.clock, app.gate.masks.masked))
        self._app, self._services = app, services
        self._api = make_api(services, McpMount(services))
        self._token = ""

    async def begin(self) -> None:
        """Come to a store that is empty: with another token, as nothing is left of the one before."""
        request = TokenRequest(NAME, Scope.ADMIN, _CLEARANCE, 0, 1_000_000)
        self._token = (await self._app.token_keeper.create(request, _MAKER)).text
        self._services.reading._noted.clear()

    async def lines(self, states: list[SessionState]) -> AsyncIterator[str]:
        """Yield what it is told: what changes nothing first, what ends sessions last."""
        known = [state for state in states if sees(state, f"program:{NAME}", PUBLIC)]
        hidden = [state for state in states if state not in known]
        every = sorted((case for case in cases() if case.route not in _MAKING), key=_last)
        for case in every:
            if "{" not in case.path:
                yield f"{case.name}: {await self._asked(case, {})}"
                continue
            absent = await self._asked(case, {})
            for number, state in enumerate(known):
                yield f"{case.name} of {number}: {await self._asked(case, await self._ids(state))}"
            for state in () if case.blind or case.labelled else hidden:
                told = await self._asked(case, await self._ids(state))
                if told != absent:
                    yield f"{case.name} of one that is above or another's: {told}"

    async def _ids(self, state: SessionState) -> dict[str, str]:
        """Return the ids of all that there is in a session, as if its program knew them."""
        asked = await self._app.store.approvals.of(state.sid)
        rows = await self._app.chains.newest(state.sid, 1)
        ids = {"sid": state.sid, "chain": state.sid, "lid": state.sid}
        ids |= {name: one.id for one in asked for name in ("qid", "aid", "gid")}
        ids |= {"tid": state.last_turn.id} if state.last_turn is not None else {}
        ids |= {"rid": state.charter.run} if state.charter is not None else {}
        return ids | ({"name": rows[0].hash[:12]} if rows else {})

    async def _asked(self, case: RouteCase, ids: dict[str, str]) -> Told:
        named = re.findall(r"\{(\w+)\}", case.path)
        path = case.path.format(**{**dict.fromkeys(named, _ABSENT), **ids})
        body = b"" if case.body is None else json.dumps(case.body).encode()
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json", **case.headers}
        status, got, text = await self._called(
            {
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": "2.3"},
                "http_version": "1.1",
                "method": case.method,
                "scheme": "http",
                "path": path,
                "raw_path": path.encode(),
                "query_string": urlencode(case.query).encode(),
                "root_path": "",
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
                "client": ("127.0.0.1", 1),
                "server": ("127.0.0.1", 1),
            },
            body,
        )
        request_id = dict(got).get(b"x-request-id", b"").decode()
        # Bodies have their size; what they are told about time is outside the laws, and so is how long that is.
        plain = tuple((name, value) for name, value in got if name not in {b"x-request-id", b"content-length"})
        return Told(status, plain, _plain(text.replace(request_id, "<request>")))

    async def _called(self, scope: dict[str, Any], body: bytes) -> tuple[int, tuple[tuple[bytes, bytes], ...], str]:
        """Call the application as its server does; a stream ends once it told what there is."""
        found = list[dict[str, Any]]()
        given, gone, closing = False, asyncio.Event(), self._services.closing

        async def receive() -> dict[str, Any]:
            nonlocal given
            if given:
                await gone.wait()
                return {"type": "http.disconnect"}
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
            found.append(message)
            if message.get("more_body"):
                # It goes on until the process ends, which it does when it has told what the log has.
                asyncio.get_running_loop().call_soon(closing.set)

        try:
            await self._api(scope, receive, send)
        finally:
            closing.clear()
        told = b"".join(message.get("body", b"") for message in found[1:])
        return found[0]["status"], tuple(found[0]["headers"]), told.decode()


def _plain(text: str) -> str:
    """Return a text without the time that was spent, its ids each as a word of its own."""
    text = _CODE.sub(r"\1<code>", _CHAIN.sub('"name":"<chain>"', _SPENT.sub("", text)))
    return _REFS.sub(lambda refs: _KIND.sub(r"\g<0>:", refs.group()), text)


def _last(case: RouteCase) -> tuple[int, str]:
    """Return where a case comes among all: what erases sessions behind what only changes them."""
    changes = case.method in _CHANGING and case.route not in _HARMLESS
    return (2 if case.method == "DELETE" else 1 if changes else 0), case.name
