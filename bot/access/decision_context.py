"""Where a session stands at one moment, and what its model proposes: the frozen facts every decision starts from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from bot.access.agents import AgentSnapshot
from bot.access.authorize import Caller
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
    """A session as the gate sees it: whom it acts for, where it speaks, what it has read. `now` in store ms.

    `asker` is the person who set this going: the principal, or a person in the shared chat that it is. `addresses` are
    the web addresses that stand verbatim in its context, see `bot.access.known_urls`, and `typed` those that its asker
    typed, here or in the conversation that it was spawned from. `held` is what its generation keeps out of the context.
    `visibility` is what a reader had to be cleared for to learn of the session when it was looked up. `model` is the
    one that people chose, empty for the first of its `agent`. `authors` are the people whose words are in its
    context (`bot.access.authors`). `endorsed` are the bounded answers that it has heard, itself or through another
    session. `allowance` is the session's own token budget, None for none and outside a turn. `agent` is the one that it
    has pinned, None outside a session. `run` is how its run stood when the model was asked last, None in any other
    session, and `claim` the worker's hold on it, None outside a turn. `by_model` tells that a model asks, though no
    turn of ours runs: then it may know what its taint may, as in a turn, and not all that the address is cleared for.
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
    allowance: TokenAllowance | None = None
    agent: AgentSnapshot | None = None
    run: RunFacts | None = None
    by_model: bool = False
    claim: Claim | None = field(default=None, compare=False, repr=False)

    @property
    def others(self) -> frozenset[str]:
        """The people beside the asker whose words are in the context."""
        return self.authors - {self.asker}

    @property
    def reader(self) -> Label:
        """What the person asking here may know: their clearance meet that of the address that answers."""
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
        """Return where a person stands who asks outside a turn; they have read nothing unless `taint` says so."""
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

    With `own_level` the runtime makes it for a session as it is: nothing is read that would change its taint.
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
    """Return a call's idempotency key: the same when it is repeated after a crash."""
    return f"{standing.sid}/{standing.generation}/{call.id}"
