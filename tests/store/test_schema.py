"""The key encoding is injective, and all keys of a session share its slot."""

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from bot.store.schema import (
    AUDIT_CHAIN,
    AUDIT_HEAD,
    audit_op,
    decode,
    encode,
    memory_keys,
    session_keys,
    sid_of,
    skill_keys,
    workflow_keys,
)

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


@given(TEXT, TEXT, TEXT)
def test_all_keys_of_what_a_principal_knows_share_a_tag_of_their_own(who: str, label: str, name: str) -> None:
    keys, skills = memory_keys(who, label), skill_keys(who, label)
    every = [*astuple(keys)[:-1], keys.uses(label), keys.op(name), *astuple(skills)[:-1]]
    every += [skills.log(label, name), skills.outcomes(label), skills.notes(label, name)]
    workflow = workflow_keys(who, name, label)
    every += astuple(workflow)[:-1]
    assert keys.op(name) == skills.op(name) == workflow.op(name)
    assert len(set(every)) == len(every)
    assert {key[key.index("{") + 1 : key.index("}")] for key in every} == {f"known:{encode(who)}"}
    assert encode(f"known:{who}") != f"known:{encode(who)}"
    # Neither another label's nor another principal's are among them.
    others = [memory_keys(who, f"{label}x"), memory_keys(f"{who}x", label)]
    assert all({one.memories, one.changed, one.uses(f"{label}x")}.isdisjoint(every) for one in others)
    assert workflow_keys(who, f"{name}x", label).log not in every
    other = skill_keys(who, f"{label}x")
    apart = {other.log(f"{label}x", name), other.log(label, f"{name}x"), other.notes(f"{label}x", name)}
    assert {other.skills, other.changed, other.outcomes(f"{label}x"), *apart}.isdisjoint(every)
