"""Measures Lockgate on AgentDojo, without a model: `poe dojo [--suite NAME …] [--report FILE]`.

AgentDojo is no dependency of the project: the task fetches it for the run.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.dojo.judging import CONFIGURATIONS, CONTROLS, PLANS, TRUSTING, Row, report, staged, table
from tests.dojo.suites import SUITES


async def _measured(folder: Path, suites: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for name in suites:
        for configuration in CONFIGURATIONS:
            async with staged(folder / f"{name}-{configuration}", name, configuration) as stage:
                for task in PLANS[name]:
                    rows.append(row := await stage.row(task))
                    sys.stderr.write(f"{name} {configuration} {task}: {row.questions} questions\n")
    return rows


async def _controls(folder: Path, suites: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for name in suites:
        async with staged(folder / f"{name}-{TRUSTING}", name, TRUSTING) as stage:
            rows.append(await stage.row(CONTROLS[name]))
    return rows


def _in_words(controls: Sequence[Row]) -> str:
    passed, all_of = sum(len(row.through) for row in controls), sum(row.attacks for row in controls)
    return f"\nWhere all that a server returns counts as TRUSTED, {passed} of {all_of} attacks take effect.\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dojo")
    parser.add_argument("--suite", choices=SUITES, action="append", help="a suite to measure, all without any")
    parser.add_argument("--report", type=Path, help="a file for the rows as JSON")
    arguments = parser.parse_args()
    suites = arguments.suite or SUITES
    with tempfile.TemporaryDirectory() as folder:
        controls = anyio.run(_controls, Path(folder), suites)
        rows = anyio.run(_measured, Path(folder), suites)
    sys.stdout.write(f"{table(rows)}{_in_words(controls)}")
    if arguments.report is not None:
        arguments.report.write_text(report(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
