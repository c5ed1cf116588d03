"""The port a tool implements, and what it is given.

A tool never sees a session id, principal or label in its arguments: whom it works for stands in the
`ToolContext`, which the gate fills from the running turn. It sends nothing itself: what is to be said is part of
its result, and the outbox says it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue

from bot.sessions.delegation import Child, Errand
from bot.sessions.deliveries import NewDelivery
from bot.sessions.events import DeferredResult
from bot.sessions.models import Summary, Usage
from channels.messages import Address
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import Effect, Role


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown ones are refused, so nothing can be smuggled in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True)
class ContentMark:
    """Marks an argument as content: text that is stored or said, and chooses nothing."""


CONTENT: Final = ContentMark()

Content = Annotated[str, CONTENT]
"""A text that is content: only here a reference to a held item may stand, see `bot.tools.references`."""


class RefusedCallError(Exception):
    """A call that cannot be made as it stands; its text is a constant or names only the caller's own words."""


Simulate = Callable[[str, Mapping[str, JsonValue]], Awaitable[Mapping[str, JsonValue]]]
"""Ask the gate what it would decide about a call (law `simulate_equals_enforce`)."""


Spawn = Callable[[Errand], Awaitable[Child]]
"""Ask the gate for a background session; raises RequestError where there may be none."""

Reveal = Callable[[str, str], Awaitable[str | None]]
"""Ask the gate for a text's secrets for a host, while the call runs (hook SECRET_ACCESS); None if it refuses.

The text holds references such as `${secret:name}`, the host is as `CallFacts.secrets` has it. The decision is in the
audit before a value is put in its place.
"""


async def nothing_revealed(_text: str, _host: str) -> None:
    """Reveal nothing: what a call that only is declared gets."""


Onward = Callable[[Mapping[str, JsonValue]], Awaitable[bool]]
"""Ask the gate whether a running call may go on as if it had been made with these arguments, audited before.

They are what the call was answered, such as the address of a redirect, and none of the model's words.
"""


async def not_onward(_arguments: Mapping[str, JsonValue]) -> bool:
    """Let nothing go on: what a call that only is declared gets."""
    return False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Whom a call is for and where: facts of the running turn, never of the arguments.

    `now` is milliseconds on the store's clock. `key` is the idempotency key of the call, the same when it is repeated
    after a crash. `taint` is the session's when the call was decided, joined with the label of what the call refers to:
    whatever is stored or said carries it. `reader` is what the maker of the call may know of: the taint alone, or for a
    person's command what may be told where he typed it. `permits` asks the gate whether something of this label may be
    read, into the context or to be held; a tool asks before it reads what turns out to be higher than it declared (law
    `read_is_decided_before_it_happens`). `mask` takes out of a text the values of configured secrets and what looks
    like one, `scrub` the values alone: a tool that shortens what it gives does so after it. `addresses` are the web
    addresses that stand verbatim in the context, see `bot.access.known_urls`. `held` is what the session keeps by
    reference, `visibility` what a reader had to be cleared for to learn of it when its turn began. `model` is the one
    that people chose, as `Standing.model`. While the call runs, `reveal` gives the values of secrets that the arguments
    refer to, and `onward` asks whether the call may go on elsewhere.
    """

    sid: str
    generation: int
    turn: str
    key: str
    principal: str
    asker: str
    role: Role
    ceiling: Label
    taint: Label
    reader: Label
    home: Address
    document: Document
    now: int
    permits: Callable[[Label], bool]
    mask: Callable[[str], str]
    scrub: Callable[[str], str]
    simulate: Simulate
    spawn: Spawn
    addresses: frozenset[str] = frozenset()
    reveal: Reveal = nothing_revealed
    onward: Onward = not_onward
    held: tuple[DeferredResult, ...] = ()
    visibility: Label = PUBLIC
    model: str = ""

    def held_item(self, ref: str) -> DeferredResult | None:
        """Return what this generation of the session holds under a reference, None if there is nothing."""
        return next((one for one in self.held if one.ref == ref), None)


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What a call would be, known from configuration and its arguments alone, before anything is touched.

    `result` is what this call adds to the tool's own label: its result and its errors carry at least their
    join. `clearance` is that of the
    sink, None if it has none or nobody knows it. `says` is (address, text) of what it would send, and `tells` the
    address that is told later of what comes of it. `secrets` are
    the secrets that it would use: the name of each, and the host it would go to (in lower case, with `:port` unless
    that is 443; empty if it reaches none). `once` tells that it takes effect once for its `ToolContext.key`, however
    often it runs, as all of its effect is in this installation: only then is a consequential call repeated unasked.
    """

    result: Label = PUBLIC
    clearance: Label | None = None
    consequential: bool = False
    says: tuple[Address, str] | None = None
    tells: Address | None = None
    secrets: tuple[tuple[str, str], ...] = ()
    once: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: a text for the model, its true label, and what is to be said.

    `label` is joined with the declared one, so it can only add. `failed` marks an error text. `summary` is kept in
    the log beside the result, with its text as the result's. `usage` is what the call used of a model.
    """

    text: str
    label: Label = PUBLIC
    failed: bool = False
    deliver: tuple[NewDelivery, ...] = ()
    summary: Summary | None = None
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Foresees(Protocol):
    """A tool that can tell beforehand more of what would become of a call than its decision does."""

    async def foresee(self, arguments: Any, context: ToolContext) -> list[str]:  # noqa: ANN401 - each tool has arguments of its own
        """Return what the outcome depends on, as far as the caller may know; nothing changes."""
        ...


class Tool(Protocol):
    """What the gate asks of a tool.

    A call of a `repeatable` one that was interrupted is simply run again, unless it is consequential and not `once`
    (`CallFacts`): people are asked about that. Of any other it is reported that nobody knows its outcome.
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
    def server(self) -> str:
        """The MCP server that runs it and is told its arguments, empty for a tool of Lockgate's own process."""
        ...

    @property
    def arguments(self) -> type[Arguments]:
        """The type of its arguments."""
        ...

    def declare(self, arguments: Any, context: ToolContext) -> CallFacts:  # noqa: ANN401 - each tool has arguments of its own
        """Say what the call would be.

        Raises RefusedCallError: the call names something that does not exist for the caller.
        """
        ...

    async def run(self, arguments: Any, context: ToolContext) -> Result:  # noqa: ANN401 - as above
        """Do it. Any exception becomes a constant text with the label of success."""
        ...
