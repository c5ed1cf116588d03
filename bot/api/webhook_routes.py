"""Webhooks: the addresses that get events of a program's sessions, and the undelivered events.

A webhook of another program is answered as one that does not exist. An undelivered event is listed while the program
may know of its session (law `no_read_up`). `bot.webhooks` decides and sends.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Final, Literal, TypeVar

from fastapi import APIRouter, Header, Response
from pydantic import Field

from bot.api.requests import Reading, Services, Steering
from bot.api.shapes import ApiInput, ApiOutput
from bot.sessions.log.events import Visibility
from bot.sessions.visibility import LONGEST_ID
from bot.sessions.webhooks import DeadEvent, Ended, ProgramWebhook
from bot.tools.web.address import LONGEST
from bot.webhooks.keeper import WebhookRequest

_T = TypeVar("_T")

_TYPES: Final = 50
_SESSIONS: Final = 100

LeastLevel = Literal["user", "progress"]
"""The levels that programs may ask for; `internal` goes to none."""

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=256)]
TypeName = Annotated[str, Field(min_length=1, max_length=64)]
SessionName = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class NewWebhook(ApiInput):
    """Where events are to be sent, and which."""

    url: str = Field(min_length=1, max_length=LONGEST, description="An address with https:// that is public.")
    level: LeastLevel = Field(default="progress", description="The least of the levels that are sent.")
    types: list[TypeName] = Field(default=[], max_length=_TYPES, description="Types of events; none for all.")
    sessions: list[SessionName] = Field(default=[], max_length=_SESSIONS, description="Sessions; none for all.")


class WebhookDocument(ApiOutput):
    """A webhook, without its secret."""

    id: str
    url: str
    level: LeastLevel
    types: tuple[str, ...]
    sessions: tuple[str, ...]
    created_at: int = Field(description="Milliseconds since 1970; nothing older is sent.")
    failing: int | None = Field(description="Since when nothing was taken, milliseconds since 1970; null: it works.")
    disabled: Ended | None = Field(description="Why nothing is sent any more; null: it is sent.")


class WebhookWithSecret(WebhookDocument):
    """A webhook with its secret, which is told once."""

    secret: str = Field(description="The key of its signatures; it is not told again.")


class WebhookList(ApiOutput):
    """The webhooks of a program, the oldest first."""

    webhooks: tuple[WebhookDocument, ...]


class DeadEventDocument(ApiOutput):
    """An event that was not taken, however often it was tried."""

    id: str = Field(description="The `webhook-id` that it was sent with.")
    webhook: str
    session: str
    seq: int
    failed_at: int = Field(description="When it was given up, milliseconds since 1970.")
    attempts: int
    error: str = Field(description="Why the last try failed.")
    again: bool = Field(description="Whether it waits to be tried once more.")


class DeadEventList(ApiOutput):
    """The events that were not taken, the oldest first of each webhook."""

    dead: tuple[DeadEventDocument, ...]


class Redelivery(ApiOutput):
    """An event that is tried once more."""

    id: str


ROUTER: Final = APIRouter(tags=["webhooks"])
"""The routes by which programs have events sent."""


# Before those with an id, which would take its name for one.
@ROUTER.get("/webhooks/dead")
async def dead(services: Services, asked: Reading, webhook: str = "") -> DeadEventList:
    """List what was not taken, by one webhook or by all."""
    return DeadEventList(dead=tuple(map(_dead, await services.webhooks.dead(asked.caller, asked.reader, webhook))))


@ROUTER.post("/webhooks/dead/{did}/redeliver", status_code=HTTPStatus.ACCEPTED)
async def redeliver(services: Services, asked: Steering, did: str) -> Redelivery:
    """Have an event that was not taken tried once more, under the same id."""
    return Redelivery(id=(await services.webhooks.redeliver(asked.caller, asked.reader, did)).id)


@ROUTER.post("/webhooks", status_code=HTTPStatus.CREATED, responses={HTTPStatus.OK: {"model": WebhookWithSecret}})
async def make(
    services: Services, asked: Steering, new: NewWebhook, response: Response, *, idempotency_key: Key = None
) -> WebhookWithSecret:
    """Have events sent to a server from now on. The secret is in this answer and in no other.

    For ten minutes the same `Idempotency-Key` with the same body is answered alike; with another it is a conflict.
    """
    wanted = WebhookRequest(new.url, Visibility(new.level), _once(new.types), _once(new.sessions))
    made = await services.webhooks.make(asked.caller, wanted, idempotency_key or "")
    if made.known:
        response.status_code = HTTPStatus.OK
    return WebhookWithSecret(**dict(_webhook(made.webhook)), secret=made.secret)


@ROUTER.get("/webhooks")
async def webhooks(services: Services, asked: Reading) -> WebhookList:
    """List the webhooks of this program."""
    return WebhookList(webhooks=tuple(map(_webhook, await services.webhooks.all(asked.caller))))


@ROUTER.get("/webhooks/{wid}")
async def webhook(services: Services, asked: Reading, wid: str) -> WebhookDocument:
    """Tell of a webhook."""
    return _webhook(await services.webhooks.find(asked.caller, wid))


@ROUTER.delete("/webhooks/{wid}", status_code=HTTPStatus.NO_CONTENT)
async def drop(services: Services, asked: Steering, wid: str) -> None:
    """Have nothing sent there any more. Its undelivered events are forgotten."""
    await services.webhooks.drop(asked.caller, wid)


@ROUTER.post("/webhooks/{wid}/secret")
async def replace_secret(
    services: Services, asked: Steering, wid: str, idempotency_key: Key = None
) -> WebhookWithSecret:
    """Give a webhook another secret. For a day messages have a signature by the one before, too.

    For ten minutes the same `Idempotency-Key` is answered alike.
    """
    made = await services.webhooks.replace_secret(asked.caller, wid, idempotency_key or "")
    return WebhookWithSecret(**dict(_webhook(made.webhook)), secret=made.secret)


@ROUTER.post("/webhooks/{wid}/enable")
async def enable(services: Services, asked: Steering, wid: str) -> WebhookDocument:
    """Send to a disabled webhook again, events since then included."""
    return _webhook(await services.webhooks.enable(asked.caller, wid))


def _once(given: Iterable[_T]) -> tuple[_T, ...]:
    """Return the given items, each once, in their order."""
    return tuple(dict.fromkeys(given))


def _webhook(one: ProgramWebhook) -> WebhookDocument:
    return WebhookDocument(
        id=one.id,
        url=one.url,
        level="user" if one.level is Visibility.USER else "progress",
        types=one.types,
        sessions=one.sessions,
        created_at=one.created_at,
        failing=one.failing or None,
        disabled=one.disabled,
    )


def _dead(one: DeadEvent) -> DeadEventDocument:
    return DeadEventDocument(
        id=one.id,
        webhook=one.webhook,
        session=one.sid,
        seq=one.seq,
        failed_at=one.failed_at,
        attempts=one.attempts,
        error=one.error,
        again=one.again,
    )
