"""Metrics of a process of `lockgate run`: served beside its work, where they are configured."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from bot.config.observability.metrics import PORT, metrics_port
from bot.operations.processes.clocks import ClockWatch
from channels.port import ListenError

if TYPE_CHECKING:
    from bot.app.app import App
    from bot.operations.readiness import Readiness

MEASURING: Final = "metrics at {}"
MEND: Final = f"end the process that listens there, or give another port by `metrics.port` or {PORT}"

Look: TypeAlias = "Callable[[], Awaitable[Readiness]]"
"""Looks whether this process is ready."""

_STORE: Final = "store"
_LOGGER: Final = logging.getLogger(__name__)


@asynccontextmanager
async def measured(app: "App", look: Look, watch: ClockWatch) -> AsyncGenerator[Look]:
    """Serve metrics during the block, if they are configured, and give `look` back with its time counted.

    `watch` compares the clocks.

    Raises:
        ListenError: nobody can listen at the address.
        OperatorError: the variable of the environment holds no port.
    """
    settings = app.config.metrics
    if settings is None:
        yield look
        return
    from bot.telemetry.metrics import Metrics
    from bot.telemetry.serving import serving

    settings, metrics = metrics_port(settings, os.environ), Metrics(settings.label)
    app.telemetry.also(metrics, settings.label)
    app.failover.also(metrics.lost)

    async def looked() -> "Readiness":
        begun = app.clock.monotonic()
        readiness = await look()
        answered = all(one.subject != _STORE for one in readiness.missing)
        metrics.apart = watch.seconds
        metrics.looked(app.clock.monotonic() - begun, answered=answered, ready=readiness.ready)
        return readiness

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(metrics, settings.host, settings.port))
        except OSError as error:
            raise ListenError(f"metrics: {error.strerror or error}", next_step=MEND) from None
        _LOGGER.info(MEASURING.format(settings.url))
        yield looked
