"""The section on telemetry in config.yaml: where traces go, and the label that they may have there.

There is no telemetry without that section. A sink of telemetry is cleared for PUBLIC unless `clearance` says more.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from bot.config.fields import Block, Clearance, Variable, WebAddress
from bot.core.errors import OperatorError
from policy.labels import Label, parse


def _header(name: str) -> str:
    if not (name.isascii() and name.replace("-", "").isalnum()):
        raise ValueError(f"`{name}` is not the name of a header")
    return name


class TelemetrySettings(Block):
    """Where traces of turns go: `endpoint` is the whole address of an OTLP receiver, such as `…:4318/v1/traces`.

    `clearance` is the highest label that may be sent there. `headers` go along with each request, each by the
    environment variable that holds its value.
    """

    endpoint: WebAddress
    clearance: Clearance = "PUBLIC"
    headers: Mapping[Annotated[str, AfterValidator(_header)], Variable] = Field(default_factory=dict, max_length=20)

    @property
    def label(self) -> Label:
        """The clearance as a label."""
        return parse(self.clearance)


def given_headers(settings: TelemetrySettings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with their values. Raises OperatorError: the variable of one is not set."""
    for name, variable in settings.headers.items():
        if not environment.get(variable):
            step = f"set {variable} in the environment"
            raise OperatorError(f"`telemetry.headers` needs a value for `{name}`", next_step=step)
    return {name: environment[variable] for name, variable in settings.headers.items()}
