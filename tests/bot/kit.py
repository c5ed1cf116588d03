"""What tests of the application are made of: documents, standings, scripted models, tools that are watched."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.access.decision_context import Call, DecisionContext
from bot.app.extensions import Extensions
from bot.budgets import Budget
from bot.core.clock import SystemClock
from bot.core.errors import BusyError
from bot.core.ids import Ids
from bot.core.json_values import JsonObject
from bot.delegation.handoff import Handoff
from bot.files.local import LocalFiles
from bot.files.locations import FileLocation
from bot.files.port import LabelledFiles
from bot.gate.gate import Gate
from bot.history.folds import Folds
from bot.history.recall import unheard
from bot.rates import RateLimiter
from bot.secrets import Keyring
from bot.sessions.background.delegation import BoundedAnswer, Child, Errand, ResultField
from bot.sessions.background.runs import RunOrder, RunWish, StartedRun
from bot.sessions.budgets import Budgets, Shortage, Spent
from bot.sessions.limits import SessionLimits
from bot.sessions.log.event_types import AgentThinking, ToolCall, ToolResult
from bot.sessions.log.events import Event
from bot.sessions.models import Change, Status, Turn
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.ports.store import Store
from bot.tools import catalogue
from bot.tools.base import (
    CONTENT,
    Arguments,
    CallFacts,
    Content,
    Result,
    Tool,
    ToolCaller,
    ToolContext,
    ToolServices,
    ToolSession,
)
from bot.turn import OpenTurn
from channels.messages import Address
from channels.port import Audience
from policy.decision import Decision, Verdict
from policy.document.model import Document, load
from policy.labels import PUBLIC, Label, parse, top
from policy.request import Destination, Effect, Hook, Role
from tests.bot.uses import alone
from tests.events import bodies
from tests.harness import LOOK_SECONDS, Person, longer, running

TOP = top(())
HOME = Address("console", "owner")
GUEST = Address("console", "guest")
INTERNAL = parse("INTERNAL")
CONFIDENTIAL = parse("CONFIDENTIAL")
RESTRICTED = parse("RESTRICTED")
DIRTY = parse("PUBLIC~")
NO_SECRETS = Keyring()
NOW = 1_900_000_000_000


def document(**sections: object) -> Document:
    """Return the shipped policy with some sections replaced."""
    return load(sections, tools=catalogue.ARGUMENTS)


def standing(taint: Label = PUBLIC, **changes: object) -> DecisionContext:
    """Return where the owner's session at the console stands."""
    facts: dict[str, object] = {
        "sid": "s1",
        "generation": 1,
        "turn": "t1",
        "principal": "owner",
        "asker": "owner",
        "role": Role.OWNER,
        "ceiling": TOP,
        "home": HOME,
        "destination": Destination(str(HOME), "console", TOP),
        "taint": taint,
        "now": NOW,
        **changes,
    }
    return DecisionContext(**facts)  # pyright: ignore[reportArgumentType] - as above


def call(tool: str, arguments: Mapping[str, JsonValue] | None = None, name: str = "c1") -> Call:
    """Return a proposed call."""
    return Call(name, tool, {} if arguments is None else arguments)


def send(text: str, recipient: str = "guest", channel: str = "console") -> Call:
    """Return a proposed `message`."""
    return call("message", {"channel": channel, "recipient": recipient, "text": text})


async def everybody(address: Address) -> Audience:
    """Tell who reads at a console's chat: its own account."""
    return Audience.of(f"console:{address.chat}")


def gate(
    tools: Sequence[Tool],
    policy: Document | None = None,
    *,
    model: str = "offline",
    audiences: Callable[[Address], Awaitable[Audience]] = everybody,
    keyring: Keyring = NO_SECRETS,
) -> Gate:
    """Return a gate over some tools."""
    return Gate(
        document() if policy is None else policy,
        tools,
        (model,),
        audiences,
        keyring=keyring,
        spawner=Childless(),
        runs=Runless(),
    )


