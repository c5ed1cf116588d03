"""Law `child_dominates_its_task`: whatever its parent has read, a child stands there before its model is asked."""

import asyncio
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from bot.agent.offline import OfflineModel
from bot.sessions.background.delegation import Errand
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import eventually, parts, standing
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


class Watching(OfflineModel):
    """A model that notes what its session had read, as the store says, when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.owner: Person | None = None
        self.sid = ""
        self.spawned = asyncio.Event()
        self.saw: list[Label] = []

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        if "the task" in str(messages):
            # A worker is faster than the test that spawns.
            await self.spawned.wait()
            assert self.owner is not None
            state = await self.owner.app.store.sessions.state(self.sid)
            assert state is not None
            self.saw.append(state.taint)
        return await super().request(messages, model_settings, model_request_parameters)


@pytest.mark.parametrize("text", ["PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL{hr}", "RESTRICTED{acme,hr}~"])
async def test_child_dominates_its_task(tmp_path: Path, text: str) -> None:
    label, model = parse(text), Watching()
    config = '{"policy": {"compartments": ["acme", "hr"]}}'
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        await owner.say("hello")
        parent = standing(label, sid=owner.sid, turn="")
        model.owner = owner
        model.sid = (await owner.app.spawner.mint_child(parent, "k", Errand("the task"))).sid
        model.spawned.set()

        async def asked() -> bool:
            return bool(model.saw)

        await eventually(asked)
        assert label.flows_to(model.saw[0])
        assert model.saw[0].untrusted or not label.untrusted
        log = await owner.app.store.sessions.events(model.sid)
        assert [event.label for event in log if event.type == "taint.raised"] == ([] if label == PUBLIC else [label])
