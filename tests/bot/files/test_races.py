"""Writers of several processes at once: no label gets lost, and of several swaps exactly one counts."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import IO

import pytest

from bot.files.local import LocalFiles
from bot.files.objects import Objects
from bot.files.port import LabelledFiles
from bot.sessions.refs import WorkflowRef
from bot.tools.workflow.state_folder import FOLDER, StateFolder
from bot.workflows.export import STATE, ExportPlace
from policy.labels import PUBLIC, parse, top
from tests.bot.files.racing import BEFORE, COUNTED, INTERNAL, THREADS, WRITTEN
from tests.bot.kit import document
from tests.buckets import bucket_files
from tests.servers import SERVERS

_ROOT = Path(__file__).parents[3]
_TIMES = {"local": 40, "bucket": 6}

Raced = Callable[..., list[int]]
"""Has both processes do a task at once, and returns their numbers."""


@pytest.fixture(scope="module")
def raced() -> Iterator[Raced]:
    """Two processes, which all tests here use."""
    command = [sys.executable, "-m", "tests.bot.files.racing"]
    pipe = subprocess.PIPE
    begun = [subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe) for _ in range(2)]

    def lines(of: Callable[["subprocess.Popen[bytes]"], IO[bytes] | None]) -> list[IO[bytes]]:
        found = [of(process) for process in begun]
        return [one for one in found if one is not None]

    def race(**task: object) -> list[int]:
        for given in lines(lambda process: process.stdin):
            given.write(f"{json.dumps(task)}\n".encode())
            given.flush()
        return [int(told.readline()) for told in lines(lambda process: process.stdout)]

    try:
        yield race
    finally:
        for process in begun:
            process.communicate()


@pytest.fixture(params=["local", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str], LabelledFiles]:
    """Return the kind of files, where they are, and the files."""
    kind: str = request.param
    if kind == "local":
        return kind, {"folder": str(tmp_path)}, LocalFiles(tmp_path, lambda: top(()))
    address = SERVERS.buckets().fresh()
    return kind, asdict(address), bucket_files(address)


def test_a_label_is_never_below_what_was_written(
    raced: Raced, place: tuple[str, dict[str, str], LabelledFiles]
) -> None:
    kind, where, files = place
    done = raced(kind=kind, where=where, task="label", times=_TIMES[kind])
    assert done == [THREADS * _TIMES[kind]] * 2
    found = files.find(WRITTEN, top(()))
    assert found is not None
    assert found.label == parse("INTERNAL~")


def test_of_several_swaps_one_counts_and_the_copy_is_the_one_before(
    raced: Raced, place: tuple[str, dict[str, str], LabelledFiles]
) -> None:
    kind, where, files = place
    assert files.swap(COUNTED, b"0", INTERNAL, expected=None)
    won = sum(raced(kind=kind, where=where, task="swap", times=_TIMES[kind]))
    last = int(files.load(files.written(COUNTED, INTERNAL).place, 100))
    assert last == won > 0
    assert int(files.load(files.written(BEFORE, INTERNAL).place, 100)) == last - 1


def test_a_slow_swap_that_lost_does_not_replace_the_copy_of_a_later_one() -> None:
    server = SERVERS.buckets()
    files = bucket_files(server.fresh())
    copy = files.written(BEFORE, INTERNAL).place
    assert files.swap(COUNTED, b"0", INTERNAL, expected=None)
    assert files.swap(COUNTED, b"1", INTERNAL, expected=b"0")
    server.fail("late", "PUT")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(files.swap, COUNTED, b"slow", INTERNAL, expected=b"1")
        # Now it is about to keep `1` beside, and has read nothing newer.
        server.fail("held", "")
        assert files.swap(COUNTED, b"2", INTERNAL, expected=b"1")
        assert files.swap(COUNTED, b"3", INTERNAL, expected=b"2")
        server.fail("release", "")
        assert not slow.result()
    assert files.load(copy, 9) == b"2"


def test_a_label_that_rose_under_the_same_bytes_is_noticed_by_a_writer_that_read_before() -> None:
    """The digest of the bytes alone would be the same."""
    address = SERVERS.buckets().fresh()
    files, objects = bucket_files(address), Objects(address)
    files.keep(WRITTEN, b"the same bytes", INTERNAL)
    key = f"session-files/s/1/.above/{files.written(WRITTEN, INTERNAL).place.tree}/folder/same"
    before = objects.head(key)
    assert before is not None
    files.keep(WRITTEN, b"the same bytes", parse("INTERNAL~"))
    assert not objects.put(key, b"the same bytes", before.metadata, over=before.tag)
    found = files.find(WRITTEN, top(()))
    assert found is not None
    assert found.label == parse("INTERNAL~")
    assert files.find(WRITTEN, PUBLIC) is None


def test_a_state_file_that_is_written_over_while_it_is_read_has_the_label_of_its_text() -> None:
    """First the label was read, then another tool's text, and a label that was its text's was never asked for."""
    server = SERVERS.buckets()
    address = server.fresh()
    objects, key = Objects(address), f"files/{FOLDER}/quay/{STATE}"
    policy = document(folders={FOLDER: {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "top"}})
    folder = StateFolder(bucket_files(address), lambda: policy)
    place, state = ExportPlace("quay", PUBLIC), WorkflowRef("ann", "quay", "PUBLIC", "1")
    assert folder.swap(place, STATE, "ours", None, state=state)
    server.fail("late", "GET")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(folder.read, place, STATE)
        server.fail("held", "")
        # Now the reader knows the label, and asks for the text.
        before = objects.head(key)
        assert before is not None
        assert objects.put(key, b"theirs", {}, over=before.tag)
        server.fail("release", "")
        found = slow.result()
    assert found is None or found.label == policy.top
