"""Workflows as they are begun, carried on, decided and resumed: checked, compared and set, and written through.

A workflow is a log of events, each with its writer's label. Readers know of the events whose label is within theirs,
and of nothing else: neither state nor version nor conflict tells of others (law `no_read_up`). Every write names the
version that its writer saw. Of two writers one gets a ConflictError, which carries the change. The store is the truth;
the state file is written behind each write and each read that finds it stale.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.core.errors import NotFoundError, RequestError
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowStore, WorkflowView
from bot.sessions.workflows.definitions import LONGEST_NAME, LONGEST_TITLE, StepDefinition, WorkflowDefinition
from bot.sessions.workflows.document import OpenFinding, StepStatus, WorkflowStep
from bot.sessions.workflows.events import (
    DecisionMade,
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    NewWorkflowEvent,
    StepCompleted,
    StepSkipped,
    StepStarted,
    SubStepDone,
    WorkflowBody,
    WorkflowEvent,
    WorkflowStarted,
)
from bot.workflows.edits import TOO_LARGE, edit_between
from bot.workflows.errors import ConflictError, ContextBudgetError, GateError, NotReviewerError
from bot.workflows.export import Exported, WriteThrough
from bot.workflows.folding import Fold, fold
from bot.workflows.state_file import BrokenStateError, moment, parsed
from bot.workflows.views import Resumption, Workflow, WorkflowActor, WorkflowWrite, audit_row, resumption, seen_of
from policy.errors import nearest
from policy.labels import Label, join_all

LISTED: Final = 20
"""Workflows that are listed without a limit of the caller's."""

LONGEST_CHOICE: Final = 2000
LONGEST_FINDING: Final = 2000
LONGEST_RATIONALE: Final = 4000
MOST_ARTIFACTS: Final = 50

PROJECT: Final = "a project has 1 to 64 letters, digits, `-`, `_` and `.`, and does not begin with `.`"

_PROJECT: Final = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,64}")
_LOOKED_AT: Final = 50
"""Workflows among which interrupted ones are looked for."""


@dataclass(frozen=True, slots=True)
class DecisionText:
    """A decision: a title, the choice, and the reason."""

    title: str
    choice: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    """A workflow and its fold."""

    workflow: Workflow
    state: Fold

    @property
    def current(self) -> StepDefinition:
        """The definition of the current step."""
        return _step(self, self.state.document.current_step)

    def state_of(self, step: StepDefinition) -> WorkflowStep:
        """Return the state of a step."""
        return self.state.document.steps[step.id]


