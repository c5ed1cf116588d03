"""The way in: an `Inbound` becomes an authorized command or a durable input of its session.

Every kind of ingress passes `authorize()` here once. A message is in the store when `take` returns, and a command is
done, so the platform may be acknowledged then. What is to be said of it is left to the caller: saying it may take
long, and what comes next need not wait. Senders who are refused learn one sentence at most, and the refusal stands in
the audit.

What is said in a shared chat and not to this bot is nothing to it, or observed where the policy says so. What is said
to it there belongs to the chat's own session; what commands tell goes to whoever typed them alone.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from bot.access import labelling, principals
from bot.access.authorize import Caller, Ingress, Refusal, authorize
from bot.access.decision_context import DecisionContext
from bot.access.pairing import SAID_OFTEN, Pairing
from bot.access.session_ids import SessionIds
from bot.admission.ambient import Observer
from bot.audit import rendering
from bot.commands import table
from bot.commands.classify import NOT_CLASSIFIED
from bot.commands.command import Reply
from bot.core.clock import Clock
from bot.core.errors import BusyError, ForeignError, LeaseLostError, RequestError, StoreError, StoreGoneError
from bot.core.logs import bound
from bot.core.rate_limiter import RateLimiter
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.ingress.bot_loop_guard import BotLoopGuard
from bot.ingress.new_chats import NewChats
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.sessions.audit import AuditRow
from bot.sessions.inbox import NewItem
from bot.sessions.models import Doing
from bot.sessions.ports import AuditStore, SessionStore
from channels.messages import Address, How, Inbound
from channels.port import Answer
from policy.labels import PUBLIC
from policy.request import Role

if TYPE_CHECKING:
    from pydantic import JsonValue

NOT_SERVING: Final = "nothing is taken in here, another policy is in force, an admin can use `/policy reload`"
"""All that a process says whose policy is not the one in force."""


FLOODED: Final = "you say more than is taken in within a minute, what you say now is not taken in, wait a minute"
"""What somebody is told, once in a minute, of whom no more is taken in."""


UNREAD: Final = (
    "what this command needs cannot be read from the store or written to it; `lockgate doctor` and "
    "`lockgate audit verify` tell more, maybe another version of lockgate wrote it"
)
"""What is told of a command that the store is in the way of, which may tell of what may not be known here."""

FAILED: Final = "this command failed, and doing it again may fail again; an admin can look for it with `/audit`"
"""What is told of a command that a fault of ours ended."""


class Routed(StrEnum):
    """What became of something that came in."""

    ACCEPTED = "accepted"
    ANSWERED = "answered"
    REFUSED = "refused"
    IGNORED = "ignored"
    OBSERVED = "observed"


_LOGGER: Final = logging.getLogger(__name__)
_UNHEARD: Final = frozenset({Routed.IGNORED, Routed.OBSERVED})


async def _nothing() -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class RouterReceipt:
    """What became of it, the session it was for, and what is left to say of it. Saying it raises StoreError."""

    outcome: Routed
    sid: str
    say: Answer = field(default=_nothing, compare=False)


class Router:
    """Routes what comes in.

    `interrupt` stops a session's turn of an id at once if it runs in this process. `longest` is the most characters a
    message may have, `rate` bounds what each person says, types as commands and presses. Urgent commands are counted
    apart, as many again: who has said too much still stops what runs and answers what waits. The owner is not bounded
    by that: his is the console, where a whole file may be piped in.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: SessionStore,
        audit: AuditStore,
        gate: Gate,
        outbox: Outbox,
        reloader: PolicyReloader,
        strangers: Pairing,
        newcomers: NewChats,
        clock: Clock,
        commands: table.CommandTable,
        conversations: SessionIds,
        observer: Observer,
        loops: BotLoopGuard,
        quarantine: Quarantine,
        interrupt: Callable[[str, str], None],
        longest: int,
        rate: RateLimiter,
    ) -> None:
        self._store = store
        self._audit = audit
        self._gate = gate
        self._outbox = outbox
        self._reloader = reloader
        self._strangers = strangers
        self._newcomers = newcomers
        self._clock = clock
        self._commands = commands
        self._conversations = conversations
        self._observer = observer
        self._loops = loops
        self._quarantine = quarantine
        self._interrupt = interrupt
        self._longest = longest
        self._rate = rate
        self._told = RateLimiter(clock, 1)

    async def receive(self, inbound: Inbound) -> RouterReceipt:
        """Take something in and say what is to be said of it.

        Raises StoreError: it could not be kept, or what is to be said of it could not be said.
        """
        receipt = await self.take(inbound)
        await receipt.say()
        return receipt

    async def take(self, inbound: Inbound) -> RouterReceipt:
        """Take something in; it is durable, done or refused when this returns.

        Raises StoreError: it could not be kept, so the platform must not be told that it was.
        """
        with bound(request=_dedupe(inbound)):
            receipt = await self._kept(inbound)
            _LOGGER.debug("an input was taken in", extra={"outcome": receipt.outcome})
        return receipt

    async def _kept(self, inbound: Inbound) -> RouterReceipt:
        await self._loops.heard(inbound)
        sid = self._conversations.first(inbound.address)
        try:
            receipt = await self._received(inbound, sid)
        except StoreGoneError:
            raise
        except Exception as error:
            # Its adapter parks it: what is said in other chats is taken in meanwhile.
            with suppress(StoreError):
                await self._quarantine.put(sid, Doing.INTAKE, error)
            raise
        if receipt.outcome is Routed.ACCEPTED:
            with suppress(StoreError):
                await self._quarantine.done(sid, Doing.INTAKE)
        if receipt.outcome in _UNHEARD or inbound.private or inbound.bot:
            return receipt
        return replace(receipt, say=partial(self._say_all, inbound, receipt.say))

    async def _say_all(self, inbound: Inbound, say: Answer) -> None:
        """Say what is left to say of something, and tell admins of its chat if nobody classified that."""
        await say()
        # What was said may have classified the chat. It is taken in, so it must not be told again for this.
        with suppress(StoreError):
            if await self._reloader.current():
                await self._newcomers.spoken_to(inbound.address, inbound.account)

    async def _received(self, inbound: Inbound, sid: str) -> RouterReceipt:
        command = inbound.authored and table.is_command(inbound.text)
        if not inbound.addressed or not _offered(inbound, command=command):
            return await self._observed(inbound, sid)
        current = await self._current(inbound.text, command=command)
        caller = self._authorized(inbound, command=command)
        if isinstance(caller, Refusal) and not command and await self._reloader.current_now():
            # Somebody may have let them in a moment ago, in another process.
            caller = self._authorized(inbound, command=command)
        if isinstance(caller, Refusal):
            if not command and current:
                # Whoever may not ask is still heard by everybody there, as by whom he is asked for.
                await self._observer.keep(inbound)
            return await self._refuse(inbound, caller, sid)
        if not command and self._blocked(inbound.address):
            return RouterReceipt(Routed.IGNORED, sid)
        if not self._paced(inbound, caller, urgent=command and table.is_urgent(inbound.text)):
            return await self._flooded(inbound, caller, sid)
        if not current:
            return self._told_off(inbound, caller, sid, NOT_SERVING)
        return await (self._command(inbound, caller, sid) if command else self._message(inbound, caller, sid))

    async def _command(self, inbound: Inbound, caller: Caller, sid: str) -> RouterReceipt:
        """Answer a command of somebody who may give it, whatever becomes of it.

        Only what the store being gone kept from an answer is told again.
        """
        there = answered_at(inbound)
        try:
            sid = await self._conversations.of(inbound.address, _owner(inbound, caller))
            reply = await self._commands.answer(self._commands.request(caller, there, sid), inbound.text)
        except StoreGoneError:
            raise
        except LeaseLostError:
            reply = Reply(str(BusyError()))
        except Exception as error:
            with bound(session=sid):
                _LOGGER.exception("a command broke")
            await self._audit.append((rendering.failed("router", sid, error),))
            reply = Reply(UNREAD if isinstance(error, StoreError) else FAILED)
        return RouterReceipt(Routed.ANSWERED, sid, partial(self._say, caller, inbound, sid, reply))

    async def _message(self, inbound: Inbound, caller: Caller, sid: str) -> RouterReceipt:
        """Put a message of somebody who may speak here into its session's inbox, or tell him why it is not."""
        if not await self._loops.lets(inbound):
            return RouterReceipt(Routed.IGNORED, sid)
        try:
            problem = await self._taken(inbound, caller, sid)
        except ForeignError:
            sid = self._conversations.own(inbound.address, _owner(inbound, caller))
            problem = await self._taken(inbound, caller, sid)
        return self._told_off(inbound, caller, sid, problem) if problem else RouterReceipt(Routed.ACCEPTED, sid)

    async def _observed(self, inbound: Inbound, sid: str) -> RouterReceipt:
        """Keep what was not said to this bot, where the policy in force wants that."""
        kept = await self._reloader.current() and await self._observer.keep(inbound)
        return RouterReceipt(Routed.OBSERVED if kept else Routed.IGNORED, sid)

    def _paced(self, inbound: Inbound, caller: Caller, *, urgent: bool) -> bool:
        """Count what somebody says; return whether it is not too much. What a platform tells again counts once."""
        key = f"{urgent:d}/{self._pool(inbound, caller)}"
        return caller.role is Role.OWNER or self._rate.allows(key, _dedupe(inbound))

    def _pool(self, inbound: Inbound, caller: Caller) -> str:
        """Name the pool that what somebody says is counted in: theirs, at the level of what is said here (ADR 0015)."""
        label = labelling.inbound(
            self._gate.document, inbound.address, caller.role, authored=True, shared=not inbound.private
        )
        return f"{caller.principal} {label.secrecy}"

    async def _flooded(self, inbound: Inbound, caller: Caller, sid: str) -> RouterReceipt:
        """Take in no more of somebody who says too much for now; that is told and noted once in a minute."""
        if not self._told.allows(self._pool(inbound, caller)):
            return RouterReceipt(Routed.REFUSED, sid)
        body: dict[str, JsonValue] = {"account": inbound.account, "address": str(inbound.address)}
        await self._audit.append((AuditRow("refused", "router", {**body, "reason": "too many messages"}),))
        return replace(self._told_off(inbound, caller, sid, FLOODED), outcome=Routed.REFUSED)

    def _authorized(self, inbound: Inbound, *, command: bool) -> Caller | Refusal:
        ingress = Ingress.COMMAND if command else Ingress.TEXT
        if inbound.how is not How.TEXT:
            ingress = Ingress(inbound.how.value)
        needed = table.needed(inbound.text) if command else Role.MEMBER
        return authorize(self._gate.document, inbound.account, ingress, needed)

    def _blocked(self, address: Address) -> bool:
        """Say whether an admin shut a chat out: nothing is said there, not even that."""
        chat = self._gate.document.chat(address.channel, address.workspace, address.chat)
        return chat is not None and chat.blocked

    async def _taken(self, inbound: Inbound, caller: Caller, sid: str) -> str:
        """Put a message into its session's inbox; return why it is not, empty if it is."""
        described = sum(len(file.handle) + len(file.name) + len(file.media_type) for file in inbound.files)
        if len(inbound.text) + sum(map(len, inbound.quoted)) + described > self._longest:
            return f"a message has at most {self._longest} characters"
        if not inbound.private and labelling.classification(self._gate.document, inbound.address) is None:
            return NOT_CLASSIFIED
        try:
            accepted = await self._store.accept(self._item(inbound, caller, sid))
        except ForeignError:
            raise
        except RequestError as error:
            return str(error)
        if accepted.stopping:
            # A turn in another process learns of it when it next writes or renews its lease.
            self._interrupt(sid, accepted.stopping)
        return ""

    async def _current(self, text: str, *, command: bool) -> bool:
        """Say whether this process may take something in; `/policy`, by which it becomes that, it always may.

        Who may give a command is decided by what people changed until now, wherever they did.
        """
        if not command:
            # As of a moment ago. What is decided on a message is decided at its claim.
            return await self._reloader.current()
        return await self._reloader.current_now() or table.puts_policy(text)

    def _item(self, inbound: Inbound, caller: Caller, sid: str) -> NewItem:
        return NewItem(
            sid=sid,
            dedupe=_dedupe(inbound),
            sender=caller.principal,
            label=labelling.inbound(
                self._gate.document,
                inbound.address,
                caller.role,
                authored=inbound.authored and not inbound.quoted and not inbound.files,
                shared=not inbound.private,
            ),
            body={
                "text": inbound.text,
                "account": inbound.account,
                **({"quoted": list(inbound.quoted)} if inbound.quoted else {}),
                **({"opens": True} if inbound.opens else {}),
                **({"files": [asdict(file) for file in inbound.files]} if inbound.files else {}),
            },
            home=str(inbound.address),
            principal=_owner(inbound, caller),
        )

    async def _refuse(self, inbound: Inbound, refusal: Refusal, sid: str) -> RouterReceipt:
        body: dict[str, JsonValue] = {
            "account": refusal.account,
            "address": str(inbound.address),
            "ingress": refusal.ingress.value,
            "reason": refusal.reason,
        }
        told = await self._strangers.told(self._gate.document, inbound, refusal)
        if self._blocked(inbound.address):
            told = ""
        times = await self._strangers.times(refusal)
        # What somebody does a thousand times in a day is ten rows, each with its number, and as many answers: each
        # answer is a row as well.
        if times & (times - 1) == 0:
            await self._audit.append((AuditRow("refused", "router", {**body, "times": times}),))
        elif told in SAID_OFTEN:
            told = ""
        if not told:
            return RouterReceipt(Routed.REFUSED, sid)
        stranger = Caller("", Role.STRANGER, PUBLIC, refusal.ingress)
        return RouterReceipt(Routed.REFUSED, sid, partial(self._say, stranger, inbound, sid, Reply(told)))

    def _told_off(self, inbound: Inbound, caller: Caller, sid: str, sentence: str) -> RouterReceipt:
        """Leave it to be said to the sender alone why something is not taken in; a bot is told nothing."""
        if inbound.bot:
            return RouterReceipt(Routed.IGNORED, sid)
        return RouterReceipt(Routed.ANSWERED, sid, partial(self._say, caller, inbound, sid, Reply(sentence)))

    async def _say(self, caller: Caller, inbound: Inbound, sid: str, reply: Reply) -> None:
        """Say a direct answer to the sender alone. It is decided from its own label, not the session's."""
        there = answered_at(inbound)
        destination, now = await self._gate.readers.destination(there), self._clock.wall_ms()
        standing = DecisionContext.of_caller(caller, there, destination, now, sid=sid)
        await self._outbox.reply(standing, reply.text, reply.label, press=inbound.press, buttons=reply.buttons)


def _dedupe(inbound: Inbound) -> str:
    return f"{inbound.address.channel}/{inbound.dedupe}"


def _owner(inbound: Inbound, caller: Caller) -> str:
    """Return whose the session is that something is said in."""
    return caller.principal if inbound.private else principals.of_chat(inbound.address)


def answered_at(inbound: Inbound) -> Address:
    """Return where a command is answered: to whoever typed it alone."""
    if inbound.private:
        return inbound.address
    return replace(inbound.address, recipient=principals.recipient(inbound.account))


def _offered(inbound: Inbound, *, command: bool) -> bool:
    """Say whether something that was not typed is a command that this bot put there; what is typed always may be."""
    match inbound.how:
        case How.TEXT:
            return True
        case How.BUTTON:
            return command and table.may_be_pressed(inbound.text)
        case How.OPENED:
            return command and table.may_be_opened(inbound.text)
