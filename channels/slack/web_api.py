"""The Web API's calls that show a message, change it, take it back, and bring or fetch a file, at a place on Slack.

Their errors are ours. Every message bears a mark, by which one whose answer was lost is found again. Other apps of a
workspace may read it, so the values behind it cannot be read from it.

A person who puts a file into a chat may let Slack name an address of their own for it. The bot's token opens everything
that it may read, so it goes to Slack's own hosts alone, and no redirect is followed.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2s
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from slack_sdk.errors import SlackApiError

from channels.http import download
from channels.messages import Address, Attachment, Outbound
from channels.port import AmbiguousSendError, ChannelError, FileRefusedError, FixedMessageError, GoneError
from channels.slack.clients import Clients
from channels.slack.errors import FAILURES, UNREADABLE, code, failure, refuses_file, told
from channels.slack.events import HOME, NAME
from channels.slack.render import QUIET, SlackMessage

_DIRECT: Final = "D"
_ACCOUNTS: Final = ("U", "W")


@dataclass(frozen=True, slots=True)
class SlackPlace:
    """A conversation of a workspace, a thread of it, and the one member who alone may see it."""

    team: str
    channel: str
    thread: str = ""
    only: str = ""

    @property
    def direct(self) -> bool:
        """Whether it is the conversation of one person with the bot."""
        return self.channel.startswith(_DIRECT)

    @property
    def home(self) -> bool:
        """Whether it is the Home of the account that stands for the conversation."""
        return self.thread == HOME

    @property
    def account(self) -> bool:
        """Whether it is named by the account of a person, whose conversation is meant."""
        return self.channel.startswith(_ACCOUNTS)


def place_of(address: Address) -> SlackPlace:
    """Return where an address is.

    Raises ChannelError: Slack has no such place.
    """
    if address.channel != NAME or not address.workspace or not address.chat:
        raise ChannelError("the address is not one of Slack's")
    place = SlackPlace(address.workspace, address.chat, address.thread, address.recipient)
    if place.home and (not place.account or place.only not in {"", place.channel}):
        raise ChannelError("a Home is of one account, and for it alone")
    return place


_EVENT: Final = "lockgate_said"
_LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True)
class MessageMark:
    """The name of one message: its text's key, the same at every attempt, and its number of how many from 1."""

    key: str
    number: int
    of: int

    def told(self) -> dict[str, Any]:
        """Return it as Slack keeps it with a message."""
        return {"event_type": _EVENT, "event_payload": {"key": self.key, "number": self.number, "of": self.of}}


def key_of(outbound: Outbound, *, preview: bool = False) -> str:
    """Return the name of an outbound text, or of its preview."""
    return blake2s(f"{outbound.address}\n{preview}\n{outbound.key}".encode(), digest_size=16).hexdigest()


async def find_marked(client: Any, place: SlackPlace, mark: MessageMark) -> str:  # noqa: ANN401 - of the SDK, untyped
    """Return the time stamp of a message, empty if it is not found; number 0 finds the last one of its text.

    Looked for once, among the newest in a chat and from the beginning of a thread. Where the history cannot be read,
    for want of a scope or because it was read too often, nothing is found.
    """
    where = {"channel": place.channel, "limit": _LOOKED_THROUGH, "include_all_metadata": True}
    try:
        if place.thread:
            answer = await client.conversations_replies(ts=place.thread, **where)
        else:
            answer = await client.conversations_history(**where)
        return next((str(message["ts"]) for message in answer["messages"] if _bears(message, mark)), "")
    except FAILURES:
        return ""


def _bears(message: Any, mark: MessageMark) -> bool:  # noqa: ANN401 - Slack's JSON
    told = message.get("metadata", {})
    payload = told.get("event_payload", {})
    wanted = (mark.key, mark.number or payload.get("of"))
    return told.get("event_type") == _EVENT and (payload.get("key"), payload.get("number")) == wanted


_UNREADABLE: Final = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
_FIXED: Final = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
_REMEMBERED: Final = 256
_PEOPLE: Final = 10_000
"""Of direct messages whose names are kept: Slack tells fifty a minute."""

K = TypeVar("K")
V = TypeVar("V")


