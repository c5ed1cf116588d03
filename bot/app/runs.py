"""What makes runs and lets them go on, as the composition root puts it together."""

from collections.abc import Awaitable, Callable

from bot.runs.starter import RunStarter
from bot.schedules.keeper import ScheduleKeeper
from bot.sessions.limits import RunLimits
from bot.sessions.ports.store import Store
from channels.messages import Address
from policy.document.model import Document


def schedule_keeper(store: Store, document: Callable[[], Document]) -> ScheduleKeeper:
    """Return what makes and ends schedules of an application; `document` is the policy in force."""
    return ScheduleKeeper(store.schedules, document=document, now=store.tokens.now_ms, most=100, time_zone="UTC")


def run_starter(
    store: Store, session_id: Callable[[Address], str], pin: Callable[[str], Awaitable[str]], limits: RunLimits
) -> RunStarter:
    """Return what starts runs of an application."""
    return RunStarter(store, session_id, pin=pin, now=store.tokens.now_ms, limits=limits)
