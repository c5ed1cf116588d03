"""The entries of a policy document, each validated by itself: people, places, tools, rules.

`policy.document.reading` reads the value of each field. Names are checked against the names of the whole document,
which pydantic passes as context.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    ValidationInfo,
    model_validator,
)

from policy.conditions.expressions import Expression
from policy.conditions.schedule import WeeklyWindow
from policy.decision import Verdict
from policy.document import ends, reading, reading_rules
from policy.document.bounds import Bounds
from policy.labels import PUBLIC, Integrity, Label, Level
from policy.request import Hook, Overshoot, Role, UntrustedContent
from policy.rules import Rule

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

APPROVERS: Final = (Role.OWNER, Role.ADMIN, Role.APPROVER)
"""The roles that may answer for a rule, unless it says others."""

_ACTIONS: Final = MappingProxyType({name: Verdict[name] for name in ("BLOCK", "REQUIRE_APPROVAL", "REDACT")})


def _known(info: ValidationInfo) -> reading.KnownNames:
    return cast("reading.KnownNames", info.context)


def with_known(read: Callable[[_T, reading.KnownNames], _V]) -> Callable[[_T, ValidationInfo], _V]:
    """Give a reader the names the document knows."""
    return lambda value, info: read(value, _known(info))


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


def _among(value: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
    return reading.approvers_among(value, _known(info), info.data.get("action"))


def _grantable(value: object, info: ValidationInfo) -> object:
    return reading.may_be_granted(value, info.data.get("action"))


def _timeout(value: object, info: ValidationInfo) -> int:
    return reading.timeout(value, info.data.get("action"))


def _when(value: object, info: ValidationInfo) -> Expression | None:
    return reading_rules.when(value, _known(info), info.data.get("hook"), info.data.get("tools"))


def _not_of_an_owner(value: datetime | None, info: ValidationInfo) -> datetime | None:
    return reading.not_of_an_owner(value, info.data.get("role"))


Frozen = Annotated[Mapping[_K, _V], AfterValidator(MappingProxyType)]
Name = Annotated[str, AfterValidator(reading.name)]
_PlaceChannel = Annotated[str, AfterValidator(with_known(reading.place_channel))]
ToolName = Annotated[str, AfterValidator(_tool_name)]
_Label = Annotated[Label, PlainValidator(with_known(reading.label))]
_Integrity = Annotated[Integrity, PlainValidator(reading.member("integrity", Integrity.__members__))]
_Observed = Annotated[StrictInt, Field(ge=0, le=50)]
_Approver = Literal[Role.OWNER, Role.ADMIN, Role.APPROVER, Role.MEMBER]
"""Roles that may be named to answer a question; roles below member give no commands."""

Hold = Annotated[Literal[True, "untrusted"], PlainValidator(reading.hold)]
"""Which results are kept out of the context: all, or the text of UNTRUSTED ones."""

_End = Annotated[datetime | None, PlainValidator(ends.end)]
_Pairable = Literal[Role.ADMIN, Role.APPROVER, Role.MEMBER, Role.GUEST]
"""Roles that a person may be given at run time; an owner is named in the file."""


class Entry(BaseModel):
    """The base of all parts of a document: frozen, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Principal(Entry):
    """A person who may use the bot."""

    role: Role
    clearance: _Label
    accounts: tuple[Annotated[str, AfterValidator(with_known(reading.account))], ...]
    """The accounts known to be theirs, as `channel:user`."""
    may_release: StrictBool = False
    """The right to send an output that they were shown below its label; no role includes it."""
    until: Annotated[_End, AfterValidator(_not_of_an_owner)] = None
    """The end of their access, from which on they are unknown; None for no end."""


