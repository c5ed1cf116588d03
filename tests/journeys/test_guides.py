"""The guides for developers, followed to the letter: each file that a page shows is pasted, and each command typed.

A block whose fence names a file after its language is that file. What is typed stands in `transcript` blocks, for
`lockgate chat`, and in `sh` blocks that begin with `uv run`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from bot.core.errors import ConfigError
from tests.conventions.documents import ROOT, blocks, files, prose
from tests.harness import running
from tests.journeys.machine import Machine
from tests.journeys.test_readme import turns

GUIDES: Final = {
    "docs/writing-a-tool.md": 3,
    "docs/writing-a-command.md": 3,
    "docs/writing-a-rule.md": 3,
    "docs/writing-a-channel.md": 3,
}
"""Each guide, and the files that it has its reader make or change."""


def pasted(page: str, folder: Path) -> Path:
    """Make the files of a page in a folder."""
    for name, text in files(page).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize("page, number", GUIDES.items())
def test_a_guide_needs_so_many_files(page: str, number: int) -> None:
    assert len(files(page)) == number


def test_the_tests_of_the_guides_pass(tmp_path: Path) -> None:
    """All in one run, in the order of their names, as pytest takes a second to start."""
    for page in GUIDES:
        pasted(page, tmp_path)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}", "-p", "tests.conftest"),
            *("-o", f"pythonpath={ROOT} {tmp_path}", str(tmp_path / "tests")),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for page in GUIDES:
        (said,) = re.findall(r"^pytest says `(\d+) passed`", prose(page), re.MULTILINE) or ["0"]
        mine = [name for name in files(page) if name.startswith("tests/")]
        passed = [line for line in ended.stdout.splitlines() if " PASSED" in line and line.startswith(tuple(mine))]
        assert len(passed if mine else ()) == int(said), page


async def _rate(request: web.Request) -> web.Response:
    return web.json_response({"rate": 1.25} if request.query == {"from": "EUR", "to": "USD"} else {})


@pytest.mark.anyio
async def test_the_tool_that_asks_a_server_works(tmp_path: Path, free_tcp_port: int) -> None:
    (shown,) = [one for one in blocks("docs/writing-a-tool.md", "python") if "class ExchangeRate" in one.text]
    (tmp_path / "exchange_rate.py").write_text(shown.text, "utf-8")
    (config,) = [one for one in blocks("docs/writing-a-tool.md", "yaml") if "exchange_rate" in one.text]
    there = web.Application()
    there.router.add_get("/latest", _rate)
    runner = web.AppRunner(there)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", free_tcp_port).start()
    call = '!exchange_rate {"source": "EUR", "target": "%s"}'
    try:
        named = config.text.replace("https://rates.example", f"http://127.0.0.1:{free_tcp_port}")
        async with running(tmp_path, named) as person:
            assert "exchange_rate: 1 EUR is 1.25 USD" in await person.say(call % "USD")
            assert str((await person.state()).taint) == "PUBLIC~"
            assert "exchange_rate: the rate is not known now" in await person.say(call % "GBP")
            await person.say('!read_file {"path": "confidential/pipeline.md"}')
            assert "Rule `no_write_down`" in await person.say(call % "USD")
        with pytest.raises(ConfigError, match="`address` must be an address"):
            async with running(tmp_path, named.replace("http://", "ftp://")):
                pass
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("page", GUIDES)
def test_what_is_typed_gives_what_is_shown(page: str, tmp_path: Path) -> None:
    machine = Machine(pasted(page, tmp_path))
    for transcript in blocks(page, "transcript"):
        story = turns(transcript.text)
        ended = machine.chat(*(typed for typed, _ in story))
        assert ended.out.splitlines() == [line for _, shown in story for line in shown]
        assert (ended.err, ended.code) == ("", 0)
