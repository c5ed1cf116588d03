"""The key encoding is injective, and all keys of a session share its slot."""

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from bot.store.schema import AUDIT_CHAIN, AUDIT_HEAD, audit_op, decode, encode, session_keys, sid_of

TEXT = st.text(st.characters(exclude_categories=()))


@given(TEXT, TEXT)
def test_different_texts_give_different_keys(one: str, two: str) -> None:
    assert decode(encode(one)) == one
    assert (encode(one) == encode(two)) == (one == two)


@given(TEXT, TEXT)
def test_all_keys_of_a_session_share_its_tag_and_differ(sid: str, name: str) -> None:
    keys = session_keys(sid)
    every = [*astuple(keys)[:-1], keys.op(name), keys.body(name)]
    assert len(set(every)) == len(every)
    for key in every:
        tag = key[key.index("{") + 1 : key.index("}")]
        assert tag
        assert decode(tag) == sid
    assert sid_of(keys.state.encode()) == sid


@given(TEXT)
def test_no_session_owns_the_other_chain(sid: str) -> None:
    keys = session_keys(sid)
    assert {AUDIT_CHAIN, AUDIT_HEAD}.isdisjoint(astuple(keys))
    assert audit_op(sid).startswith("lg:{audit}:op:")
