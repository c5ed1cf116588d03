"""The stage an attack is played on: a whole application in a folder, opened again by every restart, and what it saw."""

import asyncio
import io
import json
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import cast

from pydantic import JsonValue

from bot.app.app import App
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.core.errors import ConfigError, SchemaError
from bot.files.areas import Area
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.background.schedules import Schedule
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.inbox import ItemStatus
from bot.sessions.log.event_types import AgentMessage, ApprovalRequested, ItemHeld
from bot.sessions.log.events import Event, EventType, NewEvent
from bot.sessions.models import SessionState, Status, Write
from bot.store.records.kinds import APPROVAL
from bot.store.schema import session_keys
from bot.tools import catalogue
from bot.tools.files import placed
from channels.console import Console
from channels.messages import Address, Attachment, Inbound, Outbound
from policy.labels import parse
from tests.attacks.attack import Given, GivenFile, Pending, Step
from tests.attacks.tools import Puppets
from tests.bot.kit import tool_context, unanswered
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM, Rooms
from tests.events import bodies
from tests.harness import HOME
from tests.servers import SERVERS
from tests.sim import mcp_server
from tests.sim.web import Web, web
from tests.store.world import alter, command, end_lease, put_state, statuses

_WORDS = MappingProxyType(
    {
        "long": "x" * 99_000,
        "deep": "[" * 40_000 + "]" * 40_000,
        "digits": "9" * 6_000,
        "as": "a" * 50_000,
        "xs": "x" * 400,
        "spaces": " " * 50_000,
        "surrogate": "\ud800",
        "nul": "\x00",
        "esc": "\x1b",
        "rlo": "\u202e",
    }
)
_DAMAGED = "NO-SUCH-LEVEL"
_TEAM: dict[str, JsonValue] = {
    "policy": cast(
        "JsonValue",
        {"principals": PEOPLE, "channels": CHANNELS, "chats": {"team": {**CHATS["team"], "inbound": "PUBLIC"}}},
    )
}
_SERVER = "mcp-server"
_PATIENCE = 60.0
_SOON = 10_000
_GROWS = ("seq", "updated_at", "last_turn", "usage")
_UNSAID = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})


