"""`read_file`, `list_files`, `write_file`: what they declare, and what they tell."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bot.files.local import LocalFiles
from bot.files.port import keep_text
from bot.tools.base import RefusedCallError
from bot.tools.files import (
    ABSENT,
    ACCEPTED,
    NOT_WRITTEN,
    UNUSABLE,
    FolderArguments,
    ListFiles,
    ReadArguments,
    ReadFile,
    WriteArguments,
    WriteFile,
    placed,
)
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
    tool_call,
    tool_context,
)
from tests.harness import running

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> LocalFiles:
    return folder_of_files(tmp_path)


def put(root: LocalFiles, path: str, label: Label, text: str = "text") -> None:
    """Write as another session would at the same moment."""
    meanwhile_done(partial(keep_text, root, placed(path, tool_context()), text, label))


def meanwhile_done(what: Callable[[], None]) -> None:
    """Do something as somebody else would at the same moment: in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    doing = pool.submit(what)
    while not doing.done():  # a wait would be taken for a call that blocks the loop, and rightly
        os.sched_yield()
    pool.shutdown(wait=False)
    assert doing.exception() is None


def internal(label: Label) -> bool:
    return label.flows_to(INTERNAL)


def dirty(label: Label) -> bool:
    return label == DIRTY


def path(name: str, up_to: str | None = None) -> ReadArguments:
    return ReadArguments(path=name, up_to=up_to)


def test_reading_declares_the_floor_before_anything_is_touched(root: LocalFiles) -> None:
    tool = ReadFile(root)
    assert tool.declare(path("confidential/none.md"), tool_context()).result == parse("CONFIDENTIAL~")
    assert tool.declare(path("public/none.md"), tool_context()).result == DIRTY
    assert tool.declare(path("workspace/none.md"), tool_context()).result == PUBLIC
    assert tool.declare(path("public/none.md", "INTERNAL"), tool_context()).result == parse("INTERNAL~")


@pytest.mark.parametrize(
    "name, why",
    [
        ("../x", "a path is relative"),
        ("publik/x.md", "no folder `publik`, did you mean `public`"),
        (
            "nope.txt",
            "no folder `nope.txt`, known are `agent-output`, `confidential`, `internal`, `public`, `workspace`",
        ),
    ],
)
def test_a_path_that_leads_nowhere_is_refused_before_any_label(root: LocalFiles, name: str, why: str) -> None:
    for tool, arguments in (
        (ReadFile(root), path(name)),
        (ListFiles(root), FolderArguments(path=name)),
        (WriteFile(root), WriteArguments(path=name, text="x")),
    ):
        with pytest.raises(RefusedCallError, match=why):
            tool.declare(arguments, tool_context())  # pyright: ignore[reportArgumentType] - each tool its own


def test_a_folder_is_no_file_before_any_label(root: LocalFiles) -> None:
    for name in ("confidential", "workspace", "public/"):
        with pytest.raises(RefusedCallError, match="a folder, not a file"):
            ReadFile(root).declare(path(name), tool_context())


def test_up_to_is_a_label_of_this_configuration(root: LocalFiles) -> None:
    for wrong, why in (("SECRET", "unknown level"), ("PUBLIC{hr}", "unknown compartment `hr`"), ("x", "not a label")):
        with pytest.raises(RefusedCallError, match=why):
            ReadFile(root).declare(path("public/x.md", wrong), tool_context())
        with pytest.raises(RefusedCallError, match=why):
            ListFiles(root).declare(FolderArguments(up_to=wrong), tool_context())


async def test_a_file_is_read_with_floor_and_writers_label_joined(root: LocalFiles) -> None:
    put(root, "public/x.md", RESTRICTED)
    read = await ReadFile(root).run(path("public/x.md"), *tool_call(RESTRICTED))
    assert (read.text, read.label, read.failed) == ("text", parse("RESTRICTED~"), False)


async def test_no_read_up_absent_and_forbidden_are_the_same(root: LocalFiles) -> None:
    put(root, "public/x.md", RESTRICTED)
    forbidden = await ReadFile(root).run(path("public/x.md"), *tool_call())
    absent = await ReadFile(root).run(path("public/none.md"), *tool_call())
    assert forbidden == absent
    assert (absent.text, absent.label, absent.failed) == (ABSENT, DIRTY, True)


