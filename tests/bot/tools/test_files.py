"""`read_file`, `list_files`, `write_file`: what they declare, and what they tell."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bot.tools.base import RefusedCallError
from bot.tools.files import (
    ABSENT,
    NOT_WRITTEN,
    UNUSABLE,
    FolderArguments,
    ListFiles,
    PathArguments,
    ReadFile,
    WriteArguments,
    WriteFile,
)
from bot.tools.labelled_files import FileRoot
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    INTERNAL,
    RESTRICTED,
    TOP,
    bang,
    document,
    folder_of_files,
    note,
    results,
    scene,
)
from tests.harness import running

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> FileRoot:
    return folder_of_files(tmp_path)


def put(root: FileRoot, path: str, label: Label, text: str = "text") -> None:
    """Write as another session would at the same moment: in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    write = partial(root.write, ceiling=TOP, make_base=True)
    writing = pool.submit(write, root.place(path, scene()), text, label)
    while not writing.done():  # a wait would be taken for a call that blocks the loop, and rightly
        os.sched_yield()
    pool.shutdown(wait=False)
    assert writing.exception() is None


def internal(label: Label) -> bool:
    return label.flows_to(INTERNAL)


def dirty(label: Label) -> bool:
    return label == DIRTY


def path(name: str) -> PathArguments:
    return PathArguments(path=name)


def test_reading_declares_the_floor_before_anything_is_touched(root: FileRoot) -> None:
    tool = ReadFile(root)
    assert tool.declare(path("confidential/none.md"), scene()).result == parse("CONFIDENTIAL~")
    assert tool.declare(path("public/none.md"), scene()).result == DIRTY
    assert tool.declare(path("workspace/none.md"), scene()).result == PUBLIC
    assert tool.declare(path("nowhere/none.md"), scene()).result == TOP
    with pytest.raises(RefusedCallError):
        tool.declare(path("../x"), scene())


async def test_a_file_is_read_with_floor_and_writers_label_joined(root: FileRoot) -> None:
    put(root, "public/x.md", RESTRICTED)
    read = await ReadFile(root).run(path("public/x.md"), scene())
    assert (read.text, read.label, read.failed) == ("text", parse("RESTRICTED~"), False)


async def test_no_read_up_absent_and_forbidden_are_the_same(root: FileRoot) -> None:
    put(root, "public/x.md", RESTRICTED)
    below = scene(ceiling=INTERNAL)
    forbidden = await ReadFile(root).run(path("public/x.md"), below)
    absent = await ReadFile(root).run(path("public/none.md"), below)
    assert forbidden == absent
    assert (absent.text, absent.label, absent.failed) == (ABSENT, DIRTY, True)


async def test_what_may_not_enter_is_not_read(root: FileRoot) -> None:
    put(root, "public/x.md", RESTRICTED)
    withheld = await ReadFile(root).run(path("public/x.md"), scene(permits=internal))
    assert (withheld.text, withheld.label, withheld.failed) == (ABSENT, DIRTY, True)


async def test_a_file_written_between_look_and_read_is_labelled_as_it_was_read(root: FileRoot) -> None:
    put(root, "public/x.md", PUBLIC, "harmless")
    asked = list[Label]()

    def meanwhile(label: Label) -> bool:
        if not asked:
            put(root, "public/x.md", CONFIDENTIAL, "secret")
        asked.append(label)
        return True

    read = await ReadFile(root).run(path("public/x.md"), scene(permits=meanwhile))
    assert (read.text, read.label) == ("secret", parse("CONFIDENTIAL~"))
    assert asked == [DIRTY, parse("CONFIDENTIAL~")]


async def test_a_file_written_between_look_and_read_is_withheld_if_it_may_not_enter(root: FileRoot) -> None:
    put(root, "public/x.md", PUBLIC, "harmless")

    def meanwhile(label: Label) -> bool:
        put(root, "public/x.md", CONFIDENTIAL, "secret")
        return label.flows_to(INTERNAL)

    read = await ReadFile(root).run(path("public/x.md"), scene(permits=meanwhile))
    assert (read.text, read.label) == (ABSENT, DIRTY)


async def test_what_is_no_text_is_told_at_the_folders_floor(root: FileRoot, tmp_path: Path) -> None:
    (tmp_path / "files/internal/x").write_bytes(b"\xff")
    read = await ReadFile(root).run(path("internal/x"), scene())
    assert (read.text, read.label, read.failed) == (UNUSABLE, parse("INTERNAL~"), True)


