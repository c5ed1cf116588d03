"""`lockgate mcp draft`: what it says of servers that cannot be asked, and how a listing differs from the file."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from bot.cli.main import app
from bot.cli.mcp.drafting import SAME, DraftWish, draft
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.tools.catalogue import ARGUMENTS
from tests.bot.kit import policy
from tests.bot.mcp.servers import PROGRAM, SEARCH, command

pytestmark = pytest.mark.anyio

LEGACY = str(Path(__file__).parents[3] / "sim" / "mcp_legacy.py")
VALUE = "tok-4711-and-more"


async def written(folder: Path, entry: dict[str, JsonValue] | None = None, **blocks: object) -> Config:
    def write() -> Config:
        path = folder / "config.yaml"
        servers = {} if entry is None else {"notes": entry}
        labels = {name: {"floor": "PUBLIC"} for name in servers}
        path.write_text(policy(mcp_servers=labels, blocks={"mcp_servers": servers, **blocks}))
        return load_config(path, {}, ARGUMENTS)

    return await asyncio.to_thread(write)


@pytest.mark.parametrize(
    "name,wish,told",
    [
        ("note", DraftWish(), "there is no MCP server `note` in the configuration, did you mean `notes`?"),
        ("A b", DraftWish(("x",)), '"A b" is not the name of a server'),
        ("notes", DraftWish(("x",)), "MCP server notes is configured already"),
        (
            "more",
            DraftWish(("x",), url="https://x"),
            "there is no MCP server `more` in the configuration, known are `notes`",
        ),
        (
            "more",
            DraftWish(url="ftp://x"),
            "a server's address begins with `http://` or `https://` and holds no password",
        ),
        (
            "more",
            DraftWish(("/nowhere/server",)),
            "MCP server more: No such file or directory: `/nowhere/server`",
        ),
        ("more", DraftWish(("/bin/sh", "-c", "sleep 600"), seconds=1), "MCP server more: it did not answer in time"),
        ("more", DraftWish(("/bin/sh", "-c", "exit 3")), "MCP server more: Connection closed"),
        (
            "more",
            DraftWish((sys.executable, LEGACY, "both")),
            "MCP server more: it sent an answer with a result and an error",
        ),
        ("more", DraftWish((sys.executable, LEGACY, "endless")), "MCP server more: its list of tools has no end"),
        ("more", DraftWish(url="http://127.0.0.1:1/mcp"), "MCP server more: All connection attempts failed"),
    ],
)
async def test_a_server_that_cannot_be_drafted_is_told_in_one_line(
    tmp_path: Path, name: str, wish: DraftWish, told: str
) -> None:
    config = await written(tmp_path, {"command": "x", "tools": {}})
    with pytest.raises(OperatorError) as refused:
        await draft(config, name, wish)
    assert str(refused.value) == told
    assert "\n" not in refused.value.next_step


async def test_one_tool_alone_is_drafted_and_an_unknown_one_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = await written(tmp_path, command())
    await draft(config, "notes", DraftWish(tools=("harmless",)))
    out = capsys.readouterr().out
    assert "      harmless:\n" in out
    assert "crash" not in out
    assert "effect: send" in out
    with pytest.raises(OperatorError, match=r'MCP server notes has no tool "searchh", did you mean `search`\?'):
        await draft(config, "notes", DraftWish(tools=("searchh",)))


async def test_the_differences_from_the_file_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd: dict[str, JsonValue] = {**SEARCH, "arguments": {"word": {"type": "integer"}, "old": {"type": "string"}}}
    tools: dict[str, JsonValue] = {"search": odd, "find": SEARCH}
    config = await written(tmp_path, command(tools=tools, env={"ODD_TOOL": "a\nb"}))
    await draft(config, "notes", DraftWish(diff=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        'changed     "search": takes `limit` too; has no `old`; `word` is string, not integer',
        'gone        "find"',
    ]
    assert 'new         "crash"' in lines
    assert lines[-1].startswith('unwritable  "a\\nb": its name has other characters')
    await draft(await written(tmp_path, command()), "notes", DraftWish(diff=True, tools=("search",)))
    assert capsys.readouterr().out == f"{SAME}\n"


async def test_a_server_gets_its_secret_before_any_tool_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The grant to all of its tools covers the draft, and the value is in no line of it."""
    (tmp_path / "key").write_text(VALUE)
    secret = {"token": {"file": "key", "tools": ["notes__*"]}}
    entry = command(tools={}, env={"ODD_TOOL": "${secret:token}"})
    await draft(await written(tmp_path, entry, secrets=secret), "notes", DraftWish())
    out = capsys.readouterr().out
    assert 'Left out: "[secret: token]"' in out
    assert VALUE not in out
    elsewhere: dict[str, JsonValue] = {"token": {"file": "key", "tools": []}}
    with pytest.raises(OperatorError, match="none of its tools may use its secrets"):
        await draft(await written(tmp_path, entry, secrets=elsewhere), "notes", DraftWish())


def test_the_command_line_has_it(tmp_path: Path) -> None:
    """The command of a new server follows `--`, and the names of configured ones are completed."""
    path = tmp_path / "config.yaml"
    server: dict[str, JsonValue] = {"command": "x", "tools": {}}
    labels = {name: {"floor": "PUBLIC"} for name in ("notes", "news", "mail")}
    path.write_text(json.dumps({"mcp_servers": dict.fromkeys(labels, server), "policy": {"mcp_servers": labels}}))
    run = CliRunner().invoke(app, ["--config", str(path), "mcp", "draft", "more", "--", sys.executable, PROGRAM])
    assert run.exit_code == 0
    assert "mcp_servers:\n  more:\n" in run.stdout
    completing = {
        "_LOCKGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"lockgate --config {path} mcp draft n",
        "COMP_CWORD": "5",
    }
    told = CliRunner().invoke(app, [], prog_name="lockgate", env=completing)
    assert told.stdout.split() == ["news", "notes"]
