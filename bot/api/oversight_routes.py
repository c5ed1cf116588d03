"""Questions of agents, calls that wait for an approval, and simulated calls.

The operations are those of the chat commands; here are their shapes. A session, a question or a call that a program may
not know of is answered as one that does not exist (law `no_read_up`). A program consents to nothing for itself, unless
its token is an admin's (ADR 0041). Copies of sessions and the audit are in modules of their own.
"""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Final, Literal

from fastapi import APIRouter
from pydantic import Field, JsonValue

from bot.access.decision_context import DecisionContext
from bot.api.errors import FORBIDDEN, ApiRefusedError, ErrorAnswer
from bot.api.requests import ApiRequest, Reading, Services, Steering
from bot.api.services import ApiServices
from bot.api.shapes import ApiInput, ApiOutput, short
from bot.api.standing import knowing, standing_in, standing_of
from bot.core.errors import NotFoundError
from bot.core.json_values import mapped_object
from bot.delivery import approval_prompts
from bot.operations import reading
from bot.operations.approval_answers import Decider, PendingCall, named, terms
from bot.operations.question_answers import AskedQuestion, Replier, fitting
from bot.operations.simulation import Simulating
from bot.sessions.api_tokens import Scope
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.models import SessionState

ANSWERED: Final = ErrorAnswer(HTTPStatus.CONFLICT, "answered", "This was answered already, in another way.")
IS_QUESTION: Final = ErrorAnswer(
    HTTPStatus.CONFLICT,
    "is_question",
    "This is a question of the agent, and no call that waits for an approval.",
    "Answer it under `/v1/sessions/{id}/questions`, or deny it.",
)
UNFIT: Final = ErrorAnswer(
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "unfit",
    "That is no answer to this question.",
    "`GET /v1/sessions/{id}/questions` tells under `takes` which answers fit.",
)
NO_GRANT: Final = ErrorAnswer(
    HTTPStatus.UNPROCESSABLE_ENTITY, "no_grant", "Only an approval counts for further calls.", "Leave out `grant`."
)
NOT_ELIGIBLE: Final = ErrorAnswer(HTTPStatus.FORBIDDEN, "not_eligible", "Another person has to answer this call.")

HELD_BACK: Final = "choices that may not be told here"
"""The text in place of a question's choices where its words are kept back: the choices are the agent's words, too."""
_SAME: Final = MappingProxyType(
    {
        ApprovalState.APPROVED: frozenset({ApprovalState.APPROVED, ApprovalState.USED}),
        ApprovalState.DENIED: frozenset({ApprovalState.DENIED}),
    }
)
"""Which states an answer leads to."""
ARGUMENTS_BYTES: Final = 65_536
"""How large the arguments of a simulated call may be, as compact JSON: all others wait while it is decided."""

_LONGEST_NAME: Final = 200


class QuestionDocument(ApiOutput):
    """A question of a session's agent, open or over since less than an hour."""

    id: str
    session: str
    state: ApprovalState
    text: str | None = Field(description="The agent's words; null where a rule keeps them back.")
    takes: str = Field(description="The answers that fit, in words.")
    default: bool | int | float | str | None = Field(description="The answer that counts if nobody answers.")
    expires_at: int = Field(description="Milliseconds since 1970.")
    label: str


class QuestionList(ApiOutput):
    """The questions of a session's agent, the next to end first."""

    questions: tuple[QuestionDocument, ...]


class AnswerRequest(ApiInput):
    """An answer to an agent's question: of the kind that it takes."""

    answer: bool | int | float | Annotated[str, Field(max_length=4_000)]


class ApprovalDocument(ApiOutput):
    """A call that waits for an approval, or a question of an agent that may be declined."""

    id: str
    session: str
    kind: str
    tool: str
    principal: str = Field(description="The principal that the call acts for.")
    asks: dict[str, JsonValue] | None = Field(
        description="The call that is asked about; null where a rule keeps it back."
    )
    rules: tuple[str, ...] = Field(description="The rules that ask.")
    state: ApprovalState
    may_approve: bool
    expires_at: int = Field(description="Milliseconds since 1970.")
    label: str


