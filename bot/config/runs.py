"""The section on runs and schedules in config.yaml: how long they go on, how many there are, and their records."""

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, Field

from bot.config.fields import Block, Clearance
from bot.sessions.limits import RunLimits
from policy.errors import nearest
from policy.labels import Label, parse


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        close = nearest(name, available_timezones())
        hint = close if "did you mean" in close else ", write one as `Europe/Berlin`"
        raise ValueError(f"unknown time zone `{name}`{hint}") from None
    return name


class RunRecordSettings(Block):
    """The repository of run records, and the highest label that may be written there."""

    folder: str | None = Field(default=None, min_length=1, max_length=4096)
    """The repository's folder, null for `workspace` in the data directory."""
    clearance: Clearance | None = None
    """The highest label that may be written there, null for the highest of all."""

    @property
    def label(self) -> Label | None:
        """The clearance as a label, None for the highest."""
        return None if self.clearance is None else parse(self.clearance)


class RunSettings(Block):
    """The limits of runs, and of schedules."""

    hours: int = Field(default=24, ge=1, le=24 * 30)
    """The longest time of a run."""
    turns: int = Field(default=500, ge=1, le=1_000_000)
    """The most turns of a run."""
    live: int = Field(default=50, ge=1, le=10_000)
    """The most runs that go on at once, for each principal and level."""
    failures: int = Field(default=3, ge=0, le=1000)
    """A run's breaker opens when more failures than this came in a row."""
    cool_down_seconds: int = Field(default=600, ge=1, le=86_400)
    """The time for which a breaker opens at first."""
    notes: int = Field(default=100, ge=1, le=1000)
    """The most steering notes that may wait for one run."""
    schedules: int = Field(default=100, ge=1, le=10_000)
    """The most active schedules, for each principal and level."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_zone)] = "UTC"
    """The time zone of schedules that name none."""
    records: RunRecordSettings = RunRecordSettings()

    @property
    def limits(self) -> RunLimits:
        """The limits of a run."""
        return RunLimits(
            hours=self.hours,
            turns=self.turns,
            live=self.live,
            failures=self.failures,
            cool_down=self.cool_down_seconds * 1000,
        )
