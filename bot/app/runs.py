"""What makes runs and lets them go on, as the composition root puts it together."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bot.run_records.recorder import RunRecorder
from bot.runs.starter import RunStarter
from bot.sessions.limits import RunLimits
from bot.sessions.ports.store import Store
from channels.messages import Address

if TYPE_CHECKING:
    from bot.app.app import App


def run_starter(
    store: Store, session_id: Callable[[Address], str], pin: Callable[[str], Awaitable[str]], limits: RunLimits
) -> RunStarter:
    """Return what starts runs of an application."""
    return RunStarter(store, session_id, pin=pin, now=store.tokens.now_ms, limits=limits)


def run_recorder(app: "App") -> RunRecorder:
    """Return what records the runs of an application."""
    return RunRecorder(
        app.store,
        app.config.data_dir / "workspace",
        clearance=lambda: app.gate.document.top,
        mask=app.gate.masks.scrubbed,
        clock=app.clock,
        ids=app.ids,
    )