class TextArguments(Arguments):
    """One text, and anything beside it."""

    text: Content = ""
    more: Annotated[dict[str, JsonValue], CONTENT] | None = None


@dataclass
class Probe:
    """A tool made of what a test wants: what it declares, and what it does.

    `ran` keeps the contexts it ran in.
    """

    name: str = "probe"
    declared: CallFacts = field(default_factory=CallFacts)
    result: Result = field(default_factory=lambda: Result("done"))
    effect: Effect = Effect.READ
    label: Label | None = PUBLIC
    repeatable: bool = True
    server: str = ""
    does: Callable[[TextArguments, ToolContext, ToolServices], Awaitable[Result | None]] | None = None
    description: str = "a probe"
    arguments: type[Arguments] = TextArguments
    ran: list[ToolContext] = field(default_factory=list[ToolContext])
    said: list[TextArguments] = field(default_factory=list[TextArguments])

    def declare(self, arguments: TextArguments, context: ToolContext) -> CallFacts:
        """Declare what the test said."""
        return self.declared

    async def run(self, arguments: TextArguments, context: ToolContext, services: ToolServices) -> Result:
        """Do what the test said."""
        self.ran.append(context)
        self.said.append(arguments)
        result = None if self.does is None else await self.does(arguments, context, services)
        return self.result if result is None else result


def parts(*tools: Tool, model: Model | None = None) -> Extensions:
    """Return parts with some tools beside the built-in ones, and a model in the offline one's place."""

    def made(_files: LabelledFiles, _sessions: SessionStore) -> tuple[Tool, ...]:
        return tools

    return Extensions(tools=made, model=None if model is None else lambda _: model)


Reply = str | Sequence[ModelResponsePart] | BaseException


