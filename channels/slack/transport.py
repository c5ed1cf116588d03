"""How Slack's events reach this bot, over sockets or by requests: kept before they are acknowledged, taken in once.

`EventGateway` is the one way in: a Bolt app that keeps an event before it answers. Bolt finds the workspace, leaves out
the bot's own actions and answers Slack's checks of the address. A middleware keeps all other events, and the chain ends
there: Bolt acknowledges an event before it runs a listener, so nothing may be left to one. An event that cannot be kept
    raises, and is not acknowledged, so that Slack sends it again.

`EventDeduplicator` takes in a repeated event once. A mention comes as a mention and as a message. An event that was not
acknowledged in time comes again, up to an hour later and to any process. The application keeps a message once by its
identity. A command, which it does not keep but does, would be done again: so it is claimed in the vault first, and the
process that claimed it does it. Slack waits three seconds, and some commands ask a model; so one that takes longer is
acknowledged by its claim, and goes on. A claim is given back where it could not be done, so that Slack can send it
again.

`RequestListener` listens for requests over the internet. A request proves itself by its signature over the bytes of its
body and the time it was made, which is compared in constant time. One that is older than five minutes is refused.
Nothing of it is read before. It is answered with 200 when it is kept, and otherwise Slack tells it again.

`SocketMode` opens connections and answers each envelope on its own. The library's own client is not used. It opens a
connection repeatedly with a ticket that counts once, starts an envelope beside the one before, and waits for a
connection to end before it opens the next. Here several are open at once, and one that Slack asks to close is replaced
while it closes. A dead connection is noticed by the answers to pings, and by the time since anything came.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from anyio import current_time
from slack_bolt.async_app import AsyncApp, AsyncBoltContext, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier

from channels.http import listening
from channels.intake import Lanes
from channels.messages import Event, Inbound
from channels.port import (
    Answer,
    Began,
    BusyChannelError,
    ChannelError,
    ChannelVault,
    GoneError,
    Receive,
    Trouble,
    VaultError,
    untold,
)
from channels.slack import events
from channels.slack.clients import Clients, Workspace, logger
from channels.slack.errors import FAILURES, code, failure, told
from channels.slack.sender import PACE
from channels.slack.web_api import remember


@dataclass(frozen=True, slots=True)
class SlackTiming:
    """Times, in seconds, and the number of sockets."""

    call: float = 15.0
    """The longest time of any call."""
    pause: float = 1.0
    """The first wait after a failure."""
    longest: float = 60.0
    """The longest wait after failures."""
    ping: float = 10.0
    """The interval between probes of a socket; it counts as dead when half of that passes without an answer."""
    quiet: float = 600.0
    """The time after which a socket that brought nothing is replaced although it answers."""
    readers: float = 30.0
    """The life of the cached readers of a channel."""
    pace: float = PACE
    """The least time between two edits of previews in a workspace."""
    sockets: int = 2
    """The number of sockets that are open at a time."""
    patience: float = 2.0
    """The time that a command is waited for before it is acknowledged: Slack waits three seconds."""


Take = Callable[[events.Json, Workspace], Awaitable[None]]
"""Keep an update of a workspace. Raises an exception: it could not be kept."""

_THERE = "lockgate.workspace"
"""The key under which Bolt's context carries the workspace that was found."""

_NOBODY = "This app is not installed in this workspace."


class EventGateway:
    """Hands events to `take`, in order within a channel. The caller has been proven genuine."""

    def __init__(self, clients: Clients, take: Take) -> None:
        self._lanes = Lanes()
        self._taken_off = clients.taken_off

        async def authorized(context: AsyncBoltContext, team_id: str | None) -> AuthorizeResult | None:
            try:
                there = await clients.workspace(team_id or "")
            except GoneError:
                return None
            context[_THERE] = there
            return AuthorizeResult(
                enterprise_id=None,
                team_id=there.team,
                bot_user_id=there.user,
                bot_id=there.bot,
                bot_token=there.client.token,
            )

        async def keep(req: AsyncBoltRequest) -> BoltResponse:
            await take(req.body, cast("Workspace", req.context[_THERE]))
            return BoltResponse(status=200, body="")

        app: Any = AsyncApp(
            name=events.NAME,
            logger=logger(),
            client=clients.made(""),
            authorize=authorized,  # pyright: ignore[reportArgumentType] - it may find nothing
            user_facing_authorize_error_message=_NOBODY,
            request_verification_enabled=False,
        )
        app.use(keep)
        self._dispatch = app.async_dispatch

    async def came(
        self, body: str | dict[str, Any], headers: Mapping[str, str | Sequence[str]], *, socket: bool
    ) -> BoltResponse:
        """Return the answer to a request or an envelope; only with status 200 it was kept.

        Raises ValueError: the body is not one of Slack's.
        """
        try:
            request = AsyncBoltRequest(body=body, headers=dict(headers), mode="socket_mode" if socket else "http")
            lane = events.lane(request.body)
        except (AttributeError, KeyError, TypeError, RecursionError):
            raise ValueError("the body is none of Slack's") from None
        if events.takes_off(request.body):
            # Bolt asks for a workspace first, and this one may be gone.
            try:
                await self._taken_off(str(request.body.get("team_id")))
            except ChannelError:
                return BoltResponse(status=503, body="")
            return BoltResponse(status=200, body="")
        async with self._lanes.of(lane):
            return await self._dispatch(request)


