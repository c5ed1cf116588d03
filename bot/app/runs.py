"""What makes runs and lets them go on, as the composition root puts it together."""

from collections.abc import Awaitable, Callable

from bot.runs.starter import RunStarter
from bot.sessions.limits import RunLimits
from bot.sessions.ports.store import Store
from channels.messages import Address


def run_starter(
    store: Store, session_id: Callable[[Address], str], pin: Callable[[str], Awaitable[str]], limits: RunLimits
) -> RunStarter:
    """Return what starts runs of an application."""
    return RunStarter(store, session_id, pin=pin, now=store.tokens.now_ms, limits=limits)
