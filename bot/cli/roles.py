"""What a process of `lockgate run` does of the work, so that several processes may share it."""

from enum import StrEnum


class ProcessRole(StrEnum):
    """Listen and deliver, run turns and deliver, or all of it."""

    ALL = "all"
    CHANNELS = "channels"
    WORKER = "worker"
