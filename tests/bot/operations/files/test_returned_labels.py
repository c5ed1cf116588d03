"""Files of a bucket in a backup: what a disk cannot hold side by side prevents no restore, and no label falls."""

import shutil
from pathlib import Path

import pytest

from bot.files.bucket import BucketFiles
from bot.files.kept import KeptFiles, KeptName, StoredFile
from bot.files.local import LocalFiles
from bot.files.locations import FileLocation, shared
from bot.files.objects import Objects
from bot.files.port import UnusableError
from bot.operations.backups.labelled import ReturnedLabels, stored_files
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import DIRTY, INTERNAL, TOP
from tests.buckets import bucket_files
from tests.servers import SERVERS


@pytest.fixture
def files() -> BucketFiles:
    """Two names that differ by case alone under two labels, and a file with the name of a folder.

    Two writers at the same moment make the latter.
    """
    address = SERVERS.buckets().fresh()
    files, objects = bucket_files(address), Objects(address)
    files.keep(public("A"), b"one", PUBLIC)
    files.keep(public("a"), b"two", DIRTY)
    files.keep(public("x", "y"), b"inside", INTERNAL.join(DIRTY))
    files.keep(public("x", "z"), b"inside too", DIRTY)
    head, body = objects.get("files/public/A", None)
    assert objects.put("files/public/x", body, head.metadata, over=None)
    return files


def public(*parts: str) -> FileLocation:
    return shared("public", PUBLIC, *parts)


def found(files: KeptFiles, reader: Label, *parts: str) -> tuple[bytes, Label] | None:
    one = files.find(public(*parts), reader)
    return None if one is None else (files.load(one.place, 100), one.label)


def test_the_earlier_files_of_a_bucket_are_set_aside_whatever_their_names(tmp_path: Path, files: BucketFiles) -> None:
    returned = ReturnedLabels(tmp_path / "stage", files, lambda: TOP)
    assert returned.set_aside(tmp_path / "before" / "bucket")
    kept = LocalFiles(tmp_path / "before" / "bucket", lambda: TOP)
    assert found(kept, TOP, "A") == (b"one", DIRTY)
    assert found(kept, TOP, "a") == (b"two", DIRTY)
    assert found(kept, TOP, "x") == (b"one", PUBLIC)
    assert found(kept, TOP, "x.folder", "z") == (b"inside too", DIRTY)
    assert found(kept, TOP, "x", "y") == (b"inside", parse("INTERNAL~"))
    assert found(kept, INTERNAL.join(DIRTY), "x", "y") == (b"inside", parse("INTERNAL~"))
    assert found(kept, DIRTY, "x", "y") is None
    returned.drop()
    assert not (tmp_path / "before").exists()


def test_a_backup_comes_back_whatever_its_names(tmp_path: Path, files: BucketFiles) -> None:
    backup, target = list(stored_files(files)), bucket_files(SERVERS.buckets().fresh())
    returned = ReturnedLabels(tmp_path / "stage", target, lambda: TOP)
    for stored in backup:
        returned.put(stored)
    assert returned.renamed == ("files/public/x.folder",)
    returned.finish()
    assert {name.place.name for name in target.kept()} == {"A", "a", "x", "x.folder", "x.folder/z", "x/y"}
    assert found(target, TOP, "x.folder", "z") == (b"inside too", DIRTY)
    assert target.take(KeptName(public("A"))).label == DIRTY


@pytest.mark.parametrize("kind", ["local", "bucket"])
def test_a_folder_is_not_put_back_where_a_file_is(tmp_path: Path, kind: str) -> None:
    files: KeptFiles = LocalFiles(tmp_path, lambda: TOP)
    if kind == "bucket":
        files = bucket_files(SERVERS.buckets().fresh())
    for name, first in (("x", b"text"), ("y", None)):
        files.restore(StoredFile(public(name), first, DIRTY))
        with pytest.raises(UnusableError):
            files.restore(StoredFile(public(name), None if first else b"text", PUBLIC))


def test_no_folder_is_put_back_below_its_label(tmp_path: Path, files: BucketFiles) -> None:
    """Nothing beside a folder that got another name says whose it is."""
    returned = ReturnedLabels(tmp_path / "stage", files, lambda: TOP)
    for stored in stored_files(files):
        returned.put(stored)
    stage = LocalFiles(tmp_path / "stage", lambda: TOP)
    assert stage.take(KeptName(public("x.folder"), folder=True)).label == DIRTY
    shutil.rmtree(tmp_path / "stage")
