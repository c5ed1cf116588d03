"""What people change is one step with its audit row, counted in the policy head; strangers who ask are bounded."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.audit.chain import Intact, verify
from bot.core.errors import BusyError, NotFoundError, SchemaError
from bot.sessions.approvals import MOST_REQUESTS, MOST_WRONG_CODES, Answered
from bot.sessions.audit import AuditRow
from bot.sessions.models import SCHEMA
from bot.store.opening import open_store
from bot.store.records.kinds import BLOCKED, PAIRING
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, OVERRIDES, PAIRINGS, POLICY
from policy.document.overrides import AccessChange, ChatPlace, Overrides, Person, Placing
from policy.labels import Integrity, Label, Level, parse
from policy.request import Role
from tests.fleets import Served
from tests.store.world import KEY, SIGNERS, alter, command, fresh

pytestmark = pytest.mark.anyio

ROW = (AuditRow("access", "ann", {"what": "let in"}),)
TEAM = ChatPlace("chat", "w:1", "-7")


async def clear(store: RedisStore) -> None:
    """Forget what other tests left."""
    await command(store, "DEL", OVERRIDES, PAIRINGS, POLICY)


async def test_a_change_is_written_with_its_audit_row_and_counted_in_the_head(
    store: RedisStore, other: RedisStore
) -> None:
    await clear(store)
    await store.policy.put_policy("one", "p-x", ())
    before = await store.audit.head(AUDIT)
    bob = Person(Role.GUEST, parse("INTERNAL{hr}"), frozenset({"chat:B:1"}))
    change = AccessChange(
        {"bob": bob}, {TEAM: Placing(parse("PUBLIC~"), vouched=False, blocked=True)}, {"chat:x": True}
    )
    assert await store.access.override(change, 0, ROW) == 1
    assert store.policy.policy_head is not None
    assert (store.policy.policy_head.digest, store.policy.policy_head.over) == ("one", 1)
    head = await other.policy.read_policy()
    assert head is not None
    assert head.over == 1
    assert await other.access.overrides() == (1, Overrides().changed(change))
    assert [record.body for record in await store.audit.records(AUDIT, after=before[0])] == [{"what": "let in"}]
    assert isinstance(
        verify(
            AUDIT,
            await store.audit.records(AUDIT),
            claimed=await store.audit.head(AUDIT),
            anchor=(0, ""),
            signers=SIGNERS,
        ),
        Intact,
    )
    assert await other.access.override(AccessChange({"bob": None}, {TEAM: None}, {"chat:x": False}), 1, ROW) == 2
    assert await store.access.overrides() == (2, Overrides())


async def test_a_change_made_from_what_is_no_longer_so_changes_nothing(store: RedisStore, other: RedisStore) -> None:
    await clear(store)
    assert await store.access.override(AccessChange(accounts={"chat:x": True}), 0, ROW) == 1
    before = await store.audit.head(AUDIT)
    assert await other.access.override(AccessChange(accounts={"chat:x": False}), 0, ROW) is None
    assert await store.audit.head(AUDIT) == before
    assert await store.access.overrides() == (1, Overrides(blocked=frozenset({"chat:x"})))


async def test_the_count_outlives_a_head_that_was_lost(store: RedisStore) -> None:
    await clear(store)
    await store.access.override(AccessChange(accounts={"chat:x": True}), 0, ROW)
    assert (await store.policy.put_policy("one", "p-x", ())).over == 1
    await command(store, "DEL", POLICY)
    assert (await store.policy.put_policy("two", "p-x", (), only_if_none=True)).over == 1
    assert (await store.policy.put_policy("two", "p-x", (), only_if_none=True)).over == 1


async def test_a_newer_programs_changes_are_refused(store: RedisStore) -> None:
    await clear(store)
    await store.access.override(AccessChange(accounts={"chat:x": True}), 0, ROW)
    await command(store, "HSET", OVERRIDES, "version", 99)
    try:
        with pytest.raises(SchemaError):
            await store.access.overrides()
        with pytest.raises(SchemaError):
            await store.access.override(AccessChange(), 1, ROW)
        await command(store, "HSET", OVERRIDES, "version", SCHEMA)
        await alter(store, BLOCKED, OVERRIDES, "blocked:chat:x", version=99)
        with pytest.raises(SchemaError):
            await store.access.overrides()
    finally:
        await clear(store)


LABELS = st.builds(
    Label, st.sampled_from(Level), st.frozensets(st.sampled_from(["acme", "hr"])), st.sampled_from(Integrity)
)
TEXTS = st.text(max_size=4)
PEOPLE = st.builds(Person, st.none() | st.sampled_from(Role), st.none() | LABELS, st.frozensets(TEXTS, max_size=2))
PLACES = st.builds(ChatPlace, TEXTS, TEXTS, TEXTS)
PLACINGS = st.builds(Placing, st.none() | LABELS, st.none() | st.booleans(), st.booleans())
CHANGES = st.builds(
    AccessChange,
    st.dictionaries(TEXTS, st.none() | PEOPLE, max_size=3),
    st.dictionaries(PLACES, st.none() | PLACINGS, max_size=3),
    st.dictionaries(TEXTS, st.booleans(), max_size=3),
)


@pytest.mark.explores
def test_whatever_is_changed_reads_back_as_it_was_put(server: Served) -> None:
    """The store's overrides after any changes are those of the pure core."""

    @settings(max_examples=40, deadline=None)
    @given(st.lists(CHANGES, max_size=4))
    def holds(changes: list[AccessChange]) -> None:
        asyncio.run(applied(changes))

    async def applied(changes: list[AccessChange]) -> None:
        store = await open_store(audit_key=KEY, url=server.url)
        await clear(store)
        expected, count = Overrides(), 0
        for change in changes:
            after = await store.access.override(change, count, ())
            assert after == count + (change != AccessChange())
            expected, count = expected.changed(change), after or 0
        assert await store.access.overrides() == (count, expected)
        await store.close()

    holds()


