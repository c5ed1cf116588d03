"""Workflows of programs, by the routes under `/workflows`.

The operations are those of the chat command: a program sees its own workflows as far as it may know of them, and
nothing above. It carries them on by calls of `workflow` through the gate. A gate is passed by a person, so by no
program. An answer is decided on like an answer to the program.
"""

import json
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import JsonValue

from bot.access import labelling
from bot.api.errors import ApiRefusedError, ErrorAnswer
from bot.api.requests import ApiRequest, Reading, Services, Steering
from bot.api.services import ApiServices
from bot.api.session_routes import Key, call_named
from bot.api.standing import standing_of
from bot.api.workflows.shapes import (
    DecisionNoted,
    NewWorkflow,
    SeenVersion,
    StepBegun,
    SubStepReached,
    WorkflowChanged,
    WorkflowDefinitionDocument,
    WorkflowInFull,
    WorkflowList,
    WorkflowLog,
    WorkflowResumption,
)
from bot.core.errors import sentence
from bot.gate.results import MAY_GO_ON
from bot.operations.gated_calls import RefusedCall
from bot.operations.workflows.workflows import RefusedChangeError, WorkflowViewer
from bot.tools.arguments import changed
from bot.tools.workflow import telling
from policy.labels import PUBLIC, Label, join_all

REFUSED: Final = ErrorAnswer(
    HTTPStatus.FORBIDDEN,
    "refused",
    "The policy does not allow that here.",
    "`POST /v1/simulate` tells which rules decide on `workflow`.",
)

Step = Annotated[str, Query(max_length=64)]

ROUTER: Final = APIRouter(tags=["workflows"])
"""The routes about workflows."""


@ROUTER.get("/workflows")
async def workflows(services: Services, asked: Reading) -> WorkflowList:
    """List the workflows of this program, and the definitions to begin with."""
    known = await services.workflows.listed(_viewer(services, asked))
    listed: list[JsonValue] = [{**telling.brief(one), "label": str(one.label)} for one in known]
    told = await _told(services, asked, {"workflows": listed}, join_all(one.label for one in known))
    definitions = tuple(
        WorkflowDefinitionDocument(name=one.name, title=one.title, steps=tuple(step.id for step in one.steps))
        for one in services.workflows.definitions.values()
    )
    return WorkflowList.model_validate({**told, "definitions": definitions})


@ROUTER.get("/workflows/{project}")
async def workflow(services: Services, asked: Reading, project: str) -> WorkflowInFull:
    """Return a workflow."""
    found = await services.workflows.show(_viewer(services, asked), project)
    return WorkflowInFull.model_validate(await _told(services, asked, telling.whole(found), found.label))


@ROUTER.get("/workflows/{project}/log")
async def log(services: Services, asked: Reading, project: str) -> WorkflowLog:
    """Return the events of a workflow."""
    found = await services.workflows.show(_viewer(services, asked), project)
    events: list[JsonValue] = [telling.happening(event) for event in found.events]
    return WorkflowLog.model_validate(await _told(services, asked, {"events": events}, found.label))


@ROUTER.get("/workflows/{project}/resume")
async def resume(services: Services, asked: Reading, project: str, step: Step = "") -> WorkflowResumption:
    """Return where work goes on, at the current step if none is named."""
    found = await services.workflows.resume(_viewer(services, asked), project, step)
    told = await _told(services, asked, telling.resumption(found), found.workflow.label)
    return WorkflowResumption.model_validate(told)


@ROUTER.post("/workflows", status_code=HTTPStatus.CREATED)
async def start(services: Services, asked: Steering, new: NewWorkflow, idempotency_key: Key = None) -> WorkflowChanged:
    """Begin a workflow; it has the label of this program's own words.

    The same `Idempotency-Key` is the same one.
    """
    given: dict[str, JsonValue] = {"action": "start", "project": new.project, "definition": new.definition}
    return await _acted(services, asked, {**given, "branch": new.branch or None}, idempotency_key)


