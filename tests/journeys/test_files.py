"""An operator moves files to a bucket and back, puts some there, and takes backups of them."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.files.locations import shared
from bot.files.objects import BucketAddress, Objects
from policy.labels import PUBLIC, Label, parse
from tests.buckets import bucket_files
from tests.journeys.machine import Ended, Machine
from tests.journeys.test_first_minute import READ
from tests.servers import SERVERS

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
NOTE = '!write_file {"path": "confidential/note.md", "text": "the ebb"}'
MANY = 24


@dataclass(frozen=True)
class Moved:
    """A machine and its bucket."""

    machine: Machine
    address: BucketAddress

    def use(self, *, bucket: bool) -> None:
        """Let the configuration name the bucket, or none."""
        named = f"{{name: {self.address.name}, prefix: '{self.address.prefix}', endpoint: {self.address.endpoint}}}"
        (self.machine.folder / "config.yaml").write_text(f"files: {{bucket: {named if bucket else 'null'}}}\n")

    def run(self, *arguments: str, **more: str) -> Ended:
        return self.machine.run(*arguments, **KEYS, **more)

    def killed(self, arguments: tuple[str, ...], when: Callable[[], bool]) -> None:
        """Start a command, and kill it at a moment; it may have ended before."""
        with self.machine.start(*arguments, **KEYS) as process:
            while not when() and process.poll() is None:
                pass
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate()

    def labels(self, path: str) -> list[tuple[str, Label]]:
        """Return what the command lists in a folder."""
        listed = json.loads(self.run("files", "list", path, "--json").out)
        return [(one["path"], parse(one["label"])) for one in listed]

    @property
    def objects(self) -> int:
        """How many files are in the bucket."""
        return sum(not name.folder for name in bucket_files(self.address).kept())


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a machine with files of the operator, and one that a session wrote."""
    machine = Machine(tmp_path_factory.mktemp("talked"))
    with machine.start("chat") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{READ}\n{NOTE}\n".encode())
        process.stdin.flush()
        while not (asked := re.search(rb"/approve ([a-z0-9]{8})", process.stdout.readline())):
            pass
        process.communicate(b"/approve %s\n" % asked[1])
    (machine.data / "files" / "public" / "many").mkdir()
    for number in range(MANY):
        (machine.data / "files" / "public" / "many" / f"{number}.md").write_text(f"text {number}")
    return machine.data


@pytest.fixture
def moved(talked: Path, machine: Machine) -> Moved:
    """Such a machine, with an empty bucket."""
    shutil.copytree(talked, machine.data, ignore=shutil.ignore_patterns("*.sock"))
    return Moved(machine, SERVERS.buckets().fresh("first"))


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder but locks, labels too."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_files_go_to_a_bucket_and_back_though_the_copy_is_killed(moved: Moved) -> None:
    data, before = moved.machine.data, tree(moved.machine.data / "files")
    refused = moved.run("files", "copy", "--to", "bucket")
    assert (refused.code, refused.err.splitlines()[1]) == (2, "name it under `files.bucket` in config.yaml")
    moved.use(bucket=True)
    dry = moved.run("files", "copy", "--to", "bucket", "--dry-run")
    assert (dry.code, moved.objects) == (0, 0)
    assert f"would copy {MANY + 4} files" in dry.out
    for most in (1, 3, 12):
        moved.killed(("files", "copy", "--to", "bucket"), lambda most=most: moved.objects >= most)
    copied = moved.run("files", "copy", "--to", "bucket", "--json")
    told = json.loads(copied.out)
    assert (copied.code, told["problems"], told["extra"]) == (0, [], [])
    assert told["present"] > 0
    assert told["files"] + told["folders"] + told["present"] == MANY + 4 + 1
    # The bucket is in use now, and has the label that the session wrote.
    listed = json.loads(moved.run("files", "list", "confidential", "--json").out)
    assert {one["path"] for one in listed} == {"confidential/note.md", "confidential/pipeline.md"}
    shutil.rmtree(data / "files")
    read = moved.machine.chat(READ.replace("pipeline", "note"), "/taint", **KEYS)
    assert "the ebb" in read.out
    assert "CONFIDENTIAL~" in read.out

    there = data / "files" / "public" / "many"
    for most in (1, 5, 15):
        moved.killed(("files", "copy", "--to", "local"), lambda most=most: len([*there.glob("*.md")]) >= most)
    back = moved.run("files", "copy", "--to", "local")
    assert (back.code, back.err) == (0, "")
    assert "next: take `files.bucket` out of config.yaml" in back.out
    assert tree(data / "files") == before
    rows = json.loads(moved.run("audit", "tail", "--json", "-n", "2").out)
    assert [row["body"]["change"] for row in rows] == ["copy", "copied"]
    assert moved.run("audit", "verify").code == 0


