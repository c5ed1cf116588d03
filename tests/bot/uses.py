"""The uses of several processes in memory, as the store has them: a clock, and what each process reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.core.clock import Clock
from bot.core.errors import StoreGoneError
from bot.rates import RateLimiter, SharedRates
from bot.sessions.ports.accounts import UseReport


@dataclass
class UseTable:
    """What is at the store: counts by name and slot, and until when each counts."""

    clock: Clock
    counts: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict[str, dict[str, tuple[int, int]]])

    def of(self, process: str) -> "ProcessUses":
        """Return the table as a process sees it."""
        return ProcessUses(self, f"{process}/")


@dataclass
class ProcessUses:
    """Implements the port `UseStore` for one process; `away` makes it unable to answer."""

    table: UseTable
    own: str
    away: bool = False
    exchanges: int = 0

    async def exchange(self, reports: Sequence[UseReport]) -> tuple[Mapping[str, int], ...]:
        """Keep uses, and return those of other processes."""
        if self.away:
            raise StoreGoneError("the store does not answer")
        self.exchanges += 1
        now, found = self.table.clock.wall_ms(), list[Mapping[str, int]]()
        for report in reports:
            kept = self.table.counts.setdefault(report.name, {})
            for slot, count in report.slots.items():
                kept[f"{self.own}{slot}"] = (count, now + report.life)
            living = {name: count for name, (count, until) in kept.items() if until > now}
            found.append({name: count for name, count in living.items() if not name.startswith(self.own)})
        return tuple(found)


def alone(clock: Clock, limit: int, seconds: float = 60) -> RateLimiter:
    """Return a limiter of the only process of a store."""
    return SharedRates(UseTable(clock).of("p-one"), clock).limiter("x", limit, seconds)
