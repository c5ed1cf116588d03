"""Listings: what a reader may know of and nothing else, whatever the hints say."""

import base64
from dataclasses import replace

import pytest

from bot.core.errors import CursorError, ForeignError, LeaseLostError, NotFoundError
from bot.sessions.background.delegation import Lineage
from bot.sessions.models import SessionKind, SessionPage, SessionQuery, Title, Write
from bot.store.records import codec
from bot.store.records.form import pack
from bot.store.records.kinds import LINEAGE
from bot.store.redis_store import RedisStore
from bot.store.schema import labels_key, list_key, past_key, turned_key
from policy.labels import PUBLIC, Label, parse
from tests.store.world import (
    SECRET,
    TOP,
    claimed,
    command,
    ending,
    event,
    fresh,
    item,
    keys,
    opening,
    put_state,
    started,
)

pytestmark = pytest.mark.anyio

INTERNAL = parse("INTERNAL")


async def begun(store: RedisStore, who: str, label: Label = PUBLIC, at: int = 0, lineage: Lineage | None = None) -> str:
    """Begin a session of this visibility that changed last at a moment, and return its id."""
    sid = fresh()
    await store.sessions.accept(replace(item(sid, label=label), principal=who, lineage=lineage, reserved=2**50))
    if at:
        await put_state(store, sid, updated=at)
        await command(store, "ZADD", list_key(who, str(label)), at, sid)
    return sid


def sids(page: SessionPage) -> list[str]:
    return [state.sid for state in page.sessions]


async def every(store: RedisStore, asked: SessionQuery) -> list[str]:
    """Return all sessions of all pages."""
    found, page = list[str](), await store.index.listed(asked)
    while True:
        found += sids(page)
        if not page.cursor:
            return found
        page = await store.index.listed(replace(asked, cursor=page.cursor))


async def _filed(store: RedisStore, sid: str, who: str = "ann") -> list[str]:
    """Return the labels under which a session is filed."""
    labels: list[bytes] = await command(store, "SMEMBERS", labels_key(who))
    found = [label.decode() for label in labels]
    return [label for label in found if await command(store, "ZSCORE", list_key(who, label), sid) is not None]


async def test_newest_first_and_only_what_the_reader_may_know_of(store: RedisStore) -> None:
    who = fresh()
    low, high, mid = [
        await begun(store, who, label, at)
        for label, at in ((PUBLIC, 1_000), (SECRET, 3_000), (parse("INTERNAL~"), 2_000))
    ]
    await begun(store, fresh())
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC))) == [low]
    assert sids(await store.index.listed(SessionQuery(who, INTERNAL))) == [mid, low]
    assert sids(await store.index.listed(SessionQuery(who, parse("RESTRICTED")))) == [mid, low]
    assert sids(await store.index.listed(SessionQuery(who, TOP))) == [high, mid, low]
    assert sids(await store.index.listed(SessionQuery(fresh(), TOP))) == []


async def test_no_read_up_hidden_sessions_change_neither_pages_nor_cursors(store: RedisStore) -> None:
    who = fresh()
    shown = [await begun(store, who, PUBLIC, 1_000 + n) for n in range(7)]
    asked = SessionQuery(who, PUBLIC, limit=3)
    first = await store.index.listed(asked)
    rest = await store.index.listed(replace(asked, cursor=first.cursor))
    for n in range(20):
        await begun(store, who, SECRET, 1_000 + n)
    assert await store.index.listed(asked) == first
    assert await store.index.listed(replace(asked, cursor=first.cursor)) == rest
    assert sids(first) + sids(rest) + sids(await store.index.listed(replace(asked, cursor=rest.cursor))) == shown[::-1]
    last = await store.index.listed(SessionQuery(who, PUBLIC, limit=7))
    assert last.cursor == "", "nobody may learn from a cursor that something else is there"


async def test_pages_are_whole_where_many_changed_in_the_same_moment(store: RedisStore) -> None:
    who = fresh()
    made = {await begun(store, who, label, 5_000) for label in (PUBLIC, INTERNAL) for _ in range(9)}
    made |= {await begun(store, who, INTERNAL, 4_999) for _ in range(2)}
    for limit in (1, 2, 7, 20, 200):
        found = await every(store, SessionQuery(who, INTERNAL, limit=limit))
        assert len(found) == len(made)
        assert set(found) == made


