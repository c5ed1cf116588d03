"""How a played Slack reaches the app: envelopes on sockets or signed requests, deadlines, and sending again."""

import asyncio
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tests.sim.slack_blocks import is_object
from tests.sim.slack_socket import Envelope, Sockets
from tests.sim.slack_state import Event, Json, State, Token

AGAIN = (0.0, 60.0, 300.0)
_MENTIONED = "app_mention"


@dataclass
class Attempt:
    """One try to reach the app, and what came of it: its answer, or why there is none."""

    kind: Envelope
    payload: Json
    number: int
    answer: Json | None = None
    failed: str = ""


@dataclass
class Reach:
    """Reaches the app, over sockets unless `url` is set.

    `within` is how long the app may take to answer, `again` after how long each next try comes, in seconds; `AGAIN`
    is what the real one waits. `extra` is how often each event comes again although it was answered.
    `mention_first` is the order of the two events of one mention. `only` are the types of event the app wants.
    Where nobody is `patient`, what people do returns at once.
    """

    state: State
    tasks: asyncio.TaskGroup
    sockets: Sockets
    url: str = ""
    within: float = 3.0
    again: tuple[float, ...] = (0.0, 0.02, 0.05)
    extra: int = 0
    mention_first: bool = True
    only: frozenset[str] = frozenset()
    patient: bool = True
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    waiting: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    running: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def tell(self, event: Event) -> None:
        """Deliver an event to the app, if it is installed there, without waiting."""
        token = self._installed(event)
        if token is None:
            return
        bodies = [event.body]
        mentioned = f"<@{token.user}>" in str(event.body.get("text", "")) and "subtype" not in event.body
        if mentioned and event.body["type"] == "message" and event.body.get("user") != token.user:
            named = {name: value for name, value in event.body.items() if name != "channel_type"}
            bodies.insert(0 if self.mention_first else 1, named | {"type": _MENTIONED})
        for body in bodies:
            if not self.only or body["type"] in self.only:
                payload = self._wrapped(event, body, token)
                for _ in range(1 + self.extra):
                    self.start(self._event(payload))

    def start(self, work: Any) -> None:  # noqa: ANN401 - a coroutine of any result
        """Run something that `wait` waits for."""
        self.waiting += 1
        self.settled.clear()
        task = self.tasks.create_task(self._counted(work))
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    def stop(self) -> None:
        """Give up on everything that is under way."""
        for task in self.running:
            task.cancel()

    async def wait(self) -> None:
        """Wait until everything that happened was delivered or given up."""
        while self.patient and self.waiting:
            await self.settled.wait()

    async def ask(self, kind: Envelope, payload: Json, number: int = 0, reason: str = "") -> Attempt:
        """Try once, and return what came of it."""
        attempt = Attempt(kind, payload, number)
        self.attempts.append(attempt)
        try:
            async with asyncio.timeout(self.within):
                send = self._post if self.url else self.sockets.ask
                attempt.answer = await send(kind, payload, number, reason)
        except TimeoutError:
            attempt.failed = "http_timeout" if self.url else "timeout"
        except (aiohttp.ClientError, ConnectionError):
            attempt.failed = "connection_failed"
        except _RefusedError as refused:
            attempt.failed = "no_retry" if refused.final else "http_error"
        return attempt

    async def verify(self) -> bool:
        """Ask the app's address for the challenge that Slack sends when it is configured."""
        challenge = f"challenge-{self.state.number()}"
        body: Json = {"type": "url_verification", "token": self.state.app.verification, "challenge": challenge}
        answer = await self._post("events_api", body, 0, "")
        return answer.get("challenge") == challenge or answer.get("text") == challenge

    async def _counted(self, work: Any) -> None:  # noqa: ANN401 - as above
        try:
            await work
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.settled.set()

    async def _event(self, payload: Json) -> None:
        attempt = await self.ask("events_api", payload)
        for number, pause in enumerate(self.again, 1):
            if not attempt.failed or attempt.failed == "no_retry":
                return
            await asyncio.sleep(pause)
            attempt = await self.ask("events_api", payload, number, attempt.failed)

    def _installed(self, event: Event) -> Token | None:
        if event.channel is not None:
            return next(iter(self.state.bots(event.channel)), None)
        if event.body["type"] in {"tokens_revoked", "app_uninstalled"}:
            return next((token for token in self.state.tokens.values() if token.team == event.team), None)
        return next((token for token in self.state.bot_tokens() if token.team == event.team), None)

    def _wrapped(self, event: Event, body: Json, token: Token) -> Json:
        team = self.state.teams[token.team]
        installed = {"enterprise_id": team.enterprise or None, "team_id": team.id, "user_id": token.user}
        return {
            "token": self.state.app.verification,
            "team_id": team.id,
            "enterprise_id": team.enterprise or None,
            "context_team_id": team.id,
            "context_enterprise_id": team.enterprise or None,
            "api_app_id": self.state.app.id,
            "event": body,
            "type": "event_callback",
            "event_id": self.state.id("Ev"),
            "event_time": int(self.state.now()),
            "authorizations": [{**installed, "is_bot": True, "is_enterprise_install": False}],
            "is_ext_shared_channel": bool(event.channel and event.channel.shared_with),
            "event_context": f"4-{self.state.number()}",
        }

    async def _post(self, kind: Envelope, payload: Json, number: int, reason: str) -> Json:
        form = urlencode({"payload": json.dumps(payload)} if kind == "interactive" else payload)
        raw = (json.dumps(payload) if kind == "events_api" else form).encode()
        kinds = "application/json" if kind == "events_api" else "application/x-www-form-urlencoded"
        headers = signed(self.state, raw) | {"Content-Type": kinds}
        if number:
            headers |= {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason}
        async with aiohttp.ClientSession() as session, session.post(self.url, data=raw, headers=headers) as response:
            text = await response.text()
            if response.status != 200:
                raise _RefusedError(final=response.headers.get("X-Slack-No-Retry") == "1")
            if response.content_type != "application/json":
                return {"text": text} if text else {}
            answer = json.loads(text)
            return answer if is_object(answer) else {}


def signed(state: State, raw: bytes, at: float | None = None) -> dict[str, str]:
    """Return the headers that sign a request, at a time in seconds since 1970."""
    stamp = str(int(state.now() if at is None else at))
    digest = hmac.new(state.app.signing_secret.encode(), f"v0:{stamp}:".encode() + raw, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


class _RefusedError(Exception):
    """The app answered with something else than 200."""

    def __init__(self, *, final: bool) -> None:
        super().__init__()
        self.final = final
