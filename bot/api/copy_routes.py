"""Copies of sessions for programs: a session as a signed file, and such a file as an archived session.

An export is decided like any text that leaves for the program's address, before it is signed. An import labels as the
file says, where its signature is of an installation that is known; otherwise everything of it is as high as anything.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from weakref import WeakValueDictionary

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from bot.api.errors import FORBIDDEN, ApiRefusedError, ErrorAnswer
from bot.api.requests import ApiRequest, Reading, Services, Steering
from bot.api.services import ApiServices
from bot.api.shapes import ApiOutput
from bot.api.standing import knowing, standing_of
from bot.core.errors import sentence
from bot.gate.results import explained
from bot.operations import reading
from bot.operations.export import EXPORTED
from bot.operations.told_events import EventTeller
from bot.sessions.api_tokens import Scope as Need

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

JSON_LINES: Final = "application/jsonl"

EXPORTS: Final = "lockgate.exports"
"""The key of an ASGI scope at which the application puts its queue of exports."""

_AT_ONCE: Final = 4
"""How many exports are made and sent at a time: each lies in memory as a whole until it is read."""

_PIECE: Final = 64 * 1024
"""How many bytes are sent at once."""

REFUSED: Final = ErrorAnswer(HTTPStatus.FORBIDDEN, "refused", "")
"""The refusal of an export by a rule, which gives its sentence."""


def _file() -> dict[str, Any]:
    """Return how a signed file is documented."""
    return {JSON_LINES: {"schema": {"type": "string"}}}


class ImportDocument(ApiOutput):
    """A session that was brought in. It is archived: it can be read and exported, and no turn goes on with it."""

    id: str
    label: str
    entries: int = Field(description="How many entries of the file it holds.")
    known: bool = Field(description="Whether the same file was brought in before, as the same session.")


class ExportQueue:
    """The exports of this process at a time: so many, and one of each program; the others wait."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(_AT_ONCE)
        self._own = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def one(self, principal: str) -> AsyncGenerator[None]:
        """Wait for a program's turn."""
        own = self._own.setdefault(principal, asyncio.Lock())
        async with own, self._all:
            yield


async def _exports(request: Request) -> ExportQueue:
    return cast("ExportQueue", request.scope[EXPORTS])


ROUTER: Final = APIRouter(tags=["copies"])
"""The routes that make copies of sessions and bring them in."""


@ROUTER.get("/sessions/{sid}/export", response_class=Response, responses={HTTPStatus.OK: {"content": _file()}})
async def export(
    services: Services,
    exports: Annotated[ExportQueue, Depends(_exports)],
    asked: Reading,
    sid: str,
    *,
    whole: bool = False,
) -> Response:
    """Return a session as signed JSON lines, each entry with its label.

    `whole` adds events that conversations do not show, such as withheld answers, thoughts and errors. It needs a
    token of the scope admin. Only such a file can be brought in again.
    """
    if whole and not asked.caller.may(Need.ADMIN):
        raise ApiRefusedError(FORBIDDEN)
    return _ExportResponse(exports, asked.caller.principal, lambda: _exported(services, asked, sid, whole=whole))


@ROUTER.post(
    "/import",
    status_code=HTTPStatus.CREATED,
    responses={HTTPStatus.OK: {"model": ImportDocument}},
    openapi_extra={"requestBody": {"required": True, "content": _file()}},
)
async def bring(
    services: Services, asked: Steering, request: Request, response: Response, *, as_top: bool = False
) -> ImportDocument:
    """Bring in a file that an export gave, as an archived session of this program.

    `as_top` also takes a file whose signer is unknown here, and gives all of it the highest label.
    """
    principal = asked.caller.principal
    made = await services.importer.bring(await request.body(), principal, principal, asked.reader, at_top=as_top)
    if made.known:
        response.status_code = HTTPStatus.OK
    return ImportDocument(id=made.sid, label=str(made.label), entries=made.entries, known=made.known)


class _ExportResponse(Response):
    """A file that is made when it is its turn, and sent in pieces: a slow reader has as long for each."""

    def __init__(self, exports: ExportQueue, principal: str, made: Callable[[], Awaitable[str]]) -> None:
        super().__init__(media_type=JSON_LINES)
        self._exports, self._principal, self._made = exports, principal, made

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Make and send it. Raises any error of making it: then nothing was sent."""
        del scope, receive
        async with self._exports.one(self._principal):
            file = (await self._made()).encode()
            self.headers["content-length"] = str(len(file))
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for begin in range(0, len(file), _PIECE):
                await send({"type": "http.response.body", "body": file[begin : begin + _PIECE], "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def _exported(services: ApiServices, asked: ApiRequest, sid: str, *, whole: bool) -> str:
    """Return a session's signed file.

    Raises:
        ApiRefusedError: a rule refuses it.
        NotFoundError: it may not be known of.
    """
    async with knowing(services, asked, sid, reading.ReadingKind.EXPORT) as state:
        standing = await standing_of(services, asked, state)
        teller = EventTeller(services.reading, services.gate, services.tokens, services.clock)
        # A rule that asks people counts here: a program must not read a text before they approved it. Of a whole copy
        # nothing can be left out, so it is refused.
        made = (
            await services.exporter.export(standing, state, whole=True, approved=())
            if whole
            else await services.exporter.export(
                standing, state, left_out=lambda event: teller.waits(state, event, asked.reader)
            )
        )
        if made.text is None:
            why = explained(made.decision, asked.reader, "export", EXPORTED)
            raise ApiRefusedError(replace(REFUSED, message=sentence(why)))
        return made.text
