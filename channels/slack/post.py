"""The calls that show a message, change it, take it back, and bring a file.

Their errors are ours. A message whose answer was lost is looked for by the mark that it bears.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from slack_sdk.errors import SlackApiError

from channels.base import AmbiguousSendError, ChannelError, GoneError
from channels.slack import traces
from channels.slack.clients import Clients
from channels.slack.failures import FAILURES, UNREADABLE, code, failure, refuses_file, told
from channels.slack.letter import FILE, Sheet
from channels.slack.place import Place
from channels.slack.render import QUIET

_UNREADABLE: Final = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
_FIXED: Final = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
_REMEMBERED: Final = 256
_PEOPLE: Final = 10_000
"""Of direct messages whose names are kept: Slack tells fifty a minute."""

K = TypeVar("K")
V = TypeVar("V")


class FixedError(ChannelError):
    """A message cannot be changed any more."""


class FileRefusedError(ChannelError):
    """A file is refused for good, where a text may still be taken."""

    def __init__(self) -> None:
        super().__init__("Slack does not take the file there")


class Post:
    """Makes the calls, with the client of each workspace."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._private: dict[tuple[str, str], str] = {}
        self._active: dict[Place, None] = {}

    async def show(self, place: Place, sheet: Sheet, mark: traces.Mark) -> str:
        """Show a message, and return its time stamp.

        Raises GoneError: the thread is gone; what Slack showed outside it is taken back.
        """
        client = await self._client(place.team)
        where = {"channel": place.channel, "thread_ts": place.thread or None, **QUIET}
        try:
            answer = await _readably(partial(client.chat_postMessage, metadata=mark.told(), **where), sheet)
            named, threaded = _shown(answer)
        except AmbiguousSendError:
            found = await traces.find(client, place, mark)
            if not found:
                raise
            return found
        if place.thread and not threaded:
            with suppress(*FAILURES):
                await client.chat_delete(channel=place.channel, ts=named)
            raise GoneError("the thread is gone")
        return named

    async def whisper(self, place: Place, sheet: Sheet) -> None:
        """Show a message to `place.only` alone; in a thread that has no replies nobody would see it."""
        client = await self._client(place.team)
        thread = place.thread if await self._is_active(client, place) else None
        where = {"channel": place.channel, "user": place.only, "thread_ts": thread, **QUIET}
        await _readably(partial(client.chat_postEphemeral, **where), sheet)

    async def change(self, place: Place, named: str, sheet: Sheet, mark: traces.Mark | None = None) -> None:
        """Change a message; doing so twice makes no difference, so it is done again where nobody knows.

        Raises FixedError: it is gone, or too old.
        """
        client = await self._client(place.team)
        told = mark.told() if mark is not None else None
        change = partial(client.chat_update, channel=place.channel, ts=named, metadata=told, **QUIET)
        try:
            await _readably(change, sheet, blocks=[])
        except AmbiguousSendError:
            await _readably(change, sheet, blocks=[])

    async def take_back(self, place: Place, named: str) -> None:
        """Delete a message, if it is still there."""
        client = await self._client(place.team)
        try:
            await client.chat_delete(channel=place.channel, ts=named)
        except FAILURES as error:
            if code(error) != "message_not_found":
                raise failure(error) from None

    async def upload(self, team: str, data: bytes) -> str:
        """Send a file that nobody sees yet, and return its id."""
        client = await self._client(team)
        try:
            answer = await client.files_getUploadURLExternal(filename=FILE, length=len(data))
            where = {"url": answer["upload_url"], "proxy": client.proxy}
            async with client.session.post(**where, data=data, raise_for_status=True):
                pass
            return told(answer, "file_id")
        except FAILURES as error:
            if refuses_file(error):
                raise FileRefusedError from None
            raise _certain(failure(error), "Slack did not take the file") from None

    async def share(self, place: Place, file: str) -> None:
        """Show a file that was sent."""
        client = await self._client(place.team)
        where = {"channel_id": place.channel, "thread_ts": place.thread or None}
        try:
            await client.files_completeUploadExternal(files=[{"id": file, "title": FILE}], **where)
        except FAILURES as error:
            raise FileRefusedError() if refuses_file(error) else failure(error) from None

    async def publish(self, place: Place, blocks: list[dict[str, Any]]) -> None:
        """Show blocks as somebody's Home."""
        client = await self._client(place.team)
        try:
            await client.views_publish(user_id=place.channel, view={"type": "home", "blocks": blocks})
        except FAILURES as error:
            raise failure(error) from None

    async def conversation(self, team: str, account: str) -> str:
        """Return the direct message with an account. Raises GoneError: nobody can be spoken to there."""
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

    async def find(self, place: Place, mark: traces.Mark) -> str:
        """Return the time stamp of a message that bears a mark, empty if it is not found."""
        return await traces.find(await self._client(place.team), place, mark)

    async def _client(self, team: str) -> Any:  # noqa: ANN401 - of the SDK, untyped
        try:
            return await self._clients.of(team)
        except AmbiguousSendError:
            # It was asked who the bot is, and nothing said.
            raise ChannelError("Slack cannot be reached") from None

    async def _is_active(self, client: Any, place: Place) -> bool:  # noqa: ANN401 - of the SDK, untyped
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


def _shown(answer: Any) -> tuple[str, bool]:  # noqa: ANN401 - Slack's JSON
    """Return the time stamp of a message that was shown, and whether it stands in a thread.

    Raises AmbiguousSendError: Slack does not tell what it did.
    """
    try:
        return told(answer, "ts"), bool(answer["message"].get("thread_ts"))
    except UNREADABLE as error:
        raise failure(error) from None


def _certain(failed: ChannelError, told: str) -> ChannelError:
    """Return the error for something that shows nothing by itself: neither is the chat gone, nor was anything said."""
    return ChannelError(told) if isinstance(failed, AmbiguousSendError | GoneError) else failed


async def _readably(say: Callable[..., Awaitable[Any]], sheet: Sheet, **without: Any) -> Any:  # noqa: ANN401 - of the SDK
    """Say a message with its blocks, or where Slack refuses those as plain text, with what goes `without` them."""
    try:
        try:
            return await say(text=sheet.text, blocks=list(sheet.blocks))
        except SlackApiError as error:
            if code(error) not in _UNREADABLE:
                raise
            return await say(text=sheet.plain, **without)
    except FAILURES as error:
        raise FixedError("it cannot be changed any more") if code(error) in _FIXED else failure(error) from None
