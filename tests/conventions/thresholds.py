"""`python -m tests.conventions.thresholds`: compare the branch coverage of each part with what it owes.

Reads the JSON report that `poe cover` writes. A part that has no file yet owes nothing; a file that was never
imported counts with zero, as the report lists every file of the source packages.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypedDict, cast

REPORT: Final = Path(".coverage/report.json")
_NEAR: Final = 3


class Summary(TypedDict):
    """What is used of a file's summary."""

    num_statements: int
    covered_lines: int
    num_branches: int
    covered_branches: int


class File(TypedDict):
    """What is used of a file's entry."""

    summary: Summary
    missing_lines: list[int]
    missing_branches: list[list[int]]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A pattern over paths, and the share of lines and branches that its tests must reach, in percent."""

    pattern: str
    percent: float


THRESHOLDS: Final = (
    Threshold("policy/*", 100),
    Threshold("bot/gate*", 100),
    Threshold("bot/access/labelling.py", 100),
    Threshold("bot/access/authorize.py", 100),
    Threshold("channels/rich_text.py", 100),
    Threshold("channels/*/render.py", 100),
    Threshold("*", 90),
)


def shortfalls(files: Mapping[str, File]) -> list[str]:
    """Return a sentence for every threshold that is missed, naming the files and lines that miss it."""
    told: list[str] = []
    for threshold in THRESHOLDS:
        part = {path: file for path, file in files.items() if fnmatchcase(path, threshold.pattern)}
        reached = _percent([file["summary"] for file in part.values()])
        if reached < threshold.percent:
            told.append(f"{threshold.pattern}: {reached:.2f} % of {threshold.percent:g} %")
            below = {path: file for path, file in part.items() if _percent([file["summary"]]) < threshold.percent}
            told.extend(_gap(path, below[path]) for path in sorted(below))
    return told


def _percent(summaries: list[Summary]) -> float:
    total = sum(summary["num_statements"] + summary["num_branches"] for summary in summaries)
    covered = sum(summary["covered_lines"] + summary["covered_branches"] for summary in summaries)
    return 100 * covered / total if total else 100.0


def _gap(path: str, file: File) -> str:
    lines = _ranges(file["missing_lines"])
    branches = [f"{start}->{end}" for start, end in file["missing_branches"] if start not in file["missing_lines"]]
    told = f"  {path}: {_percent([file['summary']]):.1f} %"
    return told + f", lines {' '.join(lines)}" * bool(lines) + f", branches {' '.join(branches)}" * bool(branches)


def _ranges(lines: list[int]) -> list[str]:
    """Return runs of missing lines as `first-last`; a few blank lines do not end a run."""
    runs: list[tuple[int, int]] = []
    for line in sorted(lines):
        if runs and line - runs[-1][1] <= _NEAR:
            runs[-1] = (runs[-1][0], line)
        else:
            runs.append((line, line))
    return [f"{first}-{last}" if first != last else str(first) for first, last in runs]


def main() -> int:
    """Print the shortfalls of the last report; return 1 if there are any."""
    files = cast("dict[str, File]", json.loads(REPORT.read_text("utf-8"))["files"])
    told = shortfalls(files)
    overall = _percent([file["summary"] for file in files.values()])
    print(*told, f"coverage {overall:.2f} % overall, {len(told)} shortfalls", sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
