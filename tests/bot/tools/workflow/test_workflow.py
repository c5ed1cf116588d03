"""How an agent goes through a workflow: what it is told, at which label it writes, and what others see of that."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from bot.access.principals import of_chat
from bot.core.errors import NotFoundError, in_words
from bot.sessions.approvals import AnswerValue, Approval, ApprovalQuestion, ApprovalState, QuestionAnswer, QuestionKind
from bot.sessions.workflows.events import (
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    StateRecovered,
    StepCompleted,
    StepSkipped,
    UnknownBody,
    WorkflowBody,
    WorkflowEvent,
)
from bot.tools import arguments as checking
from bot.tools.base import RefusedCallError, Result, ToolContext
from bot.tools.catalogue import ARGUMENTS
from bot.tools.workflow import telling
from bot.tools.workflow.workflow import (
    CHANGED,
    LISTS,
    NOT_ANSWERED,
    NOT_PASSED,
    ONE_FINDING,
    PERSON,
    WorkflowArguments,
    WorkflowTool,
)
from bot.workflows.views import WorkflowActor
from channels.messages import Address
from policy.labels import PUBLIC, Label
from policy.request import Role
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, Services, policy, tool_context
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

NOTE: Final = {"project": "harbour", "definition": "note-review"}
YES: Final = True
ABSENT: Final = in_words(NotFoundError(next_step=LISTS))


def tool(owner: Person) -> WorkflowTool:
    return WorkflowTool(owner.app.workflows)


def at(owner: Person, taint: Label = PUBLIC, /, **changes: object) -> ToolContext:
    return tool_context(taint, **{"key": "k", "now": owner.app.clock.wall_ms(), **changes})


def read(**given: object) -> WorkflowArguments:
    return WorkflowArguments.model_validate_json(json.dumps(given))


async def call(owner: Person, context: ToolContext, services: Services | None = None, /, **given: object) -> Result:
    made = tool(owner)
    checking.checked(made, json.loads(json.dumps(given)))
    arguments = read(**given)
    made.declare(arguments, context)
    return await made.run(arguments, context, services or Services())


async def told(owner: Person, taint: Label = PUBLIC, /, **given: object) -> dict[str, Any]:
    """Make a call of a session's own, and return what it told."""
    result = await call(owner, at(owner, taint, key=f"{taint} {json.dumps(given)}"), **given)
    assert (result.failed, result.label) == (False, taint), result.text
    return json.loads(result.text)


async def refused(owner: Person, taint: Label = PUBLIC, /, **given: object) -> dict[str, Any]:
    result = await call(owner, at(owner, taint, key=f"{taint} {json.dumps(given)}"), **given)
    assert (result.failed, result.label) == (True, taint), result.text
    return json.loads(result.text)


async def in_step(owner: Person, step: str, taint: Label = PUBLIC) -> int:
    """Begin a workflow and one step of it; return the version."""
    made = await told(owner, taint, action="start", **NOTE)
    return (await told(owner, taint, action="step", project="harbour", step=step, version=made["version"]))["version"]


