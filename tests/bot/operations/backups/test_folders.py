"""Files of a data directory in a backup: none comes back below its label, and none is lost."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from bot.core.errors import OperatorError
from bot.files.local import LocalFiles
from bot.files.locations import workspace
from bot.operations.backups.folders import BEFORE, FilePiece, FolderSnapshot, ReturnedFiles
from policy.labels import PUBLIC
from tests.bot.kit import TOP


def pieces(snapshot: FolderSnapshot) -> dict[str, bytes]:
    with snapshot.taken():
        found = dict[str, bytes]()
        for piece in snapshot.pieces():
            found[piece.path] = found.get(piece.path, b"") + piece.content
        return found


def test_a_file_is_never_copied_with_a_lower_label_than_its_content(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path, lambda: TOP)
    place = workspace("s", 1, "note.md")
    base = files.path(place).parent
    files.keep(place, b"clean", PUBLIC)
    found = dict[str, bytes]()
    reader = threading.Thread(target=lambda: found.update(pieces(FolderSnapshot(tmp_path, ()))))
    # As a writer in the middle of its work: the label is not yet that of the content.
    with (base / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reader.start()
        reader.join(0.1)
        assert reader.is_alive()
        (label,) = (base / ".labels").iterdir()
        (base / "note.md").unlink()
        (base / "note.md").write_bytes(b"dirty")
        label.unlink()
        label.write_text("PUBLIC~\n")
    reader.join()
    assert found["session-files/s/1/note.md"] == b"dirty"
    assert found[f"session-files/s/1/.labels/{label.name}"] == b"PUBLIC~\n"


def test_what_is_not_of_the_data_stays_out(tmp_path: Path) -> None:
    for name in ("keys/audit", "store/log", "ready/one.json", "anchors", "secret.txt", "files/a", "files/sub/b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "files" / "link").symlink_to(tmp_path / "keys" / "audit")
    os.mkfifo(tmp_path / "files" / "pipe")
    (tmp_path / "files" / "empty").touch()
    snapshot = FolderSnapshot(tmp_path, (tmp_path / "secret.txt",))
    assert pieces(snapshot) == {
        "files": b"",
        "files/a": b"files/a",
        "files/empty": b"",
        "files/sub": b"",
        "files/sub/b": b"files/sub/b",
    }
    assert snapshot.left_out == 3
    assert not list(tmp_path.glob(".backup-*"))


def test_files_come_back_beside_what_no_backup_holds(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "old").write_text("old")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "secret.txt").write_text("secret")
    (tmp_path / "keys").mkdir()
    back = ReturnedFiles(tmp_path, (tmp_path / "own" / "secret.txt",))
    assert back.present() == ("files", "own")
    back.begin()
    back.put(FilePiece("files", 0o755, None))
    back.put(FilePiece("files/new", 0o640, 0, b"ne"))
    back.put(FilePiece("files/new", 0o640, 2, b"w"))
    back.finish(f"{BEFORE}1")
    assert (tmp_path / "files" / "new").read_bytes() == b"new"
    assert (tmp_path / "own" / "secret.txt").read_text() == "secret"
    assert (tmp_path / f"{BEFORE}1" / "files" / "old").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{BEFORE}1", "files", "keys", "own"]


@pytest.mark.parametrize("path", ["../up", "/root", "a//b", "a/./b", "", "a\0b"])
def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    back = ReturnedFiles(tmp_path, ())
    back.begin()
    with pytest.raises(OperatorError, match="an impossible path"):
        back.put(FilePiece(path, 0o600, 0, b"x"))


@pytest.mark.parametrize("path", ["keys/audit", "store/log", "ready", ".before-restore-1/files"])
def test_a_file_that_no_backup_holds_is_not_put_back(tmp_path: Path, path: str) -> None:
    back = ReturnedFiles(tmp_path, ())
    back.begin()
    with pytest.raises(OperatorError, match="that no backup holds"):
        back.put(FilePiece(path, 0o600, 0, b"x"))


def test_a_link_that_takes_the_place_of_a_file_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("key")
    (tmp_path / "data" / "files").mkdir(parents=True)
    (tmp_path / "data" / "files" / "note").write_text("note")
    snapshot = FolderSnapshot(tmp_path / "data", ())
    with snapshot.taken():
        # As one that was linked after the look at it.
        (place,) = (tmp_path / "data").glob(".backup-*")
        (place / "files" / "note").unlink()
        (place / "files" / "note").symlink_to(tmp_path / "outside")
        assert [piece.path for piece in snapshot.pieces()] == ["files"]
    assert snapshot.left_out == 1


def test_links_of_a_killed_backup_are_removed_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    (tmp_path / ".backup-0").mkdir()
    (tmp_path / ".backup-0" / "deleted").write_text("deleted since")
    (tmp_path / ".backup-1").mkdir()
    with (tmp_path / "files").open("w"):
        living = os.open(tmp_path / ".backup-1", os.O_RDONLY)
    fcntl.flock(living, fcntl.LOCK_EX)
    assert pieces(FolderSnapshot(tmp_path, ())) == {"files": b""}
    os.close(living)
    assert [path.name for path in tmp_path.glob(".backup-*")] == [".backup-1"]


def test_the_first_label_of_a_folder_is_copied_with_the_file_that_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in range(2_000):
        (folder / f"a{name}").touch()
    (folder / "note").write_text("clean")
    found = dict[str, bytes]()
    reader = threading.Thread(target=lambda: found.update(pieces(FolderSnapshot(tmp_path, ()))))
    reader.start()
    while not any(place.joinpath("files").exists() for place in tmp_path.glob(".backup-*")):
        pass
    (folder / ".labels").mkdir()
    (folder / ".labels" / "note").write_text("SECRET")
    (folder / "new").write_text("dirty")
    (folder / "new").replace(folder / "note")
    reader.join()
    assert found["files/note"] == b"clean" or found["files/.labels/note"] == b"SECRET"