async def test_up_to_chooses_among_the_files_of_a_name(root: LocalFiles) -> None:
    for label in (PUBLIC, INTERNAL, RESTRICTED):
        put(root, "public/x.md", label, str(label))
    for taint, up_to, text in (
        (PUBLIC, None, "PUBLIC"),
        (CONFIDENTIAL, None, "INTERNAL"),
        (PUBLIC, "CONFIDENTIAL", "INTERNAL"),
        (PUBLIC, "RESTRICTED", "RESTRICTED"),
        (RESTRICTED, "PUBLIC", "PUBLIC"),
    ):
        assert (await ReadFile(root).run(path("public/x.md", up_to), *tool_call(taint))).text == text


async def test_what_may_not_enter_is_not_read(root: LocalFiles) -> None:
    put(root, "public/x.md", RESTRICTED)
    withheld = await ReadFile(root).run(path("public/x.md"), *tool_call(RESTRICTED, permits=internal))
    assert (withheld.text, withheld.label, withheld.failed) == (ABSENT, DIRTY, True)


async def test_a_file_written_between_look_and_read_is_labelled_as_it_was_read(root: LocalFiles) -> None:
    put(root, "public/x.md", PUBLIC, "harmless")
    asked = list[Label]()

    def meanwhile(label: Label) -> bool:
        if not asked:
            put(root, "public/x.md", CONFIDENTIAL, "secret")
        asked.append(label)
        return True

    read = await ReadFile(root).run(path("public/x.md"), *tool_call(CONFIDENTIAL, permits=meanwhile))
    assert (read.text, read.label) == ("secret", parse("CONFIDENTIAL~"))
    assert asked == [DIRTY, parse("CONFIDENTIAL~")]


async def test_a_file_written_above_between_look_and_read_is_not_met(root: LocalFiles) -> None:
    put(root, "public/x.md", PUBLIC, "harmless")

    def meanwhile(_label: Label) -> bool:
        put(root, "public/x.md", CONFIDENTIAL, "secret")
        return True

    read = await ReadFile(root).run(path("public/x.md"), *tool_call(permits=meanwhile))
    assert (read.text, read.label) == ("harmless", DIRTY)


async def test_a_file_that_goes_away_between_look_and_read_is_absent(root: LocalFiles, tmp_path: Path) -> None:
    put(root, "public/x.md", PUBLIC)

    def meanwhile(_label: Label) -> bool:
        meanwhile_done((tmp_path / "files/public/x.md").unlink)
        return True

    read = await ReadFile(root).run(path("public/x.md"), *tool_call(permits=meanwhile))
    assert (read.text, read.failed) == (ABSENT, True)


async def test_what_is_no_text_is_told_at_the_folders_floor(root: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "files/internal/x").write_bytes(b"\xff")
    read = await ReadFile(root).run(path("internal/x"), *tool_call())
    assert (read.text, read.label, read.failed) == (UNUSABLE, parse("INTERNAL~"), True)


async def test_the_root_lists_the_configured_folders_and_the_workspace(root: LocalFiles) -> None:
    tool = ListFiles(root)
    for name in ("", "/"):
        assert tool.declare(FolderArguments(path=name), tool_context()).result == PUBLIC
        listed = await tool.run(FolderArguments(path=name), *tool_call())
        assert listed.text.split() == ["agent-output/", "confidential/", "internal/", "public/", "workspace/"]


async def test_a_listing_hides_what_is_above_and_what_may_not_enter(root: LocalFiles) -> None:
    put(root, "public/a.md", PUBLIC)
    put(root, "public/b.md", CONFIDENTIAL)
    put(root, "public/a.md", INTERNAL)
    tool, folder = ListFiles(root), FolderArguments(path="public")
    assert tool.declare(folder, tool_context()).result == DIRTY
    everything = await tool.run(folder, *tool_call(CONFIDENTIAL))
    assert everything.text.split("\n") == ["a.md", "a.md (INTERNAL)", "b.md (CONFIDENTIAL)"]
    assert everything.label == parse("CONFIDENTIAL~")
    below = await tool.run(FolderArguments(path="public", up_to="INTERNAL"), *tool_call())
    assert (below.text.split("\n"), below.label) == (["a.md", "a.md (INTERNAL)"], parse("INTERNAL~"))
    least = await tool.run(folder, *tool_call(CONFIDENTIAL, permits=dirty))
    assert (least.text.split(), least.label) == (["a.md"], DIRTY)
    assert await tool.run(folder, *tool_call()) == least


