"""A command: its inputs, and its answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling, principals
from bot.access.agents import AgentSnapshot
from bot.access.authorize import Caller
from bot.access.decision_context import DecisionContext
from bot.core.errors import BusyError, RequestError, in_sentences
from bot.gate.gate import Gate
from bot.gate.results import explained
from bot.pinned_agents import PinnedAgents
from bot.sessions.models import Claim, SessionState, Status
from bot.sessions.ports.sessions import SessionStore
from channels.messages import Address, Button
from policy import explain
from policy.decision import Decision, Remedy
from policy.document.model import Document
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label

ASKS_NOBODY: Final = "Nobody is asked to approve a command; ask the agent to make the call instead."
"""The answer where a rule demands an approval of a text that a person typed as a command."""


class CommandError(RequestError):
    """A command that cannot be understood or followed; its sentence is shown to its caller."""

    code = "command"


class UsageError(RequestError):
    """Arguments that do not fit; the command's usage line is shown."""

    code = "command"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: `label` is that of its content, and the outbox compares it with the readers' clearances.

    `buttons` are commands that may be given next. `failed` tells that the command did nothing.
    """

    text: str
    label: Label = PUBLIC
    buttons: tuple[Button, ...] = ()
    failed: bool = False

    @staticmethod
    def refusing(error: RequestError, label: Label) -> "Reply":
        """Return a refusal as an answer. About something that was found, its label is that of the thing."""
        return Reply(in_sentences(error), label, failed=True)


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """The caller of a command, with its address, its time, and its session.

    `address` is where the answer goes: in a shared chat to the caller alone. `sid` is the session of the chat. `now` is
    milliseconds since the epoch. `gate`, `sessions` and `agents` give the basis of a decision about this caller; other
    services are given to the command when it is made.
    """

    caller: Caller
    address: Address
    sid: str
    now: int
    gate: Gate
    sessions: SessionStore
    agents: PinnedAgents

    @property
    def typed(self) -> Label:
        """The label of a text that the caller types here."""
        return labelling.inbound(self.gate.document, self.address, self.caller.role, authored=True)

    async def state(self) -> SessionState | None:
        """Return the session's record, None before its first message.

        An archived one above this address's clearance is absent, too (law `no_read_up`).
        """
        state = await self.sessions.state(self.sid)
        if state is None or state.status is not Status.ARCHIVED:
            return state
        return state if state.visibility.flows_to((await self.standing(None)).reader) else None

    async def above(self, state: SessionState | None) -> bool:
        """Say whether a session has read more than this address is cleared for.

        Its acts by then are the choice of a model that knows that, so no answer here may depend on them (ADR 0021).
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
            agent=None if state is None else await self.agents.working(state),
        )

    async def agent(self, state: SessionState | None) -> AgentSnapshot:
        """Return the agent of this conversation; of one not begun, the one that it would have."""
        if state is not None:
            return await self.agents.pinned(state.agent)
        owner = principals.of_chat(self.address) if await self.in_shared_chat() else self.caller.principal
        return self.agents.named_for(owner)

    @asynccontextmanager
    async def claimed(self, owner: str) -> AsyncGenerator[Claim]:
        """Take this conversation to write to it once, giving the lease back with that; `owner` is a new id of a lease.

        Raises BusyError: a turn is open, or another process has the session.
        """
        claim = await self.sessions.claim(self.sid, owner, idle=True)
        if claim is None:
            raise BusyError
        if claim.state.turn is not None:
            await self.sessions.release(claim)
            raise BusyError
        try:
            yield claim
        except BaseException:
            await self.sessions.release(claim)
            raise

    def explained(
        self, decision: Decision, standing: DecisionContext, subject: str, told: explain.LabelWording = explain.SESSION
    ) -> str:
        """Return a decision about a command in words for the readers of this address, with its labels as `told`.

        People are asked about an agent's calls only, so no command is offered an approval of its own.
        """
        left = tuple(offer for offer in decision.remedies if offer is not Remedy.APPROVER)
        text = explained(replace(decision, remedies=left), standing.destination.clearance or PUBLIC, subject, told)
        return text if left == decision.remedies else f"{text}\n{ASKS_NOBODY}"


def label_named(document: Document, text: str) -> Label:
    """Return a label that a person typed.

    Raises CommandError: it is not a label, or names an unknown compartment.
    """
    try:
        return labelling.named(document, text)
    except LabelTextError as error:
        raise CommandError(str(error)) from None


Run = Callable[[CommandRequest, str], Awaitable[Reply]]
"""Runs a command with the text after its name.

Raises UsageError: the arguments do not fit. Any other RequestError is shown as it is.
"""
