"""The doctor connects servers, and tells what is wrong with them without giving them anything."""

import asyncio
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.cli.doctor import doctor
from bot.config.load import load_config
from bot.tools.catalogue import NAMES
from tests.bot.kit import policy
from tests.bot.mcp.servers import SEARCH, command, shell

pytestmark = pytest.mark.anyio

SILENT = "while read -r line; do :; done"


async def lines(folder: Path, capsys: pytest.CaptureFixture[str], **servers: dict[str, JsonValue]) -> list[str]:
    path = folder / "config.yaml"
    (folder / "key").write_text("tok-4711-and-more")
    labels = {name: {"floor": "PUBLIC"} for name in servers}
    secret = {"file": "key", "tools": [f"{name}__*" for name in servers]}
    path.write_text(policy(mcp_servers=labels, blocks={"mcp_servers": servers, "secrets": {"token": secret}}))
    await doctor(await asyncio.to_thread(load_config, path, {}, NAMES), as_json=False)
    return [line for line in capsys.readouterr().out.splitlines() if "MCP" in line]


async def test_the_doctor_tells_how_servers_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = shell(f"touch {tmp_path}/started", env={"TOKEN": "${secret:token}"})
    assert await lines(
        tmp_path,
        capsys,
        whole=command(),
        short=command(tools={"search": SEARCH, "find": SEARCH}),
        ended=shell("echo no notes here >&2; sleep 0.5; exit 1"),
        silent=shell(SILENT, start_seconds=1),
        secret=secret,
    ) == [
        "ok    MCP server whole",
        "mend  MCP server short: it has no tool `find`, see `mcp_servers.short`",
        "mend  MCP server ended: Connection closed, it wrote `no notes here`, see `mcp_servers.ended`",
        "mend  MCP server silent: it did not answer in time, see `mcp_servers.silent`",
        "ok    MCP server secret, not connected, as its secrets are for sessions alone",
    ]
    assert not (tmp_path / "started").exists()
