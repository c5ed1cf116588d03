"""A rule that blocks everything at one hook stops every path that crosses it: a path is one row of the table.

Each row says how a path is walked, what one sees when it came through, and the hooks it crosses. Without a rule
it comes through; with a rule at any of its hooks it does not.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.config.mcp import McpServerSettings
from bot.mcp.tool import Ask, McpTool, Outcome
from bot.tools.base import Declared, Result
from policy.request import Effect, Hook
from tests.bot.kit import Probe, bang, note, parts, policy
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

MARK = "came-through"
THINKING = frozenset({Hook.PRE_CONTEXT_INJECTION, Hook.AGENT_INVOCATION})
CALLING = THINKING | {Hook.PRE_TOOL_CALL}


@dataclass
class World:
    """One application, its person, and the tools that keep what reached them."""

    owner: Person
    read: Probe
    secret: Probe
    served: list[str] = field(default_factory=list[str])


Seen = Callable[[World, str], Awaitable[bool]]


@dataclass(frozen=True)
class Walk:
    """A path: what is typed, how one sees that it came through, and the hooks that it crosses."""

    text: str
    seen: Seen
    hooks: frozenset[Hook]


async def shown(_world: World, text: str) -> bool:
    return MARK in text


async def ran(world: World, _text: str) -> bool:
    return bool(world.read.ran)


async def ran_with_the_secret(world: World, _text: str) -> bool:
    return bool(world.secret.ran)


async def served(world: World, _text: str) -> bool:
    return bool(world.served)


async def another_session(world: World, _text: str) -> bool:
    return len([one async for one in world.owner.app.store.sessions()]) > 1


async def begun_anew(world: World, _text: str) -> bool:
    state = await world.owner.app.store.state(world.owner.sid)
    return state is not None and state.generation > 1


async def whoami(_world: World, text: str) -> bool:
    return "owner" in text


PATHS = {
    "chat text": Walk(MARK, shown, THINKING | {Hook.PRE_OUTPUT}),
    "command": Walk("/whoami", whoami, frozenset({Hook.PRE_OUTPUT})),
    "tool": Walk(bang("probe"), ran, CALLING),
    "result": Walk(bang("probe"), shown, CALLING | {Hook.POST_TOOL_RESPONSE, Hook.PRE_OUTPUT}),
    "error text": Walk(bang("broken"), shown, CALLING | {Hook.POST_TOOL_RESPONSE, Hook.PRE_OUTPUT}),
    "MCP": Walk(bang("notes__search"), served, CALLING | {Hook.MCP_TOOL_CALL}),
    "MCP result": Walk(bang("notes__search"), shown, CALLING | {Hook.MCP_TOOL_CALL, Hook.POST_TOOL_RESPONSE}),
    "MCP secret": Walk(bang("notes__search"), served, CALLING | {Hook.MCP_TOOL_CALL, Hook.SECRET_ACCESS}),
    "message": Walk(note("guest", MARK), shown, CALLING | {Hook.PRE_OUTPUT}),
    "spawn": Walk(bang("sessions_spawn", task="look around"), another_session, CALLING),
    "secret": Walk(bang("web_fetch"), ran_with_the_secret, CALLING | {Hook.SECRET_ACCESS}),
    "reset": Walk("/reset confirm", begun_anew, frozenset({Hook.SESSION_RESET})),
}


async def came_through(folder: Path, path: str, hook: Hook | None) -> bool:
    """Walk a path with a rule that blocks everything at a hook, or with none."""
    world_served = list[str]()

    async def serve(_ask: Ask) -> Outcome:
        world_served.append(MARK)
        return Outcome(MARK)

    read = Probe("probe", result=Result(MARK))
    broken = Probe("broken", result=Result(MARK, failed=True))
    secret = Probe("web_fetch", declared=Declared(secrets=(("token", ""),)), effect=Effect.READ)
    entry: dict[str, object] = {
        "command": "/bin/false",
        "env": {"TOKEN": "${secret:token}"} if path == "MCP secret" else {},
        "tools": {"search": {"description": "d", "effect": "read", "consequential": False}},
    }
    # In place of the one that the configuration makes, which would ask a server.
    search = McpTool("notes", "search", McpServerSettings.model_validate(entry), serve)
    key = folder / "token"
    key.write_text("a long secret value")
    rules = [] if hook is None else [{"id": "nothing", "hook": hook.value, "action": "BLOCK"}]
    config = policy(
        rules=rules,
        mcp_servers={"notes": {"floor": "PUBLIC", "integrity": "TRUSTED"}},
        blocks={
            "mcp_servers": {"notes": entry},
            "secrets": {"token": {"file": str(key), "tools": ["web_fetch", "notes__*"], "hosts": []}},
        },
    )
    async with running(folder, config, parts=parts(read, broken, secret, search)) as owner:
        if path == "reset":
            # There is nothing to forget before something was said.
            await owner.say("hello")
        text = await owner.say(PATHS[path].text)
        return await PATHS[path].seen(World(owner, read, secret, world_served), text)


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_comes_through_without_a_rule(tmp_path: Path, path: str) -> None:
    assert await came_through(tmp_path, path, None)


@pytest.mark.parametrize("path,hook", [(path, hook) for path, walk in PATHS.items() for hook in sorted(walk.hooks)])
async def test_every_hook_stops_every_path(tmp_path: Path, path: str, hook: Hook) -> None:
    assert not await came_through(tmp_path, path, hook)


def test_every_hook_is_crossed_by_some_path() -> None:
    assert frozenset[Hook]().union(*(walk.hooks for walk in PATHS.values())) == frozenset(Hook)
