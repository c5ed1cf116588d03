"""Measures Lockgate on AgentDojo, without a model: `python -m tests.dojo [--suite NAME …] [--report FILE]`.

AgentDojo is no dependency of the project: run it by `uv run --locked --all-groups --with agentdojo==0.1.35`.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.dojo.judging import CONFIGURATIONS, PLANS, Row, report, staged, table
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dojo")
    parser.add_argument("--suite", choices=SUITES, action="append", help="a suite to measure, all without any")
    parser.add_argument("--report", type=Path, help="a file for the rows as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(_measured(Path(folder), arguments.suite or SUITES))
    sys.stdout.write(table(rows))
    if arguments.report is not None:
        arguments.report.write_text(report(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
