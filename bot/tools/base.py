"""The port a tool implements, and what it is given.

A tool never sees a session id, principal or label in its arguments: whom it works for stands in the
`Scene`, which the gate fills from the running turn. It sends nothing itself: what is to be said is part of
its result, and the outbox says it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, JsonValue

from bot.sessions.values import NewDelivery
from channels.message import Address
from policy.document import Document
from policy.labels import PUBLIC, Label
from policy.request import Effect, Role


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown ones are refused, so nothing can be smuggled in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RefusedCallError(Exception):
    """A call that cannot be made as it stands; its text is a constant or names only the caller's own words."""


Simulate = Callable[[str, Mapping[str, JsonValue]], Awaitable[Mapping[str, JsonValue]]]
"""Ask the gate what it would decide about a call (law `simulate_equals_enforce`)."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Whom a call is for and where: facts of the running turn, never of the arguments.

    `now` is milliseconds on the store's clock. `key` is the idempotency key of the call, the same when it
    is repeated after a crash. `taint` is the session's when the call was decided. `permits` asks the gate
    whether something of this label may enter the context; a tool asks before it reads what turns out to be
    higher than it declared (law `read_is_decided_before_it_happens`).
    """

    sid: str
    generation: int
    turn: str
    key: str
    principal: str
    role: Role
    ceiling: Label
    taint: Label
    home: Address
    document: Document
    now: int
    permits: Callable[[Label], bool]
    simulate: Simulate


@dataclass(frozen=True, slots=True)
class Declared:
    """What a call would be, known from configuration and its arguments alone, before anything is touched.

    `result` is what this call adds to the tool's own label: its result and its errors carry at least their
    join. `clearance` is that of the
    sink, None if it has none or nobody knows it. `says` is (address, text) of what it would send.
    """

    result: Label = PUBLIC
    clearance: Label | None = None
    consequential: bool = False
    says: tuple[Address, str] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: a text for the model, its true label, and what is to be said.

    `label` is joined with the declared one, so it can only add. `failed` marks an error text.
    """

    text: str
    label: Label = PUBLIC
    failed: bool = False
    deliver: tuple[NewDelivery, ...] = ()


class Tool(Protocol):
    """What the gate asks of a tool.

    A `repeatable` one is simply run again when a crash interrupted it; any other is reported as interrupted.
    """

    @property
    def name(self) -> str:
        """What the model calls it."""
        ...

    @property
    def description(self) -> str:
        """What the model reads of it."""
        ...

    @property
    def effect(self) -> Effect:
        """What it does to the world outside its session."""
        ...

    @property
    def label(self) -> Label | None:
        """The least label of anything it returns, errors too; None if nobody has said, and then it blocks."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether running it twice is the same as once."""
        ...

    @property
    def arguments(self) -> type[Arguments]:
        """The type of its arguments."""
        ...

    def declare(self, arguments: Any, scene: Scene) -> Declared:  # noqa: ANN401 - each tool has arguments of its own
        """Say what the call would be.

        Raises RefusedCallError: the call names something that does not exist for the caller.
        """
        ...

    async def run(self, arguments: Any, scene: Scene) -> Result:  # noqa: ANN401 - as above
        """Do it. Any exception becomes a constant text with the label of success."""
        ...
