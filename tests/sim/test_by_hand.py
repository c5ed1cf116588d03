"""The simulators by hand: a fault of a person or of the machine is one line that says what to do."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conventions.documents import ROOT

PROGRAMS = ("provider", "telegram_by_hand", "slack_hand")


def told(program: str, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.sim.{program}", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=240,
    )
    assert ended.returncode == 2, ended
    return ended.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_fault_is_one_line_with_the_next_step(program: str) -> None:
    with socket.socket() as place, ThreadPoolExecutor() as beside:
        place.bind(("127.0.0.1", 0))
        place.listen()
        port = str(place.getsockname()[1])
        given = (("--port", port), ("--port", "many"), ("--prot", "1"))
        asked = [beside.submit(told, program, *arguments) for arguments in given]
        found = [one.result() for one in asked]
    assert found == [
        f"port {port} is taken: end the program there, or choose another with `--port`\n",
        "argument --port: `many` is no port, name one from 0 to 65535: `--help` lists the options\n",
        "unrecognized arguments: --prot 1: `--help` lists the options\n",
    ]
