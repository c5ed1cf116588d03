"""Cases of a policy, as a file holds them: a request, a moment, and the expected decision.

A case names the facts that the gate establishes at run time. Every omitted fact is as for a fresh session of the owner
at the console.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal, cast

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from bot.access import labelling, principals
from bot.access.authorize import role
from bot.cli.cases.chats import CaseHome, chat_address, chat_with
from bot.cli.cases.held import held_result, with_references
from bot.cli.cases.steering import steered_in
from bot.config.file.yaml import BrokenYamlError, Parsed, parse_yaml
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.gate.judge import trial
from bot.sessions.background.delegation import FieldKind
from bot.sessions.log.events import DeferredResult
from bot.tools.arguments import strings
from channels.messages import Address
from policy.decision import Decision
from policy.document.groups import moments, policy_at
from policy.document.model import Document
from policy.document.overrides import Overrides
from policy.errors import LabelTextError, nearest
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Hook, Others, Request, Role, Secret, ToolFacts

_LARGEST: Final = 1_000_000
NOON: Final = datetime(2030, 1, 7, 12, tzinfo=UTC)
"""When a case without a moment takes place: a Monday at noon."""


def _label(value: object) -> object:
    if value == "top" or isinstance(value, Label):
        return value
    try:
        return parse(str(value))
    except LabelTextError as error:
        raise ValueError(str(error)) from None


_Label = Annotated[Label | Literal["top"], BeforeValidator(_label)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class CaseTool(_Part):
    """A call's tool as it declares itself; the policy's section `tools` tightens it.

    With a `server` it is an MCP server's, which the policy labels.
    """

    name: str
    effect: Effect = Effect.NONE
    result: _Label | None = PUBLIC
    clearance: _Label | None = None
    consequential: bool = False
    asks: bool = False
    server: str = ""


class CaseDestination(_Part):
    """An address: a chat of the policy, one of its recipients, or a channel with the clearance of its readers.

    `members` and `complete` are as in `CaseRequest`, and for the chat of that request the same unless they are given.
    """

    chat: str | None = None
    members: tuple[str, ...] | None = None
    complete: bool | None = None
    recipient: str | None = None
    channel: str = "console"
    clearance: _Label | None = None
    shared: bool = False


class CaseSecret(_Part):
    """A secret, and whether the configuration names it for the tool and host."""

    name: str
    granted: bool = True


class CaseHeld(_Part):
    """A held result that references of the call name by an id.

    With `tool`, the tool that gave it, calls may take its entries: the `output` of that tool tells their kinds.
    `answer` has the fields of an answer of `inspect`, each with its type.
    """

    label: _Label
    tool: str = ""
    answer: Mapping[str, FieldKind] = Field(default_factory=dict[str, FieldKind])


class CaseRequest(_Part):
    """A request, in an operator's words.

    With `chat`, the session is that of a chat of the policy; its principal is then the chat. `members` are the people,
    groups and accounts that read there, and `complete` says whether the platform lists all of them.

    With `endorsed`, the conversation has heard a bounded answer: the values of `arguments` then steer the call by the
    roles that its tool declares.

    `held` are the held results that references in `arguments` name, by ids of the case.

    `asker` is the person who set it going, in a shared chat one of its members, else the principal. `others` are people
    whose words are in the conversation, too. `asker_role` and `other_roles` are their roles where those are not the
    policy's.
    """

    hook: Hook
    chat: str | None = None
    members: tuple[str, ...] = ()
    complete: bool = True
    principal: str | None = None
    asker: str | None = None
    asker_role: Role | None = None
    others: tuple[str, ...] = ()
    other_roles: tuple[Role, ...] | None = None
    channel: str | None = None
    model: str | None = None
    taint: _Label = PUBLIC
    item: _Label | None = None
    tool: CaseTool | None = None
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict)
    held: Mapping[str, CaseHeld] = Field(default_factory=dict[str, CaseHeld])
    destination: CaseDestination | None = None
    secret: CaseSecret | None = None
    content: str | None = None
    endorsed: bool = False
    approved: bool = False
    confirmed: bool = False


class Case(_Part):
    """One case; `rules` are the ids of the rules that do not simply allow, in any order, None for any rules.

    `log_only` are those of the rules that would not, if they were applied.
    """

    case: str
    request: CaseRequest
    at: AwareDatetime = NOON
    verdict: Literal["ALLOW", "REDACT", "REQUIRE_APPROVAL", "BLOCK"]
    rules: tuple[str, ...] | None = None
    remedies: tuple[str, ...] | None = None
    log_only: tuple[str, ...] | None = None


class CaseFile(_Part):
    """A file of cases."""

    cases: tuple[Case, ...] = Field(min_length=1)


def read_cases(path: Path) -> tuple[tuple[int, Case], ...]:
    """Return the cases of a file, each with its line.

    Raises OperatorError: the file cannot be read, or says something else than cases, with every problem by line.
    """
    parsed = _parsed(path)
    problems = [(parsed.line(problem.path), problem.message) for problem in parsed.problems]
    try:
        file = CaseFile.model_validate(parsed.value)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            place = tuple(part for part in details["loc"] if part not in {"function-before", "top"})
            problems.append((parsed.line(place), _told(place, details["type"], details["msg"])))
    else:
        if not problems:
            return tuple((parsed.line(("cases", place)), case) for place, case in enumerate(file.cases))
    lines = [f"{path}:{line}: {message}" for line, message in sorted(set(problems))]
    raise OperatorError("\n".join(lines), next_step="docs/policy-guide.md shows the form of a case")


def _parsed(path: Path) -> Parsed:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{path}: cannot be read", next_step="name a file of cases") from error
    if len(text) > _LARGEST:
        raise OperatorError(f"{path}: larger than 1 MB, split it")
    try:
        return parse_yaml(text)
    except BrokenYamlError as error:
        raise OperatorError(f"{path}:{error.line}: {error}") from None


def _told(place: tuple[str | int, ...], kind: str, message: str) -> str:
    name = str(place[-1]) if place else "the file"
    if kind == "extra_forbidden":
        block = CaseRequest if len(place) > 3 else Case if len(place) > 1 else CaseFile  # noqa: PLR2004 - cases, n, request
        close, home = nearest(name, block.model_fields), _belongs(name, place, block)
        return f"unknown field `{name}`{(close if block is CaseFile and 'did you mean' in close else home) or close}"
    return f"`{name}` is missing, add it" if kind == "missing" else f"`{name}`: {message[:1].lower()}{message[1:]}"


def _belongs(name: str, place: tuple[str | int, ...], block: type[BaseModel]) -> str:
    """Say where a field belongs that stands at a wrong place, empty for a field that there is nowhere."""
    homes = {
        "the case itself, beside `request`": Case,
        "`request`": CaseRequest,
        "`request.tool`": CaseTool,
        "`request.destination`": CaseDestination,
        "`request.secret`": CaseSecret,
        "a result of `request.held`": CaseHeld,
    }
    here = _IN_REQUEST.get(str(place[3])) if len(place) > 4 else block  # noqa: PLR2004 - cases, n, request, its block
    found = [told for told, fields in homes.items() if name in fields.model_fields and fields is not here]
    return f" here, it belongs into {' or '.join(found)}" if found else ""


_IN_REQUEST: Final = MappingProxyType(
    {"tool": CaseTool, "destination": CaseDestination, "secret": CaseSecret, "held": CaseHeld}
)
"""The blocks of fields within a request."""


def _written(policy: Document, written: Label | Literal["top"] | None) -> Label | None:
    return policy.top if written == "top" else written


def _destination(case: CaseRequest, policy: Document) -> Destination | None:
    """Return where a case has something said, by its name in the configuration where it has one."""
    told = case.destination
    if told is None:
        return None
    if told.chat is not None:
        members, complete = (case.members, case.complete) if told.chat == case.chat else ((), True)
        members = members if told.members is None else told.members
        return chat_with(policy, told.chat, members, complete=complete if told.complete is None else told.complete)
    named = policy.recipients.get(told.recipient or "", ())
    there = next((place for place in named if len(named) == 1 or place.channel == told.channel), None)
    address = told.recipient or "somewhere"
    if there is None:
        return Destination(address, told.channel, _written(policy, told.clearance), told.shared)
    return Destination(address, there.channel, policy.channel(there.channel).classification.meet(there.clearance))


def _tool(case: CaseRequest, policy: Document) -> ToolFacts | None:
    """Return the tool that a case calls, as the configuration has it."""
    told = case.tool
    if told is None:
        return None
    result, sink = _written(policy, told.result), _written(policy, told.clearance)
    facts = ToolFacts(told.name, told.effect, result, sink, told.consequential, server=told.server, asks=told.asks)
    return policy.tool(facts)


class CaseEngines:
    """Decides cases, each by the policy at its moment."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engines = dict[datetime | None, Callable[[Request, datetime], Decision]]()

    def decided(self, case: Case) -> tuple[Request, Decision]:
        """Return the request of a case and its decision. Raises OperatorError: a name in it is not known."""
        policy = self._config.policy
        lasting = not policy.groups and not any(moments(policy))
        moment = None if lasting else case.at
        if moment not in self._engines:
            self._engines[moment] = trial(policy_at(policy, Overrides(), case.at))
        request = request_of(case.request, self._config, case.at)
        return request, self._engines[moment](request, case.at)


