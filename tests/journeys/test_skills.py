"""A story of a skill, over two days: what is said again and again is noticed, written down, approved and applied."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.stepped_clock import SteppedClock
from tests.journeys.machine import Machine
from tests.journeys.test_telegram import PATIENCE, call, config, hears
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person

pytestmark = pytest.mark.anyio

DAY: Final = 24 * 60 * 60
HABITS: Final = (
    "Send the weekly report to the client on Friday.",
    "The weekly report to the client goes out as a PDF.",
    "Attach the numbers to the weekly report for the client.",
)


UPDATE: Final = (
    '!skill {"action": "update", "skill_id": "SKILL", "name": "Weekly report", "steps": ["Send it on Monday."]}'
)


async def says(server: Telegram, ann: Person, text: str) -> str:
    """Say something, and return the answer; what a button answers may come between."""
    before = len(ann.private.said)

    def new() -> list[str]:
        return [told for told in ann.private.said[before:] if not told.startswith("Answered ")]

    ann.says(None, text)
    await server.until(new, PATIENCE)
    return new()[0]


async def starts(server: Telegram, ann: Person) -> str:
    """Return what patterns a session is told of as it starts."""
    told = await says(server, ann, call("session", action="start"))
    assert "Session started" in told
    return next(line for line in told.splitlines() if line.startswith("Patterns detected: "))


async def learns(server: Telegram, ann: Person, text: str) -> None:
    assert "mem_" in await says(server, ann, call("memory", action="learn", text=text, domain="reports"))


async def approved(server: Telegram, ann: Person, name: str) -> None:
    """Look at a skill, see all of it, and press the button that approves it."""
    shown = await says(server, ann, f"/skills show {name}")
    assert [f"{number}. `{text}`" in shown for number, text in enumerate(HABITS, 1)] == [True] * 3
    copy = next(each for each in reversed(ann.private.messages) if each.buttons)
    ann.presses(copy, "Approve")
    await hears(server, ann.private, f"Version 1 of {name} is in force.")


async def rewritten(server: Telegram, ann: Person, name: str) -> None:
    """Let the agent write a new version, and approve it by the button of its question."""
    ann.says(None, UPDATE.replace("SKILL", name))
    asked = await hears(server, ann.private, f"May skill {name} be used like this from now on?")
    assert [line in asked for line in ("Name: `Weekly report`", "1. `Send it on Monday.`")] == [True] * 2
    ann.presses(next(each for each in reversed(ann.private.messages) if each.buttons), "Answer: approve")
    await hears(server, ann.private, "your user approved it")
    told = await says(server, ann, call("session", action="apply", task="send the report on Monday"))
    assert f"Weekly report ({name}, active) — Step 1: Send it on Monday." in told


async def test_a_habit_becomes_a_skill_that_is_applied(tmp_path: Path) -> None:
    """Ann says alike three times in two days. She approves what was made of it by a button, and it serves her well."""
    clock = SteppedClock(tmp_path)
    async with telegram() as server:
        ann = server.user("Ann")
        ann.says(None, "/whoami")
        machine = Machine(tmp_path, fresh=True)
        async with machine.listening(config(server, ann), {"BOT_TOKEN": server.token, **clock.environment}):
            await hears(server, ann.private, "You are")
            await learns(server, ann, HABITS[0])
            emerging = await starts(server, ann)
            assert re.fullmatch(r"Patterns detected: 1 emerging \([a-z-]+ → 1/3 observations\)", emerging)
            await learns(server, ann, HABITS[1])
            assert "→ 2/3 observations)" in await starts(server, ann)
            clock.step(DAY)
            await learns(server, ann, HABITS[2])
            found = re.fullmatch(r"Patterns detected: 1 detected \(([a-z-]+)\)", await starts(server, ann))
            assert found is not None
            draft = await says(server, ann, call("skill", action="generate", pattern=found[1]))
            assert '"state": "draft"' in draft
            (name,) = set(re.findall(r"skill_[0-9a-f]{12}", draft))
            # Nothing is applied that nobody approved.
            assert "Skills: none" in await says(server, ann, call("session", action="apply", task="weekly report"))
            await approved(server, ann, name)
            told = await says(server, ann, call("apply", task="attach the numbers to the report"))
            assert f"{found[1]} ({name}, active) — Step 3: {HABITS[2]}" in told
            told = ""
            for outcome in ("success",) * 3 + ("failure",) + ("success",) * 4:
                told = await says(server, ann, call("session", action="reflect", skill_id=name, outcome=outcome))
            assert told.endswith(
                f"Reflection recorded for {name} ({found[1]}): success. Lifetime: 8 uses, 87.5% success rate."
            )
            assert "Stats: 3 memories, 1 skill, 87.5% skill success rate" in await says(
                server, ann, call("session_start", domain="reports")
            )
            assert await starts(server, ann) == "Patterns detected: none"
            await rewritten(server, ann, name)
            days = set(re.findall(r"\d{4}-\d\d-\d\d", await says(server, ann, "/memory")))
            assert len(days) == (2 if clock.there else 1)
