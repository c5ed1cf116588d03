"""The script `resolve`: an approval is answered once."""

import asyncio
from dataclasses import replace
from itertools import chain
from typing import cast

import pytest

from bot.core.errors import AskedError, NotFoundError, SchemaError
from bot.sessions.approvals import ApprovalState
from bot.sessions.inbox import NewItem
from bot.sessions.models import Status, Turn, Write
from bot.store.records.kinds import APPROVAL
from bot.store.redis_store import RedisStore
from policy.labels import parse
from tests.store.world import (
    alter,
    claimed,
    command,
    dump,
    ending,
    fresh,
    inquiry,
    item,
    keys,
    put_state,
    question,
    reply,
    row,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio


async def test_the_first_answer_stands(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await command(store, "ZREM", "lg:ready", claim.sid)
    approved = replace(asked, state=ApprovalState.APPROVED, resolved_by="boss")
    for state, actor in (
        (ApprovalState.APPROVED, "boss"),
        (ApprovalState.APPROVED, "boss"),
        (ApprovalState.DENIED, "eve"),
    ):
        assert await store.approvals.resolve(claim.sid, (asked.id,), state, actor=actor, audit=(row(actor),)) == (
            approved,
        )
    assert [one.actor for one in await store.audit.records(claim.sid)] == ["ann"]
    assert await command(store, "ZSCORE", "lg:ready", claim.sid) is not None
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.status is Status.QUEUED


async def test_the_session_wakes_with_the_last_answer(store: RedisStore) -> None:
    claim, written = await started(store)
    asked = (question(claim, "aaaaaaaa"), question(claim, "bbbbbbbb"))
    turn = Turn("t", 1, "d1", "ann", claim.now, suspended=True)
    await store.sessions.record(claim, Write(fresh(), written.seq, ask=asked, turn=turn, release=True))
    await store.approvals.resolve(claim.sid, (asked[0].id,), ApprovalState.DENIED, actor="boss", audit=())
    assert await store.sessions.claim(claim.sid, "w") is None
    await store.approvals.resolve(claim.sid, (asked[1].id,), ApprovalState.APPROVED, actor="boss", audit=())
    resumed = await claimed(store, claim.sid)
    assert {one.state for one in resumed.approvals} == {ApprovalState.DENIED, ApprovalState.APPROVED}


async def test_several_are_answered_in_one_step_or_none(store: RedisStore) -> None:
    claim, written = await started(store)
    asked = (question(claim, "q-1"), question(claim, "q-2"), question(claim, "q-3"))
    turn = Turn("t", 1, "d1", "ann", claim.now, suspended=True)
    await store.sessions.record(claim, Write(fresh(), written.seq, ask=asked, turn=turn, release=True))
    with pytest.raises(NotFoundError):
        await store.approvals.resolve(claim.sid, ("q-1", "gone"), ApprovalState.DENIED, actor="boss", audit=(row(),))
    assert {one.state for one in await store.approvals.of(claim.sid)} == {ApprovalState.PENDING}
    await store.approvals.resolve(claim.sid, ("q-2",), ApprovalState.APPROVED, actor="boss", audit=())
    resolved = await store.approvals.resolve(
        claim.sid, ("q-1", "q-2", "q-3"), ApprovalState.DENIED, actor="boss", audit=(row(),)
    )
    assert [one.state for one in resolved] == [ApprovalState.DENIED, ApprovalState.APPROVED, ApprovalState.DENIED]
    assert len(await store.audit.records(claim.sid)) == 1


async def test_questions_are_found_wherever_they_wait_and_a_lost_hint_is_healed(own: RedisStore) -> None:
    claims = [(await suspended(own)) for _ in range(2)]
    gone, _ = await suspended(own, lasts=-1)
    for _ in range(2):
        found = {(state.sid, approval.id) for state, approval in await own.approvals.waiting()}
        assert found >= {(claim.sid, asked.id) for claim, asked in claims}
        assert gone.sid not in {sid for sid, _ in found}
        await command(own, "DEL", "lg:open")
        assert await own.approvals.waiting() == ()
        for _ in range(3):
            await own.wake.sweep()


async def test_questions_are_found_while_a_sweep_looks(store: RedisStore) -> None:
    claim, asked = await suspended(store)

    async def look() -> bool:
        return any((state.sid, one.id) == (claim.sid, asked.id) for state, one in await store.approvals.waiting())

    swept = asyncio.gather(*(store.wake.sweep() for _ in range(20)))
    seen = [await look() for _ in range(40)]
    await swept
    assert all(seen)


async def test_looking_for_questions_forgets_none_that_is_just_being_asked(store: RedisStore) -> None:
    """Its hint is there before it is: who looks in between must not take that away."""
    claim, asked = await suspended(store, ask=inquiry)
    record = await command(store, "HGET", keys(claim.sid).approvals, asked.id)
    await command(store, "HDEL", keys(claim.sid).approvals, asked.id)
    await store.approvals.questions("ann")
    await command(store, "HSET", keys(claim.sid).approvals, asked.id, record)
    assert asked in [one for _, one in await store.approvals.questions("ann")]


async def test_the_hint_at_what_was_never_asked_is_forgotten_in_time(store: RedisStore) -> None:
    (claim, _), (gone, _) = await suspended(store, ask=inquiry), await suspended(store, ask=inquiry)
    await command(store, "ZADD", "lg:asked:{ann}", 1, f"{claim.sid} nothing2")
    await store.lifecycle.delete(gone.sid, (row(),))
    await store.approvals.questions("ann")
    members = await command(store, "ZRANGE", "lg:asked:{ann}", 0, -1)
    assert not any(b"nothing2" in member or gone.sid.encode() in member for member in members)


async def test_what_comes_from_whoever_is_asked_is_left_out_if_that_is_wanted(store: RedisStore) -> None:
    sid, who = fresh(), fresh()

    def new(dedupe: str) -> NewItem:
        return replace(item(sid, dedupe), sender=who)

    before = await store.sessions.accept(new("before"), unless_asked=True)
    claim, written = await started(store)
    asked, turn = replace(inquiry(claim), principal=who), Turn("t", 1, "d1", "ann", claim.now, suspended=True)
    await store.sessions.record(claim, Write(fresh(), written.seq, ask=(asked,), turn=turn, release=True))
    with pytest.raises(AskedError):
        await store.sessions.accept(new("after"), unless_asked=True)
    # What was taken in before stays what it was, and another's is taken in.
    again = await store.sessions.accept(new("before"), unless_asked=True)
    assert (again.position, again.duplicate) == (before.position, True)
    await store.sessions.accept(replace(item(sid, "another"), sender=fresh()), unless_asked=True)
    assert (await store.sessions.accept(new("after"))).position == before.position + 2
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.DENIED, actor=who, audit=())
    await alter(store, APPROVAL, keys(claim.sid).approvals, asked.id, resolved_at=1)
    assert await store.approvals.questions(who) == ()
    await store.sessions.accept(new("later"), unless_asked=True)


async def test_a_record_nobody_can_read_hides_no_question(store: RedisStore) -> None:
    (newer, _), (claim, asked) = await suspended(store), await suspended(store)
    await put_state(store, newer.sid, version=3)
    assert (claim.sid, asked.id) in {(state.sid, approval.id) for state, approval in await store.approvals.waiting()}
    await command(store, "DEL", keys(newer.sid).state)


async def test_what_cannot_be_answered(store: RedisStore) -> None:
    claim, asked = await suspended(store, lasts=-1)
    for sid, name in ((claim.sid, asked.id), (claim.sid, "zzzzzzzz"), (fresh(), asked.id)):
        with pytest.raises(NotFoundError):
            await store.approvals.resolve(sid, (name,), ApprovalState.APPROVED, actor="boss", audit=(row(),))
    assert await store.audit.records(claim.sid) == ()
    assert [one.state for one in await store.approvals.of(claim.sid)] == [ApprovalState.EXPIRED]
    assert await store.approvals.of(fresh()) == ()


async def test_a_newer_record_is_refused(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await put_state(store, claim.sid, version=3)
    before = await dump(store, claim.sid)
    with pytest.raises(SchemaError):
        await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=())
    assert await dump(store, claim.sid) == before


async def test_an_agents_question_is_kept_whole_and_the_first_answer_stands(store: RedisStore) -> None:
    claim, asked = await suspended(store, ask=inquiry)
    assert await store.approvals.of(claim.sid) == (asked,)
    answers = reply("blue", parse("INTERNAL"), "first"), reply("red", via="second")
    stands = asked
    for answer in (*answers, answers[0]):
        (stands,) = await store.approvals.resolve(
            claim.sid, (asked.id,), ApprovalState.REPLIED, actor="ann", audit=(row(),), answer=answer
        )
        assert (stands.state, stands.answer, stands.resolved_by) == (ApprovalState.REPLIED, answers[0], "ann")
    assert stands.resolved_at >= claim.now
    assert len(await store.audit.records(claim.sid)) == 1
    resumed = await claimed(store, claim.sid)
    assert resumed.approvals == (stands,)


async def test_no_answer_approves_a_call_and_no_approval_answers_a_question(store: RedisStore) -> None:
    (claim, asked), (other, call) = await suspended(store, ask=inquiry), await suspended(store)
    for sid, name, state in (
        (claim.sid, asked.id, ApprovalState.APPROVED),
        (claim.sid, asked.id, ApprovalState.USED),
        (other.sid, call.id, ApprovalState.REPLIED),
    ):
        with pytest.raises(NotFoundError):
            await store.approvals.resolve(sid, (name,), state, actor="ann", audit=(row(),), answer=reply())
    for sid in (claim.sid, other.sid):
        assert [one.state for one in await store.approvals.of(sid)] == [ApprovalState.PENDING]
    (declined,) = await store.approvals.resolve(
        claim.sid, (asked.id,), ApprovalState.DENIED, actor="ann", audit=(row(),)
    )
    assert (declined.state, declined.answer) == (ApprovalState.DENIED, None)


async def test_a_question_whose_time_is_over_takes_no_answer(store: RedisStore) -> None:
    claim, asked = await suspended(store, lasts=-1, ask=inquiry)
    with pytest.raises(NotFoundError):
        await store.approvals.resolve(
            claim.sid, (asked.id,), ApprovalState.REPLIED, actor="ann", audit=(row(),), answer=reply()
        )
    ((_, found),) = [one for one in await store.approvals.questions("ann") if one[0].sid == claim.sid]
    assert found.state is ApprovalState.EXPIRED


async def test_a_person_finds_their_questions_for_an_hour_after_they_are_over(store: RedisStore) -> None:
    async def found(sid: str) -> list[ApprovalState]:
        return [one.state for state, one in await store.approvals.questions("ann") if state.sid == sid]

    (claim, asked), (gone, late), (reset, _) = [await suspended(store, ask=inquiry) for _ in range(3)]
    await suspended(store)
    assert await found(claim.sid) == [ApprovalState.PENDING]
    assert await store.approvals.questions("bea") == ()
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.REPLIED, actor="ann", audit=(), answer=reply())
    assert await found(claim.sid) == [ApprovalState.REPLIED]
    await alter(store, APPROVAL, keys(gone.sid).approvals, late.id, expires=1)
    await store.sessions.reset(reset.sid, op=fresh(), actor="ann", audit=())
    assert (await found(gone.sid), await found(reset.sid)) == ([], [])
    members = await command(store, "ZRANGE", "lg:asked:{ann}", 0, -1)
    assert not any(sid.encode() in member for sid in (gone.sid, reset.sid) for member in members)


