"""Law `no_read_up` for inspections: below its label nothing differs, whatever the held text is and becomes."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.delegation.structured_result import FAILED
from bot.sessions.log.event_types import ItemHeld
from bot.tools.base import CallFacts, Result
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.bot.inspections import Inspecting
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP, Probe, parts, policy, proposed
from tests.harness import running

_EXAMPLES = settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])

_RULES: Final = [
    {"id": "no-mail", "hook": "PRE_TOOL_CALL", "action": "BLOCK", "pattern": "email"},
    {"id": "no-cards", "hook": "PRE_TOOL_CALL", "action": "REDACT", "pattern": "payment-card"},
    {"id": "mails-out", "hook": "POST_TOOL_RESPONSE", "action": "BLOCK", "pattern": "us-ssn"},
]
_AMOUNT: Final[JsonValue] = {"amount": {"type": "number", "min": 0, "max": 999}}
_MUCH: Final[JsonValue] = {"much": {"type": "number", "min": 0, "max": 10**13}}

_results = st.builds(
    Result,
    st.sampled_from(
        (
            "",
            '{"amount": 12}',
            '{"amount": 13}',
            "a@example.com",
            "card 4111 1111 1111 1111",
            "ssn 536-90-4399",
            "y" * 50_000,
            "break",
        )
    ),
    st.sampled_from(("CONFIDENTIAL", "CONFIDENTIAL~", "RESTRICTED")).map(parse),
    st.booleans(),
)
_uses = st.lists(
    st.sampled_from(
        (
            {"text": True},
            {"returns": _AMOUNT},
            {"returns": _AMOUNT, "up_to": "INTERNAL"},
            {"returns": _MUCH},
            {"returns": _AMOUNT, "_hold": True},
            {"text": True, "up_to": "INTERNAL"},
        )
    ),
    min_size=1,
    max_size=4,
)

Use = dict[str, JsonValue]


def _answer(shown: str) -> str:
    if "break" in shown:
        raise ValueError
    return shown.rstrip().rpartition("\n")[2].strip()


async def _left(folder: Path, result: Result, uses: Sequence[Use], floor: Label) -> list[str]:
    """Return all that the model reads, and all else that readers below may know, of these inspections."""
    echo = Probe("echo", CallFacts(clearance=TOP), Result("done"), Effect.SEND)
    probe = Probe(declared=CallFacts(result=floor), result=result)
    model = Inspecting([proposed("probe", {"_hold": True})], "held", answer=_answer)
    blocks = {"model": {"retries": 0}, "limits": {"person_daily_tokens": 10**6}}
    config = policy(rules=_RULES, models={"offline": {"clearance": "CONFIDENTIAL"}}, blocks=blocks)
    async with running(folder, config, parts=parts(probe, echo, model=model)) as owner:
        await owner.say("hold it")
        (ref,) = [event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld)]
        asked: list[Use] = [{"refs": [ref], "question": "What?", **use} for use in uses]
        steps = [[proposed("inspect", one, name=f"c{n}")] for n, one in enumerate(asked)]
        tried = [[proposed("simulate_tool_call", {"tool_name": "inspect", "args": one})] for one in asked]
        after = [
            [proposed("sessions_history", {"session_id": "", "include_tools": True})],
            [proposed("session_status", {})],
        ]
        model.then(*tried, *steps, *after, "done")
        await owner.say("ask")
        state = await owner.state()
        # Tokens are counted where the answer is, too: there they may be known.
        spent = [str(one) for one in await owner.app.store.budgets.spent_today() if one.label == PUBLIC]
        log = [(event.type, str(event.label)) for event in await owner.events() if event.label.flows_to(INTERNAL)]
        told = [model.read(), str(state.taint), str(state.usage), str(log), str(spent)]
        return [_plain(text, owner.sid) for text in told]


def _plain(text: str, sid: str) -> str:
    """Return a text without what differs from run to run: ids and times."""
    text = re.sub(r'"(at|created|updated|took|idle)": [0-9]+', '"at": 0', text.replace(sid, "own"))
    text = re.sub(r"\"id\": \"[a-z0-9]{16}\"", "turn", text)
    return re.sub(r"held-[a-z0-9]{16}", "id", text)


@_EXAMPLES
@example(Result('{"amount": 12}', CONFIDENTIAL), Result("", parse("RESTRICTED")), [{"returns": _AMOUNT}], PUBLIC)
@example(
    Result("a@example.com", CONFIDENTIAL),
    Result("card 4111 1111 1111 1111", CONFIDENTIAL),
    [{"returns": _MUCH}, {"text": True, "up_to": "INTERNAL"}],
    PUBLIC,
)
@given(_results, _results, _uses, st.sampled_from((PUBLIC, INTERNAL)))
def test_no_read_up_by_an_inspection(one: Result, other: Result, uses: list[Use], floor: Label) -> None:
    async def law() -> None:
        left = list[list[str]]()
        for result in (one, other):
            with TemporaryDirectory() as folder:
                left.append(await _left(Path(folder), result, uses, floor))
        assert left[0] == left[1]

    asyncio.run(law())


@pytest.mark.anyio
async def test_where_fields_may_arrive_every_failure_is_one_answer() -> None:
    """Of an item that the raise covers, no more is told than one of the answers that were counted."""
    left = list[list[str]]()
    for text in ("none of these", "break", "a@example.com", "ssn 536-90-4399", "y" * 50_000):
        with TemporaryDirectory() as folder:
            result = Result(text, parse("INTERNAL~"))
            left.append(await _left(Path(folder), result, [{"returns": _AMOUNT, "up_to": "INTERNAL"}], PUBLIC))
    assert FAILED in left[0][0]
    for one in left[1:]:
        assert one == left[0]
