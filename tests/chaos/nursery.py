"""Makes workers to be killed, quickly: everything is imported once, and each worker is a fork of this process.

Started with a folder and the address of its store. Each line on standard input makes one worker; its process id is
the line that answers.
"""

import asyncio
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from tests.chaos.worker import serve


def main(folder: Path, url: str) -> None:
    """Make workers until standard input ends."""
    for name in ("bot.worker.worker", "bot.agent.thinking", "bot.store.redis_store"):
        import_module(name)
    # Whoever was killed leaves nothing behind that somebody must wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(serve(folder, url))
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