def request_of(case: CaseRequest, config: Config, at: datetime = NOON) -> Request:
    """Return the request that a case describes at a moment, with the policy's facts about its names.

    Raises OperatorError: a name of its chat or members is not known, or it does not say who asks there.
    """
    policy = policy_at(config.policy, Overrides(), at)
    place = _home(case, policy)
    held = tuple(_held(case, config, policy))
    name, channel = place.principal, policy.channel(place.channel)
    principal, asker = policy.principals.get(name), name if case.asker is None else case.asker
    clearance = labelling.ceiling(policy, name, asker) or PUBLIC
    there = place.destination
    request = Request(
        hook=case.hook,
        principal=name,
        role=role(policy, name, asker) if principal is None else principal.role,
        channel=place.channel,
        taint=_written(policy, case.taint) or PUBLIC,
        ceiling=clearance,
        provider=policy.provider(case.model or config.model.name),
        home=channel.classification.meet(clearance) if there is None else there.clearance or PUBLIC,
        item=_written(policy, case.item),
        tool=_tool(case, policy),
        secret=None if case.secret is None else Secret(case.secret.name, granted=case.secret.granted),
        destination=_destination(case, policy),
        content="\n".join(strings(dict(case.arguments))) if case.content is None else case.content,
        arguments=tuple(case.arguments.items()),
        overshoot=channel.overshoot if there is None else place.overshoot(policy),
        home_readers=None if there is None else there.readers,
        home_vouched=None if there is None else there.vouched,
        approved=case.approved,
        confirmed=case.confirmed,
        asker=asker,
        asker_role=case.asker_role or role(policy, asker, asker),
        principal_groups=policy.groups_of(name),
        asker_groups=policy.groups_of(asker),
        others=_others(case, policy, place),
    )
    request = with_references(request, config, policy, held, heard=case.endorsed)
    if not case.endorsed or case.tool is None:
        return request
    given = cast("Mapping[str, JsonValue]", dict(request.arguments))
    return replace(request, steered=steered_in(config, policy, case.tool.name, given, at=at))


