"""Laws `no_read_up` and `stored_things_keep_their_label` for memories.

Sessions at several labels learn, recall, correct and forget. The same is played again without the sessions that are not
within a reader, as they have read more, or what anybody may have written (law `untrusted_cannot_command`): all that the
others are told must be the same byte for byte, labels too, in the same order. Quotas, uses and corrections count.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.knowledge.keeper import MemoryKeeper
from bot.knowledge.recall import KnowledgeSearch
from bot.sessions.knowledge.memories import Memory
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.tools.base import Result
from bot.tools.knowledge.memory import MemoryTool
from policy.labels import Label, parse
from tests.bot.kit import document, tool_call
from tests.people import principal
from tests.store.world import KEY, fresh, served

if TYPE_CHECKING:
    from pydantic import JsonValue

POLICY: Final = document(compartments=["acme", "hr"], principals={"owner": principal("console:owner")})
LABELS: Final = tuple(
    map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL", "CONFIDENTIAL~", "PUBLIC{hr}", "RESTRICTED{acme,hr}"))
)
READERS: Final = tuple(
    map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "INTERNAL~", "PUBLIC{hr}", "CONFIDENTIAL", "CONFIDENTIAL{hr}~"))
)
_WORDS: Final = ("tea", "ferry", "tea ferry", "harbor")
_MOST: Final = 3
_NOW: Final = 1_795_775_400_000

Runner = tuple[asyncio.Runner, RedisStore]


@dataclass(frozen=True)
class Step:
    """What a session at `taint` does; it corrects and forgets what step number `which` made."""

    taint: Label
    action: str
    words: str
    which: int
    up_to: str | None = None


_steps = st.builds(
    Step,
    st.sampled_from(LABELS),
    st.sampled_from(("learn", "learn", "recall", "recall", "correct", "forget")),
    st.sampled_from(_WORDS),
    st.integers(0, 9),
    st.sampled_from((None, None, "PUBLIC", "CONFIDENTIAL", "INTERNAL{hr}")),
)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """A loop and a real store; each run has principals of its own."""
    servers = served()
    server = next(servers)
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())
    next(servers, None)


def made_by(number: int) -> str:
    """Return the id of the memory that a step makes, in every run."""
    return f"mem_{hashlib.sha256(str(number).encode()).hexdigest()[:12]}"


def arguments(step: Step) -> "dict[str, JsonValue]":
    match step.action:
        case "learn":
            return {"action": "learn", "text": step.words}
        case "recall":
            more: dict[str, JsonValue] = {} if step.up_to is None else {"up_to": step.up_to}
            return {"action": "recall", "query": step.words, "limit": 3, **more}
        case "correct":
            return {"action": "correct", "id": made_by(step.which), "text": f"{step.words} indeed"}
        case _:
            return {"action": "forget", "id": made_by(step.which)}


async def played(store: RedisStore, steps: list[tuple[int, Step]]) -> tuple[dict[int, Result], dict[str, Memory]]:
    """Play steps as the gate does; return what each was told, and the memories that there are in the end."""
    who, told = fresh(), dict[int, Result]()
    search = KnowledgeSearch(store.memories)
    for number, step in steps:
        tool = MemoryTool(MemoryKeeper(store.memories, now=lambda: _NOW + number, most=_MOST), search)  # noqa: B023 - called in this round
        here = tool_call(step.taint, document=POLICY, ceiling=POLICY.top, principal=who, key=str(number))
        given = tool.arguments.model_validate_json(json.dumps(arguments(step)))
        declared = tool.declare(given, here[0])
        result = await tool.run(given, *here)
        told[number] = Result(result.text, result.label.join(declared.result).join(step.taint), result.failed)
    await search.close()
    names = [made_by(number) for number, _ in steps]
    kept = await store.memories.memories(who, dict.fromkeys(await store.memories.versions(who), names))
    return told, {memory.id: memory for memory in kept}


@settings(max_examples=60)
@given(steps=st.lists(_steps, min_size=2, max_size=10), reader=st.sampled_from(READERS))
@example(
    steps=[
        Step(LABELS[3], "learn", "tea", 0),
        Step(LABELS[0], "forget", "tea", 0),
        Step(LABELS[0], "correct", "tea", 0),
        Step(LABELS[0], "recall", "tea", 0),
    ],
    reader=READERS[0],
)
@example(
    steps=[
        Step(LABELS[0], "learn", "tea", 0),
        Step(LABELS[3], "correct", "tea", 0),
        Step(LABELS[3], "forget", "tea", 0),
        Step(LABELS[0], "recall", "tea", 0),
    ],
    reader=READERS[0],
)
@example(
    steps=[
        Step(LABELS[0], "learn", "tea", 0),
        Step(LABELS[0], "learn", "tea ferry", 0),
        *[Step(LABELS[3], "recall", "ferry", 0) for _ in range(5)],
        Step(LABELS[0], "recall", "tea", 0),
    ],
    reader=READERS[0],
)
@example(
    steps=[
        Step(LABELS[0], "learn", "tea", 0),
        Step(LABELS[1], "correct", "tea", 0),
        *[Step(LABELS[1], "learn", "tea ferry", 0) for _ in range(3)],
        *[Step(LABELS[1], "recall", "ferry", 0) for _ in range(3)],
        Step(LABELS[0], "learn", "tea", 0),
        Step(LABELS[0], "recall", "tea", 0),
    ],
    reader=READERS[0],
)
def test_no_read_up_by_what_is_learned_recalled_corrected_and_forgotten_above(
    runner: Runner, steps: list[Step], reader: Label
) -> None:
    loop, store = runner
    # What an UNTRUSTED session would have forgotten a person is asked about, and decides.
    decided = [step for step in steps if not (step.action == "forget" and step.taint.untrusted)]
    every = list(enumerate(decided))
    below = [(number, step) for number, step in every if step.taint.within(reader)]
    whole, _ = loop.run(played(store, every))
    alone, _ = loop.run(played(store, below))
    for number, _ in below:
        if alone[number].label.within(reader) or whole[number].label.within(reader):
            assert whole[number] == alone[number]


@settings(max_examples=60)
@given(steps=st.lists(_steps, min_size=2, max_size=10))
@example(steps=[Step(LABELS[0], "learn", "tea", 0), Step(LABELS[1], "correct", "tea", 0)])
@example(steps=[Step(LABELS[0], "learn", "tea", 0), Step(LABELS[3], "correct", "tea", 0)])
@example(steps=[Step(LABELS[3], "learn", "tea", 0), Step(LABELS[3], "correct", "tea", 0)])
def test_stored_things_keep_their_label_whatever_becomes_of_a_memory(runner: Runner, steps: list[Step]) -> None:
    loop, store = runner
    told, kept = loop.run(played(store, list(enumerate(steps))))
    for number, step in enumerate(steps):
        memory = kept.get(made_by(number))
        if memory is None:
            continue
        if step.action == "learn":
            assert memory.label == step.taint
        else:
            # What stands in the place of another is of both, and as little trusted as either.
            assert memory.label == step.taint.join(kept[memory.corrects].label)
    for number, step in enumerate(steps):
        if step.action == "recall" and '"text"' in told[number].text:
            assert all(
                memory.label.flows_to(told[number].label) for memory in kept.values() if memory.id in told[number].text
            )
