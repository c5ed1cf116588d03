"""`lockgate run`: the bot in the places where people are, until it is asked to end.

Every role has the platforms' adapters, also a worker's: it asks there for a chat's readers before it reads anything for
the chat, and any process sends its own texts. A worker does not listen.

SIGTERM and SIGINT end it in order: it listens no more and takes no turn on, and those that run may end for a while. A
turn that still runs then is left to other processes, or to the next start. A second signal ends the waiting, a third
the process. SIGHUP reads the policy again. Notices for operators are lines of the log.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from bot.app.first_run import seed
from bot.cli.operating.metrics import measured
from bot.cli.ready import ReadinessFile, telling
from bot.cli.roles import ProcessRole
from bot.config.channels import ADD_API, NO_API
from bot.config.model import Config
from bot.core.errors import ConfigError, OperatorError, StoreError, StoreGoneError
from bot.operations.processes.clocks import ClockWatch
from channels.port import ListenError
from policy.document.reading import API

if TYPE_CHECKING:
    from bot.app.app import App
    from bot.policy_state import Tell

LISTENING: Final = "listening to {}"
WORKING: Final = "running turns of {}"
ENDING: Final = "told to end: open turns may finish, and no new one begins"
LEFT: Final = "{} sessions are left to other processes"
WAITING: Final = "there is no store yet, waiting for it"
_PORTS: Final = "end the program that listens there, or give another host or port under `channels` in config.yaml"
_PAUSE: Final = 1.0
_YOUNG: Final = 10_000
"""How many more objects there are before a search for garbage. A message makes some 300 that are searched."""
_LOGGER: Final = logging.getLogger(__name__)
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


async def run(config: Config, role: ProcessRole = ProcessRole.ALL) -> None:
    """Serve platforms and programs until a signal ends the process, as far as its role goes.

    A store of one's own that does not answer yet is waited for: processes of one house start in any order.

    Raises OperatorError: nothing is configured for this role, a token is missing, or the store cannot be used.
    """
    channels = config.channels
    if role is ProcessRole.API and channels.api is None:
        raise ConfigError(NO_API, next_step=ADD_API)
    if not (channels.platforms if role is ProcessRole.CHANNELS else channels.listened):
        raise ConfigError(
            "no platform is configured to listen to", next_step="add one to `channels`, `lockgate chat` needs none"
        )
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(seed, config.data_dir)
        app = await _opened(stack, config)
        spare_collections()
        try:
            await until_ended(app, role)
        except* (OSError, ListenError) as broken:
            error = _first(broken)
        else:
            return
    if isinstance(error, ListenError):
        raise OperatorError(f"cannot listen, {error}", next_step=error.next_step)
    raise OperatorError(f"cannot listen, {error.strerror or error}", next_step=_PORTS)


def spare_collections() -> None:
    """Have garbage collected less often, and leave out all that is loaded: it stays until the process ends.

    Turns make many objects, few of which need a search, and each search went over all modules otherwise.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


async def _opened(stack: AsyncExitStack, config: Config) -> "App":
    from bot.app.opening import open_app

    told = False
    while True:
        try:
            return await stack.enter_async_context(open_app(config, [], listening=True))
        except StoreGoneError as error:
            if not config.store.url:
                raise
            if not told:
                _LOGGER.warning(WAITING, extra={"subject": "store", "cause": str(error), "step": error.next_step})
                told = True
        await asyncio.sleep(_PAUSE)


def _first(broken: "BaseExceptionGroup[OSError | ListenError]") -> OSError | ListenError:
    """Return the first error of a group, however deep it is in it."""
    first = broken.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def until_ended(app: "App", role: ProcessRole) -> None:
    """Serve as a role until signals end it, in order; a process that runs no turns delivers waiting texts."""
    from bot.app import programs

    ended, hurry = asyncio.Event(), asyncio.Event()
    listens, works, answers = role.listens, role.works, role.answers(app.config.channels)
    look = partial(app.readiness.look, role, listens=listens, works=works, answers=answers)
    file, watch = ReadinessFile(app.config.data_dir, os.environ), ClockWatch(app.store.clocks)
    with _ended_by_signals(ended, hurry):
        async with measured(app, look, watch) as looked, telling(file, looked), asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(reloading(app, _tell)), tasks.create_task(watch.serve())]
            work.append(tasks.create_task(app.serve(_tell) if works else app.deliver(_tell)))
            taking = [tasks.create_task(app.listen(_began))] if listens else []
            taking += [tasks.create_task(programs.answer(app, _answering))] if answers else []
            if not taking:
                await _tell(WORKING.format(", ".join(app.config.channels.listened)))
            await ended.wait()
            await _tell(ENDING)
            file.notify("STOPPING=1")
            for task in taking:
                task.cancel()
            if left := await app.drain(hurry):
                await _tell(LEFT.format(left))
            for task in work:
                task.cancel()


async def reloading(app: "App", tell: "Tell") -> None:
    """Follow the signal until cancelled; `tell` gets the outcome."""
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


def _began(platform: str) -> None:
    _LOGGER.info(LISTENING.format(platform))


def _answering(url: str) -> None:
    _LOGGER.info(LISTENING.format(f"{API} at {url}"))


async def _tell(line: str) -> None:
    _LOGGER.info(line)


@contextmanager
def _ended_by_signals(ended: asyncio.Event, hurry: asyncio.Event) -> Generator[None]:
    """Set `ended` at the first signal and `hurry` at the second; a third ends the process as usual."""
    loop = asyncio.get_running_loop()

    def told() -> None:
        if not ended.is_set():
            ended.set()
            return
        hurry.set()
        for number in _ENDING:
            loop.remove_signal_handler(number)

    for number in _ENDING:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