class ApprovalList(ApiOutput):
    """The waiting calls of this program's sessions, and those that it may answer."""

    approvals: tuple[ApprovalDocument, ...]


class ApprovalAnswer(ApiInput):
    """An answer to a call that waits. To approve takes the scope admin, to deny the scope steer."""

    answer: Literal["approve", "deny"]
    grant: Annotated[str, Field(max_length=60)] | None = Field(
        default=None,
        description="To approve further calls too: `conversation`, or `until` with a time such as `until 2h`.",
    )


class SettledApprovals(ApiOutput):
    """The calls of a question that were answered, and how many of it wait for another person."""

    approvals: tuple[ApprovalDocument, ...]
    waiting: int


class GrantDocument(ApiOutput):
    """A grant: an approval that counts for further calls of its scope."""

    id: str
    session: str
    tool: str
    principal: str = Field(description="The principal whose calls it covers.")
    given_by: str
    worst: str | None = Field(description="The worst case of its calls; null where a rule keeps it back.")
    rules: tuple[str, ...] = Field(description="The rules that it lifts.")
    left: int = Field(description="How many calls it still covers.")
    until: int = Field(description="Milliseconds since 1970, the last moment there is for the whole conversation.")
    may_revoke: bool
    label: str


class GrantList(ApiOutput):
    """The grants for calls of this program's sessions, and those that it gave."""

    grants: tuple[GrantDocument, ...]


class SimulatedCall(ApiInput):
    """A tool call that is not made."""

    tool: str = Field(min_length=1, max_length=_LONGEST_NAME)
    arguments: Annotated[dict[str, JsonValue], short(ARGUMENTS_BYTES)] = Field(
        default_factory=dict[str, JsonValue], description="Its arguments, up to 64 KB as JSON."
    )


class SimulationReport(ApiOutput):
    """The gate's decision about a simulated call, as far as this program may know it."""

    report: dict[str, JsonValue]


QUESTIONS: Final = APIRouter(tags=["questions"])
APPROVALS: Final = APIRouter(tags=["approvals"])
GRANTS: Final = APIRouter(tags=["grants"])
SIMULATIONS: Final = APIRouter(tags=["simulations"])


@QUESTIONS.get("/sessions/{sid}/questions")
async def questions(services: Services, asked: Reading, sid: str) -> QuestionList:
    """List what a session's agent wants to know of this program."""
    async with knowing(services, asked, sid, reading.ReadingKind.QUESTIONS) as state:
        standing = await standing_of(services, asked, state)
        found = await _asked_in(services, asked, state)
        return QuestionList(questions=tuple(_question(services, one, standing) for one in found))


@QUESTIONS.post("/sessions/{sid}/questions/{qid}")
async def reply(services: Services, asked: Steering, sid: str, qid: str, *, given: AnswerRequest) -> QuestionDocument:
    """Answer a question of a session's agent, once: the same answer again is no error."""
    async with knowing(services, asked, sid, reading.ReadingKind.QUESTIONS) as state:
        one = _named_question(await _asked_in(services, asked, state), qid)
        try:
            value = one.given(given.answer)
        except ValueError:
            raise ApiRefusedError(UNFIT) from None
        by = Replier(asked.caller.principal, asked.caller.caller.role, asked.caller.address, shared=False)
        stands, counts = await services.question_answers.give(one, value, by)
        if not counts:
            raise ApiRefusedError(ANSWERED)
        standing = await standing_of(services, asked, state)
        return _question(services, AskedQuestion(state, stands), standing)


