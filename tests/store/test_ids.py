"""Ids: made from the given randomness, readable, and injective where they are derived."""

from hypothesis import given
from hypothesis import strategies as st

from bot.core.clock import SystemClock
from bot.core.ids import Ids, new_key, session_id
from tests.store.world import KEY

TEXT = st.text(st.characters(exclude_categories=()))


def test_ids_come_from_the_given_bytes() -> None:
    ids = Ids(lambda length: bytes(range(length)))
    assert ids.op() == ids.owner() == ids.turn() == "aaaqeayeaudaocaj"
    assert len(ids.approval()) == len(ids.reference()) == 8


def test_ids_do_not_repeat() -> None:
    ids = Ids()
    assert len({ids.op() for _ in range(1000)} | {ids.owner() for _ in range(1000)}) == 2000
    assert len(new_key()) == 32


@given(st.binary(min_size=8, max_size=8))
def test_an_approval_id_has_no_look_alikes(drawn: bytes) -> None:
    assert set(Ids(lambda _: drawn).approval()).isdisjoint("01ilo")


@given(TEXT, TEXT, TEXT, TEXT)
def test_different_addresses_and_roots_are_different_sessions(a: str, b: str, c: str, d: str) -> None:
    assert (session_id(KEY, a, b) == session_id(KEY, c, d)) == ((a, b) == (c, d))
    assert session_id(KEY, a, b) != session_id(bytes(32), a, b)
    assert session_id(KEY, a, b).isalnum()


def test_the_clocks_run() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.wall_ms() > 1_700_000_000_000
