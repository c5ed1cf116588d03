"""Law `no_read_up` for what is held: whatever it is, the model reads the same as long as it does not let it in."""

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
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from bot.core.ids import receipt_id
from bot.sessions.log.event_types import ItemHeld, ToolResult
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.bot.kit import CONFIDENTIAL, TOP, Probe, Scripted, TextArguments, eventually, parts, policy, proposed
from tests.harness import Person, running
from tests.people import principal

_EXAMPLES = settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
_FLOORS = st.sampled_from((PUBLIC, parse("INTERNAL")))
_RULES = [
    {"id": "no-mail", "hook": "PRE_OUTPUT", "action": "BLOCK", "pattern": "email"},
    {"id": "no-cards", "hook": "PRE_TOOL_CALL", "action": "REDACT", "pattern": "payment-card"},
    {
        "id": "no-mail-in",
        "hook": "PRE_TOOL_CALL",
        "action": "REDACT",
        "pattern": "email",
        "when": 'tool_name == "echo"',
    },
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
            ("echo", {"text": "$", "_hold": False}),
            ("echo", {"more": {"deep": ["$"]}}),
            ("echo", {"text": "card 4111 1111 1111 1111", "more": {"deep": ["$"]}}),
            ("simulate_tool_call", {"tool_name": "echo", "args": {"text": "$"}}),
            ("sessions_send", {"session_id": "@", "content": "$"}),
            ("simulate_tool_call", {"tool_name": "sessions_send", "args": {"session_id": "@", "content": "$"}}),
        )
    ),
    min_size=1,
    max_size=5,
)


Use = tuple[str, dict[str, JsonValue]]

_HELLO: Final = "hello"

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


class _Mind(Scripted):
    """A model of two sessions: one does what the test wrote, that of the desk says hello to all that it is told.

    They work beside each other, so the order between them tells nothing: what the desk read stands at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._desk = Scripted(_HELLO)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make the next step of the session that asks."""
        first = messages[0].parts[0]
        at_desk = isinstance(first, UserPromptPart) and _HELLO in str(first.content)
        request = self._desk.request if at_desk else super().request
        return await request(messages, model_settings, model_request_parameters)

    def read(self) -> str:
        """Return everything that both were ever sent, as one text."""
        return f"{super().read()}\n{self._desk.read()}"


async def _read(folder: Path, result: Result, uses: Sequence[Use], floor: Label) -> str:
    """Return all that a model reads that has a result held and passes it on in these ways."""
    echo = Probe("echo", CallFacts(clearance=TOP), Result("done"), Effect.SEND)
    probe = Probe(declared=CallFacts(result=floor), result=result)
    model = _Mind()
    async with running(folder, policy(rules=_RULES), parts=parts(probe, echo, model=model)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"))
        await desk.say(_HELLO)
        model.then([proposed("probe", {"_hold": True})], "held")
        await owner.say("hold it")
        (held,) = [event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld)]
        model.then(*([one] for one in _calls((*uses, _LOG), held, desk.sid)), "done")
        await owner.say("use it")
        await desk.settled()
        # A model might work out the ids of receipts.
        done = [event.body.call for event in await owner.events() if isinstance(event.body, ToolResult)]
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
@example(
    Result("", CONFIDENTIAL),
    Result("x", CONFIDENTIAL),
    [("sessions_send", {"session_id": "@", "content": "$", "_hold": False})],
    PUBLIC,
)
@example(
    Result("a@example.com", CONFIDENTIAL),
    Result("x", CONFIDENTIAL),
    [("echo", {"text": "card 4111 1111 1111 1111", "more": {"deep": ["$"]}})],
    PUBLIC,
)
@given(_results, _results, _uses, _FLOORS)
def test_no_read_up(one: Result, other: Result, uses: list[Use], floor: Label) -> None:
    async def law() -> None:
        told = list[str]()
        for result in (one, other):
            with TemporaryDirectory() as folder:
                told.append(await _read(Path(folder), result, uses, floor))
        assert told[0] == told[1]

    asyncio.run(law())


_ASKS: Final = [
    {
        "id": "two-eyes",
        "hook": "PRE_TOOL_CALL",
        "when": 'tool_name == "pay"',
        "action": "REQUIRE_APPROVAL",
        "timeout": "1s",
    },
    {"id": "mails", "hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL", "pattern": "email", "timeout": "1s"},
]


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ["/deny {}", "", "ten"])
async def test_no_read_up_by_what_people_answer(answer: str) -> None:
    """What is told of a call that nobody approved is the same whether a rule found something in what it refers to."""
    told = list[str]()
    for text in ("a@example.com", "nothing"):
        with TemporaryDirectory() as folder:
            told.append(await _unapproved(Path(folder), text, answer))
    assert told[0] == told[1]
    assert {"/deny {}": "a person refused", "": "nobody answered", "ten": "was not asked about"}[answer] in told[0]


async def _unapproved(folder: Path, text: str, answer: str) -> str:
    """Return all that a model reads of calls that pass a text on, about which people are asked and answer so."""
    pay = Probe("pay", CallFacts(clearance=TOP), Result("done"), Effect.SEND)
    probe = Probe(declared=CallFacts(result=PUBLIC), result=Result(text, CONFIDENTIAL))
    model = Scripted([proposed("probe", {"_hold": True})], "held")
    people = {name: principal(f"console:{name}") for name in ("owner", "ada")}
    config = policy(principals=people, rules=_ASKS)
    async with running(folder, config, parts=parts(probe, pay, model=model)) as owner:
        await owner.say("hold it")
        (held,) = [event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld)]
        many: list[Use] = [("pay", {"text": "$"})] * (11 if answer == "ten" else 1)
        model.then(_calls(many, held, ""), "done", *([one] for one in _calls([_LOG], held, "")), "done")
        await owner.say("use it")
        questions = [question.id for _, question in await owner.app.store.approvals.waiting()]
        if answer.startswith("/"):
            await owner.say(answer.format(questions[0]))

        async def over() -> bool:
            return not (await owner.state()).turn

        await eventually(over)
        await owner.say("look at the log")
        read = re.sub(r'"(at|expires_at)": [0-9]+', '"at": 0', model.read().replace(owner.sid, "own"))
        return re.sub("|".join((*questions, "held-[a-z0-9]{16}")), "id", read)


@pytest.mark.anyio
async def test_no_read_up_by_where_a_held_page_leads() -> None:
    """A held page whose server sends the reader on to what a rule refuses leaves what any page leaves."""
    left = list[list[tuple[str, str]]]()
    for onward in (True, False):

        async def goes_on(
            _: TextArguments, __: ToolContext, services: ToolServices, *, onward: bool = onward
        ) -> Result | None:
            if onward:
                assert not await services.onward({"text": "a@example.com"})
            return None

        page = Probe("page", CallFacts(result=PUBLIC), Result("x", CONFIDENTIAL), does=goes_on)
        rules = [{"id": "no-mail", "hook": "PRE_TOOL_CALL", "action": "BLOCK", "pattern": "email"}]
        model = Scripted([proposed("page", {"_hold": True})], "held")
        with TemporaryDirectory() as folder:
            async with running(Path(folder), policy(rules=rules), parts=parts(page, model=model)) as owner:
                await owner.say("hold it")
                left.append([(event.type, str(event.label)) for event in await owner.events()])
                audited = [row.body.get("onward") for row in await owner.app.store.audit.records(owner.sid)]
                assert (True in audited) is onward
    assert left[0] == left[1]
