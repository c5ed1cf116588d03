"""Programs of sessions that work for one another, played twice: once for each of two values of one secret.

A program is a tree. Each node is a session's task: calls that it makes before it reads the secret, whether it reads it,
the calls that it makes then for each value, and how it ends. Beside that there is what a person does meanwhile. A model
of its own follows the program, so what a session does after it has read the secret is as different as it gets.

`Stage.play` returns all that anybody below the secret sees of a run: of every session the events before it first read
more than PUBLIC, as they stand in the log, and what a person at a PUBLIC address is told at the end. Ids and times are
replaced by the order in which they first appear. One scheduler that is always the same says whose turn is next.

A new thing that a session can do is a word of `WORDS`, one that a person can do is a word of `ACTS`, and what they are
told at the end is a line of `ASKED`: the generator and the law need no other change.
"""

# pyright: reportPrivateUsage=false
# The scheduler is in the place of the loop that serves.
import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from hypothesis import strategies as st
from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.access.authorize import Caller, Ingress
from bot.agent.call_runs import call_runs
from bot.agent.offline import OfflineModel
from bot.app import workers
from bot.app.app import App
from bot.core.clock import SystemClock
from bot.files.areas import Area
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import SessionState
from bot.store.records.marks import LogMarks
from bot.store.schema import READY
from bot.worker.lease import LeaseKeeper
from channels.messages import Address
from policy.labels import PUBLIC
from policy.request import Role
from tests.bot.kit import parts, policy
from tests.events import untimed
from tests.harness import HOME, Person, running
from tests.people import principal
from tests.store.world import command, end_by

if TYPE_CHECKING:
    from bot.agent.thinking import Thinking
    from bot.worker.worker import Worker

HIDDEN: Final = "drawer/secret.md"
"""The file that holds the secret, in a folder of CONFIDENTIAL."""

READS: Final[dict[str, JsonValue]] = {"path": HIDDEN}
PLACES: Final = 3
"""How many background sessions may live: few, so that places run out."""

POLICY: Final = policy(
    blocks={
        "limits": {
            "background_children": PLACES,
            "background_live": PLACES,
            "person_messages_per_minute": 10_000,
            # What fails counts as much as was set aside, so a few of these use it up.
            "person_daily_tokens": 40_000,
        },
    },
    principals={"owner": principal("console:owner", "console:desk")},
    recipients={
        "owner": {"channel": "console", "chat": "owner", "clearance": "top"},
        "desk": {"channel": "console", "chat": "desk", "clearance": "top"},
    },
    folders={
        "open": {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "PUBLIC"},
        "desk": {"floor": "INTERNAL", "integrity": "TRUSTED", "clearance": "CONFIDENTIAL"},
        "drawer": {"floor": "CONFIDENTIAL", "integrity": "TRUSTED", "clearance": "top"},
    },
)
FILES_THERE: Final = MappingProxyType({"open/note.md": "a note", "desk/list.md": "a list"})

WORDS: Final[Mapping[str, tuple[str, dict[str, JsonValue]]]] = MappingProxyType(
    {
        "tell": ("sessions_send", {"session_id": "parent", "content": "x"}),
        "tell root": ("sessions_send", {"session_id": "{root}", "content": "x"}),
        "tell desk": ("sessions_send", {"session_id": "{desk}", "content": "x"}),
        "look": ("read_file", {"path": "open/note.md"}),
        "climb": ("read_file", {"path": "desk/list.md"}),
        "miss": ("read_file", {"path": "drawer/none.md"}),
        "hold": ("read_file", {**READS, "_hold": True}),
        "keep": ("write_file", {"path": "open/kept.md", "text": "x"}),
        "hide": ("write_file", {"path": "drawer/kept.md", "text": "x"}),
        "list": ("sessions_list", {}),
        "status": ("session_status", {}),
        "status root": ("session_status", {"session_id": "{root}"}),
        "history": ("sessions_history", {"session_id": "{root}"}),
        "try": ("simulate_tool_call", {"tool_name": "sessions_spawn", "args": {"task": "x"}}),
    }
)
"""What a session can do beside to spawn: each is one call."""

ENDS: Final = ("answer", "fail", "nothing")
"""How a session can end: with an answer, with an error, or without saying anything."""

ASKED: Final = (
    "/sessions",
    "/agents",
    "/held",
    "/status",
    "/queue",
    "/history",
    "/history {desk}",
    "/approvals",
    "/usage",
    '/simulate sessions_spawn {"task": "x"}',
)
"""What is asked at the end at a PUBLIC address."""