class WorkflowKeeper:
    """Keeps workflows. `definitions` are those that a workflow may begin with, by name.

    In every method `op` makes a repeated call the same one, and `version` is the version that the actor saw last. Every
    method raises StoreError where the store cannot be used, and RequestError where an argument has no meaning. Every
    one that writes raises FullError at the limit of events.
    """

    def __init__(
        self, store: WorkflowStore, files: WriteThrough, definitions: Mapping[str, WorkflowDefinition]
    ) -> None:
        self.definitions = definitions
        self._store = store
        self._files = files

    async def start(
        self, actor: WorkflowActor, project: str, definition: str, *, op: str, branch: str = ""
    ) -> WorkflowWrite:
        """Begin a workflow; a state file that is there already is taken in.

        Raises:
            ConflictError: the actor may know of a workflow of that project.
            NewerSchemaError: there is a state file of a newer version.
        """
        chosen = self._definition(definition)
        _check(branch, LONGEST_TITLE, "branch", empty=True)
        await self._require_new(actor, project, op)
        newer = await self._files.newer(project, actor.label, _reader(actor))
        if newer is not None:
            raise newer
        return await self._begun(actor, project, (WorkflowStarted(chosen, branch),), op)

    async def found(self, principal: str, project: str, reader: Label, *, by: Label | None = None) -> Workflow:
        """Return a workflow.

        Args:
            principal: whose it is.
            project: its project.
            reader: the highest label that who asks may know of.
            by: the label of the caller, `reader` if there is none; the state file is looked at where that label may be
                revealed.

        Raises NotFoundError: there is none that they may know of.
        """
        known = await self._known(principal, project, reader)
        asks = reader if by is None else by
        if not asks.within(known.workflow.label):
            return known.workflow
        place = WorkflowPlace(principal, project, known.workflow.label)
        told = await self._files.sync(place, reader, known.workflow.events)
        return replace(_within(place, told.events, reader).workflow, note=_note(told, reader))

    async def listed(self, principal: str, reader: Label, *, most: int = LISTED) -> tuple[Workflow, ...]:
        """Return workflows, the one that changed last first."""
        names = await self._store.projects(principal, lambda label: label.within(reader), most)
        found = list[Workflow]()
        for name in names:
            try:
                found.append((await self._known(principal, name, reader)).workflow)
            except NotFoundError:
                # Its beginning is of a label that the reader may not know of.
                continue
        return tuple(found)

    async def interrupted(self, principal: str, reader: Label) -> tuple[Workflow, ...]:
        """Return workflows with a step in progress, the one that changed last first."""
        found = await self.listed(principal, reader, most=_LOOKED_AT)
        return tuple(workflow for workflow in found if workflow.interrupted)

    async def begin_step(  # noqa: PLR0913 - the inputs of a step
        self,
        actor: WorkflowActor,
        project: str,
        step: str,
        version: int,
        *,
        op: str,
        files: tuple[str, ...] = (),
        again: bool = False,
    ) -> WorkflowWrite:
        """Start a step; `again` runs one anew that is in progress, complete or skipped.

        Raises:
            NotFoundError: there is no workflow that they may know of.
            ConflictError: another writer came first.
            ContextBudgetError: there are more `files` than the step may read.
            GateError: an earlier step has a gate that was not passed, and an agent may not begin behind it.
        """

        def begun(known: _Known) -> WorkflowBody:
            asked = _step(known, step)
            state = known.state_of(asked)
            if len(files) > asked.context_files:
                told = f"step {asked.id} may read {asked.context_files} files at its start, and these are {len(files)}"
                raise ContextBudgetError(told, next_step="name fewer files")
            for file in files:
                _check(file, LONGEST_TITLE, "path")
            ahead = resumption(known.workflow, asked).gates_before if actor.by_agent else ()
            if ahead:
                told = f"step {ahead[0]} comes before step {asked.id}, and nobody has passed its gate"
                raise GateError(told, next_step="complete that step first; a person may skip it")
            if state.status is not StepStatus.PENDING and not again:
                word = state.status.value.replace("_", " ")
                raise RequestError(f"step {asked.id} is {word}", next_step="resume it, or run it again from its start")
            return StepStarted(asked.id, files)

        return await self._write(actor, project, version, begun, op=op)

    async def checkpoint(
        self,
        actor: WorkflowActor,
        project: str,
        sub_step: str,
        version: int,
        *,
        op: str,
        artifacts: tuple[str, ...] = (),
    ) -> WorkflowWrite:
        """Say that a sub-step of the current step is done. Raises NotFoundError, ConflictError."""

        def done(known: _Known) -> WorkflowBody:
            current = _in_progress(known)
            left = current.after(known.state_of(current).sub_step)
            if sub_step not in left:
                named = ", ".join(left) or "none; complete the step"
                raise RequestError(f"sub-steps of step {current.id} that are left: {named}")
            if len(artifacts) > MOST_ARTIFACTS:
                raise RequestError(f"a sub-step has at most {MOST_ARTIFACTS} artifacts")
            for path in artifacts:
                _check(path, LONGEST_TITLE, "path")
            return SubStepDone(current.id, sub_step, artifacts)

        return await self._write(actor, project, version, done, op=op)

    async def write_decision(
        self, actor: WorkflowActor, project: str, version: int, decision: DecisionText, *, op: str
    ) -> WorkflowWrite:
        """Write down a decision at the current step. Raises NotFoundError, ConflictError."""
        _check(decision.title, LONGEST_TITLE, "title")
        _check(decision.choice, LONGEST_CHOICE, "choice", lines=True)
        _check(decision.rationale, LONGEST_RATIONALE, "rationale", empty=True, lines=True)

        def decided(known: _Known) -> WorkflowBody:
            return DecisionMade(known.current.id, decision.title, decision.choice, decision.rationale)

        return await self._write(actor, project, version, decided, op=op)

    async def add_finding(
        self, actor: WorkflowActor, project: str, version: int, text: str, *, op: str
    ) -> WorkflowWrite:
        """Add a finding at the current step. Raises NotFoundError, ConflictError, NotReviewerError."""
        _check(text, LONGEST_FINDING, "finding", lines=True)

        def added(known: _Known) -> WorkflowBody:
            _require_reviewer(actor, known.current)
            return FindingAdded(known.current.id, text)

        return await self._write(actor, project, version, added, op=op)

    async def remove_finding(
        self, actor: WorkflowActor, project: str, version: int, finding: str, *, op: str
    ) -> WorkflowWrite:
        """Remove a finding by its id. Raises NotFoundError, ConflictError, NotReviewerError."""

        def removed(known: _Known) -> WorkflowBody:
            stands = known.state.document.open_findings
            found = next((one for one in stands if one.id == finding), None)
            if found is None:
                raise RequestError(f"open findings: {_named(stands)}", next_step="name one of them")
            step = known.state.definition.step(found.step)
            _require_reviewer(actor, known.current if step is None else step)
            return FindingRemoved(known.state.keys[finding])

        return await self._write(actor, project, version, removed, op=op)

    async def complete(
        self, actor: WorkflowActor, project: str, version: int, *, op: str, passed_by: str = ""
    ) -> WorkflowWrite:
        """Complete the current step. `passed_by` is the person who let it pass, who was asked by us.

        Raises:
            NotFoundError: there is no workflow that they may know of.
            ConflictError: another writer came first.
            GateError: the step has a gate, or findings stand open, and no person let it pass.
        """

        def completed(known: _Known) -> WorkflowBody:
            current = _in_progress(known)
            stands = known.state.document.open_findings
            if (current.gate or stands) and not passed_by:
                why = f"step {current.id} has a gate" if current.gate else f"open findings: {_named(stands)}"
                raise GateError(why, next_step="a person has to let it pass")
            return StepCompleted(current.id, passed_by)

        return await self._write(actor, project, version, completed, op=op)

    async def skip(self, actor: WorkflowActor, project: str, step: str, version: int, *, op: str) -> WorkflowWrite:
        """Skip a step that is open.

        Raises:
            NotFoundError: an agent may not skip it.
            ConflictError: an agent may not skip it.
            GateError: an agent may not skip it.
        """

        def skipped(known: _Known) -> WorkflowBody:
            asked = _step(known, step)
            if not known.state_of(asked).open:
                raise RequestError(f"step {asked.id} is {known.state_of(asked).status.value}")
            if actor.by_agent and not asked.optional:
                raise GateError(f"step {asked.id} is not optional", next_step="a person has to skip it")
            return StepSkipped(asked.id)

        return await self._write(actor, project, version, skipped, op=op)

    async def resume(
        self, principal: str, project: str, reader: Label, step: str = "", *, by: Label | None = None
    ) -> Resumption:
        """Return where work goes on, at the current step if none is named; `by` is as for `found`.

        Raises NotFoundError: there is none that they may know of.
        """
        workflow = await self.found(principal, project, reader, by=by)
        return resumption(workflow, _named_step(workflow.definition, step or workflow.document.current_step))

    async def imported(
        self, actor: WorkflowActor, project: str, text: str, definition: str, *, op: str
    ) -> WorkflowWrite:
        """Begin a workflow with the state in a file's text, or take that in where it is as new as the kept state.

        Raises:
            RequestError: the text is not a state of this project, or is older.
            NewerSchemaError: it is of a newer version.
        """
        _require_project(project)
        try:
            known = await self._known(actor.principal, project, _reader(actor))
        except NotFoundError:
            chosen = self._definition(definition)
            begins = WorkflowStarted(chosen)
            fresh = _fresh(actor.principal, project, begins)
            changes = await asyncio.to_thread(_changed, actor, fresh, text, project, newer=False)
            return await self._begun(actor, project, (begins, *changes), op)

        def taken(there: _Known) -> tuple[WorkflowBody, ...]:
            return _changed(actor, there.state, text, project, newer=True)

        return await self._write(actor, project, known.workflow.version, taken, op=op)

    def _definition(self, name: str) -> WorkflowDefinition:
        chosen = self.definitions.get(name)
        if chosen is None:
            known = ", ".join(sorted(self.definitions)) or "none"
            raise RequestError(f"there is no workflow `{name[:LONGEST_NAME]}`", next_step=f"there are {known}")
        return chosen

    async def _require_new(self, actor: WorkflowActor, project: str, op: str) -> None:
        """Refuse to begin an existing workflow. Raises ConflictError: it is, and was not begun by this call."""
        _require_project(project)
        try:
            known = await self._known(actor.principal, project, _reader(actor))
        except NotFoundError:
            return
        if not _repeated(known.workflow, op):
            raise ConflictError(known.workflow, begins=True)

    async def _begun(
        self, actor: WorkflowActor, project: str, bodies: tuple[WorkflowBody, ...], op: str
    ) -> WorkflowWrite:
        """Write the first events of a workflow, and take in its existing state file."""
        _require_writable(actor)
        reader = _reader(actor)
        before = await self._store.log(actor.principal, project, lambda label: label.within(reader))
        if await self._append(actor, project, before, bodies, label=actor.label, op=op) is None:
            await self._require_new(actor, project, op)
        return await self._written(actor, project, actor.label, before)

    async def _write(
        self,
        actor: WorkflowActor,
        project: str,
        version: int,
        make: Callable[[_Known], WorkflowBody | tuple[WorkflowBody, ...]],
        *,
        op: str,
    ) -> WorkflowWrite:
        """Write the events that `make` returns for a workflow's present state, unless it is not at that version.

        People's changes to its state file come first.
        """
        _require_writable(actor)
        reader = _reader(actor)
        known = await self._known(actor.principal, project, reader)
        label = actor.label.join(known.workflow.label)
        if _repeated(known.workflow, op):
            return await self._written(actor, project, label, known.workflow.events)
        place = WorkflowPlace(actor.principal, project, label)
        looked = await self._files.sync(place, reader, known.workflow.events)
        known = _within(place, looked.events, reader)
        label = actor.label.join(known.workflow.label)
        if version != known.workflow.version:
            raise ConflictError(known.workflow, known.workflow.events[max(version, 0) :])
        made = make(known)
        bodies = made if isinstance(made, tuple) else (made,)
        if not bodies:
            return WorkflowWrite(known.workflow, looked.path, _note(looked, reader))
        before = known.workflow.events
        if await self._append(actor, project, before, bodies, label=label, op=op) is None:
            now = (await self._known(actor.principal, project, reader)).workflow
            if not _repeated(now, op):
                raise ConflictError(now, now.events[version:])
        return await self._written(actor, project, label, before, first=_note(looked, reader))

    async def _append(
        self,
        actor: WorkflowActor,
        project: str,
        before: tuple[WorkflowEvent, ...],
        bodies: tuple[WorkflowBody, ...],
        *,
        label: Label,
        op: str,
    ) -> tuple[WorkflowEvent, ...] | None:
        events = tuple(
            NewWorkflowEvent(body, actor.asker, by_agent=actor.by_agent, sid=actor.sid, call=op, refs=actor.refs)
            for body in bodies
        )
        rows = tuple(audit_row(actor.principal, project, label, body, actor=actor.asker) for body in bodies)
        view = WorkflowView(_reader(actor), seen_of(before))
        return await self._store.advance(WorkflowPlace(actor.principal, project, label), view, events, rows)

    async def _written(
        self,
        actor: WorkflowActor,
        project: str,
        label: Label,
        before: tuple[WorkflowEvent, ...],
        *,
        first: str = "",
    ) -> WorkflowWrite:
        """Write the state file after a write to a log of which `before` was read, and return the workflow as it is."""
        reader = _reader(actor)
        place = WorkflowPlace(actor.principal, project, label)
        told = await self._files.sync(place, reader, before)
        known = _within(place, told.events, reader)
        notes = dict.fromkeys(note for note in (first, _note(told, reader)) if note)
        return WorkflowWrite(known.workflow, told.path, "; ".join(notes))

    async def _known(self, principal: str, project: str, reader: Label) -> _Known:
        """Return a workflow. Raises NotFoundError: there is none that they may know of."""
        if _PROJECT.fullmatch(project) is None:
            raise NotFoundError
        events = await self._store.log(principal, project, lambda label: label.within(reader))
        return _within(WorkflowPlace(principal, project, reader), events, reader)


