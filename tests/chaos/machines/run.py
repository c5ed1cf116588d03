"""Runs a storm over two machines from its beginning to its report."""

import asyncio

from bot.app.opening import open_app
from tests.chaos.machines.laws import machines_checked
from tests.chaos.machines.plan import NAMES, machine_plan
from tests.chaos.machines.report import MachinesEnded, MachinesReport
from tests.chaos.machines.storm import Setting, desk_config, opened

_CAUGHT_UP_SECONDS = 20.0


async def machines_stormed(setting: Setting) -> MachinesReport:
    """Run the storm of a setting, and check all that is left."""
    begun = asyncio.get_running_loop().time()
    async with opened(setting, machine_plan(setting.seed, setting.size)) as storm:
        try:
            await storm.run()
            await storm.readers.caught_up(_CAUGHT_UP_SECONDS)
        finally:
            await storm.end()
        config = await asyncio.to_thread(desk_config, setting.folder, storm.fleet.url)
        async with open_app(config, [], storm.machines[NAMES[0]].environment) as app:
            found = await machines_checked(app, storm)
    ended = MachinesEnded(
        faults=storm.faults,
        spans=tuple(storm.spans),
        takeovers=storm.takeovers,
        said=storm.played.said,
        asked=tuple(storm.played.asked.values()),
        restarts=tuple(line for machine in storm.machines.values() for line in machine.restarts),
        seconds=asyncio.get_running_loop().time() - begun,
        found=found,
    )
    return MachinesReport(setting, ended)
