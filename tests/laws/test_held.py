"""Law `no_read_up` for what is held: whatever it is, the model reads the same as long as it does not let it in."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from pydantic_ai.messages import ToolCallPart

from bot.ids import receipt_id
from bot.tools.base import Declared, Result
from channels.message import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.bot.kit import CONFIDENTIAL, TOP, Probe, Scripted, parts, policy, proposed
from tests.harness import Person, running

_EXAMPLES = settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
_FLOORS = st.sampled_from((PUBLIC, parse("INTERNAL")))
_RULES = [
    {"id": "no-mail", "hook": "PRE_OUTPUT", "action": "BLOCK", "pattern": "email"},
    {"id": "no-cards", "hook": "PRE_TOOL_CALL", "action": "REDACT", "pattern": "payment-card"},
]

_results = st.builds(
    Result,
    st.sampled_from(("", "x", "a@example.com", "card 4111 1111 1111 1111", "y" * 50_000, "z" * 900_000)),
    st.sampled_from(("INTERNAL", "CONFIDENTIAL~", "RESTRICTED")).map(parse),
    st.booleans(),
)
_uses = st.lists(
    st.sampled_from(
        (
            ("message", {"channel": "console", "recipient": "owner", "text": "$"}),
            ("message", {"channel": "console", "recipient": "guest", "text": "$"}),
            ("write_file", {"path": "confidential/x.md", "text": "$"}),
            ("write_file", {"path": "public/x.md", "text": "$"}),
            ("read_file", {"path": "$"}),
            ("echo", {"text": "$"}),
            ("echo", {"more": {"deep": ["$"]}}),
            ("simulate_tool_call", {"tool_name": "echo", "args": {"text": "$"}}),
            ("sessions_send", {"session_id": "@", "content": "$"}),
            ("simulate_tool_call", {"tool_name": "sessions_send", "args": {"session_id": "@", "content": "$"}}),
        )
    ),
    min_size=1,
    max_size=5,
)


Use = tuple[str, dict[str, JsonValue]]

_LOG: Final[Use] = ("sessions_history", {"session_id": "", "include_tools": True})
"""Reading the log back, where every use of what is held left its entries."""

_AFTER: Final[tuple[Use, ...]] = (("sessions_list", {}), ("session_status", {}))
"""What else tells of what was done."""


def _calls(uses: Sequence[Use], ref: str, there: str) -> list[ToolCallPart]:
    def put(value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return {name: put(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [put(inner) for inner in value]
        return there if value == "@" else {"$ref": ref} if value == "$" else value

    return [
        proposed(tool, {name: put(value) for name, value in arguments.items()}, name=f"c{n}")
        for n, (tool, arguments) in enumerate(uses)
    ]


async def _read(folder: Path, result: Result, uses: Sequence[Use], floor: Label) -> str:
    """Return all that a model reads that has a result held and passes it on in these ways."""
    echo = Probe("echo", Declared(clearance=TOP), Result("done"), Effect.SEND)
    probe = Probe(declared=Declared(result=floor), result=result)
    model = Scripted()
    async with running(folder, policy(rules=_RULES), parts=parts(probe, echo, model=model)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"))
        model.then("hello")
        await desk.say("hello")
        model.then([proposed("probe", {"_hold": True})], "held")
        await owner.say("hold it")
        (held,) = [str(event.body["ref"]) for event in await owner.events() if event.type == "item.held"]
        model.then(*([one] for one in _calls((*uses, _LOG), held, desk.sid)), "done")
        await owner.say("use it")
        # A model might work out the ids of receipts.
        done = [str(event.body["call"]) for event in await owner.events() if event.type == "tool.result"]
        asked: list[Use] = [("session_status", {"receipt": receipt_id(f"{owner.sid}/1/{name}")}) for name in done]
        model.then(*([one] for one in _calls((*asked, *_AFTER), held, desk.sid)), "done")
        await owner.say("ask about it")
        assert (await owner.state()).taint == PUBLIC
        # Times are outside the law, and the folders' keys differ.
        read = model.read().replace(owner.sid, "own").replace(desk.sid, "desk")
        read = re.sub(r'"(at|created|updated)": [0-9]+', '"at": 0', read)
        read = re.sub(r"\"id\": \"[a-z0-9]{16}\"", "turn", read)
        return re.sub(r"(held|receipt)-[a-z0-9]{16}", "id", read)


@_EXAMPLES
@example(
    Result("a@example.com", CONFIDENTIAL),
    Result("x", CONFIDENTIAL),
    [("message", {"channel": "console", "recipient": "owner", "text": "$"})],
    parse("INTERNAL"),
)
@example(
    Result("", CONFIDENTIAL),
    Result("x", CONFIDENTIAL),
    [("sessions_send", {"session_id": "@", "content": "$"})],
    PUBLIC,
)
@example(
    Result("y" * 40_001, CONFIDENTIAL),
    Result("a@example.com", CONFIDENTIAL),
    [
        ("sessions_send", {"session_id": "@", "content": "$"}),
        ("sessions_send", {"session_id": "@", "content": "next"}),
    ],
    PUBLIC,
)
@example(Result("x", PUBLIC), Result("x", CONFIDENTIAL), [("echo", {"text": "$"})], PUBLIC)
@given(_results, _results, _uses, _FLOORS)
def test_no_read_up(one: Result, other: Result, uses: list[Use], floor: Label) -> None:
    async def law() -> None:
        told = list[str]()
        for result in (one, other):
            with TemporaryDirectory() as folder:
                told.append(await _read(Path(folder), result, uses, floor))
        assert told[0] == told[1]

    asyncio.run(law())