_LOGGER: Final = logging.getLogger(__name__)

_REMEMBERED: Final = 10_000
_LIFE: Final = 86_400.0
_CLAIM: Final = "slack/once/"


class EventDeduplicator:
    """Hands on each event once; events are remembered here, and claimed commands in the vault.

    `patience` is the time, in seconds, that a command is waited for.
    """

    def __init__(self, vault: ChannelVault, patience: float) -> None:
        self._vault = vault
        self._patience = patience
        self._known: dict[str, None] = {}
        self._tasks: asyncio.TaskGroup

    async def hand(self, event: Event, receive: Receive) -> Answer | None:
        """Hand on an event, if it is the first time; return the answer that is still to be sent.

        An event for which this raises was not handed on. A command is answered while it runs.

        Raises:
            VaultError: it is unknown whether the command was done.
            Exception: any error of `receive`.
        """
        if event.dedupe in self._known:
            return None
        if not (isinstance(event, Inbound) and event.addressed and event.text.startswith("/")):
            answer = await receive(event)
            remember(self._known, event.dedupe, None, most=_REMEMBERED)
            return answer
        name = _CLAIM + hashlib.sha256(event.dedupe.encode()).hexdigest()[:32]
        if not await self._vault.swap(name, None, b"1", _LIFE):
            return None
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.create_task(self._do(event, name, receive, outcome))
        await asyncio.wait({outcome}, timeout=self._patience)
        if not outcome.cancel():
            outcome.result()
        return None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Let events be handed on; at the end, unfinished work is cancelled and its claims are given back."""
        failure: Exception | None = None
        async with asyncio.TaskGroup() as self._tasks:
            try:
                yield
            except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
                failure = error
        if failure is not None:
            raise failure

    async def _do(self, event: Event, name: str, receive: Receive, outcome: "asyncio.Future[None]") -> None:
        failure: Exception | None = None
        done, answer = False, None
        try:
            answer = await receive(event)
            done = True
        except Exception as error:  # noqa: BLE001 - the application has errors of its own
            failure = error
        finally:
            if not done:
                # A claim that cannot be given back ends by itself.
                with suppress(VaultError):
                    await self._vault.delete(name)
        if failure is None:
            remember(self._known, event.dedupe, None, most=_REMEMBERED)
        if not outcome.done():
            outcome.set_result(None) if failure is None else outcome.set_exception(failure)
        if answer is not None:
            try:
                await answer()
            except Exception as error:
                _LOGGER.warning("an accepted update could not be answered", exc_info=error)


PATH: Final = "/slack/events"
"""Where events, commands and presses on buttons are all told."""

LONGEST_REQUEST: Final = 1_000_000
"""Of a request's body, in bytes; a message with its blocks and attachments is far below."""

_OK: Final = 200
_JSON: Final = "application/json"

AnswerRequest = Callable[[str, Mapping[str, str]], Awaitable[BoltResponse]]
"""Keep the event in a body with its headers. Raises ValueError: the body is not one of Slack's."""


@dataclass(frozen=True, slots=True)
class RequestEndpoint:
    """Where to listen on this machine, and the secret that Slack signs with.

    Raises ValueError: the secret is empty.
    """

    host: str
    port: int
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.secret.strip():
            raise ValueError("the signing secret is empty")