def _within(place: WorkflowPlace, read: tuple[WorkflowEvent, ...], reader: Label) -> _Known:
    """Return the workflow that a reader sees in events. Raises NotFoundError: there is none."""
    events = tuple(event for event in read if event.label.within(reader))
    state = fold(place.principal, place.project, events)
    if state is None:
        raise NotFoundError
    workflow = Workflow(
        principal=place.principal,
        definition=state.definition,
        document=state.document,
        version=len(events),
        label=join_all(event.label for event in events),
        events=events,
        touched_at=events[-1].at,
        touched_by_sid=events[-1].sid,
    )
    return _Known(workflow, state)


def _reader(actor: WorkflowActor) -> Label:
    """Return the highest label that an actor may know of: UNTRUSTED too, where their own words are."""
    return labelling.untrusted(actor.reader) if actor.label.untrusted else actor.reader


def _require_writable(actor: WorkflowActor) -> None:
    if not actor.label.within(_reader(actor)):
        raise RequestError(
            f"a text written here is {actor.label}, which is not shown here", next_step="go on elsewhere"
        )


def _require_project(project: str) -> None:
    if _PROJECT.fullmatch(project) is None:
        raise RequestError(PROJECT)


def _require_reviewer(actor: WorkflowActor, step: StepDefinition) -> None:
    if actor.by_agent and (not step.reviewer or actor.agent != step.reviewer):
        who = f"the agent `{step.reviewer}` or a person" if step.reviewer else "a person"
        raise NotReviewerError(f"step {step.id} is reviewed by {who}", next_step="ask them")