@ROUTER.post("/workflows/{project}/steps")
async def step(
    services: Services, asked: Steering, project: str, begun: StepBegun, *, idempotency_key: Key = None
) -> WorkflowChanged:
    """Begin a step, or with `again` one anew. The same `Idempotency-Key` is the same change."""
    files: list[JsonValue] = list(begun.files)
    given: dict[str, JsonValue] = {"action": "step", "project": project, "step": begun.step, "files": files}
    given |= {"version": begun.version, "again": begun.again}
    return await _acted(services, asked, given, idempotency_key)


@ROUTER.post("/workflows/{project}/checkpoints")
async def checkpoint(
    services: Services, asked: Steering, project: str, reached: SubStepReached, *, idempotency_key: Key = None
) -> WorkflowChanged:
    """Note that a part of the step in progress is done. The same `Idempotency-Key` is the same change."""
    artifacts: list[JsonValue] = list(reached.artifacts)
    given: dict[str, JsonValue] = {"action": "checkpoint", "project": project, "version": reached.version}
    given |= {"sub_step": reached.sub_step, "artifacts": artifacts}
    return await _acted(services, asked, given, idempotency_key)


@ROUTER.post("/workflows/{project}/decisions")
async def decide(
    services: Services, asked: Steering, project: str, noted: DecisionNoted, *, idempotency_key: Key = None
) -> WorkflowChanged:
    """Write down a decision at the step in progress. The same `Idempotency-Key` is the same one."""
    given: dict[str, JsonValue] = {"action": "decide", "project": project, **noted.model_dump()}
    return await _acted(services, asked, given, idempotency_key)


@ROUTER.post("/workflows/{project}/complete")
async def complete(
    services: Services, asked: Steering, project: str, seen: SeenVersion, *, idempotency_key: Key = None
) -> WorkflowChanged:
    """Complete the step in progress, unless a person has to pass it. The same `Idempotency-Key` is the same."""
    given: dict[str, JsonValue] = {"action": "complete", "project": project, "version": seen.version}
    return await _acted(services, asked, given, idempotency_key)


async def _acted(
    services: ApiServices, asked: ApiRequest, given: dict[str, JsonValue], idempotency_key: str | None
) -> WorkflowChanged:
    """Have a call of `workflow` made. Raises ApiRefusedError: the gate refused it, or it cannot be done."""
    standing = await standing_of(services, asked)
    key = f"{call_named(services, asked, idempotency_key)}/{given['action']}/{given['project']}"
    try:
        made = await services.workflows.act(standing, key, _typed(services, asked), given)
    except RefusedChangeError as error:
        raise ApiRefusedError(_refusal(error)) from None
    if isinstance(made, RefusedCall):
        raise ApiRefusedError(REFUSED)
    return WorkflowChanged.model_validate(made)


def _refusal(error: RefusedChangeError) -> ErrorAnswer:
    return ErrorAnswer(HTTPStatus.CONFLICT, error.code, sentence(str(error)), sentence(error.next_step))


def _viewer(services: ApiServices, asked: ApiRequest) -> WorkflowViewer:
    """Return a program as one who asks about its workflows, at its own address.

    As people are, it is told also what anybody may have written: a label says so.
    """
    principal = asked.caller.principal
    return WorkflowViewer(
        principal, labelling.untrusted(asked.reader), principal, _typed(services, asked), decides=False
    )


def _typed(services: ApiServices, asked: ApiRequest) -> Label:
    caller = asked.caller
    return labelling.inbound(services.gate.document, caller.address, caller.caller.role, authored=True)


async def _told(
    services: ApiServices, asked: ApiRequest, document: dict[str, JsonValue], label: Label = PUBLIC
) -> dict[str, JsonValue]:
    """Return a document as the rules about outputs allow it (hook PRE_OUTPUT).

    Raises ApiRefusedError: they do not.
    """
    gate, standing = services.gate, await standing_of(services, asked)
    text = json.dumps(document, ensure_ascii=False)
    decision = gate.output.reply(standing, standing.destination, text, label).decision
    if decision.verdict not in MAY_GO_ON:
        raise ApiRefusedError(REFUSED)
    return changed(document, lambda word: gate.masks.masked(gate.masks.cleaned(word, decision)))
