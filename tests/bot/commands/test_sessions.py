"""Commands about sessions, against a real store: lists, histories and titles."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.commands.sessions import NOTHING_SAID
from bot.sessions.models import Title
from bot.tools.sessions import ONLY
from channels.messages import Address
from policy.labels import parse
from tests.bot.commands.kit import COUPLE, READ, context
from tests.bot.kit import bang, policy
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


async def test_sessions_lists_the_callers_own_for_whoever_reads_here(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as owner:
        high = Person(owner.app, owner.output, Address("console", "high"))
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        await high.say(READ)
        await bea.say("hello")
        outside = Person(owner.app, owner.output, Address("console", "outside"))
        assert (await outside.say("/sessions")).splitlines()[-1].endswith(ONLY)
        assert high.sid not in owner.shown
        assert high.sid in await owner.say("/sessions")
        await owner.say("hello")
        told = await owner.say("/sessions")
        assert told.splitlines()[-1].strip() == ONLY
        assert f"{owner.sid} (this one)\n  - chat on console, idle, taint PUBLIC" in told
        assert bea.sid not in told
        assert "begin at the first page" in await owner.say("/sessions forged")
        for odd in (
            "a b",
            "kind=queue",
            "kind=chat kind=chat",
            "active=0",
            "active=x",
            "active=1" + "0" * 9,
            "who=ann",
        ):
            assert "Write it as `/sessions [all] [kind=" in await owner.say(f"/sessions {odd}")


async def test_sessions_can_be_asked_for_by_kind_and_time(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for n in range(21):
            await Person(owner.app, owner.output, Address("console", f"c{n}")).send("hello")
        assert "- chat on " not in await owner.say("/sessions kind=task")
        first = await owner.say("/sessions active=1000 kind=chat")
        (more,) = [line for line in first.splitlines() if "More with" in line]
        assert "`/sessions active=1000 kind=chat " in more
        assert (await owner.say(more.split("`")[1])).count("- chat on ") == 1
        later = replace(context(owner), now=owner.app.clock.wall_ms() + 3_600_000)
        assert (await owner.app.commands.answer(later, "/sessions active=1000")).text == ONLY
        assert "- chat on " in (await owner.app.commands.answer(later, "/sessions active=100000")).text


async def test_a_history_shows_calls_and_results_if_asked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for _ in range(6):
            await owner.say(bang("current_time"))
        assert "call of" not in await owner.say("/history")
        told = await owner.say("/history tools")
        assert "agent, call of current_time, PUBLIC" in told
        assert "current_time, result of current_time, ok, PUBLIC" in told
        (more,) = [line for line in told.splitlines() if "Before these" in line]
        assert more.endswith(" tools`")
        assert "call of" in await owner.say(more.split("`")[1])


async def test_sessions_are_listed_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for n in range(21):
            await Person(owner.app, owner.output, Address("console", f"c{n}")).send("hello")
        first = await owner.say("/sessions")
        assert first.count("- chat on ") == 20
        (more,) = [line for line in first.splitlines() if "More with" in line]
        assert (await owner.say(more.split("`")[1])).count("- chat on ") == 1


async def test_history_shows_what_was_said_here_or_in_another_conversation(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as owner:
        assert NOTHING_SAID in await owner.say("/history")
        other = Person(owner.app, owner.output, Address("console", "other"))
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        for person in (owner, other, bea):
            await person.say(f"token = {'ghp_' + 'a1B2' * 9}")
        told = await owner.say("/history")
        assert "2. owner, PUBLIC, " in told or "3. owner, PUBLIC, " in told
        assert "[redacted: secret]" in told
        assert "You said" in await owner.say(f"/history {other.sid}")
        for sid in (bea.sid, "nonsense"):
            assert "There is nothing of that name here" in await owner.say(f"/history {sid}")
        assert "begin at the first page" in await owner.say(f"/history {owner.sid} x")
        assert "Write it as" in await owner.say("/history a b c")
        assert NOTHING_SAID in await owner.say(f"/history {owner.sid} 1")


async def test_history_goes_back_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for n in range(11):
            await owner.say(f"message {n}")
        first = await owner.say("/history")
        assert "message 0" not in first
        (more,) = [line for line in first.splitlines() if "Before these" in line]
        assert "message 0" in await owner.say(more.split("`")[1])


async def test_what_an_address_is_not_cleared_for_is_not_in_its_history(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        outside = Person(owner.app, owner.output, Address("console", "guest"))
        refused = (await outside.say(f"/history {owner.sid}"), await outside.say("/history nonsense"))
        assert refused[0] == refused[1]
        assert "You said" in await owner.say("hello")


async def test_a_title_keeps_the_label_of_where_it_was_typed(tmp_path: Path) -> None:
    config = policy(channels={"console": {"inbound": "INTERNAL", "classification": "top"}})
    async with running(tmp_path, config) as owner:
        assert "nothing to name yet" in await owner.say("/name the plan")
        await owner.say("hello")
        assert "is called the plan" in await owner.say("/name  the  plan")
        assert (await owner.state()).title == Title("the plan", parse("INTERNAL"))
        assert f"{owner.sid} the plan (this one)" in await owner.say("/sessions")
        assert "at most 100 characters" in await owner.say(f"/name {'x' * 101}")
        assert "has no title" in await owner.say("/name")
        assert (await owner.state()).title is None
        await owner.say("/name again")
        await owner.say("/reset confirm")
        assert (await owner.state()).title is None
