"""What config.yaml may say of runs and schedules: how long they go on, how many there are, and what is recorded."""

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from bot.config.fields import Block, Clearance
from bot.sessions.limits import RunLimits
from policy.labels import Label, parse


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone `{name}`, write one as `Europe/Berlin`") from None
    return name


class RunRecordSettings(Block):
    """Where records of runs are committed, and the most that may be written there.

    Without a `folder` that is `workspace` in the data directory, without a `clearance` it is the highest label.
    """

    folder: str | None = Field(default=None, min_length=1, max_length=4096)
    clearance: Clearance | None = None

    @property
    def label(self) -> Label | None:
        """The clearance as a label, None for the highest."""
        return None if self.clearance is None else parse(self.clearance)


class RunSettings(Block):
    """What bounds runs, and schedules with them.

    A run takes at most `hours` and `turns`; `live` go on at once of one principal and level. Its breaker opens when
    more than `failures` came in a row, for `cool_down_seconds` at first. `notes` may wait for one. `schedules` are
    active of one principal and level, in `time_zone` unless they name another.
    """

    hours: int = Field(default=24, ge=1, le=24 * 30)
    turns: int = Field(default=500, ge=1, le=1_000_000)
    live: int = Field(default=50, ge=1, le=10_000)
    failures: int = Field(default=3, ge=0, le=1000)
    cool_down_seconds: int = Field(default=600, ge=1, le=86_400)
    notes: int = Field(default=100, ge=1, le=1000)
    schedules: int = Field(default=100, ge=1, le=10_000)
    time_zone: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_zone)] = "UTC"
    records: RunRecordSettings = RunRecordSettings()

    @property
    def limits(self) -> RunLimits:
        """What bounds a run."""
        return RunLimits(
            hours=self.hours,
            turns=self.turns,
            live=self.live,
            failures=self.failures,
            cool_down=self.cool_down_seconds * 1000,
        )
