"""How often a store is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.store.servers.connection import Command, Part, Reply, RetryLimit, StoreServers


@dataclass
class Counting:
    """The servers of a store, whose exchanges count: what goes to several of a Cluster goes at the same time."""

    servers: StoreServers
    trips: int = 0

    @property
    def limit(self) -> RetryLimit:
        return self.servers.limit

    @property
    def ordered(self) -> bool:
        return self.servers.ordered

    async def exchange(self, commands: Sequence[Command], *, held: bool = False) -> list[Reply]:
        self.trips += 1
        return await self.servers.exchange(commands, held=held)

    async def parts(self) -> Sequence[Part]:
        return await self.servers.parts()

    async def nodes(self) -> Sequence[Part]:
        return await self.servers.nodes()

    async def restore(self) -> None:
        await self.servers.restore()

    async def close(self) -> None:
        await self.servers.close()
