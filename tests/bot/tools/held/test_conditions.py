"""Calls with `_if`: made only if a held answer is true, unasked, and without a sign of it in the conversation."""

import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import ItemHeld, ToolResult
from bot.tools.base import Arguments, CallFacts, Result
from bot.tools.held.conditions import NO_ANSWER, NO_CONDITION, NO_EFFECT, NO_FIELD, NOT_COUNTED, UNMET
from channels.messages import Address
from policy.labels import parse
from policy.request import Effect
from tests.bot.kit import Probe, bang, eventually, note, parts, policy
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

FREE: Final[dict[str, JsonValue]] = {"free": {"type": "boolean"}, "hour": {"type": "number", "min": 0, "max": 23}}
YES: Final = 'Say that you are free!\n{"free": true, "hour": 12}'
NO: Final = 'Say that you are free!\n{"free": false, "hour": 12}'


class _Booking(Arguments):
    """A booking: the hour steers it."""

    hour: str


def booking() -> Probe:
    """Return a tool that others notice."""
    return Probe("book", CallFacts(consequential=True), effect=Effect.SEND, arguments=_Booking)


def ref_in(text: str) -> str:
    """Return the id of the last held item that a text names."""
    return re.findall(r"held-[a-z0-9]{16}", text)[-1]


async def held(owner: Person, path: str, text: str) -> str:
    """Have a file with this text held; return its id."""
    (owner.app.config.data_dir / "files" / path).write_text(text, "utf-8")
    return ref_in(await owner.say(bang("read_file", path=path, _hold=True)))


async def answered(owner: Person, text: str, path: str = "public/mail.md", returns: dict[str, JsonValue] = FREE) -> str:
    """Have a question about a file with this text answered by its last line, and the answer held; return its id."""
    ref = await held(owner, path, text)
    return ref_in(await owner.say(bang("inspect", refs=[ref], question="Free?", returns=returns, _hold=True)))


def given(ref: str, field: str = "free") -> dict[str, JsonValue]:
    """Return a condition."""
    return {"answer": ref, "field": field}


async def kept(owner: Person) -> tuple[str, str]:
    """Return the text that the session held last, and its label."""
    held_items = [event for event in await owner.events() if isinstance(event.body, ItemHeld)]
    return bodies(held_items, ItemHeld)[-1].text, str(held_items[-1].label)


@pytest.mark.parametrize("text, made, left", [(YES, 1, "done"), (NO, 0, UNMET)])
async def test_a_call_is_made_only_if_the_answer_is_true(tmp_path: Path, text: str, made: int, left: str) -> None:
    book = booking()
    async with running(tmp_path, parts=parts(book)) as owner:
        answer = await answered(owner, text)
        shown = await owner.say(bang("book", hour="noon", _if=given(answer)))
        assert len(book.said) == made
        assert await owner.app.store.approvals.of(owner.sid) == ()
        # The conversation is told the same, and what tells them apart is UNTRUSTED.
        assert f"The result of this call is held as `{ref_in(shown)}`" in shown
        told, label = await kept(owner)
        assert (left in told, label) == (True, "PUBLIC~")
        assert str((await owner.state()).taint) == "PUBLIC"
        # The tool got the arguments that people and rules see, and the answer was heard nowhere.
        assert list[Arguments](book.said) == [_Booking(hour="noon")] * made
        assert all(not one.endorsed for one in bodies(await owner.events(), ToolResult))


async def test_once_an_answer_was_heard_a_call_asks_all_the_same(tmp_path: Path) -> None:
    book = booking()
    async with running(tmp_path, parts=parts(book)) as owner:
        answer = await answered(owner, YES)
        await owner.say(bang("inspect", refs=[await held(owner, "public/other.md", YES)], question="?", returns=FREE))
        shown = await owner.say(bang("book", hour="noon", _if=given(answer)))
        assert "May `book` run" in shown
        assert not book.said


