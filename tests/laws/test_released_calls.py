"""Law `no_write_down` for calls that people release: each leaves once, as it was shown, and a no tells nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from pydantic_ai.messages import ToolCallPart

from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.consents.released_calls import LONGEST, canonical
from bot.sessions.log.event_types import ItemHeld
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.bot.kit import INTERNAL, Probe, Scripted, TextArguments, parts, policy, proposed
from tests.harness import running
from tests.people import principal

_EXAMPLES = settings(max_examples=5, phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None)
_POLICY = policy(principals={"owner": principal("console:owner", may_release=True)})

Step = tuple[dict[str, JsonValue], ...]
"""The arguments of the calls of one step; an empty one reads something INTERNAL, `$` refers to the held item."""

_ACTS: Final[tuple[Step, ...]] = (
    (),
    ({"text": "a"},),
    ({"text": "$"},),
    ({"text": "a", "_hold": True},),
    ({"text": "a"}, {"text": "b"}),
    ({"text": "a"}, {"text": "$"}),
    ({"text": "\u0430"}, {"text": "x" * LONGEST}),
)
_steps = st.lists(st.sampled_from(_ACTS), min_size=1, max_size=4)
_answers = st.lists(st.booleans(), min_size=4, max_size=4)
_texts = st.sampled_from(("", "one", "two" * 40, "`x`  \u202e", "y" * LONGEST))


class _Sink:
    """The public sink: it keeps the label and the form of every call that reached it."""

    def __init__(self) -> None:
        self.got = list[tuple[Label, str]]()

    async def __call__(self, arguments: TextArguments, context: ToolContext, services: ToolServices) -> Result:
        self.got.append((context.session.taint, canonical("post", {"text": arguments.text})))
        return Result("posted")


def _released(approval: Approval) -> str:
    """Return the form of the call that a person was shown, with its text in place of the reference."""
    text = approval.question.arguments["text"]
    return canonical("post", {"text": text["holds"] if isinstance(text, dict) and "holds" in text else text})


async def _played(folder: Path, result: Result, floor: Label, steps: Sequence[Step], answers: Sequence[bool]) -> str:
    """Return all that the model reads and people's questions tell openly, with the law checked for all that left."""
    sink, model = _Sink(), Scripted()
    facts = CallFacts(clearance=PUBLIC, releases_to="the sink", consequential=True)
    post = Probe("post", facts, Result("posted"), Effect.SEND, repeatable=False, does=sink)
    know = Probe("know", CallFacts(result=INTERNAL))
    probe = Probe(declared=CallFacts(result=floor), result=result)
    async with running(folder, _POLICY, parts=parts(post, know, probe, model=model)) as owner:
        model.then([proposed("probe", {"_hold": True})], "held")
        await owner.say("hold it")
        (held,) = [event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld)]
        for step, says in zip(steps, answers, strict=False):
            calls = [_call(given, held, number) for number, given in enumerate(step)]
            model.then(calls or [proposed("know")], "done")
            await owner.say("go on")
            for _ in range(3):
                waiting = [one for one in await owner.app.store.approvals.of(owner.sid) if one.state == "pending"]
                if not waiting:
                    break
                await owner.say(f"/{'approve' if says else 'deny'} {waiting[0].asked_in}")
        asked = sorted(await owner.app.store.approvals.of(owner.sid), key=lambda one: (one.asked_at, one.call))
        used = Counter(_released(one) for one in asked if one.state is ApprovalState.USED and one.question.release)
        above = Counter(form for label, form in sink.got if not label.flows_to(PUBLIC))
        assert above <= used, "every call above the sink was released by a person, as it was shown, once"
        told = [(one.state.value, one.rules, str(one.question.release)) for one in asked]
        return re.sub(r"held-[a-z0-9]{16}", "held", f"{model.read()}\n{told}")


def _call(given: dict[str, JsonValue], ref: str, number: int) -> ToolCallPart:
    text: JsonValue = {"$ref": ref} if given["text"] == "$" else given["text"]
    return proposed("post", {**given, "text": text}, f"c{number}")


@pytest.mark.anyio
@_EXAMPLES
@example(("", "one"), INTERNAL, [({"text": "$"},), (), ({"text": "a"}, {"text": "$"})], [True] * 4)
@example(("one", "y" * LONGEST), INTERNAL, [({"text": "$"},), ({"text": "a"},)], [True] * 4)
@example(("one", "two"), PUBLIC, [({"text": "$"},), (), ({"text": "$"},)], [True, True, False, True])
@given(st.tuples(_texts, _texts), st.sampled_from((PUBLIC, INTERNAL)), _steps, _answers)
async def test_no_write_down_but_for_calls_that_a_person_released(
    texts: tuple[str, str], floor: Label, steps: list[Step], answers: list[bool]
) -> None:
    told = set[str]()
    for text in texts:
        with TemporaryDirectory() as folder:
            result = Result(text, parse("INTERNAL"))
            told.add(await _played(Path(folder), result, floor, steps, answers))
    assert len(told) == 1, "the same is told of every held text"
