"""Grants in the store: a use is spent once, and a grant that is over covers nothing."""

from dataclasses import replace

import pytest

from bot.core.errors import GrantEndedError, NotFoundError
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalQuestion, ApprovalState
from bot.sessions.consents.grants import EndedGrant, Grant, GrantEnd, GrantScope, GrantUse
from bot.sessions.log.serialization import scope_from, scope_json
from bot.sessions.models import Claim, Write
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC
from tests.store.test_losses import found, remembered
from tests.store.world import SECRET, claimed, command, event, fresh, question, row, suspended

pytestmark = pytest.mark.anyio

TWO = Grant(FOR_EVER, 2)
SCOPE = GrantScope("d", "r", "s", (('["amount"]', 2.5),), SECRET, ("untrusted_cannot_command",), 10, "any words")


async def granted(store: RedisStore, grant: Grant = TWO, sid: str = "") -> tuple[Claim, Approval]:
    """Return a claimed session with a grant."""

    def scoped(claim: Claim, *, lasts: int) -> Approval:
        return replace(question(claim, lasts=lasts), question=ApprovalQuestion("message", {}, scope=SCOPE))

    claim, asked = await suspended(store, ask=scoped, sid=sid or fresh())
    given = (replace(asked, grant=grant),)
    state = ApprovalState.APPROVED
    await store.approvals.resolve(claim.sid, (asked.id,), state, actor="boss", audit=(row("boss"),), granted=given)
    return await claimed(store, claim.sid), asked


async def use(store: RedisStore, claim: Claim, name: str, call: str, seq: int = 0) -> int:
    """Use a grant for a call, and return the end of the log."""
    write = Write(fresh(), seq or claim.state.seq, events=(event(),), audit=(row(),), grant=GrantUse(name, call))
    return (await store.sessions.record(claim, write)).seq


async def grant_of(store: RedisStore, sid: str) -> Grant | None:
    """Return the grant as it stands."""
    (one,) = await store.approvals.of(sid)
    return one.grant


async def test_a_grant_is_kept_as_it_was_shown(store: RedisStore) -> None:
    claim, _ = await granted(store)
    (kept,) = claim.approvals
    assert (kept.grant, kept.question.scope, kept.resolved_by) == (Grant(FOR_EVER, 2), SCOPE, "boss")


async def test_each_call_spends_one_use_and_the_same_call_one(store: RedisStore) -> None:
    claim, asked = await granted(store)
    seq = await use(store, claim, asked.id, "c2")
    seq = await use(store, claim, asked.id, "c2", seq)
    assert await grant_of(store, claim.sid) == Grant(FOR_EVER, 1, ("c2",))
    seq = await use(store, claim, asked.id, "c3", seq)
    before = await store.audit.records(claim.sid)
    with pytest.raises(GrantEndedError):
        await use(store, claim, asked.id, "c4", seq)
    assert await store.audit.records(claim.sid) == before
    assert (await store.sessions.state(claim.sid)).seq == seq  # pyright: ignore[reportOptionalMemberAccess] - it is there
    await use(store, claim, asked.id, "c3", seq)
    assert await grant_of(store, claim.sid) == Grant(FOR_EVER, 0, ("c2", "c3"))


async def test_a_call_whose_id_is_part_of_another_is_another_call(store: RedisStore) -> None:
    claim, asked = await granted(store)
    seq = await use(store, claim, asked.id, "c22")
    await use(store, claim, asked.id, "c2", seq)
    assert await grant_of(store, claim.sid) == Grant(FOR_EVER, 0, ("c22", "c2"))


async def test_a_denial_gives_no_grant_and_the_first_answer_stands(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    given = (replace(asked, grant=Grant(FOR_EVER, 2)),)
    for state in (ApprovalState.DENIED, ApprovalState.APPROVED):
        await store.approvals.resolve(claim.sid, (asked.id,), state, actor="boss", audit=(), granted=given)
    assert await grant_of(store, claim.sid) is None
    again = await claimed(store, claim.sid)
    with pytest.raises(GrantEndedError):
        await use(store, again, asked.id, "c2")
    with pytest.raises(GrantEndedError):
        await use(store, again, "none", "c2")


async def test_a_second_answer_does_not_refill_a_grant(store: RedisStore) -> None:
    claim, asked = await granted(store)
    await use(store, claim, asked.id, "c2")
    again = (replace(asked, grant=Grant(FOR_EVER, 99)),)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=(), granted=again)
    assert await grant_of(store, claim.sid) == Grant(FOR_EVER, 1, ("c2",))