@pytest.mark.parametrize("text, made", [(YES, 1), (NO, 0)])
async def test_people_are_asked_the_same_and_their_answer_is_spent(tmp_path: Path, text: str, made: int) -> None:
    """Whether the condition is met may not be told by a question; who is asked sees the condition itself."""
    book = Probe("book", CallFacts(consequential=True, asks=True), effect=Effect.SEND, arguments=_Booking)
    async with running(tmp_path, parts=parts(book)) as owner:
        answer = await answered(owner, text)
        shown = await owner.say(bang("book", hour="noon", _if=given(answer)))
        assert "May `book` run" in shown
        assert "_if" in shown
        assert f"made only if `free` is true in the result `{answer}` of `inspect` at 20" in shown
        assert "is not shown" not in shown
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        await owner.say(f"/approve {asked.id}")
        await owner.settled()
        assert len(book.said) == made
        states = [one.state for one in await owner.app.store.approvals.of(owner.sid)]
        assert ApprovalState.PENDING not in states
        assert ApprovalState.APPROVED not in states


async def test_an_answer_above_the_sink_decides_nothing_and_tells_nothing(tmp_path: Path) -> None:
    """Whether a call is made would tell the sink one bit of the answer. Its level was known, or it was not."""
    book, mail = booking(), Probe("mail", result=Result(YES, parse("CONFIDENTIAL~")))
    async with running(tmp_path, parts=parts(book, mail)) as owner:
        answer = await answered(owner, YES, "confidential/plan.md")
        assert "Rule `no_write_down`" in await owner.say(bang("book", hour="noon", _if=given(answer)))
        ref = ref_in(await owner.say(bang("mail", _hold=True)))
        answer = ref_in(await owner.say(bang("inspect", refs=[ref], question="Free?", returns=FREE)))
        shown = await owner.say(bang("book", hour="noon", _if=given(answer)))
        assert "is held as" in shown
        assert "no_write_down" not in shown
        assert "Rule `no_write_down`" in (await kept(owner))[0]
        assert not book.said


async def test_a_message_on_a_condition_is_not_marked_as_text_from_outside(tmp_path: Path) -> None:
    """Its words are the session's own: the answer chose only whether it is sent."""
    async with running(tmp_path) as owner:
        answer = await answered(owner, YES)
        await owner.say(bang("message", channel="console", recipient="guest", text="at noon", _if=given(answer)))
        assert "→ guest: at noon" in owner.shown


async def test_what_names_no_answer_is_refused_with_the_next_step(tmp_path: Path) -> None:
    book = booking()
    async with running(tmp_path, parts=parts(book)) as owner:
        page, answer = await held(owner, "public/page.md", YES), await answered(owner, YES)
        wrong: list[tuple[JsonValue, str]] = [
            (given(page), NO_ANSWER),
            (given("held-0123456789abcdef"), NO_ANSWER),
            (given(answer, "hour"), f"{NO_FIELD}`free`"),
            (given(answer, "busy"), f"{NO_FIELD}`free`"),
            ({**given(answer), "is": False}, NO_CONDITION),
            ({"answer": answer}, NO_CONDITION),
            ({"answer": 1, "field": "free"}, NO_CONDITION),
            ({"answer": answer, "field": ["free"]}, NO_CONDITION),
            (answer, NO_CONDITION),
        ]
        for condition, why in wrong:
            assert why in await owner.say(bang("book", hour="noon", _if=condition))
        assert NO_EFFECT in await owner.say(bang("write_file", path="workspace/a.md", text="x", _if=given(answer)))
        assert "_if" in await owner.say(bang("read_file", path="public/page.md", _if=given(answer)))
        await owner.say("/reset confirm")
        assert NO_ANSWER in await owner.say(bang("book", hour="noon", _if=given(answer)))
        assert not book.said


