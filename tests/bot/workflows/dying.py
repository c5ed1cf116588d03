"""A program of its own that dies in the middle of writing a checkpoint, and one that looks at what is left.

Called with a store, a folder and a principal it forks a child for each moment: the child writes a checkpoint and kills
itself at that moment, as `kill -9` would. Then another child looks, tries the call again, and its report is printed as
a line of JSON. `full` runs out of disk space in its place, as a limit of the size of files has it.
"""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bot.core.errors import RequestError
from bot.files import locations
from bot.sessions.audit import AuditRow
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowStore, WorkflowView
from bot.sessions.workflows.events import NewWorkflowEvent, WorkflowEvent
from bot.store.opening import open_store
from bot.tools.workflow.state_folder import StateFolder
from bot.workflows.export import BAK, WriteThrough
from bot.workflows.keeper import WorkflowKeeper
from bot.workflows.state_file import parsed, rendered
from policy.labels import PUBLIC, Label
from tests.bot.workflows.desk import HARBOUR, Desk
from tests.store.world import KEY

_WRITES: Final = frozenset({"os.rename", "os.link", "os.mkdir"})
_CALL: Final = "the same call"
_FULL: Final = 200
"""Bytes that a file may have on a full disk: enough for a label, and not for a state."""


class DyingStore:
    """A store that dies before or behind the commit."""

    def __init__(self, inner: WorkflowStore, when: str) -> None:
        self._inner, self._when = inner, when

    async def advance(
        self,
        place: WorkflowPlace,
        view: WorkflowView,
        events: tuple[NewWorkflowEvent, ...],
        audit: tuple[AuditRow, ...],
    ) -> tuple[WorkflowEvent, ...] | None:
        """Write, and die where it is time."""
        if self._when == "before":
            die()
        kept = await self._inner.advance(place, view, events, audit)
        if self._when == "behind":
            die()
        return kept

    async def log(
        self, principal: str, project: str, known: Callable[[Label], bool], *, since: Sequence[WorkflowEvent] = ()
    ) -> tuple[WorkflowEvent, ...]:
        """Read."""
        return await self._inner.log(principal, project, known, since=since)

    async def projects(self, principal: str, known: Callable[[Label], bool], most: int) -> tuple[str, ...]:
        """List."""
        return await self._inner.projects(principal, known, most)


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(number: int) -> None:
    """Die when a file is written, a folder is made or a name is given for this time."""
    seen = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in _WRITES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY):
            seen += 1
            if seen == number:
                die()

    sys.addaudithook(watch)


async def writing(url: str, folder: Path, who: str, moment: str) -> None:
    """Write a checkpoint, and die at a moment."""
    store = await open_store(audit_key=KEY, url=url)
    desk = Desk(store, folder, who=who)
    dying = DyingStore(store.workflows, moment)
    keeper = WorkflowKeeper(
        dying, WriteThrough(dying, StateFolder(desk.files, lambda: desk.policy)), {"harbour": HARBOUR}
    )
    if moment.isdecimal():
        die_at(int(moment))
    if moment == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FULL, resource.RLIM_INFINITY))
    told = await keeper.checkpoint(desk.actor(), "quay", "currents", 3, op=_CALL)
    if told.note:
        sys.stdout.write(json.dumps({"note": told.note}) + "\n")
        sys.stdout.flush()
    await store.close()


async def looking(url: str, folder: Path, who: str, moment: str) -> None:
    """Tell what is left, and what becomes of the call when it is made again."""
    store = await open_store(audit_key=KEY, url=url)
    desk = Desk(store, folder, who=who)
    left = desk.path().read_text("utf-8") if desk.path().exists() else ""
    bak = desk.path(BAK).read_text("utf-8") if desk.path(BAK).exists() else ""
    found = await desk.found()
    first = desk.path().read_text("utf-8") == rendered(found.document)
    try:
        again = await desk.keeper.checkpoint(desk.actor(), "quay", "currents", 3, op=_CALL)
        lost = ""
    except RequestError as error:
        again, lost = None, str(error)
    last = await desk.found()
    whole = bool(left) and parsed(left, "quay", HARBOUR).project == "quay"
    report = {
        "moment": moment,
        "whole": whole,
        "bak": not bak or parsed(bak, "quay", HARBOUR).project == "quay",
        "found": found.version,
        "note": found.note,
        "healed": first,
        "again": lost or (again.workflow.version if again else 0),
        "last": last.version,
        "sub_step": last.document.steps["1"].sub_step,
        "file": desk.path().read_text("utf-8") == rendered(last.document),
        "label": str(
            desk.files.written(locations.shared("agent-output", PUBLIC, "quay", desk.path().name), PUBLIC).label
        ),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    await store.close()


async def preparing(url: str, folder: Path, who: str, _moment: str) -> None:
    """Begin a workflow, up to its first checkpoint."""
    store = await open_store(audit_key=KEY, url=url)
    desk = Desk(store, folder, who=who)
    await desk.begin()
    await desk.step()
    await desk.checkpoint("depths")
    await store.close()


def forked(run: Callable[[], Any]) -> int:
    """Run something in a child, and return the signal that ended it, 0 for none."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
            sys.stderr.write(f"FAILED {error!r}")
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main(url: str, folder: Path, who: str, wanted: list[str]) -> None:
    """Go through moments, or through all numbered ones until a child lives."""
    number = 0
    while True:
        number += 1
        moment = wanted[number - 1] if wanted else str(number)
        named, place = f"{who}-{moment}", folder / moment
        forked(lambda: preparing(url, place, named, moment))  # noqa: B023 - called in this round
        died = forked(lambda: writing(url, place, named, moment))  # noqa: B023 - as above
        forked(lambda: looking(url, place, named, moment))  # noqa: B023 - as above
        if number == len(wanted) or (not wanted and not died):
            break


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
