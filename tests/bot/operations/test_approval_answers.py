"""What finds and answers the calls that wait, for chats and programs alike, against a real store."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import NotFoundError
from bot.operations.approval_answers import Decider, named
from bot.sessions.approvals import ApprovalState
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from tests.bot.commands.kit import COUPLE, READ, WRITE
from tests.bot.kit import bang, policy
from tests.harness import HOME, Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

ELSEWHERE = Address("api", "nightly")
TWO = policy(
    rules=[{"id": "ask-first", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}],
    principals={"owner": principal("console:owner"), "ada": principal("console:ada", role="approver")},
)


def decider(person: Person, name: str, reader: Label | None = None) -> Decider:
    """Return somebody who asks from another place than the conversation's."""
    return Decider(name, person.app.config.policy.top if reader is None else reader, ELSEWHERE)


async def test_what_waits_is_found_from_elsewhere_by_those_it_concerns(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        await person.say(READ)
        await person.say(WRITE)
        (approval,) = await person.app.store.approvals.of(person.sid)
        answers = person.app.approval_answers
        (known,) = await answers.pending(decider(person, "owner"))
        assert known.approval == approval
        assert known.label == approval.label.join((await person.state()).visibility)
        assert await answers.pending(decider(person, "bea")) == ()


async def test_what_is_above_the_reader_does_not_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        answers = person.app.approval_answers
        for reader in (PUBLIC, parse("INTERNAL")):
            assert await answers.pending(decider(person, "owner", reader)) == ()
        assert len(await answers.pending(decider(person, "owner"))) == 1


async def test_what_waits_in_a_session_that_rose_meanwhile_is_above_as_that_is(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        answers, reader = person.app.approval_answers, parse("CONFIDENTIAL~")
        assert len(await answers.pending(decider(person, "owner", reader))) == 1
        up = NewItem(person.sid, "up", "owner", parse("RESTRICTED"), SessionMessage("up"), str(HOME), "owner")
        await person.app.store.sessions.accept(up)
        assert await answers.pending(decider(person, "owner", reader)) == ()
        assert len(await answers.pending(decider(person, "owner"))) == 1


async def test_what_an_agent_asks_of_somebody_is_nothing_to_others_in_their_chat(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        await person.say(bang("ask_user", question="Which?", schema={"type": "boolean"}))
        answers = person.app.approval_answers
        owner, bea = (replace(decider(person, name), sid=person.sid) for name in ("owner", "bea"))
        (known,) = await answers.pending(owner)
        assert known.approval.is_question
        assert await answers.pending(bea) == ()


async def test_one_answer_counts_and_is_audited(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        answers, by = person.app.approval_answers, decider(person, "owner")
        calls = await answers.pending(by)
        done = await answers.answer(by, calls, ApprovalState.APPROVED)
        assert [one.state for one in done.settled] == [ApprovalState.APPROVED]
        assert done.left == ()
        rows = [row for row in await person.app.chains.newest(person.sid, 50) if row.kind == "approval"]
        assert [(row.actor, row.body["answer"], row.body["address"]) for row in rows] == [
            ("owner", "approved", str(ELSEWHERE))
        ]
        await person.settled()
        assert (tmp_path / "data/files/confidential/note.md").read_text() == "mine"
        with pytest.raises(NotFoundError):
            named(await answers.pending(by), calls[0].approval.id)


async def test_an_asker_may_refuse_what_another_has_to_approve(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as person:
        await person.say(bang("current_time"))
        answers, by = person.app.approval_answers, decider(person, "owner")
        calls = await answers.pending(by)
        refused = await answers.answer(by, calls, ApprovalState.APPROVED)
        assert (refused.settled, [one.id for one in refused.left]) == ((), [calls[0].approval.id])
        assert (await person.app.store.approvals.of(person.sid))[0].state is ApprovalState.PENDING
        done = await answers.answer(by, calls, ApprovalState.DENIED)
        assert [one.state for one in done.settled] == [ApprovalState.DENIED]


async def test_what_is_held_back_is_shown_to_whoever_decides_on_it(tmp_path: Path) -> None:
    rules = [{"id": "said-by-two", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL"}]
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="approver")}
    async with running(tmp_path, policy(rules=rules, principals=people)) as person:
        await person.say("hello")
        answers = person.app.approval_answers
        (known,) = await answers.pending(decider(person, "owner"))
        assert answers.shown("owner", known.approval) is None
        shown = answers.shown("ada", known.approval)
        assert shown is not None
        assert shown["tool"] == "answer"
