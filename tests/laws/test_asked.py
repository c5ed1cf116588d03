"""Law `no_read_up` for questions to people: whether and by what a call by reference is asked about tells nothing of it.

A question may not be said where a rule finds something in it, or where its readers are not cleared for it. Then it is
asked without what the calls refer to, so what the model reads, and what its parent hears, is the same.
"""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.sessions.approvals import Approval
from bot.sessions.log.events import EventType
from bot.sessions.models import SessionState
from bot.tools.base import CallFacts, Result
from policy.labels import PUBLIC, parse
from policy.request import Effect
from tests.bot.kit import CONFIDENTIAL, TOP, Probe, Scripted, eventually, parts, policy, proposed
from tests.harness import Person, running
from tests.people import principal

_CARD: Final = "card 4111 1111 1111 1111"
_WORLDS: Final = (
    Result(_CARD, CONFIDENTIAL),
    Result("a@example.com", CONFIDENTIAL),
    Result("x@example.org and Brightwater", CONFIDENTIAL),
    Result("z" * 900_000, CONFIDENTIAL),
    Result("x", parse("CONFIDENTIAL~")),
    Result("x", PUBLIC),
    Result("x", parse("RESTRICTED")),
    Result(_CARD, parse("RESTRICTED")),
)
_RULES: Final = (
    # What may not be said, and what only two calls of one question hold together.
    {"id": "no-cards", "hook": "PRE_OUTPUT", "action": "BLOCK", "pattern": "payment-card"},
    {"id": "no-deals", "hook": "PRE_OUTPUT", "action": "BLOCK", "pattern": "deal"},
    # Who is asked for it, and until when, would tell of it.
    {"id": "ask-mails", "hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL", "pattern": "email", "timeout": "1s"},
)
_CONFIG: Final = policy(
    rules=_RULES,
    patterns={"deal": "(?s)Brightwater.*merger"},
    principals={
        "owner": principal("console:owner"),
        "ada": principal("console:ada", role="admin"),
    },
    channels={"console": {"classification": "CONFIDENTIAL", "inbound": "PUBLIC", "overshoot": "allow"}},
)
_TASK: Final = "the task"


class _Mind(Scripted):
    """A model that holds a text, passes it on, and reads its log back.

    In `sent` is all that it was ever sent: first what reached the session that asks, then what reached its parent. The
    two sessions work beside each other, so the order between them tells nothing.
    """

    def __init__(self, calls: int, *, background: bool) -> None:
        super().__init__()
        self.calls, self.background = calls, background
        self._asking: list[str] = []
        self._others: list[str] = []

    @property
    def sent(self) -> list[str]:
        return [*self._asking, *self._others]

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make the next step."""
        said = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
        prompts = [str(part.content) for part in said if isinstance(part, UserPromptPart)]
        results = [str(part.content) for part in said if isinstance(part, ToolReturnPart)]
        works = not self.background or _TASK in prompts[0]
        (self._asking if works else self._others).append(json.dumps([prompts, results]))
        steps = self._steps(results) if works else [[proposed("sessions_spawn", {"task": _TASK}, name="s1")]]
        made = sum(isinstance(message, ModelResponse) for message in messages)
        parts = steps[made] if made < len(steps) else [TextPart(f"heard {results[-1]}")]
        usage = RequestUsage(input_tokens=10, output_tokens=5)
        return ModelResponse(parts=parts, usage=usage, model_name="scripted", provider_name="scripted")

    def _steps(self, results: list[str]) -> list[list[ToolCallPart]]:
        held = re.findall(r"held-[a-z0-9]{16}", " ".join(results[1:2]))
        texts = [{"$ref": held[0] if held else ""}, "merger"]
        return [
            # From now on it asks before it changes anything.
            [proposed("read_file", {"path": "public/welcome.md"}, name="c1")],
            [proposed("probe", {"_hold": True}, name="c2")],
            [proposed("pay", {"text": text}, name=f"p{n}") for n, text in enumerate(texts[: self.calls])],
            [proposed("sessions_history", {"session_id": "", "include_tools": True}, name="c3")],
            [proposed("session_status", {}, name="c4")],
        ]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "background, calls, answer",
    [(False, 1, "approve"), (False, 2, "deny"), (True, 1, "deny"), (True, 2, "approve")],
)
async def test_no_read_up_by_what_people_are_asked(*, background: bool, calls: int, answer: str) -> None:
    told, expected = list[str](), await _told(Result("x", CONFIDENTIAL), _Mind(calls, background=background), answer)
    for result in _WORLDS:
        told.append(await _told(result, _Mind(calls, background=background), answer))
    for index, one in enumerate(told):
        assert (index, one) == (index, expected)


@pytest.mark.anyio
async def test_people_approve_what_they_were_shown(tmp_path: Path) -> None:
    """A payment that people approved with its text is made, one that they were not shown is not."""
    for number, (result, paid) in enumerate(((Result("x", CONFIDENTIAL), 1), (_WORLDS[0], 0), (_WORLDS[1], 0))):
        folder = tmp_path / str(number)
        folder.mkdir()
        pay = Probe("pay", CallFacts(clearance=TOP, consequential=True), Result("done"), Effect.SEND)
        await _told(result, _Mind(1, background=False), "approve", folder, pay)
        assert len(pay.ran) == paid


async def _told(result: Result, mind: _Mind, answer: str, folder: Path | None = None, pay: Probe | None = None) -> str:
    """Return all that models read where a text is held and passed on, and people answer so."""
    probe = Probe(declared=CallFacts(result=PUBLIC), result=result)
    pay = pay or Probe("pay", CallFacts(clearance=TOP, consequential=True), Result("done"), Effect.SEND)
    with TemporaryDirectory() as place:
        made = parts(probe, pay, model=mind)
        async with running(folder or Path(place), _CONFIG, parts=made) as owner:
            await owner.send("begin")
            state, asked = await _question(owner)
            assert len(await owner.app.store.approvals.of(state.sid)) == mind.calls
            await owner.send(f"/{answer} {asked.asked_in}")

            async def over() -> bool:
                said = [one for one in await owner.events() if one.type is EventType.AGENT_MESSAGE]
                return len(said) == 1 + mind.background

            await eventually(over)
            await owner.settled()
            taint = str((await owner.state()).taint)
            return _plain("\n".join((*mind.sent, taint, str(await owner.app.store.approvals.waiting()))))


async def _question(owner: Person) -> tuple[SessionState, Approval]:
    async def asks() -> bool:
        return bool(await owner.app.store.approvals.waiting())

    await eventually(asks)
    return (await owner.app.store.approvals.waiting())[0]


def _plain(read: str) -> str:
    """Return what was read without times and names, which differ from run to run."""
    read = re.sub(r'"(at|created|updated|expires_at|deadline)\\*": \d+', "at", read)
    read = re.sub(
        r'(approval|run|run_id|turn|id|session|background session)(\\*": \\*"| )[a-z0-9]{8}\b', r"\1 name", read
    )
    return re.sub(r"\b[a-z0-9]{16,}\b", "id", read)