def test_a_copy_waits_for_no_process_and_names_what_is_in_its_way(moved: Moved) -> None:
    moved.use(bucket=True)
    with moved.machine.start("chat", **KEYS) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        while b"You said" not in process.stdout.readline():
            pass
        busy = moved.run("files", "copy", "--to", "bucket")
        process.communicate()
    assert (busy.code, busy.err.splitlines()[0]) == (2, "other processes use the store")
    moved.run("files", "put", str(moved.machine.data / "files" / "public"), "public")
    path = moved.machine.data / "files" / "public" / "welcome.md"
    path.write_text("another text")
    os.mkfifo(path.parent / "pipe")
    copied = moved.run("files", "copy", "--to", "bucket")
    assert copied.code == 2
    assert "files/public/welcome.md: another file of that name is there" in copied.out
    assert "files/public/pipe: it cannot be read" in copied.out
    (path.parent / "pipe").unlink()
    replaced = moved.run("files", "copy", "--to", "bucket", "--replace")
    assert (replaced.code, replaced.err) == (0, "")
    assert "copied 1 file and " in replaced.out


def test_the_operator_puts_and_labels_files(moved: Moved, tmp_path: Path) -> None:
    moved.use(bucket=True)
    given = tmp_path / "given"
    (given / "sub").mkdir(parents=True)
    (given / "a.md").write_text("low")
    (given / "sub" / "b.md").write_text("lower")
    (given / ".hidden").write_text("no")
    (given / "link.md").symlink_to(tmp_path / "config.yaml")
    put = moved.run("files", "put", str(given), "public/given")
    assert (put.code, put.out) == (0, "public/given/a.md: PUBLIC~\npublic/given/sub/b.md: PUBLIC~\n")
    above = moved.run("files", "put", str(given / "a.md"), "public/given/a.md", "--label", "CONFIDENTIAL")
    assert (above.code, above.out) == (0, "public/given/a.md: CONFIDENTIAL~\n")
    below = moved.run("files", "put", str(given / "a.md"), "internal", "--label", "PUBLIC")
    assert (below.code, "is below `INTERNAL~`" in below.err) == (2, True)
    (given / "a.md").write_text("changed")
    there = moved.run("files", "put", str(given / "a.md"), "public/given/")
    assert (there.code, "replace it with --replace" in there.out) == (2, True)
    assert moved.run("files", "put", str(given / "a.md"), "public/given/", "--replace").code == 0
    listed = json.loads(moved.run("files", "list", "public/given", "--json").out)
    assert [(one["path"], one["label"]) for one in listed] == [
        ("public/given/a.md", "PUBLIC~"),
        ("public/given/a.md", "CONFIDENTIAL~"),
        ("public/given/sub/", "PUBLIC~"),
    ]
    labelled = moved.run("files", "label", "public/given/a.md", "INTERNAL")
    assert (labelled.code, labelled.out) == (0, "public/given/a.md: INTERNAL~\n")
    lowered = moved.run("files", "label", "public/given/a.md", "PUBLIC")
    assert (lowered.code, "no label is lowered" in lowered.err) == (2, True)
    for arguments in (
        ("workspace/x", "PUBLIC"),
        ("nowhere/x", "PUBLIC"),
        ("public/none.md", "PUBLIC"),
        ("public", "x"),
    ):
        assert moved.run("files", "label", *arguments).code == 2
    (row,) = json.loads(moved.run("audit", "tail", "--json", "-n", "1").out)
    assert (row["kind"], row["body"]["path"], row["body"]["label"]) == ("files", "public/given/a.md", "INTERNAL~")


