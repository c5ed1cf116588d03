"""`/approve`, `/deny` and `/approvals`, against a real store."""

from pathlib import Path

import pytest

from bot.access.authorize import Caller, Ingress
from policy.labels import PUBLIC, parse
from policy.request import Role
from tests.bot.commands.kit import COUPLE, READ, WRITE, context
from tests.bot.kit import bang, eventually, policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio


async def _asked(person: Person) -> bool:
    return bool(await person.app.store.approvals.of(person.sid))


async def test_an_approval_is_answered_once(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        (approval,) = await person.app.store.approvals.of(person.sid)
        listed = await person.say("/approvals")
        assert f"{approval.id} `write_file`" in listed
        assert "10 min left" in listed
        assert f"{approval.id} approved, `write_file` goes on" in await person.say(f"/approve {approval.id.upper()}")
        await person.settled()
        gone = "There is nothing of that name here. `/approvals` lists what waits; a question that was answered, or"
        assert gone in await person.say(f"/deny {approval.id}")
        assert (tmp_path / "data/files/confidential/note.md").read_text() == "mine"


async def test_what_a_configured_rule_asks_needs_somebody_else(tmp_path: Path) -> None:
    rule = {"id": "ask-first", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    people = {
        "owner": principal("console:owner"),
        "ada": principal("console:ada", role="approver"),
    }
    async with running(tmp_path, policy(rules=[rule], principals=people)) as person:
        await person.say("!current_time {}")
        (approval,) = await person.app.store.approvals.of(person.sid)
        assert "has to answer: an" in await person.say(f"/approve {approval.id}")
        ada = Caller("ada", Role.APPROVER, person.app.config.policy.top, Ingress.COMMAND)
        assert "denied" in (await person.app.commands.answer(context(person, ada), f"/deny {approval.id}")).text


async def test_what_a_caller_may_not_know_of_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        await person.say(READ)
        await person.say(WRITE)
        (approval,) = await person.app.store.approvals.of(person.sid)
        bea = Caller("bea", Role.MEMBER, parse("INTERNAL"), Ingress.COMMAND)
        assert (
            await person.app.commands.answer(context(person, bea), "/approvals")
        ).text == "Nothing waits for an answer."
        absent = await person.app.commands.answer(context(person, bea), "/approve 22222222")
        hidden = await person.app.commands.answer(context(person, bea), f"/approve {approval.id}")
        assert hidden == absent


async def test_a_refusal_about_something_found_has_its_label(tmp_path: Path) -> None:
    """The audit has a row for each answer. Readers below may not learn of an answer to what is above them."""
    rule = {"id": "look", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="approver")}
    async with running(tmp_path, policy(rules=[rule], principals=people)) as person:
        await person.say(READ)
        await person.say("!current_time {}", wait=False)
        await eventually(lambda: _asked(person))
        (approval,) = await person.app.store.approvals.of(person.sid)
        commands = person.app.commands
        ada = Caller("ada", Role.APPROVER, person.app.config.policy.top, Ingress.COMMAND)
        refused = await commands.answer(context(person, ada), f"/approve {approval.id} conversation")
        assert (refused.failed, refused.label) == (True, approval.label)
        assert "approved once only" in refused.text
        absent = await commands.answer(context(person, ada), "/approve 22222222 conversation")
        assert (absent.failed, absent.label) == (True, PUBLIC)


async def test_a_wrong_answer_to_a_question_has_its_label(tmp_path: Path) -> None:
    """The words that fit are the model's."""
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(
            bang("ask_user", question="Which town?", schema={"type": "enum", "values": ["Veldhaven", "Norhaven"]}),
            wait=False,
        )

        await eventually(lambda: _asked(person))
        (question,) = await person.app.store.approvals.of(person.sid)
        told = await person.app.commands.answer(context(person), f"/answer {question.id} Berlin")
        assert "Veldhaven" in told.text
        assert (told.failed, str(told.label)) == (True, "CONFIDENTIAL~")