class Desk(Console):
    """A console at which people hand in files, too; their handles are their texts."""

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a file."""
        return attachment.handle.encode()[: most + 1]


class Room(Rooms):
    """A shared chat; what is said in it, and to one in it alone, is shown too."""

    def __init__(self, output: io.StringIO, readers: dict[str, frozenset[str]]) -> None:
        super().__init__(readers)
        self._output = output

    async def send(self, outbound: Outbound) -> str:
        self._output.write(f"[{outbound.address.recipient or outbound.address.chat}] {outbound.text}\n")
        return await super().send(outbound)


def place(at: str) -> Address:
    """Return where a step happens: a chat of the console, or `channel:chat`, with `/thread` behind it."""
    channel, _, chat = at.rpartition(":")
    chat, _, thread = chat.partition("/")
    return Address(channel or "console", chat, thread=thread)


class Stage:
    """One installation under attack. `shown` is all the console ever showed, `steps` what each step made it show."""

    def __init__(self, folder: Path, given: Given) -> None:
        self.folder = folder
        self.given = given
        self.puppets = Puppets(given.tools, given.model, given.names, obeys=given.obeys)
        self.web = Web()
        self.output = io.StringIO()
        self.room = Room(self.output, {TEAM.chat: frozenset(f"room:{name}" for name in given.room)})
        self.steps: list[str] = []
        self.refused: str | None = None
        self.kept = ""
        self.marked: dict[str, object] | None = None
        self._config = given.config
        if given.room and isinstance(given.config, dict):
            self._config = _over(_TEAM, given.config)
        self._opened = AsyncExitStack()
        self._serving: asyncio.Task[None] | None = None
        self._app: App | None = None
        self._sent = 0

    @property
    def app(self) -> App:
        assert self._app is not None, f"the configuration was refused: {self.refused}"
        return self._app

    @property
    def home(self) -> Address:
        """Where the session is that is attacked."""
        return TEAM if self.given.room else HOME

    @property
    def sid(self) -> str:
        return self.app.session_id(self.home)

    @property
    def shown(self) -> str:
        return self.output.getvalue()

    @property
    def _web(self) -> str:
        return f"127.0.0.1:{self.web.port}"

    def publish(self, server: Web) -> None:
        """Put the attack's pages on a web server."""
        self.web = server
        for path, page in self.given.web.items():
            text = page.replace("{web}", self._web)
            if text.startswith("-> "):
                server.leads(path, text.removeprefix("-> "))
            else:
                server.page(path, text)

    def put_server(self) -> None:
        """Put the command there that starts the MCP server: a configuration names one, and no interpreter."""
        command = self.folder / _SERVER
        command.write_text(f"#!/bin/sh\nexec {shlex.join((sys.executable, mcp_server.__file__))}\n", "utf-8")
        command.chmod(0o700)

    async def open(self) -> None:
        """Open the application, unless its configuration is refused, and let a worker run if one shall."""
        path = self.folder / "config.yaml"
        written = (
            json.dumps(self._config)
            if isinstance(self._config, dict)
            else self._config.replace("{deep}", _WORDS["deep"])
        )
        written = written.replace("{web}", self._web).replace("{mcp}", str(self.folder / _SERVER))
        await asyncio.to_thread(path.write_text, written, encoding="utf-8")
        try:
            environment = await SERVERS.place(self.folder / "data")
            config = await asyncio.to_thread(load_config, path, environment, self._tools())
        except ConfigError as error:
            self.refused = str(error)
            return
        rooms = [self.room] if self.given.room else []
        opening = open_app(config, [Desk(self.output), *rooms], {}, self.puppets.parts())
        self._app = await self._opened.enter_async_context(opening)

    async def serve(self) -> None:
        """Let a worker run."""
        if self._app is not None and self._serving is None:
            self._serving = asyncio.create_task(self._app.serve())

    async def halt(self) -> None:
        """End the worker in whatever it does; its leases stay until they run out."""
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving
            self._serving = None

    async def close(self) -> None:
        await self.halt()
        await self._opened.aclose()
        self._app = None

    async def play(self, step: Step) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each kind of step
        """Let one thing happen."""
        before = len(self.shown)
        match step:
            case Step(say=str(text)):
                await self._say(step, text)
                await self.settled(step.at)
            case Step(forward=str(text)):
                await self._say(step, text, authored=False)
                await self.settled(step.at)
            case Step(twice=str(text)):
                await self._say(step, text)
                self._sent -= 1
                await self._say(step, text)
                await self.settled(step.at)
            case Step(send=str(text)) | Step(overheard=str(text)):
                await self._say(step, text)
            case Step(restart=dict(change)):
                await self._restart(change)
            case Step(serve=True):
                await self.serve()
                await self.settled(step.at)
            case Step(serve=False):
                await self.halt()
            case Step(serve_briefly=True):
                self.puppets.called.clear()
                await self.serve()
                async with asyncio.timeout(_PATIENCE):
                    await self.puppets.called.wait()
                await self.halt()
            case Step(let_go=True):
                self.puppets.let_go.set()
                await asyncio.sleep(0.05)
            case Step(until="called"):
                async with asyncio.timeout(60):
                    await self.puppets.called.wait()
            case Step(until="settled"):
                await self.settled(step.at)
            case Step(until="idle"):
                await self._until(lambda: self._idle(step.at))
            case Step(until="recorded"):
                await self._until(lambda: self._recorded(step.at))
            case Step(until="rested"):
                await self._rested()
            case Step(damage=str(what)):
                await self._damage(place(step.at), *what.split(" ", 1))
            case Step(expire=str(what)):
                await self._expire(what)
            case Step(pending=Pending() as pending):
                await self._commit(pending)
            case Step(leaves=str(name)):
                self.room.readers[TEAM.chat] -= {f"room:{name}"}
            case Step(pause=float(seconds)):
                await asyncio.sleep(seconds)
                await self._until(self._still)
            case Step(keep=True):
                self.kept = (await self.approvals())[-1].id
            case Step(mark=True):
                self.marked = await self.dump()
            case _:
                raise AssertionError(f"a step that does nothing: {step}")
        self.steps.append(self.shown[before:])

    async def settled(self, chat: str = "owner") -> None:
        """Wait until a chat's session has nothing to do but to wait for people."""
        sid = self.app.session_id(place(chat))
        await self._until(lambda: self._quiet(sid))

    async def _quiet(self, sid: str) -> bool:
        state = await self.app.store.sessions.state(sid)
        if state is None or self._serving is None:
            return True
        if await self.app.spawner.working(state.principal, sid):
            return False
        serves = self.app.outbox.serves
        if any(one.state in _UNSAID and serves(one.address) for one in await self.app.store.outbox.deliveries(sid)):
            return False
        if state.status is Status.AWAITING_INPUT:
            return any(one.state is ApprovalState.PENDING for one in await self.app.store.approvals.of(sid))
        return state.status in {Status.IDLE, Status.FAILED} and not state.waiting_items

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_PATIENCE):
            while not await holds():  # noqa: ASYNC110 - a store sets no event
                await asyncio.sleep(0.02)

    async def _idle(self, chat: str) -> bool:
        state = await self.app.store.sessions.state(self.app.session_id(place(chat)))
        return state is not None and state.status is Status.IDLE and not state.waiting_items

    async def _still(self) -> bool:
        """Say whether nothing goes on but calls that hang; with a record that cannot be read, it is not known.

        What was claimed twice and is unsaid waits for a place.
        """
        if self._serving is None:
            return True
        serves, running = self.app.outbox.serves, 0
        try:
            async for state in self.app.store.sessions.states():
                running += state.status is Status.RUNNING
                said = await self.app.store.outbox.deliveries(state.sid)
                if (state.status is Status.QUEUED and not state.rests) or any(
                    one.state in _UNSAID and serves(one.address) and one.attempt < 2 for one in said
                ):
                    return False
        except SchemaError:
            return True
        return running == self.puppets.hanging

    async def _recorded(self, chat: str) -> bool:
        events = await self.app.store.sessions.events(self.app.session_id(place(chat)))
        return len(unanswered(events)) == self.puppets.hanging > 0

    async def _rested(self) -> None:
        """Wait until what is due soon is done, no run does anything, and what they say is sent."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                soon = self.app.store.tokens.now_ms() + _SOON
                due = any(0 < one.next_at < soon for one in await self.schedules())
                if not due and all([await self._rests(run) for run in await self.runs()]):
                    return
                await asyncio.sleep(0.02)

    async def _rests(self, run: SessionState) -> bool:
        said = await self.app.store.outbox.deliveries(run.sid)
        if run.waiting_items or run.turn is not None or any(one.state in _UNSAID for one in said):
            return run.asks
        return bool(run.ended_at) or run.rests or run.status is Status.IDLE

    async def runs(self) -> list[SessionState]:
        """Return all runs, oldest first."""
        found = [state async for state in self.app.store.sessions.states() if state.charter is not None]
        return sorted(found, key=lambda state: state.created_at)

    async def schedules(self) -> list[Schedule]:
        """Return all schedules, oldest first."""
        return sorted(await self.app.store.schedules.every(), key=lambda one: one.created_at)

    async def state(self) -> SessionState | None:
        return await self.app.store.sessions.state(self.sid)

    async def events(self) -> tuple[Event, ...]:
        """Return the whole log."""
        return await self.app.store.sessions.events(self.sid, limit=100_000)

    async def generation(self) -> tuple[Event, ...]:
        """Return the log of the generation that runs."""
        state = await self.state()
        return tuple(event for event in await self.events() if state and event.generation == state.generation)

    async def deliveries(self) -> tuple[Delivery, ...]:
        return await self.app.store.outbox.deliveries(self.sid)

    async def approvals(self) -> tuple[Approval, ...]:
        found = await self.app.store.approvals.of(self.sid)
        asked = [one.approval for one in bodies(await self.events(), ApprovalRequested)]
        return tuple(sorted(found, key=lambda approval: asked.index(approval.id)))

    async def inputs(self) -> list[ItemStatus]:
        """Return where every accepted input is, oldest first."""
        return await statuses(self.app.store, self.sid)

    async def dump(self) -> dict[str, object]:
        """Return all that a denied call must leave as it was."""
        state = await self.state()
        return {
            "taint": None if state is None else str(state.taint),
            "generation": None if state is None else state.generation,
            "others": sorted([str(other) async for other in self.app.store.sessions.states() if other.sid != self.sid]),
            "approvals": [str(approval) for approval in await self.approvals()],
            "said to others": [str(one) for one in await self.deliveries() if one.address != str(HOME)],
            "files": await asyncio.to_thread(self.on_disk),
        }

    async def everything(self) -> dict[str, object]:
        """Return all that is stored, but what may grow: log, audit, usage, and what was said and asked of it."""
        state = await self.state()
        kept = {} if state is None else {**asdict(state), **dict.fromkeys(_GROWS)}
        events = [event for event in await self.generation() if event.type is EventType.TAINT_RAISED]
        return {**await self.dump(), "state": kept, "raised": events}

    def path(self, name: str) -> Path:
        """Return where a file of the file root, or of the owner's workspace, is on disk."""
        if name.startswith("workspace/"):
            return self.folder / "data" / Area.SESSIONS / self.sid / name.removeprefix("workspace/")
        return self.folder / "data" / Area.SHARED / name

    def label(self, name: str) -> str | None:
        """Return the label that stands beside a file, or beside the file of that name above its folder's floor."""
        side = next((side for side in self._sides(name) if side.exists()), None)
        return None if side is None else side.read_text("ascii").partition("\nfrom ")[0].strip()

    def above(self, name: str) -> str | None:
        """Return the text of the file of a name that is above its folder's floor."""
        base, rest = self._taken_apart(name)
        texts = [path.read_text("utf-8") for path in base.glob(f".above/*/{rest}")]
        return "\n".join(texts) if texts else None

    def put(self, name: str, file: GivenFile) -> None:
        """Put a file there, as a session with that label does or as the operator does."""
        path = self.path(name)
        if file.label is not None and file.label != _DAMAGED:
            content = file.text.encode() if file.raw is None else bytes(file.raw)
            inside = f"{name}/inside" if file.folder else name
            place = placed(inside, tool_context(document=self.app.gate.document))
            self.app.files.keep(place, content, parse(file.label))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.folder:
            path.mkdir(exist_ok=True)
        elif file.link is not None:
            path.symlink_to(file.link)
        elif file.raw is not None:
            path.write_bytes(bytes(file.raw))
        else:
            path.write_text(file.text, encoding="utf-8")
        if file.label is not None:
            side = self._sides(name)[0]
            side.parent.mkdir(parents=True, exist_ok=True)
            side.write_text(file.label, encoding="ascii")

    def _sides(self, name: str) -> list[Path]:
        base, rest = self._taken_apart(name)
        side = Path(".labels") / sha256(rest.encode()).hexdigest()
        return [base / side, *base.glob(f".above/*/{side}")]

    def _taken_apart(self, name: str) -> tuple[Path, str]:
        folder, _, rest = name.partition("/")
        return self.folder / "data" / Area.SHARED / folder, rest

    def on_disk(self) -> dict[str, bytes]:
        """Return every file of the file root and the workspaces."""
        found = (self.folder / "data" / name for name in (Area.SHARED, Area.SESSIONS))
        return {str(path): path.read_bytes() for root in found for path in sorted(root.rglob("*")) if path.is_file()}

    def _tools(self) -> dict[str, Mapping[str, str]]:
        return {**catalogue.ARGUMENTS, **{tool.name: {} for tool in self.given.tools}}

    async def _say(self, step: Step, text: str, *, authored: bool = True) -> None:
        text = text.replace("{kept}", self.kept).replace("{sid}", self.sid).replace("{web}", self._web)
        text = re.sub(r"\{sid:([\w:/]+)\}", lambda found: self.app.session_id(place(found[1])), text)
        text = _told(text)
        for name, chat in re.findall(r"(\{held(?::(\w+))?\})", text):
            text = text.replace(name, await self._held(chat or "owner"))
        if any(word in text for word in ("{approval}", "{first}", "{question}")):
            asked = await self.approvals()
            text = text.replace("{approval}", asked[-1].id).replace("{first}", asked[0].id)
            text = text.replace("{question}", asked[-1].asked_in)
        if "{waiting}" in text:
            text = text.replace("{waiting}", re.findall(r"Held as (\w+)", self.shown)[-1])
        if "{run}" in text:
            charter = (await self.runs())[-1].charter
            text = text.replace("{run}", "" if charter is None else charter.run)
        if "{schedule}" in text:
            text = text.replace("{schedule}", (await self.schedules())[-1].id)
        if "{skill}" in text:
            text = text.replace("{skill}", re.findall(r"skill_[0-9a-f]{12}", self.shown)[0])
        if "{approves}" in text:
            text = text.replace("{approves}", re.findall(r"`(/skills approve \w+ \d+ \w+)`", self.shown)[0])
        if "{asked}" in text:
            text = text.replace("{asked}", await self._asked())
        if "{code}" in text:
            text = text.replace("{code}", re.findall(r"/release confirm (\w+)", self.shown)[-1])
        self._sent += 1
        address = place(step.at)
        private = address.chat not in self.room.readers or address.channel != self.room.name
        files = tuple(Attachment(_told(content), _told(name)) for name, content in step.brings.items())
        dedupe = f"{step.by}-{self._sent}"
        said = Inbound(address, step.by, text, dedupe, authored=authored, files=files, private=private)
        await self.app.router.receive(replace(said, addressed=step.overheard is None))

    async def _asked(self) -> str:
        """Wait until a background session asks, and return the id of its question."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                for state, approval in await self.app.store.approvals.waiting():
                    if state.background is not None:
                        return approval.id
                await asyncio.sleep(0.02)

    async def _held(self, chat: str) -> str:
        """Return the newest reference of a chat's session, of whatever generation."""
        events = await self.app.store.sessions.events(self.app.session_id(Address("console", chat)), limit=100_000)
        return [event.body.ref for event in events if isinstance(event.body, ItemHeld)][-1]

    async def _commit(self, pending: Pending) -> None:
        """Commit a turn whose answer is for a chat, as a worker does that dies before it sends."""
        store, ids = self.app.store, self.app.ids
        await self._say(Step(), "hello")
        claim = await store.sessions.claim(self.sid, ids.owner())
        assert claim is not None
        answer = NewEvent("agent", parse(pending.label), AgentMessage(pending.text), admitted=True)
        delivery = NewDelivery("k", str(Address("console", pending.to)), pending.text, parse(pending.label))
        facts: dict[str, JsonValue] = {"hook": "PRE_OUTPUT", "verdict": "ALLOW", "destination": delivery.address}
        await store.sessions.commit(
            claim,
            Write(
                ids.op(),
                claim.state.seq,
                events=(answer,),
                audit=(AuditRow("decision", "owner", facts),),
                settle=((claim.items[0].position, ItemStatus.CONSUMED),),
                deliver=(delivery,),
                status=Status.IDLE,
            ),
        )

    async def _restart(self, change: dict[str, JsonValue]) -> None:
        served = self._serving is not None
        await self.close()
        self._opened = AsyncExitStack()
        if change:
            assert isinstance(self._config, dict)
            self._config = _over(self._config, change)
            self.refused = None
        await self.open()
        if served:
            await self.serve()

    async def _damage(self, home: Address, field: str, value: str) -> None:
        await put_state(self.app.store, self.app.session_id(home), **{field: value})

    async def _expire(self, what: str) -> None:
        """Let the time pass after which nobody waits for an answer, or a silent worker counts as dead."""
        if what == "lease":
            await end_lease(self.app.store, self.sid)
            return
        key = session_keys(self.sid).approvals
        flat = cast("list[bytes]", await command(self.app.store, "HGETALL", key))
        for name in flat[::2]:
            await alter(self.app.store, APPROVAL, key, name.decode(), expires=1)


def _over(below: dict[str, JsonValue], above: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Put one configuration over another, block by block; null takes a block away."""
    merged = {name: value for name, value in below.items() if above.get(name, value) is not None}
    for name, value in above.items():
        if value is None:
            continue
        known = merged.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        merged[name] = _over(cast("dict[str, JsonValue]", known), value) if both else value  # pyright: ignore[reportArgumentType]
    return merged


@asynccontextmanager
async def staged(folder: Path, given: Given) -> AsyncGenerator[Stage]:
    """Open an installation, with the attack's files in its file root."""
    stage = Stage(folder, given)
    pages = AsyncExitStack()
    try:
        await asyncio.to_thread(stage.put_server)
        if given.web:
            stage.publish(await pages.enter_async_context(web()))
        await stage.open()
        if stage.refused is None:
            for name, file in given.files.items():
                await asyncio.to_thread(stage.put, name, file)
            if given.served:
                await stage.serve()
        yield stage
    finally:
        await stage.close()
        await pages.aclose()


def _told(text: str) -> str:
    """Return a text with what no data file can hold."""
    for name, stands_for in _WORDS.items():
        text = text.replace(f"{{{name}}}", stands_for)
    return text
