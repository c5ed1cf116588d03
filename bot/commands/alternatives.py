"""Commands that take an offer: to go on in private, to have it done in the background, or to decline it.

An offer is its asker's alone. To other people, and for readers below its label, it counts as absent (law `no_read_up`).
Its text is read from the log of its session again; after a reset nothing is left of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access.decision_context import Call
from bot.access.session_ids import SessionIds
from bot.commands.agents import PersonalCalls
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.core.errors import NotFoundError
from bot.delivery import alternatives
from bot.delivery.alternatives import BoundText
from bot.gate.gate import Gate
from bot.sessions.alternatives import Alternative, Wanted, Way
from bot.sessions.deliveries import NewDelivery
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import TurnStarted
from bot.sessions.log.events import Event
from bot.sessions.messages import SessionMessage
from bot.sessions.ports.delivery import AlternativeStore, OutboxStore
from bot.sessions.ports.people import AuditStore
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.refs import elsewhere
from bot.sessions.transcript import backwards
from channels.messages import Address, OutboundKind

TAKEN: Final = "This was answered already, in another way."
NO_SUCH_WAY: Final = "This offer cannot be accepted in that way."
NOT_BEGUN: Final = "Nothing can come back to your private chat yet, say something there first."


@dataclass(frozen=True, slots=True)
class AlternativeCommands:
    """Take or decline an alternative that was offered."""

    sessions: SessionStore
    audit: AuditStore
    outbox: OutboxStore
    alternatives: AlternativeStore
    gate: Gate
    deliver: Callable[[str], Awaitable[None]]
    session_ids: SessionIds
    calls: PersonalCalls

    async def proceed(self, request: CommandRequest, argument: str) -> Reply:
        """Continue in the asker's private chat: with the question asked anew, or with the existing answer."""
        offer = await self._offered(request, _code(argument))
        known = alternatives.private_chats(self.gate.document, request.caller.principal, Address("", ""))
        private = Address.parse(offer.private) if offer.private else None
        if private not in known:
            raise CommandError(NO_SUCH_WAY)
        offered = await self._bound(offer)
        await self._take(offer, Way.PRIVATE)
        if offer.wanted is Wanted.QUESTION:
            await self.sessions.accept(
                NewItem(
                    sid=await self.session_ids.of(private, request.caller.principal),
                    dedupe=f"offer/{offer.code}",
                    sender=request.caller.principal,
                    label=offered.label,
                    body=SessionMessage(offered.text),
                    home=offer.private,
                    principal=request.caller.principal,
                    agent=await request.agents.pin(request.caller.principal),
                    refs=elsewhere(offered.refs, offer.sid),
                )
            )
            return Reply("This is asked in your private chat with this bot, the answer comes there.", offer.told)
        answer = NewDelivery(
            key=f"{offer.turn}-private",
            address=offer.private,
            text=offered.text,
            label=offered.label,
            kind=OutboundKind.MESSAGE,
            turn=offer.turn,
            meant_for=offer.principal,
            refs=offered.refs,
        )
        # Decided like all outputs, against the readers there now; the approval was for another address.
        await self.outbox.put(offer.sid, answer)
        await self.deliver(offer.sid)
        return Reply("This is told in your private chat with this bot.", offer.told)

    async def background(self, request: CommandRequest, argument: str) -> Reply:
        """Let a background session of the asker's answer the question, for an alias that is cleared for the answer."""
        code, _, alias = argument.partition(" ")
        offer = await self._offered(request, _code(code))
        known = dict(offer.recipients)
        alias = alias.strip() or next(iter(known), "")
        if alias not in known:
            raise CommandError(NO_SUCH_WAY)
        question = await self._bound(offer)
        parent = Address.parse(offer.parent)
        own = replace(request, address=parent, sid=await self.session_ids.of(parent, request.caller.principal))
        if await own.state() is None:
            raise CommandError(NOT_BEGUN)
        await self._take(offer, Way.BACKGROUND)
        task = Call(f"offer-{offer.code}", alternatives.SPAWN, {"task": question.text, "deliver_to": alias})
        response = await self.calls.called(own, task, question.label, leads=(known[alias],))
        if isinstance(response, Reply):
            return response
        return Reply(f"A background session does this, tells `{alias}` and reports to your private chat.", offer.told)

    async def decline(self, request: CommandRequest, code: str) -> Reply | None:
        """Decline an offer, None if this caller has none of that code here."""
        try:
            offer = await self._offered(request, _code(code))
        except NotFoundError:
            return None
        await self._take(offer, Way.NONE)
        return Reply(f"Offer {offer.code} is declined.", offer.told)

    async def _offered(self, request: CommandRequest, code: str) -> Alternative:
        """Return the caller's offer of a code.

        Raises NotFoundError: there is none for them, or it may not be told of here.
        """
        found = await self.alternatives.offer(code)
        if found is None or found[0].principal != request.caller.principal:
            raise NotFoundError
        if not found[0].told.flows_to((await request.standing(None)).reader):
            raise NotFoundError
        return found[0]

    async def _bound(self, offer: Alternative) -> BoundText:
        """Return the text that an offer is bound to, from the log as it is now.

        Raises NotFoundError: its conversation was reset, or the text differs from the offered one.
        """
        state = await self.sessions.state(offer.sid)
        if state is None or state.generation != offer.generation:
            raise NotFoundError
        found = list[Event]()
        async for event in backwards(self.sessions, state):
            if event.turn == offer.turn:
                found.append(event)
                if isinstance(event.body, TurnStarted):
                    break
        if offer.wanted is Wanted.QUESTION:
            offered = alternatives.question(reversed(found), offer.turn)
        else:
            offered = alternatives.answer(found)
        if offered is None or offered.digest != offer.binding:
            raise NotFoundError
        return offered

    async def _take(self, offer: Alternative, way: Way) -> None:
        """Take an offer; the steps after it may be repeated when the same way is taken again.

        Raises:
            NotFoundError: it is gone.
            CommandError: it was taken in another way before.
        """
        gone = await self.alternatives.take_offer(offer.code, way)
        if gone is None:
            raise NotFoundError
        if gone is not way:
            raise CommandError(TAKEN)
        # Before anything follows from it.
        await self.audit.append((alternatives.taken(offer, way),))


def _code(argument: str) -> str:
    """Read a code as people type it. Raises UsageError: it is none."""
    words = argument.split()
    if len(words) != 1:
        raise UsageError("")
    return words[0].lower()