async def test_a_revoked_grant_covers_nothing_even_in_a_turn_that_knew_it(store: RedisStore) -> None:
    claim, asked = await granted(store)
    for _ in range(2):
        ended = await store.approvals.revoke(claim.sid, asked.id, actor="ann", audit=(row("ann"),))
        assert ended.grant == Grant(FOR_EVER, 2, (), GrantEnd.REVOKED)
    assert len(await store.audit.records(claim.sid)) == 2, "given and revoked, once each"
    with pytest.raises(GrantEndedError):
        await use(store, claim, asked.id, "c2")
    for name in ("none", "abc"):
        with pytest.raises(NotFoundError):
            await store.approvals.revoke(claim.sid, name, actor="ann", audit=())


async def test_a_grant_is_over_in_time(store: RedisStore) -> None:
    claim, asked = await granted(store, Grant(1, 2))
    with pytest.raises(GrantEndedError):
        await use(store, claim, asked.id, "c2")
    assert claim.sid not in {state.sid for state, _ in await store.approvals.granted("boss")}


async def test_a_write_ends_a_grant_once(store: RedisStore) -> None:
    claim, asked = await granted(store)
    for end in (GrantEnd.CHANGED, GrantEnd.EXPIRED):
        state = await store.sessions.state(claim.sid)
        assert state is not None
        over = (EndedGrant(asked.id, end), EndedGrant("none", end))
        await store.sessions.record(claim, Write(fresh(), state.seq, events=(event(),), ended=over))
    assert await grant_of(store, claim.sid) == Grant(FOR_EVER, 2, (), GrantEnd.CHANGED)


async def test_a_reset_ends_all_grants(store: RedisStore) -> None:
    claim, asked = await granted(store)
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    assert await store.approvals.of(claim.sid) == ()
    with pytest.raises(NotFoundError):
        await store.approvals.revoke(claim.sid, asked.id, actor="ann", audit=())
    assert claim.sid not in {state.sid for state, _ in await store.approvals.granted("ann")}


async def test_a_loss_and_a_restored_backup_end_a_grant(store: RedisStore) -> None:
    claim, asked = await granted(store)
    back = await remembered(store, claim.sid)
    await use(store, claim, asked.id, "c2")
    await back()
    await found(store)
    assert await grant_of(store, claim.sid) == Grant(FOR_EVER, 2, (), GrantEnd.LOST)
    other, _ = await granted(store)
    await store.backups.rest(other.sid)
    assert await grant_of(store, other.sid) == Grant(FOR_EVER, 2, (), GrantEnd.LOST)


async def test_grants_are_found_by_those_who_gave_them_and_whose_calls_they_cover(store: RedisStore) -> None:
    boss, ann = f"boss-{fresh()}", f"ann-{fresh()}"
    claim, asked = await suspended(store)
    given = (replace(asked, principal=ann, grant=Grant(FOR_EVER, 1)),)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor=boss, audit=(), granted=given)
    for who in (boss, ann):
        ((state, one),) = await store.approvals.granted(who)
        assert (state.sid, one.id, one.grant) == (claim.sid, asked.id, Grant(FOR_EVER, 1))
    assert await store.approvals.granted("stranger") == ()
    await use(store, await claimed(store, claim.sid), asked.id, "c2")
    assert await store.approvals.granted(boss) == ()
    assert await command(store, "ZCARD", f"lg:granted:{{{boss}}}") == 0


def test_a_scope_of_another_form_is_refused() -> None:
    assert scope_from(scope_json(SCOPE)) == SCOPE
    wrong: tuple[object, ...] = ({"x": True}, {"x": "1"}, [])
    for most in wrong:
        with pytest.raises(TypeError):
            scope_from({**scope_json(replace(SCOPE, label=PUBLIC)), "most": most})  # pyright: ignore[reportArgumentType] - what a file may hold
