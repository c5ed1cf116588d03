"""Webhooks in the store: bounded, sent for by one process at a time, and never further back than they were."""

from dataclasses import replace

import pytest

from bot.sessions.log.events import Visibility
from bot.sessions.webhooks import DeadEvent, Ended, ProgramWebhook, WebhookPosition
from bot.store.records.kinds import SENDING_RIGHT
from bot.store.redis_store import RedisStore
from bot.store.schema import WEBHOOK_RIGHTS, dead_events_key
from tests.clocks import CLOCKS
from tests.store.world import alter, command, fresh, item

pytestmark = pytest.mark.anyio

MINUTE = 60_000


async def webhook(store: RedisStore, *, types: tuple[str, ...] = (), sessions: tuple[str, ...] = ()) -> ProgramWebhook:
    """Keep a new webhook, and return it."""
    new = ProgramWebhook(fresh(), fresh(), "https://example.com/hook", Visibility.USER, types, sessions)
    made = await store.webhooks.add(new, 10)
    assert made is not None
    return made


def dead(hook: ProgramWebhook, sid: str = "s1", seq: int = 3) -> DeadEvent:
    """Return an event of a session that was not taken."""
    return DeadEvent(hook.event_id(sid, seq), hook.id, sid, seq, 0, 10, "status 500")


async def held(store: RedisStore, holder: str, most: int = 1000) -> set[str]:
    """Take rights, and return the webhooks that they are for."""
    return {one.id for one in await store.webhooks.hold(holder, MINUTE, most)}


async def test_a_webhook_comes_back_as_it_was_made(store: RedisStore) -> None:
    made = await webhook(store, types=("agent.message",), sessions=("s1", "s2"))
    assert made.created_at > 0
    assert await store.webhooks.owned(made.owner) == (made,)
    assert await store.webhooks.owned("program:other") == ()
    await store.webhooks.drop(made.id)
    assert await store.webhooks.owned(made.owner) == ()


async def test_a_program_has_as_many_as_it_may(store: RedisStore) -> None:
    first = await webhook(store)
    assert await store.webhooks.add(ProgramWebhook(fresh(), first.owner, "https://b", Visibility.USER), 1) is None
    # The same again, as after a lost reply, is no second one.
    assert await store.webhooks.add(first, 1) == first


async def test_one_process_at_a_time_sends_for_a_webhook(store: RedisStore) -> None:
    one, other = (await webhook(store)).id, (await webhook(store)).id
    ann, bob = fresh(), fresh()
    first = set[str]()
    # Those of other tests are there, too.
    while not first:
        first = await held(store, ann, 1) & {one, other}
    rest = await held(store, bob) & {one, other}
    assert len(first) == len(rest) == 1
    assert first | rest == {one, other}
    await store.webhooks.give_back(ann)
    assert {one, other} <= await held(store, bob)
    # A process that was killed holds it until its time is over.
    assert not first & await held(store, ann)
    await alter(store, SENDING_RIGHT, WEBHOOK_RIGHTS, min(first), lapses=1)
    assert first <= await held(store, ann)
    await store.webhooks.give_back(ann)
    await store.webhooks.give_back(bob)


async def test_a_right_that_outlasts_a_clock_set_back_is_taken(store: RedisStore) -> None:
    made, ann, bob = await webhook(store), fresh(), fresh()
    assert made.id in await held(store, ann)
    await alter(store, SENDING_RIGHT, WEBHOOK_RIGHTS, made.id, lapses=2**50)
    assert made.id in await held(store, bob)
    await store.webhooks.give_back(ann)
    await store.webhooks.give_back(bob)


async def test_one_that_is_disabled_is_sent_for_by_nobody(store: RedisStore) -> None:
    made, ann = await webhook(store), fresh()
    await store.webhooks.mark(made.id, failing=True)
    await store.webhooks.mark(made.id, failing=True, disabled=Ended.GONE)
    await store.webhooks.mark(made.id, failing=True, disabled=Ended.FAILING)
    (known,) = await store.webhooks.owned(made.owner)
    assert known.disabled is Ended.GONE
    assert known.failing > 0
    assert made.id not in await held(store, ann)
    await store.webhooks.give_back(ann)


async def test_since_when_it_fails_is_when_it_began_to(store: RedisStore) -> None:
    made = await webhook(store)
    await store.webhooks.mark(made.id, failing=True)
    (first,) = await store.webhooks.owned(made.owner)
    await store.webhooks.mark(made.id, failing=True)
    assert await store.webhooks.owned(made.owner) == (first,)
    await store.webhooks.mark(made.id, failing=False)
    assert await store.webhooks.owned(made.owner) == (made,)


async def test_a_position_never_goes_back(store: RedisStore) -> None:
    made = await webhook(store)
    await store.webhooks.note(made.id, "s1", WebhookPosition(7))
    await store.webhooks.note(made.id, "s1", WebhookPosition(6, 2))
    await store.webhooks.give_up(dead(made), 10)
    assert await store.webhooks.positions(made.id, ("s1", "s2")) == {"s1": WebhookPosition(7)}
    assert await store.webhooks.dead(made.id) == ()
    await store.webhooks.note(made.id, "s1", WebhookPosition(7, 1), wait=MINUTE)
    at = (await store.webhooks.positions(made.id, ("s1",)))["s1"]
    assert at.attempt == 1
    assert at.retry_at > made.created_at
    await store.webhooks.forget(made.id, "s1")
    assert await store.webhooks.positions(made.id, ("s1",)) == {}


