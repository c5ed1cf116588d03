"""The map and the walks over it, compared with a slow search on random maps."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.lineage.graph import EventSpan, Fact, LineageMap, LineageNode, NodeKind
from bot.lineage.names import event_id
from bot.lineage.walk import BackwardWalk, Direction, ForwardWalk, LineageEdge, LineageFrontier, edges
from policy.labels import PUBLIC

SID: Final = "a" * 32


def node(name: str, kind: NodeKind = NodeKind.MESSAGE) -> LineageNode:
    return LineageNode(name, kind, name, PUBLIC)


def event(seq: int, *sources: str | EventSpan, shown: bool = True, enters: bool = True) -> Fact:
    name = event_id(SID, seq)
    return Fact(name, node(name) if shown else None, sources, SID, seq, enters and shown)


def walked(known: LineageMap, name: str, direction: Direction, depth: int = 100) -> dict[str, int]:
    """Return what a walk meets that has a node, with its depth."""
    seed = known.find(name)
    assert seed is not None
    frontier, met = LineageFrontier(known, [seed], direction, depth), dict[str, int]()
    while (place := frontier.next()) is not None:
        fact, far, via = place
        if fact.node is not None:
            met[fact.id] = far
        frontier.expand(fact, far, via)
    return met


def test_what_has_no_node_is_walked_through_and_takes_no_step() -> None:
    known = LineageMap()
    for fact in (
        event(1),
        event(2, EventSpan(SID, 1, 1), shown=False),
        event(3, event_id(SID, 2), enters=False),
        event(4, event_id(SID, 3)),
    ):
        known.add(fact)
    names = [event_id(SID, seq) for seq in range(5)]
    assert walked(known, names[4], Direction.BACK) == {names[4]: 0, names[3]: 1, names[1]: 2}
    assert walked(known, names[1], Direction.FORWARD) == {names[1]: 0, names[3]: 1, names[4]: 2}
    assert walked(known, names[4], Direction.BACK, depth=1) == {names[4]: 0, names[3]: 1}
    assert edges(known, [names[4], names[3], names[1]]) == (
        LineageEdge(names[3], names[4]),
        LineageEdge(names[1], names[3]),
    )


def test_an_edge_of_a_context_is_left_out_beside_a_longer_way_and_one_that_is_named_stays() -> None:
    known = LineageMap()
    known.add(event(1))
    known.add(event(2, event_id(SID, 1)))
    known.add(event(3, EventSpan(SID, 1, 2)))
    known.add(event(4, event_id(SID, 1), EventSpan(SID, 1, 3)))
    pairs = {(edge.source[-1], edge.target[-1]) for edge in edges(known, known.named(SID))}
    assert pairs == {("1", "2"), ("2", "3"), ("3", "4"), ("1", "4")}


def test_what_goes_round_in_a_circle_ends_and_keeps_its_edges() -> None:
    known = LineageMap()
    for name, source in (("one", "two"), ("two", "one")):
        known.add(Fact(name, node(name), (source,)))
    assert walked(known, "one", Direction.BACK) == {"one": 0, "two": 1}
    assert {(edge.source, edge.target) for edge in edges(known, ["one", "two"])} == {("one", "two"), ("two", "one")}


def test_what_comes_in_twice_keeps_its_node_and_gets_the_new_sources() -> None:
    known = LineageMap()
    known.add(Fact("memory", None, ("one",)))
    known.add(Fact("memory", node("memory"), ("one", "two")))
    found = known.find("memory")
    assert found is not None
    assert (found.node, found.sources) == (node("memory"), ("one", "two"))
    assert list(known.named_by("two")) == ["memory"]


_spans = st.tuples(st.integers(1, 12), st.integers(1, 12), st.booleans())
_facts = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.lists(st.integers(1, 12), max_size=2), st.lists(_spans, max_size=2)),
    max_size=12,
)


@given(_facts)
def test_back_and_forward_are_each_others_reverse(
    drawn: list[tuple[bool, bool, list[int], list[tuple[int, int, bool]]]],
) -> None:
    known = LineageMap()
    for seq, (shown, enters, exact, spans) in enumerate(drawn, start=1):
        # As in every log, what something came from is before it.
        before = [event_id(SID, one) for one in exact if one < seq]
        ranges = [EventSpan(SID, first, min(last, seq - 1), every) for first, last, every in spans]
        known.add(event(seq, *before, *ranges, shown=shown, enters=enters))
    seen = [name for name in known.named(SID) if (fact := known.find(name)) is not None and fact.node is not None]
    back = {(one, name) for name in seen for one in walked(known, name, Direction.BACK)}
    forward = {(name, one) for name in seen for one in walked(known, name, Direction.FORWARD)}
    assert back == forward
    # The edges that are left lead to all the same.
    sources = dict[str, set[str]]()
    for edge in edges(known, seen):
        sources.setdefault(edge.target, set()).add(edge.source)
    for name in seen:
        met, waiting = {name}, [name]
        while waiting:
            for source in sources.get(waiting.pop(), set()) - met:
                met.add(source)
                waiting.append(source)
        assert {(one, name) for one in met} == {pair for pair in back if pair[1] == name}


_TURNS: Final = 2_000


@pytest.mark.parametrize("direction", list(Direction))
def test_a_walk_over_ten_thousand_events_takes_each_of_them_once(direction: Direction) -> None:
    """Each request of the model was made with all that was before it, which would be fifty million pairs."""
    known, seq = LineageMap(), 0
    for _ in range(_TURNS):
        known.add(event(seq + 1))
        known.add(event(seq + 2, EventSpan(SID, 1, seq + 1), shown=False))
        known.add(event(seq + 3, event_id(SID, seq + 2), enters=False))
        known.add(event(seq + 4, event_id(SID, seq + 3)))
        known.add(event(seq + 5, EventSpan(SID, 1, seq + 4)))
        seq += 5
    begins = event_id(SID, seq if direction is Direction.BACK else 1)
    walk = BackwardWalk(known) if direction is Direction.BACK else ForwardWalk(known)
    met, waiting, steps = {begins}, [begins], 0
    while waiting:
        fact = known.find(waiting.pop())
        assert fact is not None
        for found in walk.steps(fact):
            steps += 1
            if found.id not in met:
                met.add(found.id)
                waiting.append(found.id)
    assert steps <= 3 * seq
    shown = [name for name in met if (fact := known.find(name)) is not None and fact.node is not None]
    assert len(shown) == (4 * _TURNS if direction is Direction.BACK else 4 * _TURNS - (_TURNS - 1))
