"""`/workflow`: what a person sees of workflows, begins, resumes and decides, and where."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from bot.commands.table import may_be_pressed
from bot.commands.workflows.workflow import LATER, LISTS, NONE
from bot.core.errors import NotFoundError, in_sentences, sentence
from bot.operations.workflows.workflows import WorkflowViewer
from bot.tools.workflow.workflow import ASK_WHO, NOT_PASSED, NOT_THEIRS
from bot.workflows.views import WorkflowActor
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.commands.kit import COUPLE
from tests.bot.kit import CONFIDENTIAL, DIRTY, bang, policy
from tests.bot.rooms import talking, team
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

ABSENT: Final = in_sentences(NotFoundError(next_step=LISTS))


async def told(owner: Person, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Have the agent make a call of `workflow`, and return what it told."""
    said = await owner.say(bang("workflow", **given))
    return json.loads(said[said.index("{") : said.rindex("}") + 1])


async def begun(owner: Person, label: Label, project: str = "harbour") -> None:
    """Begin a workflow with a step in progress, at a label."""
    actor = WorkflowActor("owner", "owner", label, label, sid="elsewhere")
    keeper = owner.app.workflows
    made = await keeper.start(actor, project, "note-review", op=f"{project}/{label}")
    await keeper.begin_step(actor, project, "1", made.workflow.version, op=f"{project}/{label}/1")


