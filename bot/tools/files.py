"""`read_file`, `list_files` and `write_file`: the shared file root and the session's own workspace.

A file above the floor of its folder is another file of its name, see `bot.files.locations`. A call meets the files
up to the session's taint, joined with the floor. That is known before anything is touched, so neither the answer nor
its label tells of a file above it (law `no_read_up`). `up_to` asks for more, or for less.
"""

import asyncio
from functools import partial
from typing import Final

from pydantic import Field

from bot.access import labelling
from bot.files import locations
from bot.files.locations import FileLocation, secrecy, version
from bot.files.port import AbsentError, Found, LabelledFiles, UnavailableError, UnusableError, keep_text, text_of
from bot.sessions.refs import CallRef
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    PathText,
    RefusedCallError,
    Result,
    ToolContext,
    ToolServices,
)
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, top
from policy.request import Effect

ABSENT: Final = "there is no such file"
"""The answer for an absent path, and for one that the person or the model may not know of (law `no_read_up`)."""

UNUSABLE: Final = "that cannot be read as UTF-8 text of at most 1 MB"
UNAVAILABLE: Final = "the files cannot be reached now, try again later"
NOT_WRITTEN: Final = "that could not be written"
ACCEPTED: Final = "accepted; this session may not know what that folder holds, so not whether it could be written"
"""The answer to every write into a folder whose floor is above the session's taint."""

NO_FILE: Final = "that names a folder, not a file in one"


class PathArguments(Arguments):
    """Arguments naming one file."""

    path: PathText = Field(min_length=1, max_length=512, description="such as public/notes.md or workspace/draft.md")


class ReadArguments(PathArguments):
    """Arguments of `read_file`."""

    up_to: str | None = Field(
        default=None, max_length=2048, description="a label: the highest file of that name up to it, and not beyond"
    )


class FolderArguments(Arguments):
    """Arguments naming one folder, the root by default."""

    path: PathText = Field(default="", max_length=512, description="a folder such as public, empty for the root")
    up_to: str | None = Field(default=None, max_length=2048, description="a label: the files up to it")


class WriteArguments(PathArguments):
    """Arguments of `write_file`."""

    text: Content = Field(max_length=1_000_000, description="the whole new content")


def placed(path: str, context: ToolContext) -> FileLocation:
    """Return where a path leads for the session of a call. Raises RefusedCallError: it leads nowhere."""
    try:
        return locations.place(path, context.session.sid, context.session.generation, context.document)
    except locations.PathError as error:
        raise RefusedCallError(str(error)) from None


def _sink(place: FileLocation, context: ToolContext) -> Label | None:
    """Return the clearance of a place as a sink: the workspace is the session's own and takes anything."""
    if place.workspace:
        return top(context.document.compartments)
    return context.document.folders[place.folder].clearance


def _asked(up_to: str | None, context: ToolContext) -> Label | None:
    """Return the label up to which a call wants to read, None if it does not say.

    Raises RefusedCallError: it is no label of this configuration.
    """
    try:
        return None if up_to is None else labelling.named(context.document, up_to)
    except LabelTextError as error:
        raise RefusedCallError(str(error)) from None


def _declared(place: FileLocation, up_to: str | None, context: ToolContext) -> CallFacts:
    """Declare the floor, joined with `up_to`: the session is raised to that, even if nothing is found."""
    asked = _asked(up_to, context) or PUBLIC
    return CallFacts(result=place.floor.join(asked), folder=None if place.workspace else (place.folder, asked))


def _reader(place: FileLocation, up_to: str | None, context: ToolContext) -> Label:
    """Return up to which label a call meets files."""
    asked = _asked(up_to, context)
    return place.floor.join(context.session.taint if asked is None else asked)


def _foreign(place: FileLocation, context: ToolContext) -> bool:
    """Say whether what sessions wrote at a place is as anybody's words to the caller: in a shared chat it may be."""
    principal, home = context.caller.principal, context.session.home
    return not place.workspace and labelling.among_others(context.document, principal, home)


class ReadFile:
    """Read one text file; its label is the folder's floor joined with its writer's."""

    name = "read_file"
    description = (
        "Read a text file. Folders have labels: the label of the file decides where you may speak afterwards. "
        "A file above your taint and its folder is not there unless you ask with up_to."
    )
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = ReadArguments

    def __init__(self, files: LabelledFiles) -> None:
        self._files = files

    def declare(self, arguments: ReadArguments, context: ToolContext) -> CallFacts:
        """Declare the highest label that the call may meet, before a file is touched.

        Raises RefusedCallError: the path names no file that could be there, or `up_to` no label.
        """
        place = placed(arguments.path, context)
        if not place.name:
            raise RefusedCallError(NO_FILE)
        return _declared(place, arguments.up_to, context)

    async def run(self, arguments: ReadArguments, context: ToolContext, services: ToolServices) -> Result:
        """Read it, if this session may."""
        place = placed(arguments.path, context)
        return await read_text(self._files, place, context, services, up_to=arguments.up_to)


