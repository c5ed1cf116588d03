"""The client's sessions, events and webhooks, against a real API."""

from pathlib import Path

import pytest

from bot.sessions.api_tokens import Scope
from lockgate.client import Client
from lockgate.errors import ApiError, StreamEndedError
from lockgate.events import EventStream
from lockgate.sessions import TaskLimits
from lockgate.shapes import SessionEvent
from tests.bot.api.kit import served
from tests.bot.kit import bang

pytestmark = pytest.mark.anyio


async def test_a_session_from_its_first_message_to_its_deletion(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        sessions = client.sessions
        limits = TaskLimits(tokens=50_000, turn_seconds=60, turns=5)
        begun = await sessions.create("one", agent="default", limits=limits, metadata={"job": 7}, mode="collect")
        done = await sessions.finished(begun.id, within=30)
        assert done.result is not None
        assert (done.status, done.result.body["text"]) == ("idle", "You said: one")
        assert done.inputs == (1,)
        session = await sessions.get(begun.id)
        assert (session.metadata, session.mode, session.agent) == ({"job": 7}, "collect", "default")
        assert [one.id for one in (await sessions.list(limit=5, kind="chat")).sessions] == [begun.id]
        (turn,) = (await sessions.turns(begun.id, limit=5)).turns
        assert (await sessions.turn(begun.id, turn.id)).usage == turn.usage
        await sessions.pause(begun.id)
        assert (await sessions.say(begun.id, "two", key="second")).seq == 2
        assert (await sessions.say(begun.id, "two", key="second")).seq == 2
        assert (await sessions.get(begun.id)).waiting == 1
        await sessions.resume(begun.id)
        await sessions.finished(begun.id, within=30)
        await sessions.archive(begun.id)
        assert (await sessions.list()).sessions == ()
        (archived,) = (await sessions.list(status="archived")).sessions
        assert archived.id == begun.id
        await sessions.restore(begun.id)
        assert (await sessions.delete(begun.id)).sent == ()
        with pytest.raises(ApiError) as absent:
            await sessions.get(begun.id)
        assert absent.value.code == "not_found"


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_an_address_is_taken_with_its_version_and_without(tmp_path: Path, ending: str) -> None:
    async with served(tmp_path) as host, Client(f"{host.url}{ending}", await host.token()) as client:
        assert (await client.whoami()).principal.startswith("program:")


async def test_a_session_that_is_not_done_in_time_is_told_so(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        begun = await client.sessions.create("one")
        with pytest.raises(TimeoutError, match="not done within 0 seconds; where it stays `queued`, no worker"):
            await client.sessions.finished(begun.id, within=0)


async def test_pages_of_events_and_the_stream_tell_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        begun = await client.sessions.create(bang("current_time"))
        await client.sessions.finished(begun.id, within=30)
        paged, after = list[SessionEvent](), 0
        while True:
            page = await client.sessions.page(begun.id, after=after, limit=2)
            paged += page.events
            if page.next is None:
                break
            after = page.next
        assert len(paged) > 4
        streamed = list[SessionEvent]()
        async with client.sessions.events(begun.id) as events:
            async for event in events:
                streamed.append(event)
                if event.seq == paged[-1].seq:
                    break
        assert streamed == paged
        calls = await client.sessions.page(begun.id, types=("tool.call", "tool.result"))
        assert [event.type for event in calls.events] == ["tool.call", "tool.result"]
        said = await client.sessions.page(begun.id, level="user")
        assert [event.type for event in said.events] == ["user.message", "agent.message"]


async def test_others_and_those_whose_token_was_revoked_read_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as host,
        Client(host.url, await host.token("low", Scope.STEER, "INTERNAL")) as low,
    ):
        private = await low.sessions.create("hello", key="one")
        token = await host.token("high", Scope.STEER, "CONFIDENTIAL")
        async with Client(host.url, token) as high:
            with pytest.raises(ApiError) as another:
                await high.sessions.get(private.id)
            with pytest.raises(ApiError) as absent:
                await high.sessions.get("none")
            assert (another.value.code, another.value.message) == (absent.value.code, absent.value.message)
            begun = await high.sessions.create(bang("read_file", path="confidential/pipeline.md"))
            await high.sessions.finished(begun.id, within=30)
            events = high.sessions.events(begun.id)
            assert (await anext(events)).seq == 2
            await host.app.token_keeper.revoke("high", "owner")
            with pytest.raises((StreamEndedError, ApiError)):
                await to_the_end(events)


async def to_the_end(events: EventStream) -> None:
    while True:
        await anext(events)


async def test_webhooks_are_made_listed_and_dropped(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        webhooks = client.webhooks
        made = await webhooks.create("https://hooks.example.org/in", level="user", types=("agent.message",))
        assert made.secret not in repr(made)
        assert (await webhooks.list()).webhooks == (await webhooks.get(made.id),)
        assert (await webhooks.replace_secret(made.id)).secret != made.secret
        assert (await webhooks.dead(made.id)).dead == ()
        with pytest.raises(ApiError):
            await webhooks.redeliver("none")
        await webhooks.delete(made.id)
        assert (await webhooks.list()).webhooks == ()


async def test_an_own_call_is_refused_and_one_with_consent_goes_on(tmp_path: Path) -> None:
    ask = bang("message", channel="console", recipient="owner", text="hello")
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        for answer in (client.approvals.deny, client.approvals.approve):
            begun = await client.sessions.create(bang("read_file", path="public/welcome.md"))
            await client.sessions.finished(begun.id, within=30)
            await client.sessions.say(begun.id, ask)
            await client.sessions.finished(begun.id, within=30)
            (waits,) = (await client.approvals.list()).approvals
            assert (waits.session, waits.tool) == (begun.id, "message")
            settled = await answer(waits.id)
            assert [one.id for one in settled.approvals] == [waits.id]
            done = await client.sessions.finished(begun.id, within=30)
            assert done.status == "idle"


async def test_a_call_is_approved_for_further_calls_until_that_is_taken_back(tmp_path: Path) -> None:
    ask = bang("message", channel="console", recipient="owner", text="hello")
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        begun = await client.sessions.create(bang("read_file", path="public/welcome.md"))
        await client.sessions.finished(begun.id, within=30)
        await client.sessions.say(begun.id, ask)
        await client.sessions.finished(begun.id, within=30)
        (waits,) = (await client.approvals.list()).approvals
        await client.approvals.approve(waits.id, grant="conversation")
        await client.sessions.finished(begun.id, within=30)
        (grant,) = (await client.grants.list()).grants
        assert (grant.id, grant.left, grant.may_revoke) == (waits.id, 9, True)
        assert (await client.grants.revoke(grant.id)).left == 0
        assert (await client.grants.list()).grants == ()


async def test_a_simulation_in_a_session_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        begun = await client.sessions.create("one")
        await client.sessions.finished(begun.id, within=30)
        before = await client.sessions.get(begun.id)
        told = await client.sessions.simulate(begun.id, "read_file", {"path": "confidential/pipeline.md"})
        assert told.report["verdict"] == "ALLOW"
        assert await client.sessions.get(begun.id) == before
