"""The `policy:` section of the configuration, validated: the last place where policy is text.

`load` turns what the YAML reader gives into a frozen `Document` whose labels are `Label`s, or raises
with every problem at once, each with its path and the nearest valid name. A section that is left out
is taken from `defaults`, which alone is a complete policy for the console product. Files and line
numbers are the loader's (`bot/config`); nothing here reads any.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated, Final, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails

from policy import labels, reading, reading_rules
from policy.decision import Verdict
from policy.errors import DocumentError, Problem, nearest
from policy.expressions import Expression
from policy.labels import PUBLIC, Integrity, Label, Level
from policy.request import Effect, Hook, Overshoot, Role, Tool
from policy.rules import Rule
from policy.schedule import Schedule

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

_ACTIONS: Final = MappingProxyType({name: Verdict[name] for name in ("BLOCK", "REQUIRE_APPROVAL", "REDACT")})
_OVERSHOOT: Final = ("allow", "block")
_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string_type": "a text",
        "invalid_key": "a text",
        "bool_type": "`true` or `false`",
        "tuple_type": "a list",
        "mapping_type": "a mapping",
        "dict_type": "a mapping",
        "model_type": "a mapping",
    }
)


def _known(info: ValidationInfo) -> reading.Known:
    return cast("reading.Known", info.context)


def _with(read: Callable[[_T, reading.Known], _V]) -> Callable[[_T, ValidationInfo], _V]:
    """Give a reader the names the document knows."""
    return lambda value, info: read(value, _known(info))


def _channel_name(value: str, info: ValidationInfo) -> str:
    return reading.one_of("channel", value, _known(info).channels)


def _tool_name(value: str, info: ValidationInfo) -> str:
    return reading.one_of("tool", value, _known(info).tools)


def _tool_globs(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return reading.tool_globs(value, _known(info), info.data.get("hook"))


def _channel_globs(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return reading.globs("channel", value, _known(info).channels)


def _pattern(value: str | None, info: ValidationInfo) -> str | None:
    return reading.pattern(value, _known(info), info.data.get("hook"), info.data.get("action"))


def _action(value: Verdict, info: ValidationInfo) -> Verdict:
    return reading.action(value, info.data.get("hook"))


def _approvers(value: tuple[Role, ...], info: ValidationInfo) -> tuple[Role, ...]:
    return reading.approvers(value, info.data.get("action"))


def _timeout(value: object, info: ValidationInfo) -> int:
    return reading.timeout(value, info.data.get("action"))


def _when(value: object, info: ValidationInfo) -> Expression | None:
    return reading_rules.when(value, _known(info), info.data.get("hook"), info.data.get("tools"))


def _overshoot(value: object) -> Overshoot:
    return cast("Overshoot", reading.one_of("overshoot", str(value), _OVERSHOOT))


_Frozen = Annotated[Mapping[_K, _V], AfterValidator(MappingProxyType)]
_Name = Annotated[str, AfterValidator(reading.name)]
_ChannelName = Annotated[str, AfterValidator(_channel_name)]
_Label = Annotated[Label, PlainValidator(_with(reading.label))]
_Overshoot = Annotated[Overshoot, PlainValidator(_overshoot)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Principal(_Entry):
    """Who may speak to the bot: a role, a clearance and the accounts known to be this person's.

    `may_release` is the right to send what he is shown below its label; no role includes it.
    """

    role: Annotated[Role, PlainValidator(reading.member("role", {role.value: role for role in Role}))]
    clearance: _Label
    accounts: tuple[Annotated[str, AfterValidator(_with(reading.account))], ...]
    may_release: StrictBool = False


class Channel(_Entry):
    """What may be said over a channel, and the label of what is typed there."""

    classification: _Label
    inbound: _Label = PUBLIC
    overshoot: _Overshoot = "block"


class Recipient(_Entry):
    """An alias that the `message` tool may name."""

    channel: _ChannelName
    chat: str
    clearance: _Label


class Folder(_Entry):
    """A folder under the file root: the least label of what is read from it, the highest that may be written to it.

    A `clearance` of None means that nothing is known, so that it counts as PUBLIC.
    """

    floor: _Label
    integrity: Annotated[Integrity, PlainValidator(reading.member("integrity", Integrity.__members__))] = (
        Integrity.UNTRUSTED
    )
    clearance: _Label | None = None

    @property
    def label(self) -> Label:
        """The label of whatever is read from here, before that of the file itself is joined."""
        return self.floor.join(Label(Level.PUBLIC, frozenset(), self.integrity))


class McpServer(Folder):
    """An MCP server, labelled as a folder is: what its tools return, errors too, and what they may be told."""


class ToolOverride(_Entry):
    """What an operator tightens about a tool."""

    result: _Label | None = None
    clearance: _Label | None = None
    consequential: Annotated[StrictBool, AfterValidator(reading.only_true)] | None = None
    hold: Annotated[StrictBool, AfterValidator(reading.only_true)] | None = None


class Model(_Entry):
    """A model provider."""

    clearance: _Label


class RuleEntry(_Entry):
    """One configured rule.

    `approvers` are the roles that may answer for it and `timeout` the seconds until silence means no, None for as
    long as any question stands; both concern REQUIRE_APPROVAL alone.
    """

    id: Annotated[str, AfterValidator(_with(reading.rule_id))]
    hook: Annotated[Hook, PlainValidator(reading.member("hook", {hook.value: hook for hook in Hook}))]
    action: Annotated[Verdict, PlainValidator(reading.member("action", _ACTIONS)), AfterValidator(_action)]
    tools: Annotated[tuple[str, ...], AfterValidator(_tool_globs)] = ()
    channels: Annotated[tuple[str, ...], AfterValidator(_channel_globs)] = ()
    taint: Annotated[frozenset[Level], PlainValidator(reading.levels)] = frozenset(Level)
    untrusted: StrictBool | None = None
    pattern: Annotated[str | None, AfterValidator(_pattern), Field(validate_default=True)] = None
    schedule: Annotated[Schedule | None, PlainValidator(reading_rules.schedule)] = None
    when: Annotated[Expression | None, PlainValidator(_when)] = None
    message: str = ""
    approvers: Annotated[
        tuple[Annotated[Role, PlainValidator(reading.member("role", reading.APPROVERS))], ...],
        AfterValidator(_approvers),
    ] = (Role.OWNER, Role.ADMIN, Role.APPROVER)
    timeout: Annotated[int | None, PlainValidator(_timeout)] = None

    def compiled(self) -> Rule:
        """Return the rule as the engine takes it."""
        return Rule(
            self.id,
            self.hook,
            self.action,
            self.message,
            self.tools,
            self.channels,
            self.taint,
            self.untrusted,
            self.pattern,
            self.schedule,
            self.when,
        )


class Document(_Entry):
    """A policy that can be put in force. What it does not know, its methods answer with the worst."""

    compartments: tuple[Annotated[str, AfterValidator(reading.compartment)], ...]
    principals: _Frozen[_Name, Principal]
    channels: _Frozen[_Name, Channel]
    recipients: _Frozen[_Name, Recipient]
    folders: _Frozen[Annotated[str, AfterValidator(reading.folder)], Folder]
    mcp_servers: _Frozen[Annotated[str, AfterValidator(_with(reading.server))], McpServer]
    tools: _Frozen[Annotated[str, AfterValidator(_tool_name)], ToolOverride]
    models: _Frozen[str, Model]
    patterns: Annotated[
        _Frozen[
            Annotated[str, AfterValidator(reading.pattern_name)], Annotated[str, AfterValidator(reading.pattern_text)]
        ],
        AfterValidator(reading.few),
    ]
    rules: tuple[RuleEntry, ...]

    @property
    def top(self) -> Label:
        """The highest label of this configuration."""
        return labels.top(self.compartments)

    @property
    def digest(self) -> str:
        """The policy's name: a SHA-256 in hex over its canonical form, blind to the order of keys and rules."""
        canonical = json.dumps(_canonical(self), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    def principal(self, account: str) -> tuple[str, Principal] | None:
        """Return name and entry of the principal an account belongs to, `None` for a stranger."""
        return next(((name, who) for name, who in self.principals.items() if account in who.accounts), None)

    def may_release(self, principal: str) -> bool:
        """Say whether a principal holds the right to release."""
        person = self.principals.get(principal)
        return person is not None and person.may_release

    def channel(self, name: str) -> Channel:
        """Return a channel's entry; an unknown one may be told nothing and what it says is worst."""
        unknown = Channel.model_construct(classification=PUBLIC, inbound=self.top, overshoot="block")
        return self.channels.get(name, unknown)

    def rule(self, name: str) -> RuleEntry | None:
        """Return a configured rule, `None` for one that is not in force."""
        return next((rule for rule in self.rules if rule.id == name), None)

    def folder(self, name: str) -> Folder:
        """Return a folder's entry; an unknown one holds the worst and nothing may be written to it."""
        unknown = Folder.model_construct(floor=self.top, integrity=Integrity.UNTRUSTED, clearance=None)
        return self.folders.get(name, unknown)

    def provider(self, model: str) -> Label:
        """Return the clearance of a model's provider, PUBLIC for an unknown one."""
        entry = self.models.get(model)
        return PUBLIC if entry is None else entry.clearance

    def holds(self, tool: str) -> bool:
        """Say whether what a tool returns is kept out of the context."""
        override = self.tools.get(tool)
        return override is not None and override.hold is True

    def tool(self, declared: Tool) -> Tool:
        """Return a tool's facts as tightened here: a higher result, a lower clearance, more caution.

        A tool that declares no result gets the configured one. A sink the tool knows no clearance of
        stays PUBLIC; a tool without a sink gets one. What an MCP server is asked leaves for it, so that all
        its tools have a sink; those of one that is not known here stay unlabelled, which blocks.
        """
        if declared.server:
            server = self.mcp_servers.get(declared.server)
            if server is None:
                return replace(declared, result=None, clearance=PUBLIC)
            declared = replace(declared, result=server.label, clearance=server.clearance or PUBLIC)
        override = self.tools.get(declared.name)
        if override is None:
            return declared
        result, clearance = declared.result, declared.clearance
        if override.result is not None:
            result = override.result if result is None else result.join(override.result)
        if override.clearance is not None:
            outward = declared.effect in (Effect.WRITE, Effect.SEND)
            known = clearance or (PUBLIC if outward else self.top)
            clearance = known.meet(override.clearance)
        consequential = declared.consequential or override.consequential is True
        return replace(declared, result=result, clearance=clearance, consequential=consequential)


def defaults() -> dict[str, object]:
    """Return the policy of the shipped console product, in the shape `load` takes."""
    return {
        "compartments": [],
        "principals": {"owner": {"role": "owner", "clearance": "top", "accounts": ["console:owner"]}},
        "channels": {"console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"}},
        "recipients": {
            "owner": {"channel": "console", "chat": "owner", "clearance": "top"},
            "guest": {"channel": "console", "chat": "guest", "clearance": "PUBLIC"},
        },
        "folders": {
            "public": {"floor": "PUBLIC", "integrity": "UNTRUSTED", "clearance": "PUBLIC"},
            "internal": {"floor": "INTERNAL", "integrity": "UNTRUSTED", "clearance": "INTERNAL"},
            "confidential": {"floor": "CONFIDENTIAL", "integrity": "UNTRUSTED", "clearance": "CONFIDENTIAL"},
        },
        "mcp_servers": {},
        "tools": {},
        "models": {"offline": {"clearance": "top"}},
        "patterns": {},
        "rules": [],
    }


