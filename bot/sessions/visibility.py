"""Which sessions a caller may know of: the one test that every session tool and command shares (law `no_read_up`).

Another principal's session, one above the caller, one that does not exist and an impossible id all get the same answer:
None.

That answer can be influenced. A session that the caller could see while it was UNTRUSTED may have risen out of sight
because a page told it to. So its absence is as untrusted as the session was (law `untrusted_cannot_command`, ADR 0025).
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
    """Return the label of an answer about a session to such a caller, also of the answer that there is none.

    It flows to `reader`, and depends on nothing above the caller. For a session that rose out of sight it is the label
    of the facts that the caller could see before.
    """
    if state is None or state.principal != principal:
        return PUBLIC
    if sees(state, principal, reader):
        return state.visibility
    return state.turned if state.turned is not None and state.turned.flows_to(reader) else PUBLIC


def counts_still(state: SessionState, seen: Label, now: int) -> bool:
    """Say whether UNTRUSTED data may still choose if readers who saw a session at the label `seen` find it listed.

    A background session or run ends by its deadline, which was fixed before it read anything. After a further minute
    (`LATE`) it is listed for no reader, regardless of its label, unless one of its messages still waits.
    """
    if state.turned is None or not state.turned.flows_to(seen):
        return False
    if state.background is None or now <= state.background.deadline + LATE:
        return True
    return state.status is not Status.ARCHIVED and state.visibility.flows_to(seen)


async def look(store: SessionStore, sid: str, principal: str, reader: Label) -> tuple[SessionState | None, Label]:
    """Return a session's record, None unless the caller may know of it, and the label of that answer.

    `reader` is the taint of the asking session, or the clearance of the address that answers a person.
    """
    state = await store.state(sid) if len(sid) <= LONGEST_ID else None
    label = label_of(state, principal, reader)
    return (state if state is not None and sees(state, principal, reader) else None), label


async def visible(store: SessionStore, sid: str, principal: str, reader: Label) -> SessionState | None:
    """Return a session's record, None unless a person may know of it: for uses outside any context."""
    state, _ = await look(store, sid, principal, reader)
    return state


async def visibility_of(sessions: SessionStore, sid: str, top: Label) -> Label:
    """Return the clearance a reader needs to learn of a session; that is `top` for an unreadable record."""
    try:
        state = await sessions.state(sid)
    except SchemaError:
        return top
    return top if state is None else state.visibility
