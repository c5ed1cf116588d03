"""The port a tool implements, and what it is given.

A tool never sees a session id, principal or label in its arguments: whom it works for stands in the
`ToolContext`, which the gate fills from the running turn. While it runs it may ask the gate for more through its
`ToolServices`. It sends nothing itself: what is to be said is part of its result, and the outbox says it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue

from bot.access.agents import AgentSnapshot
from bot.sessions.approvals import AnswerValue, Approval
from bot.sessions.background.delegation import Child, Errand, ResultField
from bot.sessions.background.runs import RunFacts, RunWish, StartedRun
from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.events import DeferredResult
from bot.sessions.models import Claim, Summary
from bot.sessions.refs import Ref
from bot.sessions.usage import Usage
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


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """Who asks for a call.

    `principal` owns the session, `asker` is the person who began the turn, and `role` is the asker's. `ceiling` is the
    highest label that both may read. `reader` is the highest label that the maker of the call may know of: the taint of
    the session, or for a person's command the label that may be told where they typed it. `by_model` tells that a model
    makes it, in its turn or over MCP, and no person's command.
    """

    principal: str
    asker: str
    role: Role
    ceiling: Label
    reader: Label
    by_model: bool


@dataclass(frozen=True, slots=True)
class ToolSession:
    """Which session a call is made in.

    `taint` is the session's when the call was decided, joined with the label of what the call refers to: whatever is
    stored or said carries it. `visibility` is what a reader had to be cleared for to learn of the session when its
    turn began. `addresses` are the web addresses that stand verbatim in the context, see `bot.access.known_urls`.
    `held` is what the session keeps by reference. `model` is the one that people chose, empty for the first of its
    `agent`. `run` is how its run stood when the model was asked last, None in any other session, and `claim` the
    worker's hold on it, None outside a turn. `authors` are the people besides the asker whose words are in its context.
    """

    sid: str
    generation: int
    turn: str
    home: Address
    taint: Label
    visibility: Label = PUBLIC
    addresses: frozenset[str] = frozenset()
    held: tuple[DeferredResult, ...] = ()
    model: str = ""
    agent: AgentSnapshot | None = None
    run: RunFacts | None = None
    claim: Claim | None = field(default=None, compare=False, repr=False)
    authors: tuple[str, ...] = ()

    def held_item(self, ref: str) -> DeferredResult | None:
        """Return what this generation of the session holds under a reference, None if there is nothing."""
        return next((one for one in self.held if one.ref == ref), None)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The caller, session and time of a call: facts of the running turn, never of the arguments.

    `key` is the idempotency key of the call, the same when it is repeated after a crash, and `call` its id in the log.
    `now` is milliseconds on the store's clock. `document` is the policy in force. `asked` is the question that the call
    put to the asker, once that is over; `unasked` is why nobody was asked, a constant. With `own_level` nothing is read
    that would change the taint of the session.
    """

    caller: ToolCaller
    session: ToolSession
    key: str
    now: int
    document: Document
    call: str = ""
    asked: Approval | None = None
    unasked: str = ""
    own_level: bool = False


class ToolServices(Protocol):
    """What a call may ask of the gate while it runs; the gate writes down what it decides before it answers."""

    def permits(self, label: Label) -> bool:
        """Say whether something of a label may be read, into the context or to be held.

        A tool asks before it reads what turns out to be higher than it declared (law
        `read_is_decided_before_it_happens`).
        """
        ...

    def mask(self, text: str) -> str:
        """Return a text without the values of configured secrets and without what looks like a secret.

        A tool that shortens what it gives does so after this.
        """
        ...

    def scrub(self, text: str) -> str:
        """Return a text without the values of configured secrets; a tool shortens it afterwards."""
        ...

    async def simulate(self, name: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return what would be decided about a call of the tool `name` (law `simulate_equals_enforce`)."""
        ...

    async def spawn(self, errand: Errand) -> Child:
        """Make a background session.

        Raises RequestError: there may be none.
        """
        ...

    async def start_run(self, wish: RunWish) -> StartedRun:
        """Start a run for the caller; the call's key makes it the same run.

        Raises RequestError: there may be none.
        """
        ...

    def leads_to(self, address: Address) -> bool:
        """Say whether an address that the call names means what it meant when the call was decided."""
        ...

    async def reveal(self, text: str, host: str) -> str | None:
        """Return a text with its secrets' values for a host (hook SECRET_ACCESS), None if one is refused.

        The text holds references such as `${secret:name}`, the host is as `CallFacts.secrets` has it.
        """
        ...

    async def onward(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Say whether the call may go on as if it had been made with these arguments.

        They are what the call was answered, such as the address of a redirect, and none of the model's words.
        """
        ...


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
    `asks` tells that it begins work which goes on after its turn: then people are asked about it, whatever was read.
    """

    result: Label = PUBLIC
    clearance: Label | None = None
    consequential: bool = False
    says: tuple[Address, str] | None = None
    tells: Address | None = None
    secrets: tuple[tuple[str, str], ...] = ()
    once: bool = False
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: a text for the model, its true label, and what is to be said.

    `label` is joined with the declared one, so it can only add. `failed` marks an error text. `summary` is kept in
    the log beside the result, with its text as the result's. `usage` is what the call used of a model. `refs` are what
    the text came from, beside the call. `acknowledge` are the steering notes that it tells of.
    """

    text: str
    label: Label = PUBLIC
    failed: bool = False
    deliver: tuple[NewDelivery, ...] = ()
    summary: Summary | None = None
    usage: Usage = field(default_factory=Usage)
    refs: tuple[Ref, ...] = ()
    acknowledge: tuple[str, ...] = ()


@runtime_checkable
class Foresees(Protocol):
    """A tool that can tell beforehand more of what would become of a call than its decision does."""

    async def foresee(self, arguments: Any, context: ToolContext) -> list[str]:  # noqa: ANN401 - each tool has arguments of its own
        """Return what the outcome depends on, as far as the caller may know; nothing changes."""
        ...


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a call wants to know of the asker.

    `wanted` is the field that bounds the answer, None for any text. `minutes` is how long the question stands, 0 for as
    long as configuration says, and `default` what counts after that, None for nothing. With `ends_turn` the turn ends
    with the question. One that is `literal` is asked only where it may be said as it is, with nothing replaced.
    """

    question: str
    wanted: ResultField | None = None
    minutes: int = 0
    default: AnswerValue | None = None
    ends_turn: bool = False
    literal: bool = False


@runtime_checkable
class Inquires(Protocol):
    """A tool whose call may wait for an answer of the asker: it runs once that is there, or will not come."""

    async def inquiry(self, arguments: Any, context: ToolContext) -> Inquiry | None:  # noqa: ANN401 - each tool has arguments of its own
        """Return what the asker is asked, None for a call that asks nothing; nothing changes.

        It may look at what the call declared that it reads, and at nothing more.
        """
        ...


@runtime_checkable
class GoesByOtherNames(Protocol):
    """A tool that is called by other names, too: they are not offered, and no rule names them."""

    @property
    def aliases(self) -> Mapping[str, Mapping[str, JsonValue]]:
        """These names, each with the arguments that it stands for."""
        ...


@runtime_checkable
class WorksInRuns(Protocol):
    """A tool that is offered in runs alone, and there whatever tools the agent has."""

    @property
    def in_runs(self) -> bool:
        """Whether that is so."""
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

    async def run(self, arguments: Any, context: ToolContext, services: ToolServices) -> Result:  # noqa: ANN401 - as above
        """Do it. Any exception becomes a constant text with the label of success."""
        ...
