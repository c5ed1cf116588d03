"""MCP on standard input and output: who is let in, message by message, and what stands on the lines."""

import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from bot.api.mcp_server.stdio import StdioCaller
from bot.app import programs
from bot.app.programs import api_services
from bot.cli.mcp.serving import serve_mcp
from bot.core.errors import ConfigError, OperatorError
from bot.sessions.api_tokens import Scope
from tests.bot.api.kit import MAKER, ApiHost
from tests.bot.api.mcp_server.agents import LEVELS, configured
from tests.bot.api.mcp_server.test_endpoint import LISTS, OPENS, calls
from tests.harness import running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(folder: Path, config: str = "") -> AsyncGenerator[ApiHost]:
    """Open an application that serves nothing."""
    async with running(folder, config or configured(), serve=False) as person:
        yield ApiHost(person, "")


async def refusal(asking: StdioCaller) -> Any:  # noqa: ANN401 - what an error tells beside its message
    with pytest.raises(MCPError) as error:
        await asking()
    return error.value.data


async def test_each_message_is_let_in_as_a_request_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as host:
        token = await host.token("crane", Scope.STEER, "INTERNAL", per_minute=2)
        await host.app.reloader.start(_untold)
        asking = StdioCaller(api_services(host.app), token)
        for _ in range(2):
            asked = await asking()
            assert (asked.caller.name, str(asked.reader)) == ("crane", "INTERNAL")
        waits = await refusal(asking)
        assert (waits["code"], waits["retry_after"] > 0) == ("rate_limited", True)
        await host.app.token_keeper.revoke("crane", MAKER.principal)
        assert (await refusal(asking))["code"] == "unauthorized"


async def test_nothing_is_served_while_another_policy_is_in_force(tmp_path: Path) -> None:
    async with opened(tmp_path) as host:
        asking = StdioCaller(api_services(host.app), await host.token())
        await host.app.reloader.start(_untold)
        await asking()
        await host.app.store.policy.put_policy("0" * 64, "elsewhere", ())
        assert (await refusal(asking))["code"] == "not_serving"
        with pytest.raises(OperatorError) as error:
            await programs.answer_agent(host.app, "lg_x_y")
        assert "another" in str(error.value)


async def test_a_token_that_does_not_count_and_what_is_missing_are_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as host:
        with pytest.raises(OperatorError) as error:
            await programs.answer_agent(host.app, "lg_x_y")
        assert (str(error.value), "lg_x_y" in error.value.next_step) == (
            "the token in `LOCKGATE_TOKEN` does not count",
            False,
        )
        monkeypatch.delenv("LOCKGATE_TOKEN", raising=False)
        with pytest.raises(OperatorError) as error:
            await serve_mcp(host.app.config)
        assert str(error.value) == "`LOCKGATE_TOKEN` is not set"
        monkeypatch.setitem(sys.modules, "bot.api.mcp_server.stdio", None)
        with pytest.raises(OperatorError) as error:
            await programs.answer_agent(host.app, await host.token())
        assert error.value.next_step == "install `lockgate[mcp]`"
    second = tmp_path / "second"
    second.mkdir()
    async with opened(second, json.dumps({"policy": LEVELS})) as host:
        with pytest.raises(ConfigError):
            await programs.answer_agent(host.app, "lg_x_y")


async def test_lines_in_are_answered_by_lines_out_until_the_input_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as host:
        token = await host.token("crane", Scope.STEER)
        with piped(monkeypatch) as (tell, hear):
            monkeypatch.setenv("LOCKGATE_TOKEN", token)
            serving = asyncio.create_task(serve_mcp(host.app.config))
            await tell({**OPENS, "id": "first"})
            assert (await hear())["result"]["serverInfo"]["title"] == "Lockgate"
            await tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
            await tell(b"no message\n")
            await tell(LISTS)
            assert "memory" in str(await hear())
            await tell(calls("connection", up_to="INTERNAL"))
            assert (await hear())["result"]["_meta"] == {"lockgate/label": "INTERNAL"}
            await tell(calls("connection"))
            assert json.loads((await hear())["result"]["content"][0]["text"])["label"] == "INTERNAL"
            await tell(b"")
            async with asyncio.timeout(60):
                await serving


@contextmanager
def piped(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[Callable[[Any], Any], Callable[[], Any]]]:
    """Put pipes in the place of standard input and output; yield what writes a line, nothing for the end, and reads."""
    heard, says = os.pipe()
    hears, told = os.pipe()
    with (
        os.fdopen(says, "wb") as writing,
        os.fdopen(hears, "rb") as reading,
        io.TextIOWrapper(os.fdopen(heard, "rb")) as stdin,
        io.TextIOWrapper(os.fdopen(told, "wb")) as stdout,
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)

        def write(line: bytes) -> None:
            writing.write(line)
            writing.flush()
            if not line:
                writing.close()

        async def tell(message: object) -> None:
            line = message if isinstance(message, bytes) else f"{json.dumps(message)}\n".encode()
            await asyncio.to_thread(write, line)

        async def hear() -> Any:  # noqa: ANN401 - as JSON has it
            async with asyncio.timeout(60):
                return json.loads(await asyncio.to_thread(reading.readline))

        yield tell, hear
        monkeypatch.undo()


async def _untold(_line: str) -> None:
    """Tell nobody."""
