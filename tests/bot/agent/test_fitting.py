"""Results that are larger than what is left of the model's window: a part is read, the whole is held."""

import json
import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.agent.fitting import fitted
from bot.agent.offline import RECAP
from bot.sessions.log.event_types import ItemHeld
from bot.sessions.log.events import Event, EventType
from bot.tools.base import Result
from bot.tools.references import ADMIT, NOTHING_MORE
from policy.labels import PUBLIC, parse
from tests.bot.kit import Probe, Scripted, call, parts, proposed, standing
from tests.events import body_of
from tests.harness import Person, running

WINDOW: Final = 18_000
WHOLE: Final = "".join(f"line {number:06}\n" for number in range(8_000))
"""About 96,000 characters: more than two windows of this size."""
MARK: Final = re.compile(r"\n\[these are the characters (\d+) to (\d+) of (\d+); `admit` with (\{.*?\}) reads on\]$")


def window(tokens: int | None = WINDOW, **sections: object) -> str:
    """Return a configuration whose model reads so many tokens at once."""
    settings = {} if tokens is None else {"context_tokens": tokens, "output_tokens": 500}
    return json.dumps({"model": {"providers": {"offline": settings}, "retries": 0}, **sections})


def returned(messages: list[ModelMessage]) -> list[str]:
    """Return the results among messages, oldest first."""
    return [str(part.content) for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]


async def held(owner: Person) -> list[Event]:
    return [event for event in await owner.events() if event.type is EventType.ITEM_HELD]


class Follower(Scripted):
    """A model that reads on wherever a mark tells it how, and writes a recap where it is asked for one."""

    def __init__(self) -> None:
        super().__init__()
        self.found = list[str]()
        self.contexts = list[str]()

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        if getattr(messages[-1], "instructions", "") == RECAP:
            return self._said(TextPart("a recap"))
        self.contexts.append(str(messages))
        told = returned(messages[-1:])
        if not told:
            return self._said(ToolCallPart("long", "{}"))
        mark = MARK.search(told[-1])
        self.found.append(told[-1] if mark is None else told[-1].removesuffix(mark.group()))
        return self._said(TextPart("that was all of it") if mark is None else ToolCallPart(ADMIT, mark.group(4)))

    @staticmethod
    def _said(part: TextPart | ToolCallPart) -> ModelResponse:
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=10, output_tokens=5), model_name="follower")


@pytest.mark.anyio
async def test_what_is_too_large_is_read_in_part_and_kept_whole(tmp_path: Path) -> None:
    long = Probe("long", result=Result(WHOLE, parse("INTERNAL")))
    script = Scripted([proposed("long")], "first")
    async with running(tmp_path, window(), parts=parts(long, model=script)) as owner:
        assert "first" in await owner.say("read it")
        (shown,) = returned(script.asked[-1])
        told = MARK.search(shown)
        assert told is not None
        assert shown.removesuffix(told.group()) == WHOLE[: int(told.group(2))]
        assert int(told.group(2)) > WINDOW * 4 // 5
        (kept,) = await held(owner)
        assert (body_of(kept, ItemHeld).text, str(kept.label)) == (WHOLE, "INTERNAL")
        labels = [str(event.label) for event in await owner.events() if event.type is EventType.TOOL_RESULT]
        assert labels == ["INTERNAL"]
        assert str((await owner.state()).taint) == "INTERNAL"


@pytest.mark.anyio
async def test_the_marks_lead_to_the_end_of_it(tmp_path: Path) -> None:
    """However many parts there are, the conversation stays within its window, and its task stays in it."""
    model = Follower()
    long = Probe("long", result=Result(WHOLE))
    async with running(tmp_path, window(), parts=parts(long, model=model)) as owner:
        assert "that was all of it" in await owner.say("read it, to its end")
        assert "".join(model.found) == WHOLE
        assert len(await held(owner)) == 1
        assert all("read it, to its end" in context for context in model.contexts)


