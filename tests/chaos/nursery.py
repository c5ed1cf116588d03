"""Makes workers to be killed, quickly: everything is imported once, and each worker is a fork of this process.

Started with a folder, the address of its store, and the place of a platform if workers speak there. Each line on
standard input makes one worker, with a store address of its own if the line has one, or behind `api ` one that answers
programs; its process id is the line that answers.
"""

import asyncio
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from tests.chaos.worker import serve, serve_platform, serve_programs

API = "api "
"""How a line begins that asks for a process which answers programs."""


def main(folder: Path, url: str, platform: str = "") -> None:
    """Make workers until standard input ends."""
    for name in ("bot.worker.worker", "bot.agent.thinking", "bot.store.redis_store"):
        import_module(name)
    # Whoever was killed leaves nothing behind that somebody must wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        answers, own = line.startswith(API), line.removeprefix(API).strip() or url
        if answers:
            import_module("bot.api.server")
            import_module("bot.webhooks.sender")
        pid = os.fork()
        if pid == 0:
            asyncio.run(_served(folder, own, platform, answers=answers))
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


async def _served(folder: Path, url: str, platform: str, *, answers: bool) -> None:
    if not platform:
        await serve(folder, url)
    elif answers:
        await serve_programs(folder, url, Path(platform))
    else:
        await serve_platform(folder, url, Path(platform))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
