"""What a storm came to, as a report in JSON and as a table for people."""

from dataclasses import dataclass
from statistics import median
from typing import Final

from bot.core.json_values import JsonObject
from tests.chaos.storm import Ended
from tests.chaos.storm_plan import FaultKind, Size

_COUNTED: Final = (FaultKind.KILL, FaultKind.KILL_API, FaultKind.STOP, FaultKind.KILL_STORE)
"""Faults that come at least as often as planned, or the storm was none."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report on a storm."""

    seed: int
    size: Size
    ended: Ended

    @property
    def violations(self) -> list[str]:
        """What does not hold, faults that did not come among it."""
        short = [
            f"the storm: {kind}: {self.ended.faults[kind]} of {self.size.faults(kind)} came"
            for kind in _COUNTED
            if self.ended.faults[kind] < self.size.faults(kind)
        ]
        if self.ended.accepted != self.size.inputs:
            short.append(f"the storm: {self.ended.accepted} of {self.size.inputs} inputs were accepted")
        return [*self.ended.checked.violations, *short]

    def facts(self) -> JsonObject:
        """Return all of it for a program to read; times are in seconds."""
        ended, found = self.ended, self.ended.checked
        return {
            "seed": self.seed,
            "inputs": self.size.inputs,
            "sessions": self.size.sessions,
            "workers": self.size.workers,
            "seconds": round(ended.seconds, 1),
            "accepted": ended.accepted,
            "turns": found.turns,
            "events": found.events,
            "answered": found.answered,
            "runs": found.runs,
            "moments": found.moments,
            "shown_again_with_a_mark": found.marked,
            "in_doubt": found.in_doubt,
            "given_up": found.given_up,
            "clock_stepped": ended.steps_clock,
            "faults": {name: ended.faults[name] for name in sorted(ended.faults)},
            "recovery_seconds": {
                kind: {"count": len(times), "p50": round(median(times), 2), "max": round(max(times), 2)}
                for kind, times in sorted(ended.recovery.items())
                if times
            },
            "violations": list(self.violations),
        }

    def table(self) -> str:
        """Return the short table."""
        ended, found = self.ended, self.ended.checked
        lines = [
            f"storm    seed {self.seed}, {self.size.workers} workers, {self.size.sessions} sessions",
            f"  took     {ended.seconds:.0f} s, {found.turns} turns, {found.events} events",
            f"  inputs   {ended.accepted} accepted, {found.answered} answered, {found.given_up} turns given up",
            f"  runs     {found.runs}, schedules carried out {found.moments} times",
            f"  shown    {found.marked} again with a mark, {found.in_doubt} reported as in doubt",
            "  faults   " + ", ".join(f"{name} {ended.faults[name]}" for name in sorted(ended.faults)),
        ]
        if not ended.steps_clock:
            lines.append("  clock    not stepped: there is no C compiler")
        for kind, times in sorted(ended.recovery.items()):
            if times:
                lines.append(
                    f"  healed   {kind}: {len(times)} times, p50 {median(times):.1f} s, max {max(times):.1f} s"
                )
        lines += [f"  VIOLATED {one}" for one in self.violations] or ["  laws     all hold"]
        return "\n".join(lines)
