"""Socket Mode: what Slack tells comes over connections that this bot opens, and each envelope is answered on its own.

The library's own client is not used. It opens a connection again and again with a ticket that counts once, it starts an
envelope beside the one before, and it waits for a connection to end before it opens the next. Here several are open at
once, one that is told to go is replaced while it goes, and one that only looks alive is noticed: by the answers to
pings, and by how long nothing came at all.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from anyio import current_time

from channels.base import Began, BusyChannelError, ChannelError, Trouble, untold
from channels.slack.clients import Clients
from channels.slack.failures import FAILURES, code, failure, told
from channels.slack.timing import Timing

LONGEST: Final = 4_000_000
"""Of one envelope, in bytes; a message with its blocks and attachments is far below."""

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Keep what came in an envelope, and return what it is answered with, None if it was not kept."""

_LOGGER: Final = logging.getLogger(__name__)
_SUBJECT: Final = "channel slack"
_REFUSED: Final = Trouble(
    "Slack does not accept the app-level token",
    "make one with the scope `connections:write` at api.slack.com, under Basic Information, and put it into the "
    "environment",
)
_AWAY: Final = Trouble("no socket is open to Slack", "look at the network of this machine")
_OFF: Final = Trouble("Socket Mode is off for this app", "turn it on at api.slack.com, under Socket Mode")
_LOST: Final = Trouble("an event could not be kept, and is told again", "look at the store")
_TOKENS: Final = frozenset({"invalid_auth", "not_authed", "not_allowed_token_type", "token_revoked", "missing_scope"})


class Sockets:
    """Listens on sockets that `token`, the app's own, opens."""

    def __init__(self, clients: Clients, token: str, timing: Timing) -> None:
        self._clients = clients
        self._token = token
        self._timing = timing
        self._running = False
        self._began: Began = untold
        self._open = 0
        self._problem: Trouble | None = None
        self._kept: Trouble | None = None

    async def run(self, answer: Answer, began: Began = untold) -> None:
        """Hand on what comes until cancelled; connections are opened again for ever.

        `began` is told of the first greeting.
        """
        self._running, self._began = True, began
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._timing.sockets):
                    tasks.create_task(self._always(answer, tasks))
        finally:
            self._running = False

    async def troubles(self) -> tuple[Trouble, ...]:
        """Tell what is wrong with the connections now; where nobody listens, whether they could be opened."""
        if not self._running:
            with suppress(ChannelError):
                await self._ticket()
                self._problem = None
        away = None if self._open else self._problem or (_AWAY if self._running else None)
        return tuple(filter(None, (away, self._kept)))

    async def _always(self, answer: Answer, tasks: asyncio.TaskGroup) -> None:
        failures = 0
        while True:
            leaving: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            tasks.create_task(self._link(answer, leaving, tasks))
            asked = await leaving
            failures = 0 if asked == 0 else min(failures + 1, 30)
            pause = min(self._timing.longest, self._timing.pause * 2.0 ** (failures - 1)) if failures else 0.0
            await asyncio.sleep(max(asked, pause))

    async def _link(self, answer: Answer, leaving: "asyncio.Future[float]", tasks: asyncio.TaskGroup) -> None:
        """Listen on one connection to its end. `leaving` is told when another is to be opened, and after how long."""
        wait, url = self._timing.pause, ""
        try:
            url = await self._ticket()
            ping, proxy = self._timing.ping, self._clients.proxy
            async with self._clients.session().ws_connect(
                url, proxy=proxy, heartbeat=ping, max_msg_size=LONGEST, timeout=_closing(ping)
            ) as stream:
                wait = await self._listen(stream, answer, leaving, tasks)
        except BusyChannelError as error:
            self._log_failed(url, str(error))
            wait = error.seconds
        except ChannelError as error:
            self._log_failed(url, str(error))
            if self._problem in {_REFUSED, _OFF}:
                wait = self._timing.longest
        except (AttributeError, ValueError, OSError, *FAILURES) as error:
            # What is no envelope at all ends the connection, too.
            self._problem = _AWAY
            self._log_failed(url, type(error).__name__)
        finally:
            if not leaving.done():
                leaving.set_result(wait)

    def _log_failed(self, url: str, cause: str) -> None:
        """Log why a socket is not open; of its address only the host, as the rest opens it."""
        problem = self._problem
        facts = {"subject": _SUBJECT, "cause": cause, "address": urlsplit(url).hostname or self._clients.address}
        step = problem.next_step if problem is not None and problem is not _AWAY else ""
        _LOGGER.warning(
            "a socket to Slack failed", extra={**facts, "reason": problem and problem.problem, "step": step}
        )

    async def _ticket(self) -> str:
        client = self._clients.made("")
        try:
            return told(await client.apps_connections_open(app_token=self._token), "url")
        except FAILURES as error:
            name = code(error)
            self._problem = _REFUSED if name in _TOKENS else _OFF if name == "connections_not_enabled" else _AWAY
            raise failure(error) from None

    async def _listen(
        self,
        stream: aiohttp.ClientWebSocketResponse,
        answer: Answer,
        leaving: "asyncio.Future[float]",
        tasks: asyncio.TaskGroup,
    ) -> float:
        """Take what comes until the connection ends; return how long to wait before the next is opened."""
        greeted = False
        came = current_time()
        try:
            while True:
                async with asyncio.timeout_at(came + self._timing.quiet):
                    message = await stream.receive()
                if message.type is not aiohttp.WSMsgType.TEXT:
                    if not greeted:
                        self._log_failed("", "it ended before Slack greeted")
                    return 0.0 if greeted else self._timing.pause
                came, envelope = current_time(), json.loads(message.data)
                match envelope.get("type"):
                    case "hello" if not greeted:
                        greeted, self._problem = True, None
                        self._open += 1
                        self._began()
                        self._began = untold
                    case "disconnect":
                        if not leaving.done():
                            leaving.set_result(0.0)
                    case _ if "envelope_id" in envelope:
                        # Beside the others, so that one that takes long keeps none waiting.
                        tasks.create_task(self._answered(stream, envelope, answer))
                    case _:
                        pass
        except TimeoutError:
            self._log_failed("", f"nothing came for {self._timing.quiet:g} seconds")
            return 0.0
        finally:
            self._open -= greeted

    async def _answered(self, stream: aiohttp.ClientWebSocketResponse, envelope: Any, answer: Answer) -> None:  # noqa: ANN401 - Slack's JSON
        try:
            payload = await answer(envelope)
        except Exception:
            # What keeps events has errors of its own; Slack tells the event again.
            _LOGGER.warning("an event could not be kept, it is told again", extra={"subject": _SUBJECT}, exc_info=True)
            payload = None
        self._kept = _LOST if payload is None else None
        if payload is not None:
            # Where the connection is gone it is told again over another, and known by then.
            with suppress(OSError, aiohttp.ClientError, RuntimeError):
                more = {"payload": payload} if payload else {}
                await stream.send_json({"envelope_id": envelope["envelope_id"]} | more)


def _closing(seconds: float) -> aiohttp.ClientWSTimeout:
    return aiohttp.ClientWSTimeout(ws_close=seconds)  # pyright: ignore[reportCallIssue] - its fields are made by attrs
