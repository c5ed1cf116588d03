"""A port for who must be told beforehand where to listen."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port of loopback that nobody listens at.

    It is below those that a machine gives to connections and to whoever asks for any port, so nobody gets it meanwhile.
    """
    while True:
        with socket.socket() as found, suppress(OSError):
            port = random.randrange(20_000, 32_000)  # noqa: S311 - it guards nothing
            found.bind(("127.0.0.1", port))
            return port
