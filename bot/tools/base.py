"""The port that a tool implements, and the values that it receives.

A tool never sees a session id, principal or label in its arguments: the principal is in the `ToolContext`, which the
gate fills from the running turn. While it runs it may ask the gate for more through its `ToolServices`. It sends
nothing itself: texts to send are part of its result, and the outbox sends them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue

from bot.access.agents import AgentSnapshot
from bot.sessions.approvals import AnswerValue, Approval
from bot.sessions.background.delegation import BoundedAnswer, Child, Errand, ResultField
from bot.sessions.background.runs import RunFacts, RunWish, StartedRun
from bot.sessions.deliveries import NewDelivery
from bot.sessions.limits import TokenAllowance
from bot.sessions.log.events import DeferredResult
from bot.sessions.models import Claim, Summary
from bot.sessions.refs import Ref
from bot.sessions.usage import Usage
from channels.messages import Address
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import ArgumentRole, Effect, Role


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown ones are refused, so nothing can be smuggled in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True)
class RoleMark:
    """Gives an argument, and everything below it, a role."""

    role: ArgumentRole


CONTENT: Final = RoleMark(ArgumentRole.CONTENT)
"""Marks an argument as content: text that is stored or said, and chooses nothing."""

Content = Annotated[str, CONTENT]
"""A text that is content: only here a reference to a held item may stand, see `bot.tools.references`."""

Recipient = Annotated[str, RoleMark(ArgumentRole.RECIPIENT)]
"""A person, a place or a server that gets something by the call."""

Amount = Annotated[Decimal, RoleMark(ArgumentRole.AMOUNT)]
"""A number of money or of things."""

Identifier = Annotated[str, RoleMark(ArgumentRole.IDENTIFIER)]
"""A name or an id that chooses the object or the way of an effect."""

Time = Annotated[str, RoleMark(ArgumentRole.TIME)]
"""A day or a time."""

PathText = Annotated[str, RoleMark(ArgumentRole.PATH)]
"""A path of a file or a folder."""


class RefusedCallError(Exception):
    """A call that cannot be made as it stands; its text is a constant or names only the caller's own words."""


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """The caller of a tool."""

    principal: str
    """The owner of the session."""
    asker: str
    """The person who began the turn."""
    role: Role
    """The asker's role."""
    ceiling: Label
    """The highest label that both the principal and the asker may read."""
    reader: Label
    """The highest label that the maker of the call may know of.

    It is the session's taint, or for a person's command the clearance of the place where they typed it.
    """
    by_model: bool
    """A model makes the call, in its turn or over MCP, and not a person's command."""


@dataclass(frozen=True, slots=True)
class ToolSession:
    """The session that a call is made in."""

    sid: str
    generation: int
    turn: str
    home: Address
    taint: Label
    """The session's taint when the call was decided, joined with the labels of the call's references.

    Every text that is stored or sent carries it.
    """
    visibility: Label = PUBLIC
    """The clearance that a reader needed to learn of the session when its turn began."""
    addresses: frozenset[str] = frozenset()
    """The web addresses that stand verbatim in the context, see `bot.access.known_urls`."""
    held: tuple[DeferredResult, ...] = ()
    """The items that the session keeps by reference."""
    before: Label = PUBLIC
    """The session's taint alone when the call was decided, before the call raised it."""
    model: str = ""
    """The model that people chose, empty for the first of its `agent`."""
    agent: AgentSnapshot | None = None
    run: RunFacts | None = None
    """The state of the session's run when the model was asked last, None in any other session."""
    claim: Claim | None = field(default=None, compare=False, repr=False)
    """The worker's hold on the session, None outside a turn."""
    allowance: TokenAllowance | None = field(default=None, compare=False, repr=False)
    """The session's own token budget, None for none and outside a turn."""
    authors: tuple[str, ...] = ()
    """The people other than the asker whose words are in its context."""
    endorsed: bool = False
    """Its context has heard an endorsed value, so that data which nobody vouches for may have chosen its words."""

    def held_item(self, ref: str) -> DeferredResult | None:
        """Return the item that this generation of the session holds under a reference, None if there is none."""
        return next((one for one in self.held if one.ref == ref), None)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The caller, session and time of a call: facts of the running turn, never of the arguments."""

    caller: ToolCaller
    session: ToolSession
    key: str
    """The idempotency key of the call, the same when it is repeated after a crash."""
    now: int
    """Milliseconds on the store's clock."""
    document: Document
    """The policy in force."""
    call: str = ""
    """The call's id in the log."""
    asked: Approval | None = None
    """The question that the call put to the asker, once that is over."""
    unasked: str = ""
    """The reason for asking nothing, a constant."""
    own_level: bool = False
    """Nothing is read that would change the taint of the session."""