async def read_text(
    files: LabelledFiles, place: FileLocation, context: ToolContext, services: ToolServices, *, up_to: str | None = None
) -> Result:
    """Look for the file that a session may know of, ask, and only then read; return its text with its label.

    A write may happen between the look and the read. A label is on disk before its text and never falls, so an
    unchanged label after the read is the label of the text. In a bucket the state of the object says whether it is the
    same. The result has failed if no such file may be read.

    Raises RefusedCallError: `up_to` is not a label of this configuration.
    """
    try:
        return await _read_found(files, place, context, services, up_to=up_to)
    except UnavailableError:
        return Result(UNAVAILABLE, place.floor, failed=True)


async def _read_found(
    files: LabelledFiles, place: FileLocation, context: ToolContext, services: ToolServices, *, up_to: str | None
) -> Result:
    reader, foreign = _reader(place, up_to, context), _foreign(place, context)
    find = partial(files.find, place, reader, foreign=foreign)
    after = await asyncio.to_thread(find)
    while after is not None and services.permits(after.label):
        found = after
        result = await asyncio.to_thread(_read, files, found)
        after = await asyncio.to_thread(find)
        if after == found:
            return result
    return Result(ABSENT, place.floor, failed=True)


def _read(files: LabelledFiles, found: Found) -> Result:
    """Return a file's text; that it is none is told under the file's label too."""
    try:
        text = text_of(files, found.place)
        return Result(text, found.label, refs=(version(found.place, text), *files.origin(found)))
    except UnavailableError:
        raise
    except UnusableError:
        return Result(UNUSABLE, found.label, failed=True)
    except AbsentError:
        return Result(ABSENT, found.label, failed=True)


class ListFiles:
    """List one folder; names have the labels of their files and folders."""

    name = "list_files"
    description = (
        "List a folder of the file root, or of workspace/, the session's own folder. A file above its folder's floor "
        "is shown with its label; ask with up_to for more than you have read."
    )
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = FolderArguments

    def __init__(self, files: LabelledFiles) -> None:
        self._files = files

    def declare(self, arguments: FolderArguments, context: ToolContext) -> CallFacts:
        """Declare the highest label that the call may meet.

        The names of the configured folders themselves are PUBLIC.
        """
        if not arguments.path.strip("/"):
            return CallFacts(result=_asked(arguments.up_to, context) or PUBLIC)
        return _declared(placed(arguments.path, context), arguments.up_to, context)

    async def run(self, arguments: FolderArguments, context: ToolContext, services: ToolServices) -> Result:
        """List the files that the call may meet and that may enter the context; other files are left out silently."""
        if not arguments.path.strip("/"):
            return Result("\n".join(f"{name}/" for name in (*sorted(context.document.folders), "workspace")))
        place = placed(arguments.path, context)
        reader, label = _reader(place, arguments.up_to, context), place.floor
        try:
            listed = partial(self._files.list, place, reader, foreign=_foreign(place, context))
            entries = await asyncio.to_thread(listed)
        except AbsentError:
            return Result(ABSENT, label, failed=True)
        except UnavailableError:
            return Result(UNAVAILABLE, label, failed=True)
        names = list[str]()
        for name, stored in entries:
            joined = label.join(stored)
            if services.permits(joined):
                label = joined
                at_floor = name.endswith("/") or stored.flows_to(place.floor)
                names.append(name if at_floor else f"{name} ({secrecy(stored)})")
        return Result("\n".join(names) or "(empty)", label)


class WriteFile:
    """Write one text file; it keeps its writer's label (law `stored_things_keep_their_label`)."""

    name = "write_file"
    description = "Write a text file, replacing it. A folder refuses text that is labelled above it."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = WriteArguments

    def __init__(self, files: LabelledFiles) -> None:
        self._files = files

    def declare(self, arguments: WriteArguments, context: ToolContext) -> CallFacts:
        """Declare the folder as the sink; only writing where others read is consequential."""
        place = placed(arguments.path, context)
        if not place.name:
            raise RefusedCallError(NO_FILE)
        folder = None if place.workspace else (place.folder, PUBLIC)
        return CallFacts(clearance=_sink(place, context), consequential=not place.workspace, once=True, folder=folder)

    async def run(self, arguments: WriteArguments, context: ToolContext, services: ToolServices) -> Result:
        """Write label and text, in the place of the file of that name and level; a failure carries the folder's floor.

        Below the floor the outcome is not told, and a caller who may not know of an existing file replaces none.
        """
        place = placed(arguments.path, context)
        replaces = place.floor.flows_to(context.caller.ceiling)
        label = context.session.taint
        if not place.workspace:
            # Who reads it in another session does not have its authors in the context.
            label = labelling.members_words(context.document, context.caller.principal, context.session.home, label)
        came = (CallRef(context.call, context.session.sid),)
        write = partial(keep_text, self._files, place, arguments.text, label, replaces=replaces, refs=came)
        try:
            await asyncio.to_thread(write)
        except UnusableError:
            if place.floor.flows_to(context.session.taint):
                return Result(NOT_WRITTEN, place.floor, failed=True)
        told = "written" if place.floor.flows_to(context.session.taint) else ACCEPTED
        return Result(told)
