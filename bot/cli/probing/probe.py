"""`lockgate doctor --probe`: trying the things that running needs, side by side and each within a time limit."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from bot.cli.ready import found as ready_files
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.core.ids import Ids
from bot.operations.diagnostics import Diagnosis, told
from bot.operations.probes import machine
from bot.operations.probes.bucket import bucket
from bot.operations.probes.models import models
from bot.operations.probes.ports import ports
from channels.port import Platform, Probing
from policy.labels import Label

if TYPE_CHECKING:
    from bot.app.app import App

PLATFORM_SECONDS: Final = 20.0
"""How long the probe of one platform may take."""

LATE: Final = "its probe got no answer in {:g} seconds"


async def without_store(config: Config, environment: Mapping[str, str]) -> list[Diagnosis]:
    """Try the things that take no store: models, ports with their public addresses, the bucket, disk and modes."""
    async with asyncio.TaskGroup() as together:
        asked = together.create_task(models(config, environment))
        bound = together.create_task(ports(config, lambda: bool(ready_files(config.data_dir, SystemClock())), Ids()))
        kept = together.create_task(bucket(config, environment, Ids()))
        measured = together.create_task(asyncio.to_thread(lambda: [machine.disk(config), *machine.modes(config)]))
    return [*asked.result(), *bound.result(), *kept.result(), *measured.result()]


async def with_store(app: "App", made: Sequence[Platform]) -> list[Diagnosis]:
    """Try the things that take a store: its durability, and the platforms."""
    top = app.config.policy.top
    async with asyncio.TaskGroup() as together:
        tasks = [together.create_task(_platform(one, top)) for one in made]
        problems, often = await app.store.durability()
    found = [Diagnosis("store's durability", str(one), one.next_step) for one in problems]
    note = f"`appendfsync` is `{often}`" if often else ""
    found += [] if found else [Diagnosis("store's durability", note=note)]
    return [*found, *(diagnosis for task in tasks for diagnosis in task.result())]


async def _platform(adapter: Platform, top: Label) -> list[Diagnosis]:
    if not isinstance(adapter, Probing):
        return []
    try:
        async with asyncio.timeout(PLATFORM_SECONDS):
            troubles = await adapter.probe()
    except TimeoutError:
        step = "look at the network of this machine"
        return [Diagnosis(f"probe of {adapter.name}", LATE.format(PLATFORM_SECONDS), step)]
    # Which bot it is is told beside what is wrong with it.
    remarks, wrong = ([one for one in troubles if one.remark is kind] for kind in (True, False))
    found = told(f"bot of {adapter.name}", remarks, top) if remarks else []
    return [*found, *(told(f"probe of {adapter.name}", wrong, top) if wrong else [])]
