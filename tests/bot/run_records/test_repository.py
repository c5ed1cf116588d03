"""The repository of records: what git reads of it, and that nothing is lost by a crash, a second writer, or people."""

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import DiskError, OperatorError, WriterBusyError
from bot.run_records.repository import RecordRepository

AT: Final = 1_900_000_000_000
RECORD: Final = "sessions/2030-03-17/r_1.json"
TRACES: Final = "sessions/2030-03-17/r_1.jsonl"


def git(folder: Path, *words: str) -> str:
    """Return what plain git says, whatever the configuration of whoever runs this."""
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    person = {"GIT_AUTHOR_NAME": "p", "GIT_AUTHOR_EMAIL": "p", "GIT_COMMITTER_NAME": "p", "GIT_COMMITTER_EMAIL": "p"}
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**own, **person}, capture_output=True, text=True, check=True
    )
    return done.stdout


def put(repository: RecordRepository, told: str = "one", name: str = "r_1") -> bool:
    """Commit a record with its events."""
    path = f"sessions/2030-03-17/{name}.json"
    files = {path: f"{told}\n".encode(), f"{path}l": f"{told} event\n".encode()}
    return repository.commit(path, lambda _: files, message=f"Run {name} ended: completed", at=AT)


def whole(folder: Path) -> None:
    """See that git finds nothing amiss, and nothing to commit."""
    assert git(folder, "fsck", "--strict") == ""
    assert git(folder, "status", "--short") == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def repository(folder: Path) -> RecordRepository:
    return RecordRepository(folder)


def test_git_reads_what_was_committed(repository: RecordRepository, folder: Path) -> None:
    assert put(repository)
    assert put(repository, "two")
    assert git(folder, "log", "--format=%an %ae %aI %s") == (
        "Lockgate lockgate@localhost 2030-03-17T17:46:40+00:00 Run r_1 ended: completed\n" * 2
    )
    assert git(folder, "show", f"HEAD~:{RECORD}") == "one\n"
    assert git(folder, "show", f"HEAD:{TRACES}") == "two event\n"
    assert (folder / RECORD).read_text() == "two\n"
    whole(folder)


def test_what_did_not_change_is_no_commit(repository: RecordRepository, folder: Path) -> None:
    assert put(repository)
    assert not put(repository)
    assert git(folder, "rev-list", "--count", "HEAD") == "1\n"


def test_a_record_is_found_by_its_name(repository: RecordRepository) -> None:
    assert repository.read(RECORD) is None
    assert repository.find("sessions", "r_1.json") is None
    put(repository)
    assert repository.find("sessions", "r_1.json") == RECORD
    assert repository.find("sessions", "r_2.json") is None
    assert repository.read(TRACES) == b"one event\n"


