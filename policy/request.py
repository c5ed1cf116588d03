"""The question to the engine: one frozen value per hook crossing, holding every fact that a rule may use.

The gate fills it from configuration and runtime facts; nothing in it is parsed from content. A fact
that could not be established is `None`, which the fixed rules read as the worst case.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from policy.labels import PUBLIC, Label


class Hook(StrEnum):
    """Where a decision is asked for; the list is closed."""

    PRE_CONTEXT_INJECTION = "PRE_CONTEXT_INJECTION"
    PRE_TOOL_CALL = "PRE_TOOL_CALL"
    POST_TOOL_RESPONSE = "POST_TOOL_RESPONSE"
    PRE_OUTPUT = "PRE_OUTPUT"
    SECRET_ACCESS = "SECRET_ACCESS"
    SESSION_RESET = "SESSION_RESET"
    AGENT_INVOCATION = "AGENT_INVOCATION"
    MCP_TOOL_CALL = "MCP_TOOL_CALL"


class Effect(StrEnum):
    """A tool's effect on the world outside its session."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    SEND = "send"


class ArgumentRole(StrEnum):
    """The meaning of an argument for the effect of its call; the list is closed.

    CONTENT is stored or said and steers nothing. Every other value steers, also one without a role.
    """

    RECIPIENT = "recipient"
    AMOUNT = "amount"
    IDENTIFIER = "identifier"
    TIME = "time"
    PATH = "path"
    CONTENT = "content"


class Role(StrEnum):
    """The rights of a principal, from most to least."""

    OWNER = "owner"
    ADMIN = "admin"
    APPROVER = "approver"
    MEMBER = "member"
    GUEST = "guest"
    STRANGER = "stranger"


Overshoot = Literal["ask", "allow", "block"]
"""The action for a read whose result could not be sent at home; `ask` refuses it and offers the asker a way."""


class UntrustedContent(StrEnum):
    """The treatment of an UNTRUSTED text that a consequential call of a TRUSTED session takes along by reference."""

    ASK = "ask"
    """People are asked, as if the session had read it."""
    ALLOW = "allow"
    MARK = "mark"
    """Where it is delivered to people, it is shown as a text from outside."""


@dataclass(frozen=True, slots=True)
class SteeredRole:
    """A role whose values steer a call.

    Args:
        role: The role, None for values without one.
        outside: Whether one of them is outside the bound of the role, or the role has no bound.
        bound: The short digest of the operator's bound, empty for none; no rule sees it.
    """

    role: ArgumentRole | None
    outside: bool
    bound: str = field(default="", compare=False)


class TakenEntry(StrEnum):
    """How an entry of a held list, which a call takes, stands to the bounds of the operator.

    A bound names a BOUND one. With a HEARD one it does, but the session heard an endorsed value on which the place of
    the entry may depend. No bound names an UNBOUND one.
    """

    BOUND = "bound"
    HEARD = "heard"
    UNBOUND = "unbound"


@dataclass(frozen=True, slots=True)
class Secret:
    """A configured secret that a tool would use."""

    name: str
    granted: bool
    """Configuration names it for this tool and for the host it would be sent to."""


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """A tool call's facts, known before it runs."""

    name: str
    effect: Effect
    result: Label | None
    """The label that its result and its errors will carry, None if the tool declares none."""
    clearance: Label | None = None
    """The clearance of the sink that it writes or sends to, None if it has no sink or the clearance is unknown."""
    consequential: bool = False
    server: str = ""
    """The MCP server that runs it, empty for a tool of our own."""
    roles: frozenset[Role] | None = None
    """The roles of the askers who may use it by the configuration, None for all."""
    asks: bool = False
    """It starts work that goes on after its turn, so that people are asked about it."""
    untrusted_content: UntrustedContent | None = None
    """The configured treatment of UNTRUSTED content.

    None for the shipped one: `ask` for a server's tool, which nobody marks texts for, and `mark` for ours.
    """
    raises: Label = PUBLIC
    """The label that the call itself raises its session to, with any result, held or not."""
    shows: bool = False
    """It shows a model the data that it takes along by reference."""
    spared: bool = False
    """Where its result is UNTRUSTED, only its level and compartments enter the session: the text is held."""
    identifier: str = ""
    """The value of the argument by which the policy lists labels of its results, empty for none."""


@dataclass(frozen=True, slots=True)
class Others:
    """The people other than the asker whose words are in the context, as the policy in force knows them.

    An unknown person is cleared for PUBLIC and is a stranger.
    """

    clearance: Label
    """The clearance that each of them has at least: the meet of theirs."""
    roles: frozenset[Role]
    """The roles that they have."""


@dataclass(frozen=True, slots=True)
class RunState:
    """How the run that a session is stood when its model was asked last.

    `initialized` tells that it was initialized, `stopped` that it is to end, `paused` that its breaker is open.
    """

    initialized: bool
    stopped: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class ListedReaders:
    """The readers of an address as its platform told them; no rule sees it.

    `accounts` are pairs of an account and its kind. `complete` is false where the platform cannot list all readers, and
    `many` tells that there are too many to be named here.
    """

    accounts: tuple[tuple[str, str], ...]
    complete: bool
    many: bool = False