async def test_a_configured_folder_that_nobody_wrote_to_is_empty(root: LocalFiles, tmp_path: Path) -> None:
    """Whether it is on disk tells that somebody above wrote there, so it does not matter."""
    (tmp_path / "files/public").rmdir()
    empty = await ListFiles(root).run(FolderArguments(path="public"), *tool_call())
    assert (empty.text, empty.label, empty.failed) == ("(empty)", DIRTY, False)


async def test_an_empty_and_a_missing_folder(root: LocalFiles) -> None:
    tool = ListFiles(root)
    assert (await tool.run(FolderArguments(path="public"), *tool_call())).text == "(empty)"
    assert (await tool.run(FolderArguments(path="workspace"), *tool_call())).text == "(empty)"
    missing = await tool.run(FolderArguments(path="internal/none"), *tool_call())
    assert (missing.text, missing.label, missing.failed) == (ABSENT, parse("INTERNAL~"), True)


def test_writing_declares_its_folder_as_the_sink(root: LocalFiles) -> None:
    tool = WriteFile(root)

    def declared(name: str) -> tuple[Label | None, bool]:
        found = tool.declare(WriteArguments(path=name, text="x"), tool_context())
        return found.clearance, found.consequential

    assert declared("internal/x.md") == (INTERNAL, True)
    assert declared("workspace/x.md") == (TOP, False)
    for folder in ("public", "workspace", "public/"):
        with pytest.raises(RefusedCallError, match="a folder, not a file"):
            declared(folder)


async def test_stored_things_keep_their_label(root: LocalFiles) -> None:
    put(root, "confidential/x.md", INTERNAL)
    arguments = WriteArguments(path="confidential/x.md", text="mine")
    done = await WriteFile(root).run(arguments, *tool_call(parse("CONFIDENTIAL~")))
    assert (done.text, done.label, done.failed) == ("written", PUBLIC, False)
    found = await asyncio.to_thread(root.find, placed("confidential/x.md", tool_context()), CONFIDENTIAL)
    assert found is not None
    assert found.label == parse("CONFIDENTIAL~")


async def test_a_write_that_fails_tells_it_at_the_folders_floor(root: LocalFiles) -> None:
    put(root, "internal/a", INTERNAL)
    failed = await WriteFile(root).run(WriteArguments(path="internal/a/x.md", text="x"), *tool_call(INTERNAL))
    assert (failed.text, failed.label, failed.failed) == (NOT_WRITTEN, parse("INTERNAL~"), True)


async def test_a_write_below_the_floor_is_one_answer_whatever_became_of_it(root: LocalFiles) -> None:
    put(root, "internal/a", INTERNAL)
    tool = WriteFile(root)
    failed = await tool.run(WriteArguments(path="internal/a/x.md", text="x"), *tool_call())
    done = await tool.run(WriteArguments(path="internal/b.md", text="x"), *tool_call())
    # The digest of what was written is no lower than its text.
    assert failed == done
    assert done.refs == ()
    assert (done.text, done.label, done.failed) == (ACCEPTED, PUBLIC, False)
    read = await ReadFile(root).run(path("internal/b.md"), *tool_call())
    assert (read.text, read.label) == ("x", parse("INTERNAL~"))


async def test_who_may_not_know_of_a_folder_replaces_nothing_there(root: LocalFiles) -> None:
    put(root, "internal/a.md", INTERNAL, "theirs")
    for name in ("a.md", "b.md"):
        done = await WriteFile(root).run(
            WriteArguments(path=f"internal/{name}", text="mine"), *tool_call(ceiling=PUBLIC)
        )
        assert done.text == ACCEPTED
    for name, text in (("a.md", "theirs"), ("b.md", "mine")):
        assert (await ReadFile(root).run(path(f"internal/{name}"), *tool_call())).text == text


async def test_what_was_written_after_reading_is_refused_below_and_labelled_above(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await owner.say(bang("write_file", path="public/leak.md", text="x"))
        assert results(await owner.events())[-1] == ("write_file", "denied")
        assert not (tmp_path / "data/files/public/leak.md").exists()
        await owner.say(bang("write_file", path="confidential/copy.md", text="x"))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
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
