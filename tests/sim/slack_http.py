"""The addresses of a played Slack on loopback: methods, sockets, files, response URLs, the page that asks for consent.

A fault is what the next calls of a method, in one channel or all, meet in place of the answer.
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from aiohttp import BodyPartReader, web

from tests.sim import slack_api, slack_chat, slack_oauth
from tests.sim.slack_blocks import check_message, is_object
from tests.sim.slack_socket import Sockets
from tests.sim.slack_state import Json, SlackError, State

URL_LIFE = 1_800
URL_USES = 5
_NEEDED = frozenset({"ok", "error", "channel", "ts", "user", "members", "url", "team_id", "user_id", "bot_id"})
"""What answers have in any case; all else may be missing."""


@dataclass
class Fault:
    """What a call meets: a status with its Retry-After, a delay, or a connection that is cut before or after.

    With `done` the call is done before its status is answered; with `spared` the answer lacks what it may lack.
    """

    method: str = ""
    channel: str = ""
    times: int = 1
    status: int = 0
    retry_after: int = 1
    delay: float = 0
    error: str = ""
    cut: str = ""
    answer: Json | None = None
    done: bool = False
    spared: bool = False

    def meets(self, method: str, args: Json) -> bool:
        """Tell whether a call is one that it is for, and count it."""
        here = self.times > 0 and self.method in {"", method} and self.channel in {"", args.get("channel")}
        self.times -= here
        return here


@dataclass
class Called:
    """One call of a method, and its answer."""

    method: str
    args: Json
    answer: Json


@dataclass
class ResponseUrl:
    """Where an answer to a command or a button goes: five times, for half an hour."""

    channel: str
    user: str
    message: str
    made: float
    used: int = 0


@dataclass
class Http:
    """Serves. Of a file it takes `largest` bytes."""

    state: State
    sockets: Sockets
    base: str = ""
    faults: list[Fault] = field(default_factory=list[Fault])
    calls: list[Called] = field(default_factory=list[Called])
    urls: dict[str, ResponseUrl] = field(default_factory=dict[str, ResponseUrl])
    codes: dict[str, slack_oauth.Grant] = field(default_factory=dict[str, slack_oauth.Grant])
    consents: str = ""
    largest: int = 2**26
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link", self._link)
        app.router.add_get("/oauth/v2/authorize", self._authorize)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_get("/files/{id}/{name}", self._file)
        app.router.add_post("/response/{id}", self._response)
        return app

    def response_url(self, channel: str, user: str, message: str = "") -> str:
        """Return an address for answers to a person's command or button."""
        made = f"r{self.state.number()}"
        self.urls[made] = ResponseUrl(channel, user, message, self.state.now())
        return f"{self.base}/response/{made}"

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        args = await _args(request)
        fault = next((each for each in self.faults if each.meets(method, args)), Fault())
        await asyncio.sleep(fault.delay)
        if fault.cut == "before":
            return _cut(request)
        if fault.status and not fault.done:
            return _failed(fault)
        try:
            answer = {"ok": True, **self._run(method, request.headers, args, fault.error)}
        except SlackError as refused:
            answer = {"ok": False, "error": refused.code, **refused.more}
        if fault.answer is not None:
            answer = {"ok": True, **fault.answer}
        if fault.spared:
            answer = {name: value for name, value in answer.items() if name in _NEEDED}
        self.calls.append(Called(method, args, answer))
        await self._notify()
        if fault.status:
            return _failed(fault)
        return _cut(request) if fault.cut == "after" else web.json_response(answer, headers=self._headers(request))

    def _headers(self, request: web.Request) -> dict[str, str]:
        """Return what every answer says of the time and of the token it was asked with."""
        token = self.state.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        scopes = {"X-OAuth-Scopes": ",".join(token.scopes)} if token is not None else {}
        return scopes | {"Date": formatdate(self.state.now(), usegmt=True)}

    def _run(self, method: str, headers: Mapping[str, str], args: Json, error: str) -> Json:
        if error:
            raise SlackError(error)
        if method == "oauth.v2.access":
            return slack_oauth.access(self.state, self.codes, _basic(headers) | args)
        value = headers.get("Authorization", "").removeprefix("Bearer ") or str(args.pop("token", ""))
        answer = slack_api.run(self.state, method, value, args | {"base": self.base})
        if method == "apps.connections.open":
            if len(self.sockets.open) >= 10:
                raise SlackError("too_many_websockets")
            ticket = f"t{self.state.number()}"
            self.sockets.tickets.add(ticket)
            answer["url"] = f"{self.base.replace('http', 'ws', 1)}/link?ticket={ticket}"
        return answer

    async def _link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self.sockets.tickets:
            raise web.HTTPForbidden
        self.sockets.tickets.remove(ticket)
        stream = web.WebSocketResponse(autoping=False)
        await stream.prepare(request)
        await self.sockets.serve(stream)
        return stream

    async def _authorize(self, request: web.Request) -> web.StreamResponse:
        where = slack_oauth.consent(self.state, self.codes, self.consents, dict(request.query))
        raise web.HTTPFound(where)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        file = self.state.uploads.get(request.match_info["id"])
        if file is None:
            raise web.HTTPNotFound
        if (request.content_length or 0) > self.largest:
            raise web.HTTPRequestEntityTooLarge(self.largest, request.content_length or 0)
        if request.content_type == "multipart/form-data":
            part = await (await request.multipart()).next()
            file.data = bytes(await part.read()) if isinstance(part, BodyPartReader) else b""
        else:
            file.data = await request.read()
        return web.Response(text=f"OK - {len(file.data)}")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = self.state.uploads.get(request.match_info["id"])
        value = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            allowed = "files:read" in slack_api.bearer(self.state, value).scopes
        except SlackError:
            allowed = False
        if file is None:
            raise web.HTTPNotFound
        if not allowed:
            # As the real one: no error, but the page on which a person would sign in.
            return web.Response(text="<!DOCTYPE html><title>Sign in</title>", content_type="text/html")
        return web.Response(body=file.data, content_type=file.mimetype)

    async def _response(self, request: web.Request) -> web.StreamResponse:
        url = self.urls.get(request.match_info["id"])
        if url is None or self.state.now() - url.made > URL_LIFE:
            return web.json_response({"ok": False, "error": "expired_url"}, status=404)
        if url.used >= URL_USES:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        body = json.loads(await request.read())
        try:
            self.answered(url, body)
        except SlackError as refused:
            return web.Response(status=400, text=refused.code)
        url.used += 1
        await self._notify()
        return web.Response(text="ok")

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def answered(self, url: ResponseUrl, body: Json) -> None:
        """Show what the app says to a person's command or button."""
        channel = self.state.channel(url.channel)
        message = next((each for each in channel.messages if each.ts == url.message), None)
        bot = next(token.user for token in self.state.bot_tokens() if token.team == channel.team)
        said: Json = {name: body[name] for name in ("text", "blocks", "thread_ts") if body.get(name)}
        if said.get("blocks"):
            check_message(said["blocks"])
        if len(str(said.get("text", ""))) > slack_chat.TEXT:
            raise SlackError("msg_too_long")
        if body.get("delete_original") and message is not None:
            message.deleted = True
        elif not said:
            raise SlackError("no_text")
        elif body.get("replace_original") and message is not None:
            kept = {name: message.body[name] for name in ("type", "ts", "thread_ts") if name in message.body}
            message.body = kept | said | {"user": bot}
        elif body.get("response_type") == "in_channel":
            self.state.post(channel, bot, said | {"bot_id": f"B{bot}"})
        else:
            slack_chat.whisper(self.state, channel, url.user, said | {"user": bot})


async def _args(request: web.Request) -> Json:
    args: Json = dict(request.query)
    if request.content_type == "application/json":
        sent: Any = await request.json()
        args |= sent if is_object(sent) else {}
    else:
        args |= dict(await request.post())
    return args


def _failed(fault: Fault) -> web.Response:
    more = {"Retry-After": str(fault.retry_after)} if fault.status == 429 else {}
    body: Json = {"ok": False, "error": "ratelimited" if fault.status == 429 else "internal_error"}
    return web.json_response(body, status=fault.status, headers=more)


def _basic(headers: Mapping[str, str]) -> Json:
    scheme, _, value = headers.get("Authorization", "").partition(" ")
    if scheme != "Basic":
        return {}
    name, _, secret = b64decode(value).decode().partition(":")
    return {"client_id": name, "client_secret": secret}


def _cut(request: web.Request) -> web.StreamResponse:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