class RequestListener:
    """Listens. `longest` is how long, in seconds, reading a request may take."""

    def __init__(self, listening: RequestEndpoint, longest: float) -> None:
        self._listening = listening
        self._longest = longest
        self._verifier = SignatureVerifier(listening.secret)
        self._unsigned = 0

    async def run(self, answer: AnswerRequest, began: Began = untold) -> None:
        """Hand on every request until cancelled; `began` is called when they can come.

        Raises OSError: the address cannot be listened at.
        """

        async def post(request: web.Request) -> web.Response:
            return await self._response(request, answer)

        app = web.Application(client_max_size=LONGEST_REQUEST)
        app.router.add_post(PATH, post)
        async with listening(app, self._listening.host, self._listening.port, self._longest):
            began()
            await asyncio.Event().wait()

    async def _response(self, request: web.Request, answer: AnswerRequest) -> web.Response:
        stamp = request.headers.get("X-Slack-Request-Timestamp", "")
        signature = request.headers.get("X-Slack-Signature", "")
        if not (stamp.isascii() and stamp.isdecimal() and signature.isascii()):
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        try:
            async with asyncio.timeout(self._longest):
                raw = await request.read()
            if not self._verifier.is_valid(raw, stamp, signature):
                self._log_unsigned()
                return web.Response(status=HTTPStatus.UNAUTHORIZED)
            kept = await answer(raw.decode(), request.headers)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except (ValueError, TimeoutError):
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        if kept.status != _OK:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        kind = kept.headers.get("content-type", [_JSON if kept.body.startswith("{") else "text/plain"])[0]
        return web.Response(text=kept.body, content_type=kind.partition(";")[0])

    def _log_unsigned(self) -> None:
        """Log that a request was signed in another way, less and less often, as anybody may send such requests."""
        self._unsigned += 1
        if self._unsigned & (self._unsigned - 1) == 0:
            facts = {"subject": _SUBJECT, "cause": UNSIGNED.problem, "step": UNSIGNED.next_step}
            _LOGGER.warning("a request of Slack was refused", extra=facts)


UNSIGNED: Final = Trouble(
    "a request was not signed with the signing secret",
    "compare it with Signing Secret under Basic Information at api.slack.com, and the clock of this machine",
)


LONGEST_ENVELOPE: Final = 4_000_000
"""Of one envelope, in bytes; a message with its blocks and attachments is far below."""

AnswerEnvelope = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Keep the event in an envelope, and return the answer to it, None if it was not kept."""

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


class SocketMode:
    """Listens on sockets that `token`, the app's own, opens."""

    def __init__(self, clients: Clients, token: str, timing: SlackTiming) -> None:
        self._clients = clients
        self._token = token
        self._timing = timing
        self._running = False
        self._began: Began = untold
        self._open = 0
        self._problem: Trouble | None = None
        self._kept: Trouble | None = None

    async def run(self, answer: AnswerEnvelope, began: Began = untold) -> None:
        """Hand on events until cancelled; connections are opened again for ever.

        `began` is called at the first greeting.
        """
        self._running, self._began = True, began
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._timing.sockets):
                    tasks.create_task(self._always(answer, tasks))
        finally:
            self._running = False

    async def troubles(self) -> tuple[Trouble, ...]:
        """Report the faults of the connections now.

        Where this process does not listen, whether they could be opened.
        """
        if not self._running:
            with suppress(ChannelError):
                await self._ticket()
                self._problem = None
        away = None if self._open else self._problem or (_AWAY if self._running else None)
        return tuple(filter(None, (away, self._kept)))

    async def _always(self, answer: AnswerEnvelope, tasks: asyncio.TaskGroup) -> None:
        failures = 0
        while True:
            leaving: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            tasks.create_task(self._link(answer, leaving, tasks))
            asked = await leaving
            failures = 0 if asked == 0 else min(failures + 1, 30)
            pause = min(self._timing.longest, self._timing.pause * 2.0 ** (failures - 1)) if failures else 0.0
            await asyncio.sleep(max(asked, pause))

    async def _link(self, answer: AnswerEnvelope, leaving: "asyncio.Future[float]", tasks: asyncio.TaskGroup) -> None:
        """Listen on one connection to its end. `leaving` is told when another is to be opened, and after how long."""
        wait, url = self._timing.pause, ""
        try:
            url = await self._ticket()
            ping, proxy = self._timing.ping, self._clients.proxy
            async with self._clients.session().ws_connect(
                url, proxy=proxy, heartbeat=ping, max_msg_size=LONGEST_ENVELOPE, timeout=_closing(ping)
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
            # A message that is not an envelope ends the connection, too.
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
        answer: AnswerEnvelope,
        leaving: "asyncio.Future[float]",
        tasks: asyncio.TaskGroup,
    ) -> float:
        """Take messages until the connection ends; return the seconds to wait before the next is opened."""
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

    async def _answered(self, stream: aiohttp.ClientWebSocketResponse, envelope: Any, answer: AnswerEnvelope) -> None:  # noqa: ANN401 - Slack's JSON
        try:
            payload = await answer(envelope)
        except Exception:
            # The storage of events has errors of its own; Slack sends the event again.
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
