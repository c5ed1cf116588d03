"""The first run: the data directory and its files, also where several processes begin at once."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.app.first_run import seed
from bot.core.errors import OperatorError
from bot.files.areas import Area

_SEEDS = "import sys; from pathlib import Path; from bot.app.first_run import seed; sys.stdin.read(1); seed(Path({!r}))"


def test_several_processes_may_begin_at_once(tmp_path: Path) -> None:
    for number in range(10):
        place = tmp_path / f"data-{number}"
        command = [sys.executable, "-c", _SEEDS.format(str(place))]
        begun = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        for process in begun:
            assert process.stdin is not None
            process.stdin.write(b"x")
            process.stdin.flush()
        assert [process.communicate()[1] for process in begun] == [b"", b""]
        assert sorted(path.name for path in (place / Area.SHARED).iterdir()) == ["confidential", "internal", "public"]


def test_a_lock_on_the_folder_holds_nobody_up_later(tmp_path: Path) -> None:
    seed(tmp_path)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        subprocess.run([sys.executable, "-c", _SEEDS.format(str(tmp_path))], check=True, input=b"x", timeout=60)
    finally:
        os.close(descriptor)


def test_what_a_crash_left_is_finished(tmp_path: Path) -> None:
    (tmp_path / "files.new/public").mkdir(parents=True)
    seed(tmp_path)
    assert (tmp_path / Area.SHARED / "internal/handbook.md").exists()
    assert not (tmp_path / "files.new").exists()


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(OperatorError, match="not a directory"):
        seed(tmp_path / "data")
