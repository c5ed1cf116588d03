"""A suite of AgentDojo as an MCP server: `python server.py VERSION SUITE FOLDER SEED [SOURCES]`.

It serves the suite's tools on the world of the task that `task.txt` of the folder names, and appends each call to
`calls.jsonl`. A new line in `task.txt` begins a new world. With a folder of sources the suite is loaded from there.
"""

import asyncio
import importlib
import json
import random
import sys
from pathlib import Path
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from pydantic_core import to_jsonable_python

VERSION, SUITE, FOLDER, SEED = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
sys.path[:0] = sys.argv[5:]

_SUITES: Final[Any] = importlib.import_module("agentdojo.task_suite.load_suites")
_RUNTIME: Final[Any] = importlib.import_module("agentdojo.functions_runtime")


class World:
    """The world of the task that is played."""

    def __init__(self) -> None:
        self._suite = _SUITES.get_suites(VERSION)[SUITE]
        self._runtime = _RUNTIME.FunctionsRuntime(self._suite.tools)
        self._task = ""
        self._environment: Any = None

    def tools(self) -> list[Tool]:
        return [
            Tool(name=tool.name, description=tool.name, input_schema=tool.parameters.model_json_schema())
            for tool in self._suite.tools
        ]

    def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        task = (FOLDER / "task.txt").read_text("utf-8")
        if task != self._task:
            environment = self._suite.load_and_inject_default_environment({})
            self._environment = self._suite.user_tasks[task.split()[0]].init_environment(environment)
            self._task = task
            random.seed(SEED)
        returned, error = self._runtime.run_function(self._environment, tool, arguments)
        found = to_jsonable_python(returned)
        line = {"tool": tool, "arguments": arguments, "result": found, "failed": error is not None}
        with (FOLDER / "calls.jsonl").open("a", encoding="utf-8") as calls:
            calls.write(f"{json.dumps(line)}\n")
        if error is not None:
            return CallToolResult(content=[TextContent(text=error)], is_error=True)
        whole = {"result": found}
        return CallToolResult(
            content=[TextContent(text=json.dumps(whole, ensure_ascii=False))], structured_content=whole
        )


async def main() -> None:
    world = World()

    async def listed(_context: object, _params: object) -> ListToolsResult:
        return ListToolsResult(tools=world.tools())

    async def called(_context: object, params: CallToolRequestParams) -> CallToolResult:
        return world.call(params.name, params.arguments or {})

    server = Server(SUITE, on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


asyncio.run(main())
