"""Slack's updates, as values of the application. Pure: JSON in, values out.

A message counts as typed by its sender only as far as they typed it: texts forwarded, shared or quoted with it do not.
Slack escapes three characters and writes mentions, channels and addresses as marks in angle brackets. `typed` reads
those, and keeps quoted lines apart, as their author is unknown. An edit is never a second command, so neither changes
nor deletions are read. Programs are read only if they are named, in channels only, and their texts count as typed by no
person. A mention comes twice, as a mention and as a message; both have the same identity, which is the place and the
time stamp.

In a shared chat an answer belongs in the thread of its message, so a message outside threads opens one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from channels.messages import Address, Attachment, Event, How, Inbound, Membership

NAME: Final = "slack"
HOME: Final = "home"
"""The thread of an address that is a person's Home tab; its chat is the account."""


_FENCE: Final = "```"
_QUOTE: Final = "&gt;"
_REST: Final = "&gt;&gt;&gt;"
_MARK: Final = re.compile(r"<(?P<kind>[@#!]?)(?P<named>[^<>|]*)(?:\|(?P<shown>[^<>]*))?>")
_SCHEMES: Final = ("mailto:", "tel:", "https://", "http://")


def typed(text: str, me: str) -> tuple[str, tuple[str, ...], bool]:
    """Return a user's own text, their quotations, and whether they mentioned the account `me`, which is left out."""
    own, quoted = _parted(text)
    mention = re.compile(rf"<@{re.escape(me)}(?:\|[^<>]*)?>") if me else None
    called = mention is not None and mention.search(own) is not None
    if mention is not None:
        own = mention.sub("", own)
    return _plain(own).strip(), tuple(filter(None, (_plain(each).strip() for each in quoted))), called


def _parted(text: str) -> tuple[str, list[str]]:
    """Return a text without its quoted lines, and these, those that follow one another together."""
    own, quoted = list[str](), list[list[str]]()
    fenced, follows, rest = False, False, False
    for line in text.split("\n"):
        quotes = rest or (line.startswith(_QUOTE) and not fenced)
        if quotes:
            rest = rest or line.startswith(_REST)
            if not follows:
                quoted.append([])
            quoted[-1].append(line.removeprefix(_REST).removeprefix(_QUOTE).removeprefix(" "))
        else:
            own.append(line)
            fenced ^= line.count(_FENCE) % 2 == 1
        follows = quotes
    return "\n".join(own), ["\n".join(lines) for lines in quoted]