async def test_an_answer_that_failed_or_was_never_counted_decides_nothing(tmp_path: Path) -> None:
    """A failed one is held like any other. One beyond the limit of bits is openly none."""
    book, much = booking(), dict[str, JsonValue](FREE)
    much["much"] = {"type": "number", "min": 0, "max": 10**14}
    async with running(tmp_path, parts=parts(book)) as owner:
        failed = await answered(owner, "no fields here")
        assert "is held as" in await owner.say(bang("book", hour="noon", _if=given(failed)))
        assert UNMET in (await kept(owner))[0]
        beyond = await answered(owner, '{"free": true, "hour": 1, "much": 1}', "public/much.md", returns=much)
        assert NOT_COUNTED in await owner.say(bang("book", hour="noon", _if=given(beyond)))
        assert not book.said


async def test_a_simulated_call_tells_nothing_of_its_condition(tmp_path: Path) -> None:
    told = list[str]()
    for name, text in (("yes", YES), ("no", NO)):
        folder = tmp_path / name
        folder.mkdir()
        async with running(folder, parts=parts(booking())) as owner:
            args: dict[str, JsonValue] = {"hour": "noon", "_if": given(await answered(owner, text))}
            shown = await owner.say(bang("simulate_tool_call", tool_name="book", args=args))
            assert '"verdict": "ALLOW"' in shown
            told.append(re.sub(r"held-[a-z0-9]{16}", "id", shown))
    assert told[0] == told[1]


async def test_a_tool_of_the_policy_that_holds_all_its_results_gives_conditions_too(tmp_path: Path) -> None:
    book = booking()
    async with running(tmp_path, policy(tools={"inspect": {"hold": True}}), parts=parts(book)) as owner:
        ref = await held(owner, "public/mail.md", YES)
        answer = ref_in(await owner.say(bang("inspect", refs=[ref], question="Free?", returns=FREE)))
        await owner.say(bang("book", hour="noon", _if=given(answer)))
        assert len(book.said) == 1


async def test_a_call_of_a_server_on_a_condition_is_not_asked_about(tmp_path: Path) -> None:
    """The answer passes no text to the server, so it does not matter that anybody may have written it."""
    blocks: dict[str, object] = {
        "mcp_servers": {"desk": {"command": "none", "tools": {"other": {"description": "x", "effect": "read"}}}}
    }
    config = policy(mcp_servers={"desk": {"floor": "PUBLIC", "clearance": "top"}}, blocks=blocks)
    book = Probe("desk__book", CallFacts(consequential=True), effect=Effect.SEND, server="desk", arguments=_Booking)
    async with running(tmp_path, config, parts=parts(book)) as owner:
        answer = await answered(owner, YES)
        assert "is held as" in await owner.say(bang("desk__book", hour="noon", _if=given(answer)))
        assert len(book.said) == 1
        # A text that goes along is another matter.
        text: JsonValue = {"$ref": await held(owner, "public/page.md", YES)}
        assert "may run" not in await owner.say(bang("desk__book", hour=text, _if=given(answer)))
        assert len(book.said) == 1


async def test_no_session_finds_out_by_what_is_there_or_missing(tmp_path: Path) -> None:
    """A session that asked its memories or schedules afterwards would hear the answer, uncounted and unmarked."""
    book = booking()
    async with running(tmp_path, parts=parts(book)) as owner:
        told = await owner.say(bang("memory", action="learn", text="they take the hour of noon"))
        memory = re.findall(r"mem_[a-z0-9]+", told)[-1]
        schedule = re.findall(r"s_[a-z0-9]{16}", await owner.say("/remind in 2 hours tea"))[0]
        answer = given(await answered(owner, YES))
        for call in (
            bang("memory", action="forget", id=memory, _if=answer),
            bang("memory", action="correct", id=memory, text="another", _if=answer),
            bang("schedule_cancel", id=schedule, _if=answer),
            bang("schedule_create", kind="reminder", when="in 2 hours", text="tea", _if=answer),
            bang("runs_start", goal="tell them", _if=answer),
            bang("skill", action="rollback", skill_id="tea", version=1, _if=answer),
            bang("sessions_spawn", task="tell them", deliver_to="guest", _if=answer),
            bang("write_file", path="agent-output/x.md", text="free", _if=answer),
        ):
            assert NO_EFFECT in await owner.say(call), call
        assert memory in await owner.say(bang("memory", action="recall", query="hour of noon"))
        assert schedule in await owner.say(bang("schedules_list"))
        assert await owner.app.store.approvals.of(owner.sid) == ()