async def test_what_is_closed_stays_so_and_what_was_not_taken_of_it_goes(store: RedisStore) -> None:
    made = await webhook(store)
    for sid in ("s1", "s2"):
        await store.webhooks.give_up(dead(made, sid), 10)
    await store.webhooks.note(made.id, "s1", WebhookPosition(9, closed=True))
    await store.webhooks.note(made.id, "s1", WebhookPosition(10))
    assert await store.webhooks.positions(made.id, ("s1",)) == {"s1": WebhookPosition(9, closed=True)}
    assert [one.sid for one in await store.webhooks.dead(made.id)] == ["s2"]


async def test_what_is_not_taken_is_kept_among_the_newest_for_a_week(store: RedisStore) -> None:
    made = await webhook(store)
    for seq in (1, 2, 3):
        await store.webhooks.give_up(dead(made, seq=seq), 2)
    kept = await store.webhooks.dead(made.id)
    assert [one.seq for one in kept] == [2, 3]
    assert (await store.webhooks.positions(made.id, ("s1",)))["s1"] == WebhookPosition(3)

    async def is_kept_a_week() -> bool:
        (left,) = await command(store, "HPTTL", dead_events_key(made.id), "FIELDS", 1, kept[0].id)
        return 0 < left <= 7 * 24 * 60 * MINUTE + CLOCKS

    assert await is_kept_a_week()
    assert await store.webhooks.ask_again(made.id, kept[0].id)
    assert not await store.webhooks.ask_again(made.id, "msg-none")
    assert await is_kept_a_week()
    assert [one.again for one in await store.webhooks.dead(made.id)] == [True, False]
    await store.webhooks.settle(kept[0], "status 404")
    failed, other = await store.webhooks.dead(made.id)
    assert (failed.again, failed.attempts, failed.error) == (False, 11, "status 404")
    assert await is_kept_a_week()
    await store.webhooks.settle(kept[0], "")
    assert await store.webhooks.dead(made.id) == (other,)


async def test_nothing_is_written_for_one_that_was_dropped(store: RedisStore) -> None:
    made = await webhook(store)
    await store.webhooks.note(made.id, "s1", WebhookPosition(1))
    await store.webhooks.give_up(dead(made), 10)
    await store.webhooks.drop(made.id)
    await store.webhooks.note(made.id, "s1", WebhookPosition(2))
    await store.webhooks.give_up(dead(made), 10)
    await store.webhooks.mark(made.id, failing=True)
    assert await store.webhooks.positions(made.id, ("s1",)) == {}
    assert await store.webhooks.dead(made.id) == ()
    assert await store.webhooks.owned(made.owner) == ()


async def test_one_that_is_enabled_begins_anew(store: RedisStore) -> None:
    made, ann = await webhook(store), fresh()
    await store.webhooks.enable(made.id)
    # Nothing changes for one that works, so a lost reply changes nothing either.
    assert await store.webhooks.owned(made.owner) == (made,)
    await store.webhooks.note(made.id, "s1", WebhookPosition(3, 2), wait=MINUTE)
    await store.webhooks.mark(made.id, failing=True, disabled=Ended.FAILING)
    await store.webhooks.enable(made.id)
    (known,) = await store.webhooks.owned(made.owner)
    assert (known.disabled, known.failing) == (None, 0)
    at = (await store.webhooks.positions(made.id, ("s1",)))["s1"]
    assert made.created_at <= at.tried_at <= known.enabled_at
    assert made.id in await held(store, ann)
    await store.webhooks.give_back(ann)


async def test_what_is_asked_for_again_stands_in_the_webhook(store: RedisStore) -> None:
    made = await webhook(store)
    await store.webhooks.give_up(dead(made), 10)
    known = made
    for _ in range(2):
        before = known
        assert await store.webhooks.ask_again(made.id, dead(made).id)
        (known,) = await store.webhooks.owned(made.owner)
        assert known.wanted_at > before.wanted_at
    await store.webhooks.settle(dead(made), "status 500")
    assert await store.webhooks.owned(made.owner) == (known,)
    await store.webhooks.drop(made.id)
    assert not await store.webhooks.ask_again(made.id, dead(made).id)


async def test_an_erased_session_is_forgotten_by_its_programs_webhooks(store: RedisStore) -> None:
    made, other = await webhook(store), await webhook(store)
    sid = fresh()
    await store.sessions.accept(replace(item(sid), principal=f"program:{made.owner}"))
    for one in (made, other):
        await store.webhooks.give_up(dead(one, sid), 10)
    await store.lifecycle.delete(sid, ())
    assert await store.webhooks.positions(made.id, (sid,)) == {}
    assert await store.webhooks.dead(made.id) == ()
    # Nobody but its program has webhooks that know of it; that of another costs nothing.
    assert await store.webhooks.positions(other.id, (sid,)) == {sid: WebhookPosition(3)}
