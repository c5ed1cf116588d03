"""The roles of a process of `lockgate run`, so that several may share the work."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.config.channels import ChannelsSettings


class ProcessRole(StrEnum):
    """Listen to platforms, run turns, serve the HTTP API, or all of it; every one delivers."""

    ALL = "all"
    CHANNELS = "channels"
    WORKER = "worker"
    API = "api"

    @property
    def listens(self) -> bool:
        """Whether it listens to platforms."""
        return self in {ProcessRole.ALL, ProcessRole.CHANNELS}

    @property
    def works(self) -> bool:
        """Whether it runs turns."""
        return self in {ProcessRole.ALL, ProcessRole.WORKER}

    def answers(self, channels: "ChannelsSettings") -> bool:
        """Say whether it serves the HTTP API, which all do that do everything if one is configured."""
        return self is ProcessRole.API or (self is ProcessRole.ALL and channels.api is not None)
