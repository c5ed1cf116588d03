"""Calls that people release, in a whole application: who is asked, what runs, and what happens only once."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bot.agent.calls import OUTCOME_UNKNOWN
from bot.app.extensions import Extensions
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.log.event_types import ToolResult
from bot.tools.base import CallFacts, ToolContext, ToolServices
from channels.messages import Address
from policy.labels import PUBLIC
from policy.request import Effect
from tests.bot.kit import DIRTY, INTERNAL, Probe, Scripted, TextArguments, bang, parts, policy, proposed
from tests.bot.tools.web.test_fetch import Names, settings
from tests.bot.worker.test_outcome_unknown import FAST, Hanging
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal
from tests.sim.web import Web, web

pytestmark = pytest.mark.anyio

OWNER = principal("console:owner", may_release=True)
READ = bang("read_file", path="internal/handbook.md")
FACTS = CallFacts(clearance=PUBLIC, releases_to="the sink", consequential=True)


def person(owner: Person, name: str) -> Person:
    return Person(owner.app, owner.output, Address("console", name), f"console:{name}")


def sender(name: str = "post", **changes: object) -> Probe:
    """Return a tool that sends its arguments to a public sink; the session becomes INTERNAL by `know`."""
    facts: dict[str, object] = {"declared": FACTS, "effect": Effect.SEND, "repeatable": False, **changes}
    return Probe(name, **facts)  # pyright: ignore[reportArgumentType] - as in the kit


def know() -> Probe:
    return Probe("know", declared=CallFacts(result=INTERNAL))


def asked(shown: str) -> str:
    """Return the id of the question in a text."""
    return shown.split("`/approve ")[1].partition("`")[0]


async def approvals(owner: Person) -> list[Approval]:
    return sorted(await owner.app.store.approvals.of(owner.sid), key=lambda one: one.id)


@asynccontextmanager
async def browsing(folder: Path, **principals: object) -> AsyncGenerator[tuple[Person, Web]]:
    async with web() as server:
        entry = {"principals": {"owner": OWNER, **principals}}
        config = settings(folder, server.port, policy=entry)
        async with running(folder, config, parts=Extensions(resolve=Names({"api.test": ["127.0.0.1"]}))) as owner:
            yield owner, server


async def test_a_link_is_released_shown_whole_fetched_once_and_audited(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (owner, server):
        server.page("/a", "the page")
        await owner.say(READ)
        fetch = bang("web_fetch", url=f"{server.base}/a?q=menu\u00e9")
        shown = await owner.say(fetch)
        assert "May exactly this call be released, once? It is labelled INTERNAL~" in shown
        assert "q=menu\\u00e9" in shown
        assert f"Release: `/approve {asked(shown)}`" in shown
        assert server.asked == []
        assert "the page" in await owner.say(f"/approve {asked(shown)}")
        assert server.paths == ["/a?q=menu%C3%A9"]
        assert str((await owner.state()).taint) == "INTERNAL~"
        rows = await owner.app.store.audit.records(owner.sid, limit=1000)
        (row,) = [row for row in rows if row.kind == "release"]
        assert (row.actor, row.body["step"], row.body["sink"]) == ("owner", "call", server.base)
        (let,) = [row for row in rows if row.kind == "decision" and row.body.get("released")]
        assert (let.body["verdict"], let.body["tool"], row.n) == ("ALLOW", "web_fetch", let.n + 1)
        # The same link once more is another call.
        assert "May exactly this call be released" in await owner.say(fetch)
        assert len(server.asked) == 1


async def test_a_redirect_of_a_released_call_is_not_followed(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (owner, server):
        server.leads("/a", "/b")
        server.page("/b", "caught")
        await owner.say(READ)
        shown = await owner.say(bang("web_fetch", url=f"{server.base}/a"))
        assert "where this call may not follow" in await owner.say(f"/approve {asked(shown)}")
        assert server.paths == ["/a"]


async def test_one_answer_releases_all_calls_of_a_plan_in_their_order(tmp_path: Path) -> None:
    """The first page makes the session UNTRUSTED; the question was for the calls as they stand then."""
    post, web_page = sender(), sender("page")
    web_page.declared = CallFacts(clearance=PUBLIC, releases_to="the web", result=DIRTY)
    plan = [proposed("page", {"text": "one"}, "a"), proposed("post", {"text": "two"}, "b")]
    model = Scripted([proposed("know")], "known", plan, "done")
    config = policy(principals={"owner": OWNER})
    async with running(tmp_path, config, parts=parts(know(), post, web_page, model=model)) as owner:
        await owner.say("know it")
        shown = await owner.say("send both")
        assert "One answer is for all 2, which then run once each, in this order." in shown
        first, second = await approvals(owner)
        assert (first.rules, second.rules) == (("no_write_down",), ("no_write_down", "untrusted_cannot_command"))
        assert [str(one.label) for one in (first, second)] == ["INTERNAL", "INTERNAL~"]
        assert "done" in await owner.say(f"/approve {asked(shown)}")
        assert [one.text for one in (*web_page.said, *post.said)] == ["one", "two"]
        assert {one.state for one in await approvals(owner)} == {ApprovalState.USED}


async def test_reads_of_a_plan_run_one_after_the_other(tmp_path: Path) -> None:
    """People were told so, and other reads of a step run at once."""
    course = list[str]()

    async def slow(arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        course.append(f"{arguments.text} begins")
        # What does not wait for it goes on meanwhile.
        await asyncio.sleep(0.05)
        course.append(f"{arguments.text} ends")

    look = Probe("look", CallFacts(consequential=True), does=slow)
    model = Scripted([proposed("dirty")], "known", [proposed("look", {"text": one}, one) for one in "ab"], "done")
    dirty = Probe("dirty", CallFacts(result=DIRTY))
    async with running(tmp_path, parts=parts(dirty, look, model=model)) as owner:
        await owner.say("know it")
        shown = await owner.say("look twice")
        assert "One answer is for all 2, which then run once each, in this order." in shown
        assert "done" in await owner.say(f"/approve {asked(shown)}")
    assert course == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_call_behind_one_that_was_refused_is_asked_about_again(tmp_path: Path) -> None:
    post, web_page = sender(), sender("page", declared=CallFacts(clearance=PUBLIC, releases_to="the web", result=DIRTY))
    plan = [proposed("page", {"text": "one"}, "a"), proposed("post", {"text": "two"}, "b")]
    model = Scripted([proposed("know")], "known", plan, "done")
    config = policy(principals={"owner": OWNER})
    async with running(tmp_path, config, parts=parts(know(), post, web_page, model=model)) as owner:
        await owner.say("know it")
        name = asked(await owner.say("send both"))
        await owner.say(f"/deny {name}-1")
        again = await owner.say(f"/approve {name}-2")
        assert "It is labelled INTERNAL, and goes to `the sink`" in again
        assert (web_page.said, post.said) == ([], [])
        await owner.say(f"/approve {asked(again)}")
        assert [one.text for one in post.said] == ["two"]


async def test_only_people_with_the_right_at_a_cleared_address_answer(tmp_path: Path) -> None:
    people = {
        "owner": principal("console:owner"),
        "ann": principal("console:ann", "console:low", role="approver", clearance="INTERNAL", may_release=True),
        "bob": principal("console:bob", role="approver", clearance="INTERNAL"),
    }
    chats = {name: {"channel": "console", "chat": name, "clearance": "INTERNAL"} for name in ("ann", "bob")}
    chats |= {"owner": {"channel": "console", "chat": "owner", "clearance": "top"}}
    chats |= {"low": {"channel": "console", "chat": "low", "clearance": "PUBLIC"}}
    post, model = sender(), Scripted([proposed("know")], "known", [proposed("post", {"text": "one"})], "done")
    config = policy(principals=people, recipients=chats)
    async with running(tmp_path, config, parts=parts(know(), post, model=model)) as owner:
        await owner.say("know it")
        shown = await owner.say("send it")
        assert "Another person than `owner` has to answer" in shown
        assert "with the right `may_release`" in shown
        assert "→ ann: May exactly this call be released" in shown
        assert "→ bob" not in shown
        answer = f"/approve {asked(shown)}"
        assert "has to answer" in await owner.say(answer)
        assert "There is nothing of that name here" in await person(owner, "bob").say(answer)
        low = Person(owner.app, owner.output, Address("console", "low"), "console:low")
        assert "There is nothing of that name here" in await low.say(answer)
        assert post.said == []
        await person(owner, "ann").say(answer)
        await owner.settled()
        assert [one.text for one in post.said] == ["one"]
        rows = await owner.app.store.audit.records(owner.sid, limit=1000)
        assert [row.actor for row in rows if row.kind == "release"] == ["ann"]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_released_call_in_doubt_is_reported_and_not_repeated(tmp_path: Path, *, repeatable: bool) -> None:
    body = Hanging()
    post = sender(does=body, repeatable=repeatable)
    model = Scripted([proposed("know")], "known", [proposed("post", {"text": "one"})], "done")
    config = policy(principals={"owner": OWNER}, blocks=FAST)
    async with running(tmp_path, config, parts=parts(know(), post, model=model), serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        await owner.say("know it")
        await owner.send(f"/approve {asked(await owner.say('send it'))}")
        await body.until_begun()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(tmp_path, config, parts=parts(know(), post, model=model)) as owner:
        await owner.settled()
        assert [result.text for result in bodies(await owner.events(), ToolResult)][-1] == OUTCOME_UNKNOWN
        assert [one.state for one in await approvals(owner)] == [ApprovalState.USED]
        assert len(body.keys) == 1


async def test_a_call_that_is_too_long_to_be_shown_is_refused_as_ever(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (owner, server):
        await owner.say(READ)
        shown = await owner.say(bang("web_fetch", url=f"{server.base}/{'a' * 1990}"))
        assert "no_write_down" in shown
        assert await approvals(owner) == []


async def test_a_request_with_a_secret_is_not_offered(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (owner, server):
        await owner.say(READ)
        url = f"http://api.test:{server.port}/a"
        shown = await owner.say(bang("web_fetch", url=url, headers={"x": "${secret:key}"}))
        assert "no_write_down" in shown
        assert await approvals(owner) == []
        plain = await owner.say(bang("web_fetch", url=url, headers={"x": "```"}))
        assert re.search(r'"x": "\\u0060\\u0060\\u0060"', plain)