async def test_a_workflow_is_begun_seen_and_carried_on(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        empty = await owner.say("/workflow")
        assert (NONE in empty, "`note-review` (Note review)" in empty) == (True, True)
        made = await owner.say("/workflow start harbour note-review")
        assert "Workflow harbour is begun, labelled PUBLIC." in made
        assert "is there already" in await owner.say("/workflow start harbour note-review")
        assert "There is no workflow `nothing`." in await owner.say("/workflow start quay nothing")
        listed = await owner.say("/workflow list")
        assert re.search(r"harbour: note-review, no step in progress, version 1, .* UTC, PUBLIC", listed)
        resumed = await owner.say("/workflow resume harbour")
        assert "The agent goes on with workflow harbour: step 1 (Draft) at outline." in resumed
        # The agent was told of it, and nothing was offered beside.
        assert "You said: Go on with workflow harbour: step 1 (Draft) at outline" in resumed
        assert "stopped in" not in resumed
        version = (await told(owner, action="step", project="harbour", step="1", version=1))["version"]
        await told(owner, action="checkpoint", project="harbour", sub_step="outline", version=version)
        shown = await owner.say("/workflow show harbour")
        assert "Step 1 (Draft): in progress, outline is done" in shown
        assert "Step 2 (Review): pending, has a gate" in shown
        assert "step 1 (Draft) at text in progress" in await owner.say("/workflow")
        assert "Step 3 of workflow harbour is skipped." in await owner.say("/workflow skip harbour 3")
        assert "1 open finding now" in await owner.say("/workflow finding harbour The draft is too long.")
        assert "Open finding F1 (step 1): The draft is too long." in await owner.say("/workflow show harbour")
        assert "0 open findings now" in await owner.say("/workflow finding harbour remove F1")


async def test_where_earlier_steps_are_open_there_is_a_choice(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("/workflow start harbour note-review")
        warned = await owner.say("/workflow resume harbour 2")
        assert "earlier steps are open: 1." in warned
        assert "The agent goes on" not in warned
        for line in ("/workflow resume harbour 1 anyway", "/workflow resume harbour 2 anyway"):
            assert line in warned
            assert may_be_pressed(line)
            assert "The agent goes on" in await owner.say(line)


async def test_nobody_goes_on_behind_a_gate_but_past_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("/workflow start harbour note-review")
        behind = await told(owner, action="step", project="harbour", step="3", version=1)
        assert (behind["error"], behind["what"]) == (
            "gate",
            "step 2 comes before step 3, and nobody has passed its gate",
        )
        for way in ("", " anyway", " again"):
            warned = await owner.say(f"/workflow resume harbour 3{way}")
            assert "The agent goes on" not in warned
            assert "`/workflow skip harbour 2` leaves it out" in warned
            assert "/workflow resume harbour 1 anyway" in warned
            assert "/workflow resume harbour 3 anyway" not in warned
        await owner.say("/workflow skip harbour 2")
        assert "The agent goes on" in await owner.say("/workflow resume harbour 3 anyway")
        assert (await told(owner, action="step", project="harbour", step="3", version=2))["step"] == "3"


async def test_what_is_complete_can_be_run_again(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("/workflow start harbour note-review")
        await told(owner, action="step", project="harbour", step="1", version=1)
        await told(owner, action="complete", project="harbour", version=2)
        over = await owner.say("/workflow resume harbour 1")
        assert "Step 1 (Draft) of workflow harbour is complete. It can be run again." in over
        assert "/workflow resume harbour 1 again" in over
        again = await owner.say("/workflow resume harbour 1 again")
        assert "which is run again" in again
        await owner.say("/workflow skip harbour 2")
        assert "step 3 (Publish)" in await owner.say("/workflow resume harbour 2")


async def test_a_gate_is_passed_by_yes_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("/workflow start harbour note-review")
        await owner.say("/workflow skip harbour 1")
        await told(owner, action="step", project="harbour", step="2", version=2)
        asked = await owner.say(bang("workflow", action="complete", project="harbour", version=3))
        assert "> May workflow harbour pass step 2 (Review)?" in asked
        no = re.search(r"/answer \w+ no", asked)
        assert no is not None
        assert NOT_PASSED in await owner.say(no[0])
        asked = await owner.say(bang("workflow", action="complete", project="harbour", version=3))
        yes = re.findall(r"/answer \w+ yes", asked)[-1]
        done = await owner.say(yes)
        assert '"version": 4' in done
        found = await owner.app.workflows.found("owner", "harbour", PUBLIC)
        assert found.document.steps["2"].status.value == "complete"
        assert [event.actor for event in found.events if event.by_agent] == ["owner"] * 2


async def test_a_person_passes_by_a_command_what_they_saw(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await owner.say("/workflow start harbour note-review")
        await owner.say("/workflow skip harbour 1")
        actor = WorkflowActor("owner", "owner", PUBLIC, PUBLIC)
        await owner.app.workflows.begin_step(actor, "harbour", "2", 2, op="two")
        assert "is at version 3 by now" in await owner.say("/workflow pass harbour 2")
        assert "Step 2 of workflow harbour is complete." in await owner.say("/workflow pass harbour 3")
        found = await owner.app.workflows.found("owner", "harbour", PUBLIC)
        assert "owner" in json.dumps(dict(found.document.review_audit))


async def test_what_a_person_decides_counts_for_trusted_sessions_whatever_a_page_had_written(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await begun(owner, PUBLIC)
        await owner.say("/workflow finding harbour The draft is too long.")
        keeper, dirty = owner.app.workflows, WorkflowActor("owner", "owner", DIRTY, DIRTY, by_agent=True)
        version = (await keeper.found("owner", "harbour", DIRTY)).version
        await keeper.checkpoint(dirty, "harbour", "outline", version, op="page")
        await owner.say("/workflow finding harbour Nobody reads it.")
        await owner.say("/workflow skip harbour 3")
        assert "1 open finding now" in await owner.say("/workflow finding harbour remove F1")
        clean = await keeper.found("owner", "harbour", PUBLIC)
        assert [one.text for one in clean.document.open_findings] == ["Nobody reads it."]
        assert clean.document.steps["3"].status.value == "skipped"
        assert clean.document.steps["1"].sub_step == ""


async def test_a_finding_that_repeats_another_is_not_taken_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await begun(owner, PUBLIC)
        await owner.say("/workflow finding harbour It is too long.")
        keeper, dirty = owner.app.workflows, WorkflowActor("owner", "owner", DIRTY, DIRTY)
        version = (await keeper.found("owner", "harbour", DIRTY)).version
        await keeper.add_finding(dirty, "harbour", version, "It is too long.", op="page")
        assert "1 open finding now" in await owner.say("/workflow finding harbour remove F2")
        assert len((await keeper.found("owner", "harbour", PUBLIC)).document.open_findings) == 1


async def test_who_is_heard_as_anybody_decides_on_what_anybody_wrote(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await begun(owner, PUBLIC)
        keeper, dirty = owner.app.workflows, WorkflowActor("owner", "owner", DIRTY, DIRTY)
        await keeper.checkpoint(dirty, "harbour", "outline", 2, op="page")
        by = WorkflowViewer("owner", DIRTY, "owner", DIRTY)
        skipped = await owner.app.workflow_operations.skip(by, "harbour", "3", key="skip")
        assert skipped.workflow.version == 4
        assert (await keeper.found("owner", "harbour", PUBLIC)).version == 2


async def test_nothing_above_an_address_is_told_there(tmp_path: Path) -> None:
    both = {"role": "owner", "clearance": "top", "accounts": ["console:owner", "console:desk"]}
    recipients = {"desk": {"channel": "console", "chat": "desk", "clearance": "INTERNAL"}}
    async with running(tmp_path, policy(principals={"owner": both}, recipients=recipients), serve=False) as owner:
        lower = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        await begun(owner, CONFIDENTIAL)
        assert "harbour" in await owner.say("/workflow")
        assert NONE in await lower.say("/workflow")
        for line in ("show {}", "resume {}", "skip {} 1", "pass {} 2", "finding {} x", "finding {} remove F1"):
            above = await lower.say(f"/workflow {line.format('harbour')}")
            assert ABSENT in above
            assert above == await lower.say(f"/workflow {line.format('quay')}")
        # Nor is it in the way there.
        assert "is begun" in await lower.say("/workflow start harbour note-review")


async def test_another_persons_is_as_absent(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        await begun(owner, PUBLIC)
        assert NONE in await bea.say("/workflow")
        assert ABSENT in await bea.say("/workflow show harbour")


async def test_in_a_shared_chat_a_workflow_is_the_chats_and_an_admin_decides(tmp_path: Path) -> None:
    rooms = team("ann", "mel", "eve")
    chats = {"team": {"channel": "room", "chat": "team", "classification": "PUBLIC"}}
    async with talking(tmp_path, rooms, serve=False, chats=chats) as people:
        await people.say("ann", "/workflow start harbour note-review")
        assert "is begun, labelled PUBLIC~." in rooms.alone("ann")[-1]
        await people.say("mel", "/workflow")
        assert re.search("harbour: note-review.* UTC, PUBLIC~\n", rooms.alone("mel")[-1])
        for line in ("skip harbour 1", "pass harbour 1"):
            await people.say("mel", f"/workflow {line}")
            assert f"{sentence(NOT_THEIRS)} {sentence(ASK_WHO)}" in rooms.alone("mel")[-1]
        await people.say("mel", "/workflow finding harbour It is too long.")
        assert "1 open finding now" in rooms.alone("mel")[-1]
        await people.say("mel", "/workflow finding harbour remove F1")
        assert f"{sentence(NOT_THEIRS)} {sentence(ASK_WHO)}" in rooms.alone("mel")[-1]
        await people.say("ann", "/workflow finding harbour remove F1")
        assert "0 open findings now" in rooms.alone("ann")[-1]
        await people.say("ann", "/workflow skip harbour 1")
        assert "is skipped" in rooms.alone("ann")[-1]
        # What is a member's own is not there, and the chat's is nowhere else.
        await people.say("ann", "/workflow start quay note-review", Address("room", "ann"))
        await people.say("mel", "/workflow resume quay")
        assert ABSENT in rooms.alone("mel")[-1]
        before = len(rooms.said)
        await people.say("eve", "/workflow resume harbour")
        assert not any("goes on" in text for text in rooms.said[before:])
        await people.say("mel", "/workflow show harbour", Address("room", "mel"))
        assert ABSENT in rooms.heard(Address("room", "mel"))[-1]


@pytest.mark.parametrize(
    "odd",
    ["erase", "list x", "start x", "show", "show a b", "resume", "resume a b c", "skip x", "pass x y", "finding x"],
)
async def test_what_does_not_fit_is_answered_with_the_usage(tmp_path: Path, odd: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        assert "Write it as `/workflow [list" in await owner.say(f"/workflow {odd}")


async def test_to_let_an_offer_be_looks_nothing_up(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        assert LATER.format("harbour") in await owner.say("/workflow later harbour")
        assert may_be_pressed("/workflow later harbour")
        assert may_be_pressed("/workflow resume harbour")
        assert not may_be_pressed("/workflow pass harbour 3")
        assert not may_be_pressed("/workflow skip harbour 3")