@dataclass(frozen=True, slots=True)
class Destination:
    """The place to which an output would go."""

    address: str
    channel: str
    clearance: Label | None
    """The effective clearance of the address: its classification meet every reader's.

    None when unknown, which reads as PUBLIC.
    """
    shared: bool = False
    readers: Label | None = None
    """The highest clearance that any classification could give the address, as its readers limit it.

    None if only the classification limits it.
    """
    vouched: Label | None = None
    """The clearance that an admin's word for its members would give it, None where that changes nothing."""
    raised: Label | None = None
    """The clearance of a private chat if its person was cleared for more, None for any other address."""
    listed: ListedReaders | None = field(default=None, compare=False)
    """Its readers, None where only the configuration was asked."""


@dataclass(frozen=True, slots=True)
class DeclaredCall:
    """A call as its tool declared it, before the policy tightened anything.

    `folder` is the folder that the facts come from, with the label beside its floor; `place` is the address that the
    call leads to, empty for none.
    """

    tool: ToolFacts
    result: Label
    folder: tuple[str, Label] | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The facts behind a request, from which it is asked again of another policy; no rule sees it.

    Args:
        now: The time of the decision, in milliseconds.
        home: The address of the session's home.
        there: The home with its readers.
        model: The model whose clearance counts, empty for none.
        transcriber: The transcriber whose clearance counts instead, empty for none.
        bound: The ceiling of the session, None where it is the clearance of its principal and asker.
        role: The role in which the session acts, None where the policy gives it that role.
        others: The people other than the asker whose words are in the context.
        call: The call as its tool declared it, None for a request about something else.
    """

    now: int
    home: str
    there: Destination
    model: str = ""
    transcriber: str = ""
    bound: Label | None = None
    role: Role | None = None
    others: tuple[str, ...] = ()
    call: DeclaredCall | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the engine.

    `fresh`, `lowered`, `home_readers`, `home_vouched` and `sink` tell the effects of remedies.
    """

    hook: Hook
    principal: str
    """The principal that the session acts for; in a shared chat, the chat."""
    role: Role
    channel: str
    taint: Label
    """The session's taint, now."""
    ceiling: Label
    """The clearance of the principal that the session acts for."""
    provider: Label
    """The clearance of the model."""
    home: Label
    """The effective clearance of the session's home address."""
    item: Label | None = None
    """The label of the item that would enter the context."""
    tool: ToolFacts | None = None
    destination: Destination | None = None
    secret: Secret | None = None
    content: str = ""
    """The text that patterns of rules look at, as it is written."""
    shown: tuple[str, ...] = ()
    """Further views that people may see of the content, where its formatting hides or joins something."""
    arguments: tuple[tuple[str, object], ...] = ()
    """The arguments of a tool call, as its own type gives them, None for an absent one."""
    overshoot: Overshoot = "allow"
    """The action for a read whose result could not be sent there."""
    approved: bool = False
    """The gate holds a live approval bound to exactly this request."""
    confirmed: bool = False
    """A person confirmed a reset."""
    released: str = ""
    """The person who releases exactly this output, or this whole call, below its label; empty if there is none.

    The gate sets it from a record of the text, or of the call, shown to that person.
    """
    releasable: bool = False
    """People can be shown this whole call, and one of them may release it to its tool's own sink."""
    held: bool = False
    """The item to be read is kept out of the context."""
    carried: Label = PUBLIC
    """The join of the labels of all data that a call or a text takes along by reference, outside the context."""
    fresh: Label = PUBLIC
    """The taint of a new generation once the same is asked again at home."""
    lowered: Label | None = None
    """As `fresh`, once the home is classified for the people who read there; None where that does not help."""
    home_readers: Label | None = None
    """For the home the same as `Destination.readers`."""
    home_vouched: Label | None = None
    """For the home the same as `Destination.vouched`."""
    sink: Destination | None = None
    """The address that a call would send to, with as much as the configuration knows of its readers."""
    asker: str = ""
    """The person who started this. At PRE_OUTPUT no rule of a configuration or plugin sees it."""
    asker_role: Role = Role.STRANGER
    """The asker's role; as `asker`."""
    principal_groups: frozenset[str] = frozenset()
    """The groups of the principal; as `asker`."""
    asker_groups: frozenset[str] = frozenset()
    """The groups of the asker; as `asker`."""
    others: Others | None = None
    """The people other than the asker whose words are in the context, None if none count."""
    steered: tuple[SteeredRole, ...] = ()
    """The roles whose values steer the call, once the context holds an endorsed value; empty before."""
    quotes: bool = False
    """It takes along texts by reference as content, and no value that steers it."""
    unvouched: bool = False
    """A held value that people did not vouch for steers the call."""
    entry: TakenEntry | None = None
    """How the entries of held lists that steer the call stand to the operator's bounds, None where none does."""
    entry_bounds: str = field(default="", compare=False)
    """The short digest of the names of entries in these bounds, so that a replay knows whether they are the same."""
    run: RunState | None = None
    """The state of the session's run, None for a session that is not a run."""
    lifts: tuple[str, ...] = field(default=(), compare=False)
    """The rules that people approved beforehand; the gate sets `approved` where that is enough."""
    origin: RequestOrigin | None = field(default=None, compare=False, repr=False)
    """The facts behind it, None where the gate does not know a session."""