@dataclass(frozen=True)
class Node:
    """A session's task: what it does before the secret, whether it reads that, and what it does for each value."""

    before: tuple["str | Node", ...] = ()
    reads: bool = False
    after: tuple[tuple["str | Node", ...], tuple["str | Node", ...]] = ((), ())
    ends: tuple[str, str] = ("answer", "answer")


@dataclass(frozen=True)
class Act:
    """What a person does, `rounds` after what was done before, or once all is still."""

    word: str
    rounds: int
    node: Node = Node()


@dataclass(frozen=True)
class Program:
    """What a person has done at first, and what they do afterwards."""

    root: Node
    acts: tuple[Act, ...] = ()


# Drawing programs -----------------------------------------------------------------------------------------------------

_words = st.sampled_from(sorted(WORDS))


def _steps(nodes: st.SearchStrategy[Node] | None, most: int = 3) -> st.SearchStrategy[tuple[str | Node, ...]]:
    one: st.SearchStrategy[str | Node] = _words if nodes is None else st.one_of(_words, nodes)
    return st.lists(one, max_size=most).map(tuple)


def _nodes(below: st.SearchStrategy[Node] | None) -> st.SearchStrategy[Node]:
    # A third reads nothing: what is as ever has to be told as ever.
    ends = st.sampled_from(ENDS)
    reading = st.builds(
        Node, _steps(below), st.just(value=True), st.tuples(_steps(below), _steps(below)), st.tuples(ends, ends)
    )
    return st.one_of(reading, reading, st.builds(Node, _steps(below), ends=ends.map(lambda end: (end, end))))


_grandchildren = _nodes(None)
_children = _nodes(_grandchildren)
_roots = st.builds(Node, _steps(_children), ends=st.just(("answer", "answer"))).filter(
    lambda node: any(isinstance(step, Node) for step in node.before)
)
_acts = st.one_of(
    st.builds(Act, st.sampled_from(("stop", "late", "say", "refuse", "take", "new")), st.integers(0, 4)),
    st.builds(Act, st.just("do"), st.integers(0, 4), st.one_of(_roots, _children)),
)
programs: Final = st.builds(Program, _roots, st.lists(_acts, max_size=3).map(tuple))
"""Programs. The smallest has one background session."""


# The model ------------------------------------------------------------------------------------------------------------


class Follower(OfflineModel):
    """A model that does what the program says for the task it was given, and repeats whatever else it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, Node] = {}
        self.names: dict[str, str] = {}

    def begin(self, root: Node, path: str) -> None:
        """Know the tasks of a tree by their paths."""
        self.nodes[path] = root
        for number, step in enumerate((*root.before, *root.after[0], *root.after[1])):
            if isinstance(step, Node):
                self.begin(step, f"{path}.{number}")

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the next step of the task that was said last."""
        prompt, since = _last(messages)
        path = prompt.partition("node ")[2] if prompt.startswith("node ") else ""
        made = self._next(path, since) if path in self.nodes else [TextPart(f"heard: {prompt}")]
        return ModelResponse(
            parts=made,
            usage=RequestUsage(input_tokens=1, output_tokens=1),
            model_name="offline",
            provider_name="offline",
        )

    def _next(self, path: str, since: list[ModelMessage]) -> list[TextPart | ToolCallPart]:
        """Return what a task's session does next: its calls in order, and its end."""
        node, answered = self.nodes[path], sum(isinstance(message, ModelResponse) for message in since)
        known = re.search(r"the secret is (\d)", _results(since))
        secret = int(known[1]) if known else None
        # One call at a time: reads that run together end in no order that a program could tell.
        calls = self._calls(path, 0, node.before)
        if node.reads:
            calls.append(ToolCallPart("read_file", dict(READS)))
        if secret is not None:
            first = len(node.before) + (len(node.after[0]) if secret else 0)
            calls += self._calls(path, first, node.after[secret])
        if answered < len(calls):
            return [calls[answered]]
        end = node.ends[secret or 0]
        if end == "fail":
            raise RuntimeError(end)
        return [TextPart("" if end == "nothing" else f"done {path}: {secret}")]

    def _calls(self, path: str, first: int, steps: tuple[str | Node, ...]) -> list[ToolCallPart]:
        made = list[ToolCallPart]()
        for number, step in enumerate(steps, first):
            if isinstance(step, Node):
                made.append(
                    ToolCallPart("sessions_spawn", {"task": f"node {path}.{number}", "title": f"{path}.{number}"})
                )
            else:
                tool, arguments = WORDS[step]
                made.append(ToolCallPart(tool, _filled(json.dumps(arguments), self.names)))
        return made


