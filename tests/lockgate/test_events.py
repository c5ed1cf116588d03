"""A stream goes on where it broke off, and ends where there is nothing to read any more."""

import asyncio
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import pytest

from lockgate.client import Client
from lockgate.errors import (
    ApiError,
    LogTruncatedError,
    StreamEndedError,
    UnexpectedAnswerError,
    UnreachableError,
)
from lockgate.events import EventStream
from tests.lockgate.scripted import CUT, answer, end, event, refusal, scripted, stream
from tests.lockgate.test_retries import TOKEN

pytestmark = pytest.mark.anyio


async def heard(events: EventStream, until: int) -> list[int]:
    seen = list[int]()
    async with events:
        async for each in events:
            seen.append(each.seq)
            if each.seq == until:
                break
    return seen


async def test_a_stream_that_broke_off_goes_on_after_the_last_event() -> None:
    half = event(3)[:20]
    script = (stream(event(1), event(2), half), CUT, stream(": still here\n\n", event(3)), stream(event(4)))
    async with scripted(*script) as server, Client(server.url, TOKEN) as client:
        assert await heard(client.sessions.events("s1"), 4) == [1, 2, 3, 4]
    assert [parse_qs(urlsplit(asked.path).query)["after"] for asked in server.asked] == [["0"], ["2"], ["2"], ["3"]]
    assert {asked.headers["accept"] for asked in server.asked} == {"text/event-stream"}


async def test_an_event_that_is_told_twice_is_handed_on_once() -> None:
    script = (stream(event(1), event(2)), stream(event(2), event(3)))
    async with scripted(*script) as server, Client(server.url, TOKEN) as client:
        assert await heard(client.sessions.events("s1"), 3) == [1, 2, 3]


async def test_a_restart_of_the_api_does_not_end_a_stream() -> None:
    script = (stream(event(1), end("restart")), refusal(503, "store_gone"), stream(event(2)))
    async with scripted(*script) as server, Client(server.url, TOKEN) as client:
        assert await heard(client.sessions.events("s1"), 2) == [1, 2]


async def test_a_session_that_cannot_be_read_any_more_ends_its_stream() -> None:
    async with scripted(stream(event(1), end("unavailable"))) as server, Client(server.url, TOKEN) as client:
        events = client.sessions.events("s1")
        with pytest.raises(StreamEndedError) as told:
            await heard(events, 9)
    assert (told.value.reason, events.last, len(server.asked)) == ("unavailable", 1, 1)


async def test_a_log_that_ends_before_what_was_told_is_an_error_after_which_the_stream_goes_on() -> None:
    told = 'event: log_truncated\nid: 4\ndata: {"after": 9, "last": 4}\n\n'
    async with scripted(stream(event(9), told), stream(event(5))) as server, Client(server.url, TOKEN) as client:
        events = client.sessions.events("s1")
        assert (await anext(events)).seq == 9
        with pytest.raises(LogTruncatedError) as lost:
            await anext(events)
        assert (lost.value.after, lost.value.last, events.last) == (9, 4, 4)
        assert (await anext(events)).seq == 5
        await events.aclose()
    assert [parse_qs(urlsplit(asked.path).query)["after"] for asked in server.asked] == [["0"], ["4"]]


async def test_an_absent_session_has_no_stream() -> None:
    async with scripted(refusal(404, "not_found")) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(ApiError):
            await anext(client.sessions.events("s1"))
    assert len(server.asked) == 1


async def test_a_stream_gives_up_when_the_api_stays_away() -> None:
    async with scripted(stream(event(1)), CUT) as server, Client(server.url, TOKEN, patience=0.5) as client:
        events = client.sessions.events("s1")
        with pytest.raises(UnreachableError):
            await heard(events, 9)
    assert events.last == 1


async def test_something_else_than_a_stream_is_told() -> None:
    pages = (
        answer(200, plain="<html>", Content_Type="text/html"),
        answer(200, plain="no gzip", Content_Type="text/event-stream", Content_Encoding="gzip"),
    )
    for page in pages:
        async with scripted(page) as server, Client(server.url, TOKEN) as client:
            with pytest.raises(UnexpectedAnswerError):
                await anext(client.sessions.events("s1"))
        assert len(server.asked) == 1


async def test_filters_are_sent_and_what_was_read_before_is_not_asked_for() -> None:
    async with scripted(stream(event(8))) as server, Client(server.url, TOKEN) as client:
        events = client.sessions.events("s1", after=7, level="progress", types=("tool.call", "tool.result"))
        assert await heard(events, 8) == [8]
        with suppress(StopAsyncIteration):
            await anext(events)
    query = parse_qs(urlsplit(server.asked[0].path).query)
    assert query == {"after": ["7"], "level": ["progress"], "type": ["tool.call,tool.result"]}


async def test_a_wait_that_is_given_up_ends_no_stream() -> None:
    """As by a timeout: the next wait goes on after the last event, and what was closed stays closed."""
    async with scripted(stream(event(1)), stream(event(2))) as server, Client(server.url, TOKEN) as client:
        server.slow = 60
        events = client.sessions.events("s1")
        assert (await anext(events)).seq == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.2)
        assert (await anext(events)).seq == 2
        await events.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    assert [parse_qs(urlsplit(asked.path).query)["after"] for asked in server.asked] == [["0"], ["1"]]


async def test_a_quiet_stream_that_stood_longer_than_the_patience_is_taken_up_again() -> None:
    async with scripted(stream(event(1)), stream(event(2))) as server:
        server.slow = 3.5
        async with Client(server.url, TOKEN, patience=3) as client:
            assert await heard(client.sessions.events("s1"), 2) == [1, 2]
