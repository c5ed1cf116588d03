"""Buckets that tests keep files in: one server for all tests of a process, and a new bucket for each of them."""

import subprocess
import sys
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

from bot.core.ids import Ids
from bot.files.bucket import BucketFiles
from bot.files.objects import BucketAddress, Objects
from policy.labels import top
from tests.sim.bucket import FAULTS


class BucketServer:
    """A server of buckets, a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.sim.bucket"]
        folder = Path(__file__).parents[1]
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        # Ends it when this process is gone, also one that was killed.
        until_then = ["sh", "-c", 'read -r _; kill -9 "$0"', str(self.process.pid)]
        self._end = subprocess.Popen(until_then, stdin=subprocess.PIPE)  # noqa: S603 - our own words
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self._numbers = count(1)

    def fresh(self, prefix: str = "") -> BucketAddress:
        """Return a new, empty bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.ask("PUT", f"/{name}")
        return BucketAddress(name, prefix, self.url, "us-east-1", "key", "secret", "")

    def fail(self, what: str, method: str, times: int = 1) -> None:
        """Have the next requests of a method fail, as `tests.sim.bucket` tells."""
        self.ask("POST", f"{FAULTS}?what={what}&method={method}&times={times}")

    def close(self) -> None:
        """End it."""
        self._end.kill()
        self._end.communicate()
        self.process.kill()
        self.process.communicate()

    def ask(self, method: str, path: str) -> None:
        """Send a request as another tool would."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status < 300, answer.status
        finally:
            connection.close()


def bucket_files(address: BucketAddress) -> BucketFiles:
    """Return the files in a bucket."""
    return BucketFiles(Objects(address), lambda: top(()), Ids().op)