def _last(messages: list[ModelMessage]) -> tuple[str, list[ModelMessage]]:
    """Return what was said to the model last, and everything since."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if isinstance(message, ModelRequest):
            said = [str(part.content) for part in message.parts if isinstance(part, UserPromptPart)]
            if said:
                return said[-1], messages[number + 1 :]
    return "", messages


def _results(messages: list[ModelMessage]) -> str:
    found = [message for message in messages if isinstance(message, ModelRequest)]
    return "\n".join(str(part.content) for one in found for part in one.parts if isinstance(part, ToolReturnPart))


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


# Playing --------------------------------------------------------------------------------------------------------------

_ID: Final = re.compile(r"\b(?:[a-z0-9]{32}|[a-z0-9]{16})\b")
_CHILDREN: Final = re.compile(r"(children\W+\[)([^\]]*)(\])")
_REFERENCE: Final = re.compile(r'(?:"reference": "|under reference )(\w+)')
_TIME: Final = re.compile(r"\b\d{13}\b|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
_ROUNDS: Final = 200


@dataclass
class Stage:
    """An installation in which programs are played, one after another, each on an empty store."""

    owner: Person
    model: Follower
    keeper: LeaseKeeper
    thinking: "Thinking"
    people: dict[str, Person]
    names: dict[str, str] = field(default_factory=dict[str, str])
    worker: "Worker" = field(init=False)

    @property
    def app(self) -> App:
        return self.owner.app

    async def play(self, program: Program, secret: int) -> str:
        """Play a program with a value of the secret; return all that is seen of it below."""
        async with call_runs(0) as runs:
            self.worker = workers.worker(self.app.worker_parts(), self.keeper, self.thinking, runs)
            self.app._serving = self.worker
            try:
                return await self._played(program, secret)
            finally:
                self.app._serving = None

    async def _played(self, program: Program, secret: int) -> str:
        await self._empty(secret)
        self.model.nodes.clear()
        for at in ("desk", "owner"):
            await self._say("hello", at)
            await self._rounds(_ROUNDS)
        self._do(program.root, "0")
        await self._say("node 0")
        for number, act in enumerate(program.acts, 1):
            await self._rounds(act.rounds)
            await self._act(act, f"{number}")
        await self._rounds(_ROUNDS)
        await self.app.store.wake.sweep()
        return await self._seen()

    def _do(self, node: Node, path: str) -> None:
        self.model.begin(node, path)

    async def _act(self, act: Act, path: str) -> None:
        match act.word:
            case "do":
                self._do(act.node, path)
                await self._say(f"node {path}")
            case "say":
                await self._say("hello again")
            case "take":
                # The conversation reads the secret itself, and is above it from then on.
                self._do(Node(reads=True), path)
                await self._say(f"node {path}")
            case "stop":
                await self._say("/stop")
            case "new":
                await self._say("/reset confirm")
            case "late":
                await self._end_the_time()
            case "refuse":
                await self._refuse()
            case _:
                raise AssertionError(act.word)

    async def _say(self, text: str, at: str = "owner") -> None:
        await self.people[at].send(text)

    async def _end_the_time(self) -> None:
        """Let the time of every background session be over."""
        async for state in self.app.store.sessions.states():
            if state.lineage is not None:
                await end_by(self.app.store, state.sid, 1)

    async def _refuse(self) -> None:
        """Refuse all that is held for conversations; to let it in is a person's choice to raise them."""
        for sid in self.names.values():
            for held in await self.app.store.delegation.held(sid):
                await self.app.store.delegation.decide_held(sid, held.id, accept=False, op=self.app.ids.op(), audit=())

    async def _empty(self, secret: int) -> None:
        """Begin anew: an empty store, and the files as they were."""
        app, store = self.app, self.app.store
        await command(store, "FLUSHALL")
        await app._start(_nobody)
        store._shared.places.clear()
        store._shared.heads.clear()
        store._shared.marks = LogMarks()
        store.budgets._hinted.clear()
        app._simulations._used.clear()
        self.names |= {"{root}": app.session_id(HOME), "{desk}": app.session_id(Address("console", "desk"))}
        self.model.names = self.names
        await asyncio.to_thread(self._put_files, secret)

    def _put_files(self, secret: int) -> None:
        root = self.app.config.data_dir / Area.SHARED
        for path in ("open", "desk", "drawer"):
            for old in [one for one in (root / path).rglob("*") if one.is_file()] if (root / path).exists() else []:
                old.unlink()
        for path, text in {**FILES_THERE, HIDDEN: f"the secret is {secret}"}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")

    async def _rounds(self, most: int) -> None:
        """Let everybody who is ready have a turn, in the order of the program, round after round until all is still."""
        for _ in range(most):
            flat = cast("list[bytes]", await command(self.app.store, "ZPOPMIN", READY, 1000))
            found = [(await self.app.store.sessions.state(sid.decode()), sid.decode()) for sid in flat[::2]]
            if not found:
                return
            for state, sid in sorted(found, key=lambda one: _path(one[0])):
                await self._tick()
                if state is not None:
                    await self.worker._claim_and_run(sid)

    async def _tick(self) -> None:
        """Let a millisecond pass, so that what is sorted by time is sorted by turns."""
        before = self.app.clock.wall_ms()
        while self.app.clock.wall_ms() == before:  # noqa: ASYNC110 - a clock sets no event
            await asyncio.sleep(0.0002)

    async def _seen(self) -> str:
        """Return what is seen below, with ids and times by the order in which they first appear."""
        every = [state async for state in self.app.store.sessions.states()]
        states = sorted((state for state in every if state.creation.flows_to(PUBLIC)), key=_path)
        seen = list[str]()
        for state in states:
            seen.append(f"# {_path(state)}, {'' if not state.visibility.flows_to(PUBLIC) else _facts(state)}")
            seen += _below(await self.app.store.sessions.events(state.sid, limit=100_000))
            if state.visibility.flows_to(PUBLIC):
                seen += [f"waits {item.label} {item.body}" for item in await self.app.store.sessions.waiting(state.sid)]
        seen += await self._answers()
        return _canonical("\n".join(seen), [state.sid for state in states])

    async def _answers(self) -> list[str]:
        caller = Caller("owner", Role.OWNER, self.app.config.policy.top, Ingress.COMMAND)
        told = list[str]()
        for sid in self.names.values():
            context = self.app.commands.request(caller, Address("console", "outside"), sid)
            state = await self.app.store.sessions.state(sid)
            if state is None or not state.visibility.flows_to(PUBLIC):
                continue
            context = replace(context, now=state.updated_at)
            for line in ASKED:
                answer = await self.app.commands.answer(context, _filled(line, self.names))
                told.append(f"> {line}: {answer.label} {answer.text}")
        return told


