"""`poe tasks`: carry out the ten tasks, and print the table of questions and attacks."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.tasks.judging import figures, table


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(figures(Path(folder)))
    sys.stdout.write(table(rows))
    return 1 if any(row.passed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
