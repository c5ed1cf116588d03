"""Measures Lockgate on AgentDojo, without a model: `poe dojo [--suite NAME …] [--agentdyn FOLDER] [--report FILE]`.

AgentDojo is no dependency of the project: the task fetches it for the run. With a folder of the sources of AgentDyn,
the suites of AgentDyn are measured, on the tasks that models have carried out.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.dojo.judging import CONFIGURATIONS, CONTROLS, PLANS, TRUSTING, Row, report, staged, table
from tests.dojo.suites import AGENTDYN, SUITES, take_the_place


async def _measured(folder: Path, suites: Sequence[str], agentdyn: Path | None) -> list[Row]:
    rows: list[Row] = []
    for name in suites:
        for configuration in CONFIGURATIONS:
            async with staged(folder / f"{name}-{configuration}", name, configuration, agentdyn) as stage:
                for task in PLANS[name]:
                    rows.append(row := await stage.row(task))
                    sys.stderr.write(f"{name} {configuration} {task}: {row.questions} questions\n")
    return rows


async def _controls(folder: Path, suites: Sequence[str], agentdyn: Path | None) -> list[Row]:
    rows: list[Row] = []
    for name in suites:
        async with staged(folder / f"{name}-{TRUSTING}", name, TRUSTING, agentdyn) as stage:
            rows.append(await stage.row(CONTROLS[name]))
    return rows


def _in_words(controls: Sequence[Row]) -> str:
    passed, all_of = sum(len(row.through) for row in controls), sum(row.attacks for row in controls)
    return f"\nWhere all that a server returns counts as TRUSTED, {passed} of {all_of} attacks take effect.\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dojo")
    parser.add_argument(
        "--suite", choices=(*SUITES, *AGENTDYN), action="append", help="a suite to measure, all without any"
    )
    parser.add_argument("--agentdyn", type=Path, help="a folder of AgentDyn, to measure its suites")
    parser.add_argument("--report", type=Path, help="a file for the rows as JSON")
    arguments = parser.parse_args()
    agentdyn: Path | None = arguments.agentdyn and arguments.agentdyn.resolve()
    known = AGENTDYN if agentdyn else SUITES
    suites = arguments.suite or tuple(known)
    if unknown := set(suites) - set(known):
        parser.error(f"these suites are in the other benchmark: {', '.join(sorted(unknown))}")
    if agentdyn:
        if not (agentdyn / "src" / "agentdojo").is_dir():
            parser.error(f"`{agentdyn}` has no `src/agentdojo`: give the folder of a checkout of AgentDyn")
        take_the_place(agentdyn)
    with tempfile.TemporaryDirectory() as folder:
        controls = anyio.run(_controls, Path(folder), suites, agentdyn)
        rows = anyio.run(_measured, Path(folder), suites, agentdyn)
    sys.stdout.write(f"{table(rows)}{_in_words(controls)}")
    if arguments.report is not None:
        arguments.report.write_text(report(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
