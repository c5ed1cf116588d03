"""Slack: listens, over sockets or by requests, and speaks.

All updates pass `transport` and `events`, all outbound texts pass `sender`. No error carries a sentence of Slack's, and
no log a token.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count
from typing import Any, Final

from slack_bolt.response import BoltResponse

from channels.begun_sends import BegunSends
from channels.intake import Intake, Json, Kept, Lanes
from channels.messages import Address, Attachment, Event, Inbound, Moved, Outbound, Signal
from channels.port import (
    Audience,
    Began,
    ChannelError,
    ChannelVault,
    GoneError,
    Lease,
    Left,
    Receive,
    Trouble,
    VaultError,
    untold,
)
from channels.slack import events, probing, setup, web_api
from channels.slack.buttons import PressedMessages
from channels.slack.clients import SERVER, Clients, Installations, Workspace
from channels.slack.errors import FAILURES
from channels.slack.events import NAME
from channels.slack.oauth import SlackInstaller
from channels.slack.readers import SlackReaders
from channels.slack.sender import SlackSender
from channels.slack.transport import (
    EventDeduplicator,
    EventGateway,
    RequestEndpoint,
    RequestListener,
    SlackTiming,
    SocketMode,
)

UNKNOWN_BUTTON: Final = "This button does nothing any more."

_LOGGER: Final = logging.getLogger(__name__)
_SUBJECT: Final = "channel slack"
_OK: Final = 200
_FETCHED_CALLS: Final = 4
"""How many calls' time a file may take."""