@APPROVALS.get("/approvals")
async def approvals(services: Services, asked: Reading) -> ApprovalList:
    """List the calls that wait for an approval: of this program, and those that it may answer."""
    pending = await services.approval_answers.pending(_decider(asked))
    standing = await standing_of(services, asked)
    return ApprovalList(approvals=tuple(_approval(services, asked, standing, one.approval) for one in pending))


@APPROVALS.post("/approvals/{aid}")
async def answer(services: Services, asked: Steering, aid: str, given: ApprovalAnswer) -> SettledApprovals:
    """Let a call go on, refuse it, or take back one's own: the same answer again is no error.

    An id of several calls answers them all.
    """
    wanted = ApprovalState.APPROVED if given.answer == "approve" else ApprovalState.DENIED
    if wanted is ApprovalState.APPROVED and not asked.caller.may(Scope.ADMIN):
        raise ApiRefusedError(FORBIDDEN)
    if given.grant is not None and wanted is ApprovalState.DENIED:
        raise ApiRefusedError(NO_GRANT)
    longer = terms(tuple((given.grant or "").split()), services.clock.wall_ms())
    by = _decider(asked)
    try:
        calls = named(await services.approval_answers.pending(by), aid)
    except NotFoundError:
        # Nothing of it waits any more: they may have answered it, and missed the outcome.
        return await _settled(services, asked, aid, wanted)
    if wanted is ApprovalState.APPROVED and calls[0].approval.is_question:
        raise ApiRefusedError(IS_QUESTION)
    done = await services.approval_answers.answer(by, calls, wanted, longer)
    try:
        return await _settled(services, asked, aid, wanted)
    except NotFoundError:
        if done.settled:
            raise
        raise ApiRefusedError(_not_eligible(services, calls)) from None


@GRANTS.get("/grants")
async def grants(services: Services, asked: Reading) -> GrantList:
    """List the grants that cover further calls: of this program's sessions, and those that it gave."""
    known = await services.approval_answers.grants(_decider(asked), services.clock.wall_ms())
    standing = await standing_of(services, asked)
    return GrantList(grants=tuple(_grant(services, asked, standing, one) for one in known))


@GRANTS.delete("/grants/{gid}")
async def revoke(services: Services, asked: Steering, gid: str) -> GrantDocument:
    """Take a grant back: no call uses it any more."""
    by = _decider(asked)
    known = await services.approval_answers.grants(by, services.clock.wall_ms())
    one = next((one for one in known if one.approval.id == gid), None)
    if one is None:
        raise NotFoundError
    if not services.approval_answers.may_revoke(by.principal, one.approval):
        raise ApiRefusedError(FORBIDDEN)
    ended = await services.approval_answers.revoke(by, one)
    return _grant(services, asked, await standing_of(services, asked), replace(one, approval=ended))


def _grant(services: ApiServices, asked: ApiRequest, standing: DecisionContext, known: PendingCall) -> GrantDocument:
    approval = known.approval
    scope, grant = approval.question.scope, approval.grant
    if scope is None or grant is None:
        raise NotFoundError
    told = services.approval_answers.spoken(standing, approval, {"worst": services.gate.masks.masked(scope.worst)})
    return GrantDocument(
        id=approval.id,
        session=approval.sid,
        tool=services.gate.masks.masked(approval.tool),
        principal=approval.principal,
        given_by=approval.resolved_by,
        worst=None if told is None else str(told["worst"]),
        rules=scope.rules,
        left=grant.left if grant.end is None else 0,
        until=grant.until,
        may_revoke=services.approval_answers.may_revoke(asked.caller.principal, approval),
        label=str(known.label),
    )


