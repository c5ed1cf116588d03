"""`lockgate memory`: what an operator sees, corrects, forgets and copies."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest

from bot.cli.knowledge import memory
from bot.config.load import load_config
from bot.core.errors import CursorError, OperatorError
from bot.sessions.knowledge.memories import Memory
from bot.tools import catalogue
from policy.labels import parse
from tests.bot.commands.kit import COUPLE
from tests.bot.kit import policy
from tests.harness import running
from tests.people import principal
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio


async def refused(command: Awaitable[None]) -> str:
    with pytest.raises(OperatorError) as caught:
        await command
    return f"{caught.value}; {caught.value.next_step}"


async def test_what_is_known_of_a_principal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path, COUPLE, serve=False) as owner:
        config = await asyncio.to_thread(
            load_config, tmp_path / "config.yaml", await SERVERS.place(tmp_path / "data"), catalogue.ARGUMENTS
        )

        async def sees(command: Awaitable[None]) -> str:
            capsys.readouterr()
            await command
            return capsys.readouterr().out

        keep = owner.app.store.memories.learn
        for number in range(1, 23):
            await keep(Memory(f"mem_{number}", "owner", parse("INTERNAL"), f"fact {number}", number, "owner"), 99, ())
        await keep(Memory("mem_b", "bea", parse("PUBLIC~"), "tea\nat four", 5, "bea", domain="tea"), 99, ())

        first = await sees(memory.list_memories(config, "", as_json=False, after=""))
        assert "there are more: `lockgate memory list --of owner --after mem_3`" in first
        rest = json.loads(await sees(memory.list_memories(config, "", as_json=True, after="mem_3")))
        assert [one["id"] for one in rest] == ["mem_2", "mem_1"]
        assert await refused(memory.list_memories(config, "", as_json=True, after="mem_x")) == f"{CursorError()}; "

        hers = await sees(memory.list_memories(config, "bea", as_json=False, after=""))
        assert "PUBLIC~  tea     tea at four" in hers
        shown = json.loads(await sees(memory.show_memory(config, "bea", "mem_b", as_json=True)))
        assert (shown["principal"], shown["text"], shown["recalled"]) == ("bea", "tea\nat four", 0)
        assert "Memory mem_b: kept." in await sees(memory.show_memory(config, "bea", "mem_b", as_json=False))
        copied = (await sees(memory.export_memories(config, "bea"))).splitlines()
        assert [json.loads(line)["id"] for line in copied] == ["mem_b"]

        made = (await sees(memory.correct_memory(config, "bea", "mem_b", "tea at five"))).split()[0]
        after = json.loads(await sees(memory.show_memory(config, "bea", made, as_json=True)))
        assert (after["text"], after["corrects"], after["label"], after["asker"]) == (
            *("tea at five", "mem_b", "PUBLIC~"),
            "owner",
        )
        gone = await sees(memory.forget_memory(config, "bea", made))
        assert gone == f"{made} is forgotten, its words are erased\n"
        assert await sees(memory.export_memories(config, "bea")) == ""

        # People who left the policy have their memories still; what is none of a name is told apart from a slip.
        await keep(Memory("mem_g", "gone", parse("PUBLIC"), "a fact", 1, "gone"), 99, ())
        assert "mem_g" in await sees(memory.list_memories(config, "gone", as_json=False, after=""))
        for whose in ("bea", "program:nightly", "chat:room:team"):
            assert await sees(memory.list_memories(config, whose, as_json=False, after="")) == f"{memory.NOTHING}\n"
            assert json.loads(await sees(memory.list_memories(config, whose, as_json=True, after=""))) == []
        for as_json in (True, False):
            unknown = await refused(memory.list_memories(config, "nobody", as_json=as_json, after=""))
            assert unknown == f"{memory.NOBODY}; {memory.WHO}"

        for command in (
            memory.show_memory(config, "", "mem_b", as_json=False),
            memory.forget_memory(config, "", "mem_b"),
            memory.correct_memory(config, "", "mem_b", "x"),
        ):
            assert await refused(command) == "there is no such memory; `lockgate memory list` names them"


async def test_the_owner_sees_no_more_than_they_are_cleared_for_and_rules_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = {"id": "fixed-memory", "hook": "PRE_TOOL_CALL", "tools": ["memory"], "action": "BLOCK", "message": "not now"}
    people = {"owner": principal("console:owner", clearance="INTERNAL")}
    async with running(tmp_path, policy(principals=people, rules=[rule]), serve=False) as owner:
        config = await asyncio.to_thread(
            load_config, tmp_path / "config.yaml", await SERVERS.place(tmp_path / "data"), catalogue.ARGUMENTS
        )
        keep = owner.app.store.memories.learn
        for name, label in (("mem_l", "PUBLIC"), ("mem_h", "CONFIDENTIAL")):
            await keep(Memory(name, "owner", parse(label), "a fact", 1, "owner"), 99, ())
        await memory.export_memories(config, "")
        (line,) = capsys.readouterr().out.splitlines()
        assert json.loads(line)["id"] == "mem_l"
        assert "no such memory" in await refused(memory.show_memory(config, "", "mem_h", as_json=False))
        assert "not now" in await refused(memory.correct_memory(config, "", "mem_l", "x"))
