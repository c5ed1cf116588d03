"""The scripts join labels as the policy does."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.opening import open_store
from bot.store.records.form import pack_arguments
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from bot.store.scripts.loader import Script, lua, script_text
from policy.labels import Integrity, Label, Level, parse
from tests.fleets import Served
from tests.store.world import KEY

LABELS = st.builds(
    Label,
    st.sampled_from(Level),
    st.frozensets(st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True), max_size=4),
    st.sampled_from(Integrity),
)


def asking(text: str) -> str:
    """Return a script that is given what it uses of the prelude."""
    return script_text(Script.PROBE, lua("prelude"), text).text


@pytest.fixture(scope="module")
def runner(server: Served) -> Iterator[tuple[asyncio.Runner, RedisStore]]:
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=10))
def test_join_in_lua_is_join_in_python(
    runner: tuple[asyncio.Runner, RedisStore], pairs: list[tuple[Label, Label]]
) -> None:
    loop, store = runner
    every = "local out = {} for i = 1, #A, 2 do out[#out + 1] = join(A[i], A[i + 1]) end return out"
    texts = [str(label) for pair in pairs for label in pair]
    (joined,) = loop.run(
        store._shared.connection.commands(("EVAL", asking(every), 1, session_keys("x").state, pack_arguments(texts)))
    )
    assert [parse(text.decode()) for text in joined] == [one.join(two) for one, two in pairs]
    assert [text.decode() for text in joined] == [str(one.join(two)) for one, two in pairs]


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=10))
def test_within_in_lua_is_within_in_python(
    runner: tuple[asyncio.Runner, RedisStore], pairs: list[tuple[Label, Label]]
) -> None:
    loop, store = runner
    every = "local out = {} for i = 1, #A, 2 do out[#out + 1] = within(A[i], A[i + 1]) and 1 or 0 end return out"
    texts = [str(label) for pair in pairs for label in pair]
    (found,) = loop.run(
        store._shared.connection.commands(("EVAL", asking(every), 1, session_keys("x").state, pack_arguments(texts)))
    )
    assert [one == 1 for one in found] == [one.within(two) for one, two in pairs]


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=10))
def test_flows_in_lua_is_flows_to_in_python(
    runner: tuple[asyncio.Runner, RedisStore], pairs: list[tuple[Label, Label]]
) -> None:
    loop, store = runner
    each = "out[#out + 1] = flows(A[i], A[i + 1]) and 1 or 0"
    every = f"local out = {{}} for i = 1, #A, 2 do {each} end return out"
    pairs = [*pairs, *((one, one.join(two)) for one, two in pairs)]
    texts = [str(label) for pair in pairs for label in pair]
    (flowing,) = loop.run(
        store._shared.connection.commands(("EVAL", asking(every), 1, session_keys("x").state, pack_arguments(texts)))
    )
    assert [bool(flag) for flag in flowing] == [one.flows_to(two) for one, two in pairs]
