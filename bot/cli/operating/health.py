"""`lockgate health`: one line and an exit code for the probes of containers and service managers.

It reads the files in which the processes of this machine tell whether they are ready, and needs no store. In a
container the machine is that container, so processes of others on the same data directory are not its concern;
`lockgate doctor --ready` looks at all of them.
"""

from pathlib import Path
from typing import Final

from bot.cli.output import print_lines
from bot.cli.ready import NOBODY, found, machine
from bot.core.clock import Clock
from channels.console import visible

READY: Final = "ready: {}"
NOT_READY: Final = "not ready: {}"


def health(data_dir: Path, clock: Clock) -> int:
    """Print whether the processes of this machine are ready, in one line.

    Returns:
        0 if there are some and all are ready, else 1.
    """
    told = found(data_dir, clock, machine())
    missing = [f"{one.role}, {lack}" for one in told for lack in one.missing] if told else [NOBODY]
    if missing:
        print_lines([visible(NOT_READY.format("; ".join(missing))).replace("\n", " ")])
        return 1
    print_lines([visible(READY.format(", ".join(sorted(one.role for one in told))))])
    return 0
