"""Which sessions a caller may know of: the one test that every session tool and command shares (law `no_read_up`).

A session another principal's, one above the caller, one that does not exist and an id that could be nobody's are one
and the same answer: None.

How far that answer can be trusted is another matter. A session that the caller could see while it was UNTRUSTED may
have risen out of sight because a page said so. That it is gone is as untrusted as it was (law
`untrusted_cannot_command`, ADR 0025).
"""

from typing import Final

from bot.core.errors import SchemaError
from bot.sessions.background.delegation import LATE
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.sessions import SessionStore
from policy.labels import PUBLIC, Label

LONGEST_ID: Final = 128


def sees(state: SessionState, principal: str, reader: Label) -> bool:
    """Say whether a caller of this principal, cleared for `reader`, may know of a session."""
    return state.principal == principal and state.visibility.flows_to(reader)


def label_of(state: SessionState | None, principal: str, reader: Label) -> Label:
    """Return the label of what such a caller is told of a session, also that there is none.

    It flows to `reader`, and depends on nothing that the caller may not know: of one that rose out of sight it is what
    the caller could see of it before.
    """
    if state is None or state.principal != principal:
        return PUBLIC
    if sees(state, principal, reader):
        return state.visibility
    return state.turned if state.turned is not None and state.turned.flows_to(reader) else PUBLIC


def counts_still(state: SessionState, seen: Label, now: int) -> bool:
    """Say whether UNTRUSTED data may still choose if a session is listed for those it was visible to at `seen`.

    A background session, a run too, has to end by its deadline, which was fixed before it read anything. Some time
    after that it is listed for nobody, whatever it read, unless something that it said still waits.
    """
    if state.turned is None or not state.turned.flows_to(seen):
        return False
    if state.background is None or now <= state.background.deadline + LATE:
        return True
    return state.status is not Status.ARCHIVED and state.visibility.flows_to(seen)


async def look(store: SessionStore, sid: str, principal: str, reader: Label) -> tuple[SessionState | None, Label]:
    """Return a session's record if the caller may know of it, None otherwise, and the label of what they are told.

    `reader` is the taint of the asking session, or the clearance of the address that answers a person.
    """
    state = await store.state(sid) if len(sid) <= LONGEST_ID else None
    label = label_of(state, principal, reader)
    return (state if state is not None and sees(state, principal, reader) else None), label


async def visible(store: SessionStore, sid: str, principal: str, reader: Label) -> SessionState | None:
    """Return a session's record if a person may know of it, None otherwise: for what enters no context."""
    state, _ = await look(store, sid, principal, reader)
    return state


async def visibility_of(sessions: SessionStore, sid: str, top: Label) -> Label:
    """Return what a reader must be cleared for to learn of a session; of one that cannot be read, for everything."""
    try:
        state = await sessions.state(sid)
    except SchemaError:
        return top
    return top if state is None else state.visibility