class ToolServices(Protocol):
    """The services of the gate for a running call; the gate writes down each decision before it answers."""

    def permits(self, label: Label) -> bool:
        """Say whether something of a label may be read, into the context or to be held.

        A tool asks before it reads data above its declared label (law `read_is_decided_before_it_happens`).
        """
        ...

    def mask(self, text: str) -> str:
        """Return a text without the values of configured secrets and without texts that look like a secret.

        A tool that shortens its text does so after this.
        """
        ...

    def scrub(self, text: str) -> str:
        """Return a text without the values of configured secrets; a tool shortens it afterwards."""
        ...

    async def simulate(self, name: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the decision about a call of the tool `name`, without making it (law `simulate_equals_enforce`)."""
        ...

    async def spawn(self, errand: Errand) -> Child:
        """Make a background session.

        Raises RequestError: there may be none.
        """
        ...

    async def endorse(self, fields: tuple[ResultField, ...], seconds: int) -> BoundedAnswer:
        """Charge an answer of these fields, which comes within so many seconds, before anything is read for it."""
        ...

    @property
    def veil(self) -> str:
        """The refusal by the held items that the call refers to, empty if they may be shown.

        The call must then end as if they had been shown.
        """
        ...

    async def start_run(self, wish: RunWish) -> StartedRun:
        """Start a run for the caller; the call's key makes it the same run.

        Raises RequestError: there may be none.
        """
        ...

    def leads_to(self, address: Address) -> bool:
        """Say whether an address that the call names has the meaning that it had when the call was decided."""
        ...

    async def reveal(self, text: str, host: str) -> str | None:
        """Return a text with its secrets' values for a host (hook SECRET_ACCESS), None if one is refused.

        The text holds references such as `${secret:name}`, the host is as `CallFacts.secrets` has it.
        """
        ...

    async def onward(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Say whether the call may continue as if it had been made with these arguments.

        They come from the answer to the call, such as the address of a redirect, and none of them is the model's words.
        """
        ...


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Facts about a call, known from configuration and its arguments alone, before anything is touched."""

    result: Label = PUBLIC
    """The label that this call adds to the tool's own label: its result and its errors carry at least their join."""
    clearance: Label | None = None
    """The clearance of the sink, None if it has no sink or the clearance is unknown."""
    consequential: bool = False
    says: tuple[Address, str] | None = None
    """The address and the text that it would send."""
    tells: Address | None = None
    """The address that gets the result later."""
    secrets: tuple[tuple[str, str], ...] = ()
    """The secrets that it would use: the name of each, and the host that receives it.

    The host is in lower case, with `:port` unless that is 443; empty for none.
    """
    once: bool = False
    """It takes effect once for its `ToolContext.key`, however often it runs: all of its effect is in this installation.

    Only then is a consequential call repeated unasked.
    """
    asks: bool = False
    """It begins work that goes on after its turn: people are then asked about it at any taint."""
    folder: tuple[str, Label] | None = None
    """The folder of the policy that these facts come from, with the label beside its floor; None for none."""
    releases_to: str = ""
    """The sink that a person may release exactly this call to, in a few words; empty for none.

    Only for a tool that sends its arguments as they are, once, to that sink alone: it follows no redirect, tries
    nothing again, and adds no secret to them.
    """
    account_of: str = ""
    """The principal whose account elsewhere it uses, as the audit names it; empty for none."""
    raises: Label = PUBLIC
    """The label that the session is raised to once the call is allowed, with any result."""
    shows: bool = False
    """It shows a model the held items that the call refers to."""
    returns: tuple[ResultField, ...] = ()
    """The fields that bound its result, which may then enter the context although the call refers to held items."""
    identifier: str = ""
    """The listed identifier that the label of its result goes by (`Document.listed`), empty for none."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: a text for the model, its true label, and the texts to send."""

    text: str
    label: Label = PUBLIC
    """It is joined with the declared label, so it can only add."""
    failed: bool = False
    """The text is an error."""
    deliver: tuple[NewDelivery, ...] = ()
    summary: Summary | None = None
    """A recap that is kept in the log beside the result, with its text as the result's."""
    usage: Usage = field(default_factory=Usage)
    """The call's use of models."""
    refs: tuple[Ref, ...] = ()
    """The sources of the text, beside the call."""
    acknowledge: tuple[str, ...] = ()
    """The steering notes that it tells of."""
    spent: Usage | None = None
    """The real use of models where `usage` may not tell it; the audit does, at the label of the result."""
    bounded: BoundedAnswer | None = None
    """It is an answer of the fields that the call declared, or the constant in its place; so charged."""
    structured: JsonValue = None
    """The result as the operator described it, None for a text alone."""


@runtime_checkable
class Foresees(Protocol):
    """A tool that can tell more about a call's outcome beforehand than the decision does."""

    async def foresee(self, arguments: Any, context: ToolContext) -> list[str]:  # noqa: ANN401 - each tool has arguments of its own
        """Return the facts that the outcome depends on, as far as the caller may know them; nothing changes."""
        ...


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A call's question to the asker."""

    question: str
    wanted: ResultField | None = None
    """The field that bounds the answer, None for any text."""
    minutes: int = 0
    """The life of the question in minutes, 0 for the configured one."""
    default: AnswerValue | None = None
    """The answer after that time, None for none."""
    ends_turn: bool = False
    """The turn ends with the question."""
    literal: bool = False
    """The question is asked only where it may be shown unchanged, with nothing replaced."""


@runtime_checkable
class Inquires(Protocol):
    """A tool whose call may wait for an answer of the asker: it runs once that is there, or will not come."""

    async def inquiry(self, arguments: Any, context: ToolContext) -> Inquiry | None:  # noqa: ANN401 - each tool has arguments of its own
        """Return the question for the asker, None for a call that asks nothing; nothing changes.

        It may read only data within the call's declared label.
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
    """A tool that is offered in runs alone, and there to every agent."""

    @property
    def in_runs(self) -> bool:
        """Whether that is so."""
        ...


class CallableTool(Protocol):
    """The facts of a tool by which the arguments of its calls are taken apart."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def effect(self) -> Effect:
        """Its effect on the world outside its session."""
        ...

    @property
    def server(self) -> str:
        """The MCP server that runs it and gets its arguments, empty for a tool of Lockgate's own process."""
        ...

    @property
    def arguments(self) -> type[Arguments]:
        """The type of its arguments."""
        ...


class Tool(CallableTool, Protocol):
    """The operations of a tool that the gate uses.

    A call of a `repeatable` one that was interrupted is simply run again, unless it is consequential and not `once`
    (`CallFacts`): people are asked about that. For any other call, the report is that its outcome is unknown.
    """

    @property
    def description(self) -> str:
        """The description that the model reads."""
        ...

    @property
    def label(self) -> Label | None:
        """The lowest label of its results and errors; None if it is not declared, and then it blocks."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether running it twice is the same as once."""
        ...

    def declare(self, arguments: Any, context: ToolContext) -> CallFacts:  # noqa: ANN401 - each tool has arguments of its own
        """Return the facts of a call.

        Raises RefusedCallError: the call names something that does not exist for the caller.
        """
        ...

    async def run(self, arguments: Any, context: ToolContext, services: ToolServices) -> Result:  # noqa: ANN401 - as above
        """Do it. Any exception becomes a constant text with the label of success."""
        ...
