"""Slack: listens, over sockets or by requests, and speaks.

Everything that is told passes `door` and `wire`, everything that is said passes `speak`. No error carries a sentence of
Slack's, and no log a token.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from channels.base import Audience, ChannelError, Receive, Trouble
from channels.message import Address, Attachment, Outbound, Signal
from channels.slack import wire
from channels.slack.clients import SERVER, Clients, Workspace
from channels.slack.crowd import Crowd
from channels.slack.door import Door
from channels.slack.install import Installer
from channels.slack.place import NAME
from channels.slack.sockets import Sockets
from channels.slack.speak import Speaker
from channels.slack.timing import Timing

_OK: Final = 200


class Slack:
    """The adapter for one app.

    `token` is that of its bot in the operator's workspace, empty where `installer` alone has tokens, and `app_token`
    opens sockets. `commands` are the names that `!` makes a command of.
    `server` is where the Web API is.
    """

    name = NAME
    marks_repeats = True
    previews = True

    def __init__(
        self,
        token: str,
        app_token: str,
        *,
        installer: Installer | None = None,
        commands: Iterable[str] = (),
        server: str = SERVER,
        timing: Timing | None = None,
    ) -> None:
        self._timing = timing or Timing()
        installed = None if installer is None else installer.installations
        self._clients = Clients(token, installations=installed, server=server, seconds=self._timing.call)
        self._commands = frozenset(commands)
        self._crowd = Crowd(self._clients, self._timing.readers)
        self._speaker = Speaker(self._clients)
        self._sockets = Sockets(self._clients, app_token, self._timing)
        self._receive: Receive | None = None
        self._unread = 0

    async def serve(self, receive: Receive) -> None:
        """Listen until cancelled."""
        self._receive = receive
        door = Door(self._clients, self._take)

        async def answer(envelope: dict[str, Any]) -> dict[str, Any] | None:
            response = await door.came(envelope.get("payload") or {}, {}, socket=True)
            if response.status != _OK:
                return None
            return json.loads(response.body) if response.body else {}

        try:
            await self._sockets.run(answer)
        finally:
            self._receive = None

    async def close(self) -> None:
        """Close the connections; nothing can be said any more."""
        await self._clients.close()

    async def send(self, outbound: Outbound) -> str:
        """Say it, and return what Slack calls it.

        Raises ChannelError: it was certainly not said. AmbiguousSendError: nobody knows.
        """
        return await self._speaker.send(outbound)

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written.

        Raises ChannelError: it was not shown.
        """
        await self._speaker.preview(outbound)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show in a thread what is going on; the end takes back what is left of a preview."""
        await self._speaker.signal(address, signal)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:  # noqa: ARG002 - of the port
        """Return a file that came with a message; none is told of. Raises ChannelError."""
        raise ChannelError("Slack hands out no files here")

    async def audience(self, address: Address) -> Audience:
        """Tell who reads at the address, as far as Slack tells."""
        return await self._crowd.audience(address)

    async def troubles(self) -> tuple[Trouble, ...]:
        """Ask Slack what is wrong, and add what listening met with."""
        found = list(self._sockets.troubles())
        if self._unread:
            found.append(Trouble(f"{self._unread} events could not be understood", "look for a newer version"))
        return tuple(dict.fromkeys(found))

    async def _take(self, body: wire.Json, there: Workspace) -> None:
        """Hand on what came; when this returns it is kept."""
        me = wire.Identity(there.team, there.user, self._commands)
        try:
            told = wire.events(body, me)
            self._crowd.forget(there.team, wire.touched(body))
        except (AttributeError, KeyError, TypeError, ValueError):
            # It would come again, and be understood no better.
            self._unread += 1
            return
        if self._receive is None:
            raise ChannelError("nobody listens any more")
        for event in told:
            await self._receive(event)
