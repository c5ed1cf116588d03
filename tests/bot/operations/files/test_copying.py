"""Copies of labelled files: nothing is lost, no label changes, and another file at the target is not replaced."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from bot.files.kept import KeptFiles
from bot.files.local import LocalFiles
from bot.files.locations import FileLocation, shared, workspace
from bot.files.objects import Objects
from bot.files.port import AbsentError
from bot.operations.files.copying import CopyFault, CopyProblem, FileCopier
from bot.sessions.refs import CallRef, Ref
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP
from tests.buckets import bucket_files
from tests.folders import quick_folder
from tests.servers import SERVERS

NAMES = ("a.md", "A.md", "\u00e9.md", "e\u0301.md", "x y.md", "100%25.md", "a+b&c=?#.md", "\u65e5\u672c.md", "sub", "~")
LABELS = tuple(
    map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "INTERNAL{acme}~", "CONFIDENTIAL{hr}", "RESTRICTED{acme,hr}~"))
)
READERS = (*LABELS, parse("INTERNAL{acme,hr}"), TOP)
FLOORS = {"public": PUBLIC, "internal": parse("INTERNAL~"), "elsewhere": PUBLIC}


def local(folder: Path) -> LocalFiles:
    folder.mkdir(exist_ok=True)
    return LocalFiles(folder, lambda: TOP)


def bucket() -> KeptFiles:
    return bucket_files(SERVERS.buckets().fresh("a/prefix"))


def base(home: str) -> FileLocation:
    return workspace("s1", 2) if home == "workspace" else shared(home, FLOORS[home])


@dataclass(frozen=True)
class Write:
    """A file that a session wrote, or with `label` None the operator; `again` replaces it, and keeps the one before."""

    home: str
    parts: tuple[str, ...]
    content: bytes
    label: Label | None
    again: bool = False

    def into(self, files: LocalFiles) -> None:
        place = replace(base(self.home), parts=self.parts)
        try:
            if self.label is None:
                path = files.path(place)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.content)
                return
            call: tuple[Ref, ...] = (CallRef(f"call{len(self.content)}", "s1"),)
            files.keep(place, self.content, self.label, refs=call)
            if self.again:
                files.swap(place, b"again", self.label, expected=self.content, refs=call)
        except (OSError, Exception):  # noqa: BLE001 - a folder has that name: such a write is none
            return


def writes(most: int) -> st.SearchStrategy[list[Write]]:
    one = st.builds(
        Write,
        st.sampled_from(["public", "internal", "elsewhere", "workspace"]),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple),
        st.binary(max_size=20),
        st.one_of(st.none(), st.sampled_from(LABELS)),
        st.booleans(),
    )
    return st.lists(one, max_size=most)


def seen(files: KeptFiles, reader: Label, *, foreign: bool) -> Iterator[object]:
    """Yield all that a reader meets: names, bytes, labels, sources, and whose they are."""
    for home in (*FLOORS, "workspace"):
        yield from _below(files, base(home), reader, foreign=foreign)


def _below(files: KeptFiles, folder: FileLocation, reader: Label, *, foreign: bool) -> Iterator[object]:
    try:
        names = files.list(folder, reader, foreign=foreign)
    except AbsentError:
        return
    yield folder.folder, folder.parts, names
    for name in dict.fromkeys(name for name, _ in names):
        place = replace(folder, parts=(*folder.parts, name.rstrip("/")))
        if name.endswith("/"):
            yield from _below(files, place, reader, foreign=foreign)
            continue
        met = files.find(place, reader, foreign=foreign)
        yield met and (met.place, met.label, files.load(met.place, 1000), files.origin(met), files.owned(met.place))
        for one in files.every(place, reader):
            # A folder of that name may be in another tree.
            with suppress(AbsentError):
                yield one.place, one.label, files.load(one.place, 1000)


def everything(files: KeptFiles, readers: Sequence[Label] = READERS) -> list[list[object]]:
    return [list(seen(files, reader, foreign=foreign)) for reader in readers for foreign in (False, True)]


@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
@given(writes(12))
def test_a_copy_is_the_same_for_every_reader(done: list[Write]) -> None:
    with quick_folder() as folder:
        first, last = local(Path(folder) / "first"), local(Path(folder) / "last")
        for write in done:
            write.into(first)
        copied = FileCopier(first, last).copy()
        assert (copied.problems, copied.extra, copied.present) == ((), (), 0)
        assert everything(first) == everything(last)
        assert list(map(first.take, first.kept())) == list(map(last.take, last.kept()))
        again = FileCopier(first, last).copy()
        assert (again.files, again.folders, again.present) == (0, 0, copied.files + copied.folders)


SHARED = [Write("public", ("a.md",), b"one", None), Write("public", ("a.md",), b"two", CONFIDENTIAL, again=True)]
NESTED = [Write("internal", ("sub", "a.md"), b"one", LABELS[3]), Write("workspace", ("sub", NAMES[7]), b"", LABELS[5])]


# A bucket takes as long for one request as a disk for a hundred, so there are few of them.
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(writes(4), st.sampled_from(READERS))
@example(SHARED, LABELS[2])
@example(NESTED, TOP)
def test_a_copy_to_a_bucket_and_back_is_the_same_for_every_reader(done: list[Write], reader: Label) -> None:
    with quick_folder() as folder:
        first, middle, last = local(Path(folder) / "first"), bucket(), local(Path(folder) / "last")
        for write in done:
            write.into(first)
        there, back = FileCopier(first, middle).copy(), FileCopier(middle, last).copy()
        assert (there.problems, there.extra, back.problems, back.extra) == ((), (), (), ())
        assert (there.files, there.folders, there.size) == (back.files, back.folders, back.size)
        assert everything(first) == everything(last)
        assert everything(first, [reader]) == everything(middle, [reader])


@pytest.fixture(params=["bucket", "local"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> KeptFiles:
    return bucket() if request.param == "bucket" else local(tmp_path / "target")


def test_another_file_at_the_target_is_named_and_stays(tmp_path: Path, target: KeptFiles) -> None:
    source, place = local(tmp_path / "source"), shared("public", PUBLIC, "x.md")
    source.keep(place, b"mine", PUBLIC)
    source.keep(shared("public", PUBLIC, "y.md"), b"alike", PUBLIC)
    target.keep(place, b"mine", parse("PUBLIC~"))
    target.keep(shared("public", PUBLIC, "z.md"), b"alone", PUBLIC)
    different = (CopyProblem("files/public/x.md", CopyFault.DIFFERENT),)
    dry = FileCopier(source, target).copy(dry=True)
    assert (dry.files, dry.problems, dry.extra) == (1, different, ("files/public/z.md",))
    assert target.find(shared("public", PUBLIC, "y.md"), TOP) is None
    done = FileCopier(source, target).copy()
    assert (done.files, done.problems, done.extra) == (1, different, ("files/public/z.md",))
    met = target.find(place, TOP)
    assert met is not None
    assert met.label == parse("PUBLIC~")
    done = FileCopier(source, target).copy(replaces=True)
    assert (done.files, done.present, done.problems) == (1, 1, ())
    met = target.find(place, TOP)
    assert met is not None
    assert met.label == PUBLIC


def test_no_link_is_followed_and_what_cannot_be_read_is_named(tmp_path: Path, target: KeptFiles) -> None:
    source = local(tmp_path / "source")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("key")
    public = tmp_path / "source" / "files" / "public"
    public.mkdir(parents=True)
    (public / "good.md").write_text("good")
    (public / "link.md").symlink_to(tmp_path / "outside" / "key")
    (public / "folder").symlink_to(tmp_path / "outside")
    (public.parent / "linked").symlink_to(tmp_path / "outside")
    (public.parent / "stray.txt").write_text("in no folder")
    os.mkfifo(public / "pipe")
    done = FileCopier(source, target).copy()
    assert (done.files, done.folders) == (1, 0)
    assert done.problems == (CopyProblem("files/public/pipe", CopyFault.UNREADABLE),)
    assert [name.place.name for name in target.kept()] == ["good.md"]


def test_a_folder_in_the_way_of_a_file_is_named(tmp_path: Path, target: KeptFiles) -> None:
    source = local(tmp_path / "source")
    source.keep(shared("public", PUBLIC, "x"), b"file", PUBLIC)
    source.keep(shared("public", PUBLIC, "y"), b"other", PUBLIC)
    target.keep(shared("public", PUBLIC, "x", "inner"), b"inner", PUBLIC)
    done = FileCopier(source, target).copy(replaces=True)
    assert done.problems == (CopyProblem("files/public/x", CopyFault.UNWRITABLE),)
    assert done.files == 1


def test_an_object_of_another_tool_is_top_wherever_it_is_copied(tmp_path: Path) -> None:
    address = SERVERS.buckets().fresh()
    Objects(address).put("files/public/sub/x.md", b"unknown", {}, over=None)
    back = local(tmp_path / "back")
    done = FileCopier(bucket_files(address), back).copy()
    assert (done.files, done.folders, done.problems) == (1, 1, ())
    assert back.find(shared("public", PUBLIC, "sub", "x.md"), INTERNAL) is None
    assert back.list(shared("public", PUBLIC), CONFIDENTIAL) == ()
    met = back.find(shared("public", PUBLIC, "sub", "x.md"), TOP)
    assert met is not None
    assert (met.label, back.load(met.place, 100)) == (TOP, b"unknown")


def test_names_that_share_a_label_on_disk_are_told(tmp_path: Path) -> None:
    source, back = bucket(), local(tmp_path / "back")
    source.keep(shared("internal", INTERNAL, "A.md"), b"high", parse("INTERNAL~"))
    source.keep(shared("internal", INTERNAL, "a.md"), b"low", PUBLIC)
    done = FileCopier(source, back).copy()
    assert done.problems == (CopyProblem("files/internal/a.md", CopyFault.CHANGED),)
    for name in ("A.md", "a.md"):
        met = back.find(shared("internal", INTERNAL, name), TOP)
        assert met is not None
        assert met.label == parse("INTERNAL~")
    # Neither does a second one lower them.
    assert FileCopier(source, back).copy(replaces=True).problems == done.problems
