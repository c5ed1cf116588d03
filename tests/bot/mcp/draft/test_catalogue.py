"""Fifty tools as well-known servers have them are drafted, loaded as they were drafted, and called."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.cli.doctor import check
from bot.cli.mcp.drafting import DraftWish, draft
from bot.config.load import load_config
from bot.config.mcp import offered_name
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.mcp.arguments import passed_on
from bot.mcp.servers import Servers
from bot.mcp.tool import Ask
from bot.tools.arguments import checked
from bot.tools.base import RefusedCallError
from bot.tools.catalogue import ARGUMENTS
from policy.decision import Verdict
from policy.labels import PUBLIC
from tests.bot.kit import gate, standing
from tests.sim.mcp_catalogue import LEFT_OUT, TOOLS, Shaped

pytestmark = pytest.mark.anyio

PROGRAM = str(Path(__file__).parents[3] / "sim" / "mcp_legacy.py")
COMMAND = (sys.executable, PROGRAM, "catalogue")


def loaded(folder: Path, text: str = "{}") -> Config:
    path = folder / "config.yaml"
    path.write_text(text)
    return load_config(path, {}, ARGUMENTS)


async def drafted(config: Config, capsys: pytest.CaptureFixture[str], wish: DraftWish) -> str:
    capsys.readouterr()
    await draft(config, "shop", wish)
    return capsys.readouterr().out


async def test_every_shape_is_drafted_loaded_and_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = await drafted(await asyncio.to_thread(loaded, tmp_path), capsys, DraftWish(COMMAND))
    assert len(TOOLS) >= 50
    config = await asyncio.to_thread(loaded, tmp_path, text)
    await asyncio.to_thread(check, config)
    assert list(config.mcp_servers["shop"].tools) == sorted(tool.name for tool in TOOLS)
    servers = Servers(config.mcp_servers, {}, SystemClock(), str)
    known = {tool.name: tool for tool in servers.tools}
    async with servers.served():
        for tool in TOOLS:
            offered = known[offered_name("shop", tool.name)]
            arguments = passed_on(checked(offered, tool.good))
            answer = await servers.call("shop", Ask(tool.name, arguments, "key"))
            assert json.loads(answer.text) == {**_defaults(tool), **tool.good}
            with pytest.raises(RefusedCallError):
                checked(offered, tool.bad)
    # A second draft is the same, whatever order the server lists its tools in.
    assert await drafted(await asyncio.to_thread(loaded, tmp_path), capsys, DraftWish(COMMAND)) == text


def _defaults(tool: Shaped) -> dict[str, JsonValue]:
    """Return the values that Lockgate sends in place of those a call leaves out."""
    return {
        name: said["default"]
        for name, said in tool.properties.items()
        if "default" in said and name not in tool.required
    }


async def test_nothing_drafted_is_allowed_before_a_person_reviews_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await drafted(await asyncio.to_thread(loaded, tmp_path), capsys, DraftWish(COMMAND))
    config = await asyncio.to_thread(loaded, tmp_path, text)
    assert all(tool.effect == "send" and tool.consequential for tool in config.mcp_servers["shop"].tools.values())
    assert not any(tool.repeatable for tool in config.mcp_servers["shop"].tools.values())
    policy = config.policy
    assert policy.mcp_servers["shop"].label == policy.top
    assert policy.mcp_servers["shop"].clearance == PUBLIC
    servers = Servers(config.mcp_servers, {}, SystemClock(), str)
    keeper = gate(servers.tools, policy)
    for tool in TOOLS:
        call = Call("c1", offered_name("shop", tool.name), tool.good)
        assert keeper.calls.prepare(standing(), call).decision.verdict in {Verdict.BLOCK, Verdict.REQUIRE_APPROVAL}


async def test_what_cannot_be_said_is_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = await asyncio.to_thread(loaded, tmp_path, "policy: {compartments: [hr]}")
    text = await drafted(config, capsys, DraftWish(COMMAND))
    said = " ".join(line.strip().lstrip("#").strip() for line in text.splitlines())
    assert "RESTRICTED{hr}" in text
    for tool, why in LEFT_OUT:
        assert offered_name("shop", tool.name) not in text
        left = said.partition(f'Left out: "{tool.name}"'.replace("\n", "\\n"))[2].partition("Left out:")[0]
        assert why in left
    assert "\n- injected" not in text
