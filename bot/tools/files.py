"""`read_file`, `list_files` and `write_file`: the shared file root and the session's own workspace."""

import asyncio
from functools import partial
from typing import Final

from pydantic import Field

from bot.tools.base import Arguments, Content, Declared, RefusedCallError, Result, Scene
from bot.tools.labelled_files import AbsentError, FileRoot, Place, UnusableError
from policy.labels import PUBLIC, Label, top
from policy.request import Effect

ABSENT: Final = "there is no such file"
"""The answer for what does not exist and for what the person or the model may not know of (law `no_read_up`)."""

UNUSABLE: Final = "that cannot be read as UTF-8 text of at most 1 MB"
NOT_WRITTEN: Final = "that could not be written"


class PathArguments(Arguments):
    """Arguments naming one file."""

    path: str = Field(min_length=1, max_length=512, description="such as public/notes.md or workspace/draft.md")


class FolderArguments(Arguments):
    """Arguments naming one folder, the root by default."""

    path: str = Field(default="", max_length=512, description="a folder such as public, empty for the root")


class WriteArguments(PathArguments):
    """Arguments of `write_file`."""

    text: Content = Field(max_length=1_000_000, description="the whole new content")


def _floor(place: Place, scene: Scene) -> Label:
    """Return what anything read at a place at least is: the workspace holds only what the session wrote itself."""
    return PUBLIC if place.workspace else scene.document.folder(place.folder).label


def _sink(place: Place, scene: Scene) -> Label | None:
    """Return the clearance of a place as a sink: the workspace is the session's own and takes anything."""
    if place.workspace:
        return top(scene.document.compartments)
    return scene.document.folder(place.folder).clearance


def _known(label: Label, scene: Scene) -> bool:
    """Say whether what has this label is there at all for the person, the model and the address it answers at."""
    return label.flows_to(scene.ceiling) and scene.permits(label)


class ReadFile:
    """Read one text file; its label is the folder's floor joined with its writer's."""

    name = "read_file"
    description = "Read a text file. Folders have labels: what you read decides where you may speak afterwards."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    arguments = PathArguments

    def __init__(self, files: FileRoot) -> None:
        self._files = files

    def declare(self, arguments: PathArguments, scene: Scene) -> Declared:
        """Declare the folder's floor: the writer's label is not known before the file is touched."""
        return Declared(result=_floor(self._files.place(arguments.path, scene), scene))

    async def run(self, arguments: PathArguments, scene: Scene) -> Result:
        """Look at the label, ask, and only then read.

        Somebody may write between the look and the read. A label is on disk before its text and never falls, so
        one that is the same afterwards is that of what was read.
        """
        place = self._files.place(arguments.path, scene)
        floor = _floor(place, scene)
        try:
            after = floor.join(await asyncio.to_thread(self._files.label, place))
            while True:
                label = after
                if not _known(label, scene):
                    return Result(ABSENT, floor, failed=True)
                text = await asyncio.to_thread(self._text, place)
                after = floor.join(await asyncio.to_thread(self._files.label, place))
                if after == label:
                    return Result(UNUSABLE, label, failed=True) if text is None else Result(text, label)
        except AbsentError:
            return Result(ABSENT, floor, failed=True)

    def _text(self, place: Place) -> str | None:
        """Return a file's text, None if it is none; that too is told under the file's label."""
        try:
            return self._files.read(place)
        except UnusableError:
            return None


class ListFiles:
    """List one folder; names are labelled like what they name."""

    name = "list_files"
    description = "List a folder of the file root, or of workspace/, the session's own folder."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    arguments = FolderArguments

    def __init__(self, files: FileRoot) -> None:
        self._files = files

    def declare(self, arguments: FolderArguments, scene: Scene) -> Declared:
        """Declare the folder's floor; the names of the configured folders themselves are PUBLIC."""
        if not arguments.path.strip("/"):
            return Declared(result=PUBLIC)
        return Declared(result=_floor(self._files.place(arguments.path, scene), scene))

    async def run(self, arguments: FolderArguments, scene: Scene) -> Result:
        """List what the principal and the context may know of; the rest is as if it were not there."""
        if not arguments.path.strip("/"):
            return Result("\n".join(f"{name}/" for name in (*sorted(scene.document.folders), "workspace")))
        place = self._files.place(arguments.path, scene)
        floor = _floor(place, scene)
        try:
            label = floor.join(await asyncio.to_thread(self._files.label, place)) if place.parts else floor
            if not _known(label, scene):
                return Result(ABSENT, floor, failed=True)
            entries = await asyncio.to_thread(self._files.list, place)
        except AbsentError:
            return Result(ABSENT, floor, failed=True)
        names = list[str]()
        for name, stored in entries:
            joined = label.join(stored)
            if _known(joined, scene):
                label = joined
                names.append(name)
        return Result("\n".join(names) or "(empty)", label)


class WriteFile:
    """Write one text file; it keeps its writer's label (law `stored_things_keep_their_label`)."""

    name = "write_file"
    description = "Write a text file, replacing it. A folder refuses what is labelled above it."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    arguments = WriteArguments

    def __init__(self, files: FileRoot) -> None:
        self._files = files

    def declare(self, arguments: WriteArguments, scene: Scene) -> Declared:
        """Declare the folder as the sink; only writing where others read is consequential."""
        place = self._files.place(arguments.path, scene)
        if not place.name:
            raise RefusedCallError("that names a folder, not a file in one")
        return Declared(clearance=_sink(place, scene), consequential=not place.workspace)

    async def run(self, arguments: WriteArguments, scene: Scene) -> Result:
        """Write label and text; a failure may tell of what is there, so it carries the folder's floor."""
        place = self._files.place(arguments.path, scene)
        configured = place.workspace or place.folder in scene.document.folders
        write = partial(self._files.write, ceiling=scene.ceiling, make_base=configured)
        try:
            await asyncio.to_thread(write, place, arguments.text, scene.taint)
        except UnusableError:
            return Result(NOT_WRITTEN, _floor(place, scene), failed=True)
        return Result("written")
