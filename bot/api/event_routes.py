"""The events of a session: a page of them, or a stream for those who ask for one.

The media type that a program accepts asks for a stream. `events` and `streams` decide which events a reader gets.
"""

from types import MappingProxyType
from typing import Annotated, Final, Literal, cast

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from bot.api.errors import INVALID, ApiRefusedError
from bot.api.events import EventChoice, EventPage, PageRequest, ToldEvent, page_of
from bot.api.requests import Reading
from bot.api.streams import MEDIA_TYPE, EventStreams, StreamRequest
from bot.operations.reading import ReadingKind
from bot.sessions.log.events import Visibility

STREAMS: Final = "lockgate.streams"
"""The key of an ASGI scope at which the application puts its streams."""

_LAST_SEQ: Final = 2**53 - 1

_MOST_PAGE: Final = 500

_DEFAULT_PAGE: Final = 100

_STREAMED: Final = MappingProxyType(
    {
        200: {
            "description": "A page of events, or a stream of them for those who accept `text/event-stream`.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    }
)


class EventQuery(BaseModel):
    """Which events, and how many of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    after: int = Field(default=0, ge=0, le=_LAST_SEQ, description="The seq behind which events are told.")
    level: Literal[Visibility.USER, Visibility.PROGRESS] = Field(
        default=Visibility.PROGRESS, description="The least of the levels that are told."
    )
    type: str | None = Field(
        default=None, max_length=2_000, description="The types that are told, with commas between."
    )
    limit: int | None = Field(default=None, ge=1, le=_MOST_PAGE, description="The size of a page; not for a stream.")

    @property
    def choice(self) -> EventChoice:
        """Which events are asked for. Raises ApiRefusedError: that cannot be read."""
        return EventChoice.of(self.level, self.type)


Accept = Annotated[str, Header(description="`text/event-stream` asks for a stream.")]
LastSeen = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID", pattern=r"^[0-9]{1,15}$", description="The last id of a stream; it goes before `after`."
    ),
]

ROUTER: Final = APIRouter(tags=["sessions"])
"""The route that tells events."""


async def _streams(request: Request) -> EventStreams:
    return cast("EventStreams", request.scope[STREAMS])


@ROUTER.get(
    "/sessions/{sid}/events", response_model=EventPage, response_model_exclude_unset=True, responses={**_STREAMED}
)
async def events(
    streams: Annotated[EventStreams, Depends(_streams)],
    asked: Reading,
    sid: str,
    *,
    query: Annotated[EventQuery, Query()],
    accept: Accept = "",
    last_event_id: LastSeen = None,
) -> Response | EventPage:
    """Tell what happened in a session, oldest first: a page, or a stream that goes on as more happens.

    A stream ends with an event `end`. Where its reason is `restart`, it is to be asked for again. An event
    `log_truncated` tells that the log ends before the event that was named: the stream goes on behind its `last`.
    """
    services, principal, choice = streams.services, asked.caller.principal, query.choice
    streamed = MEDIA_TYPE in accept
    if streamed and query.limit is not None:
        raise ApiRefusedError(INVALID)
    state = await services.reading.see(principal, asked.reader, sid)
    if streamed:
        begin = query.after if last_event_id is None else int(last_event_id)
        await services.reading.noted(principal, state, ReadingKind.STREAM)
        return streams.response(state, StreamRequest(asked.caller, choice, begin))
    await services.reading.noted(principal, state, ReadingKind.EVENTS)
    page = PageRequest(principal, asked.reader, choice, query.after, query.limit or _DEFAULT_PAGE)
    told, after = await page_of(services.store.sessions, streams.teller, sid, page)
    return EventPage(events=tuple(map(ToldEvent.model_validate, told)), next=after)
