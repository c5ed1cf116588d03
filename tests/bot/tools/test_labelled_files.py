"""Files and their labels on disk: paths that cannot escape, labels that cannot be lost."""

import asyncio
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.tools.base import RefusedCallError, ToolContext
from bot.tools.labelled_files import LIMIT, AbsentError, FileLocation, FileRoot, UnusableError
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, RESTRICTED, TOP, folder_of_files, tool_context


@pytest.fixture
def root(tmp_path: Path) -> FileRoot:
    return folder_of_files(tmp_path)


def disk(root: FileRoot, path: str) -> Path:
    """Return where a path is on disk."""
    found = root.place(path, tool_context())
    return found.base.joinpath(*found.parts)


def write(root: FileRoot, place: FileLocation, text: str, label: Label) -> None:
    """Write as the tool does for a session that has read this."""
    root.write(place, text, label)


def met(root: FileRoot, place: FileLocation, reader: Label = TOP) -> tuple[str, Label]:
    """Return the file of a name that a reader meets, with its label."""
    found = root.find(place, reader)
    assert found is not None
    return root.read(found.place), found.label


def tilde(label: Label) -> Label:
    """Return a label as it is read from a folder that is UNTRUSTED, as the shipped ones are."""
    return label.join(DIRTY)


def put(root: FileRoot, path: str, text: str, where: ToolContext | None = None) -> FileLocation:
    """Write as the operator does: no label."""
    place = root.place(path, where or tool_context())
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
        root.place(path, tool_context())


def test_a_path_is_taken_apart_without_touching_anything(root: FileRoot) -> None:
    place = root.place("public//a/./b.md", tool_context())
    assert (place.folder, place.name, place.workspace) == ("public", "a/b.md", False)
    assert root.place("workspace/a", tool_context()).workspace


def test_what_was_written_is_read_with_its_writers_label(root: FileRoot) -> None:
    place = root.place("public/new/deep/x.md", tool_context())
    write(root, place, "hello ünïcode", CONFIDENTIAL)
    assert met(root, place) == ("hello ünïcode", tilde(CONFIDENTIAL))
    # and so do the names of the folders that were made for it
    assert root.list(root.place("public", tool_context()), CONFIDENTIAL) == (("new/", tilde(CONFIDENTIAL)),)
    assert root.list(root.place("public", tool_context()), INTERNAL) == ()
    with pytest.raises(AbsentError):
        root.list(root.place("public/new", tool_context()), INTERNAL)


def test_a_file_at_the_floor_is_on_disk_under_its_name_and_one_above_is_not(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "plain", PUBLIC)
    write(root, place, "secret", CONFIDENTIAL)
    assert disk(root, "public/x.md").read_text() == "plain"
    assert met(root, place, INTERNAL) == ("plain", DIRTY)
    assert met(root, place, CONFIDENTIAL) == ("secret", tilde(CONFIDENTIAL))


