"""Files and their labels on disk: paths that cannot escape, labels that cannot be lost."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.tools.base import RefusedCallError, Scene
from bot.tools.labelled_files import LIMIT, AbsentError, FileRoot, Place, UnusableError
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, INTERNAL, RESTRICTED, TOP, folder_of_files, scene


@pytest.fixture
def root(tmp_path: Path) -> FileRoot:
    return folder_of_files(tmp_path)


def disk(root: FileRoot, path: str) -> Path:
    """Return where a path is on disk."""
    found = root.place(path, scene())
    return found.base.joinpath(*found.parts)


def write(root: FileRoot, place: Place, text: str, label: Label, ceiling: Label = TOP) -> None:
    """Write as the tool does for somebody with this clearance."""
    root.write(place, text, label, ceiling=ceiling, make_base=place.workspace)


def put(root: FileRoot, path: str, text: str, where: Scene | None = None) -> Place:
    """Write as the operator does: no label."""
    place = root.place(path, where or scene())
    place.base.mkdir(parents=True, exist_ok=True)
    place.base.joinpath(*place.parts).write_text(text)
    return place


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "public/../confidential/pipeline.md",
        "public/..",
        "..",
        ".",
        "",
        "public/.hidden",
        ".labels/x",
        "public/.labels/x",
        "public/a\x00b",
        "public/a\nb",
        "public/\x1b[31m",
        "public/\u202egnp",
        "public/" + "x" * 256,
        "workspace/../../s2/1/x",
        "workspace/.labels/x",
        "//public/x",
    ],
)
def test_a_path_that_climbs_hides_or_controls_is_refused(root: FileRoot, path: str) -> None:
    with pytest.raises(RefusedCallError, match="a path is relative"):
        root.place(path, scene())


def test_a_path_is_taken_apart_without_touching_anything(root: FileRoot) -> None:
    place = root.place("public//a/./b.md", scene())
    assert (place.folder, place.name, place.workspace) == ("public", "a/b.md", False)
    assert root.place("workspace/a", scene()).workspace


def test_what_was_written_is_read_with_its_writers_label(root: FileRoot) -> None:
    place = root.place("public/new/deep/x.md", scene())
    write(root, place, "hello ünïcode", CONFIDENTIAL)
    assert root.read(place) == "hello ünïcode"
    assert root.label(place) == CONFIDENTIAL
    # and so do the names of the folders that were made for it
    assert root.list(root.place("public", scene())) == (("new/", CONFIDENTIAL),)


def test_a_file_that_is_written_again_keeps_the_higher_label(root: FileRoot) -> None:
    place = root.place("public/x.md", scene())
    write(root, place, "secret", CONFIDENTIAL)
    write(root, place, "harmless", PUBLIC)
    assert root.label(place) == CONFIDENTIAL


def test_a_file_above_the_writer_is_not_replaced(root: FileRoot) -> None:
    place = root.place("public/x.md", scene())
    write(root, place, "secret", CONFIDENTIAL)
    with pytest.raises(UnusableError):
        write(root, place, "mine", PUBLIC, ceiling=INTERNAL)
    assert (root.read(place), root.label(place)) == ("secret", CONFIDENTIAL)


def test_a_configured_folder_that_is_missing_is_made(root: FileRoot) -> None:
    place = root.place("new/x.md", scene())
    with pytest.raises(UnusableError):
        root.write(place, "x", PUBLIC, ceiling=TOP, make_base=False)
    root.write(place, "x", PUBLIC, ceiling=TOP, make_base=True)
    assert root.read(place) == "x"


def test_a_file_of_the_operator_has_no_label_of_its_own(root: FileRoot) -> None:
    assert root.label(put(root, "public/x.md", "x")) == PUBLIC


def test_a_file_in_a_labelled_folder_has_at_least_the_folders_label(root: FileRoot) -> None:
    write(root, root.place("public/new/x.md", scene()), "x", INTERNAL)
    beside = put(root, "public/new/y.md", "y")
    assert root.label(beside) == INTERNAL


@pytest.mark.parametrize("damage", [b"", b"PUBLIC{", b"\xff\xfe", b"NONSENSE", b"PUBLIC\nPUBLIC"])
def test_unknown_is_worst_for_a_damaged_label(root: FileRoot, damage: bytes) -> None:
    place = root.place("public/x.md", scene())
    write(root, place, "x", PUBLIC)
    (side,) = (place.base / ".labels").iterdir()
    side.write_bytes(damage)
    assert root.label(place) == TOP
    write(root, place, "again", PUBLIC)
    assert root.label(place) == TOP


def test_unknown_is_worst_for_a_label_that_cannot_be_read(root: FileRoot) -> None:
    place = root.place("public/x.md", scene())
    write(root, place, "x", PUBLIC)
    (side,) = (place.base / ".labels").iterdir()
    side.unlink()
    side.mkdir()
    assert root.label(place) == TOP


def test_names_that_one_file_system_takes_for_one_share_their_label(root: FileRoot) -> None:
    write(root, root.place("public/a\u00e9.md", scene()), "x", CONFIDENTIAL)
    for name in ("public/AE\u0301.md", "public/Ae\u0301.MD"):
        assert root.label(put(root, name, "x")) == CONFIDENTIAL


def test_a_crash_between_label_and_text_leaves_the_label_too_high_never_too_low(root: FileRoot) -> None:
    place = put(root, "public/x.md", "before")
    # the folder may not be written to, its labels may: what a full disk looks like
    (place.base / ".labels").mkdir()
    place.base.joinpath("x.md").unlink()
    place.base.joinpath("x.md").mkdir()  # so the rename onto it fails
    with pytest.raises(UnusableError):
        write(root, place, "after", CONFIDENTIAL)
    assert [label for _, label in root.list(root.place("public", scene()))] == [CONFIDENTIAL]


def test_symbolic_links_are_not_there(root: FileRoot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    public = disk(root, "public")
    (public / "link").symlink_to(tmp_path / "secret")
    (public / "up").symlink_to(tmp_path)
    for path in ("public/link", "public/up/secret"):
        with pytest.raises(AbsentError):
            root.read(root.place(path, scene()))
        with pytest.raises(AbsentError):
            root.label(root.place(path, scene()))
    with pytest.raises(AbsentError):
        root.list(root.place("public/up", scene()))
    assert root.list(root.place("public", scene())) == ()
    with pytest.raises(UnusableError):
        write(root, root.place("public/up/new", scene()), "x", PUBLIC)
    assert not (tmp_path / "new").exists()


def test_writing_onto_a_link_replaces_the_link(root: FileRoot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (disk(root, "public") / "link").symlink_to(tmp_path / "secret")
    write(root, root.place("public/link", scene()), "mine", PUBLIC)
    assert (tmp_path / "secret").read_text() == "secret"
    assert root.read(root.place("public/link", scene())) == "mine"


def test_a_folder_swapped_for_a_link_leads_nowhere(root: FileRoot, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.md").write_text("secret")
    public = disk(root, "public")
    public.rename(tmp_path / "old")
    public.symlink_to(elsewhere)
    with pytest.raises(AbsentError):
        root.read(root.place("public/x.md", scene()))
    with pytest.raises(UnusableError):
        write(root, root.place("public/y.md", scene()), "x", PUBLIC)
    assert not (elsewhere / "y.md").exists()


def test_what_is_no_text_file_cannot_be_read(root: FileRoot) -> None:
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
            root.read(root.place(f"public/{name}", scene()))


@pytest.mark.parametrize("path", ["public/none.md", "public/none/x", "nowhere/x", "public/x.md/y", "public"])
def test_what_is_missing_is_missing(root: FileRoot, path: str) -> None:
    put(root, "public/x.md", "x")
    with pytest.raises(AbsentError):
        root.read(root.place(path, scene()))


def test_the_largest_file_is_a_million_bytes(root: FileRoot) -> None:
    place = root.place("public/x.md", scene())
    write(root, place, "x" * LIMIT, PUBLIC)
    assert len(root.read(place)) == LIMIT
    with pytest.raises(UnusableError):
        write(root, place, "x" * (LIMIT + 1), PUBLIC)
    with pytest.raises(UnusableError):
        write(root, place, "ü" * (LIMIT // 2 + 1), PUBLIC)


def test_half_characters_are_written_as_marks(root: FileRoot) -> None:
    place = root.place("public/x.md", scene())
    write(root, place, "a\ud800b", PUBLIC)
    assert root.read(place) == "a?b"


@pytest.mark.parametrize("path", ["public", "nowhere/x.md", "public/taken/x.md"])
def test_what_cannot_be_written_is_not(root: FileRoot, path: str) -> None:
    put(root, "public/taken", "a file, not a folder")
    with pytest.raises(UnusableError):
        write(root, root.place(path, scene()), "x", PUBLIC)


def test_a_workspace_belongs_to_one_session_and_one_generation(root: FileRoot) -> None:
    write(root, root.place("workspace/x.md", scene()), "mine", RESTRICTED)
    assert root.read(root.place("workspace/x.md", scene())) == "mine"
    for other in (replace(scene(), sid="s2"), replace(scene(), generation=2)):
        with pytest.raises(AbsentError):
            root.read(root.place("workspace/x.md", other))
        assert root.list(root.place("workspace", other)) == ()


def test_a_reset_empties_the_workspaces_before_it(root: FileRoot) -> None:
    for generation in (1, 2, 3):
        write(root, root.place("workspace/x.md", replace(scene(), generation=generation)), "x", PUBLIC)
    root.forget("s1", 3)
    root.forget("s1", 3)
    root.forget("nobody", 3)
    for generation in (1, 2):
        with pytest.raises(AbsentError):
            root.read(root.place("workspace/x.md", replace(scene(), generation=generation)))
    assert root.read(root.place("workspace/x.md", replace(scene(), generation=3))) == "x"


def test_a_missing_folder_of_a_workspace_is_missing(root: FileRoot) -> None:
    with pytest.raises(AbsentError):
        root.list(root.place("workspace/none", scene()))


def test_a_listing_is_sorted_and_hides_what_may_not_be_named(root: FileRoot) -> None:
    folder = disk(root, "public")
    for name in ("b.md", "a.md", ".secret", "c\nd"):
        (folder / name).write_text("x")
    (folder / "sub").mkdir()
    write(root, root.place("public/z.md", scene()), "x", INTERNAL)
    assert root.list(root.place("public", scene())) == (
        ("a.md", PUBLIC),
        ("b.md", PUBLIC),
        ("sub/", PUBLIC),
        ("z.md", INTERNAL),
    )


@pytest.mark.anyio
async def test_writers_at_once_leave_a_label_that_covers_all_of_them(root: FileRoot) -> None:
    place = root.place("public/x.md", scene())
    labels = [parse(text) for text in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")]
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(asyncio.to_thread(write, root, place, str(n), labels[n % 4]))
    assert await asyncio.to_thread(root.label, place) == RESTRICTED
