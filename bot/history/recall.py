"""Reading a turn's knowledge of its generation, from where its context begins.

The events before that a recap stands for. The recap's own event carries the folds of the earlier events, so that they
are not read again. Held items have a label of their own and stand in their own events.
"""

from dataclasses import dataclass

from bot.core.errors import SchemaError
from bot.history import folds
from bot.history.folds import Folds
from bot.sessions.log.event_types import SessionSummary
from bot.sessions.log.events import Event
from bot.sessions.messages import Endorsed
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.transcript import Tail

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Recalled:
    """The folds of a generation's log, and the events that its context is made of."""

    folds: Folds
    tail: Tail


async def unheard(store: SessionStore, state: SessionState) -> tuple[Endorsed, ...]:
    """Return the answers and entries that a session's calls depended on, while nothing told of them.

    Raises StoreError: its log cannot be read.
    """
    return (await recall(store, state)).folds.depended


async def recall(store: SessionStore, state: SessionState) -> Recalled:
    """Read a session's generation, up to the end that its record names.

    Raises StoreError: it cannot be read.
    """
    found, after = list[Event](), state.context_seq - 1
    while after < state.seq:
        found += await store.events(state.sid, after=after, limit=min(_PAGE, state.seq - after))
        after = found[-1].seq
    return await recalled(store, state, tuple(found))


async def recalled(store: SessionStore, state: SessionState, found: tuple[Event, ...]) -> Recalled:
    """Return the generation's folds and events; `found` are its events from where the context begins.

    Raises:
        StoreError: the events that they refer to cannot be read.
        SchemaError: no recap stands for the events before them.
    """
    before = state.context_seq - state.generation_seq
    carrying = (event for event in reversed(found) if isinstance(event.body, SessionSummary))
    base = next((event for event in carrying if event.carried is not None), None)
    if base is None or base.carried is None:
        if before:
            raise SchemaError("the log has no recap of its beginning", next_step="restore the store from a backup")
        return Recalled(Folds().plus(found), Tail(found))
    known = folds.read(base.carried, await store.events_at(state.sid, folds.named(base.carried)))
    return Recalled(known.plus(found[base.seq - found[0].seq :]), Tail(found, before))
