"""The settings of metrics: where Prometheus asks this process, and the clearance of its answers. Off by default."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from bot.config.fields import Block, Clearance, only_here
from bot.core.errors import OperatorError
from policy.labels import Label, parse

PORT: Final = "LOCKGATE_METRICS_PORT"
"""The variable of the environment with another port: each process on a machine needs its own."""

_MOST: Final = 65_535


class MetricsSettings(Block):
    """The address where metrics and health are answered over HTTP, on this machine unless `host` is another one."""

    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    port: int = Field(default=9464, ge=1, le=_MOST)
    """The usual port of exporters for Prometheus."""
    clearance: Clearance = "PUBLIC"
    """The highest label of sessions that are counted."""

    @property
    def label(self) -> Label:
        """The clearance as a label."""
        return parse(self.clearance)

    @property
    def url(self) -> str:
        """The address as Prometheus on this machine has it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/metrics"

    @property
    def warning(self) -> str:
        """A warning for an address that other machines reach, empty for an address of this machine alone."""
        return (
            ""
            if only_here(self.host)
            else "other machines reach it, and it asks for no password: let a firewall guard it"
        )


def metrics_port(settings: MetricsSettings, environment: Mapping[str, str]) -> MetricsSettings:
    """Return the settings with the port of this process.

    Raises:
        OperatorError: the variable of the environment holds no port.
    """
    given = environment.get(PORT, "")
    if not given:
        return settings
    if not (given.isascii() and given.isdecimal() and 0 < int(given) <= _MOST):
        raise OperatorError(f"`{PORT}` is not a port", next_step=f"set it to a number from 1 to {_MOST}, or unset it")
    return settings.model_copy(update={"port": int(given)})
