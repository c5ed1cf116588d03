"""`/why` and `/simulate`, against a real store."""

from pathlib import Path

import pytest

from bot.commands.decisions import MORE, MOST_DENIALS
from tests.bot.commands.kit import READ
from tests.bot.kit import bang, note
from tests.harness import running

pytestmark = pytest.mark.anyio


async def test_why_explains_the_last_denial_of_this_generation(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(note("guest", "x"))
        told = await person.say("/why")
        assert "Refused: message." in told
        assert "Rule `no_write_down`" in told
        assert "You can:" in told
        await person.say("/reset confirm")
        assert "Nothing was refused" in await person.say("/why")


async def test_why_explains_all_denials_of_the_newest_turn(tmp_path: Path) -> None:
    """The newest ones if there are many, each text once, and none of the turn before."""
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(bang("forged_name"))
        await person.say(f"{note('guest', 'x')}\n{bang('read_file', path='nowhere/x.md')}")
        told = await person.say("/why")
        assert [line.strip() for line in told.splitlines() if "Refused: " in line] == [
            "Refused: message.",
            "Refused: read_file.",
        ]
        await person.say("\n".join(bang(f"forged_{number}") for number in range(MOST_DENIALS + 1)))
        told = await person.say("/why")
        assert MORE in told
        assert told.count("Refused: ") == MOST_DENIALS
        assert "Refused: message." not in told


async def test_a_simulation_is_audited_limited_and_changes_nothing(tmp_path: Path) -> None:
    config = '{"limits": {"simulations_per_minute": 2}}'
    async with running(tmp_path, config) as person:
        await person.say(READ)
        before = await person.state()
        told = await person.say('/simulate message {"channel": "console", "recipient": "guest", "text": "x"}')
        assert "BLOCK, taint CONFIDENTIAL~ → CONFIDENTIAL~" in told
        assert "fixed rule no_write_down says BLOCK" in told
        assert "depends on" in await person.say('/simulate read_file {"path": "public/welcome.md"}')
        assert "Busy" in await person.say("/simulate current_time")
        assert await person.state() == before
        kinds = [(record.kind, record.actor) for record in await person.app.store.audit.records("audit")]
        assert kinds.count(("simulate", "owner")) == 2


@pytest.mark.parametrize(
    "arguments,told",
    [
        ("", "Write it as"),
        ("message {", "The arguments are not JSON at character 2"),
        ("message []", "The arguments are not a JSON object"),
        ("message " + "[" * 100_000, "The arguments are not JSON"),
    ],
)
async def test_a_simulation_of_nonsense_is_told(tmp_path: Path, arguments: str, told: str) -> None:
    async with running(tmp_path, '{"limits": {"message_characters": 1000000}}', serve=False) as person:
        assert told in await person.say(f"/simulate {arguments}")
