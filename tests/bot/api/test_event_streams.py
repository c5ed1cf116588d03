"""Events over HTTP: pages and streams that tell each event once, and nothing above their reader."""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import pytest

from bot.api.watching import Watching, WatchingParts
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.sessions.log.events import Visibility
from policy.labels import PUBLIC, parse
from tests.bot.api.kit import MAKER, api_config, served
from tests.bot.api.listening import STREAM, Listener, Scribe, revoke, said, store_of
from tests.bot.kit import eventually

pytestmark = pytest.mark.anyio

HOUR = 3_600_000
SECRET = parse("CONFIDENTIAL~")
QUIET = api_config(settings={"heartbeat_seconds": 600})
UNAVAILABLE = b'event: end\ndata: {"reason":"unavailable"}\n\n'


async def test_a_page_tells_events_as_they_are(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token("ci", Scope.READ, "INTERNAL~")
        scribe = await Scribe.begun(store_of(host))
        last = await scribe.write(said("one"), said("two", visibility=Visibility.PROGRESS))
        async with host.client(token) as client:
            page = (await client.get(f"/v1/sessions/{scribe.sid}/events")).json()
            shown = page["events"][-1]
            assert [one["seq"] for one in page["events"]] == [last - 1, last]
            assert page["next"] is None
            assert shown == {
                "id": f"{scribe.sid}-{last}",
                "seq": last,
                "ts": shown["ts"],
                "actor": "agent",
                "type": "agent.message",
                "level": "progress",
                "label": "PUBLIC",
                "body": {"text": "two"},
                "turn_id": "t",
            }
            first = (await client.get(f"/v1/sessions/{scribe.sid}/events?limit=1")).json()
            rest = (await client.get(f"/v1/sessions/{scribe.sid}/events?after={first['next']}")).json()
            assert first["events"] + rest["events"] == page["events"]
            user = (await client.get(f"/v1/sessions/{scribe.sid}/events?level=user&type=agent.message")).json()
            assert [one["body"]["text"] for one in user["events"]] == ["one"]


async def test_a_stream_tells_what_was_and_what_comes(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        before = [await scribe.write(said("before"))]
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            await one.heard(*before)
            last = await scribe.write(said("one"))
            await one.heard(*before, last)
            more = await scribe.write(said("two"), said("three"))
            await one.heard(*before, last, last + 1, more)
            page = (await client.get(f"/v1/sessions/{scribe.sid}/events")).json()
            assert one.told == page["events"]


async def test_what_a_reader_accepts_says_whether_it_is_a_page_or_a_stream(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client:
            path = f"/v1/sessions/{scribe.sid}/events"
            for accept, told in (
                ("text/event-stream", "text/event-stream"),
                ("application/json", "application/json"),
                ("*/*", "application/json"),
            ):
                async with client.stream("GET", path, headers={"accept": accept}) as answer:
                    assert answer.headers["content-type"].partition(";")[0] == told


async def test_what_was_told_last_decides_where_a_stream_begins(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        last = await scribe.write(said("one"), said("two"))
        async with host.client(token) as client:
            async with Listener(client, scribe.sid, {"after": str(last - 1)}).connected() as one:
                await one.heard(last)
            async with Listener(client, scribe.sid, {"after": "0"}, last=str(last - 1)).connected() as one:
                await one.heard(last)
            for headers in ({"last-event-id": "x"}, {"last-event-id": "-1"}, {"last-event-id": "9" * 16}):
                refused = await client.get(f"/v1/sessions/{scribe.sid}/events", headers=headers)
                assert refused.status_code == 422
            for query in (
                "limit=0",
                "limit=501",
                "after=-1",
                "level=x",
                "level=internal",
                "type=",
                "type=a,,b",
                "more=1",
                "after=1&after=2",
            ):
                refused = await client.get(f"/v1/sessions/{scribe.sid}/events?{query}")
                assert refused.status_code == 422, query
            refused = await client.get(f"/v1/sessions/{scribe.sid}/events?limit=1", headers=STREAM)
            assert refused.status_code == 422


async def test_a_page_behind_the_end_of_the_log_is_refused_with_both_numbers(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        last = await scribe.write(said("one"))
        async with host.client(token) as client:
            refused = await client.get(f"/v1/sessions/{scribe.sid}/events?after={last + 3}")
            assert refused.status_code == HTTPStatus.CONFLICT
            told = refused.json()["error"]
            assert told["code"] == "log_truncated"
            assert told["message"] == f"The log of this session ends at {last}, before {last + 3}."
            assert (await client.get(f"/v1/sessions/{scribe.sid}/events?after={last}")).json()["events"] == []


async def test_a_stream_behind_the_end_of_the_log_says_so_and_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        last = await scribe.write(said("one"))
        told = f'id: {last}\nevent: log_truncated\ndata: {{"after":{last + 3},"last":{last}}}\n\n'.encode()
        async with host.client(token) as client:
            async with Listener(client, scribe.sid, last=str(last + 3)).connected() as one:
                await one.until(lambda: told in one.raw)
                await one.heard(await scribe.write(said("two")))
            assert one.raw.count(b"log_truncated") == 1


async def test_a_stream_is_filtered_as_a_page_is(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        query = {"level": "user", "type": "agent.message"}
        async with host.client(token) as client, Listener(client, scribe.sid, query).connected() as one:
            await scribe.write(said("progress", visibility=Visibility.PROGRESS))
            last = await scribe.write(said("user"))
            await one.heard(last)


async def test_of_a_rise_one_constant_event_is_told_and_then_it_is_as_absent(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token("ci", Scope.ADMIN, "INTERNAL~")
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client:
            path = f"/v1/sessions/{scribe.sid}/events"
            async with Listener(client, scribe.sid).connected() as one:
                before = [await scribe.write(said("before"))]
                await one.heard(*before)
                await scribe.write(said("harmless"), said("the secret", SECRET))
                assert await one.ended() == "unavailable"
                assert one.seqs == before
                assert one.raw.endswith(b"\n\n" + UNAVAILABLE)
                assert b"harmless" not in one.raw
            for headers in ({}, STREAM):
                gone, absent = [
                    await client.get(each, headers=headers) for each in (path, "/v1/sessions/nothing/events")
                ]
                assert gone.status_code == absent.status_code == 404
                assert gone.json()["error"] == absent.json()["error"]


async def test_an_event_above_its_reader_that_raised_nothing_is_left_out(tmp_path: Path) -> None:
    """One that never entered the context, as an answer that was not for this place."""
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token("ci", Scope.READ, "INTERNAL~")
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            last = await scribe.write(said("before"), replace(said("secret", SECRET), admitted=False), said("after"))
            await one.heard(last - 2, last)
            page = await client.get(f"/v1/sessions/{scribe.sid}/events")
            assert one.told == page.json()["events"]
            assert "secret" not in page.text


async def test_a_stream_stands_in_the_audit_once_and_once_for_a_rise(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token("ci", Scope.READ, "CONFIDENTIAL~")
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client:
            async with Listener(client, scribe.sid).connected() as one:
                for label in (PUBLIC, PUBLIC, parse("INTERNAL"), PUBLIC, SECRET, SECRET):
                    last = await scribe.write(said("more", label))
                    await one.until(lambda last=last: one.last == str(last))
            async with Listener(client, scribe.sid).connected() as again:
                await again.until(lambda: again.last == str(last))
        rows = [row for row in await host.app.store.audit.records("audit", limit=1000) if row.kind == "read"]
        assert [(row.actor, row.body["reading"], row.body["label"]) for row in rows] == [
            ("program:ci", "stream", label) for label in ("PUBLIC", "INTERNAL", "CONFIDENTIAL~")
        ]


async def test_a_revoked_token_ends_its_streams(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(settings={"heartbeat_seconds": 0.2}), works=False) as host:
        token = await host.token("ci")
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            before = [await scribe.write(said("before"))]
            await one.heard(*before)
            await revoke(host)
            await scribe.write(said("not for it"))
            assert await one.ended() == "unavailable"
            assert one.seqs == before
            assert one.raw.endswith(b"\n\n" + UNAVAILABLE)


async def test_a_token_that_expires_ends_its_streams(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(settings={"heartbeat_seconds": 0.2}), works=False) as host:
        brief = TokenRequest("ci", Scope.READ, SECRET, HOUR, 1_000)
        token = (await host.app.token_keeper.create(brief, MAKER)).text
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            assert one.status == HTTPStatus.OK
            host.app.store.time.saw(host.app.store.time.wall_ms() + HOUR)
            assert await one.ended() == "unavailable"
            assert (await client.get("/v1/whoami")).status_code == HTTPStatus.UNAUTHORIZED


async def test_a_silent_stream_beats_and_is_looked_at(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(settings={"heartbeat_seconds": 0.2}), works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            await one.until(lambda: one.beats >= 3)
            await revoke(host)
            assert await one.ended() == "unavailable"


async def test_a_deleted_session_ends_its_streams(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            await store_of(host).lifecycle.delete(scribe.sid, ())
            assert await one.ended() == "unavailable"


async def test_after_a_reset_the_new_generation_alone_is_told(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token("ci", Scope.READ, "INTERNAL~")
        scribe = await Scribe.begun(store_of(host))
        await scribe.write(said("secret", SECRET), said("public, said above"))
        await scribe.reset()
        last = await scribe.write(said("anew"))
        async with host.client(token) as client:
            page = (await client.get(f"/v1/sessions/{scribe.sid}/events")).json()
            async with Listener(client, scribe.sid).connected() as one:
                await one.until(lambda: one.last == str(last))
                assert one.told == page["events"]
                assert page["events"][0]["type"] == "session.reset"


async def test_fifty_reconnections_tell_each_event_once(tmp_path: Path) -> None:
    chance = random.Random(15)  # noqa: S311 - any chance will do
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        first = scribe.seq + 1
        done = asyncio.Event()

        async def write() -> None:
            while not done.is_set():
                await scribe.write(*[said(f"event {n}") for n in range(chance.randint(1, 4))])
                await asyncio.sleep(chance.random() / 100)

        async with host.client(token) as client, asyncio.TaskGroup() as tasks:
            one = Listener(client, scribe.sid)
            writing = tasks.create_task(write())
            for _ in range(50):
                await one.connect()
                await asyncio.sleep(chance.random() / 20)
                await one.leave()
            done.set()
            await writing
            async with one.connected():
                await one.until(lambda: one.last == str(scribe.seq))
        assert one.seqs == list(range(first, scribe.seq + 1))


async def test_a_program_has_half_of_the_streams_at_most(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(settings={"most_streams": 3}), works=False) as host:
        first, second = await host.token("ci"), await host.token("other")
        scribe, theirs = await Scribe.begun(store_of(host)), await Scribe.begun(store_of(host), "other")
        async with host.client(first) as client, host.client(second) as others:
            own = [Listener(client, scribe.sid) for _ in range(3)]
            for one in own:
                await one.connect()
            assert [one.status for one in own] == [200, 200, 429]
            async with Listener(others, theirs.sid).connected() as one:
                assert one.status == 200
            for one in own:
                await one.leave()

            async def fits() -> bool:
                async with Listener(client, scribe.sid).connected() as one:
                    return one.status == 200

            # That they hung up is noticed a little later.
            await eventually(fits)


async def test_streams_that_are_asked_for_at_once_are_bounded_too(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(settings={"most_streams": 4}), works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client:
            readers = [Listener(client, scribe.sid) for _ in range(12)]
            async with asyncio.TaskGroup() as tasks:
                for one in readers:
                    tasks.create_task(one.connect())
            assert sorted(one.status for one in readers) == [200] * 2 + [429] * 10
            for one in readers:
                await one.leave()


async def test_a_slow_look_finds_what_no_hint_told(tmp_path: Path) -> None:
    async with served(tmp_path, api_config(settings={"heartbeat_seconds": 0.2}), works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            first = await scribe.write(said("heard"))
            await one.heard(first)
            await one.heard(first, await scribe.write_unheard())


async def test_what_a_leaving_reader_heard_of_is_not_lost_to_the_others(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        store = store_of(host)
        scribe = await Scribe.begun(store)
        state = await store.sessions.state(scribe.sid)
        assert state is not None
        watching = Watching(WatchingParts(store, host.app.reloader, asyncio.Event(), 600))
        async with watching.session(state) as watched:
            number = (await watched.next(watched.latest.number)).number
            leading = asyncio.create_task(watched.next(number))
            await asyncio.sleep(0)
            other = asyncio.create_task(watched.next(number))
            last = await scribe.write_unheard()
            await scribe.hint_and_pause(0.6)
            await asyncio.sleep(0.2)
            leading.cancel()
            async with asyncio.timeout(60):
                await other
            assert [one.event.seq for one in watched.recent(last - 1) or ()] == [last]


async def test_what_is_written_in_a_hurry_before_a_rise_is_told_in_order_or_not_at_all(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token("ci", Scope.READ, "INTERNAL~")
        async with host.client(token) as client:
            for hurry in range(20):
                scribe = await Scribe.begun(store_of(host))
                async with Listener(client, scribe.sid).connected() as one:
                    shown = [await scribe.write(said(f"known {n}")) for n in range(hurry)]
                    await scribe.write(said("known too"), said("the secret", SECRET))
                    await scribe.write(said("said above"))
                    assert await one.ended() == "unavailable"
                    assert one.seqs == shown[: len(one.seqs)]
                    assert one.raw.endswith(UNAVAILABLE)


async def test_a_reader_who_missed_more_than_is_kept_reads_the_log(tmp_path: Path) -> None:
    async with served(tmp_path, QUIET, works=False) as host:
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        first = scribe.seq + 1
        async with host.client(token) as client, Listener(client, scribe.sid).connected() as one:
            for _ in range(7):
                await scribe.write(*[said("x" * 1_000)] * 100)
            await one.heard(*range(first, scribe.seq + 1))
            async with Listener(client, scribe.sid).connected() as late:
                await late.heard(*range(first, scribe.seq + 1))


async def test_a_process_that_ends_tells_its_streams_to_ask_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as outer:
        serving = AsyncExitStack()
        host = await serving.enter_async_context(served(tmp_path, QUIET, works=False))
        token = await host.token()
        scribe = await Scribe.begun(store_of(host))
        client = await outer.enter_async_context(host.client(token))
        one = await outer.enter_async_context(Listener(client, scribe.sid).connected())
        await one.heard()
        ending = asyncio.create_task(serving.aclose())
        assert await one.ended() == "restart"
        await ending
