"""Completion shows a person what they could list, and nothing else."""

from pathlib import Path

import pytest

from bot.commands.suggestions import actions
from channels.messages import Address
from tests.bot.commands.kit import COUPLE, READ
from tests.bot.kit import policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio
BEA = Address("console", "bea")


async def _of(person: Person, text: str, account: str = "console:owner", address: Address | None = None) -> list[str]:
    there = address or person.address
    made = await person.app.suggestions.of(account, there, person.app.session_id(there), text)
    return [one.text for one in made]


@pytest.mark.parametrize(
    "usage, words",
    [
        ("/policy [show|check|reload]", ("show", "check", "reload")),
        ("/sessions [all] [kind=chat|task|run] [active=SECONDS] [CURSOR]", ("all",)),
        ("/pair [list | approve CODE [NAME] | deny CODE]", ("list", "approve", "deny")),
        ("/runs [start [NAME=VALUE …] GOAL | list [all] | show ID]", ("start", "list", "show")),
        ("/taint [raise LABEL]", ("raise",)),
        ("/why", ()),
    ],
)
def test_actions_are_read_from_the_usage(usage: str, words: tuple[str, ...]) -> None:
    assert actions(usage) == words


async def test_commands_and_actions_are_those_of_the_role(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE, serve=False) as person:
        assert "/classify" in await _of(person, "/")
        assert await _of(person, "/cla") == ["/classify"]
        assert await _of(person, "/pair re") == ["revoke"]
        assert "/classify" not in await _of(person, "/", "console:bea", BEA)
        assert "/taint" in await _of(person, "/", "console:bea", BEA)
        assert "revoke" not in await _of(person, "/pair ", "console:bea", BEA)
        assert "link" in await _of(person, "/pair ", "console:bea", BEA)
        # An account that is not known learns not even the commands.
        assert await _of(person, "/", "console:eve", Address("console", "eve")) == []


async def test_sessions_are_those_that_may_be_told_of_here(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        await person.say("hello")
        await person.say("/name Harbour works")
        sid = person.sid
        assert await _of(person, "/history harb") == [sid]
        assert await _of(person, f"/history {sid[:4]}") == [sid]
        assert sid not in await _of(person, "/history ", "console:bea", BEA)
        # No command, no sessions.
        assert sid not in await _of(person, f"what about {sid[:4]}")


async def test_paths_are_those_up_to_the_readers_label(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        assert await _of(person, '!read_file {"path": "conf') == ["confidential/"]
        assert await _of(person, '!read_file {"path": "confidential/pi') == ["confidential/pipeline.md"]
        bea = ("console:bea", BEA)
        assert await _of(person, "see internal/", *bea) == ["internal/handbook.md"]
        assert await _of(person, "see confidential/", *bea) == []
        for path in ("nothing/", "../", "/etc/", "public/../confidential/", "public/.above/", "public//"):
            assert [one for one in await _of(person, f"see {path}") if "public/welcome" not in one] == []


async def test_a_folder_that_the_gate_refuses_to_list_shows_no_names(tmp_path: Path) -> None:
    rule = {"id": "closed", "hook": "PRE_TOOL_CALL", "tools": ["list_files"], "action": "BLOCK", "message": "closed"}
    people = {"owner": principal("console:owner")}
    async with running(tmp_path, policy(principals=people, rules=[rule]), serve=False) as person:
        assert await _of(person, "see public/") == []


async def test_a_session_above_its_readers_shows_no_names(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", clearance="INTERNAL")}
    async with running(tmp_path, policy(principals=people)) as person:
        await person.say(READ)
        assert await _of(person, "see confidential/") == []
        assert await _of(person, "see public/") == ["public/welcome.md"]