async def test_the_root_lists_the_configured_folders_and_the_workspace(root: FileRoot) -> None:
    tool = ListFiles(root)
    for name in ("", "/"):
        assert tool.declare(FolderArguments(path=name), scene()).result == PUBLIC
        listed = await tool.run(FolderArguments(path=name), scene())
        assert listed.text.split() == ["confidential/", "internal/", "public/", "workspace/"]


async def test_a_listing_hides_what_is_above_the_ceiling_and_what_may_not_enter(root: FileRoot) -> None:
    put(root, "public/a.md", PUBLIC)
    put(root, "public/b.md", CONFIDENTIAL)
    put(root, "public/c.md", INTERNAL)
    tool, folder = ListFiles(root), FolderArguments(path="public")
    assert tool.declare(folder, scene()).result == DIRTY
    everything = await tool.run(folder, scene())
    assert (everything.text.split(), everything.label) == (["a.md", "b.md", "c.md"], parse("CONFIDENTIAL~"))
    below = await tool.run(folder, scene(ceiling=INTERNAL))
    assert (below.text.split(), below.label) == (["a.md", "c.md"], parse("INTERNAL~"))
    least = await tool.run(folder, scene(permits=dirty))
    assert (least.text.split(), least.label) == (["a.md"], DIRTY)


async def test_an_empty_and_a_missing_folder(root: FileRoot) -> None:
    tool = ListFiles(root)
    assert (await tool.run(FolderArguments(path="public"), scene())).text == "(empty)"
    assert (await tool.run(FolderArguments(path="workspace"), scene())).text == "(empty)"
    missing = await tool.run(FolderArguments(path="internal/none"), scene())
    assert (missing.text, missing.label, missing.failed) == (ABSENT, parse("INTERNAL~"), True)


def test_writing_declares_its_folder_as_the_sink(root: FileRoot) -> None:
    tool = WriteFile(root)

    def declared(name: str) -> tuple[Label | None, bool]:
        found = tool.declare(WriteArguments(path=name, text="x"), scene())
        return found.clearance, found.consequential

    assert declared("internal/x.md") == (INTERNAL, True)
    assert declared("workspace/x.md") == (TOP, False)
    assert declared("nowhere/x.md") == (None, True)
    for folder in ("public", "workspace", "public/"):
        with pytest.raises(RefusedCallError, match="a folder, not a file"):
            declared(folder)


async def test_stored_things_keep_their_label(root: FileRoot) -> None:
    put(root, "confidential/x.md", INTERNAL)
    arguments = WriteArguments(path="confidential/x.md", text="mine")
    done = await WriteFile(root).run(arguments, scene(parse("CONFIDENTIAL~")))
    assert (done.text, done.label, done.failed) == ("written", PUBLIC, False)
    stored = await asyncio.to_thread(root.label, root.place("confidential/x.md", scene()))
    assert stored == parse("CONFIDENTIAL~")


async def test_a_write_that_fails_tells_it_at_the_folders_floor(root: FileRoot) -> None:
    failed = await WriteFile(root).run(WriteArguments(path="nowhere/x.md", text="x"), scene())
    assert (failed.text, failed.label, failed.failed) == (NOT_WRITTEN, TOP, True)


async def test_what_was_written_after_reading_is_refused_below_and_labelled_above(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await owner.say(bang("write_file", path="public/leak.md", text="x"))
        assert results(await owner.events())[-1] == ("write_file", "denied")
        assert not (tmp_path / "data/files/public/leak.md").exists()
        await owner.say(bang("write_file", path="confidential/copy.md", text="x"))
        (asked,) = await owner.app.store.approvals(owner.sid)
        await owner.say(f"/approve {asked.id}")
        await owner.say("/reset confirm")
        await owner.say(bang("read_file", path="confidential/copy.md"))
        assert str((await owner.state()).taint) == "CONFIDENTIAL~"
        await owner.say(note("guest", "x"))
        assert results(await owner.events())[-1] == ("message", "denied")


async def test_a_workspace_is_empty_after_a_reset_and_free_to_write(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await owner.say(bang("write_file", path="workspace/draft.md", text="draft"))
        assert results(await owner.events())[-1] == ("write_file", "ok")
        assert "draft.md" in await owner.say(bang("list_files", path="workspace"))
        await owner.say("/reset confirm")
        assert "(empty)" in await owner.say(bang("list_files", path="workspace"))
        await owner.say(bang("read_file", path="workspace/draft.md"))
        assert results(await owner.events())[-1] == ("read_file", "failed")
        assert (await owner.state()).taint == PUBLIC


def test_no_folder_is_known_but_the_configured() -> None:
    assert document().folder("Public").label == TOP
