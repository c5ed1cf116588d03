"""Looking back through a session's log, newest first, without reading all of it."""

from collections.abc import AsyncIterator
from typing import Final

from bot.sessions.port import SessionStore
from bot.sessions.values import Event, SessionState

_WINDOW: Final = 200


async def backwards(store: SessionStore, state: SessionState, *, window: int = _WINDOW) -> AsyncIterator[Event]:
    """Yield the events of the session's generation, newest first, reading `window` of them at a time."""
    newest, oldest = state.seq, max(state.generation_seq - 1, 0)
    while newest > oldest:
        after = max(newest - window, oldest)
        for event in reversed(await store.events(state.sid, after=after, limit=newest - after)):
            if event.generation == state.generation:
                yield event
        newest = after
