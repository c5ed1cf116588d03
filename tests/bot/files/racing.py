"""A process that writes labelled files while others do: it reads tasks from its input, a line of JSON each.

`label` writes the same bytes again and again, TRUSTED in one thread and UNTRUSTED in others, and looks whether a label
that was written is there still. `swap` counts up in a file. The answer is a line with a number, or what is wrong.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bot.files.local import LocalFiles
from bot.files.locations import workspace
from bot.files.objects import BucketAddress
from bot.files.port import LabelledFiles
from policy.labels import parse, top
from tests.buckets import bucket_files

THREADS = 3
INTERNAL = parse("INTERNAL")
WRITTEN = workspace("s", 1, "folder", "same")
COUNTED = workspace("s", 1, "folder", "count")
BEFORE = workspace("s", 1, "folder", "count.bak")


def _label(files: LabelledFiles, number: int, times: int) -> int:
    """Write, and look whether the file is UNTRUSTED once an UNTRUSTED one was written."""
    label, raised = parse("INTERNAL~") if number else INTERNAL, False
    for _ in range(times):
        files.keep(WRITTEN, b"the same bytes", label)
        raised = raised or label.untrusted
        found = files.find(WRITTEN, top(()))
        assert found is not None
        assert found.label.secrecy == INTERNAL, found
        assert found.label.untrusted or not raised, found
        raised = found.label.untrusted
    return times


def _swap(files: LabelledFiles, number: int, times: int) -> int:
    """Count up, and return how often this one, the thread `number`, did."""
    assert number < THREADS
    won, place = 0, files.written(COUNTED, INTERNAL).place
    for _ in range(times):
        now = files.load(place, 100)
        won += files.swap(COUNTED, b"%d" % (int(now) + 1), INTERNAL, expected=now)
    return won


def _done(kind: str, where: dict[str, Any], task: str, times: int) -> int:
    """Do a task in several threads, and return the sum of their numbers."""
    if kind == "bucket":
        files: LabelledFiles = bucket_files(BucketAddress(**where))
    else:
        files = LocalFiles(Path(where["folder"]), lambda: top(()))
    act = _label if task == "label" else _swap
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(partial(act, files, times=times), range(THREADS)))


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(f"{_done(**json.loads(line))}\n")
        sys.stdout.flush()