async def test_a_record_nobody_can_read_hides_no_question_of_an_agent(store: RedisStore) -> None:
    (newer, _), (claim, _) = await suspended(store, ask=inquiry), await suspended(store, ask=inquiry)
    await put_state(store, newer.sid, version=3)
    assert claim.sid in {state.sid for state, _ in await store.approvals.questions("ann")}
    await command(store, "DEL", keys(newer.sid).state)


async def test_stop_ends_the_wait_for_a_next_message(store: RedisStore) -> None:
    claim, written = await started(store)
    end = replace(ending(written.seq, 1), status=Status.AWAITING_INPUT)
    await store.sessions.commit(claim, end)
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert (state.status, state.turn) == (Status.AWAITING_INPUT, None)
    await store.sessions.stop(claim.sid, actor="ann")
    stopped = await store.sessions.state(claim.sid)
    assert stopped is not None
    assert stopped.status is Status.IDLE


async def test_an_answer_is_found_again_by_who_gave_it(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    assert await store.approvals.answered("judge", asked.id) == ()
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="judge", audit=())
    for name in {asked.id, asked.asked_in}:
        ((state, found),) = await store.approvals.answered("judge", name)
        assert (state.sid, found) == (claim.sid, replace(asked, state=ApprovalState.APPROVED, resolved_by="judge"))
    assert await store.approvals.answered("witness", asked.id) == ()
    await store.lifecycle.delete(claim.sid, (row(),))
    assert await store.approvals.answered("judge", asked.id) == ()


