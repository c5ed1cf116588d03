"""Laws `no_read_up` and `endorsed_cannot_steer` for calls on a condition.

Two worlds differ in the answer that decides. The model reads the same in both, and people are asked in neither. What
others notice is the call that was fixed before, or nothing.
"""

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.sessions.log.event_types import ItemHeld
from bot.tools.base import Arguments, CallFacts, Result
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.bot.inspections import Inspecting
from tests.bot.kit import TOP, Probe, parts, policy, proposed
from tests.events import bodies
from tests.harness import Person, running

_EXAMPLES = settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])

_RULES: Final = [{"id": "no-mail", "hook": "PRE_OUTPUT", "action": "BLOCK", "pattern": "email"}]

_FREE: Final[JsonValue] = {"free": {"type": "boolean"}}

_mails = st.builds(
    Result,
    st.sampled_from(('{"free": true}', '{"free": false}', "no answer", "break", "y" * 50_000)),
    st.sampled_from(("PUBLIC~", "INTERNAL~", "CONFIDENTIAL~", "RESTRICTED~")).map(parse),
    st.booleans(),
)
_uses = st.lists(
    st.sampled_from(
        (
            ("book", {"hour": "noon"}),
            ("message", {"channel": "console", "recipient": "guest", "text": "at noon"}),
            ("message", {"channel": "console", "recipient": "guest", "text": "a@example.com"}),
            ("message", {"channel": "console", "recipient": "guest", "text": {"$ref": "mail"}}),
            ("write_file", {"path": "public/x.md", "text": "free"}),
            ("write_file", {"path": "workspace/x.md", "text": "free"}),
            ("memory", {"action": "learn", "text": "they are free"}),
            ("sessions_spawn", {"task": "tell them"}),
            ("simulate_tool_call", {"tool_name": "book", "args": {"hour": "noon"}}),
        )
    ),
    min_size=1,
    max_size=4,
)

_Use = tuple[str, dict[str, JsonValue]]


class _Booking(Arguments):
    """A booking: the hour steers it."""

    hour: str


def _answer(shown: str) -> str:
    if "break" in shown:
        raise ValueError
    return shown.rstrip().rpartition("\n")[2].strip()


async def _answered(owner: Person, model: Inspecting) -> tuple[str, JsonValue]:
    """Have a question about a held mail answered, and the answer held; return the mail's id, and the condition."""
    await owner.say("hold it")
    (ref,) = bodies(await owner.events(), ItemHeld)
    question: dict[str, JsonValue] = {"refs": [ref.ref], "question": "Free?", "returns": _FREE, "_hold": True}
    model.then([proposed("inspect", question)], "asked")
    await owner.say("ask")
    *_, answer = bodies(await owner.events(), ItemHeld)
    assert answer.answer is not None
    return ref.ref, {"answer": answer.ref, "field": "free"}


async def _done(folder: Path, mail: Result, uses: list[_Use], floor: Label) -> tuple[str, list[Arguments]]:
    """Make these calls if a mail says so; return all that the model reads, and what a server was asked to do."""
    book = Probe("book", CallFacts(clearance=TOP, consequential=True), effect=Effect.SEND, arguments=_Booking)
    probe = Probe("mail", declared=CallFacts(result=floor), result=mail)
    model = Inspecting([proposed("mail", {"_hold": True})], "held", answer=_answer)
    config = policy(rules=_RULES, blocks={"model": {"retries": 0}})
    async with running(folder, config, parts=parts(probe, book, model=model)) as owner:
        ref, condition = await _answered(owner, model)

        def conditional(arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
            inner, put = arguments.get("args"), dict[str, JsonValue]()
            for name, value in arguments.items():
                put[name] = {"$ref": ref} if value == {"$ref": "mail"} else value
            put |= {"args": conditional(inner)} if isinstance(inner, dict) else {"_if": condition}
            return put

        calls = [proposed(tool, conditional(given), name=f"c{n}") for n, (tool, given) in enumerate(uses)]
        after = [
            proposed("sessions_history", {"session_id": "", "include_tools": True}, name="h"),
            proposed("sessions_list", {}, name="l"),
            proposed("session_status", {}, name="s"),
        ]
        model.then(*([one] for one in calls), after, "done")
        await owner.say("book if they are free")
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert (await owner.state()).taint == PUBLIC
        read = re.sub(r'"(at|created|updated)": [0-9]+', '"at": 0', model.read().replace(owner.sid, "own"))
        read = re.sub(r"\"id\": \"[a-z0-9]{16}\"", "turn", read)
        return re.sub(r"(held|receipt)-[a-z0-9]{16}", "id", read), list[Arguments](book.said)


@_EXAMPLES
@example(
    Result('{"free": true}', parse("PUBLIC~")),
    Result('{"free": false}', parse("PUBLIC~")),
    [("book", {"hour": "noon"}), ("message", {"channel": "console", "recipient": "guest", "text": "at noon"})],
    PUBLIC,
)
@example(
    Result('{"free": true}', parse("PUBLIC~")),
    Result('{"free": true}', parse("CONFIDENTIAL~")),
    [("memory", {"action": "learn", "text": "they are free"}), ("write_file", {"path": "public/x.md", "text": "free"})],
    PUBLIC,
)
@example(
    Result('{"free": true}', parse("PUBLIC~")),
    Result("break", parse("INTERNAL~")),
    [("sessions_spawn", {"task": "tell them"}), ("book", {"hour": "noon"})],
    PUBLIC,
)
@given(_mails, _mails, _uses, st.sampled_from((PUBLIC, parse("INTERNAL"))))
def test_no_read_up_by_a_condition_which_chooses_no_value(
    one: Result, other: Result, uses: list[_Use], floor: Label
) -> None:
    async def law() -> None:
        told = list[str]()
        for mail in (one, other):
            with TemporaryDirectory() as folder:
                read, made = await _done(Path(folder), mail, uses, floor)
            told.append(read)
            asked = sum(tool == "book" for tool, _ in uses)
            if (mail.text, mail.label, floor) == ('{"free": true}', parse("PUBLIC~"), PUBLIC):
                assert len(made) == asked
            assert set(map(str, made)) <= {str(_Booking(hour="noon"))}
            assert len(made) <= asked
        assert told[0] == told[1]

    asyncio.run(law())


@pytest.mark.anyio
async def test_what_a_call_on_a_condition_leaves_is_as_untrusted_as_its_answer(tmp_path: Path) -> None:
    """A later conversation that finds it learns the answer, so it must not count as the person's own words."""
    model = Inspecting([proposed("mail", {"_hold": True})], "held", answer=_answer)
    probe = Probe("mail", result=Result('{"free": true}', parse("PUBLIC~")))
    async with running(tmp_path, parts=parts(probe, model=model)) as owner:
        _, condition = await _answered(owner, model)
        written: dict[str, JsonValue] = {"path": "public/x.md", "text": "they are free", "_if": condition}
        model.then(
            [proposed("write_file", written, name="write")],
            [proposed("read_file", {"path": "public/x.md"}, name="read")],
            "done",
        )
        await owner.say("go")
        assert "they are free" in model.read()
        assert str((await owner.state()).taint) == "PUBLIC~"
