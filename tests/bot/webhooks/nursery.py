"""Makes processes of `lockgate`, quickly: all that they need is imported once, and each is a fork of this process.

Each line on standard input is JSON: variables of the `environment`, and the `arguments` of a command line. The process
id of who carries it out is the line that answers. Nobody has to wait for who ends.
"""

import json
import os
import signal
import sys
from importlib import import_module

from bot.__main__ import run

_NEEDED = ("bot.cli.main", "bot.cli.run", "bot.app.app", "bot.app.programs", "bot.api.server", "bot.webhooks.sender")


def main() -> None:
    """Make processes until standard input ends."""
    for name in (*_NEEDED, "bot.store.redis_store"):
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            asked = json.loads(line)
            os.environ.update(asked["environment"])
            os._exit(run(asked["arguments"]))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