def _check(text: str, longest: int, what: str, *, empty: bool = False, lines: bool = False) -> None:
    """Refuse a text. Raises RequestError: it is empty where it may not be, too long, or has invisible characters."""
    if not text.strip() and not empty:
        raise RequestError(f"a {what} needs a text")
    if len(text) > longest:
        raise RequestError(f"a {what} has at most {longest} characters")
    shown = text.replace("\n", "").replace("\t", "") if lines else text
    if not shown.isprintable():
        raise RequestError(f"a {what} has only characters that show")


def _step(known: _Known, name: str) -> StepDefinition:
    return _named_step(known.state.definition, name)


def _named_step(definition: WorkflowDefinition, name: str) -> StepDefinition:
    """Return a step. Raises RequestError: there is none of that id."""
    step = definition.step(name)
    if step is None:
        ids = [one.id for one in definition.steps]
        raise RequestError(f"there is no step `{name[:LONGEST_NAME]}`{nearest(name, ids)}")
    return step


def _in_progress(known: _Known) -> StepDefinition:
    """Return the current step. Raises RequestError: it is not in progress."""
    current = known.current
    status = known.state_of(current).status
    if status is not StepStatus.IN_PROGRESS:
        word = status.value.replace("_", " ")
        raise RequestError(f"step {current.id} is {word}, not in progress", next_step="begin a step first")
    return current


