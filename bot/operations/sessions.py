"""The sessions of an installation as its operator looks through them: listed, read, and let out of quarantine.

People in chats see their own sessions only, by `bot/tools/sessions.py`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from bot.core.errors import NotFoundError
from bot.pinned_agents import PinnedAgents, as_json
from bot.quarantine import Quarantine
from bot.sessions.log.events import Event
from bot.sessions.models import Quarantined, SessionState
from bot.sessions.ports.store import Store
from bot.sessions.visibility import visibility_of
from policy.labels import Label

_WINDOW: Final = 500


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in a list: `state` is None where its record cannot be read, `quarantined` where it is in order."""

    sid: str
    state: SessionState | None
    quarantined: Quarantined | None


@dataclass(frozen=True, slots=True)
class ListedSessions:
    """A page of sessions, newest first; `more` tells that others follow the last of it."""

    sessions: tuple[ListedSession, ...]
    more: bool


class SessionInspector:
    """Looks through sessions for a reader; `top` is the highest label of the configuration in force."""

    def __init__(self, store: Store, quarantine: Quarantine, top: Label, agents: PinnedAgents) -> None:
        self._store = store
        self._quarantine = quarantine
        self._top = top
        self._agents = agents

    async def page(self, reader: Label, *, after: str, limit: int) -> ListedSessions:
        """Return the `limit` newest sessions that the reader may know of, behind the one of id `after` if given.

        Raises NotFoundError: the reader may know of no session of this id.
        """
        apart = {one.sid: one for one in await self._quarantine.all()}
        if after and not await self._known(after, reader):
            raise NotFoundError
        found = list[ListedSession]()
        async for sid, state in self._newest(after):
            # An unreadable record may be of a session with any taint.
            if not (self._top if state is None else state.visibility).flows_to(reader):
                continue
            if len(found) == limit:
                return ListedSessions(tuple(found), more=True)
            found.append(ListedSession(sid, state, apart.get(sid)))
        return ListedSessions(tuple(found), more=False)

    async def read(self, sid: str, reader: Label) -> tuple[SessionState, list[Event]]:
        """Return a session's record, and its events that the reader may know.

        Raises:
            NotFoundError: the reader may know of no session of this id.
            SchemaError: it cannot be read.
        """
        state = await self._store.sessions.state(sid)
        if state is None or not state.visibility.flows_to(reader):
            raise NotFoundError
        events = list[Event]()
        while page := await self._store.sessions.events(sid, after=events[-1].seq if events else 0, limit=_WINDOW):
            events.extend(page)
        return state, [event for event in events if event.label.flows_to(reader)]

    async def agent(self, state: SessionState) -> dict[str, JsonValue]:
        """Return the description of a session's agent, with the settings that differ from the configuration by now."""
        agent = await self._agents.pinned(state.agent)
        return as_json(agent, self._agents.drift(agent))

    async def release(self, sid: str, reader: Label, actor: str) -> bool:
        """Let a session out of quarantine, in the name of `actor`; return False if the reader may know of none there.

        Raises SchemaError: its record still cannot be read, so that it would fail again without a notice.
        """
        if not await self._known(sid, reader) or sid not in {one.sid for one in await self._quarantine.all()}:
            return False
        # Read for its error alone.
        await self._store.sessions.state(sid)
        return await self._quarantine.release(sid, actor)

    async def _known(self, sid: str, reader: Label) -> bool:
        return (await visibility_of(self._store.sessions, sid, self._top)).flows_to(reader)

    async def _newest(self, after: str) -> AsyncIterator[tuple[str, SessionState | None]]:
        """Yield all sessions, newest first, those behind `after`. Raises NotFoundError: there is no such session."""
        while page := await self._store.index.recent(after=after, limit=_WINDOW):
            for one in page:
                yield one
            after = page[-1][0]