def _path(state: SessionState | None) -> tuple[object, ...]:
    """Return where in the program a session belongs: conversations first, then tasks as their titles say."""
    if state is None:
        return (2,)
    if state.lineage is None:
        return (0, state.home)
    return (1, tuple(int(part) for part in state.lineage.title.split(".")))


def _facts(state: SessionState) -> str:
    last = "" if state.last_turn is None else state.last_turn.reason
    facts = (state.status, state.taint, state.visibility, state.generation, state.waiting_items, last)
    return " ".join(map(str, (*facts, state.usage, state.undelivered, state.ended_at > 0)))


def _below(events: tuple[Event, ...]) -> list[str]:
    """Return the events that were in the log while its session was PUBLIC, numbered in each of its generations."""
    seen, first, above = list[str](), dict[int, int](), set[int]()
    for event in events:
        if event.admitted and not event.label.flows_to(PUBLIC):
            above.add(event.generation)
        if event.generation not in above:
            seen.append(_line(event, event.seq - first.setdefault(event.generation, event.seq)))
    return seen


def _line(event: Event, place: int) -> str:
    # Of an error operators read where it was raised, and nobody else.
    body = untimed(event.body)
    if event.type is EventType.ERROR:
        del body["text"]
    facts = (place, event.type, event.actor, event.label, event.visibility, event.admitted, event.turn)
    if not event.label.flows_to(PUBLIC):
        # Of what is held below it is seen that there is something.
        body = {}
    return " ".join(map(str, (*facts, json.dumps(body, sort_keys=True))))


def _canonical(text: str, sids: list[str]) -> str:
    names = {sid: f"session{number}" for number, sid in enumerate(sids)}

    def name(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"id{len(names) - len(sids)}")

    for reference in dict.fromkeys(_REFERENCE.findall(text)):
        text = re.sub(rf"\b{reference}\b", name, text)
    text = _TIME.sub("TIME", _ID.sub(name, text))
    # They stand in the order of their ids, which are random.
    return _CHILDREN.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))) + found[3], text)


async def _nobody(_line: str) -> None:
    """Tell nobody."""


@asynccontextmanager
async def staged(folder: Path) -> AsyncGenerator[Stage]:
    """Open an installation in which nobody works but the scheduler."""
    model = Follower()
    async with running(folder, POLICY, parts=parts(model=model), serve=False) as owner:
        app = owner.app
        app.store._shared.options = replace(app.store._shared.options, debounce_ms=0)
        keeper = LeaseKeeper(app._open_own_store, app.config.store.lease_seconds, SystemClock())
        await app._start(_nobody)
        people = {at: Person(app, owner.output, Address("console", at)) for at in ("owner", "desk")}
        try:
            yield Stage(owner, model, keeper, await app.model_loader.thinking(), people)
        finally:
            await keeper.close()
