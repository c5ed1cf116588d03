"""What is asked of the engine: one frozen value per hook crossing, holding every fact a rule may use.

The gate fills it from configuration and runtime facts; nothing in it is parsed from content. A fact
that could not be established is `None`, which the fixed rules read as the worst case.
"""

from dataclasses import dataclass
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
    """What a tool does to the world outside its session."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    SEND = "send"


class Role(StrEnum):
    """What a principal may do, from most to least."""

    OWNER = "owner"
    ADMIN = "admin"
    APPROVER = "approver"
    MEMBER = "member"
    GUEST = "guest"
    STRANGER = "stranger"


Overshoot = Literal["ask", "allow", "block"]
"""What happens to a read whose result could not be spoken at home; `ask` refuses it and has the asker offered a way."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A configured secret that a tool would use.

    `name` is its name in the configuration. `granted` tells that configuration names it for this tool and for the
    host it would be sent to.
    """

    name: str
    granted: bool


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """A tool call's facts, known before it runs.

    `result` is the label its result (and its errors) will carry, `None` if the tool declares none.
    `clearance` is that of the sink it writes or sends to, `None` if there is none or it is unknown.
    `server` is the MCP server that runs it, empty for a tool of our own. `roles` are those of askers whom the
    configuration gives it to, `None` for all. `asks` tells that it begins work which goes on after its turn, so that
    people are asked about it.
    """

    name: str
    effect: Effect
    result: Label | None
    clearance: Label | None = None
    consequential: bool = False
    server: str = ""
    roles: frozenset[Role] | None = None
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Others:
    """The people whose words are in the context beside the asker's, as the policy in force knows them.

    `clearance` is what each of them may know, `roles` are the roles they have. One who is not known is cleared for
    PUBLIC and a stranger.
    """

    clearance: Label
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True)
class RunState:
    """How the run that a session is stood when its model was asked last.

    `initialized` tells that it was initialized, `stopped` that it is to end, `paused` that its breaker is open.
    """

    initialized: bool
    stopped: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Destination:
    """Where something would be said.

    `clearance` is the effective clearance of the address: its classification meet every reader's;
    `None` when unknown, which reads as PUBLIC. `readers` is the most that any classification could let be said there,
    as people read there who may know no more; None if nothing but the classification limits it. `vouched` is the
    clearance that an admin's word for its members would give it, None where that changes nothing. `raised` is what it
    would be cleared for if the person whose private chat it is was cleared for more, None for any other address.
    """

    address: str
    channel: str
    clearance: Label | None
    shared: bool = False
    readers: Label | None = None
    vouched: Label | None = None
    raised: Label | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the engine.

    `taint` is the session's, now. `item` is the label of what would enter the context. `ceiling` is
    the clearance of the principal the session acts for, `provider` that of the model, `home` the
    effective clearance of the session's home address; `overshoot` says what happens to a read whose
    result could not be spoken there. `content` is the text rules' patterns look at, as it is written; `shown` is what
    else people may see of it, where its formatting hides or joins something, one view or several. `arguments`
    are those of a tool call as its own type gives them, None for one that is absent. `approved` tells
    that the gate holds a live approval bound to exactly this request. `confirmed` tells that a person
    confirmed a reset. `released` names the person who releases exactly this output below its label, empty if nobody
    does; the gate sets it from a record of what that person was shown, for an output alone. `secret` is what a tool
    wants to use. `held` tells that what would be read is kept out of the context, `carried` is the join of the
    labels of everything a call or a text takes along by reference, without the context holding it.
    `asker` is the person who set this going, with the role of that person: in a shared chat `principal` is the chat.
    `others` are the people whose words are in the context beside the asker's, None if there are none that count.
    `run` is how the run stands that the session is, None for any other session.

    The rest tells what remedies would change. `fresh` is what a new generation would have read by the time the same is
    asked again at home, `lowered` the same once the home is classified for the people who read there, None where that
    is no way out. `home_readers` is for the home what `readers` is for a destination.
    `home_vouched` is what `vouched` is for one. `sink` is where a call would have something said, as far as the
    configuration knows of who reads there.
    """

    hook: Hook
    principal: str
    role: Role
    channel: str
    taint: Label
    ceiling: Label
    provider: Label
    home: Label
    item: Label | None = None
    tool: ToolFacts | None = None
    destination: Destination | None = None
    secret: Secret | None = None
    content: str = ""
    shown: tuple[str, ...] = ()
    arguments: tuple[tuple[str, object], ...] = ()
    overshoot: Overshoot = "allow"
    approved: bool = False
    confirmed: bool = False
    released: str = ""
    held: bool = False
    carried: Label = PUBLIC
    fresh: Label = PUBLIC
    lowered: Label | None = None
    home_readers: Label | None = None
    home_vouched: Label | None = None
    sink: Destination | None = None
    asker: str = ""
    asker_role: Role = Role.STRANGER
    others: Others | None = None
    run: RunState | None = None