def _named(findings: tuple[OpenFinding, ...]) -> str:
    return ", ".join(one.id for one in findings) or "none"


def _repeated(workflow: Workflow, op: str) -> bool:
    """Say whether a call was made before."""
    return any(event.call == op for event in workflow.events)


def _note(told: Exported, reader: Label) -> str:
    """Return the note on a state file that a reader may be told."""
    return told.note if told.label is None or told.label.within(reader) else ""


def _fresh(principal: str, project: str, begins: WorkflowStarted) -> Fold:
    """Return the state of a workflow that begins now."""
    event = WorkflowEvent(0, 0, join_all(()), begins, "")
    state = fold(principal, project, (event,))
    if state is None:
        raise NotFoundError
    return state


def _changed(actor: WorkflowActor, state: Fold, text: str, project: str, *, newer: bool) -> tuple[WorkflowBody, ...]:
    """Return the events that turn a state into the state in a file's text.

    Raises RequestError: it is no state of the project, or `newer` is asked for and it is older.
    """
    try:
        found = parsed(text, project, state.definition, state.document)
    except BrokenStateError as error:
        what = f"that is no state of workflow `{project}`: {error}"
        raise RequestError(what, next_step="correct the file, or name the project that it is of") from None
    if newer and moment(found.updated) < moment(state.document.updated):
        told = f"the file is of {found.updated or 'no time'}, and the workflow of {state.document.updated}"
        raise RequestError(told, next_step="export it anew, and change that")
    edit = edit_between(state, found, by_person=not actor.by_agent)
    if edit.too_large:
        raise RequestError(TOO_LARGE, next_step="leave out long texts")
    return (FileTakenIn(edit.changes),) if edit.changes else ()
