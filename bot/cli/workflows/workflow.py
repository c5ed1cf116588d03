"""`lockgate workflow`: workflows of a principal, as the owner sees them, begins them, and carries their state."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.access import labelling
from bot.access.approvals import decides_for
from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.cli.background.runs import managing
from bot.cli.output import print_json, print_lines
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.gate.results import explained
from bot.operations.background.run_telling import TYPED
from bot.operations.gated_calls import RefusedCall
from bot.operations.workflows.wording import workflow_line, workflow_lines
from bot.operations.workflows.workflows import WorkflowViewer
from bot.tools.arguments import changed
from bot.tools.workflow import telling
from bot.tools.workflow.workflow import WORKFLOW
from bot.workflows.progress import standing_at
from bot.workflows.state_file import rendered
from bot.workflows.views import WorkflowWrite
from channels.console import OWNER
from policy.document.programs import is_program

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bot.app.app import App

NOTHING: Final = "there are no workflows"
OPEN: Final = "earlier steps are open: {}"
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a state document that is brought in."""

_NAMES: Final = "`lockgate workflow list` names them"


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator at work: the application, whose workflows they look at, and where they stand."""

    app: "App"
    by: WorkflowViewer
    standing: DecisionContext

    def mask(self, text: str) -> str:
        return self.app.gate.masks.masked(text)


@asynccontextmanager
async def _operating(config: Config, whose: str, *, looking: bool = False) -> AsyncGenerator[_Operator]:
    """Look at the workflows of a principal as the owner, at their own if `whose` is empty.

    Raises OperatorError: there is no such workflow that the owner is cleared for, or it does not allow that.
    """
    async with managing(config, what="workflow", names=_NAMES, looking=looking) as at:
        app, home = at.app, identity.address(OWNER)
        there = await app.gate.readers.destination(home)
        standing = DecisionContext.of_caller(at.caller, home, there, app.clock.wall_ms())
        principal = whose or at.caller.principal
        by = WorkflowViewer(principal, labelling.untrusted(at.by.reader), at.by.actor, at.by.typed)
        yield _Operator(app, by, replace(standing, principal=principal))


async def list_workflows(config: Config, whose: str, *, as_json: bool) -> None:
    """Print the workflows of a principal that the owner is cleared for, and the definitions to begin with."""
    async with _operating(config, whose, looking=True) as at:
        known = await at.app.workflow_operations.listed(at.by)
        definitions = at.app.workflow_operations.definitions
    if as_json:
        print_json([{**telling.brief(one), "label": str(one.label)} for one in known])
        return
    print_lines([workflow_line(one) for one in known] or [NOTHING])
    print_lines([f"definition {name}: {one.title}" for name, one in definitions.items()])


async def start_workflow(config: Config, whose: str, project: str, what: tuple[str, str]) -> None:
    """Begin a workflow with a definition and a branch, through the gate.

    Raises OperatorError: there is one of that project, or a rule refuses it.
    """
    definition, branch = what
    given: dict[str, JsonValue] = {"action": "start", "project": project, "definition": definition}
    async with _operating(config, whose) as at:
        made = await at.app.workflow_operations.act(
            at.standing, at.app.ids.op(), at.by.typed, {**given, "branch": branch or None}
        )
        if isinstance(made, RefusedCall):
            raise OperatorError(explained(made.decision, made.standing.reader, WORKFLOW, TYPED))
    print_lines([f"workflow {project} is begun", *([str(made["note"])] if made["note"] else [])])


async def show_workflow(config: Config, whose: str, project: str, *, as_json: bool) -> None:
    """Print one workflow. Raises OperatorError: the owner is not cleared for any such workflow."""
    async with _operating(config, whose, looking=True) as at:
        found = await at.app.workflow_operations.show(at.by, project)
        if as_json:
            print_json(changed(telling.whole(found), at.mask))
        else:
            print_lines(workflow_lines(found, at.mask))


async def resume_workflow(config: Config, whose: str, what: tuple[str, str], *, as_json: bool) -> None:
    """Print where work on a project goes on, at a step if one is named.

    Raises OperatorError: there is no such workflow that the owner is cleared for, or no such step.
    """
    project, step = what
    async with _operating(config, whose) as at:
        found = await at.app.workflow_operations.resume(at.by, project, step)
        told = changed(telling.resumption(found), at.mask)
    if as_json:
        print_json(told)
        return
    print_lines([f"workflow {project} goes on with {standing_at(found)} ({found.branch.value})"])
    print_lines([OPEN.format(", ".join(found.open_before))] if found.open_before else [])


async def pass_gate(config: Config, whose: str, project: str, version: int) -> None:
    """Complete the step in progress for the owner, who saw the workflow at a version.

    They decide for themselves, for chats and for programs, which no other person does. Other people decide themselves.

    Raises OperatorError: there is no such workflow that the owner is cleared for, it is another person's, it changed,
    or no step is in progress.
    """
    async with _operating(config, whose) as at:
        decides = is_program(at.by.principal) or decides_for(at.app.gate.document, at.by.principal, at.by.actor)
        by = replace(at.by, decides=decides)
        step = (await at.app.workflow_operations.show(by, project)).document.current_step
        made = await at.app.workflow_operations.let_pass(by, project, version, key=at.app.ids.op())
    print_lines([f"step {step} of workflow {project} is complete", *([made.note] if made.note else [])])


async def export_workflow(config: Config, whose: str, project: str, out: Path | None) -> None:
    """Print the state document of a workflow, or write it to a new file.

    Raises OperatorError: there is none that the owner is cleared for, or the file cannot be written.
    """
    async with _operating(config, whose, looking=True) as at:
        found = await at.app.workflow_operations.show(at.by, project)
        text = rendered(found.document)
    if out is None:
        print_lines([text.rstrip("\n")])
        return
    try:
        await asyncio.to_thread(_write, out, text)
    except FileExistsError:
        raise OperatorError(f"`{out}` is there already", next_step="name a new file") from None
    except OSError as error:
        raise OperatorError(f"`{out}` cannot be written: {error.strerror}", next_step="name another file") from None


async def import_workflow(config: Config, whose: str, what: tuple[str, str], file: Path) -> None:
    """Begin a workflow of a project and a definition with a state document, or take a newer one in.

    Raises OperatorError: the file cannot be read, is no state of that project, or of a newer version.
    """
    project, definition = what
    try:
        text = await asyncio.to_thread(_read, file)
    except (OSError, UnicodeError) as error:
        raise OperatorError(f"`{file}` cannot be read: {error}", next_step="name a state document") from None
    async with _operating(config, whose) as at:
        made = await at.app.workflow_operations.imported(at.by, project, text, definition, key=at.app.ids.op())
    print_lines(_imported(made))


def _imported(made: WorkflowWrite) -> list[str]:
    project, version = made.workflow.document.project, made.workflow.version
    return [f"workflow {project} is at version {version}", *([made.note] if made.note else [])]


def _read(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(MOST_BYTES).decode()


def _write(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as stream:
        stream.write(text)
