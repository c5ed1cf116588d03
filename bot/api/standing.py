"""The decision context of a program that asks outside a turn, and the sessions that it may know of."""

from contextlib import AbstractAsyncContextManager

from bot.access.decision_context import DecisionContext
from bot.api.requests import ApiRequest
from bot.api.services import ApiServices
from bot.operations.reading import ReadingKind
from bot.sessions.models import SessionState
from channels.messages import Address


def knowing(
    services: ApiServices, asked: ApiRequest, sid: str, kind: ReadingKind | None = None
) -> AbstractAsyncContextManager[SessionState]:
    """Return a block in which a program may know of a session, also when it ends, see `SessionReader.knowing`."""
    return services.reading.knowing(asked.caller.principal, asked.reader, sid, kind)


async def standing_of(services: ApiServices, asked: ApiRequest, state: SessionState | None = None) -> DecisionContext:
    """Return where a program stands that asks about a session of its own, or about none.

    The answer goes to its own address, for a session with any home.
    """
    return await _standing(services, asked, asked.caller.address, state)


async def standing_in(services: ApiServices, asked: ApiRequest, state: SessionState) -> DecisionContext:
    """Return where a session of a program stands, as a turn of it would: at its own home."""
    return await _standing(services, asked, Address.parse(state.home), state)


async def _standing(
    services: ApiServices, asked: ApiRequest, home: Address, state: SessionState | None
) -> DecisionContext:
    caller, now = asked.caller.caller, services.clock.wall_ms()
    there = await services.gate.readers.destination(home)
    if state is None:
        return DecisionContext.of_caller(caller, home, there, now)
    return DecisionContext.of_caller(
        caller,
        home,
        there,
        now,
        sid=state.sid,
        generation=state.generation,
        taint=state.taint,
        visibility=state.visibility,
        model=state.model,
        agent=await services.agents.working(state),
    )