@pytest.mark.parametrize("asking", ["waiting", "questions", "answered"])
async def test_a_record_is_not_older_than_what_is_read_with_it(store: RedisStore, asking: str) -> None:
    """A session that rises meanwhile is known to have risen (law `no_read_up`): its record is read last."""
    claim, asked = await suspended(store)
    if asking == "answered":
        await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.DENIED, actor="ann", audit=())
    if asking == "questions":
        await command(store, "ZADD", "lg:asked:{ann}", 10**15, f"{claim.sid} {asked.id}")
    look = {
        "waiting": store.approvals.waiting,
        "questions": lambda: store.approvals.questions("ann"),
        "answered": lambda: store.approvals.answered("ann", asked.id),
    }
    # Other tests left sessions with questions, and these are read too.
    wanted = {"slowlog-log-slower-than": 0, "slowlog-max-len": 100_000}
    usual = cast("list[bytes]", await command(store, "CONFIG", "GET", *wanted))[: 2 * len(wanted)]
    await command(store, "CONFIG", "SET", *chain.from_iterable(wanted.items()))
    try:
        await look[asking]()
        noted = await store._shared.connection.everywhere(("SLOWLOG", "GET", -1))  # pyright: ignore[reportPrivateUsage] - the server's own note of what it was sent
    finally:
        await command(store, "CONFIG", "SET", *usual)
        await command(store, "DEL", "lg:asked:{ann}")
    # The newest first; a read has two words or three.
    entries = [cast("list[bytes]", entry[3]) for _, told in noted for entry in cast("list[list[object]]", told)]
    prefix = f"lg:{{{claim.sid}}}:".encode()
    read = [words[1].removeprefix(prefix) for words in entries if len(words) > 1 and words[1].startswith(prefix)]
    assert read[:2] == [b"state", b"approvals"]
