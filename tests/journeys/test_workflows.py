"""A story of a workflow: it is begun on Slack, its process is killed, and it is resumed and passed on Telegram."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bot.kit import bang
from tests.journeys import test_telegram
from tests.journeys.machine import Machine
from tests.journeys.test_questions import settings_of
from tests.journeys.test_slack import both, hears
from tests.journeys.test_telegram import PATIENCE
from tests.sim.slack import Slack, slack
from tests.sim.slack_people import Person as SlackPerson
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person as TelegramPerson

pytestmark = pytest.mark.anyio

PROJECT: Final = "harbour"


def files(machine: Machine, name: str) -> str:
    """Return what a file of the workflow's folder holds."""
    (found,) = [path for path in machine.data.rglob(name) if PROJECT in path.parts]
    return found.read_text()


@asynccontextmanager
async def killed(machine: Machine, server: Slack, chat: Telegram, settings: dict[str, Any]) -> AsyncGenerator[None]:
    """Run the bot on both platforms, and kill its process at the end."""
    (machine.folder / "config.yaml").write_text(json.dumps(settings))
    tokens = {"BOT_TOKEN": server.bot.value, "APP_TOKEN": server.app_token, "TELEGRAM_TOKEN": chat.token}
    process = await asyncio.to_thread(lambda: machine.start("run", **tokens))
    try:
        async with asyncio.timeout(PATIENCE):
            await server.sockets.connected()
        yield
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


async def works(server: Slack, ann: SlackPerson, told: str, **given: object) -> None:
    """Have the agent make a call of `workflow`, and wait for what it tells."""
    await ann.says(ann.dm(), bang("workflow", project=PROJECT, **given))  # pyright: ignore[reportArgumentType] - JSON
    await hears(server, ann.dm(), told)


async def goes_on(chat: Telegram, ann: TelegramPerson, told: str, **given: object) -> str:
    ann.says(None, bang("workflow", project=PROJECT, **given))  # pyright: ignore[reportArgumentType] - JSON
    return await test_telegram.hears(chat, ann.private, told)


async def test_seven_steps_survive_a_kill_and_go_on_elsewhere(tmp_path: Path) -> None:
    """Ann's agent is killed in the middle of step 2; on her phone she resumes it, and passes its gate by a button."""
    async with slack() as server, telegram() as chat:
        ann, phone = server.user("ann"), chat.user("Ann")
        machine, settings = Machine(tmp_path), settings_of(server, chat, ann, phone)
        async with killed(machine, server, chat, settings):
            await works(server, ann, '"version": 1', action="start", definition="seven-step")
            await ann.says(ann.dm(), "/workflow skip harbour 1")
            await ann.says(ann.dm(), "!workflow " + json.dumps({"action": "status", "project": PROJECT}))
            await hears(server, ann.dm(), '"version": 2')
            await works(server, ann, '"version": 3', action="step", step="2", version=2)
            done = {"action": "checkpoint", "sub_step": "phase_1_prerequisites", "version": 3}
            await works(server, ann, '"version": 4', artifacts=["agent-output/harbour/02-architecture.md"], **done)
        state = json.loads(files(machine, "00-session-state.json"))
        assert (state["schema_version"], state["steps"]["2"]["sub_step"]) == ("3.0", "phase_1_prerequisites")
        async with both(machine, chat, server, settings):
            await resumed(chat, phone)
            question = await passed(chat, phone)
            assert "agent-output/harbour/02-architecture.md" in question
        handoff = files(machine, "00-handoff.md")
        assert "02-architecture.md" in handoff
        assert len(handoff.splitlines()) < 60
        state = json.loads(files(machine, "00-session-state.json"))
        assert (state["steps"]["2"]["status"], state["review_audit"]["2"]["passed_by"]) == ("complete", "ann")


async def resumed(chat: Telegram, phone: TelegramPerson) -> None:
    """Come back on the phone, be offered what was interrupted, and press the button that resumes it."""
    phone.says(None, "good morning")
    offered = await test_telegram.hears(chat, phone.private, "stopped in")
    assert re.match(r"Workflow harbour stopped in step 2 \(Architecture\) at phase_2_waf, .* ago\.", offered)
    await test_telegram.hears(chat, phone.private, "You said: good morning")
    phone.presses(next(each for each in phone.private.messages if each.buttons), "Resume")
    await test_telegram.hears(chat, phone.private, "The agent goes on with workflow harbour: step 2 (Architecture)")
    await test_telegram.hears(chat, phone.private, "You said: Go on with workflow harbour")
    told = await goes_on(chat, phone, '"branch": "continue"', action="resume")
    assert '"sub_step": "phase_2_waf"' in told
    # It is offered once.
    assert sum("stopped in" in text for text in phone.private.said) == 1


async def passed(chat: Telegram, phone: TelegramPerson) -> str:
    """Go on at the sub-step, complete the step, and let it pass its gate by a button; return what was asked."""
    await goes_on(chat, phone, '"version": 5', action="checkpoint", sub_step="phase_2_waf", version=4)
    phone.says(None, bang("workflow", action="complete", project=PROJECT, version=5))
    asked = await test_telegram.hears(chat, phone.private, "May workflow harbour pass step 2 (Architecture)?")
    phone.presses(next(each for each in reversed(phone.private.messages) if each.buttons), "Answer: yes")
    await test_telegram.hears(chat, phone.private, '"version": 6')
    return asked
