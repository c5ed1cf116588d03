"""Check and doctor tell what is wrong with servers; the doctor gives them what a call would, and shows none of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from bot.cli.doctor import check, doctor
from bot.cli.identity import as_owner
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import EXIT_OPERATOR, OperatorError
from bot.tools.catalogue import NAMES
from tests.bot.kit import policy
from tests.bot.mcp.servers import SEARCH, command, shell

pytestmark = pytest.mark.anyio

VALUE = "tok-4711-and-more"
SECRET: dict[str, JsonValue] = {"TOKEN": "${secret:token}"}
SILENT = "while read -r line; do :; done"
LOCKED = "mend  MCP server secret: not connected, as none of its tools may use its secrets"
QUIET: dict[str, JsonValue] = {"search": SEARCH}


def written(folder: Path, servers: dict[str, dict[str, JsonValue]], **sections: object) -> Config:
    path = folder / "config.yaml"
    (folder / "key").write_text(VALUE)
    labels = {name: {"floor": "PUBLIC"} for name in servers}
    granted = [f"{name}__*" for name, entry in servers.items() if entry.get("tools")]
    blocks = {"mcp_servers": servers, "secrets": {"token": {"file": "key", "tools": granted}}}
    path.write_text(policy(mcp_servers=labels, **sections, blocks=blocks))
    return load_config(path, {}, NAMES)


async def looked(
    folder: Path, capsys: pytest.CaptureFixture[str], servers: dict[str, dict[str, JsonValue]], **sections: object
) -> list[str]:
    """Return what the doctor prints about servers, without the tools that are not offered."""
    config = await asyncio.to_thread(written, folder, servers, **sections)
    await doctor(config, as_json=False)
    out = capsys.readouterr().out
    assert VALUE not in out
    return [line.partition(", it also has")[0] for line in out.splitlines() if "MCP" in line]


async def decided(config: Config) -> list[tuple[object, ...]]:
    async with as_owner(config) as (app, _):
        rows = [record.body async for record in app.chains.records("audit")]
    return [(row["verdict"], row["tool"], row["secret"]) for row in rows if row.get("hook") == "SECRET_ACCESS"]


async def test_the_doctor_tells_how_servers_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers: dict[str, dict[str, JsonValue]] = {
        "whole": command(),
        "short": command(tools={"search": SEARCH, "find": SEARCH}),
        "bare": command(tools={}),
        "ended": shell("echo no notes here >&2; sleep 0.5; exit 1", tools=QUIET),
        "silent": shell(SILENT, start_seconds=1, tools=QUIET),
        "absent": {"command": "no-such", "tools": QUIET},
    }
    assert await looked(tmp_path, capsys, servers) == [
        "ok    MCP server whole",
        "mend  MCP server short: it has no tool `find`, mend `mcp_servers.short.tools`",
        "mend  MCP server bare: none of its tools is offered, list some in `mcp_servers.bare.tools`",
        "mend  MCP server ended: Connection closed, it wrote `no notes here`, see `mcp_servers.ended`",
        "mend  MCP server silent: it did not answer in time, see `mcp_servers.silent`",
        "mend  MCP server absent: there is no command `no-such`, install it, or mend `mcp_servers.absent.command`",
    ]


async def test_the_doctor_names_what_is_not_offered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools: dict[str, JsonValue] = {"search": SEARCH, "find": SEARCH}
    config = await asyncio.to_thread(written, tmp_path, {"whole": command(), "short": command(tools=tools)})
    assert await doctor(config, as_json=True) == EXIT_OPERATOR
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    whole, short = (one for one in found if one["subject"].startswith("MCP server"))
    assert (whole["problem"], whole["lacking"], short["lacking"]) == ("", [], ["find"])
    assert {"calls.so-far", "crash", "fails"} < set(whole["not_offered"])
    assert "search" not in whole["not_offered"]
    await doctor(config, as_json=False)
    assert "`fails`" in capsys.readouterr().out


async def test_a_server_gets_its_secret_by_a_decision_and_tells_it_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names of its tools, too, are what it makes of them."""
    odd: dict[str, JsonValue] = {"ODD_TOOL": "a\nok    store ${secret:token}"}
    loud = shell('echo "I got $TOKEN" >&2; sleep 0.5; exit 1', env=SECRET, tools=QUIET)
    config = await asyncio.to_thread(written, tmp_path, {"odd": command(env=odd), "loud": loud})
    await doctor(config, as_json=False)
    out = capsys.readouterr().out
    assert "`a ok    store [secret: token]`" in out
    assert "it wrote `I got [secret: token]`" in out
    assert VALUE not in out
    await doctor(config, as_json=True)
    assert VALUE not in capsys.readouterr().out
    assert await decided(config) == [("ALLOW", "odd__search", "token"), ("ALLOW", "loud__search", "token")] * 2


async def test_a_server_is_not_even_started_where_its_secret_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"secret": shell(f"touch {tmp_path}/started", env=SECRET, tools=QUIET)}
    rule = {"id": "none", "hook": "SECRET_ACCESS", "action": "BLOCK"}
    assert await looked(tmp_path, capsys, servers, rules=[rule]) == [f"{LOCKED}, see `lockgate audit tail`"]
    servers = {"secret": shell(f"touch {tmp_path}/started", env=SECRET)}
    assert await looked(tmp_path, capsys, servers) == [f"{LOCKED}, list some in `mcp_servers.secret.tools`"]
    assert not (tmp_path / "started").exists()


# --- what can be known without starting any ---------------------------------------------------------


def test_check_tells_what_may_not_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away: dict[str, JsonValue] = {"url": "http://mcp.example.com/mcp", "tools": QUIET}
    near: dict[str, JsonValue] = {"url": "http://[::1]:9000/mcp", "tools": QUIET}
    check(written(tmp_path, {"away": away, "near": near, "whole": command(), "bare": command(tools={})}))
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("MCP")] == [
        "MCP server away: its requests and answers are not encrypted, begin `mcp_servers.away.url` with https://",
        "MCP server bare: none of its tools is offered, list some in `mcp_servers.bare.tools`",
    ]
    assert out.endswith("1 secrets, 4 MCP servers\n")


@pytest.mark.parametrize("given", ["no-such", "./key", "/nowhere/notes-mcp"])
def test_check_refuses_a_command_that_is_not_there(tmp_path: Path, given: str) -> None:
    with pytest.raises(OperatorError, match=f"MCP server notes: there is no command `{given}`"):
        check(written(tmp_path, {"notes": {"command": given, "tools": QUIET}}))


def test_a_command_is_looked_for_where_the_server_would_be(tmp_path: Path) -> None:
    program = tmp_path / "notes-mcp"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    entry: dict[str, JsonValue] = {"command": "notes-mcp", "tools": QUIET}
    check(written(tmp_path, {"notes": {**entry, "env": {"PATH": str(tmp_path)}}}))
    with pytest.raises(OperatorError, match="there is no command `notes-mcp`"):
        check(written(tmp_path, {"notes": entry}))


def test_check_refuses_a_server_whose_secret_is_not_there(tmp_path: Path) -> None:
    config = written(tmp_path, {"notes": command(env=SECRET)})
    (tmp_path / "key").unlink()
    with pytest.raises(OperatorError, match=r"secret `token`: the file `.*` cannot be read"):
        check(config)
