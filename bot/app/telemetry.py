"""The telemetry of an application, as its configuration has it."""

from collections.abc import Mapping

from bot.config.model import Config
from bot.config.observability.telemetry import given_headers
from bot.core.clock import Clock
from bot.sessions.ports.store import Store
from bot.telemetry.telemetry import Sink, Telemetry
from policy.labels import PUBLIC


def made_telemetry(
    config: Config, environment: Mapping[str, str], store: Store, clock: Clock, *, key: bytes
) -> Telemetry:
    """Return the telemetry of turns, of which `key` makes the ids. Raises OperatorError: a header is not set."""
    settings = config.telemetry
    if settings is None:
        return Telemetry(store.sessions, clock, key=key, clearance=PUBLIC, sink=None)
    headers = given_headers(settings, environment)

    def sink() -> Sink:
        from bot.telemetry.otlp import OtlpSink

        return OtlpSink(settings.endpoint, headers)

    return Telemetry(store.sessions, clock, key=key, clearance=settings.label, sink=sink)
