"""Socket Mode of a played Slack: hello, envelopes, acknowledgements, warnings, and sockets that only look alive."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import WSMsgType, web

from tests.sim.slack_state import Json, State

Envelope = Literal["events_api", "slash_commands", "interactive"]


@dataclass
class Socket:
    """One connection of the app; `dead` keeps it open and answers nothing."""

    stream: web.WebSocketResponse
    dead: bool = False
    sent: int = 0


@dataclass
class Sockets:
    """The app's connections: any of them may get an envelope, and each may acknowledge any."""

    state: State
    open: list[Socket] = field(default_factory=list[Socket])
    tickets: set[str] = field(default_factory=set[str])
    answers: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, "asyncio.Future[Json]"])
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, stream: web.WebSocketResponse) -> None:
        """Say hello and take acknowledgements until the connection ends."""
        socket = Socket(stream)
        self.open.append(socket)
        hello: Json = {"type": "hello", "num_connections": len(self.open), "connection_info": {}}
        await stream.send_json(hello | {"debug_info": {"approximate_connection_time": 18_060}})
        await self._notify()
        try:
            async for message in stream:
                if message.type is WSMsgType.PING and not socket.dead:
                    await stream.pong(message.data)
                elif message.type is WSMsgType.TEXT and not socket.dead:
                    self._answered(json.loads(message.data))
        finally:
            self.open.remove(socket)
            await self._notify()

    async def connected(self, count: int = 1) -> None:
        """Wait until so many connections are open and alive."""
        async with self.changed:
            await self.changed.wait_for(lambda: sum(not socket.dead for socket in self.open) >= count)

    async def ask(self, kind: Envelope, payload: Json, number: int, reason: str) -> Json:
        """Send an envelope over the connection that had the fewest, and return what it is acknowledged with.

        Raises ConnectionError: there is no connection.
        """
        socket = min(self.open, key=lambda each: each.sent, default=None)
        if socket is None:
            raise ConnectionError
        name = f"{self.state.number():08d}-0000-4000-8000-000000000000"
        envelope: Json = {"envelope_id": name, "payload": payload, "type": kind}
        envelope["accepts_response_payload"] = kind != "events_api"
        if kind == "events_api":
            envelope |= {"retry_attempt": number, "retry_reason": reason}
        self.answers[name] = asyncio.get_running_loop().create_future()
        socket.sent += 1
        try:
            if not socket.dead:
                await socket.stream.send_json(envelope)
            return await self.answers[name]
        finally:
            del self.answers[name]

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Tell every connection to go: a `warning` stays for a while, others are closed."""
        for socket in tuple(self.open):
            await socket.stream.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "sim"}})
            if reason != "warning":
                await socket.stream.close()

    def die(self) -> None:
        """Leave every connection open and never answer on it again."""
        for socket in self.open:
            socket.dead = True

    async def close(self) -> None:
        """End all connections."""
        for socket in tuple(self.open):
            await socket.stream.close()

    def _answered(self, answer: Json) -> None:
        waiting = self.answers.get(str(answer.get("envelope_id", "")))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.get("payload") or {})

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()
