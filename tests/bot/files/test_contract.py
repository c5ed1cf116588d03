"""The contract of labelled files, which holds wherever they are kept: labels that cannot be lost, names that hide.

What an implementation alone has is tested beside this: links and side files on disk, metadata and races in a bucket.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.files.kept import KeptFiles, KeptName, StoredFile
from bot.files.local import LocalFiles
from bot.files.locations import FileLocation, shared, workspace
from bot.files.port import LIMIT, AbsentError, LabelledFiles, UnusableError, keep_text, text_of
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from bot.tools.files import placed
from policy.labels import PUBLIC, Label, parse
from tests.bot.files.kit import met, tilde, write
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, RESTRICTED, TOP, tool_context
from tests.buckets import bucket_files
from tests.servers import SERVERS


def made(kind: str, folder: Path) -> KeptFiles:
    """Return files of a kind, none of which is there."""
    if kind == "bucket":
        return bucket_files(SERVERS.buckets().fresh("some/prefix"))
    folder.mkdir(exist_ok=True)
    return LocalFiles(folder, lambda: TOP)


@pytest.fixture(params=["local", "bucket"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def root(kind: str, tmp_path: Path) -> KeptFiles:
    return made(kind, tmp_path / "one")


@pytest.fixture
def first(kind: str, tmp_path: Path) -> KeptFiles:
    """Files of an installation that never ran."""
    return made(kind, tmp_path / "first")


@pytest.fixture(params=["local", "bucket"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> KeptFiles:
    """Another place for files, of the same kind or of another."""
    return made(request.param, tmp_path / "other")


def put(root: KeptFiles, path: str, text: str, where: ToolContext | None = None) -> FileLocation:
    """Put a file there as the operator: it has the label of its floor."""
    place = placed(path, where or tool_context())
    bare = replace(place, floor=PUBLIC)
    for depth in range(1, len(place.parts)):
        root.restore(StoredFile(replace(bare, parts=place.parts[:depth]), None, None))
    root.restore(StoredFile(bare, text.encode(), None))
    return place


def test_what_was_written_is_read_with_its_writers_label(root: KeptFiles) -> None:
    place = placed("public/new/deep/x.md", tool_context())
    write(root, place, "hello ünïcode", CONFIDENTIAL)
    assert met(root, place) == ("hello ünïcode", tilde(CONFIDENTIAL))
    # and so do the names of the folders that were made for it
    assert root.list(placed("public", tool_context()), CONFIDENTIAL) == (("new/", tilde(CONFIDENTIAL)),)
    assert root.list(placed("public", tool_context()), INTERNAL) == ()
    with pytest.raises(AbsentError):
        root.list(placed("public/new", tool_context()), INTERNAL)


def test_each_level_with_its_compartments_has_a_file_of_its_own(root: KeptFiles) -> None:
    place = placed("public/x.md", tool_context())
    labels = [parse(text) for text in ("CONFIDENTIAL{acme}", "CONFIDENTIAL{hr}", "INTERNAL{acme,hr}", "INTERNAL")]
    for label in labels:
        write(root, place, str(label), label)
    for label in labels:
        assert met(root, place, label) == (str(label), tilde(label))
    # Of two that neither is above the other the same one is met by everybody who may know of both.
    assert met(root, place, parse("CONFIDENTIAL{acme,hr}"))[0] == "CONFIDENTIAL{hr}"
    assert [name for name, _ in root.list(placed("public", tool_context()), parse("INTERNAL{acme,hr}"))] == ["x.md"] * 2


def test_integrity_makes_no_file_of_its_own_and_is_kept(root: KeptFiles) -> None:
    place = replace(placed("public/x.md", tool_context()), floor=PUBLIC)
    for label in (INTERNAL, tilde(INTERNAL), INTERNAL):
        write(root, place, str(label), label)
    assert met(root, place) == ("INTERNAL", tilde(INTERNAL))


def test_a_writer_below_neither_meets_nor_replaces_a_file_above(root: KeptFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "secret", CONFIDENTIAL)
    assert root.find(place, INTERNAL) is None
    write(root, place, "mine", PUBLIC)
    assert met(root, place, INTERNAL) == ("mine", DIRTY)
    assert met(root, place, CONFIDENTIAL) == ("secret", tilde(CONFIDENTIAL))


def test_a_folder_above_is_not_in_the_way_of_a_file_below(root: KeptFiles) -> None:
    write(root, placed("public/a/b", tool_context()), "secret", CONFIDENTIAL)
    write(root, placed("public/a", tool_context()), "mine", PUBLIC)
    assert met(root, placed("public/a", tool_context())) == ("mine", DIRTY)
    folder = root.list(placed("public", tool_context()), CONFIDENTIAL)
    assert folder == (("a", DIRTY), ("a/", tilde(CONFIDENTIAL)))


def test_who_may_not_replace_writes_only_what_is_not_there(root: KeptFiles) -> None:
    for name in ("x.md", "new/y.md"):
        keep_text(root, placed(f"internal/{name}", tool_context()), "first", PUBLIC, replaces=False)
        with pytest.raises(UnusableError):
            keep_text(root, placed(f"internal/{name}", tool_context()), "second", PUBLIC, replaces=False)
        assert met(root, placed(f"internal/{name}", tool_context()))[0] == "first"


def test_what_a_lowered_floor_leaves_above_is_hidden_and_in_nobodys_way(root: KeptFiles) -> None:
    high = replace(placed("public/a/x.md", tool_context()), floor=CONFIDENTIAL)
    write(root, high, "secret", CONFIDENTIAL)
    low = replace(high, floor=PUBLIC)
    assert root.find(low, PUBLIC) is None
    assert root.list(replace(low, parts=()), PUBLIC) == ()
    for text in ("mine", "mine again"):
        write(root, low, text, PUBLIC)
        assert met(root, low, PUBLIC) == (text, PUBLIC)
    assert met(root, low, CONFIDENTIAL) == ("secret", CONFIDENTIAL)
    assert root.list(replace(low, parts=("a",)), PUBLIC) == (("x.md", PUBLIC),)


def test_a_raised_floor_raises_all_that_is_there(root: KeptFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "internal", INTERNAL)
    write(root, place, "public", PUBLIC)
    raised = replace(place, floor=parse("PUBLIC{hr}"))
    assert root.find(raised, INTERNAL) is None
    assert met(root, raised, parse("INTERNAL{hr}")) == ("internal", parse("INTERNAL{hr}"))


def test_a_file_of_the_operator_has_no_label_of_its_own(root: KeptFiles) -> None:
    assert met(root, put(root, "public/x.md", "x")) == ("x", DIRTY)


def test_a_file_in_a_labelled_folder_has_at_least_the_folders_label(root: KeptFiles) -> None:
    write(root, placed("workspace/new/x.md", tool_context()), "x", DIRTY)
    beside = put(root, "workspace/new/y.md", "y")
    assert met(root, beside) == ("y", DIRTY)


@pytest.mark.parametrize("path", ["public/none.md", "public/none/x", "workspace/x", "public/x.md/y", "public"])
def test_what_is_missing_is_missing(root: KeptFiles, path: str) -> None:
    put(root, "public/x.md", "x")
    with pytest.raises(AbsentError):
        text_of(root, placed(path, tool_context()))


def test_the_largest_file_is_a_million_bytes(root: KeptFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "x" * LIMIT, PUBLIC)
    assert len(text_of(root, place)) == LIMIT
    with pytest.raises(UnusableError):
        write(root, place, "x" * (LIMIT + 1), PUBLIC)
    with pytest.raises(UnusableError):
        write(root, place, "ü" * (LIMIT // 2 + 1), PUBLIC)


def test_half_characters_are_written_as_marks(root: KeptFiles) -> None:
    place = placed("public/x.md", tool_context())
    write(root, place, "a\ud800b", PUBLIC)
    assert text_of(root, place) == "a?b"


@pytest.mark.parametrize("path", ["public", "public/taken/x.md"])
def test_what_cannot_be_written_is_not(root: KeptFiles, path: str) -> None:
    put(root, "public/taken", "a file, not a folder")
    with pytest.raises(UnusableError):
        write(root, placed(path, tool_context()), "x", PUBLIC)


def test_a_workspace_belongs_to_one_session_and_one_generation(root: KeptFiles) -> None:
    write(root, placed("workspace/x.md", tool_context()), "mine", RESTRICTED)
    assert met(root, placed("workspace/x.md", tool_context())) == ("mine", RESTRICTED)
    for other in (tool_context(sid="s2"), tool_context(generation=2)):
        assert root.find(placed("workspace/x.md", other), TOP) is None
        assert root.list(placed("workspace", other), TOP) == ()


def test_what_is_above_its_session_in_a_workspace_is_not_there(root: KeptFiles) -> None:
    """A call by reference writes what the session has not read; whether it was written must not show."""
    place = placed("workspace/x.md", tool_context())
    write(root, place, "secret", CONFIDENTIAL)
    assert root.find(place, PUBLIC) is None
    assert root.list(placed("workspace", tool_context()), PUBLIC) == ()
    write(root, place, "own", PUBLIC)
    assert met(root, place, PUBLIC) == ("own", PUBLIC)
    assert met(root, place, CONFIDENTIAL) == ("secret", CONFIDENTIAL)


def test_a_reset_empties_the_workspaces_before_it(root: KeptFiles) -> None:
    for generation in (1, 2, 3):
        write(root, placed("workspace/x.md", tool_context(generation=generation)), "x", PUBLIC)
    root.forget("s1", 3)
    root.forget("s1", 3)
    root.forget("nobody", 3)
    for generation in (1, 2):
        with pytest.raises(AbsentError):
            text_of(root, placed("workspace/x.md", tool_context(generation=generation)))
    assert text_of(root, placed("workspace/x.md", tool_context(generation=3))) == "x"


def test_a_missing_folder_of_a_workspace_is_missing(root: KeptFiles) -> None:
    with pytest.raises(AbsentError):
        root.list(placed("workspace/none", tool_context()), TOP)


@pytest.mark.anyio
async def test_writers_at_once_leave_a_label_that_covers_all_of_them(root: KeptFiles) -> None:
    place = placed("workspace/x.md", tool_context())
    labels = [parse(text) for text in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")]
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(asyncio.to_thread(write, root, place, str(n), labels[n % 4]))
    found = await asyncio.to_thread(root.find, place, TOP)
    assert found is not None
    assert found.label == RESTRICTED


@pytest.mark.anyio
async def test_writers_at_several_levels_at_once_are_in_nobodys_way(root: KeptFiles) -> None:
    place = placed("public/x.md", tool_context())
    labels = [parse(text) for text in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")]
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(asyncio.to_thread(write, root, place, str(labels[n % 4]), labels[n % 4]))
    for label in labels:
        assert await asyncio.to_thread(met, root, place, label) == (str(label), tilde(label))


def test_a_swapped_file_has_its_new_label_and_its_copy_the_old_one(root: KeptFiles) -> None:
    place, copy = shared("public", PUBLIC, "a"), shared("public", PUBLIC, "a.bak")
    assert not root.owned(place)
    keep_text(root, place, "theirs", DIRTY)
    assert root.owned(place)
    assert root.written(place, PUBLIC).label == DIRTY
    assert root.swap(place, b"ours", PUBLIC, expected=b"theirs")
    assert root.written(place, PUBLIC).label == PUBLIC
    assert root.written(copy, PUBLIC).label == DIRTY


def test_a_file_is_swapped_where_it_is_as_expected(root: KeptFiles) -> None:
    place, copy = shared("public", PUBLIC, "a", "state.json"), shared("public", PUBLIC, "a", "state.json.bak")
    assert root.swap(place, b"one", PUBLIC, expected=None)
    for wrong in (None, b"two"):
        assert not root.swap(place, b"three", PUBLIC, expected=wrong)
    assert root.load(place, 9) == b"one"
    assert root.find(copy, TOP) is None
    assert root.swap(place, b"two", PUBLIC, expected=b"one")
    assert (root.load(place, 9), root.load(copy, 9)) == (b"two", b"one")
    assert not root.swap(shared("public", PUBLIC, "b"), b"", PUBLIC, expected=b"one")
    with pytest.raises(UnusableError):
        root.swap(shared("public", PUBLIC, "a", "state.json", "below"), b"", PUBLIC, expected=None)


def test_what_is_above_the_floor_is_swapped_in_its_tree(root: KeptFiles) -> None:
    place = shared("public", PUBLIC, "a")
    assert root.swap(place, b"low", PUBLIC, expected=None)
    assert root.swap(place, b"high", CONFIDENTIAL, expected=None)
    found = root.written(place, CONFIDENTIAL)
    assert (found.label, root.load(found.place, 9)) == (CONFIDENTIAL, b"high")
    assert root.load(place, 9) == b"low"


def test_a_trusted_swap_takes_over_the_name_of_a_folder_that_anybody_could_have_given(root: KeptFiles) -> None:
    """Otherwise an agent that makes the folder first makes every state file UNTRUSTED."""
    place = shared("public", PUBLIC, "quay", "state.json")
    root.keep(shared("public", PUBLIC, "quay", "theirs"), b"x", DIRTY)
    assert root.written(place, PUBLIC).label == DIRTY
    assert root.swap(place, b"state", PUBLIC, expected=None)
    assert root.written(place, PUBLIC).label == PUBLIC


def test_the_sources_stand_beside_a_file_however_many(root: KeptFiles) -> None:
    place = shared("public", PUBLIC, "a")
    for refs in ((), (CallRef("c1", "s1"),), tuple(CallRef(f"call-{number}", "s1") for number in range(500))):
        root.keep(place, b"x", PUBLIC, refs=refs)
        found = root.find(place, TOP)
        assert found is not None
        assert root.origin(found) == refs


def test_a_label_of_any_length_is_kept(root: KeptFiles) -> None:
    long = parse(f"CONFIDENTIAL{{{','.join(f'compartment-{number:03}' for number in range(300))}}}~")
    place = workspace("s", 1, "a", "b")
    root.keep(place, b"x", long)
    assert root.find(place, TOP) is None
    found = root.find(place, long)
    assert found is not None
    assert found.label == long
    assert root.list(workspace("s", 1), long) == (("a/", long),)


def test_all_files_of_a_name_are_told_the_highest_first(root: KeptFiles) -> None:
    place = shared("public", PUBLIC, "a", "x")
    for label in (PUBLIC, CONFIDENTIAL, INTERNAL):
        root.keep(place, str(label).encode(), label)
    every = root.every(place, CONFIDENTIAL)
    assert [(root.load(found.place, 99).decode(), found.label) for found in every] == [
        (str(label), label) for label in (CONFIDENTIAL, INTERNAL, PUBLIC)
    ]
    assert [found.label for found in root.every(place, INTERNAL)] == [INTERNAL, PUBLIC]


def test_what_a_session_wrote_is_foreign_and_what_the_operator_put_there_is_not(root: KeptFiles) -> None:
    keep_text(root, shared("public", PUBLIC, "mine"), "x", PUBLIC)
    put(root, "public/given", "x")
    for name, label in (("mine", DIRTY), ("given", PUBLIC)):
        found = root.find(shared("public", PUBLIC, name), TOP, foreign=True)
        assert found is not None
        assert found.label == label
    assert root.list(shared("public", PUBLIC), TOP, foreign=True) == (("given", PUBLIC), ("mine", DIRTY))
    assert not root.owned(shared("public", PUBLIC, "given"))
    assert not root.owned(shared("public", PUBLIC, "none"))


def test_a_folder_is_listed_in_order_with_labels(root: KeptFiles) -> None:
    for name in ("b.md", "a.md", "sub/given.md"):
        put(root, f"public/{name}", "x")
    write(root, placed("public/z.md", tool_context()), "x", INTERNAL)
    write(root, placed("public/sub/x.md", tool_context()), "x", INTERNAL)
    listed = root.list(placed("public", tool_context()), INTERNAL)
    assert listed == (("a.md", DIRTY), ("b.md", DIRTY), ("sub/", DIRTY), ("z.md", tilde(INTERNAL)))
    inside = root.list(placed("public/sub", tool_context()), INTERNAL)
    assert inside == (("given.md", DIRTY), ("x.md", tilde(INTERNAL)))


@pytest.mark.parametrize(
    "name", ["a b", "50%", "a#b", "q?x=1&y", "a+b", "ünïcode", "日本", "a'b\"c", "[x]{y}", "~", "a\\b", "x" * 255]
)
def test_a_name_is_kept_as_it_is(root: KeptFiles, name: str) -> None:
    place = shared("public", PUBLIC, name, name)
    root.keep(place, b"x", PUBLIC)
    assert root.load(place, 9) == b"x"
    assert root.list(shared("public", PUBLIC), PUBLIC) == ((f"{name}/", PUBLIC),)
    assert root.list(shared("public", PUBLIC, name), PUBLIC) == ((name, PUBLIC),)
    assert [one.place.parts for one in root.kept()] == [(name,), (name, name)]


def test_the_sessions_with_a_workspace_are_told(root: KeptFiles) -> None:
    assert not tuple(root.sessions())
    for sid in ("s2", "s1"):
        root.keep(workspace(sid, 1, "x"), b"x", PUBLIC)
        root.keep(workspace(sid, 1, "y"), b"x", PUBLIC)
    assert sorted(root.sessions()) == ["s1", "s2"]
    assert root.forget("s1", 2)
    assert root.find(workspace("s1", 1, "x"), TOP) is None


def test_the_files_of_a_first_run_are_put_there_once(root: KeptFiles, first: KeptFiles) -> None:
    first.begin({"public/a.md": "text", "internal/b/c.md": "more"})
    place = shared("internal", INTERNAL, "b", "c.md")
    assert met(first, place) == ("more", INTERNAL)
    assert not first.owned(place)
    first.begin({"public/other.md": "text"})
    assert first.find(shared("public", PUBLIC, "other.md"), TOP) is None
    put(root, "public/x.md", "x")
    root.begin({"public/other.md": "text"})
    assert root.find(shared("public", PUBLIC, "other.md"), TOP) is None


def stored(files: KeptFiles) -> list[StoredFile]:
    return [files.take(name) for name in files.kept()]


def everything(files: KeptFiles) -> list[StoredFile]:
    """Return all that is kept, without the states of objects."""
    return [replace(one, state="") for one in stored(files)]


def filled(files: KeptFiles) -> None:
    """Keep files of every kind."""
    put(files, "public/given/x.md", "the operator's")
    files.keep(shared("public", PUBLIC, "a", "b.md"), b"low", DIRTY, refs=(CallRef("c1", "s1"),))
    files.keep(shared("public", PUBLIC, "a", "b.md"), b"high", CONFIDENTIAL)
    files.keep(workspace("s1", 3, "deep", "er", "x.bin"), b"\0\xff", parse("RESTRICTED{hr}~"))
    assert files.swap(shared("public", PUBLIC, "state"), b"1", PUBLIC, expected=None)
    assert files.swap(shared("public", PUBLIC, "state"), b"2", INTERNAL, expected=None)


def test_all_that_is_kept_is_told_with_its_stored_label(root: KeptFiles) -> None:
    filled(root)
    told = {(one.place.area.value, *one.place.home, *one.place.parts, str(one.tree)): one for one in everything(root)}
    assert told["files", "public", "given", "x.md", "None"].label is None
    low = told["files", "public", "a", "b.md", "None"]
    assert (low.content, low.label, low.refs) == (b"low", DIRTY, (CallRef("c1", "s1"),))
    high = told["files", "public", "a", "b.md", "CONFIDENTIAL"]
    assert (high.content, high.label, high.tree) == (b"high", CONFIDENTIAL, CONFIDENTIAL)
    folder = told["session-files", "s1", "3", "deep", "er", "RESTRICTED{hr}"]
    assert (folder.content, folder.label) == (None, parse("RESTRICTED{hr}~"))
    assert len(told) == 11


def test_what_is_told_is_restored_elsewhere_as_it_was(root: KeptFiles, other: KeptFiles) -> None:
    filled(root)
    kept = everything(root)
    for _ in range(2):
        for one in kept:
            other.restore(one)
        assert sorted(map(str, everything(other))) == sorted(map(str, kept))
    place = shared("public", PUBLIC, "a", "b.md")
    assert met(other, place) == ("high", CONFIDENTIAL)
    assert met(other, place, INTERNAL) == ("low", DIRTY)
    assert not other.owned(shared("public", PUBLIC, "given", "x.md"))


def test_what_is_there_is_restored_over_on_demand_alone(root: KeptFiles) -> None:
    place = shared("public", PUBLIC, "a", "x")
    root.keep(place, b"newer", INTERNAL)
    folder, kept = everything(root)
    without = replace(kept, label=None, refs=())
    for other in (
        replace(kept, content=b"older"),
        replace(kept, label=DIRTY),
        replace(kept, refs=(CallRef("c", "s1"),)),
    ):
        root.restore(other)
        assert everything(root) == [folder, kept]
    for other in (
        replace(kept, content=b"older"),
        replace(kept, label=CONFIDENTIAL),
        replace(kept, label=DIRTY),
        without,
    ):
        root.restore(other, replaces=True)
        assert everything(root) == [folder, other]
    root.restore(replace(folder, label=None), replaces=True)
    assert everything(root) == [replace(folder, label=None), without]


def test_what_is_not_there_cannot_be_taken(root: KeptFiles) -> None:
    root.keep(shared("public", PUBLIC, "a", "x"), b"x", PUBLIC)
    for parts, folder in ((("a", "y"), False), (("b",), True), (("b",), False)):
        with pytest.raises(AbsentError):
            root.take(KeptName(shared("public", PUBLIC, *parts), folder=folder))


def test_all_of_it_is_deleted(root: KeptFiles) -> None:
    filled(root)
    root.clear()
    assert everything(root) == []
    assert not tuple(root.sessions())
    root.begin({})
    root.begin({"public/a.md": "a place that was filled is none of a first run"})
    assert everything(root) == []


def test_the_operator_labels_a_file_that_did_not_change_meanwhile(root: KeptFiles) -> None:
    put(root, "public/sub/x.md", "x")
    folder, file = stored(root)
    assert root.label(file, INTERNAL)
    assert not root.label(file, PUBLIC), "it is another one now"
    assert met(root, shared("public", PUBLIC, "sub", "x.md")) == ("x", INTERNAL)
    assert root.find(shared("public", PUBLIC, "sub", "x.md"), PUBLIC) is None
    assert root.label(folder, CONFIDENTIAL)
    assert root.list(shared("public", PUBLIC), INTERNAL) == ()
    folder, file = stored(root)
    assert root.label(folder, None)
    assert root.label(file, None)
    assert met(root, shared("public", PUBLIC, "sub", "x.md"), PUBLIC) == ("x", PUBLIC)
    assert not root.owned(shared("public", PUBLIC, "sub", "x.md"))


PLACES = (("a",), ("b", "c"), ("b", "d"), ("e", "f", "g"))
"""No name of a file is that of a folder: there the disk raises a label even if it refuses."""

LABELS = tuple(map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "INTERNAL~", "CONFIDENTIAL{hr}", "RESTRICTED{hr}~")))

_steps = st.tuples(
    st.sampled_from(("keep", "keep", "fresh", "swap")),
    st.sampled_from(PLACES),
    st.sampled_from(LABELS),
    st.sampled_from((b"one", b"two")),
)


def _played(
    files: LabelledFiles, floor: Label, steps: list[tuple[str, tuple[str, ...], Label, bytes]], reader: Label
) -> list[object]:
    """Do all steps, and return what each says and what is met after it, by a reader and by a writer of its label."""
    told = list[object]()
    for how, parts, label, content in steps:
        place = shared("public", floor, *parts)
        try:
            if how == "swap":
                told.append(files.swap(place, content, label, expected=None if content == b"one" else b"one"))
            else:
                files.keep(place, content, label, replaces=how == "keep")
        except UnusableError:
            told.append("refused")
        for at in (reader, label):
            found = files.find(place, at, foreign=how == "fresh")
            told.append(found and (files.load(found.place, 9), found.label, found.place.tree, files.owned(found.place)))
        told.append([(one.label, one.place.tree) for one in files.every(place, reader)])
        told.append(files.written(place, label).label)
        told.append(files.list(shared("public", floor), reader))
    return told


@settings(max_examples=6)
@given(
    st.lists(_steps, min_size=1, max_size=6),
    st.sampled_from(LABELS),
    st.sampled_from((*LABELS, parse("RESTRICTED{hr}~"))),
)
def test_a_bucket_says_what_folders_say(
    steps: list[tuple[str, tuple[str, ...], Label, bytes]], floor: Label, reader: Label
) -> None:
    with TemporaryDirectory() as folder:
        local = _played(LocalFiles(Path(folder), lambda: TOP), floor, steps, reader)
    assert _played(bucket_files(SERVERS.buckets().fresh()), floor, steps, reader) == local