async def _settled(services: ApiServices, asked: ApiRequest, aid: str, wanted: ApprovalState) -> SettledApprovals:
    """Return the outcome of a program's answer, the same at every repetition.

    Raises:
        NotFoundError: it answered nothing of that name, or may not know of its session by now.
        ApiRefusedError: another answer was the first.
    """
    every = [one.approval for one in await services.approval_answers.answered(_decider(asked), aid)]
    mine = [one for one in every if one.resolved_by == asked.caller.principal]
    # An approval is used as soon as its call runs.
    if not mine or any(one.state not in _SAME[wanted] for one in mine):
        raise ApiRefusedError(ANSWERED)
    standing = await standing_of(services, asked)
    told = tuple(_approval(services, asked, standing, replace(one, state=wanted)) for one in mine)
    return SettledApprovals(approvals=told, waiting=sum(one.state is ApprovalState.PENDING for one in every))


@SIMULATIONS.post("/simulate")
async def simulate(services: Services, asked: Reading, call: SimulatedCall) -> SimulationReport:
    """Tell what the gate would decide about a call in a session that has not begun; nothing is done."""
    by = Simulating(await standing_of(services, asked), asked.caller.address, asked.reader)
    return _report(await services.simulator.asked(by, None, call.tool, call.arguments))


@SIMULATIONS.post("/sessions/{sid}/simulate")
async def simulate_in(services: Services, asked: Reading, sid: str, call: SimulatedCall) -> SimulationReport:
    """Tell what the gate would decide about a call in a session as it stands; nothing is done."""
    async with knowing(services, asked, sid) as state:
        by = Simulating(await standing_in(services, asked, state), asked.caller.address, asked.reader)
        return _report(await services.simulator.asked(by, state, call.tool, call.arguments))


async def _asked_in(services: ApiServices, asked: ApiRequest, state: SessionState) -> tuple[AskedQuestion, ...]:
    """Return the questions of a session's agent to its program."""
    found = await services.question_answers.readable(asked.caller.principal, asked.reader)
    return tuple(one for one in found if one.question.sid == state.sid)


def _named_question(found: tuple[AskedQuestion, ...], qid: str) -> AskedQuestion:
    for one in found:
        if one.question.id == qid:
            return one
    raise NotFoundError


def _question(services: ApiServices, one: AskedQuestion, standing: DecisionContext) -> QuestionDocument:
    question, text = one.question, services.question_answers.spoken(one, standing, marked=False)
    return QuestionDocument(
        id=question.id,
        session=question.sid,
        state=question.state,
        text=text,
        takes=HELD_BACK if text is None else fitting(one),
        default=None if text is None else question.default,
        expires_at=question.expires_at,
        label=str(one.label),
    )


def _decider(asked: ApiRequest) -> Decider:
    return Decider(asked.caller.principal, asked.reader, asked.caller.address)


def _approval(
    services: ApiServices, asked: ApiRequest, standing: DecisionContext, approval: Approval
) -> ApprovalDocument:
    shown = services.approval_answers.shown(asked.caller.principal, approval)
    masked = services.gate.masks.masked
    asks = None if shown is None else mapped_object(shown, masked)
    told = None if asks is None else services.approval_answers.spoken(standing, approval, asks)
    return ApprovalDocument(
        id=approval.id,
        session=approval.sid,
        kind=approval.question.kind.value,
        tool=masked(approval.tool),
        principal=approval.principal,
        asks=None if told is None else dict(told),
        rules=approval.rules,
        state=approval.state,
        may_approve=asked.caller.may(Scope.ADMIN)
        and services.approval_answers.may_approve(asked.caller.principal, approval),
        expires_at=approval.expires_at,
        label=str(approval.label),
    )


def _not_eligible(services: ApiServices, calls: tuple[PendingCall, ...]) -> ErrorAnswer:
    """Return the refusal of an answer that another person has to give, with who that is."""
    who = approval_prompts.answers(services.gate.document, tuple(known.approval for known in calls))
    return ErrorAnswer(
        NOT_ELIGIBLE.status, NOT_ELIGIBLE.code, NOT_ELIGIBLE.message, " ".join(who) or approval_prompts.OTHERS_DO
    )


def _report(report: Mapping[str, JsonValue]) -> SimulationReport:
    return SimulationReport(report=dict(report))
