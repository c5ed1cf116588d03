"""References come back as they were written, and another program's are kept."""

from hypothesis import given
from hypothesis import strategies as st

from bot.sessions.refs import (
    ApprovalRef,
    CallRef,
    EventsRef,
    FileRef,
    HeldRef,
    InputRef,
    ObservedRef,
    UnknownRef,
    elsewhere,
    read,
    written,
)

TEXT = st.text(st.characters(exclude_categories=()))
SEQ = st.integers(1, 10**9)
REFS = st.one_of(
    st.builds(EventsRef, SEQ, st.integers(10**9 + 1, 2**40), TEXT),
    st.builds(InputRef, TEXT),
    st.builds(CallRef, TEXT, TEXT),
    st.builds(HeldRef, TEXT),
    st.builds(ApprovalRef, TEXT),
    st.builds(ObservedRef, TEXT),
    st.builds(FileRef, TEXT, TEXT),
)


@given(st.lists(REFS, unique=True))
def test_references_come_back(refs: list[EventsRef]) -> None:
    assert read(written(refs)) == tuple(refs)
    assert written([*refs, *refs]) == written(refs)


def test_a_reference_is_short_where_it_can_be() -> None:
    assert written([EventsRef(3, 12), EventsRef(4, 4), EventsRef(1, 2, "s"), CallRef("c1")]) == "e3-12 e4 e1-2@s cc1"
    assert written([]) == ""


def test_a_kind_that_nobody_knows_is_kept() -> None:
    assert read("zmemory e1") == (UnknownRef("zmemory"), EventsRef(1, 1))
    assert written(read("zmemory e1")) == "zmemory e1"
    assert read("e") == (UnknownRef("e"),)


def test_another_session_has_them_as_those_of_this_one() -> None:
    refs = (EventsRef(1, 2), EventsRef(3, 3, "t"), CallRef("c"), InputRef("d"), HeldRef("h"), FileRef("a", "v"))
    there = (EventsRef(1, 2, "s"), EventsRef(3, 3, "t"), CallRef("c", "s"), FileRef("a", "v"))
    assert elsewhere(refs, "s") == there
