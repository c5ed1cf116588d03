"""An operator's hour: a wrong key, a platform that does not answer, a wrong level; each is found in the log."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.channels.contract import until
from tests.journeys.machine import Machine, policy
from tests.sim.act import Act
from tests.sim.provider import Provider, provider
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person

pytestmark = pytest.mark.anyio

PATIENCE = 120.0
KEY = "sk-wrong-4711-and-more"
SAID = "what does Veldhaven pay?"


def config(server: Telegram, played: Provider, ann: Person, ben: Person) -> str:
    """Return a configuration whose model wants a key; ann owns the bot."""
    name = "openai-chat:sim"
    said = policy("telegram", f"telegram:{ann.id}", {"ben": (f"telegram:{ben.id}", "member", "INTERNAL")})
    return json.dumps(
        {
            "channels": {"telegram": {"token": "BOT_TOKEN", "base_url": f"http://127.0.0.1:{server.port}"}},
            "model": {"name": name, "retries": 0, "providers": {name: {"base_url": played.openai, "key": "WRONG"}}},
            "policy": {**said, "models": {name: {"clearance": "top"}}},
        }
    )


@asynccontextmanager
async def running(machine: Machine, text: str, *arguments: str, **tokens: str) -> AsyncGenerator[list[dict[str, Any]]]:
    """Run `lockgate run`; the list has the lines of its log so far, and when the block ends all of them."""
    (machine.folder / "config.yaml").write_text(text)
    process = await asyncio.to_thread(lambda: machine.start("run", *arguments, **tokens))
    lines, told = list[dict[str, Any]](), list[str]()

    def follow() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            told.append(line.decode())
            lines.append(json.loads(line))

    with process:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(follow))
            try:
                yield lines
            finally:
                process.terminate()
                await asyncio.to_thread(process.wait, 60)
    assert process.returncode == 0
    assert not any(token in line for token in tokens.values() for line in told)


async def test_a_wrong_key_is_found_by_everybody_who_can_mend_it(tmp_path: Path) -> None:
    """Ben reads one sentence; Ann is told in private, by the doctor, and in the log."""
    machine = Machine(tmp_path)
    async with telegram() as server, provider(*[Act(status=401, text=f"bad {KEY}")] * 3) as played:
        ann, ben = server.user("Ann"), server.user("Ben")
        ann.says(None, "/help")
        async with running(machine, config(server, played, ann, ben), BOT_TOKEN=server.token, WRONG=KEY) as lines:
            await server.until(lambda: bool(ann.private.said), PATIENCE)
            ben.says(None, SAID)
            await server.until(lambda: any("it does not accept the key" in one for one in ann.private.said), PATIENCE)
            await server.until(lambda: bool(ben.private.said), PATIENCE)
            ann.says(None, "/doctor")
            await server.until(lambda: any("seen  model" in one for one in ann.private.said), PATIENCE)
            everything = "\n".join((*ann.private.said, *ben.private.said))
        assert ben.private.said == ["the model cannot be used until the operator mends that"]
        assert f"model `openai-chat:sim` at 127.0.0.1:{played.port}: it does not accept the key" in everything
        assert "put a valid key into the environment variable WRONG" in everything
        assert KEY not in everything
    (found,) = [one for one in lines if one["event"] == "a model did not answer"]
    assert found["address"] == f"127.0.0.1:{played.port}"
    assert found["session"]
    assert found["turn"]
    assert found["request"].startswith("telegram/")
    assert "listening to telegram" in [one["event"] for one in lines]
    assert SAID not in str(lines)
    assert "Nothing is to be mended" not in everything


async def test_a_platform_that_does_not_answer_is_in_the_log(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with telegram() as server, provider() as played:
        ann, ben = server.user("Ann"), server.user("Ben")
        text = config(server, played, ann, ben)
        wrong = f"{server.token}x"
        async with running(machine, text, "--log-level", "warning", BOT_TOKEN=wrong, WRONG=KEY) as lines:
            await until(lambda: server.refused, PATIENCE)
            await until(lambda: any(one["subject"] == "channel telegram" for one in lines), PATIENCE)
    assert lines
    assert {one["level"] for one in lines} == {"warning"}
    (first, *_) = [one for one in lines if one["subject"] == "channel telegram"]
    assert first["cause"] == "Telegram does not accept the bot's token"
    assert first["address"] == f"127.0.0.1:{server.port}"


def test_a_conversation_at_a_pipe_has_its_failures_on_standard_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    name = "openai-chat:sim"
    model = {"name": name, "retries": 0, "providers": {name: {"base_url": "http://127.0.0.1:9/v1"}}}
    (tmp_path / "config.yaml").write_text(
        json.dumps({"model": model, "policy": {"models": {name: {"clearance": "top"}}}})
    )
    ended = machine.chat("hello")
    assert "the model cannot be used" in ended.out
    lines = [json.loads(line) for line in ended.err.splitlines()]
    assert [one["event"] for one in lines] == ["a model did not answer", "a turn ended without an answer"]
    assert lines[0]["address"] == "127.0.0.1:9"
    silent = machine.run("chat", "--log-level", "error", typed="hello\n")
    assert not silent.err


async def test_a_line_at_a_terminal_leaves_the_prompt_as_it_was(tmp_path: Path) -> None:
    """It stands above, for people, and the prompt below it again."""
    machine = Machine(tmp_path)
    name = "openai-chat:sim"
    model = {"name": name, "retries": 0, "providers": {name: {"base_url": "http://127.0.0.1:9/v1"}}}
    (tmp_path / "config.yaml").write_text(
        json.dumps({"model": model, "policy": {"models": {name: {"clearance": "top"}}}})
    )
    process, screen = await asyncio.to_thread(machine.on_terminal, "chat")
    seen = b""

    async def shows(wanted: bytes) -> None:
        nonlocal seen
        async with asyncio.timeout(PATIENCE):
            while wanted not in seen:
                seen += await asyncio.to_thread(os.read, screen, 4096)

    await shows(b"[PUBLIC]>")
    await asyncio.to_thread(os.write, screen, b"hello\n")
    await shows(b"a turn ended without an answer")
    assert b"[warning" in seen
    assert b"address=127.0.0.1:9" in seen
    seen = b""
    await asyncio.to_thread(os.write, screen, b"/quit\n")
    await asyncio.to_thread(process.wait, PATIENCE)
    os.close(screen)
