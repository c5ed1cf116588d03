"""Saying things in channels, threads and direct messages: messages in order, files, and what is for one alone.

Nothing is said twice by itself: what Slack may have taken is looked for by the mark that every message bears, and is
reported as ambiguous where it is not found. What is for a thread never appears outside it. A text in several messages
that Slack stops in the middle with a wait goes on where it was stopped, when it is sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import aiohttp
from slack_sdk.errors import SlackApiError

from channels.base import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.message import Address, Outbound
from channels.slack import traces
from channels.slack.failures import FAILURES, code, failure
from channels.slack.letter import FILE, Letter, Sheet, compose
from channels.slack.place import Place, place_of
from channels.slack.render import QUIET

_REMEMBERED: Final = 256
_AT_ONCE: Final = 2_000
"""Up to this many characters are rendered on the spot, which takes less than a switch of threads is worth."""
_UNREADABLE: Final = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})


class Clients(Protocol):
    """Who has the client of each workspace."""

    async def of(self, team: str) -> Any:  # noqa: ANN401 - the SDK's own types are not known
        """Return the client of a workspace. Raises GoneError: nobody installed the app there."""
        ...


class Speaker:
    """Speaks in the workspaces that `clients` has clients of."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._done: dict[tuple[Address, str, bool], tuple[int, str]] = {}
        self._private: dict[tuple[str, str], str] = {}

    async def send(self, outbound: Outbound) -> str:
        """Say it. Returns and raises as `Channel.send`."""
        letter = await _composed(outbound)
        if outbound.replaces:
            return await self._replace(outbound, letter)
        place = await self._place(outbound.address, file=bool(letter.file))
        key = traces.key_of(outbound)
        if outbound.repeated and not place.only:
            found = await traces.find(await self._clients.of(place.team), place, key)
            if found:
                return _receipt(place, found)
        return await self._say(outbound, letter, place, key)

    async def _place(self, address: Address, *, file: bool) -> Place:
        """Return where to say something: what is for one alone in their own conversation, or hidden from the others."""
        place = place_of(address)
        if place.account:
            place = replace(place, channel=await self._conversation(place.team, place.channel))
        if not place.only or not (place.direct or file):
            return place
        # A file cannot be hidden in a channel.
        own = await self._conversation(place.team, place.only)
        if place.direct and own != place.channel:
            raise ChannelError("whom it is for does not read there")
        return replace(place, only="") if place.direct else Place(place.team, own)

    async def _conversation(self, team: str, account: str) -> str:
        """Return the direct message with an account."""
        if (team, account) not in self._private:
            client = await self._clients.of(team)
            try:
                answer = await client.conversations_open(users=[account])
            except FAILURES as error:
                failed = failure(error)
                # The chat that was addressed is not gone, and nothing was said.
                if isinstance(failed, GoneError | AmbiguousSendError):
                    failed = ChannelError("whom it is for cannot be spoken to in private")
                raise failed from None
            while len(self._private) >= _REMEMBERED:
                del self._private[next(iter(self._private))]
            self._private[team, account] = str(answer["channel"]["id"])
        return self._private[team, account]

    async def _replace(self, outbound: Outbound, letter: Letter) -> str:
        """Let a text stand in the place of a message; one that is gone stays gone."""
        channel, _, named = outbound.replaces.partition("/")
        sheet, *others = letter.sheets
        if letter.file or others:
            raise ChannelError("one message cannot hold it")
        await self._edit(Place(place_of(outbound.address).team, channel), named, sheet)
        return outbound.replaces

    async def _edit(self, place: Place, named: str, sheet: Sheet) -> None:
        """Change a message; doing so twice makes no difference, so it is done again where nobody knows."""
        client = await self._clients.of(place.team)
        change = partial(client.chat_update, channel=place.channel, ts=named, **QUIET)
        try:
            await _readably(change, sheet, blocks=[])
        except AmbiguousSendError:
            await _readably(change, sheet, blocks=[])

    async def _say(self, outbound: Outbound, letter: Letter, place: Place, key: str) -> str:
        mark = (outbound.address, outbound.key, outbound.repeated)
        steps = len(letter.sheets) + bool(letter.file)
        # Before the line above it, so that a file that Slack does not take is not announced.
        file = await self._upload(place.team, letter.file) if letter.file else ""
        begun, named = self._done.pop(mark, (0, ""))
        for number in range(begun, steps):
            try:
                if number == len(letter.sheets):
                    await self._share(place, file)
                else:
                    named = await self._post(place, letter.sheets[number], key, (number + 1, steps))
            except BusyChannelError:
                self._keep(mark, (number, named))
                raise
            except (AmbiguousSendError, GoneError):
                raise
            except ChannelError:
                if number:
                    raise AmbiguousSendError("only a part of it was shown") from None
                raise
        return _receipt(place, named) if named else ""

    def _keep(self, mark: tuple[Address, str, bool], done: tuple[int, str]) -> None:
        while len(self._done) >= _REMEMBERED:
            del self._done[next(iter(self._done))]
        self._done[mark] = done

    async def _post(self, place: Place, sheet: Sheet, key: str, counted: tuple[int, int]) -> str:
        """Show a message, the first number of how many; return its time stamp."""
        client = await self._clients.of(place.team)
        where = {"channel": place.channel, "thread_ts": place.thread or None, **QUIET}
        if place.only:
            await _readably(partial(client.chat_postEphemeral, user=place.only, **where), sheet)
            return ""
        try:
            answer = await _readably(
                partial(client.chat_postMessage, metadata=traces.mark(key, *counted), **where), sheet
            )
        except AmbiguousSendError:
            found = await traces.find(client, place, key, counted[0])
            if not found:
                raise
            return found
        named = str(answer["ts"])
        if place.thread and answer["message"].get("thread_ts") != place.thread:
            with suppress(*FAILURES):
                await client.chat_delete(channel=place.channel, ts=named)
            raise GoneError("the thread is gone")
        return named

    async def _upload(self, team: str, data: bytes) -> str:
        """Send a file that nobody sees yet, and return its id."""
        client = await self._clients.of(team)
        try:
            answer = await client.files_getUploadURLExternal(filename=FILE, length=len(data))
            limit = aiohttp.ClientTimeout(total=client.timeout)
            async with aiohttp.ClientSession(timeout=limit, raise_for_status=True, trust_env=True) as session:
                await session.post(answer["upload_url"], data=data)
        except FAILURES as error:
            failed = failure(error)
            if isinstance(failed, AmbiguousSendError):
                failed = ChannelError("Slack did not take the file")
            raise failed from None
        return str(answer["file_id"])

    async def _share(self, place: Place, file: str) -> None:
        """Show a file that was sent."""
        client = await self._clients.of(place.team)
        try:
            await client.files_completeUploadExternal(
                files=[{"id": file, "title": FILE}], channel_id=place.channel, thread_ts=place.thread or None
            )
        except FAILURES as error:
            raise failure(error) from None


def _receipt(place: Place, named: str) -> str:
    """Return what a message is called: where it is may be another place than where it was addressed to."""
    return f"{place.channel}/{named}"


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
        raise failure(error) from None


async def _composed(outbound: Outbound) -> Letter:
    if len(outbound.text) <= _AT_ONCE:
        return compose(outbound)
    return await asyncio.to_thread(compose, outbound)