def _one_member(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class Member(Entry):
    """A member of a group: a person of this document, or another group."""

    name: Annotated[str, AfterValidator(with_known(reading.member_of_group))]
    until: _End = None
    """The end of the membership, None for no end."""


class Group(Entry):
    """A group of people, and the rights of its members beside those of their own entries."""

    members: tuple[Annotated[Member, BeforeValidator(_one_member)], ...]
    role: _Pairable | None = None
    """The least role of its members, None for their own."""
    clearance: _Label | None = None
    """A clearance that is joined with that of each member, None for nothing more."""
    may_release: StrictBool = False
    """As `Principal.may_release`, for each member."""


class Paired(Entry):
    """The highest role and clearance of a person who is let in at run time."""

    role: _Pairable
    clearance: _Label


class ChannelEntry(Entry):
    """A channel, and the labels of its messages."""

    classification: _Label
    """The highest label that may be sent over it."""
    inbound: _Label = PUBLIC
    """The label of messages typed there."""
    overshoot: Overshoot = "ask"
    """The action for a read whose result could not be sent there."""
    members: _Label = PUBLIC
    """The clearance of platform members who are not known here."""
    observe: _Observed = 0
    """The number of texts of a classified chat that are kept without being addressed to the bot.

    They are kept until a person addresses it there.
    """


class Chat(Entry):
    """A classified shared chat."""

    channel: _PlaceChannel
    chat: str
    workspace: str = ""
    classification: _Label
    """The highest label that may be sent there."""
    inbound: _Label | None = None
    """The label of messages typed there, None for the classification."""
    overshoot: Overshoot | None = None
    """The action for a read whose result could not be sent there, None for the channel's setting."""
    observe: _Observed | None = None
    """As `ChannelEntry.observe`, None for the channel's setting."""
    members_vouched: StrictBool = False
    """An admin answers for the chat's readers, where the platform cannot list them."""
    blocked: StrictBool = False
    """The classification does not apply."""
    unsafe_trust_all_members: StrictBool = False
    """The words of each member command in the name of every other one."""
    approvals: StrictBool = False
    """Calls that another person than their asker has to approve are asked about here, where its readers are cleared."""


class Recipient(Entry):
    """A place of an alias that the `message` tool may name."""

    channel: _PlaceChannel
    chat: str
    workspace: str = ""
    clearance: _Label


def _one_or_several(value: object) -> object:
    return cast("object", value) if isinstance(value, list) else [value]


def _one_per_channel(value: tuple[Recipient, ...]) -> tuple[Recipient, ...]:
    if not value:
        raise reading.refusal(
            "an empty list names no place, write one as `{channel: console, chat: owner, clearance: top}`"
        )
    channels = [place.channel for place in value]
    twice = next((channel for channel in channels if channels.count(channel) > 1), None)
    if twice is not None:
        raise reading.refusal(f"an alias has one place on a channel, and this one has more on `{twice}`")
    return value


Places = Annotated[tuple[Recipient, ...], BeforeValidator(_one_or_several), AfterValidator(_one_per_channel)]
"""Where an alias leads: one place, or a list of them on several channels."""


def _read_label(floor: Label, integrity: Integrity) -> Label:
    return floor.join(Label(Level.PUBLIC, frozenset(), integrity))


class Folder(Entry):
    """A folder under the file root."""

    floor: _Label
    """The lowest label of data read from it."""
    integrity: _Integrity = Integrity.UNTRUSTED
    clearance: _Label | None = None
    """The highest label that may be written to it; None counts as PUBLIC."""

    @property
    def label(self) -> Label:
        """The label of all data read from here, before the label of the file itself is joined."""
        return _read_label(self.floor, self.integrity)


class McpServer(Entry):
    """An MCP server, labelled as a folder is.

    `hold` is as `ToolOverride.hold`, for each of its tools.
    """

    floor: _Label
    """The lowest label of its tools' results and errors."""
    integrity: _Integrity = Integrity.UNTRUSTED
    clearance: _Label | None = None
    """The highest label that may be sent to it; None counts as PUBLIC."""
    hold: Hold | None = None

    @property
    def label(self) -> Label:
        """The label of everything that the server's tools return."""
        return _read_label(self.floor, self.integrity)


class ListedResults(Entry):
    """The labels of a tool's results by one argument, where it equals an identifier that no third party can rename."""

    argument: str
    """The argument."""
    labels: Frozen[str, _Label]
    """The label of the results for each identifier; for any other value it is that of the tool."""


class ToolOverride(Entry):
    """The settings by which an operator tightens a tool."""

    result: _Label | None = None
    """A label that its results carry at least, unless `results` lists another."""
    results: ListedResults | None = None
    """The labels of the results for listed identifiers, each at most `result`; for a server's tool."""
    clearance: _Label | None = None
    """A clearance that its sink has at most."""
    consequential: Annotated[StrictBool, AfterValidator(reading.only_true)] | None = None
    """Its calls need an approval once the session is UNTRUSTED."""
    hold: Hold | None = None
    """Its results are kept out of the context: all of them, or with `untrusted` the text of UNTRUSTED ones."""
    roles: Annotated[tuple[Role, ...], AfterValidator(reading.roles)] | None = None
    """The roles of the askers who are offered it, None for all."""
    untrusted_content: UntrustedContent | None = None
    """The treatment of UNTRUSTED text that its calls take along by reference, None for the shipped one."""
    bounds: Bounds | None = None
    """The bounds of the values that steer its calls, by their roles."""

    @model_validator(mode="after")
    def _no_higher_than_the_rest(self) -> Self:
        if self.results is not None:
            reading.listed_results(self.results.labels, self.result)
        return self


class Model(Entry):
    """A model provider."""

    clearance: _Label


class TranscriberEntry(Entry):
    """A model that transcribes recordings."""

    clearance: _Label


class RuleEntry(Entry):
    """One configured rule."""

    id: Annotated[str, AfterValidator(with_known(reading.rule_id))]
    hook: Hook
    action: Annotated[Verdict, PlainValidator(reading.member("action", _ACTIONS)), AfterValidator(_action)]
    tools: Annotated[tuple[str, ...], AfterValidator(_tool_globs)] = ()
    channels: Annotated[tuple[str, ...], AfterValidator(_channel_globs)] = ()
    taint: Annotated[frozenset[Level], PlainValidator(reading.levels)] = frozenset(Level)
    """The levels of taint that it concerns."""
    untrusted: StrictBool | None = None
    pattern: Annotated[str | None, AfterValidator(_pattern), Field(validate_default=True)] = None
    schedule: Annotated[WeeklyWindow | None, PlainValidator(reading_rules.schedule)] = None
    when: Annotated[Expression | None, PlainValidator(_when)] = None
    message: str = ""
    approvers: Annotated[tuple[_Approver, ...], AfterValidator(_approvers)] = APPROVERS
    """The roles that may answer for it; for REQUIRE_APPROVAL alone."""
    approvers_among: Annotated[tuple[str, ...] | None, AfterValidator(_among)] = None
    """The people and groups whose members of those roles may answer, None for all; for REQUIRE_APPROVAL alone."""
    timeout: Annotated[int | None, PlainValidator(_timeout)] = None
    """The seconds after which silence means no, None for the usual life of a question; for REQUIRE_APPROVAL alone."""
    may_be_granted: Annotated[StrictBool, BeforeValidator(_grantable)] = False
    """A person may answer it for further calls, within a grant's scope; for REQUIRE_APPROVAL alone."""
    log_only: StrictBool = False
    """Its verdict is written down, and not applied."""

    @model_validator(mode="before")
    @classmethod
    def _applied(cls, value: object) -> object:
        """Refuse a fixed rule that would only be logged, with the reason."""
        reading_rules.applied(reading.items(value))
        return value

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
            log_only=self.log_only,
        )
