"""`workflow`: work in steps that survives interruption, as an agent goes through it.

Whose workflows it works with is the session's principal. A call's writes keep the session's taint, and its answers were
written with that label or a lower one. So nothing that a higher session does is known below (law `no_read_up`). Others'
words, in a shared chat, raise the session before they are read. Only a person passes a step with a gate: the call asks
them, and the question must still be true when they answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import Field, JsonValue

from bot.access import labelling
from bot.core.errors import NotFoundError, RequestError, in_words
from bot.sessions.background.delegation import FieldKind, ResultField
from bot.tools.arguments import changed
from bot.tools.base import Arguments, CallFacts, Inquiry, RefusedCallError, Result, ToolContext, ToolServices
from bot.tools.parameters import Takes, check, decides
from bot.tools.workflow import telling
from bot.tools.workflow.acting import CallLevel, actor, may_pass, person_level, session_level
from bot.workflows.errors import ConflictError, NotReviewerError
from bot.workflows.keeper import DecisionText, WorkflowKeeper
from bot.workflows.views import Workflow, WorkflowActor, WorkflowWrite
from policy.labels import PUBLIC, Label
from policy.request import Effect

WORKFLOW: Final = "workflow"

LISTS: Final = "`workflow` with action `status` lists what there is"
ONE_FINDING: Final = "workflow with action `finding` needs either `text` or `id`"
NOT_PASSED: Final = "your user did not pass this gate; the step goes on"
NOT_ANSWERED: Final = "nobody answered, so the gate is not passed and the step goes on"
CHANGED: Final = "the step changed while your user was asked, so their answer does not count; complete it again"
NOT_THEIRS: Final = "a gate is passed, a step skipped and a finding removed by a person who decides here"
ASK_WHO: Final = "in a shared chat an admin does"
PERSON: Final = "whether your user passes the gate"

_LONGEST: Final = 4_000
_PATH: Final = 1_000
_MOST_PATHS: Final = 50
_NAME: Final = 64


class WorkflowAction(StrEnum):
    """The action of a `workflow` call."""

    START = "start"
    STATUS = "status"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    DECIDE = "decide"
    FINDING = "finding"
    COMPLETE = "complete"
    RESUME = "resume"


_TAKES: Final = MappingProxyType(
    {
        WorkflowAction.START: Takes(("project", "definition"), ("branch",)),
        WorkflowAction.STATUS: Takes((), ("project", "up_to")),
        WorkflowAction.STEP: Takes(("project", "step", "version"), ("files", "again")),
        WorkflowAction.CHECKPOINT: Takes(("project", "sub_step", "version"), ("artifacts",)),
        WorkflowAction.DECIDE: Takes(("project", "version", "title", "choice", "rationale")),
        WorkflowAction.FINDING: Takes(("project", "version"), ("text", "id", "up_to")),
        WorkflowAction.COMPLETE: Takes(("project", "version")),
        WorkflowAction.RESUME: Takes(("project",), ("step", "up_to")),
    }
)


class WorkflowArguments(Arguments):
    """Arguments of `workflow`; which of them an action needs is told where one is missing."""

    action: WorkflowAction = Field(description="start one, see its state, begin a step, note its progress")
    project: str | None = Field(default=None, min_length=1, max_length=_NAME, description="its name")
    definition: str | None = Field(default=None, min_length=1, max_length=_NAME, description="as `status` tells them")
    branch: str | None = Field(default=None, max_length=200)
    version: int | None = Field(default=None, ge=0, le=1_000_000, description="as the last answer tells it")
    step: str | None = Field(default=None, min_length=1, max_length=_NAME)
    files: tuple[str, ...] | None = Field(
        default=None, max_length=_MOST_PATHS, description="the files that are read at the beginning of the step"
    )
    again: bool | None = Field(default=None, description="begin a step anew that was begun before")
    sub_step: str | None = Field(default=None, min_length=1, max_length=_NAME, description="the part that is done")
    artifacts: tuple[str, ...] | None = Field(
        default=None, max_length=_MOST_PATHS, description="paths of the files that it made"
    )
    title: str | None = Field(default=None, min_length=1, max_length=_PATH)
    choice: str | None = Field(default=None, min_length=1, max_length=_LONGEST)
    rationale: str | None = Field(default=None, min_length=1, max_length=_LONGEST)
    text: str | None = Field(default=None, min_length=1, max_length=_LONGEST, description="a finding to add")
    id: str | None = Field(default=None, min_length=1, max_length=_NAME, description="a finding to remove")
    up_to: str | None = Field(
        default=None, max_length=2048, description="a label: see up to it; your taint rises to it"
    )


class WorkflowTool:
    """Start, follow and resume workflows."""

    name = WORKFLOW
    description = (
        "Go through a large task in steps, so that it survives interruption. Note each part as soon as it is done. "
        "Your user passes the gates."
    )
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = WorkflowArguments

    def __init__(self, keeper: WorkflowKeeper) -> None:
        self._keeper = keeper

    async def inquiry(self, arguments: WorkflowArguments, context: ToolContext) -> Inquiry | None:
        """Ask the person whether a gate is passed, with all that stands open before it."""
        question = await self._gate_question(arguments, context, context.session.taint)
        return Inquiry(question, ResultField("passed", FieldKind.BOOLEAN), literal=True) if question else None

    def declare(self, arguments: WorkflowArguments, context: ToolContext) -> CallFacts:
        """Declare the highest label that may be met, and the principal's clearance as the sink.

        Raises RefusedCallError: a parameter is missing or has no meaning for the action, or `up_to` is not a label.
        """
        check(self.name, arguments.action, arguments, _TAKES)
        if arguments.action is WorkflowAction.FINDING and (arguments.text is None) == (arguments.id is None):
            raise RefusedCallError(ONE_FINDING)
        result = session_level(context, arguments.up_to).reader
        return CallFacts(result=result, clearance=context.caller.ceiling, once=True)

    async def foresee(self, arguments: WorkflowArguments, context: ToolContext) -> list[str]:
        """Tell that a person decides on a gate; no state file is looked at for that, as that might change one."""
        top = labelling.untrusted(context.document.top)
        return [PERSON] if await self._gate_question(arguments, context, top) else []

    async def run(self, arguments: WorkflowArguments, context: ToolContext, services: ToolServices) -> Result:
        """Run the action; absent and too high are one answer."""
        try:
            if arguments.action is WorkflowAction.START:
                return await self._start(arguments, context, services)
            if arguments.action is WorkflowAction.STATUS and arguments.project is None:
                return await self._list(arguments, context, services)
            at = await self._at(arguments, context, services)
        except NotFoundError:
            return Result(in_words(NotFoundError(next_step=LISTS)), _least(context, arguments), failed=True)
        does = {
            WorkflowAction.STATUS: self._status,
            WorkflowAction.STEP: self._step,
            WorkflowAction.CHECKPOINT: self._checkpoint,
            WorkflowAction.DECIDE: self._decide,
            WorkflowAction.FINDING: self._finding,
            WorkflowAction.COMPLETE: self._complete,
            WorkflowAction.RESUME: self._resume,
        }
        try:
            return await does[arguments.action](arguments, at)
        except RequestError as error:
            return _refused(error, at.level.written, services)

    async def _start(self, arguments: WorkflowArguments, context: ToolContext, services: ToolServices) -> Result:
        """Begin a workflow; the call's key makes it the same one."""
        level = session_level(context) if context.caller.by_model else person_level(context)
        project, definition = arguments.project or "", arguments.definition or ""
        branch = services.scrub(arguments.branch or "")
        try:
            made = await self._keeper.start(actor(context, level), project, definition, branch=branch, op=context.key)
        except ConflictError as error:
            # That there is one is told at the label of that.
            return _refused(error, level.written.join(error.workflow.label), services)
        except RequestError as error:
            return _refused(error, level.written, services)
        return _told(_written(made), level.written, services, made.workflow)

    async def _list(self, arguments: WorkflowArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the existing workflows, those changed last first, and the definitions to begin with."""
        level = session_level(context, arguments.up_to) if context.caller.by_model else person_level(context)
        known = await self._keeper.listed(context.caller.principal, level.reader)
        label, shown, told = level.written, list[JsonValue](), list[Workflow]()
        for one in known:
            joined = label.join(one.label)
            if services.permits(joined):
                label = joined
                shown.append({**telling.brief(one), "label": str(one.label)})
                told.append(one)
        definitions: list[JsonValue] = [
            {"name": one.name, "title": one.title, "steps": [step.id for step in one.steps]}
            for one in self._keeper.definitions.values()
        ]
        return _told({"workflows": shown, "definitions": definitions}, label, services, *told)

    async def _status(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Return all that is known of a workflow."""
        told = {**telling.whole(at.workflow), "note": at.workflow.note or None}
        return _told(told, at.level.written, at.services, at.workflow)

    async def _step(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Begin a step, or begin it anew."""
        made = await self._keeper.begin_step(
            at.actor,
            at.project,
            arguments.step or "",
            arguments.version or 0,
            files=tuple(map(at.services.scrub, arguments.files or ())),
            again=bool(arguments.again),
            op=at.key,
        )
        return _told(_written(made), at.level.written, at.services, made.workflow)

    async def _checkpoint(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Note that a part of the step in progress is done."""
        artifacts = tuple(map(at.services.scrub, arguments.artifacts or ()))
        sub_step, version = arguments.sub_step or "", arguments.version or 0
        made = await self._keeper.checkpoint(at.actor, at.project, sub_step, version, artifacts=artifacts, op=at.key)
        return _told(_written(made), at.level.written, at.services, made.workflow)

    async def _decide(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Write down a decision."""
        said = (arguments.title or "", arguments.choice or "", arguments.rationale or "")
        decision = DecisionText(*map(at.services.scrub, said))
        made = await self._keeper.write_decision(at.actor, at.project, arguments.version or 0, decision, op=at.key)
        return _told(_written(made), at.level.written, at.services, made.workflow)

    async def _finding(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Add a finding, or remove one."""
        version = arguments.version or 0
        if arguments.id is not None:
            # A finding holds a step back, which those who may not let it pass do not undo.
            if not at.context.caller.by_model and not decides(at.context):
                raise NotReviewerError(NOT_THEIRS, next_step=ASK_WHO)
            made = await self._keeper.remove_finding(at.actor, at.project, version, arguments.id, op=at.key)
        else:
            text = at.services.scrub(arguments.text or "")
            made = await self._keeper.add_finding(at.actor, at.project, version, text, op=at.key)
        findings = telling.whole(made.workflow)["open_findings"]
        return _told({**_written(made), "open_findings": findings}, at.level.written, at.services, made.workflow)

    async def _complete(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Complete the step in progress; only the answer of the person who was asked passes a gate."""
        asked, version = at.context.asked, arguments.version or 0
        if asked is None:
            made = await self._keeper.complete(at.actor, at.project, version, op=at.key)
            return _told(_written(made), at.level.written, at.services, made.workflow)
        if asked.answer is None or asked.answer.value is not True:
            why = NOT_ANSWERED if asked.answer is None else NOT_PASSED
            return _told({**telling.brief(at.workflow), "note": why}, at.level.written, at.services, at.workflow)
        context = at.context
        before = await self._gate_question(arguments, replace(context, asked=None), context.session.taint)
        # Nothing known by now may be missing from the question that they saw.
        same = before == telling.gate_question(at.workflow) == asked.words
        done = any(event.call == at.key for event in at.workflow.events)
        if not done and not same:
            return Result(CHANGED, at.level.written, failed=True)
        # The answer may let the session see more, so that the same state has another version by now.
        now = version if done else at.workflow.version
        made = await self._keeper.complete(at.actor, at.project, now, passed_by=context.caller.asker, op=at.key)
        return _told(_written(made), at.level.written, at.services, made.workflow)

    async def _resume(self, arguments: WorkflowArguments, at: "_At") -> Result:
        """Return where work goes on."""
        principal = at.context.caller.principal
        by = at.context.session.taint
        resuming = await self._keeper.resume(principal, at.project, at.level.reader, arguments.step or "", by=by)
        told = {**telling.resumption(resuming), "note": at.workflow.note or None}
        return _told(told, at.level.written, at.services, at.workflow)

    async def _gate_question(self, arguments: WorkflowArguments, context: ToolContext, by: Label) -> str:
        """Return the question about the state that the call names.

        Empty if the state is another, or no question is needed. `by` is the label of the caller that looks for it.
        """
        if arguments.action is not WorkflowAction.COMPLETE or not may_pass(context):
            return ""
        principal, reader = context.caller.principal, session_level(context).reader
        try:
            found = await self._keeper.found(principal, arguments.project or "", reader, by=by)
        except RequestError:
            return ""
        return telling.gate_question(found) if found.version == arguments.version else ""

    async def _at(self, arguments: WorkflowArguments, context: ToolContext, services: ToolServices) -> "_At":
        """Return the values that a call works with.

        Raises NotFoundError: there is no such workflow that may be told of.
        """
        by_model = context.caller.by_model
        level = session_level(context, arguments.up_to) if by_model else person_level(context, named=arguments.up_to)
        found = await self._keeper.found(
            context.caller.principal, arguments.project or "", level.reader, by=context.session.taint
        )
        level = level if by_model else person_level(context, found.label, arguments.up_to)
        if not services.permits(level.written):
            raise NotFoundError
        return _At(context, services, level, found)


@dataclass(frozen=True, slots=True)
class _At:
    """A call at work on a workflow that it may know of."""

    context: ToolContext
    services: ToolServices
    level: CallLevel
    workflow: Workflow

    @property
    def actor(self) -> WorkflowActor:
        return actor(self.context, self.level)

    @property
    def project(self) -> str:
        return self.workflow.document.project

    @property
    def key(self) -> str:
        return self.context.key


def _least(context: ToolContext, arguments: WorkflowArguments) -> Label:
    """Return the label of an answer that tells nothing of any workflow."""
    return session_level(context, arguments.up_to).written if context.caller.by_model else context.session.taint


def _refused(error: RequestError, label: Label, services: ToolServices) -> Result:
    """Return an error as it is told; a conflict tells what changed."""
    told: dict[str, JsonValue] = {"error": error.code, "what": str(error), "next_step": error.next_step or None}
    if isinstance(error, ConflictError):
        told |= telling.since(error.workflow, error.since)
    came = error.workflow if isinstance(error, ConflictError) else None
    return replace(_told(told, label, services, came), failed=True)


def _written(made: WorkflowWrite) -> dict[str, JsonValue]:
    return {**telling.brief(made.workflow), "exported": made.exported or None, "note": made.note or None}


def _told(
    document: Mapping[str, JsonValue], label: Label, services: ToolServices, *workflows: Workflow | None
) -> Result:
    """Return a call's answer about workflows, with texts that look like a secret masked."""
    came = tuple(one.ref for one in workflows if one is not None)
    return Result(json.dumps(changed(document, services.mask), ensure_ascii=False), label, refs=came)
