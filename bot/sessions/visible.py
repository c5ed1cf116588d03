"""Which sessions a caller may know of: the one test that every session tool and command shares (law `no_read_up`).

A session another principal's, one above the caller, one that does not exist and an id that could be nobody's are one
and the same answer: None.
"""

from typing import Final

from bot.sessions.port import SessionStore
from bot.sessions.values import SessionState
from policy.labels import Label

LONGEST_ID: Final = 128


def sees(state: SessionState, principal: str, reader: Label) -> bool:
    """Say whether a caller of this principal, cleared for `reader`, may know of a session."""
    return state.principal == principal and state.visibility.flows_to(reader)


async def visible(store: SessionStore, sid: str, principal: str, reader: Label) -> SessionState | None:
    """Return a session's record if the caller may know of it, None otherwise.

    `reader` is the taint of the asking session, or the clearance of the address that answers a person.
    """
    state = await store.state(sid) if len(sid) <= LONGEST_ID else None
    return state if state is not None and sees(state, principal, reader) else None
