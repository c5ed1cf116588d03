"""A port for who must be told beforehand where to listen."""

import socket


def free_port() -> int:
    """Return a port of loopback that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
