"""`poe fuzz-api`: schemathesis on the HTTP API over real HTTP, with tokens of every scope and without one.

What it finds is printed with the request that shows it. Each round serves an installation of its own.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from bot.sessions.api_tokens import Scope
from tests.bot.api.explored import explore
from tests.bot.api.kit import served
from tests.servers import SERVERS


async def _round(scope: Scope | None, seconds: int) -> bool:
    """Explore as a program with a scope; return whether all held."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with served(folder) as host:
            token = "" if scope is None else await host.token("explorer", scope, per_minute=1_000_000)
            found = await explore(host, folder, token, "--max-time", str(seconds), "--continue-on-failure")
        print(f"{scope or 'no token'}: {'all held' if found.code == 0 else found.told}", flush=True)
        return found.code == 0


async def _explored(minutes: float) -> bool:
    scopes = (None, *Scope)
    return all([await _round(scope, max(1, round(minutes * 60 / len(scopes)))) for scope in scopes])


def main() -> int:
    """Explore for the given time; return 1 if an answer was not one of those that are documented."""
    parser = argparse.ArgumentParser(prog="poe fuzz-api", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long, 10 if not given")
    try:
        return 0 if asyncio.run(_explored(parser.parse_args().minutes)) else 1
    finally:
        SERVERS.close()


if __name__ == "__main__":
    sys.exit(main())
