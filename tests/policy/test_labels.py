"""Labels are a lattice, and their text form reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from policy.errors import LabelTextError
from policy.labels import PUBLIC, Integrity, Label, Level, join_all, parse, parse_level, top
from tests.policy.strategies import TOP, labels


@given(labels, labels, labels)
def test_join_and_meet_are_a_lattice(a: Label, b: Label, c: Label) -> None:
    assert a.join(a) == a == a.meet(a)
    assert a.join(b) == b.join(a)
    assert a.meet(b) == b.meet(a)
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.meet(b).meet(c) == a.meet(b.meet(c))
    assert a.join(a.meet(b)) == a == a.meet(a.join(b))


@given(labels, labels)
def test_join_is_written_out(a: Label, b: Label) -> None:
    assert a.join(b) == Label(
        Level(max(a.level.value, b.level.value)),
        a.compartments.union(b.compartments),
        Integrity(a.integrity.value | b.integrity.value),
    )


@given(labels, labels, labels)
def test_flows_to_is_the_order_of_the_lattice(a: Label, b: Label, c: Label) -> None:
    assert a.flows_to(a)
    assert a.flows_to(a.join(b))
    assert a.meet(b).flows_to(a)
    assert a.flows_to(TOP)
    assert PUBLIC.flows_to(a)
    assert (a.flows_to(c) and b.flows_to(c)) == a.join(b).flows_to(c)
    assert (a.flows_to(b) and a.flows_to(c)) == a.flows_to(b.meet(c))
    if a.flows_to(b) and b.flows_to(c):
        assert a.flows_to(c)


@given(labels, labels)
def test_within_is_the_whole_order_of_the_lattice(a: Label, b: Label) -> None:
    assert a.within(b) == (a.join(b) == b)
    assert a.within(b) == (a.flows_to(b) and not (a.untrusted and not b.untrusted))


@given(labels, labels)
def test_a_sink_may_demand_trusted_data(a: Label, b: Label) -> None:
    assert a.flows_to(b, demand_trusted=True) == (a.flows_to(b) and not a.untrusted)


@given(labels, labels)
def test_secrecy_is_what_flows_without_who_wrote_it(a: Label, b: Label) -> None:
    assert not a.secrecy.untrusted
    assert a.flows_to(a.secrecy)
    assert a.secrecy.flows_to(a)
    assert (a.secrecy == b.secrecy) == (a.flows_to(b) and b.flows_to(a))


@given(labels)
def test_text_reads_back(label: Label) -> None:
    assert parse(str(label)) == label


def test_text_form() -> None:
    assert str(Label(Level.CONFIDENTIAL, frozenset({"hr", "acme"}), Integrity.UNTRUSTED)) == "CONFIDENTIAL{acme,hr}~"
    assert parse("INTERNAL{}") == Label(Level.INTERNAL)
    assert parse_level("PUBLIC") is Level.PUBLIC


@given(st.lists(labels))
def test_join_all_is_the_join(items: list[Label]) -> None:
    joined = join_all(items)
    assert all(item.flows_to(joined) for item in items)
    assert join_all([*items, TOP]) == TOP


def test_top_is_the_highest() -> None:
    assert top(["hr"]) == Label(Level.RESTRICTED, frozenset({"hr"}), Integrity.UNTRUSTED)


@pytest.mark.parametrize(
    "text", ["", "public", "SECRET", "PUBLIC~~", "PUBLIC{a", "PUBLIC{A}", "PUBLIC{a,,b}", "PUBLIC\n"]
)
def test_what_is_not_a_label_is_refused(text: str) -> None:
    with pytest.raises(LabelTextError):
        parse(text)


def test_refusals_name_the_nearest() -> None:
    with pytest.raises(LabelTextError) as level:
        parse("CONFIDENTAL")
    with pytest.raises(LabelTextError) as compartment:
        parse("PUBLIC{Hr}")
    with pytest.raises(LabelTextError) as label:
        parse("?")
    assert [str(level.value), str(compartment.value), str(label.value)] == snapshot(
        [
            "unknown level `CONFIDENTAL`, did you mean `CONFIDENTIAL`?",
            "`Hr` is not a compartment, use lower-case letters, digits, `_` and `-`",
            "`?` is not a label, write one as `CONFIDENTIAL{acme,hr}` with `~` for UNTRUSTED",
        ]
    )
