"""The frozen facts that every decision starts from: a session at one moment, and a call that its model proposes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from bot.access.agents import AgentSnapshot
from bot.access.authorize import Caller
from bot.sessions.approvals import Approval
from bot.sessions.background.runs import RunFacts
from bot.sessions.limits import TokenAllowance
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.sessions.models import Claim
from channels.messages import Address
from policy.labels import PUBLIC, Label
from policy.request import Destination, Role


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """A session as the gate sees it: its principal, its address, and its taint.

    Args:
        sid: The session.
        generation: Its generation.
        turn: The open turn, empty outside one.
        principal: The principal it acts for.
        asker: The person who set the work going: the principal, or a member of the shared chat that it is.
        role: The role it acts in.
        ceiling: The most that it may read.
        home: Its home.
        destination: Its home, with the present readers.
        taint: Its taint.
        now: The time, in milliseconds on the store's clock.
        addresses: The web addresses that stand verbatim in its context, see `bot.access.known_urls`.
        typed: Those web addresses that its asker typed, here or in the conversation that it was spawned from.
        held: The held items of its generation.
        visibility: The clearance that a reader needed to learn of the session when it was read.
        model: The model that people chose, empty for the first of its `agent`.
        authors: The people whose words are in its context (`bot.access.authors`).
        endorsed: The bounded answers that it has heard, itself or through another session.
        depended: The held answers and entries that decided on its calls, while it has read nothing since that may tell
            of them.
        truncated: Whether the store lost events of its log and no turn ended since, so that a call may have been made.
        allowance: Its own token budget, None for none and outside a turn.
        agent: Its pinned agent, None outside a session.
        run: The facts of its run when the model was asked last, None for any other session.
        by_model: Whether a model of another program asks, outside a turn of ours. Then it may know as much as its
            taint, as in a turn, and not all that the address is cleared for.
        grants: The approvals of its generation with a grant that covers further calls, as far as they may be known.
        claim: The worker's claim on it, None outside a turn.
        prepaid: The tokens of its model call were charged beforehand, so that they are not counted again.
    """

    sid: str
    generation: int
    turn: str
    principal: str
    asker: str
    role: Role
    ceiling: Label
    home: Address
    destination: Destination
    taint: Label
    now: int
    addresses: frozenset[str] = frozenset()
    typed: tuple[str, ...] = ()
    held: tuple[DeferredResult, ...] = ()
    visibility: Label = PUBLIC
    model: str = ""
    authors: frozenset[str] = frozenset()
    endorsed: tuple[Endorsed, ...] = ()
    depended: tuple[Endorsed, ...] = ()
    truncated: bool = False
    allowance: TokenAllowance | None = None
    agent: AgentSnapshot | None = None
    run: RunFacts | None = None
    by_model: bool = False
    grants: tuple[Approval, ...] = ()
    prepaid: bool = False
    claim: Claim | None = field(default=None, compare=False, repr=False)

    @property
    def others(self) -> frozenset[str]:
        """The people beside the asker whose words are in the context."""
        return self.authors - {self.asker}

    @property
    def passed_on(self) -> tuple[Endorsed, ...]:
        """The answers that go with its words. Another session may look for the effects of its calls."""
        return tuple(dict.fromkeys((*self.endorsed, *self.depended)))

    @property
    def reader(self) -> Label:
        """The most that the person asking here may know: their clearance meet that of the answering address."""
        return self.ceiling.meet(self.destination.clearance or PUBLIC)

    @staticmethod
    def of_caller(  # noqa: PLR0913 - a caller where they ask, and what of a session they ask about
        caller: Caller,
        home: Address,
        destination: Destination,
        now: int,
        *,
        sid: str = "",
        generation: int = 0,
        taint: Label = PUBLIC,
        visibility: Label = PUBLIC,
        model: str = "",
        agent: AgentSnapshot | None = None,
    ) -> "DecisionContext":
        """Return the context of a person who asks outside a turn; they have read nothing unless `taint` says so."""
        return DecisionContext(
            sid=sid,
            generation=generation,
            turn="",
            principal=caller.principal,
            asker=caller.principal,
            role=caller.role,
            ceiling=caller.clearance,
            home=home,
            destination=destination,
            taint=taint,
            now=now,
            visibility=visibility,
            model=model,
            agent=agent,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model proposed it; `arguments` is None when they are not a JSON object.

    With `own_level` the runtime makes it for a session as it is: it reads nothing that would change the taint.
    """

    id: str
    tool: str
    arguments: Mapping[str, JsonValue] | None
    own_level: bool = False

    @property
    def digest(self) -> str:
        """The sha256 of the arguments in canonical form, for audit rows and bindings."""
        canonical = json.dumps(self.arguments, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def key(standing: DecisionContext, call: Call) -> str:
    """Return a call's idempotency key: the same when the call is repeated after a crash."""
    return f"{standing.sid}/{standing.generation}/{call.id}"
