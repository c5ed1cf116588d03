"""What a process remembers of a session is what another one reads, whoever wrote meanwhile and whatever was reset."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.agent.tails import Past, Tails
from bot.core.errors import SchemaError
from bot.core.ids import Ids
from bot.history import event_log
from bot.history.folds import Folds
from bot.sessions.log.events import DeferredResult, NewEvent
from bot.sessions.models import Claim, Summary, Write
from bot.sessions.ports.sessions import SessionStore
from bot.store.schema import session_keys
from policy.labels import PUBLIC
from tests.bot.agent.test_fitting import window
from tests.bot.kit import CONFIDENTIAL, Scripted, bang, parts, standing
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

HERE = standing()
"""Where all of this is written; its turn stands for none that is open."""


def shown(past: Past) -> list[tuple[str, list[object]]]:
    """Return what a model reads of a past, without the moments at which it was assembled."""
    return [
        (message.kind, [getattr(part, "content", getattr(part, "args", None)) for part in message.parts])
        for message in past.context.messages
    ]


async def taken(store: SessionStore, sid: str, tails: Tails) -> Claim:
    claim = await store.claim(sid, Ids().owner(), known=tails.known(sid), idle=True)
    assert claim is not None
    await store.release(claim)
    return claim


async def same(store: SessionStore, sid: str, remembering: Tails) -> Past:
    """Return what is remembered, held against what is read by somebody who remembers nothing, and by whole folding."""
    remembered = await remembering.past(await taken(store, sid, remembering))
    nobody = Tails(store)
    read = await nobody.past(await taken(store, sid, nobody))
    assert remembered.folds == read.folds
    assert shown(remembered) == shown(read)
    assert remembered.context.messages.tokens == read.context.messages.tokens
    state = await store.state(sid)
    assert state is not None
    log = await store.events(sid, after=state.generation_seq - 1, limit=10_000)
    assert remembered.folds == Folds().plus(log)
    return remembered


async def test_a_turn_reads_only_what_came_since_the_last(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions)
        await owner.say("one")
        await same(store.sessions, owner.sid, remembering)
        known = remembering.known(owner.sid)
        await owner.say("two")
        claim = await taken(store.sessions, owner.sid, remembering)
        assert known is not None
        assert [event.seq for event in claim.events] == list(range(known.seq, claim.state.seq + 1))
        await same(store.sessions, owner.sid, remembering)


async def test_what_others_wrote_meanwhile_is_read(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions)
        await owner.say("one")
        await same(store.sessions, owner.sid, remembering)
        for text in ("two", bang("current_time"), "https://example.com/a"):
            await owner.say(text)
        past = await same(store.sessions, owner.sid, remembering)
        assert past.folds.addresses("owner") == {"https://example.com/a"}


async def test_nothing_is_remembered_over_a_reset(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions)
        await owner.say("https://example.com/a")
        assert (await same(store.sessions, owner.sid, remembering)).folds.addresses("owner")
        await store.sessions.reset(owner.sid, op=Ids().op(), actor="owner", audit=())
        past = await same(store.sessions, owner.sid, remembering)
        assert (past.folds.addresses("owner"), shown(past)) == (frozenset(), [])


async def test_a_log_that_lost_its_newest_events_is_read_anew(tmp_path: Path) -> None:
    """As after a failover: another log goes on under the same numbers."""
    async with running(tmp_path) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions)
        await owner.say("one")
        connection, keys = store._shared.connection, session_keys(owner.sid)  # pyright: ignore[reportPrivateUsage]
        kept = (keys.log, keys.state)
        copies = await connection.commands(*(("DUMP", key) for key in kept))
        await owner.say("https://example.com/lost")
        await same(store.sessions, owner.sid, remembering)
        await connection.commands(
            *(("RESTORE", key, 0, copy, "REPLACE") for key, copy in zip(kept, copies, strict=True))
        )
        for text in ("a", "b", "c"):
            await write(owner, event_log.error(HERE, "r1", text))
        past = await same(store.sessions, owner.sid, remembering)
        assert past.folds.addresses("owner") == frozenset()


async def test_a_recap_stands_for_what_was_before_it(tmp_path: Path) -> None:
    """Of a conversation longer than its window no more is read than the recap and what follows it."""
    model = Scripted("an answer " * 40)
    async with running(tmp_path, window(), parts=parts(model=model)) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions)
        await owner.say("mind https://example.com/first")
        for number in range(60):
            await owner.say(f"{number} " + "and another thing " * 30)
            await same(store.sessions, owner.sid, remembering)
        past = await same(store.sessions, owner.sid, remembering)
        state = await store.sessions.state(owner.sid)
        assert state is not None
        assert state.context_seq > state.generation_seq
        claim = await taken(store.sessions, owner.sid, Tails(store.sessions))
        assert claim.events[0].seq == state.context_seq
        assert len(claim.events) < state.seq / 2
        assert past.folds.addresses("owner") == {"https://example.com/first"}


async def test_what_is_held_is_read_from_its_own_event(tmp_path: Path) -> None:
    """The recap carries where it is and not what it says, as its label is above the recap's."""
    async with running(tmp_path) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions)
        await owner.say("one")
        held = DeferredResult("h1", "a secret", CONFIDENTIAL, PUBLIC)
        await write(owner, event_log.item_held(HERE, held))
        carried = (await same(store.sessions, owner.sid, remembering)).folds.written()
        assert "a secret" not in str(carried)
        state = await store.sessions.state(owner.sid)
        assert state is not None
        recap = event_log.summarized(HERE, Summary("they met", state.seq - state.generation_seq + 1))
        await write(owner, replace(recap, carried=carried), context=state.seq + 1)
        await owner.say("two")
        assert (await same(store.sessions, owner.sid, remembering)).folds.held == (held,)


