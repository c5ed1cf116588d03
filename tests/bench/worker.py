"""A worker process of a benchmark: it works while it is told to, and writes a byte for each answer.

Started with a configuration file and the address of the store. Each line on standard input begins or ends the work.
"""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot.app.app import open_app
from bot.app.extensions import Extensions
from bot.config.load import load_config
from bot.tools import catalogue
from channels.messages import Outbound
from tests.bench.rig import InstantModel, Mouth

ANSWERED: Final = b"."
READY: Final = b"r"
"""What it writes: for an answer, and when work was begun or has ended."""


class _Telling(Mouth):
    async def send(self, outbound: Outbound) -> str:
        _tell(ANSWERED)
        return await super().send(outbound)


async def _main(config: Path, url: str) -> None:
    place = {"LOCKGATE_DATA_DIR": str(config.parent / "data"), "LOCKGATE_STORE_URL": url}
    settings = await asyncio.to_thread(load_config, config, place, catalogue.ARGUMENTS)
    async with open_app(settings, [_Telling()], {}, Extensions(model=lambda _: InstantModel())) as app:
        _tell(READY)
        while await _line():
            serving = asyncio.create_task(app.serve())
            _tell(READY)
            await _line()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
            _tell(READY)


async def _line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


def _tell(byte: bytes) -> None:
    os.write(1, byte)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