class MessageCalls:
    """Makes the calls, with the client of each workspace."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._private: dict[tuple[str, str], str] = {}
        self._active: dict[SlackPlace, None] = {}

    async def show(self, place: SlackPlace, sheet: SlackMessage, mark: MessageMark) -> str:
        """Show a message, and return its time stamp.

        Raises GoneError: the thread is gone; a message that Slack showed outside it is taken back.
        """
        client = await self._client(place.team)
        where = {"channel": place.channel, "thread_ts": place.thread or None, **QUIET}
        try:
            answer = await _readably(partial(client.chat_postMessage, metadata=mark.told(), **where), sheet)
            named, threaded = _shown(answer, place.thread)
        except AmbiguousSendError:
            found = await find_marked(client, place, mark)
            if not found:
                raise
            return found
        if place.thread and not threaded:
            with suppress(*FAILURES):
                await client.chat_delete(channel=place.channel, ts=named)
            raise GoneError("the thread is gone")
        return named

    async def whisper(self, place: SlackPlace, sheet: SlackMessage) -> None:
        """Show a message to `place.only` alone; in a thread without replies it would be invisible."""
        client = await self._client(place.team)
        thread = place.thread if await self._is_active(client, place) else None
        where = {"channel": place.channel, "user": place.only, "thread_ts": thread, **QUIET}
        await _readably(partial(client.chat_postEphemeral, **where), sheet)

    async def change(self, place: SlackPlace, named: str, sheet: SlackMessage, mark: MessageMark | None = None) -> None:
        """Change a message; doing so twice makes no difference, so it is repeated where the outcome is unknown.

        Raises FixedMessageError: it is gone, or too old.
        """
        client = await self._client(place.team)
        told = mark.told() if mark is not None else None
        change = partial(client.chat_update, channel=place.channel, ts=named, metadata=told, **QUIET)
        try:
            await _readably(change, sheet, clears=True)
        except AmbiguousSendError:
            await _readably(change, sheet, clears=True)

    async def take_back(self, place: SlackPlace, named: str) -> None:
        """Delete a message, if it is still there."""
        client = await self._client(place.team)
        try:
            await client.chat_delete(channel=place.channel, ts=named)
        except FAILURES as error:
            if code(error) != "message_not_found":
                raise failure(error) from None

    async def upload(self, team: str, data: bytes, name: str) -> str:
        """Upload a file that is not visible yet, and return its id."""
        client = await self._client(team)
        try:
            answer = await client.files_getUploadURLExternal(filename=name, length=len(data))
            where = {"url": answer["upload_url"], "proxy": client.proxy}
            async with client.session.post(**where, data=data, raise_for_status=True):
                pass
            return told(answer, "file_id")
        except FAILURES as error:
            if refuses_file(error):
                raise FileRefusedError from None
            raise _certain(failure(error), "Slack did not take the file") from None

    async def share(self, place: SlackPlace, file: str, name: str) -> None:
        """Show a file that was sent."""
        client = await self._client(place.team)
        where = {"channel_id": place.channel, "thread_ts": place.thread or None}
        try:
            await client.files_completeUploadExternal(files=[{"id": file, "title": name}], **where)
        except FAILURES as error:
            raise FileRefusedError() if refuses_file(error) else failure(error) from None

    async def publish(self, place: SlackPlace, blocks: list[dict[str, Any]]) -> None:
        """Show blocks as a user's Home."""
        client = await self._client(place.team)
        try:
            await client.views_publish(user_id=place.channel, view={"type": "home", "blocks": blocks})
        except FAILURES as error:
            raise failure(error) from None

    async def conversation(self, team: str, account: str) -> str:
        """Return the direct message with an account. Raises GoneError: the account cannot receive messages there."""
        if (team, account) not in self._private:
            client = await self._client(team)
            try:
                opened = told(await client.conversations_open(users=[account]), "channel", "id")
            except FAILURES as error:
                failed = failure(error)
                if isinstance(failed, AmbiguousSendError):
                    failed = ChannelError("Slack cannot be reached")
                raise failed from None
            remember(self._private, (team, account), opened, most=_PEOPLE)
        return self._private[team, account]

    async def find(self, place: SlackPlace, mark: MessageMark) -> str:
        """Return the time stamp of a message that bears a mark, empty if it is not found."""
        return await find_marked(await self._client(place.team), place, mark)

    async def _client(self, team: str) -> Any:  # noqa: ANN401 - of the SDK, untyped
        try:
            return await self._clients.of(team)
        except AmbiguousSendError:
            # It was asked who the bot is, and nothing said.
            raise ChannelError("Slack cannot be reached") from None

    async def _is_active(self, client: Any, place: SlackPlace) -> bool:  # noqa: ANN401 - of the SDK, untyped
        """Tell whether a thread has replies, which is not asked again once it has."""
        if not place.thread or place in self._active:
            return True
        try:
            answer = await client.conversations_replies(channel=place.channel, ts=place.thread, limit=2)
            _root, *replies = answer["messages"]
        except FAILURES:
            return True
        if replies:
            remember(self._active, place, None)
        return bool(replies)


