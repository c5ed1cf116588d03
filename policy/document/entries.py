"""The entries of a policy document, each validated by itself: people, places, tools, rules.

What a field may say is read by `policy.document.reading`; that names fit one another is checked with the names the
whole document knows, which pydantic hands through as context.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeVar, cast

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
)

from policy.conditions.expressions import Expression
from policy.conditions.schedule import WeeklyWindow
from policy.decision import Verdict
from policy.document import reading, reading_rules
from policy.labels import PUBLIC, Integrity, Label, Level
from policy.request import Hook, Overshoot, Role
from policy.rules import Rule

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

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


def _timeout(value: object, info: ValidationInfo) -> int:
    return reading.timeout(value, info.data.get("action"))


def _when(value: object, info: ValidationInfo) -> Expression | None:
    return reading_rules.when(value, _known(info), info.data.get("hook"), info.data.get("tools"))


Frozen = Annotated[Mapping[_K, _V], AfterValidator(MappingProxyType)]
Name = Annotated[str, AfterValidator(reading.name)]
_PlaceChannel = Annotated[str, AfterValidator(with_known(reading.place_channel))]
ToolName = Annotated[str, AfterValidator(_tool_name)]
_Label = Annotated[Label, PlainValidator(with_known(reading.label))]
_Integrity = Annotated[Integrity, PlainValidator(reading.member("integrity", Integrity.__members__))]
_Observed = Annotated[StrictInt, Field(ge=0, le=50)]
_Approver = Literal[Role.OWNER, Role.ADMIN, Role.APPROVER, Role.MEMBER]
"""Roles that may be named to answer a question; below member nobody may give a command."""

_Pairable = Literal[Role.ADMIN, Role.APPROVER, Role.MEMBER, Role.GUEST]
"""Roles that somebody may be given at run time; an owner is named in the file."""


class Entry(BaseModel):
    """What every part of a document is: frozen, without fields that are not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Principal(Entry):
    """Who may speak to the bot: a role, a clearance and the accounts known to be this person's.

    `may_release` is the right to send what he is shown below its label; no role includes it.
    """

    role: Role
    clearance: _Label
    accounts: tuple[Annotated[str, AfterValidator(with_known(reading.account))], ...]
    may_release: StrictBool = False


class Paired(Entry):
    """The most that somebody may become who is let in at run time."""

    role: _Pairable
    clearance: _Label


class ChannelEntry(Entry):
    """What may be said over a channel, and the label of what is typed there.

    `members` is the clearance of members of the platform who are nobody here. `observe` is how many texts of a
    classified chat are kept that were not said to the bot, until somebody speaks to it there.
    """

    classification: _Label
    inbound: _Label = PUBLIC
    overshoot: Overshoot = "ask"
    members: _Label = PUBLIC
    observe: _Observed = 0


class Chat(Entry):
    """A shared chat that is classified: the most that may be said there, and the label of what is typed there.

    An `inbound` of None means the classification, an `overshoot` or `observe` of None what the channel says.
    `members_vouched` tells that an admin answers for who reads there, where the platform cannot list them. To a
    `blocked` one the classification does not apply. With `unsafe_trust_all_members` the words of each member command
    in the name of every other one.
    """

    channel: _PlaceChannel
    chat: str
    workspace: str = ""
    classification: _Label
    inbound: _Label | None = None
    overshoot: Overshoot | None = None
    observe: _Observed | None = None
    members_vouched: StrictBool = False
    blocked: StrictBool = False
    unsafe_trust_all_members: StrictBool = False


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
    """A folder under the file root: the least label of what is read from it, the highest that may be written to it.

    A `clearance` of None means that nothing is known, so that it counts as PUBLIC.
    """

    floor: _Label
    integrity: _Integrity = Integrity.UNTRUSTED
    clearance: _Label | None = None

    @property
    def label(self) -> Label:
        """The label of whatever is read from here, before that of the file itself is joined."""
        return _read_label(self.floor, self.integrity)


class McpServer(Entry):
    """An MCP server, labelled as a folder is: what its tools return, errors too, and what they may be told."""

    floor: _Label
    integrity: _Integrity = Integrity.UNTRUSTED
    clearance: _Label | None = None

    @property
    def label(self) -> Label:
        """The label of everything that the server's tools return."""
        return _read_label(self.floor, self.integrity)


class ToolOverride(Entry):
    """What an operator tightens about a tool. `roles` are those of askers who are offered it, None for all."""

    result: _Label | None = None
    clearance: _Label | None = None
    consequential: Annotated[StrictBool, AfterValidator(reading.only_true)] | None = None
    hold: Annotated[StrictBool, AfterValidator(reading.only_true)] | None = None
    roles: Annotated[tuple[Role, ...], AfterValidator(reading.roles)] | None = None


class Model(Entry):
    """A model provider."""

    clearance: _Label


class TranscriberEntry(Entry):
    """Who writes down what is said in a recording."""

    clearance: _Label


class RuleEntry(Entry):
    """One configured rule.

    `approvers` are the roles that may answer for it and `timeout` the seconds until silence means no, None for as
    long as any question stands; both concern REQUIRE_APPROVAL alone.
    """

    id: Annotated[str, AfterValidator(with_known(reading.rule_id))]
    hook: Hook
    action: Annotated[Verdict, PlainValidator(reading.member("action", _ACTIONS)), AfterValidator(_action)]
    tools: Annotated[tuple[str, ...], AfterValidator(_tool_globs)] = ()
    channels: Annotated[tuple[str, ...], AfterValidator(_channel_globs)] = ()
    taint: Annotated[frozenset[Level], PlainValidator(reading.levels)] = frozenset(Level)
    untrusted: StrictBool | None = None
    pattern: Annotated[str | None, AfterValidator(_pattern), Field(validate_default=True)] = None
    schedule: Annotated[WeeklyWindow | None, PlainValidator(reading_rules.schedule)] = None
    when: Annotated[Expression | None, PlainValidator(_when)] = None
    message: str = ""
    approvers: Annotated[tuple[_Approver, ...], AfterValidator(_approvers)] = (Role.OWNER, Role.ADMIN, Role.APPROVER)
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
