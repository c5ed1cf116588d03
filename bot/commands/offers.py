"""Commands that take an offer: to go on in private, to have it done in the background, or to let it be.

An offer is its asker's alone. To anybody else, and where what it tells may not be told, it is as if there were none
(law `no_read_up`). What it stands for is read from the log of its session again; after a reset nothing is left of it.
"""

from dataclasses import replace
from typing import Final

from bot.access.decision_context import Call
from bot.commands.agents import called
from bot.commands.base import CommandContext, CommandError, Reply, UsageError
from bot.core.errors import NotFoundError
from bot.delivery import alternatives
from bot.sessions.alternatives import Alternative, Wanted, Way
from bot.sessions.deliveries import NewDelivery
from bot.sessions.events import Event, EventType
from bot.sessions.inbox import NewItem
from bot.sessions.transcript import backwards
from channels.messages import Address, OutboundKind

TAKEN: Final = "this was answered already, in another way"
NO_SUCH_WAY: Final = "this cannot be had in that way"
NOT_BEGUN: Final = "nothing can come back to your private chat yet, say something there first"


async def proceed(context: CommandContext, argument: str) -> Reply:
    """Go on in the asker's private chat: with the question asked anew, or with the answer that there is."""
    offer = await _offered(context, _code(argument))
    known = alternatives.private_chats(context.gate.document, context.caller.principal, Address("", ""))
    private = Address.parse(offer.private) if offer.private else None
    if private not in known:
        raise CommandError(NO_SUCH_WAY)
    event = await _bound(context, offer)
    await _take(context, offer, Way.PRIVATE)
    if offer.wanted is Wanted.QUESTION:
        await context.store.sessions.accept(
            NewItem(
                sid=await context.session_of(private),
                dedupe=f"offer/{offer.code}",
                sender=context.caller.principal,
                label=event.label,
                body={"text": str(event.body["text"])},
                home=offer.private,
                principal=context.caller.principal,
            )
        )
        return Reply("this is asked in your private chat with this bot, the answer comes there", offer.told)
    answer = NewDelivery(
        key=f"{offer.turn}-private",
        address=offer.private,
        text=str(event.body["text"]),
        label=event.label,
        kind=OutboundKind.MESSAGE,
        turn=offer.turn,
        meant_for=offer.principal,
    )
    # Decided as everything is that is sent, against who reads there now; what people approved was to be said elsewhere.
    await context.store.outbox.put(offer.sid, answer)
    await context.deliver(offer.sid)
    return Reply("this is told in your private chat with this bot", offer.told)


async def background(context: CommandContext, argument: str) -> Reply:
    """Let a background session of the asker's answer the question, and tell an alias that is cleared for it."""
    code, _, alias = argument.partition(" ")
    offer = await _offered(context, _code(code))
    known = dict(offer.recipients)
    alias = alias.strip() or next(iter(known), "")
    if alias not in known:
        raise CommandError(NO_SUCH_WAY)
    question = await _bound(context, offer)
    parent = Address.parse(offer.parent)
    own = replace(context, address=parent, sid=await context.session_of(parent))
    if await own.state() is None:
        raise CommandError(NOT_BEGUN)
    await _take(context, offer, Way.BACKGROUND)
    task = Call(f"offer-{offer.code}", alternatives.SPAWN, {"task": str(question.body["text"]), "deliver_to": alias})
    response = await called(own, task, question.label, leads=(known[alias],))
    if isinstance(response, Reply):
        return response
    return Reply(f"a background session does this, tells `{alias}` and reports to your private chat", offer.told)


async def decline(context: CommandContext, code: str) -> Reply | None:
    """Let an offer be, None if there is none of that code for this caller here."""
    try:
        offer = await _offered(context, _code(code))
    except NotFoundError:
        return None
    await _take(context, offer, Way.NONE)
    return Reply(f"{offer.code} is let be", offer.told)


def _code(argument: str) -> str:
    """Read a code as people type it. Raises UsageError: it is none."""
    words = argument.split()
    if len(words) != 1:
        raise UsageError("")
    return words[0].lower()


async def _offered(context: CommandContext, code: str) -> Alternative:
    """Return the caller's offer of a code.

    Raises NotFoundError: there is none for them, or it may not be told of here.
    """
    found = await context.store.alternatives.offer(code)
    if found is None or found[0].principal != context.caller.principal:
        raise NotFoundError
    if not found[0].told.flows_to((await context.standing(None)).reader):
        raise NotFoundError
    return found[0]


async def _bound(context: CommandContext, offer: Alternative) -> Event:
    """Return the event that an offer is bound to, from the log as it is now.

    Raises NotFoundError: its conversation was reset, or the event is not what was offered.
    """
    state = await context.store.sessions.state(offer.sid)
    if state is None or state.generation != offer.generation:
        raise NotFoundError
    found = list[Event]()
    async for event in backwards(context.store.sessions, state):
        if event.turn == offer.turn:
            found.append(event)
            if event.type is EventType.TURN_STARTED:
                break
    if offer.wanted is Wanted.QUESTION:
        event = alternatives.question(reversed(found), offer.turn)
    else:
        event = next((event for event in found if event.type is EventType.AGENT_MESSAGE), None)
    if event is None or alternatives.bound(str(event.body["text"]), event.label) != offer.binding:
        raise NotFoundError
    return event


async def _take(context: CommandContext, offer: Alternative, way: Way) -> None:
    """Take an offer; what follows may be done again when the same way is taken again.

    Raises NotFoundError: it is gone. CommandError: it was taken in another way before.
    """
    gone = await context.store.alternatives.take_offer(offer.code, way)
    if gone is None:
        raise NotFoundError
    if gone is not way:
        raise CommandError(TAKEN)
    # Before anything follows from it.
    await context.store.audit.append((alternatives.taken(offer, way),))
