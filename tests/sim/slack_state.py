"""What a played Slack keeps: workspaces, people, channels, messages, the app and its tokens. No input or output."""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Kind = Literal["public", "private", "im", "mpim"]
PREFIX: dict[Kind, str] = {"public": "C", "private": "G", "im": "D", "mpim": "G"}
TYPES: dict[Kind, str] = {"public": "channel", "private": "group", "im": "im", "mpim": "mpim"}
SCOPES = (
    *("app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "commands"),
    *("files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read", "im:write"),
    *("mpim:history", "mpim:read", "mpim:write", "team:read", "users:read"),
)


class SlackError(Exception):
    """Slack's answer is `ok: false` with this code, and more fields."""

    def __init__(self, code: str, **more: Any) -> None:  # noqa: ANN401 - whatever the answer has
        super().__init__(code)
        self.code = code
        self.more = more


@dataclass
class Team:
    """A workspace."""

    id: str
    name: str
    enterprise: str = ""


@dataclass
class Member:
    """An account, with what Slack tells of it."""

    id: str
    name: str
    team: str
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    is_stranger: bool = False
    is_bot: bool = False
    is_admin: bool = False
    deleted: bool = False


@dataclass
class Message:
    """A message as everybody sees it now; `shown_to` is the one reader of an ephemeral one."""

    channel: str
    ts: str
    body: Json
    shown_to: str = ""
    deleted: bool = False
    streaming: bool = False
    started: float = 0

    @property
    def text(self) -> str:
        """The plain text."""
        return str(self.body.get("text", ""))

    @property
    def user(self) -> str:
        """Who wrote it."""
        return str(self.body.get("user", ""))

    @property
    def blocks(self) -> list[Json]:
        """The blocks, if it has any."""
        return list(self.body.get("blocks") or ())

    @property
    def thread(self) -> str:
        """The thread it is a reply in, or empty."""
        return str(self.body.get("thread_ts", ""))


@dataclass
class Channel:
    """A place; `shared_with` are other organisations' workspaces, `pending` are those invited.

    In a `restricted` one apps may not write.
    """

    id: str
    name: str
    kind: Kind
    team: str
    members: list[str] = field(default_factory=list[str])
    shared_with: set[str] = field(default_factory=set[str])
    pending: set[str] = field(default_factory=set[str])
    messages: list[Message] = field(default_factory=list[Message])
    archived: bool = False
    restricted: bool = False

    def told(self) -> Json:
        """Return it as `conversations.info` tells it."""
        other = {"user": self.members[0]} if self.kind == "im" else {"name": self.name}
        return other | {
            "id": self.id,
            "is_channel": self.kind == "public",
            "is_group": self.kind == "private",
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "public",
            "is_archived": self.archived,
            "is_shared": bool(self.shared_with),
            "is_ext_shared": bool(self.shared_with),
            "is_org_shared": False,
            "is_pending_ext_shared": bool(self.pending),
            "pending_shared": sorted(self.pending),
            "context_team_id": self.team,
            "shared_team_ids": [self.team, *sorted(self.shared_with)],
        }


@dataclass
class Token:
    """A token and whom it acts for; `refresh` and `expires` are set where tokens rotate."""

    value: str
    team: str
    user: str
    scopes: tuple[str, ...]
    app_level: bool = False
    revoked: bool = False
    refresh: str = ""
    expires: float = 0


@dataclass
class Event:
    """Something that happened, for the app if it is installed where it happened."""

    body: Json
    team: str
    channel: Channel | None = None


@dataclass
class Upload:
    """A file; complete when it was shared. `told` is what is told of it otherwise than of others."""

    id: str
    name: str
    data: bytes = b""
    length: int = 0
    mimetype: str = "application/octet-stream"
    complete: bool = False
    told: Json = field(default_factory=dict[str, Any])


@dataclass
class App:
    """The one app that is played against."""

    id: str = "A0LOCKGATE"
    client_id: str = "111.222"
    client_secret: str = "client-secret"  # noqa: S105 - it guards nothing
    signing_secret: str = "signing-secret"  # noqa: S105 - as above
    verification: str = "verification-token"
    name: str = "lockgate"
    scopes: tuple[str, ...] = SCOPES
    rotates: bool = False
    org_wide: bool = False
    redirect_urls: tuple[str, ...] = ()


@dataclass
class State:
    """Everything, and the numbers it is named by; `skew` is how far its clock was moved on, in seconds."""

    app: App = field(default_factory=App)
    teams: dict[str, Team] = field(default_factory=dict[str, Team])
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    channels: dict[str, Channel] = field(default_factory=dict[str, Channel])
    tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    uploads: dict[str, Upload] = field(default_factory=dict[str, Upload])
    homes: dict[tuple[str, str], Json] = field(default_factory=dict[tuple[str, str], Json])
    views: dict[str, Json] = field(default_factory=dict[str, Json])
    triggers: dict[str, float] = field(default_factory=dict[str, float])
    statuses: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    titles: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    prompts: dict[tuple[str, str], list[Json]] = field(default_factory=dict[tuple[str, str], list[Json]])
    skew: float = 0
    stream_life: float = 300
    strict_threads: bool = True
    tell: Callable[[Event], None] = lambda _: None
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def now(self) -> float:
        """Return the played time, in seconds since 1970."""
        return time.time() + self.skew

    def number(self) -> int:
        """Return a number never returned before."""
        return next(self._numbers)

    def id(self, prefix: str) -> str:
        """Return an id never returned before; its case matters."""
        return f"{prefix}0{self.number():07d}x"

    def ts(self) -> str:
        """Return a message's time stamp, unique and rising."""
        return f"{int(self.now())}.{self.number():06d}"

    def channel(self, channel_id: str) -> Channel:
        """Return a channel.

        Raises SlackError: there is none.
        """
        if (found := self.channels.get(channel_id)) is None:
            raise SlackError("channel_not_found")
        return found

    def message(self, channel: Channel, ts: str) -> Message:
        """Return a message that is still there.

        Raises SlackError: there is none.
        """
        for message in channel.messages:
            if message.ts == ts and not message.deleted and not message.shown_to:
                return message
        raise SlackError("message_not_found")

    def post(self, channel: Channel, user: str, body: Json) -> Message:
        """Put a message into a channel, and tell the app."""
        ts = self.ts()
        message = Message(channel.id, ts, {"type": "message", "ts": ts, "user": user, **body})
        channel.messages.append(message)
        self.tell(Event(self.message_event(channel, message), channel.team, channel))
        return message

    def message_event(self, channel: Channel, message: Message) -> Json:
        """Return the event of a message."""
        member = self.members[message.user]
        team = {"team": member.team}
        strange = {"user_team": member.team, "source_team": member.team} if member.team != channel.team else {}
        where = {"channel": channel.id, "channel_type": TYPES[channel.kind], "event_ts": message.ts}
        root = next((each for each in channel.messages if each.ts == message.thread != message.ts), None)
        parent = {} if root is None else {"parent_user_id": root.user}
        return {**message.body, **team, **strange, **where, **parent}

    def changed(self, channel: Channel, message: Message, before: Json) -> None:
        """Tell the app that a message was edited, or deleted if it is."""
        deleted = {"subtype": "message_deleted", "deleted_ts": message.ts}
        edited = {"subtype": "message_changed", "message": dict(message.body)}
        what = deleted if message.deleted else edited
        ts = self.ts()
        where = {"channel": channel.id, "channel_type": TYPES[channel.kind], "ts": ts, "event_ts": ts, "hidden": True}
        self.tell(Event({"type": "message", **what, "previous_message": before, **where}, channel.team, channel))

    def join(self, channel: Channel, user: str) -> None:
        """Make somebody a member of a channel, and tell the app."""
        if user in channel.members:
            return
        channel.members.append(user)
        team = self.members[user].team
        body: Json = {"type": "member_joined_channel", "user": user, "channel": channel.id, "team": team}
        body |= {"channel_type": PREFIX[channel.kind], "event_ts": self.ts()}
        self.tell(Event(body, channel.team, channel))

    def im(self, team: str, *users: str) -> Channel:
        """Return the private conversation of accounts, opened if there was none; a bot's is with one person."""
        for channel in self.channels.values():
            if channel.kind in {"im", "mpim"} and set(channel.members) == set(users):
                return channel
        kind: Kind = "im" if len(users) == 2 else "mpim"
        opened = Channel(self.id(PREFIX[kind]), f"{kind}-{'-'.join(users)}", kind, team, list(users))
        self.channels[opened.id] = opened
        return opened

    def bots(self, channel: Channel) -> list[Token]:
        """Return the installations whose bot is in a channel."""
        return [token for token in self.bot_tokens() if token.user in channel.members]

    def bot_tokens(self) -> Iterable[Token]:
        """Yield the installations in force, one token for each."""
        seen = set[str]()
        for token in self.tokens.values():
            if not token.app_level and not token.revoked and token.user not in seen:
                seen.add(token.user)
                yield token

    def install(self, team: Team, scopes: Iterable[str] | None = None) -> Token:
        """Install the app in a workspace; its bot account stays the same if it was there before."""
        bot = f"B{team.id}"
        if bot not in self.members:
            self.members[bot] = Member(bot, self.app.name, team.id, is_bot=True)
        self.members[bot].deleted = False
        token = Token(f"xoxb-{team.id}-{self.number()}", team.id, bot, tuple(scopes or self.app.scopes))
        if self.app.rotates:
            token.refresh, token.expires = f"xoxe-1-{team.id}-{self.number()}", self.now() + 43_200
        self.tokens[token.value] = token
        return token
