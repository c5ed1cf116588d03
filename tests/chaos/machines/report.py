"""What a storm over two machines came to, as a report in JSON and as a table for people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from pydantic import JsonValue

from bot.core.json_values import JsonObject
from tests.chaos.machines.laws import MachinesChecked
from tests.chaos.machines.plan import LOSSY, NAMES, MachineFault
from tests.chaos.machines.storm import Setting, Span

_BEFORE_SECONDS: Final = 1.0
_AFTER_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 15.0

LAWS: Final = (
    "accepted_once_in_order",
    "answered_at_most_once",
    "audit_chains_hold",
    "crash_heals",
    "ends_in_order",
    "every_tool_call_has_a_result",
    "files_are_found_everywhere",
    "log_is_gap_free",
    "lost_reply_never_duplicates",
    "nothing_unexpected_happens",
    "stale_fence_writes_nothing",
    "stored_things_keep_their_label",
    "streams_tell_once",
    "taint_is_the_fold",
    "webhooks_keep_ids",
    "webhooks_tell_all_in_order",
)
"""All that is looked at, by the names of the violations."""


@dataclass(frozen=True, slots=True)
class MachinesEnded:
    """What a storm came to. `said` is when each input was said, `asked` are questions to people.

    `restarts` are ends of processes by themselves.
    """

    faults: Counter[MachineFault]
    spans: tuple[Span, ...]
    takeovers: Mapping[MachineFault, list[float]]
    said: Mapping[str, float]
    asked: tuple[str, ...]
    restarts: tuple[str, ...]
    seconds: float
    found: MachinesChecked


@dataclass(frozen=True, slots=True)
class MachinesReport:
    """The report on a storm."""

    setting: Setting
    ended: MachinesEnded

    @property
    def violations(self) -> list[str]:
        """What does not hold, faults that did not come among it."""
        short = [
            f"the storm: {kind}: {self.ended.faults[kind]} of {self.setting.size.faults(kind)} came"
            for kind in MachineFault
            if self.ended.faults[kind] < self.setting.size.faults(kind)
        ]
        return [*self.ended.found.checked.violations, *short]

    def facts(self) -> JsonObject:
        """Return all of it for a program to read; times are in seconds."""
        ended, found = self.ended, self.ended.found
        names = {line.partition(":")[0] for line in self.violations}
        return {
            "store": self.setting.kind.value,
            "seed": self.setting.seed,
            "inputs": self.setting.size.inputs,
            "min_replicas_to_write": self.setting.replicas,
            "seconds": round(ended.seconds, 1),
            "faults": {kind.value: ended.faults[kind] for kind in MachineFault if ended.faults[kind]},
            "laws": {law: law not in names for law in LAWS},
            "turns": found.checked.turns,
            "turns_by_machine": {name: found.files.turns[name] for name in (*NAMES, "both")},
            "turns_repeated": found.repeated,
            "answered": found.checked.answered,
            "given_up": found.checked.given_up,
            "in_doubt": found.checked.in_doubt,
            "calls_asked_about": len(ended.asked),
            "shown_again_with_a_mark": found.checked.marked,
            "shown_again_without_a_mark": found.unmarked,
            "files": {
                "written": found.files.written,
                "read": found.files.read,
                "read_in_the_shared_folder": found.files.shared,
                "read_on_the_other_machine": found.files.other,
            },
            "inputs_lost": {kind.value: found.lost[kind] for kind in MachineFault if kind in LOSSY or found.lost[kind]},
            "sessions_that_tell_a_loss": found.truncated,
            "processes_that_ended_by_themselves": list(ended.restarts),
            "taken_over_seconds": _summaries(ended.takeovers),
            "without_answers_seconds": _summaries(self._silences()),
            "slowest_answer_seconds": _summaries(self._slowest()),
            "timeline": [[one.kind.value, *map(self._after, (one.at, one.over))] for one in ended.spans],
            "slow_answers": [
                [name, self._after(ended.said[name]), round(at - ended.said[name], 1)]
                for name, at in found.answered.items()
                if at - ended.said[name] > _SLOW_SECONDS
            ],
            "told": list(found.told),
            "violations": list(self.violations),
        }

    def table(self) -> str:
        """Return the short table."""
        facts, ended, found = self.facts(), self.ended, self.ended.found
        checked, size, times = found.checked, self.setting.size, ("taken_over", "without_answers", "slowest_answer")
        lines = [
            f"storm    {self.setting.kind} of seed {self.setting.seed}, {len(NAMES)} machines, {size.inputs} inputs",
            f"  primary  takes writes while {self.setting.replicas} servers follow it",
            f"  took     {ended.seconds:.0f} s, {checked.turns} turns, {checked.events} events",
            f"  turns    {facts['turns_by_machine']}, {found.repeated} begun again, {checked.given_up} given up",
            f"  shown    {checked.marked} again with a mark, {found.unmarked} without, {checked.in_doubt} in doubt",
            f"  files    {facts['files']}",
            "  faults   " + ", ".join(f"{kind} {count}" for kind, count in sorted(ended.faults.items())),
            f"  lost     {facts['inputs_lost']} inputs, {found.truncated} sessions tell of a loss",
            *(f"  seconds  {name}: {facts[f'{name}_seconds']}" for name in times),
        ]
        lines += [f"  told     {one}"[:300] for one in found.told]
        lines += [f"  VIOLATED {one}" for one in self.violations] or ["  laws     all hold, or the loss is told"]
        return "\n".join(lines)

    def _after(self, at: float) -> float:
        """Return how long after the first input a moment was, in seconds."""
        return round(at - min(self.ended.said.values()), 1)

    def _silences(self) -> dict[MachineFault, list[float]]:
        """Return the longest time without an answer anywhere, from each fault until a moment after its end."""
        found, times = dict[MachineFault, list[float]](), sorted(self.ended.found.answered.values())
        for span in self.ended.spans:
            end = span.over + _AFTER_SECONDS
            marks = [span.at, *(at for at in times if span.at < at < end), end]
            found.setdefault(span.kind, []).append(max(later - one for one, later in pairwise(marks)))
        return found

    def _slowest(self) -> dict[MachineFault, list[float]]:
        """Return how long the slowest answer took of those to inputs that were said around each fault."""
        found = dict[MachineFault, list[float]]()
        for span in self.ended.spans:
            took = [
                at - self.ended.said[name]
                for name, at in self.ended.found.answered.items()
                if span.at - _BEFORE_SECONDS <= self.ended.said[name] <= span.over
            ]
            if took:
                found.setdefault(span.kind, []).append(max(took))
        return found


def _summaries(times: Mapping[MachineFault, Iterable[float]]) -> dict[str, JsonValue]:
    """Return count, median and maximum of times, by the kind of fault."""
    listed = {kind: list(times[kind]) for kind in MachineFault if times.get(kind)}
    return {
        kind.value: {"count": len(found), "p50": round(median(found), 2), "max": round(max(found), 2)}
        for kind, found in listed.items()
    }
