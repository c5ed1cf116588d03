"""Reading the policy again whenever the process is told to by SIGHUP."""

import asyncio
import signal
from typing import TYPE_CHECKING

from bot.core.errors import StoreError

if TYPE_CHECKING:
    from bot.app.app import App
    from bot.policy_state import Tell


async def reloading(app: "App", tell: "Tell") -> None:
    """Follow the signal until cancelled; `tell` is told what became of it."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, told.set)
    try:
        while True:
            await told.wait()
            told.clear()
            try:
                said = str(await app.reloader.reload("sighup"))
            except StoreError as error:
                said = f"the policy stays as it is, {error}"
            await tell(said)
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