@pytest.mark.anyio
async def test_results_of_one_step_share_what_is_left(tmp_path: Path) -> None:
    long = Probe("long", result=Result(WHOLE))
    script = Scripted([proposed("long", name="a"), proposed("long", name="b"), proposed("long", name="c")], "done")
    async with running(tmp_path, window(), parts=parts(long, model=script)) as owner:
        assert "done" in await owner.say("read all three")
        shown = returned(script.asked[-1])
        assert [MARK.search(one) is not None for one in shown] == [True] * 3
        assert min(map(len, shown)) > WINDOW // 5
        assert len(script.asked) == 2, "no recap was needed"
        assert len(await held(owner)) == 3


@pytest.mark.anyio
async def test_a_window_that_nobody_knew_is_found_and_the_result_made_smaller(tmp_path: Path) -> None:
    long = Probe("long", result=Result(WHOLE))
    refusal = ModelHTTPError(413, "m")
    script = Scripted([proposed("long")], refusal, refusal, "first")
    async with running(tmp_path, window(None), parts=parts(long, model=script)) as owner:
        assert "first" in await owner.say("read it")
        sizes = [len(one) for asked in script.asked for one in returned(asked)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == len(WHOLE)
        assert sizes[-1] < len(WHOLE) / 3
        (kept,) = await held(owner)
        assert body_of(kept, ItemHeld).text == WHOLE
        assert MARK.search(returned(script.asked[-1])[-1]) is not None


@pytest.mark.anyio
async def test_what_is_held_is_not_shown_for_want_of_room(tmp_path: Path) -> None:
    long = Probe("long", result=Result(WHOLE, parse("INTERNAL")))
    many = [proposed("long", {"_hold": True}, name=f"n{number}") for number in range(30)]
    refusal = ModelHTTPError(413, "m")
    script = Scripted(many, refusal, refusal, refusal, "done")
    async with running(tmp_path, window(None), parts=parts(long, model=script)) as owner:
        await owner.say("hold it")
        assert "line 0" not in script.read()
        assert str((await owner.state()).taint) == "PUBLIC"


@pytest.mark.anyio
async def test_who_may_not_read_on_is_told_so(tmp_path: Path) -> None:
    long = Probe("long", result=Result(WHOLE))
    script = Scripted([proposed("long")], "first")
    config = window(policy={"tools": {ADMIT: {"roles": ["member"]}}})
    async with running(tmp_path, config, parts=parts(long, model=script)) as owner:
        await owner.say("read it")
        (shown,) = returned(script.asked[-1])
        assert f"of {len(WHOLE)} characters; ask for less at once" in shown
        assert not await held(owner)


@pytest.mark.anyio
async def test_reading_on_ends_where_the_item_ends(tmp_path: Path) -> None:
    long = Probe("long", result=Result("short"))
    script = Scripted([proposed("long", {"_hold": True})], "held")
    async with running(tmp_path, parts=parts(long, model=script)) as owner:
        await owner.say("hold it")
        ref = body_of((await held(owner))[0], ItemHeld).ref
        script.then([proposed(ADMIT, {"ref": ref, "after": 2})], [proposed(ADMIT, {"ref": ref, "after": 5})], "read")
        await owner.say("read it")
        assert returned(script.asked[-1])[-2:] == ["ort", NOTHING_MORE]


@given(st.text(min_size=1, max_size=2_000), st.lists(st.integers(0, 900), min_size=1, max_size=30))
def test_no_character_is_lost_and_none_is_read_twice(text: str, rooms: list[int]) -> None:
    here, asked, read = standing(), call("long"), ""
    for number, room in enumerate((*rooms, *[900] * 5)):
        part = fitted(here, asked, text[len(read) :], label=PUBLIC, room=room, reads_on=True)
        mark = MARK.search(part.text)
        if mark is None:
            read += part.text
            break
        assert len(part.text) <= max(room, 400)
        read += part.text.removesuffix(mark.group())
        if part.held is not None:
            assert part.held.text == text
            here = standing(held=(part.held,))
        arguments = json.loads(mark.group(4))
        assert arguments["after"] == len(read)
        asked = call(ADMIT, arguments, f"next{number}")
    assert text.startswith(read)
    assert read == text
