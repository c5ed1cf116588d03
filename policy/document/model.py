"""The `policy:` section of the configuration, validated: the last place where policy is text.

`load` turns the parsed YAML into a frozen `Document` whose labels are `Label`s. On failure it raises once with every
problem, each with its path and the nearest valid name. A section that is left out is taken from `defaults`, which alone
is a complete policy for the console product. Files and line numbers are the loader's (`bot/config`); nothing here reads
any.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from datetime import date
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated, Final, cast

from pydantic import AfterValidator, BaseModel, PrivateAttr, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from policy import labels
from policy.conditions.expressions import Expression
from policy.conditions.schedule import WeeklyWindow
from policy.document import reading, reading_rules
from policy.document.bounds import NO_BOUNDS, AmountBound, Bounds, TimeBound
from policy.document.entries import (
    APPROVERS,
    ChannelEntry,
    Chat,
    Entry,
    Folder,
    Frozen,
    Group,
    Hold,
    McpServer,
    Member,
    Model,
    Name,
    Paired,
    Places,
    Principal,
    Recipient,
    RuleEntry,
    ToolName,
    ToolOverride,
    TranscriberEntry,
    with_known,
)
from policy.errors import DocumentError, Problem, nearest
from policy.labels import PUBLIC, Integrity, Label
from policy.request import Effect, Overshoot, Role, ToolFacts
from policy.rules import CodeRules, Rule

_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string_type": "a text",
        "invalid_key": "a text",
        "bool_type": "`true` or `false`",
        **dict.fromkeys(
            ("int_type", "greater_than_equal", "less_than_equal"), "a number of texts, write one from 0 to 50"
        ),
        "tuple_type": "a list",
        "mapping_type": "a mapping",
        "dict_type": "a mapping",
        "model_type": "a mapping",
    }
)

_SHORT: Final = 12
_IN_GROUP: Final = 3
"""The parts of a path to a field of a group; a path to a field of a member has more."""

_IN_TOOL: Final = 3
"""The parts of a path to a field of a tool; a path to one of its bounds has more."""

_WORD: Final = re.compile("'([^']*)'")
_CALLED: Final = MappingProxyType({"approver": "role"})


def _each_once(chats: Mapping[str, Chat]) -> Mapping[str, Chat]:
    """Refuse two entries for one chat, and two chats of operators."""
    known = dict[tuple[str, str, str], str]()
    for name, chat in chats.items():
        first = known.setdefault((chat.channel, chat.workspace, chat.chat), name)
        if first != name:
            raise reading.refusal(f"`{first}` and `{name}` are the same chat, keep one of them")
    asked = [name for name, chat in chats.items() if chat.approvals]
    if len(asked) > 1:
        raise reading.refusal(f"`{asked[0]}` and `{asked[1]}` both have `approvals: true`, keep it at one of them")
    return chats


def _acyclic(groups: Mapping[str, Group]) -> Mapping[str, Group]:
    """Refuse a group that contains itself."""
    reading.acyclic({name: tuple(member.name for member in group.members) for name, group in groups.items()})
    return groups


def _with_contents(tools: Mapping[str, ToolOverride], info: ValidationInfo) -> Mapping[str, ToolOverride]:
    """Refuse a treatment of UNTRUSTED content that a tool cannot have."""
    # Absent where a server's entry could not be read, which is an error of its own.
    servers: Mapping[str, McpServer] = info.data.get("mcp_servers", {})
    trusted = frozenset(name for name, server in servers.items() if server.integrity is Integrity.TRUSTED)
    for name, override in tools.items():
        if override.untrusted_content is not None:
            reading.untrusted_content(name, override.untrusted_content, servers, trusted)
    return tools


def _listed_arguments(tools: Mapping[str, ToolOverride], known: reading.KnownNames) -> Mapping[str, ToolOverride]:
    """Refuse labels that are listed by an argument which the tool does not have."""
    for name, override in tools.items():
        arguments = known.arguments.get(name)
        if override.results is not None and arguments is not None:
            reading.one_of("argument", override.results.argument, arguments)
    return tools


class Document(Entry):
    """A policy that can be put in force. For an unknown name, its methods answer with the worst case."""

    compartments: tuple[Annotated[str, AfterValidator(reading.compartment)], ...]
    principals: Frozen[Name, Principal]
    groups: Annotated[
        Frozen[Annotated[str, AfterValidator(with_known(reading.group))], Group], AfterValidator(_acyclic)
    ]
    paired: Paired | None
    blocked: tuple[Annotated[str, AfterValidator(with_known(reading.any_account))], ...]
    channels: Frozen[Name, ChannelEntry]
    chats: Annotated[Frozen[Name, Chat], AfterValidator(_each_once)]
    recipients: Frozen[Name, Places]
    folders: Frozen[Annotated[str, AfterValidator(reading.folder)], Folder]
    mcp_servers: Frozen[Annotated[str, AfterValidator(with_known(reading.server))], McpServer]
    tools: Annotated[
        Frozen[ToolName, ToolOverride],
        AfterValidator(_with_contents),
        AfterValidator(with_known(_listed_arguments)),
    ]
    hold: Hold | None = None
    """As `ToolOverride.hold`, for every tool."""
    lists: Frozen[Name, Annotated[tuple[str, ...], AfterValidator(reading.listed_values)]] = MappingProxyType({})
    """Values of operators, such as channels or members, that a bounded answer may name."""
    models: Frozen[str, Model]
    transcribers: Frozen[str, TranscriberEntry]
    patterns: Annotated[
        Frozen[
            Annotated[str, AfterValidator(reading.pattern_name)], Annotated[str, AfterValidator(reading.pattern_text)]
        ],
        AfterValidator(reading.few),
    ]
    rules: tuple[RuleEntry, ...]
    _code: CodeRules = PrivateAttr(default_factory=CodeRules)
    _memberships: Mapping[str, frozenset[str]] = PrivateAttr(default_factory=lambda: MappingProxyType({}))
    _ended: frozenset[str] = PrivateAttr(default_factory=frozenset)

    @property
    def code(self) -> CodeRules:
        """The rules of plugins, which no file can write."""
        return self._code

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules of the file, and those of plugins."""
        return (*(entry.compiled() for entry in self.rules), *self.code.rules)

    def with_code(self, code: CodeRules) -> "Document":
        """Return this policy with the rules of plugins."""
        made = self.model_copy()
        made._code = code  # noqa: SLF001 - its own class
        return made

    @property
    def memberships(self) -> Mapping[str, frozenset[str]]:
        """Each person's groups at the moment of this policy; a file's policy alone has none."""
        return self._memberships

    def with_memberships(self, memberships: Mapping[str, frozenset[str]]) -> "Document":
        """Return this policy with each person's groups at a moment."""
        made = self.model_copy()
        made._memberships = MappingProxyType(dict(memberships))  # noqa: SLF001 - its own class
        return made

    @property
    def ended(self) -> frozenset[str]:
        """The accounts of people whose access ended at the moment of this policy."""
        return self._ended

    def with_ended(self, accounts: frozenset[str]) -> "Document":
        """Return this policy with the accounts of people whose access ended."""
        made = self.model_copy()
        made._ended = accounts  # noqa: SLF001 - its own class
        return made

    def groups_of(self, principal: str) -> frozenset[str]:
        """Return the groups of a person at the moment of this policy."""
        return self._memberships.get(principal, frozenset())

    @property
    def top(self) -> Label:
        """The highest label of this configuration."""
        return labels.top(self.compartments)

    @property
    def digest(self) -> str:
        """The policy's name: a SHA-256 in hex over its canonical form, blind to the order of keys and rules."""
        written = _canonical(self)
        if self.code.digest:
            written = {"": written, "code": self.code.digest, "rules": _canonical(tuple(map(_fields, self.code.rules)))}
        if self.memberships:
            written = {"": written, "memberships": _canonical(self.memberships)}
        if self.ended:
            written = {"": written, "ended": sorted(self.ended)}
        canonical = json.dumps(written, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    def principal(self, account: str) -> tuple[str, Principal] | None:
        """Return name and entry of the principal an account belongs to, `None` for a stranger and a blocked account."""
        name = None if account in self.blocked else self._owners.get(account)
        return None if name is None else (name, self.principals[name])

    @property
    def _owners(self) -> Mapping[str, str]:
        """The principals of all accounts: each message looks up several, and there may be many people."""
        principals, owners = vars(self).get("_owners", (None, {}))
        # A copy has the index of the original, and may have other principals.
        if principals is not self.principals:
            owners = dict[str, str]()
            for name, who in self.principals.items():
                for account in who.accounts:
                    # Of two with one account the first counts.
                    owners.setdefault(account, name)
            # Beside the fields, so that it is no part of the policy that is compared.
            vars(self)["_owners"] = (self.principals, owners)
        return owners

    def may_release(self, principal: str) -> bool:
        """Say whether a principal holds the right to release."""
        person = self.principals.get(principal)
        return person is not None and person.may_release

    def channel(self, name: str) -> ChannelEntry:
        """Return a channel's entry; an unknown channel has clearance PUBLIC, and its messages get the highest label."""
        known = self.channels.get(name)
        return known or ChannelEntry.model_construct(classification=PUBLIC, inbound=self.top, overshoot="block")

    def chat(self, channel: str, workspace: str, chat: str) -> Chat | None:
        """Return the entry of a shared chat, `None` for one that is not classified."""
        place = (channel, workspace, chat)
        return next((one for one in self.chats.values() if (one.channel, one.workspace, one.chat) == place), None)

    @property
    def operators(self) -> Chat | None:
        """The shared chat where operators are asked to approve calls, `None` if none is named, or it is blocked."""
        return next((one for one in self.chats.values() if one.approvals and not one.blocked), None)

    def overshoot(self, channel: str, workspace: str, chat: str) -> Overshoot:
        """Return the action at a place for a read whose result could not be sent there."""
        entry = self.chat(channel, workspace, chat)
        return self.channel(channel).overshoot if entry is None or entry.overshoot is None else entry.overshoot

    def observed(self, channel: str, workspace: str, chat: str) -> int:
        """Return how many texts not said to the bot are kept of a shared chat, none of an unclassified one."""
        entry = self.chat(channel, workspace, chat)
        if entry is None or entry.blocked:
            return 0
        return self.channel(channel).observe if entry.observe is None else entry.observe

    @property
    def places(self) -> tuple[Recipient, ...]:
        """Every place that an alias names."""
        return tuple(place for places in self.recipients.values() for place in places)

    def rule(self, name: str) -> RuleEntry | None:
        """Return a configured rule, `None` for one that is not in force."""
        return next((rule for rule in self.rules if rule.id == name), None)

    def approvers(self, rule: str) -> tuple[Role, ...]:
        """Return the roles that may answer for a rule of the file or of a plugin, none for one that is not in force."""
        entry = self.rule(rule)
        if entry is not None:
            return entry.approvers
        return APPROVERS if any(one.id == rule for one in self.code.rules) else ()

    def may_be_granted(self, rule: str) -> bool:
        """Say whether a configured rule lets a person answer for further calls; no rule of a plugin does."""
        entry = self.rule(rule)
        return entry is not None and entry.may_be_granted

    def is_among_approvers(self, rule: str, principal: str) -> bool:
        """Say whether a rule lets a person answer, as far as it names people and groups."""
        entry = self.rule(rule)
        if entry is None or entry.approvers_among is None:
            return True
        return not {principal, *self.groups_of(principal)}.isdisjoint(entry.approvers_among)

    def folder(self, name: str) -> Folder:
        """Return a folder's entry; an unknown one holds the worst and nothing may be written to it."""
        unknown = Folder.model_construct(floor=self.top, integrity=Integrity.UNTRUSTED, clearance=None)
        return self.folders.get(name, unknown)

    def provider(self, model: str) -> Label:
        """Return the clearance of a model's provider, PUBLIC for an unknown one."""
        entry = self.models.get(model)
        return PUBLIC if entry is None else entry.clearance

    def transcriber(self, name: str) -> Label:
        """Return the clearance of a transcriber, PUBLIC for an unknown one."""
        entry = self.transcribers.get(name)
        return PUBLIC if entry is None else entry.clearance

    def holds(self, tool: str, server: str = "") -> bool:
        """Say whether all results of a tool are kept out of the context; `server` runs it, empty for none."""
        return True in self._held(tool, server)

    def spares(self, tool: str, server: str = "") -> bool:
        """Say whether the text of a tool's UNTRUSTED results is kept out of the context."""
        return "untrusted" in self._held(tool, server)

    def _held(self, tool: str, server: str) -> tuple[object, ...]:
        override, served = self.tools.get(tool), self.mcp_servers.get(server)
        return self.hold, None if override is None else override.hold, None if served is None else served.hold

    def listed(self, tool: str, arguments: Mapping[str, object]) -> str:
        """Return the identifier in a call's arguments that has a listed label, empty for none."""
        override = self.tools.get(tool)
        if override is None or override.results is None:
            return ""
        value = arguments.get(override.results.argument)
        return value if isinstance(value, str) and value in override.results.labels else ""

    def bounds(self, tool: str) -> Bounds:
        """Return the bounds of the values that steer a tool's calls."""
        override = self.tools.get(tool)
        return NO_BOUNDS if override is None or override.bounds is None else override.bounds

    def offers(self, tool: str, role: Role) -> bool:
        """Say whether a tool is for askers of a role."""
        override = self.tools.get(tool)
        return override is None or override.roles is None or role in override.roles

    def tool(self, declared: ToolFacts) -> ToolFacts:
        """Return a tool's facts as tightened here: a higher result, a lower clearance, more caution.

        A tool that declares no result gets the configured one. A sink the tool knows no clearance of stays PUBLIC; a
        tool without a sink gets one. A call sends its arguments to its MCP server, so each of a server's tools has a
        sink; tools of an unknown server stay unlabelled, which blocks.
        """
        if declared.server:
            server = self.mcp_servers.get(declared.server)
            if server is None:
                return replace(declared, result=None, clearance=PUBLIC)
            declared = replace(declared, result=server.label, clearance=server.clearance or PUBLIC)
        declared = replace(declared, spared=self.spares(declared.name, declared.server))
        override = self.tools.get(declared.name)
        if override is None:
            return declared
        result, clearance = declared.result, declared.clearance
        added = override.result
        if override.results is not None:
            added = override.results.labels.get(declared.identifier, added)
        if added is not None:
            result = added if result is None else result.join(added)
        if override.clearance is not None:
            outward = declared.effect in (Effect.WRITE, Effect.SEND)
            known = clearance or (PUBLIC if outward else self.top)
            clearance = known.meet(override.clearance)
        consequential = declared.consequential or override.consequential is True
        roles = None if override.roles is None else frozenset(override.roles)
        return replace(
            declared,
            result=result,
            clearance=clearance,
            consequential=consequential,
            roles=roles,
            untrusted_content=override.untrusted_content or declared.untrusted_content,
        )


def defaults() -> dict[str, object]:
    """Return the policy of the shipped console product, in the shape `load` takes."""
    return {
        "compartments": [],
        "principals": {"owner": {"role": "owner", "clearance": "top", "accounts": ["console:owner"]}},
        "groups": {},
        "paired": None,
        "blocked": [],
        "channels": {
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow", "members": "PUBLIC"}
        },
        "chats": {},
        "recipients": {
            "owner": {"channel": "console", "chat": "owner", "clearance": "top"},
            "guest": {"channel": "console", "chat": "guest", "clearance": "PUBLIC"},
        },
        "folders": {
            "public": {"floor": "PUBLIC", "integrity": "UNTRUSTED", "clearance": "PUBLIC"},
            "internal": {"floor": "INTERNAL", "integrity": "UNTRUSTED", "clearance": "INTERNAL"},
            "confidential": {"floor": "CONFIDENTIAL", "integrity": "UNTRUSTED", "clearance": "CONFIDENTIAL"},
            "agent-output": {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "CONFIDENTIAL"},
        },
        "mcp_servers": {},
        "tools": {},
        "hold": None,
        "lists": {},
        "models": {"offline": {"clearance": "top"}},
        "transcribers": {},
        "patterns": {},
        "rules": [],
    }


_ENTRIES: Final[Mapping[object, type[Entry]]] = MappingProxyType(
    {
        "principals": Principal,
        "groups": Group,
        "paired": Paired,
        "channels": ChannelEntry,
        "chats": Chat,
        "recipients": Recipient,
        "folders": Folder,
        "mcp_servers": McpServer,
        "tools": ToolOverride,
        "models": Model,
        "transcribers": TranscriberEntry,
        "rules": RuleEntry,
    }
)


def load(
    raw: object, *, tools: Collection[str], servers: Collection[str] = (), code: CodeRules | None = None
) -> Document:
    """Validate a `policy:` section as the YAML reader gives it.

    Args:
        raw: the parsed YAML of the section.
        tools: the names of all known tools. A mapping also gives each tool's arguments and their types, as
            `policy.conditions.expressions` names them; without it no condition can use an argument.
        servers: the names of the configured MCP servers.
        code: the rules of plugins.

    Raises:
        DocumentError: the section has problems; the error lists all of them.
    """
    if not isinstance(raw, Mapping):
        raise DocumentError((Problem((), reading.printable(f"`{raw}` is not a mapping")),))
    merged = {**defaults(), **cast("Mapping[object, object]", raw)}
    try:
        known = reading.gather(merged, tools, servers)
        document = Document.model_validate(merged, context=known)
    except ValidationError as error:
        raise DocumentError(tuple(_problems(error, merged["recipients"]))) from None
    return document if code is None else _with_code(document, code, known)


def _with_code(document: Document, code: CodeRules, known: reading.KnownNames) -> Document:
    """Return a document with the rules of plugins. Raises DocumentError: one of them cannot be in force."""
    problems, taken = list[Problem](), {rule.id for rule in document.rules}
    for rule in code.rules:
        try:
            reading_rules.code_rule(rule, known, taken)
        except ValueError as error:
            problems.append(Problem(("rules",), reading.printable(f"rule `{rule.id}` of a plugin: {error}")))
        taken.add(rule.id)
    if problems:
        raise DocumentError(tuple(problems))
    return document.with_code(code)


def _problems(error: ValidationError, recipients: object) -> list[Problem]:
    """Turn pydantic's errors into the operator's, each once."""
    found = [_problem(detail, recipients) for detail in error.errors(include_url=False)]
    return list(dict.fromkeys(found))


def _in_file(path: tuple[int | str, ...], recipients: object) -> tuple[int | str, ...]:
    """Return a path as it stands in the file, where the one place of an alias needs no list."""
    if path[0] != "recipients" or len(path) < 3 or isinstance(reading.items(recipients).get(path[1]), list):  # noqa: PLR2004 - section, alias, place
        return path
    return (*path[:2], *path[3:])


def _problem(detail: ErrorDetails, recipients: object) -> Problem:
    # pydantic marks an error in a mapping's key by one more element
    path = tuple(part for part in detail["loc"] if part != "[key]")
    path = _in_file(path, recipients)
    kind = detail["type"]
    if kind == "value_error":
        message = str(detail.get("ctx", {})["error"])
    elif kind == "extra_forbidden":
        fields = _entry(path).model_fields
        message = f"unknown field `{path[-1]}`{nearest(str(path[-1]), fields)}"
    elif kind == "missing":
        path, message = path[:-1], f"`{path[-1]}` is missing, add it"
    elif kind in {"enum", "literal_error"}:
        what = next(name for name in reversed(path) if isinstance(name, str)).removesuffix("s")
        words = _WORD.findall(str(detail.get("ctx", {})["expected"]))
        message = (
            f"unknown {_CALLED.get(what, what)} `{detail['input']}`{nearest(str(detail['input']), words, ranked=True)}"
        )
    else:
        message = f"`{detail['input']}` is not {_EXPECTED.get(kind, 'valid here')}"
    return Problem(path, reading.printable(message))


def _entry(path: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the type of the entry that a path leads into."""
    if path[0] == "groups" and len(path) > _IN_GROUP:
        return Member
    if path[0] == "tools" and len(path) > _IN_TOOL:
        return (
            {"amount": AmountBound, "time": TimeBound}.get(str(path[_IN_TOOL]), Bounds)
            if path[_IN_TOOL + 1 :]
            else Bounds
        )
    return Document if len(path) == 1 else _ENTRIES.get(path[0], Document)


def _fields(rule: Rule) -> dict[str, object]:
    """Return the fields of a plugin's rule but its test: they need not stand in the file that its digest is of."""
    return {one.name: getattr(rule, one.name) for one in fields(rule) if one.name != "test"}


def short_digest(value: object) -> str:
    """Return a short digest of a part of a policy: equal parts have equal digests."""
    canonical = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:_SHORT]


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
    return str(value) if isinstance(value, Label | Expression | WeeklyWindow | date) else value