async def test_a_cursor_is_good_for_one_principal_and_one_level(store: RedisStore) -> None:
    who = fresh()
    for n in range(3):
        await begun(store, who, PUBLIC, 1_000 + n)
    asked = SessionQuery(who, PUBLIC, limit=1)
    cursor = (await store.index.listed(asked)).cursor
    whole = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    moved = base64.urlsafe_b64encode(whole[:-1] + bytes([whole[-1] ^ 1])).decode().rstrip("=")
    for wrong in (
        SessionQuery(fresh(), PUBLIC, cursor),
        SessionQuery(who, INTERNAL, cursor),
        SessionQuery(who, PUBLIC, moved),
        SessionQuery(who, PUBLIC, cursor[:8]),
        SessionQuery(who, PUBLIC, "x"),
        SessionQuery(who, PUBLIC, "ä\ud800"),
    ):
        with pytest.raises(CursorError):
            await store.index.listed(wrong)


async def test_a_listing_may_be_of_one_kind_or_of_late(store: RedisStore) -> None:
    who = fresh()
    old, task = (
        await begun(store, who, PUBLIC, 1_000),
        await begun(store, who, PUBLIC, 2_000, Lineage("p", 1, "r", 1, 2**50)),
    )
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC, kind=SessionKind.TASK))) == [task]
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC, kind=SessionKind.CHAT))) == [old]
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC, since=2_000))) == [task]
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC, since=1_000))) == [task, old]


async def test_a_session_is_listed_where_it_belongs_after_every_change(store: RedisStore) -> None:
    claim = await claimed(store, await begun(store, who := fresh()))
    written = await store.sessions.record(claim, opening(claim))
    assert claim.sid in sids(await store.index.listed(SessionQuery(who, PUBLIC)))
    raised = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    assert await _filed(store, claim.sid, who) == [str(SECRET)]
    await store.sessions.commit(claim, ending(raised.seq, 1))
    assert claim.sid not in sids(await store.index.listed(SessionQuery(who, PUBLIC)))
    assert claim.sid in sids(await store.index.listed(SessionQuery(who, TOP)))
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    assert await _filed(store, claim.sid, who) == ["PUBLIC"]


async def test_a_session_that_exists_as_a_secret_stays_one_after_a_reset(store: RedisStore) -> None:
    who, sid = fresh(), fresh()
    await store.sessions.accept(replace(item(sid, creation=SECRET), principal=who))
    state = await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    assert (state.taint, state.visibility) == (PUBLIC, SECRET)
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC))) == []
    assert sids(await store.index.listed(SessionQuery(who, TOP))) == [sid]


async def test_what_another_process_did_is_found_out(store: RedisStore, other: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, replace(ending(written.seq, 1), events=(event(SECRET),)))
    await other.sessions.accept(item(claim.sid, "d2"))
    assert await _filed(store, claim.sid) == [str(SECRET)]


async def test_what_is_refused_since_the_session_is_somebody_elses_is_not_listed_for_him(
    store: RedisStore, other: RedisStore
) -> None:
    claim, _ = await started(store)
    with pytest.raises(ForeignError):
        await other.sessions.accept(replace(item(claim.sid, "d2"), principal="bob"))
    assert claim.sid not in await every(store, SessionQuery("bob", TOP))
    assert await _filed(store, claim.sid) == ["PUBLIC"]


async def test_a_write_that_is_refused_leaves_the_session_where_it_was(store: RedisStore) -> None:
    claim, written = await started(store)
    with pytest.raises(LeaseLostError):
        await store.sessions.record(claim, Write(fresh(), written.seq + 1, events=(event(SECRET),)))
    assert await _filed(store, claim.sid) == ["PUBLIC"]


async def test_wrong_hints_show_nothing_and_are_put_right_by_whoever_meets_them(store: RedisStore) -> None:
    who, stranger = fresh(), fresh()
    high, low = await begun(store, who, SECRET, 1_000), await begun(store, who, INTERNAL, 2_000)
    foreign = await begun(store, stranger, PUBLIC, 3_000)
    gone = await begun(store, who, PUBLIC, 4_000)
    await put_state(store, gone, status="archived")
    for sid in (high, low, foreign, "nothing"):
        await command(store, "ZADD", list_key(who, "PUBLIC"), 9_000, sid)
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC))) == []
    assert await command(store, "ZRANGE", list_key(who, "PUBLIC"), 0, -1) == []
    assert sids(await store.index.listed(SessionQuery(who, TOP))) == [low, high]
    assert sids(await store.index.listed(SessionQuery(stranger, PUBLIC))) == [foreign]


async def test_a_session_met_in_two_places_is_listed_once(store: RedisStore) -> None:
    who = fresh()
    sid = await begun(store, who, INTERNAL, 1_000)
    await command(store, "ZADD", list_key(who, "PUBLIC"), 9_000, sid)
    assert sids(await store.index.listed(SessionQuery(who, INTERNAL))) == [sid]
    assert await _filed(store, sid, who) == ["INTERNAL"]