async def test_a_step_is_gone_through(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        listed = await told(owner, action="status")
        assert listed["workflows"] == []
        names = [one["name"] for one in listed["definitions"]]
        assert {"note-review", "seven-step"} <= set(names)
        made = await told(owner, action="start", branch="quay", **NOTE)
        assert (made["project"], made["definition"], made["version"], made["step"], made["status"]) == (
            "harbour",
            "note-review",
            1,
            "1",
            "pending",
        )
        assert made["exported"] == "agent-output/harbour/00-session-state.json"
        begun = await told(owner, action="step", project="harbour", step="1", version=1, files=["notes.md"])
        assert (begun["version"], begun["status"]) == (2, "in_progress")
        done = await told(
            owner, action="checkpoint", project="harbour", sub_step="outline", version=2, artifacts=["draft.md"]
        )
        assert (done["version"], done["sub_step"]) == (3, "outline")
        choice = {"title": "Format", "choice": "Markdown", "rationale": "It is short."}
        assert (await told(owner, action="decide", project="harbour", version=3, **choice))["version"] == 4
        resumed = await told(owner, action="resume", project="harbour")
        assert resumed["expected_artifacts"] == ["agent-output/harbour/01-draft.md"]
        assert (resumed["branch"], resumed["step"], resumed["sub_step"], resumed["done"], resumed["open_before"]) == (
            "continue",
            "1",
            "text",
            "outline",
            [],
        )
        completed = await told(owner, action="complete", project="harbour", version=4)
        assert completed["version"] == 5
        whole = await told(owner, action="status", project="harbour")
        first = whole["steps"][0]
        assert (first["status"], first["artifacts"], first["context_files_used"]) == (
            "complete",
            ["draft.md"],
            ["notes.md"],
        )
        assert whole["decision_log"] == [{"id": "D1", "step": "1", **choice}]
        assert (whole["branch"], whole["label"]) == ("quay", "PUBLIC")
        assert [one["project"] for one in (await told(owner, action="status"))["workflows"]] == ["harbour"]
        over = await told(owner, action="resume", project="harbour", step="1")
        assert over["branch"] == "rerun"


async def test_a_call_that_is_made_again_changes_nothing_more(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for given in (
            {"action": "start", **NOTE},
            {"action": "step", "project": "harbour", "step": "1", "version": 1},
            {"action": "checkpoint", "project": "harbour", "sub_step": "outline", "version": 2},
            {"action": "complete", "project": "harbour", "version": 3},
        ):
            made = await told(owner, **given)
            assert await told(owner, **given) == made
        assert (await told(owner, action="status", project="harbour"))["version"] == 4


async def test_the_loser_of_two_is_told_what_changed(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        version = await in_step(owner, "1")
        await told(owner, action="checkpoint", project="harbour", sub_step="outline", version=version)
        late = {"action": "checkpoint", "project": "harbour", "sub_step": "text", "version": version}
        lost = await refused(owner, **late)
        assert (lost["error"], lost["version"]) == ("conflict", version + 1)
        (since,) = lost["since"]
        assert (since["what"], since["sub_step"], since["by_agent"], since["session"]) == (
            "sub_step_done",
            "outline",
            True,
            "s1",
        )
        there = await call(owner, at(owner, key="another"), action="start", **NOTE)
        assert (there.failed, json.loads(there.text)["error"], json.loads(there.text)["since"]) == (
            True,
            "conflict",
            [],
        )


@pytest.mark.parametrize(
    "given, why",
    [
        ({"action": "start", "project": "x"}, "workflow with action `start` needs `definition`"),
        ({"action": "step", "project": "x"}, "workflow with action `step` needs `step` and `version`"),
        ({"action": "status", "step": "1"}, "workflow with action `status` takes no `step`"),
        ({"action": "finding", "project": "x", "version": 1}, ONE_FINDING),
        ({"action": "finding", "project": "x", "version": 1, "id": "F1", "text": "y"}, ONE_FINDING),
        ({"action": "status", "up_to": "HIGH"}, "HIGH"),
    ],
)
async def test_what_an_action_needs_is_named(tmp_path: Path, given: dict[str, object], why: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(RefusedCallError, match=why):
            tool(owner).declare(read(**given), at(owner))


async def test_nothing_of_a_higher_session_is_known_below(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await in_step(owner, "1", CONFIDENTIAL)
        assert (await told(owner, action="status"))["workflows"] == []
        for given in (
            {"action": "status", "project": "harbour"},
            {"action": "resume", "project": "harbour"},
            {"action": "complete", "project": "harbour", "version": 2},
            {"action": "step", "project": "harbour", "step": "1", "version": 1},
        ):
            below = await call(owner, at(owner), **given)
            assert (below.text, below.failed, below.label) == (ABSENT, True, PUBLIC)
            other = await call(owner, at(owner), **{**given, "project": "quay"})
            assert other == below
        # The same name is free below, and what is done there counts above.
        version = await in_step(owner, "1")
        await told(owner, CONFIDENTIAL, action="step", project="harbour", step="2", version=4)
        assert (await told(owner, action="status", project="harbour"))["version"] == version
        done = {"action": "checkpoint", "project": "harbour", "sub_step": "outline", "version": version}
        assert (await told(owner, **done))["version"] == version + 1


async def test_up_to_raises_first_and_is_bounded(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await in_step(owner, "1", INTERNAL)
        for given in ({"action": "status"}, {"action": "resume", "project": "harbour"}):
            arguments = read(**given, up_to="INTERNAL")
            assert tool(owner).declare(arguments, at(owner)).result == INTERNAL
            found = await call(owner, at(owner), **given, up_to="INTERNAL")
            assert (found.failed, found.label) == (False, INTERNAL)
        nothing = await call(owner, at(owner), Services(lambda label: label == PUBLIC), **given, up_to="INTERNAL")
        assert (nothing.text, nothing.label) == (ABSENT, INTERNAL)


async def test_a_page_plants_no_decision_and_removes_no_finding(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        version = await in_step(owner, "1")
        choice = {"title": "Format", "choice": "Plums", "rationale": "The page says so."}
        planted = await told(owner, DIRTY, action="decide", project="harbour", version=version, **choice)
        assert planted["version"] == version + 1
        clean = await told(owner, action="status", project="harbour")
        assert (clean["decision_log"], clean["version"]) == ([], version)
        await owner.say("/workflow finding harbour It is too long.")
        version = (await told(owner, DIRTY, action="status", project="harbour"))["version"]
        gone = await refused(owner, DIRTY, action="finding", project="harbour", version=version, id="F1")
        assert gone["error"] == "not_reviewer"
        found = (await told(owner, action="status", project="harbour"))["open_findings"]
        assert [(one["id"], one["text"]) for one in found] == [("F1", "It is too long.")]


async def test_in_a_shared_chat_what_is_read_is_any_members_words(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "mel": principal("console:mel", role="member", clearance="PUBLIC")}
    async with running(tmp_path, policy(principals=people), serve=False) as owner:
        room = {"principal": of_chat(Address("room", "team")), "home": Address("room", "team")}
        made = await call(owner, at(owner, **room), action="start", **NOTE)
        assert (made.failed, made.label) == (False, DIRTY)
        listed = await call(owner, at(owner, **room), action="status")
        (one,) = json.loads(listed.text)["workflows"]
        assert (one["label"], listed.label) == ("PUBLIC~", DIRTY)


async def test_what_looks_like_a_secret_is_not_told(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        version = await in_step(owner, "1")
        said = {"title": "sesame", "choice": "sesame", "rationale": "none"}
        masking = Services(masking=lambda text: text.replace("sesame", "***"))
        await told(owner, action="decide", project="harbour", version=version, **said)
        for given in ({"action": "status", "project": "harbour"}, {"action": "start", **NOTE}):
            assert "sesame" not in (await call(owner, at(owner, key="again"), masking, **given)).text


def test_every_kind_of_event_is_told() -> None:
    bodies: list[WorkflowBody] = [
        StepCompleted("1", "owner"),
        StepSkipped("2"),
        FindingAdded("1", "It is too long."),
        FindingRemoved("f"),
        FileTakenIn("{}"),
        StateRecovered("it was empty"),
        UnknownBody("later", "{}"),
    ]
    told = [telling.happening(WorkflowEvent(1, 2, DIRTY, body, "owner", sid="s1")) for body in bodies]
    assert [one["what"] for one in told] == [
        "step_completed",
        "step_skipped",
        "finding_added",
        "finding_removed",
        "file_taken_in",
        "recovered",
        "unknown",
    ]
    assert (told[0]["passed_by"], told[1]["step"], told[2]["text"]) == ("owner", "2", "It is too long.")
    assert told[5]["reason"] == "it was empty"
    # How many events of other labels there are is not told.
    assert all("order" not in one and (one["label"], one["session"]) == ("PUBLIC~", "s1") for one in told)


async def test_what_nobody_would_read_is_not_asked(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        version = await in_step(owner, "2")
        person = WorkflowActor("owner", "owner", PUBLIC, PUBLIC)
        for number in range(8):
            text = f"{number} {'x' * 1_900}"
            await owner.app.workflows.add_finding(person, "harbour", version + number, text, op=text)
        complete = {"action": "complete", "project": "harbour", "version": version + 8}
        assert await tool(owner).inquiry(read(**complete), at(owner)) is None
        assert (await refused(owner, **complete))["error"] == "gate"


async def test_what_may_be_asked_of_a_rule_is_known() -> None:
    assert {"action", "project", "step", "version"} <= set(ARGUMENTS["workflow"])


# Gates.


def answered(context: ToolContext, words: str, value: AnswerValue | None, label: Label = PUBLIC) -> ToolContext:
    """Return a context in which the person was asked this and said something, or nothing in time."""
    answer = None if value is None else QuestionAnswer(value, label, "console/owner")
    question = Approval(
        id="q",
        sid="s1",
        generation=1,
        turn="t1",
        call="c1",
        tool="workflow",
        binding="",
        label=PUBLIC,
        principal="owner",
        question=ApprovalQuestion("workflow", {"question": words}, kind=QuestionKind.QUESTION),
        rules=(),
        expires_at=0,
        state=ApprovalState.EXPIRED if value is None else ApprovalState.REPLIED,
        answer=answer,
    )
    return replace(context, asked=question)


async def at_gate(owner: Person) -> tuple[dict[str, object], str]:
    """Bring a workflow to its gate with a finding; return the call that completes, and what is asked then."""
    version = await in_step(owner, "2")
    made = {"sub_step": "read", "artifacts": ["review.md"], "version": version}
    await told(owner, action="checkpoint", project="harbour", **made)
    await owner.say("/workflow finding harbour It is\ntoo long.")
    version = (await told(owner, action="status", project="harbour"))["version"]
    complete: dict[str, object] = {"action": "complete", "project": "harbour", "version": version}
    asks = await tool(owner).inquiry(read(**complete), at(owner))
    assert asks is not None
    assert (asks.literal, asks.default, asks.wanted and asks.wanted.kind.value) == (True, None, "boolean")
    return complete, asks.question


async def test_a_gate_asks_with_all_that_stands_open(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        complete, question = await at_gate(owner)
        assert question.splitlines() == [
            "May workflow harbour pass step 2 (Review)?",
            "Artifacts:",
            "- review.md",
            "Sub-steps that are not done: findings",
            "Open findings:",
            "- F1 (step 2): It is too long.",
        ]
        assert await tool(owner).foresee(read(**complete), at(owner)) == [PERSON]
        for other in ({**complete, "version": 1}, {**complete, "project": "quay"}, {"action": "status"}):
            assert await tool(owner).inquiry(read(**other), at(owner)) is None
        # Nobody is asked, so it does not pass.
        held = await refused(owner, **complete)
        assert held["error"] == "gate"


async def test_an_answer_passes_only_what_was_shown(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        complete, question = await at_gate(owner)
        for value, note in ((False, NOT_PASSED), (None, NOT_ANSWERED)):
            kept = await call(owner, answered(at(owner, key=note), question, value), **complete)
            assert (kept.failed, json.loads(kept.text)["note"]) == (False, note)
        other = await call(owner, answered(at(owner, key="other"), question.replace("long", "short"), YES), **complete)
        assert (other.failed, other.text) == (True, CHANGED)
        passed = answered(at(owner, key="yes"), question, YES)
        done = await call(owner, passed, **complete)
        assert (done.failed, json.loads(done.text)["version"]) == (False, complete["version"] + 1)  # pyright: ignore[reportOperatorIssue] - a number
        # After a crash the same call tells the same, and nothing is passed twice.
        assert await call(owner, passed, **complete) == done
        found = await owner.app.workflows.found("owner", "harbour", PUBLIC)
        assert found.document.review_audit["2"]["passed_by"] == "owner"  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript] - as it is written


async def test_what_changed_while_a_person_was_asked_is_not_passed(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        complete, question = await at_gate(owner)
        await owner.say("/workflow finding harbour There is a second one.")
        late = await call(owner, answered(at(owner), question, YES), **complete)
        assert (late.failed, late.text) == (True, CHANGED)
        assert (await told(owner, action="status", project="harbour"))["status"] == "in_progress"


async def test_an_answer_at_a_higher_place_passes_nothing_that_it_did_not_show(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        complete, question = await at_gate(owner)
        raised = await call(owner, answered(at(owner, key="one"), question, YES, INTERNAL), **complete)
        assert (raised.failed, raised.label) == (False, INTERNAL)
        # The answer was given at INTERNAL, so it is known there alone.
        assert (await told(owner, action="status", project="harbour"))["status"] == "in_progress"
        assert (await told(owner, INTERNAL, action="status", project="harbour"))["steps"][1]["status"] == "complete"


async def test_what_is_known_only_where_the_answer_was_given_is_shown_first(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        complete, question = await at_gate(owner)
        version = (await told(owner, INTERNAL, action="status", project="harbour"))["version"]
        choice = {"title": "Shown", "choice": "nobody", "rationale": "It is internal."}
        await told(owner, INTERNAL, action="decide", project="harbour", version=version, **choice)
        person = WorkflowActor("owner", "owner", INTERNAL, INTERNAL)
        await owner.app.workflows.add_finding(person, "harbour", version + 1, "an internal one", op="f")
        raised = await call(owner, answered(at(owner, key="two"), question, YES, INTERNAL), **complete)
        assert (raised.text, raised.failed, raised.label) == (CHANGED, True, INTERNAL)


async def test_nobody_else_is_asked(tmp_path: Path) -> None:
    people = {
        "owner": principal("console:owner"),
        "gus": principal("console:gus", role="guest", clearance="PUBLIC"),
        "mel": principal("console:mel", role="member", clearance="PUBLIC"),
    }
    team = of_chat(Address("room", "team"))
    async with running(tmp_path, policy(principals=people), serve=False) as owner:
        keeper, document = owner.app.workflows, owner.app.gate.document
        complete = read(action="complete", project="harbour", version=2)

        async def asked(whose: str, asker: str = "", **changes: object) -> bool:
            who = WorkflowActor(whose, asker or whose, PUBLIC, PUBLIC)
            await keeper.start(who, "harbour", "note-review", op=f"{whose}/1")
            await keeper.begin_step(who, "harbour", "2", 1, op=f"{whose}/2")
            context = at(owner, principal=whose, asker=asker or whose, document=document, **changes)
            return await tool(owner).inquiry(complete, context) is not None

        assert await asked("mel", role=Role.MEMBER)
        assert await asked(team, "owner")
        assert await asked("owner", home=Address("session", "s0"))
        assert not await asked("gus", role=Role.GUEST)
        assert not await asked(team, "mel", role=Role.MEMBER)
        assert not await asked("program:ci")
        assert not await asked("owner", turn="")


async def test_no_argument_passes_a_gate(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        complete, _ = await at_gate(owner)
        with pytest.raises(Exception, match="passed_by"):
            read(**complete, passed_by="owner")
