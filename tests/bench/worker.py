"""A worker process of a benchmark: it works while it is told to, and writes down when it answered.

Started with a configuration file and the address of the store. Each line on standard input begins or ends the work.
Each line that it writes has moments of answers, on the clock of all processes; one without any says that the work was
begun or has ended. It writes some times a second, as who reads shares the machine.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.cli.run import spare_collections
from bot.config.load import load_config
from bot.tools import catalogue
from channels.messages import Outbound
from tests.bench.rig import InstantModel, Mouth

_PAUSE: Final = 0.1
"""Seconds between two lines."""


class _Noting(Mouth):
    """A channel that notes when something would be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.moments = list[float]()

    async def send(self, outbound: Outbound) -> str:
        told = await super().send(outbound)
        self.moments.append(self.moment)
        return told

    async def tell(self) -> None:
        """Write down what was noted, until it is cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            self.tell_now()

    def tell_now(self) -> None:
        moments, self.moments = self.moments, []
        if moments:
            _tell(*moments)


async def _main(config: Path, url: str) -> None:
    place = {"LOCKGATE_DATA_DIR": str(config.parent / "data"), "LOCKGATE_STORE_URL": url}
    settings = await asyncio.to_thread(load_config, config, place, catalogue.ARGUMENTS)
    mouth = _Noting()
    async with open_app(settings, [mouth], {}, Extensions(model=lambda _: InstantModel())) as app:
        spare_collections()
        _tell()
        while await _line():
            working = [asyncio.create_task(app.serve()), asyncio.create_task(mouth.tell())]
            _tell()
            await _line()
            for task in working:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            mouth.tell_now()
            _tell()


async def _line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


def _tell(*moments: float) -> None:
    print(*moments, flush=True)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
