"""Message in, answer out: through the whole application, against a bare `pydantic_ai.Agent.run`.

Both have the same instant model, instructions, tools and history, which grows over ten messages of a thread. The
clock stops when the answer is handed to the channel: accepted, decided, committed and audited by then. The two
tool calls read two small files.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import Agent, Tool

from bot.app.app import App
from tests.bench.measure import Row, by_turns_async, ratio_at_most, warm
from tests.bench.rig import READ, Bench, InstantModel, bench

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

_TALK: Final = 10
_ROUNDS: Final = 200
_WARM: Final = 20


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="lgb") as folder:
        answered, called = asyncio.run(_measured(Path(folder)))
    yield Row("message_to_answer", answered[0] * 1e3, "ms", answered[1] * 1e3, ratio_at_most(2.5))
    yield Row("message_to_answer_two_calls", called[0] * 1e3, "ms", called[1] * 1e3, ratio_at_most(2.5))


async def _measured(folder: Path) -> tuple[list[float], list[float]]:
    async with bench(folder) as lockgate:
        bare = _Bare(lockgate.app)
        found = list[list[float]]()
        for text in ("When is the meeting?", READ):
            ours, theirs = _Talk(lockgate, text), bare.talk(text)
            await warm(ours.ask, theirs.ask, rounds=_WARM)
            found.append(await by_turns_async(ours.ask, theirs.ask, rounds=_ROUNDS))
        return found[0], found[1]


class _Talk:
    """One person talking to Lockgate, in a new thread after every ten messages."""

    def __init__(self, lockgate: Bench, text: str) -> None:
        self._lockgate = lockgate
        self._text = text
        self._asked = 0

    async def ask(self) -> float:
        thread = f"{self._text[:4]}{self._asked // _TALK}"
        self._asked += 1
        return await self._lockgate.ask(self._text, thread)


class _BareTalk:
    """The same talk with a bare agent, its history kept in memory."""

    def __init__(self, agent: Agent[object, str], text: str) -> None:
        self._agent = agent
        self._text = text
        self._asked = 0
        self._history: list[ModelMessage] = []

    async def ask(self) -> float:
        if self._asked % _TALK == 0:
            self._history = []
        self._asked += 1
        begin = time.perf_counter()
        result = await self._agent.run(self._text, message_history=self._history)
        taken = time.perf_counter() - begin
        self._history = result.all_messages()
        return taken


class _Bare:
    """A bare agent with the application's tools, whose reading reads the same files."""

    def __init__(self, app: App) -> None:
        root = app.config.data_dir / "files"

        async def called(path: str = "", **_: Any) -> str:  # noqa: ANN401 - any tool's arguments
            return await asyncio.to_thread((root / path).read_text, encoding="utf-8")

        tools = [
            Tool[object].from_schema(called, tool.name, tool.description, tool.arguments.model_json_schema())
            for tool in app.gate.tools
        ]
        self._agent = Agent[object, str](InstantModel(), instructions=app.config.model.instructions, tools=tools)

    def talk(self, text: str) -> _BareTalk:
        return _BareTalk(self._agent, text)