async def test_a_stranger_is_kept_once_and_few_at_a_time(store: RedisStore) -> None:
    await clear(store)
    assert await store.access.ask_pairing("chat:1", "chat", "w", "digest-1")
    assert not await store.access.ask_pairing("chat:1", "chat", "w", "digest-2")
    for number in range(2, MOST_REQUESTS + 1):
        assert await store.access.ask_pairing(f"chat:{number}", "chat", "w", f"digest-{number}")
    assert not await store.access.ask_pairing("chat:9", "chat", "w", "digest-9")
    assert await store.access.ask_pairing("chat:9", "chat", "v", "digest-9")
    waiting = await store.access.pairings()
    assert (waiting[0].account, waiting[0].channel, waiting[0].workspace) == ("chat:1", "chat", "w")
    assert len(waiting) == MOST_REQUESTS + 1
    assert waiting[0].expires_at - waiting[0].asked_at == 3_600_000


async def expire(store: RedisStore, field: str) -> None:
    """Let the time of a pairing, or of wrong codes, pass."""
    await alter(store, PAIRING, PAIRINGS, field, expires=1)


async def test_a_code_counts_for_its_time_alone(store: RedisStore) -> None:
    await clear(store)
    await store.access.ask_pairing("chat:1", "chat", "", "digest")
    assert await store.access.try_pairing("ann", "digest") == ("chat:1", "digest")
    await expire(store, "a:chat:1")
    assert await store.access.pairings() == ()
    with pytest.raises(NotFoundError):
        await store.access.override(AccessChange(), 0, ROW, Answered("chat:1", "digest"))
    assert await store.access.try_pairing("ann", "digest") is None
    assert await store.access.ask_pairing("chat:1", "chat", "", "another")


async def test_wrong_codes_are_counted_by_who_typed_them(store: RedisStore) -> None:
    await clear(store)
    await store.access.ask_pairing("chat:1", "chat", "", "digest")
    for _ in range(MOST_WRONG_CODES):
        assert await store.access.try_pairing("ann", "wrong") is None
    with pytest.raises(BusyError):
        await store.access.try_pairing("ann", "digest")
    assert await store.access.try_pairing("ben", "digest") == ("chat:1", "digest")
    await expire(store, "t:ann")
    assert await store.access.try_pairing("ann", "digest") == ("chat:1", "digest")


async def test_an_answer_closes_a_pairing_once(store: RedisStore) -> None:
    await clear(store)
    await store.access.ask_pairing("chat:1", "chat", "", "digest")
    bob = AccessChange(people={"bob": Person(accounts=frozenset({"chat:1"}))})
    with pytest.raises(NotFoundError):
        await store.access.override(bob, 0, ROW, Answered("chat:1", "another"))
    assert await store.access.overrides() == (0, Overrides())
    assert await store.access.override(bob, 0, ROW, Answered("chat:1", "digest")) == 1
    with pytest.raises(NotFoundError):
        await store.access.override(bob, 1, ROW, Answered("chat:1", "digest"))
    assert await store.access.ask_pairing("chat:1", "chat", "", "digest")


async def test_who_was_refused_is_not_given_another_code_for_a_while(store: RedisStore) -> None:
    await clear(store)
    await store.access.ask_pairing("chat:1", "chat", "", "digest")
    before = await store.audit.head(AUDIT)
    assert await store.access.override(AccessChange(), 0, ROW, Answered("chat:1", "digest", keep=60_000)) == 0
    assert (await store.audit.head(AUDIT))[0] == before[0] + 1
    assert await store.access.pairings() == ()
    assert await store.access.try_pairing(fresh(), "digest") is None
    assert not await store.access.ask_pairing("chat:1", "chat", "", "again")
    await expire(store, "a:chat:1")
    assert await store.access.ask_pairing("chat:1", "chat", "", "again")
