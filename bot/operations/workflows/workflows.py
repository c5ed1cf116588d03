"""Workflows as people and programs see them, begin them and carry them on: chat, command line and API share this.

What a program or a person has done that an agent may do, too, is a call of `workflow` through the gate. What a person
alone may do, such as to skip a step or to let one pass its gate, is not offered to any model: it is written for who
typed it. Who may be told of a workflow is compared with its label (law `no_read_up`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue

from bot.access import labelling
from bot.access.decision_context import Call, DecisionContext
from bot.core.errors import NotFoundError, RequestError
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.sessions.workflows.definitions import WorkflowDefinition
from bot.tools.workflow.workflow import ASK_WHO, LISTS, NOT_THEIRS, WORKFLOW
from bot.workflows.folding import fold
from bot.workflows.keeper import WorkflowKeeper
from bot.workflows.views import Resumption, Workflow, WorkflowActor, WorkflowWrite
from policy.document.programs import is_program
from policy.labels import Label


class RefusedChangeError(RequestError):
    """A change of a workflow that was refused; `code` is that of the reason, such as `conflict` or `gate`."""

    def __init__(self, told: Mapping[str, JsonValue]) -> None:
        super().__init__(str(told["what"]), next_step=str(told["next_step"] or ""))
        self.code = str(told["error"])
        self.told = told


@dataclass(frozen=True, slots=True)
class WorkflowViewer:
    """Who asks about workflows: `principal` is whose they are, `reader` the most that they may be told where they ask.

    `actor` is the person or program who asks, and `typed` the label of what they say. `decides` tells that they are a
    person who may skip steps and pass gates here.
    """

    principal: str
    reader: Label
    actor: str
    typed: Label
    decides: bool = True

    @property
    def trusting(self) -> "WorkflowViewer":
        """They as one who is told nothing that anybody may have written."""
        return replace(self, reader=self.reader.secrecy)


class WorkflowOperations:
    """Shows workflows, and has them begun, carried on and resumed."""

    def __init__(self, keeper: WorkflowKeeper, calls: GatedCalls) -> None:
        self._keeper = keeper
        self._calls = calls

    @property
    def definitions(self) -> Mapping[str, WorkflowDefinition]:
        """What a workflow may begin with, by name."""
        return self._keeper.definitions

    async def listed(self, by: WorkflowViewer) -> tuple[Workflow, ...]:
        """Return workflows that may be told of, the one that changed last first. Raises StoreError."""
        return await self._keeper.listed(by.principal, by.reader)

    async def show(self, by: WorkflowViewer, project: str) -> Workflow:
        """Return a workflow. Raises NotFoundError: there is none that may be told of. StoreError."""
        return await self._keeper.found(by.principal, project, by.reader, by=by.typed)

    async def trusted(self, by: WorkflowViewer, project: str) -> Workflow | None:
        """Return a workflow as far as it is TRUSTED, None if its beginning is not. Raises StoreError.

        What a person decides by this alone counts for sessions that are TRUSTED, too: no page that an agent read has a
        part in it. Where anybody may have typed what they say, nothing counts so.
        """
        if by.typed.untrusted:
            return None
        try:
            return await self.show(by.trusting, project)
        except NotFoundError:
            return None

    async def find(
        self, standing: DecisionContext, by: WorkflowViewer, project: str, text: str, *, key: str
    ) -> dict[str, JsonValue] | RefusedCall:
        """Have a finding added by who stands there, at the step in progress; see `act`."""
        found = await self.show(by, project)
        trusted = await self.trusted(by, project)
        seen, at = (found, by) if trusted is None else (trusted, by.trusting)
        given: dict[str, JsonValue] = {"action": "finding", "project": project, "version": seen.version, "text": text}
        return await self.act(standing, key, by.typed, {**given, "up_to": str(at.reader)})

    async def remove(
        self, standing: DecisionContext, by: WorkflowViewer, project: str, finding: str, *, key: str
    ) -> dict[str, JsonValue] | RefusedCall:
        """Have a finding removed by who stands there, as `show` tells its id; see `act`."""
        found, trusted = await self.show(by, project), await self.trusted(by, project)
        named, seen, at = finding, found, by
        known = None if trusted is None else _named_alike(found, finding, trusted)
        if trusted is not None and known is not None:
            named, seen, at = known, trusted, by.trusting
        given: dict[str, JsonValue] = {"action": "finding", "project": project, "version": seen.version, "id": named}
        return await self.act(standing, key, by.typed, {**given, "up_to": str(at.reader)})

    async def resume(self, by: WorkflowViewer, project: str, step: str = "") -> Resumption:
        """Return where work goes on, at the current step if none is named.

        Raises NotFoundError: there is no workflow that may be told of. RequestError: it has no such step. StoreError.
        """
        return await self._keeper.resume(by.principal, project, by.reader, step, by=by.typed)

    async def act(
        self, standing: DecisionContext, key: str, typed: Label, arguments: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue] | RefusedCall:
        """Have a call of `workflow` made by who stands there, through the gate, and return what it told.

        `typed` is the label of what they say. The same `key` there is the same call.

        Raises:
            NotFoundError: there is no workflow that they may know of.
            RefusedChangeError: it cannot be done, or another one changed it first.
            StoreError: the store cannot be used.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        made = await self._calls.made(standing, Call(key, WORKFLOW, given), typed)
        if isinstance(made, RefusedCall):
            return made
        if made.failed and made.text.endswith(LISTS):
            raise NotFoundError
        try:
            told = cast("dict[str, JsonValue]", json.loads(made.text))
        except ValueError:
            raise RequestError(made.text) from None
        if made.failed:
            raise RefusedChangeError(told)
        return told

    async def skip(self, by: WorkflowViewer, project: str, step: str, *, key: str) -> WorkflowWrite:
        """Skip a step, for a person.

        Raises NotFoundError: there is no workflow that may be told of. RequestError: they may not, or the step is not
        open. StoreError.
        """
        _require_decides(by)
        found, trusted = await self.show(by, project), await self.trusted(by, project)
        if trusted is not None and step in trusted.document.steps and trusted.document.steps[step].open:
            found, by = trusted, by.trusting
        return await self._keeper.skip(_actor(by), project, step, found.version, op=key)

    async def let_pass(self, by: WorkflowViewer, project: str, version: int, *, key: str) -> WorkflowWrite:
        """Complete the step in progress, whose gate a person lets it pass who has seen it at this version.

        Raises NotFoundError: there is no workflow that may be told of. ConflictError: it changed meanwhile.
        RequestError: they may not, or no step is in progress. StoreError.
        """
        _require_decides(by)
        found, trusted = await self.show(by, project), await self.trusted(by, project)
        if trusted is not None and trusted.events == found.events:
            by = by.trusting
        return await self._keeper.complete(_actor(by), project, version, passed_by=by.actor, op=key)

    async def imported(
        self, by: WorkflowViewer, project: str, text: str, definition: str, *, key: str
    ) -> WorkflowWrite:
        """Begin a workflow with what a state file tells, or take that in, as what anybody may have written.

        Raises RequestError: it is no state of this project, or not newer, or of a newer schema. StoreError.
        """
        as_anybody = replace(by, typed=labelling.untrusted(by.typed))
        return await self._keeper.imported(_actor(as_anybody), project, text, definition, op=key)


def _named_alike(found: Workflow, finding: str, trusted: Workflow) -> str | None:
    """Return the id that a finding has among what is TRUSTED: the same one, not another of the same words."""
    event = _keys(found).get(finding)
    return next((name for name, key in _keys(trusted).items() if event is not None and key == event), None)


def _keys(workflow: Workflow) -> Mapping[str, str]:
    state = fold(workflow.principal, workflow.document.project, workflow.events)
    return {} if state is None else {one.id: state.keys[one.id] for one in state.document.open_findings}


def _require_decides(by: WorkflowViewer) -> None:
    if not by.decides:
        raise RequestError(NOT_THEIRS, next_step=ASK_WHO)


def _actor(by: WorkflowViewer) -> WorkflowActor:
    return WorkflowActor(by.principal, by.actor, by.typed, by.reader, by_agent=is_program(by.actor))
