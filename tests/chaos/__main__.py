"""`python -m tests.chaos`: run one storm, check the laws of durability after it, and print what it came to.

A seed repeats the plan of a storm. The exit code is 1 if a law does not hold or the storm did not heal.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from tests.chaos.storm import stormed
from tests.chaos.storm_plan import Size
from tests.chaos.storm_report import Report
from tests.folders import quick_folder

_DEFAULT_SEED: Final = 14


def _asked() -> argparse.Namespace:
    size = Size()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=_DEFAULT_SEED, help="of the plan")
    parser.add_argument("--inputs", type=int, default=size.inputs, help="the faults grow with them")
    parser.add_argument("--sessions", type=int, default=size.sessions)
    parser.add_argument("--workers", type=int, default=size.workers)
    parser.add_argument("--report", type=Path, help="a file for the report in JSON; without it, it is printed")
    return parser.parse_args()


def main() -> int:
    """Run a storm; return 1 if something does not hold."""
    asked = _asked()
    size = Size(asked.inputs, asked.sessions, asked.workers)
    with quick_folder() as folder:
        report = Report(asked.seed, size, asyncio.run(stormed(Path(folder), asked.seed, size)))
    print(report.table())
    written = json.dumps(report.facts())
    if asked.report is None:
        print(written)
    else:
        asked.report.write_text(f"{written}\n", encoding="utf-8")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
