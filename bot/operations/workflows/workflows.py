"""Workflows as people and programs see them, begin them and carry them on: chat, command line and API share this.

An action that an agent may take, too, is a call of `workflow` through the gate, for a program or a person. An action
for a person alone, such as to skip a step or to let one pass its gate, is not offered to any model. It is written in
the name of the person who typed it. A reader's clearance is compared with a workflow's label (law `no_read_up`).
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
    """A change of a workflow that was refused; `code` is the reason, such as `conflict` or `gate`."""

    def __init__(self, told: Mapping[str, JsonValue]) -> None:
        super().__init__(str(told["what"]), next_step=str(told["next_step"] or ""))
        self.code = str(told["error"])
        self.told = told


@dataclass(frozen=True, slots=True)
class WorkflowViewer:
    """The viewer of workflows: `principal` is whose they are, `reader` the clearance of the asking address.

    `actor` is the person or program who asks, and `typed` the label of their words. `decides` tells that they are a
    person who may skip steps and pass gates here.
    """

    principal: str
    reader: Label
    actor: str
    typed: Label
    decides: bool = True

    @property
    def trusting(self) -> "WorkflowViewer":
        """The same viewer without UNTRUSTED text."""
        return replace(self, reader=self.reader.secrecy)


class WorkflowOperations:
    """Shows workflows, and has them begun, carried on and resumed."""

    def __init__(self, keeper: WorkflowKeeper, calls: GatedCalls) -> None:
        self._keeper = keeper
        self._calls = calls

    @property
    def definitions(self) -> Mapping[str, WorkflowDefinition]:
        """The definitions that a workflow may begin with, by name."""
        return self._keeper.definitions

    async def listed(self, by: WorkflowViewer) -> tuple[Workflow, ...]:
        """Return workflows that the viewer may know of, the one that changed last first. Raises StoreError."""
        return await self._keeper.listed(by.principal, by.reader)

    async def show(self, by: WorkflowViewer, project: str) -> Workflow:
        """Return a workflow.

        Raises:
            NotFoundError: the viewer may know of no such workflow.
            StoreError: the store cannot be used.
        """
        return await self._keeper.found(by.principal, project, by.reader, by=by.typed)

    async def trusted(self, by: WorkflowViewer, project: str) -> Workflow | None:
        """Return a workflow as far as it is TRUSTED, None if its beginning is not. Raises StoreError.

        A person's decision by this alone counts for TRUSTED sessions, too: no page that an agent read has a part in it.
        Where an attacker may have typed their words, nothing counts so.
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
        """Have a finding added for the caller, at the step in progress; see `act`."""
        found = await self.show(by, project)
        trusted = await self.trusted(by, project)
        seen, at = (found, by) if trusted is None else (trusted, by.trusting)
        given: dict[str, JsonValue] = {"action": "finding", "project": project, "version": seen.version, "text": text}
        return await self.act(standing, key, by.typed, {**given, "up_to": str(at.reader)})

    async def remove(
        self, standing: DecisionContext, by: WorkflowViewer, project: str, finding: str, *, key: str
    ) -> dict[str, JsonValue] | RefusedCall:
        """Have a finding removed for the caller, by the id that `show` returns; see `act`."""
        found, trusted = await self.show(by, project), await self.trusted(by, project)
        named, seen, at = finding, found, by
        known = None if trusted is None else _named_alike(found, finding, trusted)
        if trusted is not None and known is not None:
            named, seen, at = known, trusted, by.trusting
        given: dict[str, JsonValue] = {"action": "finding", "project": project, "version": seen.version, "id": named}
        return await self.act(standing, key, by.typed, {**given, "up_to": str(at.reader)})

    async def resume(self, by: WorkflowViewer, project: str, step: str = "") -> Resumption:
        """Return where work goes on, at the current step if none is named.

        Raises:
            NotFoundError: the viewer may know of no such workflow.
            RequestError: it has no such step.
            StoreError: the store cannot be used.
        """
        return await self._keeper.resume(by.principal, project, by.reader, step, by=by.typed)

    async def act(
        self, standing: DecisionContext, key: str, typed: Label, arguments: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue] | RefusedCall:
        """Have a call of `workflow` made for the caller, through the gate, and return its result.

        `typed` is the label of their words. The same `key` there is the same call.

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

        Raises:
            NotFoundError: the viewer may know of no such workflow.
            RequestError: they may not, or the step is not open.
            StoreError: the store cannot be used.
        """
        _require_decides(by)
        found, trusted = await self.show(by, project), await self.trusted(by, project)
        if trusted is not None and step in trusted.document.steps and trusted.document.steps[step].open:
            found, by = trusted, by.trusting
        return await self._keeper.skip(_actor(by), project, step, found.version, op=key)

    async def let_pass(self, by: WorkflowViewer, project: str, version: int, *, key: str) -> WorkflowWrite:
        """Complete the step in progress, whose gate a person lets it pass who has seen it at this version.

        Raises:
            NotFoundError: the viewer may know of no such workflow.
            ConflictError: it changed meanwhile.
            RequestError: they may not, or no step is in progress.
            StoreError: the store cannot be used.
        """
        _require_decides(by)
        found, trusted = await self.show(by, project), await self.trusted(by, project)
        if trusted is not None and trusted.events == found.events:
            by = by.trusting
        return await self._keeper.complete(_actor(by), project, version, passed_by=by.actor, op=key)

    async def imported(
        self, by: WorkflowViewer, project: str, text: str, definition: str, *, key: str
    ) -> WorkflowWrite:
        """Begin a workflow with the state of a file, or take that in, as UNTRUSTED text.

        Raises:
            RequestError: it is no state of this project, or not newer, or of a newer schema.
            StoreError: the store cannot be used.
        """
        as_anybody = replace(by, typed=labelling.untrusted(by.typed))
        return await self._keeper.imported(_actor(as_anybody), project, text, definition, op=key)


def _named_alike(found: Workflow, finding: str, trusted: Workflow) -> str | None:
    """Return the id of a finding in the TRUSTED state: the same finding, not another one of the same words."""
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
