"""A rule that blocks everything at one hook stops every path that crosses it: a path is one row of the table.

Each row says how a path is walked, what one sees when it came through, and the hooks it crosses. Without a rule
it comes through; with a rule at any of its hooks it does not.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.agent.models import UNUSABLE
from bot.config.mcp import McpServerSettings
from bot.mcp.tool import Ask, McpResult, McpTool
from bot.tools.base import CallFacts, Result
from channels.messages import Address
from policy.request import Effect, Hook
from tests.bot.kit import Probe, bang, note, parts, policy
from tests.harness import Person, running
from tests.people import principal
from tests.sim.act import Act
from tests.sim.provider import provider

pytestmark = pytest.mark.anyio

MARK = "came-through"
THINKING = frozenset({Hook.PRE_CONTEXT_INJECTION, Hook.AGENT_INVOCATION})
CALLING = THINKING | {Hook.PRE_TOOL_CALL}
PROVIDED = "openai-chat:sim"
BESIDE = Act(MARK, calls=(("current_time", "{}"),))
FAILING = Act(MARK, status=400)


@dataclass
class World:
    """One application, its person, and the tools that keep what reached them."""

    owner: Person
    desk: Person
    read: Probe
    secret: Probe
    served: list[str] = field(default_factory=list[str])


Seen = Callable[[World, str], Awaitable[bool]]


@dataclass(frozen=True)
class Walk:
    """A path: what is typed, how one sees that it came through, and the hooks that it crosses.

    `{desk}` stands for the person's session at another chat. `acts` are what a provider's model does in turn; without
    any the offline model does what is typed.
    """

    text: str
    seen: Seen
    hooks: frozenset[Hook]
    acts: tuple[Act, ...] = ()


async def shown(_world: World, text: str) -> bool:
    return MARK in text


async def ran(world: World, _text: str) -> bool:
    return bool(world.read.ran)


async def ran_with_the_secret(world: World, _text: str) -> bool:
    return bool(world.secret.ran)


async def served(world: World, _text: str) -> bool:
    return bool(world.served)


async def another_session(world: World, _text: str) -> bool:
    return len([one async for one in world.owner.app.store.sessions.states()]) > 1


async def begun_anew(world: World, _text: str) -> bool:
    state = await world.owner.app.store.sessions.state(world.owner.sid)
    return state is not None and state.generation > 1


async def heard_at_the_desk(world: World, _text: str) -> bool:
    await world.desk.settled()
    return any(MARK in str(event.body) for event in await world.desk.events())


async def status_told(_world: World, text: str) -> bool:
    return UNUSABLE in text


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
    "sessions_send": Walk(
        bang("sessions_send", session_id="{desk}", content=MARK), heard_at_the_desk, CALLING | {Hook.PRE_OUTPUT}
    ),
    # What stands beside a call is no answer, so that only its preview shows it.
    "streamed preview": Walk("hello", shown, THINKING | {Hook.PRE_OUTPUT}, (BESIDE, Act("done"))),
    "model's error": Walk("hello", status_told, THINKING | {Hook.PRE_OUTPUT}, (FAILING,)),
    "spawn": Walk(bang("sessions_spawn", task="look around"), another_session, CALLING),
    "secret": Walk(bang("web_fetch"), ran_with_the_secret, CALLING | {Hook.SECRET_ACCESS}),
    "reset": Walk("/reset confirm", begun_anew, frozenset({Hook.SESSION_RESET})),
}


async def came_through(folder: Path, path: str, hook: Hook | None) -> bool:
    """Walk a path with a rule that blocks everything at a hook, or with none."""
    world_served = list[str]()

    async def serve(_ask: Ask) -> McpResult:
        world_served.append(MARK)
        return McpResult(MARK)

    read = Probe("probe", result=Result(MARK))
    broken = Probe("broken", result=Result(MARK, failed=True))
    secret = Probe("web_fetch", declared=CallFacts(secrets=(("token", ""),)), effect=Effect.READ)
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
    blocks: dict[str, object] = {
        "mcp_servers": {"notes": entry},
        "secrets": {"token": {"file": str(key), "tools": ["web_fetch", "notes__*"], "hosts": []}},
    }
    walk = PATHS[path]
    async with AsyncExitStack() as stack:
        if walk.acts:
            played = await stack.enter_async_context(provider(*walk.acts))
            blocks["model"] = {"name": PROVIDED, "providers": {PROVIDED: {"base_url": played.openai}}}
        config = policy(
            rules=rules,
            principals={"owner": principal("console:owner", "console:desk")},
            models={"offline": {"clearance": "top"}, PROVIDED: {"clearance": "top"}},
            mcp_servers={"notes": {"floor": "PUBLIC", "integrity": "TRUSTED"}},
            blocks=blocks,
        )
        owner = await stack.enter_async_context(
            running(folder, config, parts=parts(read, broken, secret, search), terminal=bool(walk.acts))
        )
        desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        if path == "reset":
            # There is nothing to forget before something was said.
            await owner.say("hello")
        if "{desk}" in walk.text:
            # Nothing can be sent to a session that is not there.
            await desk.say("hello")
        text = await owner.say(walk.text.replace("{desk}", desk.sid))
        return await walk.seen(World(owner, desk, read, secret, world_served), text)


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_comes_through_without_a_rule(tmp_path: Path, path: str) -> None:
    assert await came_through(tmp_path, path, None)


@pytest.mark.parametrize("path,hook", [(path, hook) for path, walk in PATHS.items() for hook in sorted(walk.hooks)])
async def test_every_hook_stops_every_path(tmp_path: Path, path: str, hook: Hook) -> None:
    assert not await came_through(tmp_path, path, hook)


async def test_what_a_failing_provider_says_reaches_no_chat_log_or_audit(tmp_path: Path) -> None:
    async with provider(FAILING) as played:
        model = {"name": PROVIDED, "providers": {PROVIDED: {"base_url": played.openai}}}
        config = policy(models={PROVIDED: {"clearance": "top"}}, blocks={"model": model})
        async with running(tmp_path, config) as owner:
            assert UNUSABLE in await owner.say("hello")
            rows = [record.body async for record in owner.app.chains.records(owner.sid)]
            assert MARK not in f"{owner.shown}{await owner.events()}{rows}"


def test_every_hook_is_crossed_by_some_path() -> None:
    assert frozenset[Hook]().union(*(walk.hooks for walk in PATHS.values())) == frozenset(Hook)