def _plain(text: str) -> str:
    text = _MARK.sub(_written, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _written(mark: re.Match[str]) -> str:
    named, shown = mark["named"], mark["shown"]
    match mark["kind"]:
        case "@" | "#" as kind:
            return f"{kind}{shown or named}"
        case "!":
            return shown or f"@{named.partition('^')[0]}"
        case _:
            return _link(named, shown)


def _link(url: str, shown: str | None) -> str:
    bare = url
    for scheme in _SCHEMES:
        bare = bare.removeprefix(scheme)
    if not shown:
        return bare if url.startswith(("mailto:", "tel:")) else url
    return shown if shown.rstrip("/") in {url.rstrip("/"), bare.rstrip("/")} else f"{shown} ({url})"


Json = Mapping[str, Any]

_LONGEST_NAME: Final = 255


def attached(files: Iterable[Json], team: str) -> tuple[Attachment, ...]:
    """Return the files of a message in a workspace. Pure.

    Raises KeyError or TypeError: they are not as Slack describes them.
    """
    return tuple(
        Attachment(
            handle=f"{team}/{file['id']}",
            name=str(file.get("name") or file.get("title") or "file")[:_LONGEST_NAME],
            media_type=str(file.get("mimetype") or "")[:_LONGEST_NAME],
            size=int(file.get("size") or 0),
        )
        for file in files
    )


OPENED: Final = "/sessions"
"""The command that fills the app's home, used when a user opens it."""

FILE_UNREAD: Final = "[a file, which is not read here]"
"""The text in the place of a file that was forwarded or shared: a user who wants it read sends it themselves."""


_SPOKEN: Final = frozenset({"", "file_share", "thread_broadcast"})
_SLACKBOT: Final = "USLACKBOT"
# A name with a JSON object behind it proposes a call to the offline model; a tool may be named like a command.
_COMMAND: Final = re.compile(r"!(\w++)(?!\s*\{)")
# All events that change a channel's readers. To be told that it was offered to another organisation takes a scope, and
# nobody there reads before it is shared.
_CHANGES: Final = frozenset(
    {
        *("member_joined_channel", "member_left_channel", "channel_left", "group_left", "channel_id_changed"),
        *("channel_shared", "channel_unshared"),
    }
)
_PEOPLE: Final = frozenset({"user_change"})
_ENDS: Final = frozenset({"app_uninstalled", "tokens_revoked"})


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """This bot's identity in a workspace: its account there, and the commands that it offers, without their mark.

    `bots` are the accounts of other bots that are read.
    """

    team: str
    user: str
    commands: frozenset[str] = frozenset()
    bots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangedReaders:
    """The channels and people of which something changed, so that cached facts about them are stale."""

    channels: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()


def events(body: Json, me: SlackIdentity) -> tuple[Event, ...]:
    """Return the events in the body of a request or an envelope, none for one that is not meant for us.

    Raises AttributeError, KeyError, TypeError or ValueError: it is not as Slack describes it.
    """
    if "command" in body:
        return (_slash(body, me),)
    found: Event | None = None
    match body.get("type"):
        case "event_callback":
            found = _event(body, me)
        case "block_actions":
            found = _pressed(body, me)
        case _:
            pass
    return () if found is None else (found,)


def touched(body: Json) -> ChangedReaders:
    """Return the readers that a body changes, so that they are fetched anew."""
    event: Json = body.get("event") or {}
    if event.get("type") in _PEOPLE:
        return ChangedReaders(people=frozenset({_id(event["user"])}))
    if event.get("type") in _CHANGES and event.get("channel"):
        return ChangedReaders(frozenset({_id(event["channel"])}))
    return ChangedReaders()


def takes_off(body: Json) -> bool:
    """Say whether a body reports that a workspace may have taken the bot off."""
    event: Json = body.get("event") or {}
    return body.get("type") == "event_callback" and event.get("type") in _ENDS


def lane(body: Json) -> str:
    """Return the lane of a body: updates of the same lane stay in order."""
    event: Json = body.get("event") or {}
    place = event.get("channel") or body.get("channel") or body.get("channel_id")
    # An update without a channel is a person's: one who opens their page does not wait for another.
    return _id(place or event.get("user") or body.get("user") or "")


def account(team: str, user: str) -> str:
    """Return the account of a person of a workspace."""
    return f"{NAME}:{team}:{user}"


def _id(place: str | Json) -> str:
    return place if isinstance(place, str) else str(place.get("id") or "")


def _event(body: Json, me: SlackIdentity) -> Event | None:
    event: Json = body["event"]
    match event["type"]:
        case "message" | "app_mention":
            return _message(event, body, me)
        case "member_joined_channel" | "member_left_channel" as kind:
            place, joined = Address(NAME, event["channel"], me.team), kind == "member_joined_channel"
            own = event["user"] == me.user
            return Membership(place, _sender(event, body, me), joined, _once(body, me), own, _inviter(event, body, me))
        case "agent_session_stopped":
            where = _address(event, me)
            private = _is_private(event)
            return Inbound(where, _sender(event, body, me), "/stop", _once(body, me), private=private)
        case "app_home_opened" if event.get("tab") == HOME:
            where = Address(NAME, event["user"], me.team, HOME)
            return Inbound(where, account(me.team, event["user"]), OPENED, _once(body, me), how=How.OPENED)
        case _:
            return None


def _once(body: Json, me: SlackIdentity) -> str:
    return f"event/{me.team}/{body['event_id']}"


def _sender(event: Json, body: Json, me: SlackIdentity) -> str:
    """Return who an event is of; where other workspaces share a channel, it must tell which is theirs."""
    shared = bool(body.get("is_ext_shared_channel"))
    return account(event.get("user_team") or event.get("team") or ("" if shared else me.team), event["user"])


def _inviter(event: Json, body: Json, me: SlackIdentity) -> str:
    # Of which workspace an inviter is nobody tells where several share a channel.
    return "" if body.get("is_ext_shared_channel") or not event.get("inviter") else account(me.team, event["inviter"])


def _is_private(event: Json) -> bool:
    # A mention does not tell the kind of its channel, but the id of every private chat with one person begins so.
    return event.get("channel_type", "im") == "im" and event["channel"].startswith("D")


def _address(event: Json, me: SlackIdentity) -> Address:
    """Return where something is: a private chat is named by its user's account, as where the bot speaks to them."""
    if _is_private(event):
        return Address(NAME, event["user"], me.team, event.get("thread_ts") or "")
    return Address(NAME, event["channel"], me.team, event.get("thread_ts") or event.get("ts", ""))


def _message(event: Json, body: Json, me: SlackIdentity) -> Inbound | None:
    user = event.get("user")
    if not user or user in {me.user, _SLACKBOT} or event.get("hidden") or event.get("subtype", "") not in _SPOKEN:
        return None
    private, threaded, sender = _is_private(event), "thread_ts" in event, _sender(event, body, me)
    # Slack does not always mark a program's message, a file for example, as one.
    bot = bool(event.get("bot_id")) or sender in me.bots
    if bot and (private or sender not in me.bots):
        return None
    text, quoted, called = typed(event.get("text") or "", me.user)
    called = called or event.get("parent_user_id") == me.user
    commanding = not bot and (private or threaded or called)
    if commanding and (named := _COMMAND.match(text)) and named[1] in me.commands:
        text, called = f"/{text[1:]}", True
    quoted, files = (*quoted, *_attached(event.get("attachments") or ())), attached(event.get("files") or (), me.team)
    if not text and not quoted and not files:
        return None
    return Inbound(
        _address(event, me),
        sender,
        text,
        f"message/{me.team}/{event['channel']}/{event['ts']}",
        authored=bool(text) and not bot,
        quoted=quoted,
        private=private,
        addressed=private or called,
        opens=not private and not threaded,
        files=files,
        bot=bot,
    )


def _attached(attachments: list[Json] | tuple[()]) -> Iterator[str]:
    """Yield the texts that were forwarded or shared with a message."""
    for attachment in attachments:
        told = (attachment.get("pretext"), attachment.get("title"), attachment.get("text"))
        if text := "\n".join(str(each) for each in told if each) or str(attachment.get("fallback") or ""):
            words, quoted, _ = typed(text, "")
            yield "\n".join(filter(None, (words, *quoted)))
        if attachment.get("files"):
            yield FILE_UNREAD


def _slash(body: Json, me: SlackIdentity) -> Inbound:
    text = body.get("text", "").strip().removeprefix("/")
    # Any private chat has commands, those of two people as well, where the bot neither reads nor speaks.
    private = body["channel_id"].startswith("D")
    where = Address(NAME, body["user_id"] if private else body["channel_id"], me.team)
    dedupe = f"command/{me.team}/{body['trigger_id']}"
    return Inbound(where, account(body["team_id"], body["user_id"]), f"/{text or 'help'}", dedupe, private=private)


def _pressed(body: Json, me: SlackIdentity) -> Inbound | None:
    """Read a press on a button: a command under a message of this bot, or in its home."""
    (action, *_), user = body["actions"], body["user"]
    command = action.get("value") or ""
    if not command.startswith("/"):
        return None
    presser = account(user.get("team_id") or me.team, user["id"])
    dedupe = f"press/{me.team}/{user['id']}/{action['action_ts']}"
    if body["container"]["type"] == "view":
        if body["view"].get("type") != HOME:
            return None
        return Inbound(Address(NAME, user["id"], me.team, HOME), presser, command, dedupe, how=How.BUTTON)
    # For a message that only one person was shown, Slack tells nothing but its place, and only to its own app.
    message: Json = body.get("message") or {"user": me.user}
    if message.get("user") != me.user:
        return None
    place = {**body["container"], "channel": _id(body["channel"]), "user": user["id"]}
    place |= {"thread_ts": place.get("thread_ts") or message.get("thread_ts"), "ts": place["message_ts"]}
    private = _is_private(place)
    return Inbound(_address(place, me), presser, command, dedupe, private=private, how=How.BUTTON, press=dedupe)
