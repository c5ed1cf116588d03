"""`sessions_spawn`: let a background session do something and report back."""

import json
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from bot.errors import RequestError
from bot.sessions.kin import Bounded, Errand, Kind
from bot.tools.base import Arguments, Content, Declared, RefusedCallError, Result, Scene
from channels.message import Address
from policy.document import Document
from policy.errors import nearest
from policy.labels import PUBLIC
from policy.request import Effect


class SpawnLimits(Arguments):
    """How much a background session may take; more than configuration gives is cut to that."""

    minutes: int = Field(ge=1, le=24 * 60)


class PlainField(Arguments):
    """A boolean, a number or a date that a background session answers with."""

    type: Literal["boolean", "number", "date"]


class EnumField(Arguments):
    """One of these texts, which are known before anything is read."""

    type: Literal["enum"]
    values: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(min_length=1, max_length=32)


Returns: TypeAlias = dict[
    Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")],
    Annotated[PlainField | EnumField, Field(discriminator="type")],
]


class SpawnArguments(Arguments):
    """Arguments of `sessions_spawn`."""

    task: Content = Field(min_length=1, max_length=40_000, description="what it is to do, with all it needs to know")
    title: str = Field(default="", max_length=200)
    deliver_to: str = Field(default="", max_length=128, description="an alias that is told the result too")
    limits: SpawnLimits | None = None
    returns: Returns | None = Field(
        default=None, min_length=1, max_length=8, description="fields to be told, of what it reads, instead of a text"
    )


class SessionsSpawn:
    """Make a background session with a task; its result comes back as a message."""

    name = "sessions_spawn"
    description = "Let a background session do a task. Answers at once; the result comes later, as a message."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    arguments = SpawnArguments

    def declare(self, arguments: SpawnArguments, scene: Scene) -> Declared:
        """Declare the child as the sink: it may know what its principal may.

        Having its result told to somebody else than the conversation it came from is consequential.
        """
        to = arguments.deliver_to
        return Declared(clearance=scene.ceiling, consequential=bool(to) and recipient(scene.document, to) != scene.home)

    async def run(self, arguments: SpawnArguments, scene: Scene) -> Result:
        """Have it made; what is not to be had is one constant sentence."""
        minutes = 0 if arguments.limits is None else arguments.limits.minutes
        try:
            child = await scene.spawn(
                Errand(arguments.task, arguments.title, arguments.deliver_to, minutes, _bounded(arguments.returns))
            )
        except RequestError as error:
            return Result(str(error), failed=True)
        return Result(json.dumps({"run_id": child.run, "session_id": child.sid, "status": "accepted"}))


def _bounded(returns: Returns | None) -> tuple[Bounded, ...]:
    fields = ({} if returns is None else returns).items()
    return tuple(
        Bounded(name, Kind(field.type), tuple(field.values) if isinstance(field, EnumField) else ())
        for name, field in fields
    )


def recipient(document: Document, alias: str) -> Address:
    """Return the address of an alias from the configuration.

    Raises RefusedCallError: there is none.
    """
    known = document.recipients.get(alias)
    if known is None:
        raise RefusedCallError(f"unknown recipient `{alias}`{nearest(alias, document.recipients)}")
    return Address(known.channel, known.chat, known.workspace)
