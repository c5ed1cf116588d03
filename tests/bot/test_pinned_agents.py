"""A session goes on with the agent that it pinned, whatever the configuration says by now (ADR 0033)."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.access.agents import Pin
from bot.agent.models import UNUSABLE
from bot.app.extensions import Extensions
from bot.cli.sessions import list_sessions, show_session
from bot.config.file.source import DATA_VARIABLE
from bot.config.load import load_config
from bot.sessions.log.event_types import ToolResult
from bot.store.schema import agent_key
from bot.tools import catalogue
from bot.worker.turn_runner import LOST
from channels.messages import Address
from policy.request import Hook
from tests.bot.kit import Probe, Scripted, eventually, parts, proposed, results
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM, People, team
from tests.events import bodies
from tests.harness import SETTLED, Person, running
from tests.sim.provider import provider
from tests.store.world import put_state

pytestmark = pytest.mark.anyio

ELSEWHERE = Address("console", "owner", thread="2")
VALUE = "sk-acme-hunter2"


def config(agents: dict[str, Any] | None = None, **blocks: Any) -> str:  # noqa: ANN401 - as config.yaml says
    return json.dumps({"agents": agents or {}, **blocks})


@dataclass
class Elsewhere(Person):
    """The same person in another chat, which has a session of its own; the console says nothing there."""

    address: Address = ELSEWHERE

    async def say(self, text: str, *, wait: bool = True) -> str:
        """Send a text, wait until the session rests, and return the answer to the last one."""
        await self.send(text)
        if wait:
            await eventually(self._rests)
        said = await self.app.store.outbox.deliveries(self.sid)
        return said[-1].text if said else ""

    async def _rests(self) -> bool:
        state = await self.state()
        return state.status in SETTLED and not state.waiting_items


def elsewhere(person: Person) -> Elsewhere:
    return Elsewhere(person.app, person.output)


async def agent_of(person: Person) -> str:
    return Pin.parse((await person.state()).agent).name


def offered(model: Scripted) -> set[str]:
    return {tool.name for tool in model.parameters[-1].function_tools}


async def test_a_change_of_instructions_reaches_only_new_sessions(tmp_path: Path) -> None:
    model = Scripted("yes")
    async with running(tmp_path, config({"default": {"instructions": "Be a canal."}}), parts=parts(model=model)) as one:
        await one.say("hello")
        assert model.instructions[-1].startswith("Be a canal.")
        assert "agent default\n" in await one.say("/status")
    async with running(tmp_path, config({"default": {"instructions": "Be a lock."}}), parts=parts(model=model)) as one:
        await one.say("hello again")
        assert model.instructions[-1].startswith("Be a canal.")
        await elsewhere(one).say("hello")
        assert model.instructions[-1].startswith("Be a lock.")
        assert "instructions: the configuration has changed, a reset takes it over" in await one.say("/status")
        await one.say("/reset confirm")
        await one.say("hello")
        assert model.instructions[-1].startswith("Be a lock.")
        assert "configuration has changed" not in await one.say("/status")


async def test_sessions_of_one_agent_share_its_snapshot(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        other = elsewhere(owner)
        await other.say("hello")
        assert (await owner.state()).agent == (await other.state()).agent


async def test_a_session_asks_the_model_that_it_pinned(tmp_path: Path) -> None:
    made = {name: Scripted(f"I am {name}") for name in ("offline", "openai:a", "openai:b")}
    allowed = {"models": {name: {"clearance": "top"} for name in made}}

    def chosen(model: str, **agent: object) -> str:
        said = {"name": model, "choices": [name for name in made if name != model]}
        return config({"default": agent}, model=said, policy=allowed)

    async with running(tmp_path, chosen("openai:a"), parts=Extensions(model=made.__getitem__)) as owner:
        assert "I am openai:a" in await owner.say("hello")
    async with running(tmp_path, chosen("openai:b"), parts=Extensions(model=made.__getitem__)) as owner:
        assert "I am openai:a" in await owner.say("hello")
        assert "I am openai:b" in await elsewhere(owner).say("hello")
        assert "model: the configuration has changed" in await owner.say("/status")
        # What people choose stands above that, and going back is to the agent's own.
        await owner.say("/model offline")
        assert "I am offline" in await owner.say("hello")
        assert "This conversation thinks with openai:a" in await owner.say("/model openai:a")
        assert (await owner.state()).model == ""
        assert "I am openai:a" in await owner.say("hello")
    # It is asked also where the configuration does not name it any more.
    gone = config(model={"name": "openai:b"}, policy=allowed)
    async with running(tmp_path, gone, parts=Extensions(model=made.__getitem__)) as owner:
        assert "I am openai:a" in await owner.say("hello")


async def test_a_model_whose_address_is_not_known_any_more_is_not_asked_elsewhere(tmp_path: Path) -> None:
    async with provider() as played:
        there = {"name": "openai-chat:a", "providers": {"openai-chat:a": {"base_url": played.openai}}}
        allowed = {"models": {"openai-chat:a": {"clearance": "top"}, "offline": {"clearance": "top"}}}
        async with running(tmp_path, config(model=there, policy=allowed)) as owner:
            assert "the provider heard: hello" in await owner.say("hello")
        async with running(tmp_path, config(policy=allowed), environment={"OPENAI_API_KEY": VALUE}) as owner:
            told = await owner.say("hello")
        assert UNUSABLE in told
        assert "whose address or key is not configured any more; add `openai-chat:a` to" in told
        assert len(played.seen) == 1


async def test_nor_is_it_once_another_conversation_asked_that_model_by_the_usual_address(tmp_path: Path) -> None:
    """Not even where what is left of it is a price, and where the same model was made for an agent without one."""
    async with provider() as played:
        there = {"name": "openai-chat:a", "providers": {"openai-chat:a": {"base_url": played.openai}}}
        allowed = {"models": {"openai-chat:a": {"clearance": "top"}}}
        async with running(tmp_path, config(model=there, policy=allowed)) as owner:
            await owner.say("hello")
        usual = {"name": "openai-chat:a", "providers": {"openai-chat:a": {"input_price": 1}}}
        model = Scripted("from the usual address")
        async with running(tmp_path, config(model=usual, policy=allowed), parts=parts(model=model)) as owner:
            assert "from the usual address" in await elsewhere(owner).say("hello")
            assert UNUSABLE in await owner.say("hello")
        assert len(played.seen) == 1
        assert len(model.asked) == 1


async def test_a_model_is_offered_the_tools_of_the_agent_and_the_gate_refuses_any_other(tmp_path: Path) -> None:
    probe = Probe()
    model = Scripted([proposed("probe"), proposed("read_file", {"path": "public/welcome.md"})], "done")
    agents = {"default": {"tools": ["read_*", "current_time"]}}
    async with running(tmp_path, config(agents), parts=parts(probe, model=model)) as owner:
        await owner.say("hello")
        assert offered(model) == {"read_file", "current_time"}
        assert "sessions_spawn" not in model.instructions[-1]
        assert probe.ran == []
        assert results(await owner.events()) == [("probe", "denied"), ("read_file", "ok")]
        refused = bodies(await owner.events(), ToolResult)[0]
        assert "this tool is not known, known are `current_time`, `read_file`" in refused.text
        rows = [row async for row in owner.app.chains.records(owner.sid) if row.kind == "decision"]
        denied = next(row for row in rows if row.body.get("tool") == "probe")
        assert (denied.body["hook"], denied.body["verdict"]) == (Hook.PRE_TOOL_CALL.value, "BLOCK")
        assert denied.body["policy"] == owner.app.gate.document.digest
        # Simulating says the same as the call (law `simulate_equals_enforce`).
        assert "BLOCK" in await owner.say("/simulate probe {}")
        assert "ALLOW" in await owner.say('/simulate read_file {"path": "public/welcome.md"}')


async def test_a_tool_that_came_since_is_not_offered_and_one_that_is_gone_is_told_of(tmp_path: Path) -> None:
    model, old, new = Scripted("yes"), Probe("old_probe"), Probe("new_probe")
    async with running(tmp_path, parts=parts(old, model=model)) as owner:
        await owner.say("hello")
        assert "old_probe" in offered(model)
    model = Scripted("yes", [proposed("session_status")], "done")
    async with running(tmp_path, parts=parts(new, model=model)) as owner:
        await owner.say("hello")
        assert offered(model).isdisjoint({"old_probe", "new_probe"})
        told = await owner.say("/status")
        assert "tools that are gone: old_probe" in told
        assert "tools that are new and not offered here: new_probe" in told
        await owner.say("tell")
        status = json.loads(bodies(await owner.events(), ToolResult)[-1].text)["agent"]
        assert (status["gone_tools"], status["new_tools"], status["differs"]) == (
            ["old_probe"],
            ["new_probe"],
            ["tools"],
        )


async def test_two_chats_and_a_person_have_agents_of_their_own(tmp_path: Path) -> None:
    model, rooms = Scripted("yes"), team("ann", "mel")
    rooms.readers["lobby"] = frozenset({"room:ann"})
    lobby, alone = Address("room", "lobby"), Address("room", "ann")
    agents = {
        "support": {"instructions": "Support.", "chats": ["team"]},
        "desk": {"instructions": "Desk.", "chats": ["room:lobby"]},
        "private": {"instructions": "Private.", "people": ["ann"]},
    }
    chats = {**CHATS, "hall": {"channel": "room", "chat": "hall", "classification": "CONFIDENTIAL"}}
    chats["lobby"] = {"channel": "room", "chat": "lobby", "classification": "CONFIDENTIAL"}
    agents["desk"]["chats"] = ["lobby"]
    policy = {"principals": PEOPLE, "channels": CHANNELS, "chats": chats}
    rooms.readers["hall"] = frozenset({"room:ann"})
    text = config(agents, policy=policy)
    async with running(tmp_path, text, parts=parts(model=model), channels=[rooms]) as owner:
        people = People(owner.app, rooms)
        for place, begins in (
            (TEAM, "Support."),
            (lobby, "Desk."),
            (alone, "Private."),
            (Address("room", "mel"), "You"),
        ):
            await people.say("mel" if place.chat == "mel" else "ann", "hello", place)
            assert model.instructions[-1].startswith(begins)
        # In a shared chat the agent of whoever asks there counts for nothing: the conversation is everyone's.
        await people.say("ann", "hello", Address("room", "hall"))
        assert model.instructions[-1].startswith("You are the agent")


async def test_a_background_session_has_the_agent_of_its_parent(tmp_path: Path) -> None:
    model = Scripted("yes")
    async with running(tmp_path, config({"default": {"instructions": "Be a canal."}}), parts=parts(model=model)) as one:
        await one.say("hello")
    agents = {"default": {"instructions": "Be a lock.", "tools": ["read_file"]}}
    async with running(tmp_path, config(agents), parts=parts(model=model)) as one:
        other = elsewhere(one)
        await other.say("hello")
        # A person's own command is not bound by the tools of the agent.
        await other.send("/spawn count the canals")
        await one.send("/spawn count the canals")

        async def both() -> bool:
            told = zip(model.instructions, model.asked, strict=True)
            begins = {text.split(".")[0] for text, asked in told if "count the canals" in str(asked[0])}
            return begins == {"Be a canal", "Be a lock"}

        await eventually(both)


async def test_an_agent_that_was_removed_goes_on_where_it_was_pinned(tmp_path: Path) -> None:
    model = Scripted("yes")
    agents = {"helper": {"instructions": "Help.", "people": ["owner"]}}
    async with running(tmp_path, config(agents), parts=parts(model=model)) as owner:
        await owner.say("hello")
        assert await agent_of(owner) == "helper"
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("hello")
        assert model.instructions[-1].startswith("Help.")
        assert "agent helper, which is not configured any more" in await owner.say("/status")
        await owner.say("/reset confirm")
        await owner.say("hello")
        assert await agent_of(owner) == "default"


async def test_a_credential_is_the_key_of_the_agents_models_and_is_kept_nowhere(tmp_path: Path) -> None:
    async with provider() as played:
        model = {"name": "openai-chat:a", "providers": {"openai-chat:a": {"base_url": played.openai, "key": "USUAL"}}}
        allowed = {"models": {"openai-chat:a": {"clearance": "top"}}}
        agents = {"acme": {"credential": "acme", "people": ["owner"]}}
        blocks = {"model": model, "policy": allowed, "secrets": {"acme": {"env": "ACME_KEY"}}}
        keys = {"ACME_KEY": VALUE, "USUAL": "sk-usual-key"}
        async with running(tmp_path, config(agents, **blocks), environment=keys, embedded=True) as owner:
            assert "the provider heard: hello" in await owner.say("hello")
            assert played.seen[-1].headers["authorization"] == f"Bearer {VALUE}"
            kept = await owner.app.store.agents.read(Pin.parse((await owner.state()).agent).digest)
            assert kept is not None
            assert '"credential":"acme"' in kept
            assert VALUE not in kept
            assert "USUAL" not in kept
        found = [
            path for path in (tmp_path / "data").rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()
        ]
        assert found == []
        # It is gone: the conversation is not asked with another key, and the owner hears what to mend.
        gone = {**blocks, "secrets": {}}
        async with running(tmp_path, config({}, **gone), environment=keys, embedded=True) as owner:
            told = await owner.say("hello")
            assert UNUSABLE in told
            assert "agent `acme` needs the secret `acme`; add `acme` to `secrets`" in told
            assert len(played.seen) == 1
            failures = [one.cause for one in owner.app.failures.newest()]
            assert failures == ["agent `acme` needs the secret `acme`"]


@pytest.mark.parametrize("damage", ["gone", "changed", "unpinned"])
async def test_an_agent_that_cannot_be_read_ends_the_turn_and_is_no_other_one(damage: str, tmp_path: Path) -> None:
    model = Scripted("yes")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("hello")
        pin = (await owner.state()).agent
    async with running(tmp_path, config({"default": {"instructions": "Other."}}), parts=parts(model=model)) as owner:
        key = agent_key(Pin.parse(pin).digest)
        await damaged(owner, key, damage)
        before = len(model.asked)
        told = await owner.say("are you there?")
        assert LOST in told
        assert "cannot be read from the store; `/reset` begins anew" in told
        assert len(model.asked) == before
        assert "which cannot be read" in await owner.say("/status")
        assert "cannot be read from the store" in await owner.say("/model")
        assert "BLOCK" in await owner.say('/simulate read_file {"path": "public/welcome.md"}')
        await owner.say("/reset confirm")
        assert "yes" in await owner.say("hello")
        assert model.instructions[-1].startswith("Other.")


async def test_a_lost_snapshot_is_put_back_by_a_process_that_has_the_same_agent(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        digest = Pin.parse((await owner.state()).agent).digest
        kept = await owner.app.store.agents.read(digest)
    async with running(tmp_path) as owner:
        await damaged(owner, agent_key(digest), "gone")
        assert "You said: are you there?" in await owner.say("are you there?")
        assert await owner.app.store.agents.read(digest) == kept is not None


async def test_operators_see_the_agent_of_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path, config({"helper": {"people": ["owner"]}}), embedded=True) as owner:
        await owner.say("hello")
        sid = owner.sid
    (tmp_path / "config.yaml").write_text("{}\n")
    place = {DATA_VARIABLE: str(tmp_path / "data")}
    settings = await asyncio.to_thread(load_config, tmp_path / "config.yaml", place, catalogue.ARGUMENTS)
    await list_sessions(settings, as_json=False)
    assert " helper " in capsys.readouterr().out
    await show_session(settings, sid, as_json=True)
    told = json.loads(capsys.readouterr().out)["agent"]
    assert (told["name"], told["configured"], told["readable"]) == ("helper", False, True)


async def damaged(owner: Person, key: str, damage: str) -> None:
    """Damage what a session pinned."""
    commands = owner.app.store._shared.connection.commands  # pyright: ignore[reportPrivateUsage] - to damage it
    match damage:
        case "gone":
            await commands(("DEL", key))
        case "changed":
            await commands(("SET", key, b"\xc1"))
        case _:
            await put_state(owner.app.store, owner.sid, agent="")
