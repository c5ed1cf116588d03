"""What a command is, what it is given, and what it answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.access.authorize import Caller
from bot.access.decision_context import DecisionContext
from bot.access.pairing import Pairing
from bot.audit.visibility import AuditTrail
from bot.budgets import Budget
from bot.config.model import Config
from bot.core.errors import BusyError, RequestError
from bot.core.ids import Ids
from bot.core.rate_limiter import RateLimiter
from bot.delegation.spawn import Spawner
from bot.diagnostics import Diagnostics
from bot.export import Exporter
from bot.gate.gate import Gate
from bot.gate.results import explained
from bot.policy_state import PolicyReloader
from bot.sessions.models import Claim, SessionState, Status
from bot.sessions.store import Store
from bot.tools.labelled_files import FileRoot
from bot.tools.summarize import Recap
from channels.messages import Address, Button
from policy import explain
from policy.decision import Decision, Remedy
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, parse
from policy.request import Role

ASKS_NOBODY: Final = "nobody is asked to approve a command; what the agent does of its own is asked about"
"""What is said where a rule wants an approval of what a person typed as a command."""


class CommandError(RequestError):
    """A command that cannot be understood or followed; its sentence is shown to its caller."""

    code = "command"


class UsageError(CommandError):
    """Arguments that do not fit; the command's usage line is shown."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: `label` is that of what it tells, and the outbox compares it with the readers'.

    `buttons` are commands that may be given next.
    """

    text: str
    label: Label = PUBLIC
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Who asks, where, and what a command may use.

    `address` is where the answer is said: in a shared chat to the caller alone. `sid` is the session of the chat.
    `session_of` gives the id of the caller's session at an address. `now` is milliseconds since the epoch.
    `simulations` counts `/simulate` for all addresses. `spawner` knows the background sessions. `reloader` reads
    the policy again, `exporter` makes signed copies. `interrupt` stops a session's turn at once if it runs in this
    process, `deliver` says what waits in an outbox, `close` edits the copies of questions that a session does not
    ask any more. `recap` asks the configured models for a recap. `trail` reads the audit, `health` looks for what is to
    be mended. `budget` knows what was used today. `config` is what this process was started with.
    """

    caller: Caller
    address: Address
    sid: str
    store: Store
    gate: Gate
    files: FileRoot
    ids: Ids
    session_of: Callable[[Address], Awaitable[str]]
    now: int
    simulations: RateLimiter
    spawner: Spawner
    reloader: PolicyReloader
    exporter: Exporter
    interrupt: Callable[[str], None]
    close: Callable[[str], Awaitable[None]]
    deliver: Callable[[str], Awaitable[None]]
    recap: Recap
    strangers: Pairing
    trail: AuditTrail
    budget: Budget
    health: Diagnostics
    config: Config

    @property
    def typed(self) -> Label:
        """The label of what the caller types here."""
        return labelling.inbound(self.gate.document, self.address, self.caller.role, authored=True)

    async def state(self) -> SessionState | None:
        """Return the session's record, None before its first message.

        An archived one that may not be told of here is absent, too (law `no_read_up`).
        """
        state = await self.store.sessions.state(self.sid)
        if state is None or state.status is not Status.ARCHIVED:
            return state
        return state if state.visibility.flows_to((await self.standing(None)).reader) else None

    async def above(self, state: SessionState | None) -> bool:
        """Say whether a session has read more than may be told here.

        What it does by then is the choice of a model that knows that, so no answer here may depend on it (ADR 0021).
        """
        return state is not None and not state.visibility.flows_to((await self.standing(None)).reader)

    async def in_shared_chat(self) -> bool:
        """Say whether this was typed in a shared chat, also where the caller alone sees the answer."""
        return bool(self.address.recipient) or (await self.gate.readers.destination(self.address)).shared

    async def standing(self, state: SessionState | None) -> DecisionContext:
        """Return the facts a decision for this caller starts from; a session not begun has read nothing."""
        return DecisionContext.of_caller(
            self.caller,
            self.address,
            await self.gate.readers.destination(self.address),
            self.now,
            sid=self.sid,
            generation=0 if state is None else state.generation,
            taint=PUBLIC if state is None else state.taint,
            visibility=PUBLIC if state is None else state.visibility,
            model="" if state is None else state.model,
        )

    @asynccontextmanager
    async def claimed(self) -> AsyncGenerator[Claim]:
        """Take this conversation to write to it once, giving the lease back with that.

        Raises BusyError: a turn is open, or another process has the session.
        """
        claim = await self.store.sessions.claim(self.sid, self.ids.owner(), idle=True)
        if claim is None:
            raise BusyError
        if claim.state.turn is not None:
            await self.store.sessions.release(claim)
            raise BusyError
        try:
            yield claim
        except BaseException:
            await self.store.sessions.release(claim)
            raise

    def explained(
        self, decision: Decision, standing: DecisionContext, subject: str, told: explain.LabelWording = explain.SESSION
    ) -> str:
        """Return a decision about a command in words for the readers of this address, with its labels as `told`.

        People are asked about what an agent does, so that no command is told to have itself approved.
        """
        left = tuple(offer for offer in decision.remedies if offer is not Remedy.APPROVER)
        text = explained(replace(decision, remedies=left), standing.destination.clearance or PUBLIC, subject, told)
        return text if left == decision.remedies else f"{text}\n{ASKS_NOBODY}"


def label_named(context: CommandContext, text: str) -> Label:
    """Return a label that a person typed.

    Raises CommandError: it is none, or names a compartment there is not.
    """
    try:
        label = parse(text)
    except LabelTextError as error:
        raise CommandError(str(error)) from None
    unknown = sorted(label.compartments.difference(context.gate.document.compartments))
    if unknown:
        raise CommandError(f"unknown compartment `{unknown[0]}`")
    return label


Run = Callable[[CommandContext, str], Awaitable[Reply]]
"""Runs a command with the text after its name.

Raises UsageError: the arguments do not fit. Any other RequestError is shown as it is.
"""


def _to_everybody(_context: CommandContext) -> bool:
    return True


def _nothing(_argument: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table; `usage` begins with the name, `help` is one sentence.

    `needs` is the role it takes, but for what begins with a word of `for_members` or of `for_admins`. To a caller to
    whom it is not `offered` it is as if it did not exist. What `changes` the conversation it is typed in is refused in
    one that is archived. What is `urgent` is counted apart from what else somebody
    says in a minute, so that too much of that does not hold it up.
    """

    name: str
    usage: str
    help: str
    run: Run
    needs: Role = Role.MEMBER
    offered: Callable[[CommandContext], bool] = _to_everybody
    for_members: frozenset[str] = frozenset()
    for_admins: frozenset[str] = frozenset()
    urgent: bool = False
    changes: Callable[[str], bool] = _nothing

    def needed(self, argument: str) -> Role:
        """Return the role that this argument takes."""
        first = argument.split(maxsplit=1)[:1]
        if self.for_admins.intersection(first):
            return Role.ADMIN
        return Role.MEMBER if self.for_members.intersection(first) else self.needs

    @property
    def public(self) -> bool:
        """Whether it exists for every member."""
        return self.least is Role.MEMBER and self.offered is _to_everybody

    @property
    def least(self) -> Role:
        """The role that some argument takes."""
        return Role.MEMBER if self.for_members else self.needs