def test_others_cannot_read_it(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    for path in (folder, folder / ".git", folder / "sessions", (folder / RECORD).parent):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (folder / RECORD, folder / TRACES):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_name_that_leads_elsewhere_is_refused(repository: RecordRepository, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        repository.commit("x", lambda _: {"../x": b""}, message="m", at=AT)
    assert not (tmp_path / "x").exists()


def test_what_people_changed_is_neither_committed_nor_lost(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    (folder / RECORD).write_text("edited by hand\n")
    (folder / "notes.md").write_text("mine\n")
    (folder / "staged.md").write_text("staged\n")
    git(folder, "add", "staged.md")
    put(repository, "two")
    assert git(folder, "show", "--format=", "--name-only", "HEAD").split() == [RECORD, TRACES]
    (kept,) = (folder / RECORD).parent.glob("r_1.json.edited-*")
    assert kept.read_text() == "edited by hand\n"
    assert (folder / RECORD).read_text() == "two\n"
    assert git(folder, "status", "--short").splitlines() == [
        "A  staged.md",
        "?? notes.md",
        f"?? {kept.relative_to(folder)}",
    ]
    git(folder, "commit", "-m", "Keep mine")
    assert set(git(folder, "ls-files").split()) == {"staged.md", RECORD, TRACES}


def test_a_commit_of_people_is_built_on(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    (folder / "README").write_text("ours\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "Explain")
    git(folder, "gc", "-q")
    put(repository, "two")
    assert git(folder, "log", "--format=%s").splitlines()[1] == "Explain"
    assert git(folder, "show", "HEAD:README") == "ours\n"
    whole(folder)


def test_what_is_checked_out_elsewhere_is_left_alone(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    git(folder, "checkout", "-q", "-b", "topic")
    put(repository, "two")
    assert (folder / RECORD).read_text() == "one\n"
    assert git(folder, "log", "--format=%s", "topic").count("ended") == 1
    git(folder, "checkout", "-q", "main")
    assert (folder / RECORD).read_text() == "two\n"
    whole(folder)


def test_an_index_that_is_not_understood_is_left_alone(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    git(folder, "update-index", "--split-index")
    before = (folder / ".git/index").read_bytes()
    with pytest.raises(DiskError):
        put(repository, "two")
    assert (folder / ".git/index").read_bytes() == before
    git(folder, "update-index", "--no-split-index")
    assert put(repository, "two")
    whole(folder)


@contextmanager
def full_disk(left: int) -> Generator[None]:
    """Let files grow to `left` bytes and no further: what a full disk does, by another error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("left", [0, 30, 60, 100, 150, 300])
def test_a_full_disk_leaves_what_was_there(repository: RecordRepository, folder: Path, left: int) -> None:
    put(repository)
    index = (folder / ".git/index").read_bytes()
    with full_disk(left), pytest.raises(DiskError) as caught:
        put(repository, "two" * 500)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EFBIG
    assert git(folder, "show", f"HEAD:{RECORD}") == "one\n"
    assert (folder / ".git/index").read_bytes() == index
    assert put(repository, "two" * 500)
    whole(folder)


def test_a_second_writer_waits(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(WriterBusyError):
            put(repository, "two")
        assert repository.read(RECORD) == b"one\n"
    finally:
        os.close(descriptor)
    assert put(repository, "two")


WRITER: Final = """
import sys
from pathlib import Path
from bot.core.errors import WriterBusyError
from bot.run_records.repository import RecordRepository

repository, name = RecordRepository(Path(sys.argv[1])), sys.argv[2]
for number in range(5):
    path = f"sessions/2030-03-17/{name}_{number}.json"
    while True:
        try:
            repository.commit(path, lambda _: {path: b"told"}, message=f"Run {name}", at=1_900_000_000_000)
            break
        except WriterBusyError:
            pass
"""


def test_two_processes_write_all_they_have(folder: Path) -> None:
    begun = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name]) for name in ("a", "b")]
    assert [one.wait() for one in begun] == [0, 0]
    assert git(folder, "rev-list", "--count", "HEAD") == "10\n"
    assert len(git(folder, "ls-files").split()) == 10
    whole(folder)


LOCKS: Final = ("index", "refs/heads/main")


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_of_git_is_waited_for(repository: RecordRepository, folder: Path, name: str) -> None:
    put(repository)
    lock = folder / ".git" / f"{name}.lock"
    lock.touch()
    with pytest.raises(WriterBusyError):
        put(repository, "two")
    lock.unlink()
    assert put(repository, "two")
    whole(folder)


KILLED: Final = """
import os, signal, sys
from pathlib import Path
from bot.run_records.repository import RecordRepository

path, name = "sessions/2030-03-17/r_1.json", sys.argv[2]
replace = os.replace

def killed(at, *rest):
    if str(at).endswith(f"{name}.lock"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(at, *rest)

os.replace = killed
RecordRepository(Path(sys.argv[1])).commit(path, lambda _: {path: b"cut"}, message="Run r_1", at=0)
"""


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_of_a_killed_writer_is_taken(repository: RecordRepository, folder: Path, name: str) -> None:
    put(repository)
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), name], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (folder / ".git" / f"{name}.lock").exists()
    assert put(repository, "two")
    assert git(folder, "rev-list", "--count", "HEAD") == "2\n"
    assert git(folder, "fsck", "--strict").startswith("dangling") or not git(folder, "fsck", "--strict")


def test_a_crash_is_made_up_for(repository: RecordRepository, folder: Path) -> None:
    """What a killed writer can leave: a missing object, part of a file, files and entries before their commit."""
    put(repository)
    put(repository, "two")
    tip = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "update-ref", "refs/heads/main", "HEAD~")
    blob = git(folder, "rev-parse", f"{tip}:{RECORD}").strip()
    thing = folder / ".git/objects" / blob[:2] / blob[2:]
    thing.unlink()
    (folder / ".git/lockgate.new").write_text("hal")
    assert put(repository, "two")
    assert git(folder, "rev-list", "--count", "HEAD") == "2\n"
    whole(folder)


def test_a_crash_while_it_was_made_is_made_up_for(repository: RecordRepository, folder: Path) -> None:
    (folder / ".lockgate.new/.git/objects").mkdir(parents=True)
    folder.chmod(0o700)
    assert put(repository)
    assert sorted(path.name for path in folder.iterdir()) == [".git", "sessions"]


def linked(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


def filled(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "thesis.tex").touch()


def shared(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def of_a_project(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    git(folder, "init", "-q")


def a_file(folder: Path) -> None:
    folder.touch()


def elsewhere(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    git(folder, "init", "-q", "--separate-git-dir", str(folder.parent / "there"))


FOREIGN: Final = (linked, filled, shared, of_a_project, a_file, elsewhere)


@pytest.mark.parametrize("made", FOREIGN)
def test_a_folder_that_is_not_ours_is_left_alone(repository: RecordRepository, folder: Path, made: object) -> None:
    assert callable(made)
    made(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(OperatorError) as caught:
        put(repository)
    assert caught.value.next_step
    assert sorted(folder.rglob("*")) == before


def test_another_repository_is_used_when_it_says_so(repository: RecordRepository, folder: Path) -> None:
    of_a_project(folder)
    git(folder, "config", "lockgate.records", "true")
    assert put(repository)
    assert git(folder, "show", f"main:{RECORD}") == "one\n"


def test_links_in_the_work_tree_are_not_followed(repository: RecordRepository, folder: Path, tmp_path: Path) -> None:
    put(repository)
    outside = tmp_path / "outside"
    outside.write_text("theirs\n")
    (folder / RECORD).unlink()
    (folder / RECORD).symlink_to(outside)
    assert put(repository, "two")
    assert outside.read_text() == "theirs\n"
    assert (folder / RECORD).read_text() == "two\n"
    days = folder / "sessions"
    days.rename(tmp_path / "days")
    days.symlink_to(tmp_path / "days")
    with pytest.raises(DiskError):
        put(repository, "three")
    assert git(folder, "show", f"HEAD:{RECORD}") == "two\n"


def test_a_damaged_repository_is_told(repository: RecordRepository, folder: Path) -> None:
    put(repository)
    tip = git(folder, "rev-parse", "HEAD").strip()
    thing = folder / ".git/objects" / tip[:2] / tip[2:]
    thing.chmod(0o600)
    thing.write_bytes(b"nonsense")
    with pytest.raises(OperatorError) as caught:
        put(repository, "two")
    assert "damaged" in str(caught.value)