async def test_the_sweep_files_what_lost_its_hint(own: RedisStore) -> None:
    low, high = await begun(own, "ann"), await begun(own, "ann", SECRET)
    newer = await begun(own, "ann", INTERNAL)
    await put_state(own, newer, version=99)
    for label in ("PUBLIC", str(SECRET), "INTERNAL"):
        await command(own, "DEL", list_key("ann", label))
    await command(own, "DEL", labels_key("ann"))
    await command(own, "SADD", labels_key("ann"), "PUBLIC")
    await command(own, "ZADD", list_key("ann", "PUBLIC"), 9_000, high)
    await own.wake.sweep()
    assert await _filed(own, low) == ["PUBLIC"]
    assert await _filed(own, high) == [str(SECRET)]
    assert await _filed(own, newer) == [], "it is the newer program's to file"


async def test_a_session_with_no_readable_time_hides_no_other(own: RedisStore) -> None:
    broken, other = await begun(own, "ann"), await begun(own, "ann")
    await put_state(own, broken, updated="yesterday")
    await command(own, "DEL", list_key("ann", "PUBLIC"))
    await own.wake.sweep()
    assert await command(own, "ZRANGE", list_key("ann", "PUBLIC"), 0, -1) == [other.encode()]


async def test_a_walk_over_nothing_files_nothing(own: RedisStore) -> None:
    await own.wake.sweep()
    assert await command(own, "KEYS", "lg:list:*") == []


async def test_a_claim_of_a_listed_session_changes_nothing_of_it(store: RedisStore) -> None:
    sid = await begun(store, who := fresh())
    before = await store.index.listed(SessionQuery(who, PUBLIC))
    await claimed(store, sid)
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC))) == sids(before) == [sid]


async def test_a_title_is_the_one_given_else_that_of_the_task(store: RedisStore) -> None:
    sid = await begun(store, who := fresh(), PUBLIC, lineage=Lineage("p", 1, "r", 1, 2**50, title="find it"))
    (state,) = (await store.index.listed(SessionQuery(who, PUBLIC))).sessions
    assert state.title == Title("find it", PUBLIC)
    await store.sessions.name(sid, Title("a  title\n", SECRET))
    (state,) = (await store.index.listed(SessionQuery(who, PUBLIC))).sessions
    assert state.title == Title("a  title\n", SECRET)
    await store.sessions.name(sid, None)
    with pytest.raises(NotFoundError):
        await store.sessions.name(fresh(), None)
    assert (await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())).given_title is None


async def test_the_labels_of_what_waits_are_told_in_order(store: RedisStore) -> None:
    sid = await begun(store, "ann", SECRET)
    await store.sessions.accept(item(sid, "d2"))
    assert [one.label for one in await store.sessions.waiting(sid)] == [SECRET, PUBLIC]
    assert await store.sessions.waiting(fresh()) == ()


async def test_a_record_nobody_can_read_hides_no_other_session(own: RedisStore) -> None:
    broken, whole = await begun(own, "ann"), await begun(own, "ann")
    await put_state(own, broken, taint="COSMIC")
    await command(own, "ZREM", list_key("ann", "PUBLIC"), whole)
    await own.wake.sweep()
    assert await _filed(own, whole) == ["PUBLIC"]
    shown = await every(own, SessionQuery("ann", PUBLIC, limit=200))
    assert whole in shown
    assert broken not in shown
    await command(own, "DEL", keys(broken).state)


async def test_what_is_archived_is_filed_apart_and_comes_back(store: RedisStore) -> None:
    who = fresh()
    kept, gone = await begun(store, who, PUBLIC, 1_000), await begun(store, who, INTERNAL, 2_000)
    await put_state(store, gone, status="archived")
    for _ in range(2):
        # Found where it was filed as active, and then where it belongs.
        assert sids(await store.index.listed(SessionQuery(who, TOP, archived=True))) == [gone, kept]
        assert sids(await store.index.listed(SessionQuery(who, TOP))) == [kept]
    assert await command(store, "ZRANGE", list_key(who, "INTERNAL"), 0, -1) == []
    assert await command(store, "ZRANGE", past_key(who, "INTERNAL"), 0, -1) == [gone.encode()]
    assert sids(await store.index.listed(SessionQuery(who, PUBLIC, archived=True))) == [kept]
    await put_state(store, gone, status="idle")
    assert sids(await store.index.listed(SessionQuery(who, TOP, archived=True))) == [gone, kept]
    assert sids(await store.index.listed(SessionQuery(who, TOP))) == [gone, kept]


PAGE = parse("PUBLIC~")
HIGH_PAGE = parse("CONFIDENTIAL~")