def _held(case: CaseRequest, config: Config, policy: Document) -> Iterator[DeferredResult]:
    """Yield the held results of a case."""
    for ref, one in case.held.items():
        label = _written(policy, one.label) or PUBLIC
        yield held_result(config, ref, label, tool=one.tool, answer=one.answer)


def _others(case: CaseRequest, policy: Document, place: CaseHome) -> Others | None:
    """Return the known facts about the other people of a case; if only roles are given, these may know PUBLIC."""
    known = labelling.others(policy, place.principal, place.address, case.others)
    if case.other_roles is None:
        return known
    roles = frozenset(case.other_roles)
    return Others(PUBLIC if known is None else known.clearance, roles) if roles else None


def _home(case: CaseRequest, policy: Document) -> CaseHome:
    """Return the session's home in a case: a chat of the policy, or a channel."""
    if case.chat is None:
        if case.members:
            raise OperatorError("`members` are those of a chat", next_step="name it as `chat` beside them")
        return CaseHome(case.principal or "owner", Address(case.channel or "console", ""))
    if case.asker is None or case.channel is not None or case.principal is not None:
        raise OperatorError(
            f"a case in the chat `{case.chat}` names its `asker`, and neither `principal` nor `channel`",
            next_step="write `asker: NAME` and leave the others out",
        )
    address = chat_address(policy, case.chat)
    there = chat_with(policy, case.chat, case.members, complete=case.complete)
    return CaseHome(principals.of_chat(address), address, there)
