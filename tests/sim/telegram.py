"""A Bot API server on loopback: the real protocol for the unmodified `telegram.Bot`, with checks and faults.

`async with telegram() as server:` plays it; `server.base_url` and `server.base_file_url` are what a bot is made with.
People are driven with `server.user(…)` and what it returns; `chat.said` and `chat.shows` are what stands there then.
Sentences of errors are Telegram's where they are known from its published sources or from recorded answers.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from aiohttp import web

from tests.sim import telegram_calls, telegram_messages
from tests.sim.telegram_args import Args
from tests.sim.telegram_calls import allow
from tests.sim.telegram_kinds import spared
from tests.sim.telegram_state import ApiError, Json, State, Stored
from tests.sim.telegram_world import World

# Telegram does not mind how a method's name is written.
_METHODS: Final = {
    name.lower(): does for table in (telegram_calls.METHODS, telegram_messages.METHODS) for name, does in table.items()
}
_UPLOAD: Final = 60_000_000
_PAUSE: Final = 0.05
_SENTENCES: Final = {429: "Too Many Requests: retry after {}", 500: "Internal Server Error", 502: "Bad Gateway"}


@dataclass
class Fault:
    """What goes wrong: with which method and chat (all, if none is named), how, and how often."""

    method: str = ""
    chat: int | None = None
    status: int = 0
    retry_after: int = 0
    told: str = ""
    lost: bool = False
    delay: float = 0.0
    times: int = 1
    answer: tuple[Any, ...] = ()
    done: bool = False
    spared: bool = False

    def meets(self, method: str, args: Args) -> bool:
        """Tell whether a call runs into it."""
        return self.times > 0 and self.method in {"", method} and self.chat in {None, args.number("chat_id")}


@dataclass
class Telegram(World):
    """The server. `calls` are the methods it was asked for, in order, with their arguments.

    `refused` is how often it was asked with another token than the bot's.
    """

    port: int = 0
    refused: int = 0
    faults: list[Fault] = field(default_factory=list[Fault])
    calls: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])

    @property
    def token(self) -> str:
        """The bot's token."""
        return self.state.token

    @property
    def base_url(self) -> str:
        """What `telegram.Bot` takes as `base_url`."""
        return f"http://127.0.0.1:{self.port}/bot"

    @property
    def base_file_url(self) -> str:
        """What `telegram.Bot` takes as `base_file_url`."""
        return f"http://127.0.0.1:{self.port}/file/bot"

    def fails(
        self,
        method: str = "",
        *,
        status: int = 500,
        retry_after: int = 0,
        told: str = "",
        chat: int | None = None,
        times: int = 1,
    ) -> Fault:
        """Answer the next calls with an error, in the words of `told`, without doing anything."""
        return self._fault(Fault(method, chat, 429 if retry_after else status, retry_after, told, times=times))

    def breaks(self, method: str = "", *, status: int = 500, chat: int | None = None, times: int = 1) -> Fault:
        """Do what the next calls ask, and answer with an error all the same."""
        return self._fault(Fault(method, chat, status=status, times=times, done=True))

    def spares(self, method: str = "", *, times: int = 1) -> Fault:
        """Do what the next calls ask, and leave out of the answer what the API may leave out."""
        return self._fault(Fault(method, times=times, spared=True))

    def loses(self, method: str = "", *, chat: int | None = None, times: int = 1) -> Fault:
        """Do what the next calls ask, and cut the connection before the answer."""
        return self._fault(Fault(method, chat, lost=True, times=times))

    def slows(self, method: str = "", *, seconds: float, chat: int | None = None, times: int = 1) -> Fault:
        """Do what the next calls ask, and answer late."""
        return self._fault(Fault(method, chat, delay=seconds, times=times))

    def answers(self, method: str, answer: object, *, times: int = 1) -> Fault:
        """Do what the next calls ask, and answer something else."""
        return self._fault(Fault(method, times=times, answer=(answer,)))

    def _fault(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def asked(self, method: str) -> list[Json]:
        """Return the arguments of every call of a method."""
        return [values for name, values in self.calls if name == method]

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        method = request.match_info["method"]
        try:
            self.refused += request.match_info["token"] != self.state.token
            _open(self.state, request.match_info["token"])
            args = await _args(request)
            self.calls.append((method, args.values))
            fault = next((fault for fault in self.faults if fault.meets(method, args)), Fault())
            fault.times -= 1
            if fault.status and not fault.done:
                raise _failure(fault)
            result = await self._does(method, args)
            if fault.status:
                raise _failure(fault)
        except ApiError as error:
            self.state.wake()
            return _refused(error)
        self.state.wake()
        await asyncio.sleep(fault.delay)
        if fault.lost and request.transport is not None:
            request.transport.abort()
        result = spared(result) if fault.spared else result
        return web.json_response({"ok": True, "result": fault.answer[0] if fault.answer else result})

    async def _does(self, method: str, args: Args) -> Any:  # noqa: ANN401 - each method has its own answer
        if method.lower() == "getupdates":
            return await self._updates(args)
        if method.lower() not in _METHODS:
            raise ApiError(404, "Not Found")
        return _METHODS[method.lower()](self.state, args)

    async def _updates(self, args: Args) -> list[Json]:
        state = self.state
        if state.webhook.url:
            told = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
            raise ApiError(409, f"Conflict: {told}")
        if state.poll is not None:
            one = "terminated by other getUpdates request; make sure that only one bot instance is running"
            state.poll.set_result(one)
        mine = state.poll = asyncio.get_running_loop().create_future()
        state.wake()
        allow(state, args)
        state.confirm(args.number("offset"))
        until = time.monotonic() + max(0, min(50, args.number("timeout")))
        limit = min(100, args.number("limit", 100) or 100)
        try:
            while not (due := state.due(limit)) and (left := until - time.monotonic()) > 0 and not mine.done():
                changed = asyncio.ensure_future(state.changed.wait())
                try:
                    await asyncio.wait({changed, mine}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
        finally:
            if state.poll is mine:
                state.poll = None
        if mine.done():
            raise ApiError(409, f"Conflict: {mine.result()}")
        return due

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Hand out a file."""
        try:
            _open(self.state, request.match_info["token"])
        except ApiError as error:
            return _refused(error)
        parts = request.match_info["path"].split("/")
        stored = self.state.files.get(parts[1]) if len(parts) == 3 else None
        if stored is None or parts[2] != stored.name:
            return _refused(ApiError(404, "Not Found"))
        return web.Response(body=stored.data, content_type="application/octet-stream")

    async def push(self) -> None:
        """Post updates to the webhook, one after the other, each until it is taken."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            while True:
                changed = self.state.changed
                if not self.state.webhook.url or not (self.state.again or self.state.updates):
                    await changed.wait()
                elif not await self._posted(session):
                    await asyncio.sleep(_PAUSE)

    async def _posted(self, session: aiohttp.ClientSession) -> bool:
        state, hook = self.state, self.state.webhook
        update = state.again[0] if state.again else state.updates[0]
        headers = {"X-Telegram-Bot-Api-Secret-Token": hook.secret} if hook.secret else {}
        try:
            async with session.post(hook.url, json=update, headers=headers) as response:
                problem = "" if response.ok else f"Wrong response from the webhook: {response.status} {response.reason}"
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = f"Connection failed: {type(error).__name__}"
        hook.error, hook.error_date = problem or hook.error, int(time.time())
        if problem:
            state.wake()
            return False
        state.given[update["update_id"]] = update
        waiting = state.again if state.again[:1] == [update] else state.updates
        if update in waiting:
            waiting.remove(update)
        return True


def _open(state: State, token: str) -> None:
    if token != state.token:
        number, _, rest = token.partition(":")
        raise ApiError(401, "Unauthorized") if number.isdigit() and rest else ApiError(404, "Not Found")


def _failure(fault: Fault) -> ApiError:
    told = fault.told or _SENTENCES.get(fault.status, "it does not work").format(fault.retry_after)
    return ApiError(fault.status, told, **({"retry_after": fault.retry_after} if fault.retry_after else {}))


def _refused(error: ApiError) -> web.Response:
    body: Json = {"ok": False, "error_code": error.code, "description": error.description}
    body |= {"parameters": error.parameters} if error.parameters else {}
    return web.json_response(body, status=error.code)


async def _args(request: web.Request) -> Args:
    values: Json = dict(request.query)
    files: dict[str, Stored] = {}
    if request.content_type == "application/json":
        with suppress(ValueError):
            values |= json.loads(await request.read() or b"{}")
        return Args(values)
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            files[name] = Stored(value.filename, value.file.read(), value.content_type)
        else:
            values[name] = value
    return Args(values, files)


@asynccontextmanager
async def telegram(port: int = 0, **settings: Any) -> AsyncGenerator[Telegram]:  # noqa: ANN401 - the fields of State
    """Play Telegram on a loopback port; `settings` are fields of `State`."""
    server = Telegram(State(**settings))
    app = web.Application(client_max_size=_UPLOAD)
    app.router.add_route("*", "/bot{token}/{method}", server.call)
    app.router.add_get("/file/bot{token}/{path:.*}", server.file)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.port = int(runner.addresses[0][1])
    # No task group: it would wrap the failure of the test that runs inside.
    pushing = asyncio.create_task(server.push())
    try:
        yield server
    finally:
        pushing.cancel()
        await asyncio.wait({pushing})
        if server.state.poll is not None:
            server.state.poll.cancel()
        await runner.cleanup()