async def test_what_is_carried_is_shown_to_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("one")
        recap = replace(event_log.summarized(HERE, Summary("they met", 2)), carried={"mark": "carried along"})
        await write(owner, recap)
        for command in ("/export", "/history", "/status"):
            assert "carried along" not in await owner.say(command)


async def test_a_log_whose_recap_is_gone_is_not_worked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        store = owner.app.store
        await owner.say("one")
        await write(owner, event_log.error(HERE, "r1", "nothing"), context=3)
        with pytest.raises(SchemaError):
            await Tails(store.sessions).past(await taken(store.sessions, owner.sid, Tails(store.sessions)))


async def test_a_process_remembers_so_many_sessions_and_bytes(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        store, remembering = owner.app.store, Tails(owner.app.store.sessions, sessions=2, each=20_000, together=30_000)
        people = [replace(owner, address=replace(owner.address, thread=str(number))) for number in range(3)]

        async def known_after(who: int, text: str) -> list[int]:
            await write(people[who], event_log.user_message(HERE, "owner", text, label=PUBLIC))
            await same(store.sessions, people[who].sid, remembering)
            return [number for number, one in enumerate(people) if remembering.known(one.sid) is not None]

        for one in people:
            await one.send("hello")
        assert [await known_after(who, "one") for who in range(3)] == [[0], [0, 1], [1, 2]]
        # Of two that are too large together the one is forgotten that was worked on first.
        assert await known_after(1, "x" * 7_000) == [1, 2]
        assert await known_after(2, "x" * 7_000) == [2]
        assert await known_after(2, "x" * 7_000) == []


async def write(owner: Person, *written: NewEvent, context: int | None = None) -> None:
    """Write events as a turn does."""
    store = owner.app.store
    claim = await store.sessions.claim(owner.sid, Ids().owner(), idle=True)
    assert claim is not None
    await store.sessions.record(
        claim, Write(Ids().op(), claim.state.seq, events=written, context=context, release=True)
    )
