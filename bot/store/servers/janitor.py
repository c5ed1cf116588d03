"""Ends an embedded server that no process uses any more: a process beside each server, for as long as it lives.

The last process to leave a server stops it. A process that is killed stops nothing, so another one has to check. This
program checks the locks that `bot.store.servers.embedded_server` describes, and ends with its server, which holds
`server.lock`.

It is run as a file by a bare interpreter, so it imports nothing but a few modules of the standard library.
"""

import fcntl
import os
import signal
import socket
import sys
from contextlib import suppress


def wait(folder: str, address: str, seconds: float) -> None:
    """Wait for the end of the server of a store's folder, checking its clients every so many `seconds`.

    `address` is the path of its socket.
    """
    idle = False

    def look(*_: object) -> None:
        nonlocal idle
        idle = _stopped_or_idle(folder, address, again=idle)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    server = os.open(f"{folder}/server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(server, fcntl.LOCK_EX)


def _stopped_or_idle(folder: str, address: str, *, again: bool) -> bool:
    """Say whether no process uses the server; if it was so `again`, stop it."""
    if not os.access(folder, os.F_OK):
        # No process finds the server any more.
        if again:
            _stop(address)
        return True
    # No process can start, join or leave meanwhile.
    starting = _taken(f"{folder}/start.lock")
    if starting is None:
        return False
    clients = _taken(f"{folder}/clients.lock")
    if clients is not None:
        if again:
            _stop(address)
        os.close(clients)
    os.close(starting)
    return clients is not None


def _taken(path: str) -> int | None:
    """Take a lock if it is free; return its descriptor."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _stop(address: str) -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10.0)
        connection.connect(address)
        connection.sendall(b"SHUTDOWN\r\n")
        connection.recv(64)


if __name__ == "__main__":
    wait(sys.argv[1], sys.argv[2], float(sys.argv[3]))
