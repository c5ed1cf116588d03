"""The entry of inputs: an `Inbound` becomes an authorized command or a durable input of its session.

Messages to this bot, and presses, pass `authorize()` here. When `take` returns, a message is in the store and a command
is done, so the platform may be acknowledged then. The caller sends the answer: that may take long, and later inputs
need not wait. Refused senders get one sentence at most, and the refusal is in the audit.

Messages in a shared chat that are not addressed to this bot are ignored, or observed where the policy says so. Messages
to the bot belong to the chat's own session; answers to commands go to their caller alone.

Programs were authorized by their tokens. They name their session, and their text is always a message, never a command;
it takes the same way from there.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final

from bot.access import labelling, principals
from bot.access.authorize import Caller, Ingress, Refusal, authorize
from bot.access.session_ids import SessionIds
from bot.admission.ambient import Observer
from bot.commands import table
from bot.commands.command import Reply
from bot.core.errors import AskedError, BusyError, NotFoundError, StoreError, StoreGoneError
from bot.core.logs import bound
from bot.gate.gate import Gate
from bot.ingress.command_runner import CommandRunner
from bot.ingress.direct_answers import DirectAnswers, answered_at
from bot.ingress.flood_limits import FloodLimits
from bot.ingress.inbox_writer import InboxWriter, NewSession, Steer
from bot.ingress.question_replies import QuestionReplies, QuestionReply
from bot.ingress.refusals import Refusals
from bot.ingress.unread_kinds import UnreadKinds
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.sessions.inbox import Accepted
from bot.sessions.models import Doing
from channels.messages import How, Inbound
from channels.port import Answer
from policy.labels import PUBLIC
from policy.request import Role

NOT_SERVING: Final = "No message is accepted here, as another policy is in force. An admin can use `/policy reload`."
"""The only answer of a process whose policy is not the one in force."""


class Routed(StrEnum):
    """The outcome of an input."""

    ACCEPTED = "accepted"
    ANSWERED = "answered"
    REFUSED = "refused"
    IGNORED = "ignored"
    OBSERVED = "observed"


_LOGGER: Final = logging.getLogger(__name__)
_UNHEARD: Final = frozenset({Routed.IGNORED, Routed.OBSERVED})


async def _nothing() -> None:
    """Send nothing."""


@dataclass(frozen=True, slots=True)
class RouterReceipt:
    """The outcome of an input, its session, and the remaining answer. Sending the answer raises StoreError."""

    outcome: Routed
    sid: str
    say: Answer = field(default=_nothing, compare=False)


class Router:
    """Routes inputs: authorizes the sender, then hands the input to the part responsible for it."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        gate: Gate,
        reloader: PolicyReloader,
        quarantine: Quarantine,
        session_ids: SessionIds,
        limits: FloodLimits,
        observer: Observer,
        refusals: Refusals,
        commands: CommandRunner,
        inbox: InboxWriter,
        replies: QuestionReplies,
        answers: DirectAnswers,
        unread: UnreadKinds,
    ) -> None:
        self._gate = gate
        self._reloader = reloader
        self._quarantine = quarantine
        self._session_ids = session_ids
        self._limits = limits
        self._observer = observer
        self._refusals = refusals
        self._commands = commands
        self._inbox = inbox
        self._replies = replies
        self._answers = answers
        self._unread = unread

    async def receive(self, inbound: Inbound) -> RouterReceipt:
        """Take an input and send its answer.

        Raises StoreError: the input could not be kept, or the answer could not be sent.
        """
        receipt = await self.take(inbound)
        await receipt.say()
        return receipt

    async def take(self, inbound: Inbound) -> RouterReceipt:
        """Take an input; it is durable, done or refused when this returns.

        Raises StoreError: it could not be kept, so the platform must not be told that it was.
        """
        with bound(request=inbound.identity):
            receipt = await self._kept(inbound)
            _LOGGER.debug("an input was taken in", extra={"outcome": receipt.outcome})
        return receipt

    async def begin(self, inbound: Inbound, caller: Caller, new: NewSession) -> tuple[str, Accepted]:
        """Create a session for an authorized program, or find the one that it created with the same values.

        Raises:
            DedupeConflictError: It created one there with other values.
            RequestError: It cannot be created.
            StoreError: It could not be kept.
        """
        with bound(request=inbound.identity):
            await self._serving(inbound)
            return await self._inbox.begin(inbound, caller, new)

    async def steer(self, inbound: Inbound, caller: Caller, told: Steer) -> Accepted:
        """Take a message of an authorized program to a session of its own.

        Raises:
            NotFoundError: The program may not know of the session.
            RequestError: The message is not acceptable.
            StoreError: It could not be kept.
        """
        with bound(request=inbound.identity, session=told.state.sid):
            await self._serving(inbound)
            return await self._inbox.steer(inbound, caller, told)

    async def _serving(self, inbound: Inbound) -> None:
        """Check that a program can be served here.

        Raises:
            BusyError: This process does not serve now.
            NotFoundError: The program's address is blocked.
        """
        if not await self._reloader.current():
            raise BusyError
        if labelling.blocked(self._gate.document, inbound.address):
            raise NotFoundError

    async def _kept(self, inbound: Inbound) -> RouterReceipt:
        await self._limits.heard(inbound)
        sid = await self._session_ids.first(inbound.address)
        try:
            receipt = await self._received(inbound, sid)
        except StoreGoneError:
            raise
        except Exception as error:
            # Its adapter parks it; inputs of other chats are accepted meanwhile.
            with suppress(StoreError):
                await self._quarantine.put(sid, Doing.INTAKE, error)
            raise
        if receipt.outcome is Routed.ACCEPTED:
            with suppress(StoreError):
                await self._quarantine.done(sid, Doing.INTAKE)
        if receipt.outcome in _UNHEARD or inbound.private or inbound.bot:
            return receipt
        return replace(receipt, say=partial(self._answers.say_all, inbound, receipt.say))

    async def _received(self, inbound: Inbound, sid: str) -> RouterReceipt:
        continues = inbound.part is not None and inbound.part.continues
        command = inbound.authored and table.is_command(inbound.text) and not continues
        if not inbound.addressed or not _offered(inbound, command=command):
            return await self._observed(inbound, sid)
        current = await self._current(inbound.text, command=command)
        caller = self._authorized(inbound, command=command)
        if isinstance(caller, Refusal) and not command and await self._reloader.current_now():
            # Someone may have let them in a moment ago, in another process.
            caller = self._authorized(inbound, command=command)
        if isinstance(caller, Refusal):
            if not command and current:
                # The message of an unauthorized sender is still read by everyone there, the senders of later questions
                # included.
                await self._observer.keep(inbound)
            return await self._refuse(inbound, caller, sid)
        if not command and labelling.blocked(self._gate.document, inbound.address):
            return RouterReceipt(Routed.IGNORED, sid)
        urgent = command and self._commands.known.is_urgent(inbound.text)
        if not await self._limits.allows(inbound, caller, urgent=urgent):
            sentence = await self._limits.refuse(inbound, caller)
            return self._told(inbound, caller, sid, sentence, outcome=Routed.REFUSED)
        if not current:
            return self._told(inbound, caller, sid, NOT_SERVING)
        return await (self._command(inbound, caller) if command else self._message(inbound, caller, sid))

    async def _command(self, inbound: Inbound, caller: Caller) -> RouterReceipt:
        there, owner = answered_at(inbound), _owner(inbound, caller)
        sid, reply = await self._commands.answer(caller, there, inbound.text, home=inbound.address, owner=owner)
        return RouterReceipt(Routed.ANSWERED, sid, partial(self._answers.say, caller, inbound, sid, reply))

    async def _message(self, inbound: Inbound, caller: Caller, sid: str) -> RouterReceipt:
        if inbound.unread:
            return self._told(inbound, caller, sid, await self._unread.told(inbound))
        if not await self._limits.answers(inbound):
            return RouterReceipt(Routed.IGNORED, sid)
        reply, owner = QuestionReply(), _owner(inbound, caller)
        try:
            sid, problem = await self._inbox.put(inbound, caller, owner, unless_asked=True)
        except AskedError:
            reply = await self._replies.taken(inbound, caller)
            if reply.taken:
                return self._said(inbound, caller, sid, reply.say, outcome=Routed.ANSWERED)
            sid, problem = await self._inbox.put(inbound, caller, owner)
        if not problem:
            return self._said(inbound, caller, sid, reply.say, outcome=Routed.ACCEPTED)
        return self._told(inbound, caller, sid, problem)

    def _said(
        self, inbound: Inbound, caller: Caller, sid: str, reply: Reply | None, *, outcome: Routed
    ) -> RouterReceipt:
        """Return a receipt that sends the sender alone the effect of their message on a question, nothing for None."""
        if reply is None:
            return RouterReceipt(outcome, sid)
        return RouterReceipt(outcome, sid, partial(self._answers.say, caller, inbound, sid, reply))

    async def _observed(self, inbound: Inbound, sid: str) -> RouterReceipt:
        """Keep a message that was not addressed to this bot, if the policy in force wants that."""
        kept = await self._reloader.current() and await self._observer.keep(inbound)
        return RouterReceipt(Routed.OBSERVED if kept else Routed.IGNORED, sid)

    def _authorized(self, inbound: Inbound, *, command: bool) -> Caller | Refusal:
        ingress = Ingress.COMMAND if command else Ingress.TEXT
        if inbound.how is not How.TEXT:
            ingress = Ingress(inbound.how.value)
        needed = self._commands.known.needed(inbound.text) if command else Role.MEMBER
        return authorize(self._gate.document, inbound.account, ingress, needed)

    async def _current(self, text: str, *, command: bool) -> bool:
        """Say whether this process may take an input; it always takes `/policy`, which puts its policy in force.

        The right to give a command is decided by all changes made until now, in any process.
        """
        if not command:
            # As of the last read. The decision on a message is made at its claim.
            return await self._reloader.current()
        return await self._reloader.current_now() or table.puts_policy(text)

    async def _refuse(self, inbound: Inbound, refusal: Refusal, sid: str) -> RouterReceipt:
        stranger = Caller("", Role.STRANGER, PUBLIC, refusal.ingress)
        sentence = await self._refusals.told(inbound, refusal)
        return self._told(inbound, stranger, sid, sentence, outcome=Routed.REFUSED)

    def _told(
        self, inbound: Inbound, caller: Caller, sid: str, sentence: str, *, outcome: Routed = Routed.ANSWERED
    ) -> RouterReceipt:
        """Return a receipt that tells the sender alone why an input is not accepted; a bot is told nothing."""
        if inbound.bot or not sentence:
            return RouterReceipt(outcome if outcome is Routed.REFUSED else Routed.IGNORED, sid)
        return RouterReceipt(outcome, sid, partial(self._answers.say, caller, inbound, sid, Reply(sentence)))


def _owner(inbound: Inbound, caller: Caller) -> str:
    """Return the principal of the session that an input belongs to."""
    return caller.principal if inbound.private else principals.of_chat(inbound.address)


def _offered(inbound: Inbound, *, command: bool) -> bool:
    """Say whether an input that was not typed is a command that this bot put there; a typed input always may be one."""
    match inbound.how:
        case How.TEXT:
            return True
        case How.BUTTON:
            return command and table.may_be_pressed(inbound.text)
        case How.OPENED:
            return command and table.may_be_opened(inbound.text)
