"""Copies of sessions for programs: a session as a signed file, and such a file as an archived session.

An export is decided like any text that leaves for the program's address, before it is signed. An import labels as the
file says, where its signature is of an installation that is known; otherwise everything of it is as high as anything.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import Field

from bot.api.errors import FORBIDDEN, ApiRefusedError, ErrorAnswer, sentence
from bot.api.requests import ApiRequest, Reading, Steering
from bot.api.services import ApiServices
from bot.api.shapes import ApiOutput
from bot.api.standing import standing_of
from bot.gate.results import explained
from bot.operations import reading
from bot.operations.export import EXPORTED
from bot.operations.told_events import EventTeller
from bot.sessions.api_tokens import Scope

JSON_LINES: Final = "application/jsonl"

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


def router(services: ApiServices) -> APIRouter:
    """Return the routes that make copies of sessions and bring them in."""
    routes = APIRouter(tags=["copies"])

    @routes.get("/sessions/{sid}/export", response_class=Response, responses={HTTPStatus.OK: {"content": _file()}})
    async def export(asked: Reading, sid: str, *, whole: bool = False) -> Response:
        """Return a session as signed JSON lines, each entry with its label.

        `whole` adds what conversations do not show, such as answers that were withheld, thoughts and errors, with a
        token of the scope admin. Only such a file can be brought in again.
        """
        if whole and not asked.caller.may(Scope.ADMIN):
            raise ApiRefusedError(FORBIDDEN)
        return Response(await _exported(services, asked, sid, whole=whole), media_type=JSON_LINES)

    @routes.post(
        "/import",
        status_code=HTTPStatus.CREATED,
        responses={HTTPStatus.OK: {"model": ImportDocument}},
        openapi_extra={"requestBody": {"required": True, "content": _file()}},
    )
    async def bring(asked: Steering, request: Request, response: Response, *, as_top: bool = False) -> ImportDocument:
        """Bring in a file that an export gave, as an archived session of this program.

        `as_top` takes also a file whose signature is of nobody who is known here, and labels all of it as high as
        anything can be.
        """
        principal = asked.caller.principal
        made = await services.importer.bring(await request.body(), principal, principal, asked.reader, at_top=as_top)
        if made.known:
            response.status_code = HTTPStatus.OK
        return ImportDocument(id=made.sid, label=str(made.label), entries=made.entries, known=made.known)

    return routes


async def _exported(services: ApiServices, asked: ApiRequest, sid: str, *, whole: bool) -> str:
    """Return a session's signed file.

    Raises ApiRefusedError: a rule refuses it. NotFoundError: it may not be known of.
    """
    state = await services.reading.see(asked.caller.principal, asked.reader, sid)
    await services.reading.noted(asked.caller.principal, state, reading.ReadingKind.EXPORT)
    standing = await standing_of(services, asked, state)
    teller = EventTeller(services.reading, services.gate, services.tokens, services.clock)
    # A rule that asks people counts here: a program must not read what they have to approve of before they said so. Of
    # a whole copy nothing can be left out, so it is refused.
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