class Scripted(Model):
    """A model that answers with what a test wrote, in order, the last of it for ever; an exception is raised.

    `asked` keeps what it was sent, `parameters` and `instructions` what it was offered and told. `silent` makes it
    report no usage. `wait` is awaited before it answers.
    """

    def __init__(self, *replies: Reply, silent: bool = False, wait: asyncio.Event | None = None) -> None:
        super().__init__()
        self.asked: list[list[ModelMessage]] = []
        self.parameters: list[ModelRequestParameters] = []
        self.instructions: list[str] = []
        self._replies = list(replies)
        self._silent = silent
        self._wait = wait

    @property
    def model_name(self) -> str:
        return "scripted"

    @property
    def system(self) -> str:
        return "scripted"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self.parameters.append(model_request_parameters)
        last = messages[-1]
        self.instructions.append("" if isinstance(last, ModelResponse) else last.instructions or "")
        self.asked.append([ModelRequest(parts=[*m.parts]) if isinstance(m, ModelRequest) else m for m in messages])
        if self._wait is not None:
            await self._wait.wait()
        reply = self._replies[min(len(self.asked), len(self._replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        parts = [TextPart(reply)] if isinstance(reply, str) else list(reply)
        usage = RequestUsage() if self._silent else RequestUsage(input_tokens=10, output_tokens=5)
        return ModelResponse(parts=parts, usage=usage, model_name="scripted", provider_name="scripted")

    def then(self, *replies: Reply) -> None:
        """Answer with these once the others are said."""
        self._replies.extend(replies)

    def read(self) -> str:
        """Return everything this model was ever sent, as one text."""
        return "\n".join(
            str(part.content)
            for messages in self.asked
            for message in messages
            for part in message.parts
            if isinstance(part, TextPart | UserPromptPart | ToolReturnPart)
        )


def proposed(tool: str, arguments: Mapping[str, JsonValue] | str | None = None, name: str = "x") -> ToolCallPart:
    """Return a tool call as a model proposes it; a text is taken as it is."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCallPart(tool, given, tool_call_id=name)


def bang(tool: str, **arguments: JsonValue) -> str:
    """Return the line that makes the offline model propose a call."""
    return f"!{tool} {json.dumps(arguments)}"


def note(recipient: str, text: str) -> str:
    """Return the line that makes the offline model propose a `message`."""
    return bang("message", channel="console", recipient=recipient, text=text)


def results(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return tool and outcome of every result in a log, in order."""
    return [(result.tool, result.outcome.value) for result in bodies(events, ToolResult)]


def unanswered(events: Sequence[Event]) -> set[str]:
    """Return the ids of proposed calls that have no result (law `every_tool_call_has_a_result`)."""
    answered = {event.body.call for event in events if isinstance(event.body, ToolResult)}
    proposals = {event.body.call for event in events if isinstance(event.body, ToolCall)}
    for thinking in bodies(events, AgentThinking):
        proposals |= set(_proposals(thinking.response))
    return proposals - answered


def _proposals(response: JsonObject) -> list[str]:
    found = response["parts"]
    assert isinstance(found, list)
    return [str(part["tool_call_id"]) for part in found if isinstance(part, dict) and part["part_kind"] == "tool-call"]


def policy(**sections: object) -> str:
    """Return a config.yaml (JSON is YAML) with these sections under `policy`; other blocks go into `blocks`."""
    blocks = sections.pop("blocks", {})
    assert isinstance(blocks, dict)
    return json.dumps({**blocks, "policy": sections})


BOUND_MESSAGE: dict[str, object] = {"message": {"bounds": {"recipient": ["guest", "owner"], "identifier": ["console"]}}}
"""Tools of a policy by which `message` may go to the shipped recipients unasked after an endorsed answer."""


def with_secret(folder: Path, value: str) -> dict[str, object]:
    """Return the block of a configuration that names a secret of this value, which is put into a folder."""
    (folder / "secret").write_text(value, encoding="utf-8")
    return {"secrets": {"kept": {"file": str(folder / "secret"), "tools": ["read_file"], "hosts": ["a.example"]}}}


def often(limit: int = 100) -> RateLimiter:
    """Return a limiter of simulations."""
    return alone(SystemClock(), limit)


def handoff(store: Store) -> Handoff:
    """Return the shipped way of messages between sessions, for a process that a test plays."""
    return Handoff(store, 40, partial(unheard, store.sessions))


def folder_of_files(path: Path) -> LocalFiles:
    """Return a file root in an empty folder, with the shipped folders in it."""
    for name in ("public", "internal", "confidential"):
        (path / "files" / name).mkdir(parents=True)
    (path / "session-files").mkdir()
    return LocalFiles(path, lambda: TOP)


def base_on_disk(data_dir: Path, place: FileLocation) -> Path:
    """Return where the base folder of a place is on disk."""
    return data_dir.joinpath(place.area, *place.home)


def tool_context(taint: Label = PUBLIC, **changes: object) -> ToolContext:
    """Return what a tool is told of a session of the owner's at the console; a change names a field of any part."""
    caller: dict[str, object] = {
        "principal": "owner",
        "asker": "owner",
        "role": Role.OWNER,
        "ceiling": TOP,
        "reader": taint,
        "by_model": changes.get("turn", "t1") != "",
    }
    session: dict[str, object] = {"sid": "s1", "generation": 1, "turn": "t1", "home": HOME, "taint": taint}
    session |= {"run": None, "claim": None}
    facts: dict[str, object] = {"key": "s1/1/c1", "now": NOW, "document": document()}
    for name, value in changes.items():
        next(part for part in (caller, session, facts) if name in part)[name] = value
    made = ToolCaller(**caller), ToolSession(**session)  # pyright: ignore[reportArgumentType] - as above
    return ToolContext(*made, **facts)  # pyright: ignore[reportArgumentType] - as above


@dataclass
class Services:
    """What a call may ask that no gate decides on: everything may enter it, and nothing else is to be had."""

    permitting: Callable[[Label], bool] = lambda _: True
    masking: Callable[[str], str] = str
    revealing: Callable[[str, str], Awaitable[str | None]] | None = None

    def permits(self, label: Label) -> bool:
        return self.permitting(label)

    def mask(self, text: str) -> str:
        return self.masking(text)

    def scrub(self, text: str) -> str:
        return text

    async def simulate(self, name: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        return {"tool": name, "arguments": dict(arguments), "verdict": "ALLOW"}

    async def spawn(self, errand: Errand) -> Child:
        raise BusyError

    async def endorse(self, fields: tuple[ResultField, ...], seconds: int) -> BoundedAnswer:
        raise BusyError

    @property
    def veil(self) -> str:
        return ""

    async def start_run(self, wish: RunWish) -> StartedRun:
        raise BusyError

    def leads_to(self, address: Address) -> bool:
        return True

    async def reveal(self, text: str, host: str) -> str | None:
        return None if self.revealing is None else await self.revealing(text, host)

    async def onward(self, arguments: Mapping[str, JsonValue]) -> bool:
        return False


def tool_call(
    taint: Label = PUBLIC, permits: Callable[[Label], bool] = lambda _: True, **changes: object
) -> tuple[ToolContext, ToolServices]:
    """Return what a tool is run with, its context as of `tool_context`."""
    return tool_context(taint, **changes), Services(permits)


async def unrecorded(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
    """Let no decision be made while a call runs: most tools ask for none."""
    raise AssertionError(f"{hook} {decision.verdict.name} {told}")


class Uncounted:
    """Counts no tokens: where nothing is limited it is not asked."""

    async def reserve_tokens(self, *_: object, **__: object) -> Shortage | None:
        raise AssertionError

    async def settle_tokens(self, *_: object, **__: object) -> None:
        raise AssertionError

    async def reserve_of_session(self, *_: object, **__: object) -> Shortage | None:
        raise AssertionError

    async def charge_session(self, *_: object, **__: object) -> None:
        raise AssertionError

    async def spent_today(self) -> tuple[Spent, ...]:
        raise AssertionError


UNLIMITED = Budget(Uncounted(), Ids(), Budgets(), life=0, patience=0)


class Childless:
    """Makes no background sessions."""

    async def mint_child(self, standing: DecisionContext, key: str, errand: Errand) -> Child:
        raise BusyError

    async def endorse(
        self, standing: DecisionContext, key: str, fields: tuple[ResultField, ...], seconds: int
    ) -> BoundedAnswer:
        raise BusyError

    async def charge(self, standing: DecisionContext, run: str, millibits: int) -> bool:
        return False


class Runless:
    """Makes no runs."""

    async def mint_run(self, order: RunOrder) -> StartedRun:
        raise BusyError


@asynccontextmanager
async def by_hand(folder: Path, config: str = "") -> AsyncGenerator[tuple[Person, OpenTurn]]:
    """Open a turn by hand, as a worker does."""
    async with running(folder, config, serve=False) as owner:
        await owner.send("hello")
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        assert claim is not None
        item = claim.items[0]
        record = Turn("t1", item.position, item.dedupe, item.sender, claim.now)
        here = standing(sid=owner.sid, now=claim.now)
        folds = Folds().plus(claim.events)
        turn = OpenTurn(
            owner.app.store.sessions,
            Ids(),
            claim,
            record=record,
            standing=here,
            sender=owner.app.outbox,
            folds=folds,
            limits=SessionLimits(None, 600, None),
        )
        await turn.write(Change(take=item.position, turn=record, status=Status.RUNNING))
        yield owner, turn


async def eventually(holds: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Wait until something holds."""
    pause = LOOK_SECONDS
    async with asyncio.timeout(seconds):
        while True:
            if await holds():
                return
            await asyncio.sleep(pause)
            pause = longer(pause)


def rule(**fields: object) -> Document:
    """Return the shipped policy with one rule."""
    return document(rules=[{"id": "mine", **fields}])


def blocked_by(decision: Decision) -> set[str]:
    """Return the rules that block, of a decision that does."""
    assert decision.verdict is Verdict.BLOCK
    return {outcome.rule for outcome in decision.outcomes if outcome.verdict is Verdict.BLOCK}