_ENTRIES: Final[Mapping[object, type[_Entry]]] = MappingProxyType(
    {
        "principals": Principal,
        "channels": Channel,
        "recipients": Recipient,
        "folders": Folder,
        "mcp_servers": McpServer,
        "tools": ToolOverride,
        "models": Model,
        "rules": RuleEntry,
    }
)


def load(raw: object, *, tools: Collection[str], servers: Collection[str] = ()) -> Document:
    """Validate a `policy:` section as the YAML reader gives it.

    `tools` are the names of all known tools, or those names each with its arguments and their types, as
    `policy.expressions` calls them; without these no condition can look at an argument. `servers` are the
    names of the configured MCP servers.

    Raises DocumentError: with every problem of the section.
    """
    if not isinstance(raw, Mapping):
        raise DocumentError((Problem((), reading.printable(f"`{raw}` is not a mapping")),))
    merged = {**defaults(), **cast("Mapping[object, object]", raw)}
    try:
        return Document.model_validate(merged, context=reading.gather(merged, tools, servers))
    except ValidationError as error:
        raise DocumentError(tuple(_problems(error))) from None


def _problems(error: ValidationError) -> list[Problem]:
    """Turn pydantic's errors into the operator's, each once."""
    found = [_problem(detail) for detail in error.errors(include_url=False)]
    return list(dict.fromkeys(found))


