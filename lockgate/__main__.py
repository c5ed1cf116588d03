"""The program `lockgate`, as `pip install lockgate` puts it there; `python -m lockgate` is the same.

In an installed package the parts of the program are in the folder `_program`, where no package of another project with
a name like `channels` can collide with them. In a checkout they are beside this package.
"""

import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parent / "_program"
"""The folder of the program's parts in an installed package."""


def main() -> None:
    """Run `lockgate` with the process's arguments and exit with its code."""
    if PROGRAM.is_dir():
        sys.path.insert(0, str(PROGRAM))
    from bot.__main__ import main as program

    program()


if __name__ == "__main__":
    main()
