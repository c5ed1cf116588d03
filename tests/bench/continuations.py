"""How soon a run goes on: from the end of a turn, which puts the continuation into its inbox, to the next turn.

The reference is a conversation in which a message of its person waits when a turn ends, one for each turn. Both are
told by the store's clock in the events of the log, and both have as many turns with an instant model.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from bot.app.app import App
from bot.sessions.background.runs import RunOrder, RunWish
from bot.sessions.inbox import QueueMode
from bot.sessions.log.events import EventType
from bot.tools.background.runs import INITIALIZE
from channels.messages import Address, Inbound
from policy.labels import PUBLIC
from tests.bench.measure import Row, by_turns_async, ratio_at_most, warm
from tests.bench.rig import InstantModel, bench

_TURNS: Final = 20
_ROUNDS: Final = 12
_WARM: Final = 2
_PATIENCE: Final = 60


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="lgb") as folder:
        ours, theirs = [taken * 1e3 for taken in asyncio.run(_measured(Path(folder)))]
    yield Row("run_continuation", ours, "ms", theirs, ratio_at_most(1.5))


async def _measured(folder: Path) -> list[float]:
    goes_on = asyncio.Event()
    async with bench(folder, model=lambda: _Turns(goes_on)) as lockgate:
        here = _Sessions(lockgate.app, goes_on)
        await warm(here.run, here.talk, rounds=_WARM)
        return await by_turns_async(here.run, here.talk, rounds=_ROUNDS)


class _Turns(InstantModel):
    """Begins each run and stops it after its turns; the first message of a talk it answers when all have come."""

    def __init__(self, goes_on: asyncio.Event) -> None:
        super().__init__()
        self._goes_on = goes_on

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        answer = await super().request(messages, model_settings, model_request_parameters)
        answers = sum(isinstance(part, TextPart) for one in messages for part in one.parts)
        if not any(tool.name == INITIALIZE for tool in model_request_parameters.function_tools):
            if not answers:
                await self._goes_on.wait()
        elif len(messages) == 1:
            answer.parts = [ToolCallPart(INITIALIZE, {"session_type": "autonomous"})]
        elif answers >= _TURNS and not _returned(messages[-1]):
            answer.parts = [ToolCallPart("session_update", {"status": "stopped"})]
        return answer


def _returned(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in message.parts)


class _Sessions:
    """Runs and conversations of one person, each new."""

    def __init__(self, app: App, goes_on: asyncio.Event) -> None:
        self._app = app
        self._goes_on = goes_on
        self._count = itertools.count()

    async def run(self) -> float:
        """Return the seconds from the end of a turn to the next one in a run."""
        order = RunOrder(RunWish("do it"), f"k{next(self._count)}", "owner", "owner", PUBLIC)
        started = await self._app.gate.start_run(order)
        return await self._between(started.sid)

    async def talk(self) -> float:
        """Return the seconds from the end of a turn to the next one in a conversation, where messages wait."""
        address = Address("console", "owner", thread=f"t{next(self._count)}")
        sid = self._app.session_id(address)
        self._goes_on.clear()
        for number in range(_TURNS + 1):
            text = f"{number}: When is the meeting?"
            await self._app.router.receive(Inbound(address, "console:owner", text, f"{address.thread}-{number}"))
            if not number:
                await self._app.store.queue.set_mode(sid, QueueMode.QUEUE, ())
        self._goes_on.set()
        return await self._between(sid)

    async def _between(self, sid: str) -> float:
        """Wait until all turns of a session are over; return the mean seconds between them."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                events = await self._app.store.sessions.events(sid, limit=10_000)
                ends = [one.ts for one in events if one.type is EventType.TURN_COMPLETED]
                if len(ends) > _TURNS:
                    break
                await asyncio.sleep(0.05)
        begins = [one.ts for one in events if one.type is EventType.TURN_STARTED]
        return fmean(begin - end for end, begin in zip(ends, begins[1:], strict=False)) / 1e3