def remember(kept: dict[K, V], key: K, value: V, *, most: int = _REMEMBERED) -> None:
    """Keep a value for a while, one of the `most` newest."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value


def _shown(answer: Any, thread: str) -> tuple[str, bool]:  # noqa: ANN401 - Slack's JSON
    """Return the time stamp of a message that was shown, and whether it stands in a thread, if it is to.

    Raises AmbiguousSendError: Slack does not tell what it did.
    """
    try:
        return told(answer, "ts"), bool(thread and answer["message"].get("thread_ts"))
    except UNREADABLE as error:
        raise failure(error) from None


def _certain(failed: ChannelError, told: str) -> ChannelError:
    """Return the error for something that shows nothing by itself: neither is the chat gone, nor was anything said."""
    return ChannelError(told) if isinstance(failed, AmbiguousSendError | GoneError) else failed


async def _readably(say: Callable[..., Awaitable[Any]], sheet: SlackMessage, *, clears: bool = False) -> Any:  # noqa: ANN401 - of the SDK
    """Say a message with its blocks, or where Slack refuses those as plain text; `clears` takes away those before."""
    try:
        try:
            return await say(text=sheet.text, blocks=list(sheet.blocks))
        except SlackApiError as error:
            if code(error) not in _UNREADABLE:
                raise
            return await say(text=sheet.plain, **({"blocks": []} if clears else {}))
    except FAILURES as error:
        raise FixedMessageError("it cannot be changed any more") if code(error) in _FIXED else failure(error) from None


Json = Mapping[str, Any]

_ADDRESS: Final = re.compile(r"(https?)://([a-z0-9.-]+(?::[0-9]+)?)/[!-\[\]-~]*")
_PAGE: Final = b"<!DOCTYPE html"
_HTML: Final = "text/html"


async def fetch_file(clients: Clients, attachment: Attachment, most: int, seconds: float) -> bytes:
    """Return a file, of at most `most` bytes, within `seconds`.

    Raises:
        LargeFileError: it is larger.
        ChannelError: it cannot be fetched.
    """
    team, _, name = attachment.handle.partition("/")
    client = await clients.of(team)
    try:
        file: Json = (await client.files_info(file=name))["file"]
        address = str(file.get("url_private_download") or file.get("url_private") or "")
    except FAILURES:
        raise ChannelError("Slack does not tell where the file is") from None
    if file.get("is_external") or not is_slacks(address, client.base_url):
        raise ChannelError("the file is not at Slack")
    content = await download(address, most, seconds, {"Authorization": f"Bearer {client.token}"})
    if content.startswith(_PAGE) and file.get("mimetype") != _HTML:
        # Where the app may not read a file, Slack shows how to sign in.
        raise ChannelError("the app lacks a scope; install it again with the manifest")
    return content


def is_slacks(address: str, server: str) -> bool:
    """Tell whether an address is at the host of Slack's Web API or one of its subdomains, as that is asked."""
    named, api = _ADDRESS.fullmatch(address), urlsplit(server)
    if named is None or named[1] != api.scheme:
        return False
    return named[2] == api.netloc or named[2].endswith(f".{api.netloc}")