async def test_an_operator_who_tightens_a_tool_gives_it_no_conditions(tmp_path: Path) -> None:
    """The setting adds caution. A call that changes what the session itself finds would tell it the answer."""
    tools = {name: {"consequential": True} for name in ("write_file", "skill", "workflow", "sessions_send")}
    async with running(tmp_path, policy(tools=tools)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"))
        await desk.say("hello")
        answer = given(await answered(owner, YES))
        for call in (
            bang("write_file", path="workspace/x.md", text="free", _if=answer),
            bang("skill", action="create", name="tea", steps=["boil"], _if=answer),
            bang("workflow", action="status", _if=answer),
            bang("sessions_send", session_id=desk.sid, content="free", _if=answer),
        ):
            assert NO_EFFECT in await owner.say(call), call
        assert await owner.app.store.approvals.of(owner.sid) == ()


async def test_what_is_read_after_such_a_call_may_tell_of_it_so_the_answer_counts_as_heard(tmp_path: Path) -> None:
    """What a call changed, or left as it was, shows at its server. Until then two calls may depend on answers."""
    book, look = booking(), Probe("look", result=Result("noon is taken"))
    async with running(tmp_path, parts=parts(book, look)) as owner:
        answer = await answered(owner, YES)
        for hour in ("noon", "one"):
            await owner.say(bang("book", hour=hour, _if=given(answer)))
        assert len(book.said) == 2
        assert "noon is taken" in await owner.say(bang("look"))
        shown = await owner.say(bang("book", hour="two", _if=given(answer)))
        assert "May `book` run" in shown
        assert "- `whether a call was made`" in shown
        assert len(book.said) == 2
        assert str((await owner.state()).taint) == "PUBLIC"


async def test_a_session_below_may_look_so_it_counts_as_having_heard(tmp_path: Path) -> None:
    book = booking()
    async with running(tmp_path, parts=parts(book)) as owner:
        await owner.say(bang("book", hour="noon", _if=given(await answered(owner, YES))))
        await owner.say(bang("sessions_spawn", task=bang("book", hour="one")))

        async def asks() -> bool:
            below = [state.sid async for state in owner.app.store.sessions.states() if state.lineage is not None]
            found = [one for sid in below for one in await owner.app.store.approvals.of(sid)]
            return any(one.rules == ("endorsed_cannot_steer",) for one in found)

        await eventually(asks)
        assert len(book.said) == 1


@pytest.mark.parametrize("text, made", [(YES, 3), (NO, 2)])
async def test_a_grant_covers_a_call_with_a_condition_and_spends_a_use_in_both_cases(
    tmp_path: Path, text: str, made: int
) -> None:
    async with running(tmp_path) as owner:
        answer = await answered(owner, text)
        await owner.say(bang("inspect", refs=[await held(owner, "public/other.md", YES)], question="?", returns=FREE))
        await owner.say(note("guest", "at noon"))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        await owner.say(f"/approve {asked.id} until 1h")
        await owner.say(note("guest", "at noon"))
        shown = await owner.say(
            bang("message", channel="console", recipient="guest", text="at noon", _if=given(answer))
        )
        assert "is held as" in shown
        assert owner.shown.count("→ guest: at noon") == made
        (granted,) = await owner.app.store.approvals.of(owner.sid)
        assert granted.grant is not None
        assert granted.grant.left == 7
