"""Stored bytes and values: what goes in comes out, and what cannot be read is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import SchemaError
from bot.sessions.event_types import YieldReason
from bot.sessions.models import LastTurn, Turn, Usage
from bot.store import codec
from bot.store.codec import INLINE, Bodies, check_version, dump, raw, reading, refs, text

TEXT = st.text(st.characters(exclude_categories=()))
COUNT = st.integers(0, 2**53)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, st.booleans())
STATE = {
    b"v": b"1",
    b"gen": b"1",
    b"gseq": b"1",
    b"seq": b"1",
    b"status": b"idle",
    b"home": b"h",
    b"who": b"w",
    b"born": b"1",
    b"moved": b"1",
}


def flat(fields: dict[bytes, bytes]) -> list[bytes]:
    return [part for pair in fields.items() for part in pair]


@given(TEXT)
def test_text_comes_back(said: str) -> None:
    assert text(raw(said)) == said


@given(st.builds(Turn, TEXT, COUNT, TEXT, TEXT, COUNT, COUNT, st.booleans()))
def test_a_turn_comes_back(turn: Turn) -> None:
    assert codec.state("s", flat(STATE | {b"turn": codec.turn(turn)})).turn == turn


@given(st.builds(LastTurn, TEXT, st.sampled_from(YieldReason), COUNT, COUNT, COUNT, COUNT, TEXT, USAGE))
def test_a_last_turn_comes_back(last: LastTurn) -> None:
    assert codec.state("s", flat(STATE | {b"last": codec.last_turn(last)})).last_turn == last


def test_what_is_absent_is_the_least() -> None:
    state = codec.state("s", flat(STATE))
    assert (str(state.taint), state.waiting_items, state.turn, state.usage) == ("PUBLIC", 0, None, Usage())
    assert replace(state, sid="t").sid == "t"


@pytest.mark.parametrize("change", [{b"status": b"odd"}, {b"seq": b"x"}, {b"taint": b"COSMIC"}, {b"turn": b"1 2"}])
def test_what_cannot_be_read_is_refused(change: dict[bytes, bytes]) -> None:
    with pytest.raises(SchemaError, match="cannot read"):
        reading(lambda: codec.state("s", flat(STATE | change)))
    with pytest.raises(SchemaError, match="cannot read"):
        reading(lambda: codec.state("s", flat({b"v": b"1"})))


def test_a_newer_record_is_refused() -> None:
    check_version(b"1")
    with pytest.raises(SchemaError, match="version `2`") as caught:
        reading(lambda: codec.state("s", flat(STATE | {b"v": b"2"})))
    assert caught.value.next_step == "upgrade lockgate"


def test_a_large_body_is_kept_once_under_its_own_key() -> None:
    bodies = Bodies()
    short, long = b'"' + b"a" * (INLINE - 2) + b'"', b'"' + b"a" * INLINE + b'"'
    assert bodies.put(short) is short
    assert bodies.put(long) == bodies.put(long)
    assert refs([short, bodies.put(long)]) == list(bodies.large)
    assert list(bodies.large.values()) == [long]


@given(st.dictionaries(TEXT, TEXT))
def test_no_body_looks_like_a_reference(body: dict[str, str]) -> None:
    assert refs([dump(body), dump(" @x")]) == []
    assert dump(body, sort=True) == dump(dict(reversed(body.items())), sort=True)