def test_each_level_with_its_compartments_has_a_file_of_its_own(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    labels = [parse(text) for text in ("CONFIDENTIAL{acme}", "CONFIDENTIAL{hr}", "INTERNAL{acme,hr}", "INTERNAL")]
    for label in labels:
        write(root, place, str(label), label)
    for label in labels:
        assert met(root, place, label) == (str(label), tilde(label))
    # Of two that neither is above the other the same one is met by everybody who may know of both.
    assert met(root, place, parse("CONFIDENTIAL{acme,hr}"))[0] == "CONFIDENTIAL{hr}"
    assert [name for name, _ in root.list(root.place("public", tool_context()), parse("INTERNAL{acme,hr}"))] == [
        "x.md"
    ] * 2


def test_integrity_makes_no_file_of_its_own_and_is_kept(root: FileRoot) -> None:
    place = replace(root.place("public/x.md", tool_context()), floor=PUBLIC)
    for label in (INTERNAL, tilde(INTERNAL), INTERNAL):
        write(root, place, str(label), label)
    assert met(root, place) == ("INTERNAL", tilde(INTERNAL))


def test_a_writer_below_neither_meets_nor_replaces_a_file_above(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "secret", CONFIDENTIAL)
    assert root.find(place, INTERNAL) is None
    write(root, place, "mine", PUBLIC)
    assert met(root, place, INTERNAL) == ("mine", DIRTY)
    assert met(root, place, CONFIDENTIAL) == ("secret", tilde(CONFIDENTIAL))


def test_a_folder_above_is_not_in_the_way_of_a_file_below(root: FileRoot) -> None:
    write(root, root.place("public/a/b", tool_context()), "secret", CONFIDENTIAL)
    write(root, root.place("public/a", tool_context()), "mine", PUBLIC)
    assert met(root, root.place("public/a", tool_context())) == ("mine", DIRTY)
    folder = root.list(root.place("public", tool_context()), CONFIDENTIAL)
    assert folder == (("a", DIRTY), ("a/", tilde(CONFIDENTIAL)))


def test_who_may_not_replace_writes_only_what_is_not_there(root: FileRoot) -> None:
    for name in ("x.md", "new/y.md"):
        root.write(root.place(f"internal/{name}", tool_context()), "first", PUBLIC, replaces=False)
        with pytest.raises(UnusableError):
            root.write(root.place(f"internal/{name}", tool_context()), "second", PUBLIC, replaces=False)
        assert met(root, root.place(f"internal/{name}", tool_context()))[0] == "first"


def test_what_a_lowered_floor_leaves_above_is_hidden_and_in_nobodys_way(root: FileRoot) -> None:
    high = replace(root.place("public/a/x.md", tool_context()), floor=CONFIDENTIAL)
    write(root, high, "secret", CONFIDENTIAL)
    low = replace(high, floor=PUBLIC)
    assert root.find(low, PUBLIC) is None
    assert root.list(replace(low, parts=()), PUBLIC) == ()
    for text in ("mine", "mine again"):
        write(root, low, text, PUBLIC)
        assert met(root, low, PUBLIC) == (text, PUBLIC)
    assert met(root, low, CONFIDENTIAL) == ("secret", CONFIDENTIAL)
    assert root.list(replace(low, parts=("a",)), PUBLIC) == (("x.md", PUBLIC),)


def test_a_raised_floor_raises_all_that_is_there(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "internal", INTERNAL)
    write(root, place, "public", PUBLIC)
    raised = replace(place, floor=parse("PUBLIC{hr}"))
    assert root.find(raised, INTERNAL) is None
    assert met(root, raised, parse("INTERNAL{hr}")) == ("internal", parse("INTERNAL{hr}"))


def test_a_tree_that_does_not_say_its_label_is_top(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "secret", INTERNAL)
    (tree,) = (place.base / ".above").iterdir()
    (tree / ".label").unlink()
    assert root.find(place, RESTRICTED.join(DIRTY)) is not None
    assert root.find(place, CONFIDENTIAL) is None
    write(root, place, "again", INTERNAL)
    assert met(root, place, INTERNAL) == ("again", tilde(INTERNAL))


def test_a_base_that_is_missing_is_made(root: FileRoot, tmp_path: Path) -> None:
    place = root.place("public/x.md", tool_context())
    place.base.rmdir()
    assert root.list(replace(place, parts=()), PUBLIC) == ()
    write(root, place, "secret", INTERNAL)
    assert root.list(replace(place, parts=()), PUBLIC) == ()
    write(root, place, "x", PUBLIC)
    assert met(root, place, PUBLIC) == ("x", DIRTY)
    assert sorted(path.name for path in (tmp_path / "files/public").iterdir()) == [".above", ".labels", ".lock", "x.md"]


def test_a_file_of_the_operator_has_no_label_of_its_own(root: FileRoot) -> None:
    assert met(root, put(root, "public/x.md", "x")) == ("x", DIRTY)


def test_a_file_in_a_labelled_folder_has_at_least_the_folders_label(root: FileRoot) -> None:
    write(root, root.place("workspace/new/x.md", tool_context()), "x", DIRTY)
    beside = put(root, "workspace/new/y.md", "y")
    assert met(root, beside) == ("y", DIRTY)


@pytest.mark.parametrize(
    "damage", [b"", b"PUBLIC{", b"\xff\xfe", b"NONSENSE", b"PUBLIC\nPUBLIC", b"\nfrom e1", b"PUBLIC\nHR\nfrom e1"]
)
def test_unknown_is_worst_for_a_damaged_label(root: FileRoot, damage: bytes) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "x", PUBLIC)
    (side,) = (place.base / ".labels").iterdir()
    side.write_bytes(damage)
    assert root.find(place, CONFIDENTIAL) is None
    assert met(root, place) == ("x", TOP)
    write(root, place, "again", PUBLIC)
    assert met(root, place, CONFIDENTIAL) == ("again", DIRTY), "beside what cannot be read"


def test_unknown_is_worst_for_a_label_that_cannot_be_read(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "x", PUBLIC)
    (side,) = (place.base / ".labels").iterdir()
    side.unlink()
    side.mkdir()
    assert met(root, place) == ("x", TOP)


def test_names_that_one_file_system_takes_for_one_share_their_label(root: FileRoot) -> None:
    write(root, root.place("workspace/a\u00e9.md", tool_context()), "x", DIRTY)
    for name in ("workspace/AE\u0301.md", "workspace/Ae\u0301.MD"):
        assert met(root, put(root, name, "x")) == ("x", DIRTY)


