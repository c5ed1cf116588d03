"""Labelled files on disk: links lead nowhere, labels are in side files that cannot be lost."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.files.local import LocalFiles
from bot.files.locations import FileLocation, shared
from bot.files.port import AbsentError, UnusableError, text_of
from bot.tools.base import ToolContext
from bot.tools.files import placed
from policy.labels import PUBLIC
from tests.bot.files.kit import met, tilde, write
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, RESTRICTED, TOP, folder_of_files, tool_context


@pytest.fixture
def root(tmp_path: Path) -> LocalFiles:
    return folder_of_files(tmp_path)


def disk(root: LocalFiles, path: str) -> Path:
    """Return where a path is on disk."""
    return root.path(placed(path, tool_context()))


def put(root: LocalFiles, path: str, text: str, where: ToolContext | None = None) -> FileLocation:
    """Write as the operator does: no label."""
    place = placed(path, where or tool_context())
    root.path(place).parent.mkdir(parents=True, exist_ok=True)
    root.path(place).write_text(text)
    return place


def test_a_file_at_the_floor_is_on_disk_under_its_name_and_one_above_is_not(root: LocalFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "plain", PUBLIC)
    write(root, place, "secret", CONFIDENTIAL)
    assert disk(root, "public/x.md").read_text() == "plain"
    assert met(root, place, INTERNAL) == ("plain", DIRTY)
    assert met(root, place, CONFIDENTIAL) == ("secret", tilde(CONFIDENTIAL))


def test_a_tree_that_does_not_say_its_label_is_top(root: LocalFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "secret", INTERNAL)
    (tree,) = (root.path(replace(place, parts=())) / ".above").iterdir()
    (tree / ".label").unlink()
    assert root.find(place, RESTRICTED.join(DIRTY)) is not None
    assert root.find(place, CONFIDENTIAL) is None
    write(root, place, "again", INTERNAL)
    assert met(root, place, INTERNAL) == ("again", tilde(INTERNAL))


def test_a_base_that_is_missing_is_made(root: LocalFiles, tmp_path: Path) -> None:
    place = placed("public/x.md", tool_context())
    root.path(replace(place, parts=())).rmdir()
    assert root.list(replace(place, parts=()), PUBLIC) == ()
    write(root, place, "secret", INTERNAL)
    assert root.list(replace(place, parts=()), PUBLIC) == ()
    write(root, place, "x", PUBLIC)
    assert met(root, place, PUBLIC) == ("x", DIRTY)
    assert sorted(path.name for path in (tmp_path / "files/public").iterdir()) == [".above", ".labels", ".lock", "x.md"]


@pytest.mark.parametrize(
    "damage", [b"", b"PUBLIC{", b"\xff\xfe", b"NONSENSE", b"PUBLIC\nPUBLIC", b"\nfrom e1", b"PUBLIC\nHR\nfrom e1"]
)
def test_unknown_is_worst_for_a_damaged_label(root: LocalFiles, damage: bytes) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "x", PUBLIC)
    (side,) = (root.path(replace(place, parts=())) / ".labels").iterdir()
    side.write_bytes(damage)
    assert root.find(place, CONFIDENTIAL) is None
    assert met(root, place) == ("x", TOP)
    write(root, place, "again", PUBLIC)
    assert met(root, place, CONFIDENTIAL) == ("again", DIRTY), "beside what cannot be read"


def test_unknown_is_worst_for_a_label_that_cannot_be_read(root: LocalFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "x", PUBLIC)
    (side,) = (root.path(replace(place, parts=())) / ".labels").iterdir()
    side.unlink()
    side.mkdir()
    assert met(root, place) == ("x", TOP)


def test_names_that_one_file_system_takes_for_one_share_their_label(root: LocalFiles) -> None:
    write(root, placed("workspace/a\u00e9.md", tool_context()), "x", DIRTY)
    for name in ("workspace/AE\u0301.md", "workspace/Ae\u0301.MD"):
        assert met(root, put(root, name, "x")) == ("x", DIRTY)


def test_a_crash_between_label_and_text_leaves_the_label_too_high_never_too_low(root: LocalFiles) -> None:
    place = put(root, "workspace/x.md", "before")
    # the folder may not be written to, its labels may: what a full disk looks like
    (root.path(replace(place, parts=())) / ".labels").mkdir()
    root.path(replace(place, parts=())).joinpath("x.md").unlink()
    root.path(replace(place, parts=())).joinpath("x.md").mkdir()  # so the rename onto it fails
    with pytest.raises(UnusableError):
        write(root, place, "after", DIRTY)
    assert [label for _, label in root.list(placed("workspace", tool_context()), TOP)] == [DIRTY]


def test_symbolic_links_are_not_there(root: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    public = disk(root, "public")
    (public / "link").symlink_to(tmp_path / "secret")
    (public / "up").symlink_to(tmp_path)
    for path in ("public/link", "public/up/secret"):
        with pytest.raises(AbsentError):
            text_of(root, placed(path, tool_context()))
        assert root.find(placed(path, tool_context()), TOP) is None
    with pytest.raises(AbsentError):
        root.list(placed("public/up", tool_context()), TOP)
    assert root.list(placed("public", tool_context()), TOP) == ()
    with pytest.raises(UnusableError):
        write(root, placed("public/up/new", tool_context()), "x", PUBLIC)
    assert not (tmp_path / "new").exists()


def test_writing_onto_a_link_replaces_the_link(root: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (disk(root, "public") / "link").symlink_to(tmp_path / "secret")
    write(root, placed("public/link", tool_context()), "mine", PUBLIC)
    assert (tmp_path / "secret").read_text() == "secret"
    assert text_of(root, placed("public/link", tool_context())) == "mine"


def test_a_folder_swapped_for_a_link_leads_nowhere(root: LocalFiles, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.md").write_text("secret")
    public = disk(root, "public")
    public.rename(tmp_path / "old")
    public.symlink_to(elsewhere)
    with pytest.raises(AbsentError):
        text_of(root, placed("public/x.md", tool_context()))
    for label in (PUBLIC, CONFIDENTIAL):
        with pytest.raises(UnusableError):
            write(root, placed("public/y.md", tool_context()), "x", label)
    assert [path.name for path in elsewhere.iterdir()] == ["x.md"]


def test_what_is_no_text_file_cannot_be_read(root: LocalFiles) -> None:
    folder = disk(root, "public")
    (folder / "bytes").write_bytes(b"\xff\xfe\x00")
    (folder / "large").write_bytes(b"x" * 10_000_000)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    for name, error in (
        ("bytes", UnusableError),
        ("large", UnusableError),
        ("pipe", AbsentError),
        ("folder", AbsentError),
    ):
        with pytest.raises(error):
            text_of(root, placed(f"public/{name}", tool_context()))


def test_a_listing_is_sorted_and_hides_what_may_not_be_named(root: LocalFiles) -> None:
    folder = disk(root, "public")
    for name in ("b.md", "a.md", ".secret", "c\nd"):
        (folder / name).write_text("x")
    (folder / "sub").mkdir()
    write(root, placed("public/z.md", tool_context()), "x", INTERNAL)
    write(root, placed("public/sub/x.md", tool_context()), "x", INTERNAL)
    assert root.list(placed("public", tool_context()), INTERNAL) == (
        ("a.md", DIRTY),
        ("b.md", DIRTY),
        ("sub/", DIRTY),
        ("z.md", tilde(INTERNAL)),
    )


def test_where_a_file_system_has_no_links_the_copy_is_kept_all_the_same(tmp_path: Path) -> None:
    root = folder_of_files(tmp_path)
    place, folder = shared("public", PUBLIC, "a"), tmp_path / "files/public"
    assert root.swap(place, b"one", PUBLIC, expected=None)
    # Something of the name that a link is made under first is in the way, as any refusal would be.
    (folder / f".{hashlib.sha256(b'a.bak').hexdigest()[:16]}.new").mkdir()
    assert root.swap(place, b"two", PUBLIC, expected=b"one")
    assert ((folder / "a").read_bytes(), (folder / "a.bak").read_bytes()) == (b"two", b"one")
