"""This process's memory of the sessions that it worked on, so that a later turn reads only the new events.

It remembers a log's folds (`bot.history.folds`) and the context that they make, never more than the log told. The
writes of a turn are read back when the session is claimed again. The store's record decides whether that is still true.
All is read anew if the generation or the recap differs, or if the log is shorter or has another event at that place, as
after a failover. So it does not matter who wrote meanwhile.  At most `SESSIONS` are remembered, of about `EACH` bytes
each and `TOGETHER` bytes together; the one that was worked on longest ago is forgotten first. A larger one is read
again for each of its turns.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from bot.agent.context import Context, assemble, base, go_on
from bot.agent.window import CHARACTERS
from bot.history.folds import Folds
from bot.history.recall import recalled
from bot.sessions.log.events import Event
from bot.sessions.models import Claim, ReadPosition
from bot.sessions.ports.sessions import SessionStore

SESSIONS: Final = 1000
EACH: Final = 16_000_000
TOGETHER: Final = 64_000_000

_CHARACTER: Final = 2
_MESSAGE: Final = 1500
"""Bytes that a character and a message take in memory, beside one another, rather too many than too few."""


@dataclass(frozen=True, slots=True)
class Past:
    """A turn's knowledge of its generation before it was claimed; only the turn changes the `context`."""

    folds: Folds
    context: Context


@dataclass(frozen=True, slots=True)
class _Remembered:
    """`last` is the last event that it counts, by which the log is known again; `size` is in bytes."""

    known: ReadPosition
    last: Event
    past: Past
    size: int


class Tails:
    """Remembers sessions: at most `sessions` of them, `each` the bytes of one, and `together` the bytes of all."""

    def __init__(
        self, store: SessionStore, *, sessions: int = SESSIONS, each: int = EACH, together: int = TOGETHER
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._each = each
        self._together = together
        self._kept = OrderedDict[str, _Remembered]()
        self._size = 0

    def known(self, sid: str) -> ReadPosition | None:
        """Return up to where a session was read, None if nothing of it is remembered."""
        kept = self._kept.get(sid)
        return None if kept is None else kept.known

    async def past(self, claim: Claim) -> Past:
        """Return the folds and the context of a claimed session's generation, and remember them.

        `claim` was made with the result of `known`. Raises StoreError: it cannot be read.
        """
        kept = self._taken(claim.sid)
        state, found = claim.state, claim.events
        if kept is not None and kept.last == found[0]:
            new = found[1:]
            past = Past(kept.past.folds.plus(new), kept.past.context)
            go_on(past.context, new)
        else:
            if found[0].seq > state.context_seq:
                found = (*await self._store.events(claim.sid, after=state.context_seq - 1, limit=found[0].seq), *found)
            whole = await recalled(self._store, state, found)
            past = Past(whole.folds, assemble(whole.tail, base(whole.tail)))
        known = ReadPosition(state.generation, state.context_seq, state.seq)
        self._keep(claim.sid, _Remembered(known, found[-1], past, _size(past)))
        return past

    def _taken(self, sid: str) -> _Remembered | None:
        """Take the remembered state out: it is put back when it matches the log again."""
        kept = self._kept.pop(sid, None)
        if kept is not None:
            self._size -= kept.size
        return kept

    def _keep(self, sid: str, kept: _Remembered) -> None:
        if kept.size > self._each:
            return
        self._kept[sid] = kept
        self._size += kept.size
        while self._size > self._together or len(self._kept) > self._sessions:
            _, gone = self._kept.popitem(last=False)
            self._size -= gone.size


def _size(past: Past) -> int:
    """Return about how many bytes it takes."""
    folds, messages = past.folds, past.context.messages
    texts = sum(map(len, folds.given)) + sum(map(len, folds.repeated)) + sum(len(held.text) for held in folds.held)
    return (messages.tokens * CHARACTERS + texts) * _CHARACTER + len(messages) * _MESSAGE