def _problem(detail: ErrorDetails) -> Problem:
    # pydantic marks an error in a mapping's key by one more element
    path = tuple(part for part in detail["loc"] if part != "[key]")
    kind = detail["type"]
    if kind == "value_error":
        message = str(detail.get("ctx", {})["error"])
    elif kind == "extra_forbidden":
        fields = (Document if len(path) == 1 else _ENTRIES[path[0]]).model_fields
        message = f"unknown field `{path[-1]}`{nearest(str(path[-1]), fields)}"
    elif kind == "missing":
        path, message = path[:-1], f"`{path[-1]}` is missing, add it"
    else:
        message = f"`{detail['input']}` is not {_EXPECTED.get(kind, 'valid here')}"
    return Problem(path, reading.printable(message))


def _canonical(value: object) -> object:
    """Return a value in JSON's terms such that equal policies give equal text; no list of a policy has an order."""
    if isinstance(value, BaseModel):
        return {name: _canonical(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _canonical(entry) for name, entry in cast("Mapping[str, object]", value).items()}
    if isinstance(value, tuple | frozenset):
        entries = [_canonical(entry) for entry in cast("Collection[object]", value)]
        return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
    if isinstance(value, Enum):
        return value.name
    return str(value) if isinstance(value, Label | Expression | Schedule) else value
