"""Stored bytes and values: what goes in comes out, and what cannot be read is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import SchemaError
from bot.sessions.background.delegation import FieldKind, Lineage, ResultField
from bot.sessions.background.run_states import AuthMethod, Breaker, EndReason, GapReason, RunStatus, RunType
from bot.sessions.background.runs import Charter, Gap, Progress
from bot.sessions.log.event_types import YieldReason
from bot.sessions.models import SCHEMA, LastTurn, Title, Turn
from bot.sessions.usage import Usage
from bot.store.records import codec, run_parts
from bot.store.records.codec import INLINE, Bodies, dump, raw, reading, referred, text, whole
from bot.store.records.form import pack
from bot.store.records.kinds import CHARTER, LAST_TURN, LINEAGE, PROGRESS, TITLE, TURN
from bot.store.records.names import NAMES
from policy.labels import parse

TEXT = st.text(st.characters(exclude_categories=()))
COUNT = st.integers(0, 2**53 - 1)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, st.booleans(), COUNT, st.booleans())
FIELDS = st.builds(ResultField, TEXT, st.sampled_from(FieldKind), st.tuples(TEXT, TEXT), TEXT, TEXT, TEXT)
STATE: dict[str, bytes] = {
    "version": str(SCHEMA).encode(),
    "generation": b"1",
    "generation_seq": b"1",
    "seq": b"1",
    "status": b"idle",
    "home": b"h",
    "principal": b"w",
    "created": b"1",
    "updated": b"1",
}


def flat(fields: dict[str, bytes]) -> list[bytes]:
    return [part for name, value in fields.items() for part in (NAMES[name].encode(), value)]


@given(TEXT)
def test_text_comes_back(said: str) -> None:
    assert text(raw(said)) == said


@given(st.builds(Turn, TEXT, COUNT, TEXT, TEXT, COUNT, COUNT, st.booleans(), USAGE, COUNT, st.tuples(COUNT, COUNT)))
def test_a_turn_comes_back(turn: Turn) -> None:
    assert codec.state("s", flat(STATE | {"turn": pack(TURN, codec.turn(turn))})).turn == turn


@given(st.builds(LastTurn, TEXT, st.sampled_from(YieldReason), COUNT, COUNT, TEXT))
def test_a_last_turn_comes_back(last: LastTurn) -> None:
    assert codec.state("s", flat(STATE | {"last_turn": pack(LAST_TURN, codec.last_turn(last))})).last_turn == last


@given(st.lists(FIELDS, max_size=2), TEXT, COUNT, st.booleans())
def test_a_lineage_comes_back(returns: list[ResultField], said: str, count: int, flag: bool) -> None:  # noqa: FBT001
    known = parse("CONFIDENTIAL{hr}~")
    lineage = Lineage(said, count, said, count, count, said, said, tuple(returns), said, known, said, count, flag)
    assert codec.state("s", flat(STATE | {"lineage": pack(LINEAGE, codec.lineage(lineage))})).lineage == lineage


@given(st.builds(Charter, TEXT, st.sampled_from(RunType), COUNT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, COUNT))
def test_a_charter_comes_back(charter: Charter) -> None:
    state = codec.state("s", flat(STATE | {"charter": pack(CHARTER, run_parts.charter(charter))}))
    assert (state.charter, state.progress) == (charter, Progress())


GAPS = st.lists(st.builds(Gap, COUNT, COUNT, st.sampled_from(GapReason)), max_size=2)
COUNTS = (
    *("initialized_at", "completed", "failed", "skipped", "consecutive", "opened_at", "trips", "aborting"),
    *("turns", "beat_at", "ended_at"),
)
PROGRESSES = st.builds(
    Progress,
    status=st.sampled_from(RunStatus),
    task=TEXT,
    auth_method=st.sampled_from([None, *AuthMethod]),
    breaker=st.sampled_from(Breaker),
    next_action=TEXT,
    reason=st.sampled_from([None, *EndReason]),
    gaps=GAPS.map(tuple),
    **dict.fromkeys(COUNTS, COUNT),
)


@given(PROGRESSES)
def test_how_far_a_run_came_comes_back(progress: Progress) -> None:
    stored = pack(PROGRESS, run_parts.progress(progress))
    assert run_parts.read_progress(stored) == progress


@given(TEXT)
def test_a_title_comes_back(said: str) -> None:
    title = Title(said, parse("INTERNAL~"))
    assert codec.state("s", flat(STATE | {"title": pack(TITLE, codec.title(title))})).given_title == title


def test_what_is_absent_is_the_least() -> None:
    state = codec.state("s", flat(STATE))
    assert (str(state.taint), state.waiting_items, state.turn, state.usage) == ("PUBLIC", 0, None, Usage())
    assert replace(state, sid="t").sid == "t"


@pytest.mark.parametrize(
    "change", [{"status": b"odd"}, {"seq": b"x"}, {"taint": b"COSMIC"}, {"turn": b"1 2"}, {"version": b"x"}]
)
def test_what_cannot_be_read_is_refused(change: dict[str, bytes]) -> None:
    with pytest.raises(SchemaError, match="cannot read"):
        reading(lambda: codec.state("s", flat(STATE | change)))
    with pytest.raises(SchemaError, match="cannot read"):
        reading(lambda: codec.state("s", flat({"version": STATE["version"]})))


def test_a_record_of_another_version_is_refused_with_the_way_out() -> None:
    newer = str(SCHEMA + 1)
    with pytest.raises(SchemaError, match=f"version `{newer}`") as caught:
        reading(lambda: codec.state("s", flat(STATE | {"version": newer.encode()})))
    assert caught.value.next_step == "upgrade lockgate"
    with pytest.raises(SchemaError, match="an older program wrote") as caught:
        reading(lambda: codec.state("s", flat(STATE | {"version": b"1"})))
    assert "another `data_dir`" in caught.value.next_step


def test_a_large_body_is_kept_once_under_its_own_key() -> None:
    bodies = Bodies()
    short, long = f'"{"a" * (INLINE - 2)}"', f'"{"a" * INLINE}"'
    wide = f'"{"ü" * (INLINE // 2)}"'
    assert bodies.put(short) is short
    assert bodies.put(long) == bodies.put(long)
    assert referred([short, bodies.put(long)]) == list(bodies.large)
    assert list(bodies.large.values()) == [raw(long)]
    assert bodies.put(wide).startswith("@")
    assert whole(bodies.put(long), {ref: text(body) for ref, body in bodies.large.items()}) == long
    with pytest.raises(SchemaError, match="lost the body"):
        whole("@gone", {})


@given(st.dictionaries(TEXT, TEXT))
def test_no_body_looks_like_a_reference(body: dict[str, str]) -> None:
    assert referred([dump(body), dump(" @x")]) == []
    assert dump(body, sort=True) == dump(dict(reversed(body.items())), sort=True)