def test_a_crash_between_label_and_text_leaves_the_label_too_high_never_too_low(root: FileRoot) -> None:
    place = put(root, "workspace/x.md", "before")
    # the folder may not be written to, its labels may: what a full disk looks like
    (place.base / ".labels").mkdir()
    place.base.joinpath("x.md").unlink()
    place.base.joinpath("x.md").mkdir()  # so the rename onto it fails
    with pytest.raises(UnusableError):
        write(root, place, "after", DIRTY)
    assert [label for _, label in root.list(root.place("workspace", tool_context()), TOP)] == [DIRTY]


def test_symbolic_links_are_not_there(root: FileRoot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    public = disk(root, "public")
    (public / "link").symlink_to(tmp_path / "secret")
    (public / "up").symlink_to(tmp_path)
    for path in ("public/link", "public/up/secret"):
        with pytest.raises(AbsentError):
            root.read(root.place(path, tool_context()))
        assert root.find(root.place(path, tool_context()), TOP) is None
    with pytest.raises(AbsentError):
        root.list(root.place("public/up", tool_context()), TOP)
    assert root.list(root.place("public", tool_context()), TOP) == ()
    with pytest.raises(UnusableError):
        write(root, root.place("public/up/new", tool_context()), "x", PUBLIC)
    assert not (tmp_path / "new").exists()


def test_writing_onto_a_link_replaces_the_link(root: FileRoot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (disk(root, "public") / "link").symlink_to(tmp_path / "secret")
    write(root, root.place("public/link", tool_context()), "mine", PUBLIC)
    assert (tmp_path / "secret").read_text() == "secret"
    assert root.read(root.place("public/link", tool_context())) == "mine"


def test_a_folder_swapped_for_a_link_leads_nowhere(root: FileRoot, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.md").write_text("secret")
    public = disk(root, "public")
    public.rename(tmp_path / "old")
    public.symlink_to(elsewhere)
    with pytest.raises(AbsentError):
        root.read(root.place("public/x.md", tool_context()))
    for label in (PUBLIC, CONFIDENTIAL):
        with pytest.raises(UnusableError):
            write(root, root.place("public/y.md", tool_context()), "x", label)
    assert [path.name for path in elsewhere.iterdir()] == ["x.md"]


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
            root.read(root.place(f"public/{name}", tool_context()))


@pytest.mark.parametrize("path", ["public/none.md", "public/none/x", "workspace/x", "public/x.md/y", "public"])
def test_what_is_missing_is_missing(root: FileRoot, path: str) -> None:
    put(root, "public/x.md", "x")
    with pytest.raises(AbsentError):
        root.read(root.place(path, tool_context()))


def test_the_largest_file_is_a_million_bytes(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "x" * LIMIT, PUBLIC)
    assert len(root.read(place)) == LIMIT
    with pytest.raises(UnusableError):
        write(root, place, "x" * (LIMIT + 1), PUBLIC)
    with pytest.raises(UnusableError):
        write(root, place, "ü" * (LIMIT // 2 + 1), PUBLIC)


def test_half_characters_are_written_as_marks(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    write(root, place, "a\ud800b", PUBLIC)
    assert root.read(place) == "a?b"


@pytest.mark.parametrize("path", ["public", "public/taken/x.md"])
def test_what_cannot_be_written_is_not(root: FileRoot, path: str) -> None:
    put(root, "public/taken", "a file, not a folder")
    with pytest.raises(UnusableError):
        write(root, root.place(path, tool_context()), "x", PUBLIC)


def test_a_workspace_belongs_to_one_session_and_one_generation(root: FileRoot) -> None:
    write(root, root.place("workspace/x.md", tool_context()), "mine", RESTRICTED)
    assert met(root, root.place("workspace/x.md", tool_context())) == ("mine", RESTRICTED)
    for other in (tool_context(sid="s2"), tool_context(generation=2)):
        assert root.find(root.place("workspace/x.md", other), TOP) is None
        assert root.list(root.place("workspace", other), TOP) == ()


def test_what_is_above_its_session_in_a_workspace_is_not_there(root: FileRoot) -> None:
    """A call by reference writes what the session has not read; whether it was written must not show."""
    place = root.place("workspace/x.md", tool_context())
    write(root, place, "secret", CONFIDENTIAL)
    assert root.find(place, PUBLIC) is None
    assert root.list(root.place("workspace", tool_context()), PUBLIC) == ()
    write(root, place, "own", PUBLIC)
    assert met(root, place, PUBLIC) == ("own", PUBLIC)
    assert met(root, place, CONFIDENTIAL) == ("secret", CONFIDENTIAL)


def test_a_reset_empties_the_workspaces_before_it(root: FileRoot) -> None:
    for generation in (1, 2, 3):
        write(root, root.place("workspace/x.md", tool_context(generation=generation)), "x", PUBLIC)
    root.forget("s1", 3)
    root.forget("s1", 3)
    root.forget("nobody", 3)
    for generation in (1, 2):
        with pytest.raises(AbsentError):
            root.read(root.place("workspace/x.md", tool_context(generation=generation)))
    assert root.read(root.place("workspace/x.md", tool_context(generation=3))) == "x"


def test_a_missing_folder_of_a_workspace_is_missing(root: FileRoot) -> None:
    with pytest.raises(AbsentError):
        root.list(root.place("workspace/none", tool_context()), TOP)


def test_a_listing_is_sorted_and_hides_what_may_not_be_named(root: FileRoot) -> None:
    folder = disk(root, "public")
    for name in ("b.md", "a.md", ".secret", "c\nd"):
        (folder / name).write_text("x")
    (folder / "sub").mkdir()
    write(root, root.place("public/z.md", tool_context()), "x", INTERNAL)
    write(root, root.place("public/sub/x.md", tool_context()), "x", INTERNAL)
    assert root.list(root.place("public", tool_context()), INTERNAL) == (
        ("a.md", DIRTY),
        ("b.md", DIRTY),
        ("sub/", DIRTY),
        ("z.md", tilde(INTERNAL)),
    )


@pytest.mark.anyio
async def test_writers_at_once_leave_a_label_that_covers_all_of_them(root: FileRoot) -> None:
    place = root.place("workspace/x.md", tool_context())
    labels = [parse(text) for text in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")]
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(asyncio.to_thread(write, root, place, str(n), labels[n % 4]))
    found = await asyncio.to_thread(root.find, place, TOP)
    assert found is not None
    assert found.label == RESTRICTED


@pytest.mark.anyio
async def test_writers_at_several_levels_at_once_are_in_nobodys_way(root: FileRoot) -> None:
    place = root.place("public/x.md", tool_context())
    labels = [parse(text) for text in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")]
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(asyncio.to_thread(write, root, place, str(labels[n % 4]), labels[n % 4]))
    for label in labels:
        assert await asyncio.to_thread(met, root, place, label) == (str(label), tilde(label))


def test_a_file_is_swapped_where_it_is_as_expected(tmp_path: Path) -> None:
    root = folder_of_files(tmp_path)
    place = root.shared("public", PUBLIC, "a", "state.json")
    here, beside = tmp_path / "files/public/a/state.json", tmp_path / "files/public/a/state.json.bak"
    assert root.swap(place, b"one", PUBLIC, expected=None)
    for wrong in (None, b"two"):
        assert not root.swap(place, b"three", PUBLIC, expected=wrong)
    assert (here.read_bytes(), beside.exists()) == (b"one", False)
    assert root.swap(place, b"two", PUBLIC, expected=b"one")
    assert (here.read_bytes(), beside.read_bytes()) == (b"two", b"one")
    assert not root.swap(root.shared("public", PUBLIC, "b"), b"", PUBLIC, expected=b"one")
    with pytest.raises(UnusableError):
        root.swap(root.shared("public", PUBLIC, "a", "state.json", "below"), b"", PUBLIC, expected=None)


def test_a_swapped_file_has_its_new_label_and_its_copy_the_old_one(tmp_path: Path) -> None:
    root = folder_of_files(tmp_path)
    place, copy = root.shared("public", PUBLIC, "a"), root.shared("public", PUBLIC, "a.bak")
    assert not root.owned(place)
    root.write(place, "theirs", DIRTY)
    assert root.owned(place)
    assert root.written(place, PUBLIC).label == DIRTY
    assert root.swap(place, b"ours", PUBLIC, expected=b"theirs")
    assert root.written(place, PUBLIC).label == PUBLIC
    assert root.written(copy, PUBLIC).label == DIRTY


def test_what_is_above_the_floor_is_swapped_in_its_tree(tmp_path: Path) -> None:
    root = folder_of_files(tmp_path)
    place = root.shared("public", PUBLIC, "a")
    assert root.swap(place, b"low", PUBLIC, expected=None)
    assert root.swap(place, b"high", CONFIDENTIAL, expected=None)
    found = root.written(place, CONFIDENTIAL)
    assert (found.label, root.load(found.place, 9)) == (CONFIDENTIAL, b"high")
    assert (tmp_path / "files/public/a").read_bytes() == b"low"


def test_where_a_file_system_has_no_links_the_copy_is_kept_all_the_same(tmp_path: Path) -> None:
    root = folder_of_files(tmp_path)
    place, folder = root.shared("public", PUBLIC, "a"), tmp_path / "files/public"
    assert root.swap(place, b"one", PUBLIC, expected=None)
    # Something of the name that a link is made under first is in the way, as any refusal would be.
    (folder / f".{hashlib.sha256(b'a.bak').hexdigest()[:16]}.new").mkdir()
    assert root.swap(place, b"two", PUBLIC, expected=b"one")
    assert ((folder / "a").read_bytes(), (folder / "a.bak").read_bytes()) == (b"two", b"one")