async def turned(store: RedisStore, who: str, *labels: Label, lineage: Lineage | None = None) -> str:
    """Begin a session that reads what has these labels, one after another, and ends its turn; return its id."""
    claim = await claimed(store, await begun(store, who, lineage=lineage))
    written = await store.sessions.record(claim, opening(claim))
    for label in labels:
        written = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(label),)))
    await store.sessions.commit(claim, ending(written.seq, 1))
    return claim.sid


async def test_a_page_is_as_trusted_as_every_session_that_could_be_on_it(store: RedisStore) -> None:
    who = fresh()
    await begun(store, who)
    await turned(store, who, SECRET)
    assert (await store.index.listed(SessionQuery(who, PUBLIC))).label == PUBLIC, "it rose while it was TRUSTED"
    sid = await turned(store, who, PAGE, HIGH_PAGE)
    page = await store.index.listed(SessionQuery(who, PUBLIC))
    assert sid not in sids(page)
    assert page.label == PAGE
    # Somebody cleared for none of what it was is told of none of it.
    assert (await store.index.listed(SessionQuery(fresh(), PUBLIC))).label == PUBLIC


async def test_one_that_nobody_below_could_see_while_untrusted_is_not_told_of(store: RedisStore) -> None:
    who = fresh()
    sid = await turned(store, who, SECRET, PAGE)
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.turned == SECRET.join(PAGE)
    assert (await store.index.listed(SessionQuery(who, INTERNAL))).label == PUBLIC


async def test_one_on_another_page_or_of_another_kind_counts(store: RedisStore) -> None:
    who = fresh()
    await turned(store, who, PAGE)
    await begun(store, who, PUBLIC, 2**45)
    for asked in (
        SessionQuery(who, PUBLIC, limit=1),
        SessionQuery(who, PUBLIC, kind=SessionKind.TASK),
        SessionQuery(who, PUBLIC, since=2**44),
    ):
        page = await store.index.listed(asked)
        assert all(state.visibility == PUBLIC for state in page.sessions)
        assert page.label == PAGE


async def test_a_reset_makes_a_list_trusted_again(store: RedisStore) -> None:
    who = fresh()
    for label in (PAGE, PAGE.join(INTERNAL)):
        sid = await turned(store, who, PAGE, label)
        assert (await store.index.listed(SessionQuery(who, PUBLIC))).label == PAGE
        state = await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
        assert state.turned is None
    assert (await store.index.listed(SessionQuery(who, INTERNAL))).label == PUBLIC
    # One that UNTRUSTED data had begun is as it was.
    other = fresh()
    await store.sessions.accept(replace(item(other, creation=PAGE), principal=who))
    assert (await store.sessions.reset(other, op=fresh(), actor="ann", audit=())).turned == PAGE


async def test_a_background_session_counts_until_it_had_to_end(store: RedisStore) -> None:
    who = fresh()
    tasks = [await turned(store, who, PAGE, HIGH_PAGE, lineage=Lineage("p", 1, "r", 1, 2**50)) for _ in range(10)]
    assert (await store.index.listed(SessionQuery(who, PUBLIC))).label == PAGE
    past = pack(LINEAGE, codec.lineage(Lineage("p", 1, "r", 1, 1)))
    for sid in tasks:
        await put_state(store, sid, lineage=past)
    assert (await store.index.listed(SessionQuery(who, PUBLIC))).label == PUBLIC
    assert await command(store, "ZCARD", turned_key(who, str(PAGE))) == 0
    # For those above it counts as long as it is not archived.
    asked = SessionQuery(who, parse("CONFIDENTIAL"), kind=SessionKind.CHAT)
    assert (await store.index.listed(asked)).label == HIGH_PAGE
    for sid in tasks:
        await put_state(store, sid, status="archived")
    assert (await store.index.listed(asked)).label == PUBLIC


async def test_the_sweep_notes_what_turned_and_what_nobody_can_read_counts(own: RedisStore) -> None:
    sid = await turned(own, "ann", PAGE, HIGH_PAGE)
    await command(own, "DEL", turned_key("ann", str(PAGE)))
    await command(own, "DEL", labels_key("ann"))
    assert (await own.index.listed(SessionQuery("ann", PUBLIC))).label == PUBLIC
    await own.wake.sweep()
    assert (await own.index.listed(SessionQuery("ann", PUBLIC))).label == PAGE
    await put_state(own, sid, version=99)
    assert (await own.index.listed(SessionQuery("ann", PUBLIC))).label == PAGE
    await command(own, "DEL", keys(sid).state)
    assert (await own.index.listed(SessionQuery("ann", PUBLIC))).label == PUBLIC