class Slack:
    """The adapter for one app.

    `token` is the bot's in the operator's workspace, empty where `installer` alone has tokens. `listen` is the token
    that opens sockets, or where to listen for Slack's requests. `vault` holds the values that all processes share,
    `lease` lets one of the processes take in parked updates, and `now_ms` is the time in milliseconds since 1970.
    `commands` are the names that `!` makes a command of. `chats` tells which the policy names. `server` is where the
    Web API is.
    """

    name = NAME
    marks_repeats = True
    marks_untrusted = True
    previews = True

    def __init__(  # noqa: PLR0913 - made in the composition root from the configuration
        self,
        token: str,
        listen: str | RequestEndpoint,
        *,
        lease: Lease,
        vault: ChannelVault,
        now_ms: Callable[[], int],
        installer: SlackInstaller | None = None,
        commands: Iterable[str] = (),
        bots: Iterable[str] = (),
        chats: Callable[[], frozenset[str]] = frozenset,
        server: str = SERVER,
        timing: SlackTiming | None = None,
    ) -> None:
        self._timing = timing or SlackTiming()
        installed = None if installer is None else installer.installations
        self._installed = installed
        self._installing = nullcontext if installer is None else installer.listening
        self._clients = Clients(token, installations=installed, server=server, seconds=self._timing.call)
        self._token = token
        self._commands = frozenset(commands)
        self._bots = frozenset(bots)
        self._chats = chats
        self._now_ms = now_ms
        self._deduplicator = EventDeduplicator(vault, self._timing.patience)
        self._lease = lease
        self._intake = Intake(
            vault,
            f"{NAME}/parked/",
            self._taken_in,
            beside=_is_command,
            pause=self._timing.pause,
            longest=self._timing.longest,
        )
        self._numbers = count()
        self._there: dict[str, Workspace] = {}
        self._answering = Lanes()
        self._readers = SlackReaders(self._clients, self._timing.readers)
        self._pressed = PressedMessages(server, self._timing.call)
        self._sender = SlackSender(self._clients, BegunSends(vault, NAME), self._commands, pace=self._timing.pace)
        self._sockets = SocketMode(self._clients, listen, self._timing) if isinstance(listen, str) else None
        self._listening = listen if isinstance(listen, RequestEndpoint) else None
        self._receive: Receive | None = None
        self._unread = 0

    async def serve(self, receive: Receive, began: Began = untold) -> None:
        """Listen until cancelled.

        `began` is called once, when Slack greeted on a socket, or when its requests can come.

        Raises OSError: the address for Slack's requests, or for people who install the bot, cannot be listened at.
        """
        self._receive = receive
        gateway = EventGateway(self._clients, self._take)

        async def opened(envelope: dict[str, Any]) -> dict[str, Any] | None:
            try:
                response = await gateway.came(envelope.get("payload") or {}, {}, socket=True)
            except ValueError:
                # It would come again, and be understood no better.
                self._unread += 1
                return {}
            if response.status != _OK:
                return None
            return json.loads(response.body) if response.body.startswith("{") else {}

        async def requested(body: str, headers: Mapping[str, str]) -> BoltResponse:
            return await gateway.came(body, headers, socket=False)

        try:
            async with self._deduplicator.running(), self._intake.running(self._lease), self._installing():
                if self._sockets is not None:
                    await self._sockets.run(opened, began)
                if self._listening is not None:
                    await RequestListener(self._listening, self._timing.call).run(requested, began)
        finally:
            self._receive = None

    async def close(self) -> None:
        """Close the connections; nothing can be sent any more."""
        await self._clients.close()

    async def send(self, outbound: Outbound) -> str:
        """Send a text, and return Slack's name of the message.

        Raises:
            ChannelError: it was certainly not said.
            AmbiguousSendError: it may have been sent.
        """
        return await self._sender.send(outbound)

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written.

        Raises ChannelError: it was not shown.
        """
        await self._sender.preview(outbound)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show an activity in a thread; the end of it takes back a remaining preview."""
        await self._sender.signal(address, signal)

    async def spend(self, press: str, left: Left) -> None:
        """Take away the buttons of a pressed message, besides those that are left; a failure is ignored."""
        await self._pressed.spend(press, left)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a file that came with a message, of at most `most` bytes.

        Raises:
            LargeFileError: it is larger.
            ChannelError: it cannot be fetched.
        """
        return await web_api.fetch_file(self._clients, attachment, most, _FETCHED_CALLS * self._timing.call)

    async def audience(self, address: Address) -> Audience:
        """Return the present readers of the address, as far as Slack tells."""
        return await self._readers.audience(address)

    async def troubles(self) -> tuple[Trouble, ...]:
        """Ask Slack for faults, and add those that listening met."""
        found = list[Trouble]()
        if self._token:
            found += await setup.troubles(self._clients.made(self._token), self._now_ms)
        if self._installed is not None:
            found += await self._elsewhere(self._installed)
        if self._sockets is not None:
            found += await self._sockets.troubles()
        found += await self._intake.troubles()
        if self._unread:
            found.append(Trouble(f"{self._unread} events could not be understood", "look for a newer version"))
        return tuple(dict.fromkeys(found))

    async def probe(self) -> tuple[Trouble, ...]:
        """Ask Slack for faults that only a trial shows."""
        if not self._token:
            return ()
        signing = None if self._listening is None else self._listening.secret
        asked = probing.troubles(self._clients.made(self._token), self._chats(), signing)
        return tuple([one async for one in asked])

    async def mend(self) -> tuple[str, ...]:
        """Mend nothing: faults at Slack are mended there."""
        return ()

    async def _elsewhere(self, installed: Installations) -> list[Trouble]:
        """Tell what is wrong in the workspaces that installed the bot."""
        try:
            there = {team: await installed.of(team) for team in await installed.teams()}
        except VaultError:
            return [setup.UNREADABLE]
        if not there and not self._token:
            return [setup.NOBODY]
        found = list[Trouble]()
        for team, one in there.items():
            if one is not None:
                asked = await setup.troubles(self._clients.made(one.token), self._now_ms)
                found += (replace(each, problem=f"in workspace {team} {each.problem}", names=True) for each in asked)
        return found

    async def _take(self, body: events.Json, there: Workspace) -> None:
        """Hand on an update; when this returns it is kept."""
        self._there[there.team] = there
        order = f"{self._now_ms():015d}-{next(self._numbers):09d}"
        await self._intake.take(f"{there.team}/{events.lane(body)}", order, {"team": there.team, "body": body})

    async def _taken_in(self, told: Json, kept: Kept) -> None:
        """Have the application take in an update of a workspace, and send its answer."""
        body, team = told["body"], str(told["team"])
        try:
            there = self._there.get(team) or await self._clients.workspace(team)
        except GoneError:
            # It was parked, and nobody there has the bot any more.
            return
        me = events.SlackIdentity(there.team, there.user, self._commands, self._bots)
        try:
            found = events.events(body, me)
            self._readers.forget(there.team, events.touched(body))
        except (AttributeError, KeyError, TypeError, ValueError):
            # It would come again, and be understood no better.
            _LOGGER.warning(
                "an event could not be understood, it is left out", extra={"subject": _SUBJECT}, exc_info=True
            )
            self._unread += 1
            return
        if self._receive is None:
            raise ChannelError("nobody listens any more")
        for event in found:
            if isinstance(event, Inbound) and event.press:
                self._pressed.keep(event.press, body, there)
        answers = [(event, await self._deduplicator.hand(event, self._receive)) for event in found]
        kept()
        for event, answer in answers:
            if answer is not None:
                # One person's answers are sent in order, and keep no other person's waiting.
                async with self._answering.of(_person(event)):
                    await answer()
        if body.get("type") == "block_actions" and not found:
            await self._refuse(body, there)

    async def _refuse(self, body: events.Json, there: Workspace) -> None:
        """Tell the user who pressed a button that nothing offered, and no other user."""
        where: events.Json = body.get("channel") or {}
        if where:
            with suppress(*FAILURES):
                await there.client.chat_postEphemeral(channel=where["id"], user=body["user"]["id"], text=UNKNOWN_BUTTON)


def _is_command(told: Json) -> bool:
    """Say whether an update is a command, which the order of a session's updates does not concern."""
    body: events.Json = told["body"]
    event: events.Json = body.get("event") or {}
    typed = str(event.get("text", "")).lstrip()
    return "command" in body or body.get("type") == "block_actions" or typed.startswith("!")


def _person(event: Event) -> str:
    return f"{event.account}@{event.address}" if not isinstance(event, Moved) else ""