def test_objects_of_another_tool_get_their_label_from_the_operator(moved: Moved) -> None:
    moved.use(bucket=True)
    for name in ("public/sub/x.md", "public/sub/y.md", "internal/z.md"):
        Objects(moved.address).put(f"files/{name}", b"text", {}, over=None)
    assert moved.labels("public") == [("public/sub/", parse("RESTRICTED~"))]
    labelled = moved.run("files", "label", "public/sub/x.md", "INTERNAL")
    assert labelled.out == "public/sub: INTERNAL~\npublic/sub/x.md: INTERNAL~\n"
    assert moved.labels("public/sub")[1] == ("public/sub/y.md", parse("RESTRICTED~"))
    rest = moved.run("files", "label", "public", "INTERNAL")
    assert (rest.code, rest.out) == (0, "public/sub/y.md: INTERNAL~\n")
    assert moved.run("files", "label", "public", "INTERNAL").code == 2
    assert moved.run("files", "label", "internal/z.md", "INTERNAL").code == 0
    assert moved.labels("internal") == [("internal/z.md", parse("INTERNAL~"))]


@pytest.mark.parametrize("of_bucket, into_bucket", [(True, True), (True, False), (False, True)])
def test_a_backup_comes_back_wherever_files_are_kept(moved: Moved, *, of_bucket: bool, into_bucket: bool) -> None:
    moved.use(bucket=True)
    assert moved.run("files", "copy", "--to", "bucket").code == 0
    moved.use(bucket=of_bucket)
    file = moved.machine.folder / "one.backup"
    made = moved.run("backup", str(file))
    assert (made.code, made.err) == (0, "")
    assert ("not in it: the folders `files` and `session-files`" in made.out) is of_bucket
    data = moved.machine.folder / "elsewhere"
    data.mkdir(mode=0o700)
    shutil.copytree(moved.machine.data / "keys", data / "keys")
    other = Moved(moved.machine, SERVERS.buckets().fresh())
    other.use(bucket=into_bucket)
    more = {"LOCKGATE_DATA_DIR": str(data)}
    restored = other.run("restore", str(file), **more)
    assert (restored.code, restored.err) == (0, "")
    assert (other.objects > MANY) is into_bucket
    assert (data / "files").exists() is not into_bucket
    read = moved.machine.chat(READ.replace("pipeline", "note"), "/taint", **more, **KEYS)
    assert "the ebb" in read.out
    assert "CONFIDENTIAL~" in read.out
    if not into_bucket:
        assert tree(data / "files") == tree(moved.machine.data / "files")
        return
    # Over what is there now: the earlier files of the bucket are kept beside.
    bucket_files(other.address).keep(shared("public", PUBLIC, "later.md"), b"later", PUBLIC)
    full = other.run("restore", str(file), **more)
    assert full.code == 2
    again = other.run("restore", str(file), "--replace", **more)
    assert (again.code, again.err) == (0, "")
    assert [path.read_text() for path in data.glob(".before-restore-*/bucket/files/public/later.md")] == ["later"]
    assert not any(name.place.name == "later.md" for name in bucket_files(other.address).kept())


def test_a_backup_without_files_leaves_them_where_they_are(moved: Moved) -> None:
    file, data = moved.machine.folder / "one.backup", moved.machine.data
    made = moved.run("backup", "--without-files", str(file))
    assert (made.code, "not in it: files and workspaces" in made.out) == (0, True)
    assert b"Port of Veldhaven" not in file.read_bytes().partition(b"session-files")[2]
    before = tree(data / "files")
    restored = moved.run("restore", str(file), "--replace")
    assert (restored.code, restored.err) == (0, "")
    assert tree(data / "files") == before
