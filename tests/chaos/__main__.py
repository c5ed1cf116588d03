"""`python -m tests.chaos`: run one storm, check the laws of durability after it, and print what it came to.

With `--cluster` or `--sentinel` the storm is over two machines, whose store has several servers of that kind. A seed
repeats the plan of a storm. The exit code is 1 if a law does not hold or the storm did not heal.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from tests.chaos.machines.plan import MachineSize
from tests.chaos.machines.report import MachinesReport
from tests.chaos.machines.run import machines_stormed
from tests.chaos.machines.storm import Setting
from tests.chaos.storm import stormed
from tests.chaos.storm_plan import Size
from tests.chaos.storm_report import Report
from tests.fleets import Kind
from tests.folders import quick_folder

_DEFAULT_SEED: Final = 14


def _asked() -> argparse.Namespace:
    size = Size()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    kinds = parser.add_mutually_exclusive_group()
    for kind in (Kind.CLUSTER, Kind.SENTINEL):
        told = f"a storm over two machines, whose store is of the kind {kind}"
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default=Kind.ONE, help=told)
    parser.add_argument("--seed", type=int, default=_DEFAULT_SEED, help="of the plan")
    parser.add_argument("--inputs", type=int, help="the faults grow with them")
    parser.add_argument("--sessions", type=int, default=size.sessions, help="of a storm over one machine")
    parser.add_argument("--workers", type=int, help="on each machine")
    told = "how many servers have to follow a primary that takes writes, over two machines"
    parser.add_argument("--replicas-to-write", type=int, default=1, help=told)
    parser.add_argument("--report", type=Path, help="a file for the report in JSON; without it, it is printed")
    return parser.parse_args()


def _report(asked: argparse.Namespace, folder: Path) -> Report | MachinesReport:
    """Run the storm that is asked for, in a folder."""
    if asked.kind is Kind.ONE:
        whole = Size()
        size = Size(asked.inputs or whole.inputs, asked.sessions, asked.workers or whole.workers)
        return Report(asked.seed, size, asyncio.run(stormed(folder, asked.seed, size)))
    machines = MachineSize()
    of_machines = MachineSize(asked.inputs or machines.inputs, machines.people, asked.workers or machines.workers)
    setting = Setting(asked.kind, asked.seed, of_machines, folder, asked.replicas_to_write)
    return asyncio.run(machines_stormed(setting))


def main() -> int:
    """Run a storm; return 1 if something does not hold."""
    asked = _asked()
    with quick_folder() as folder:
        report = _report(asked, Path(folder))
    print(report.table())
    written = json.dumps(report.facts())
    if asked.report is None:
        print(written)
    else:
        asked.report.write_text(f"{written}\n", encoding="utf-8")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
