"""`python -m tests.bench [name …]`: measure speed and size, each against its reference in the same run.

Prints one line of JSON for each row, and a summary on standard error. A name is a benchmark's or a row's. A goal
that is missed is reported, not an error: the exit code is 0 unless a benchmark itself broke.

A machine that others use may be slow for a whole measurement. So a row that misses its goal is measured twice more at
the end; each time prints a line, and the one in the middle of the three counts.
"""

import os
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from tests.bench.measure import Row

BENCHMARKS: Final = MappingProxyType(
    {
        "decisions": ("decide_100_rules", "decide_1000_rules", "decide_100_conditions", "reload_1000_rules"),
        "scans": ("scan_4_kb", "shown_4_kb", "scan_4_kb_with_contacts", "scan_1_mb_worst_text"),
        "turns": ("store_turns_per_second",),
        "trips": ("round_trips_no_tools", "round_trips_two_calls", "round_trips_to_learn"),
        "listings": ("sessions_list_1k", "sessions_list_10k", "sessions_list_100k", "sessions_list_growth"),
        "kin": ("spawn_to_first_turn", "send_to_delivery"),
        "memory": ("idle_session_bytes", "idle_session_a_day_later_bytes"),
        "prompt": ("first_prompt",),
        "creations": ("sessions_begun", "session_begun_cpu"),
        "messages": ("message_to_answer", "message_to_answer_two_calls"),
        "accepts": ("accept_telegram_poll", "accept_telegram_webhook", "accept_slack"),
        "flows": ("flow_telegram", "flow_slack"),
        "lengths": ("turn_1k_events", "turn_10k_events"),
        "many": ("message_100k_sessions", "first_answer_100k_sessions"),
        "workers": (
            "turns_with_2_workers",
            "turns_with_4_workers",
            "calling_turns_with_2_workers",
            "calling_turns_with_4_workers",
            "recovery_after_kill",
        ),
        "crowd": ("message_beside_hundred_tasks", "thousand_chats_longest_wait", "thousand_chats_memory"),
        "continuations": ("run_continuation",),
        "timers": ("timers_swept_10k",),
        "recalls": ("recall_10k", "recall_beside_10k_hidden", "knowledge_memory_100k"),
        "briefings": ("session_start", "patterns_100"),
        "workflows": ("workflow_checkpoint",),
        "lineage": ("trace_10k", "trace_forward_10k"),
        "streams": ("program_first_event", "stream_reader_cpu", "stream_p50", "stream_memory_500"),
    }
)
"""The modules here, each with the rows it prints."""

_AGAIN: Final = 2
"""How often a row is measured again that missed its goal."""


def main(names: list[str]) -> int:
    # Whatever is started must find its compiled modules, as it does where it is installed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    unknown = sorted(set(names) - set(BENCHMARKS) - {row for rows in BENCHMARKS.values() for row in rows})
    if unknown:
        print(f"there is no `{unknown[0]}`; there are {', '.join(_listed())}", file=sys.stderr)
        return 2
    wanted = {
        module: {row for row in rows if not names or module in names or row in names}
        for module, rows in BENCHMARKS.items()
    }
    broken = set[str]()
    found = _measured(wanted, broken)
    missed = {name for name, (row,) in found.items() if not row.met}
    for _ in range(_AGAIN if missed else 0):
        for name, rows in _measured({module: rows & missed for module, rows in wanted.items()}, broken).items():
            found[name] += rows
    counting = [sorted(rows, key=lambda row: row.strain)[len(rows) // 2] for rows in found.values()]
    left = [row.name for row in counting if not row.met]
    met_later = sorted(missed.difference(left))
    parts = [f"{len(counting) - len(left)} of {len(counting)} goals met"]
    parts += [f"missed: {', '.join(left)}"] * bool(left)
    parts += [f"missed at first, met in the middle of three: {', '.join(met_later)}"] * bool(met_later)
    parts += [f"broken: {', '.join(sorted(broken))}"] * bool(broken)
    print("; ".join(parts), file=sys.stderr)
    return 1 if broken else 0


def _measured(wanted: Mapping[str, Collection[str]], broken: set[str]) -> dict[str, list[Row]]:
    """Measure rows and print them, each in a list of its own; a benchmark that breaks is noted in `broken`."""
    found = dict[str, list[Row]]()
    for module, rows in wanted.items():
        if not rows:
            continue
        try:
            for row in import_module(f"tests.bench.{module}").rows():
                if row.name in rows:
                    print(row.line(), flush=True)
                    found[row.name] = [row]
        except Exception:  # noqa: BLE001 - the others are measured all the same
            traceback.print_exc()
            broken.add(module)
    return found


def _listed() -> Iterator[str]:
    for module, rows in BENCHMARKS.items():
        yield f"{module} ({', '.join(rows)})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
