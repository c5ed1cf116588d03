"""Sessions of a program: the operations on each, by the routes under `/v1/sessions`."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from lockgate.events import EventStream
from lockgate.oversight import simulation
from lockgate.retries import new_key, sendable
from lockgate.shapes import (
    AgentQuestion,
    CreatedSession,
    DeletedSession,
    EventChoice,
    EventPage,
    ImportedCopy,
    MessageMode,
    QuestionPage,
    SentMessage,
    Session,
    SessionList,
    SessionResult,
    SessionTurn,
    SessionTurns,
    Simulation,
)
from lockgate.transport import IDEMPOTENCY_KEY, READ_SECONDS, ClientRequest, Query, Transport

LONGEST_WAIT: Final = 60
"""Seconds that the API waits for a result at most."""

_GRACE: Final = 15.0
_COPY_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """The limits of a session, never above the configured ones; None for the configured limit.

    Args:
        tokens: the most tokens that models read and write for it.
        turn_seconds: the longest time of one turn, in seconds.
        turns: the most turns in a row without a message of the program.
    """

    tokens: int | None = None
    turn_seconds: int | None = None
    turns: int | None = None


class Sessions:
    """The sessions of the program whose token this is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(  # noqa: PLR0913 - the options of a session
        self,
        text: str,
        *,
        key: str | None = None,
        agent: str | None = None,
        credential: str | None = None,
        limits: TaskLimits | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        mode: MessageMode | None = None,
    ) -> CreatedSession:
        """Create a session with its first message, or return the one that was created under `key`.

        Args:
            text: the first message.
            key: a name of the program's own for it. With the same key and the same arguments it is the same session.
            agent: a name under `agents:` of config.yaml; None for the usual one.
            credential: a name under `secrets:` of config.yaml, in place of the agent's own.
            limits: its limits.
            metadata: facts of the program's own, 16 KB as JSON at most.
            mode: how it takes messages that come while a turn runs; None for `queue`.

        Raises:
            ApiError: with code `conflict` if the key was given for something else.
        """
        given = {"input": text, "key": key, "agent": agent, "credential": credential, "mode": mode}
        body: dict[str, JsonValue] = {name: value for name, value in given.items() if value is not None}
        if limits is not None:
            body["limits"] = {name: value for name, value in asdict(limits).items() if value is not None}
        if metadata is not None:
            body["metadata"] = dict(metadata)
        headers = {IDEMPOTENCY_KEY: new_key()} if key is None else {}
        return await self._transport.value(
            ClientRequest("POST", "/sessions", body=body, headers=headers, repeatable=True), CreatedSession
        )

    async def get(self, sid: str) -> Session:
        """Return the record of a session."""
        return await self._transport.value(_reading(sid), Session)

    async def list(
        self, *, cursor: str | None = None, limit: int | None = None, kind: str | None = None, status: str | None = None
    ) -> SessionList:
        """Return a page of sessions, newest first.

        Args:
            cursor: the `cursor` of the page before; None for the first page.
            limit: the most entries of the page; None for the API's default.
            kind: only sessions of this kind; None for all.
            status: only sessions of this status; None for all but archived ones.
        """
        query: Query = {"cursor": cursor, "limit": limit, "kind": kind, "status": status}
        return await self._transport.value(ClientRequest("GET", "/sessions", query, repeatable=True), SessionList)

    async def say(self, sid: str, text: str, *, mode: MessageMode | None = None, key: str | None = None) -> SentMessage:
        """Send a session a message.

        Args:
            sid: the session.
            text: the message.
            mode: how the session takes this one, and those after it, while a turn runs; None for as before.
            key: an idempotency key of the program's own, in place of one for this call: up to 256 printable ASCII
                characters.

        Raises:
            ValueError: the key is not valid.
        """
        body: dict[str, JsonValue] = {"text": text} if mode is None else {"text": text, "mode": mode}
        headers = {IDEMPOTENCY_KEY: new_key() if key is None else sendable(key)}
        ask = ClientRequest("POST", f"{_path(sid)}/messages", body=body, headers=headers, repeatable=True)
        return await self._transport.value(ask, SentMessage)

    async def finished(self, sid: str, *, within: float) -> SessionResult:
        """Wait until no turn runs in a session and none is about to; return the result of the last one.

        Args:
            sid: the session.
            within: how many seconds it may take.

        Raises:
            TimeoutError: it took longer.
        """
        try:
            async with asyncio.timeout(within):
                while True:
                    found = await self.result(sid, wait=LONGEST_WAIT)
                    if not found.busy:
                        return found
        except TimeoutError:
            late = f"the session was not done within {within:g} seconds"
            raise TimeoutError(f"{late}; where it stays `queued`, no worker of that installation runs") from None

    async def result(self, sid: str, *, wait: int = 0) -> SessionResult:
        """Return the result of the last turn.

        Args:
            sid: the session.
            wait: the seconds to wait for a turn that runs or is about to, at most 60.
        """
        return await self._transport.value(
            _reading(sid, "/result", {"wait": wait or None}, seconds=wait + _GRACE), SessionResult
        )

    def events(
        self, sid: str, *, after: int = 0, level: EventChoice | None = None, types: Iterable[str] = ()
    ) -> EventStream:
        """Return the events of a session after a number, as they happen.

        Args:
            sid: the session.
            after: the number of the last event that the program knows.
            level: the lowest level to return: `user`, or `progress`, which is the default.
            types: the types of events to return; empty for all.
        """
        query: Query = {"level": level, "type": ",".join(types) or None}
        return EventStream(self._transport, f"{_path(sid)}/events", query, after)

    async def page(
        self,
        sid: str,
        *,
        after: int = 0,
        limit: int | None = None,
        level: EventChoice | None = None,
        types: Iterable[str] = (),
    ) -> EventPage:
        """Return a page of the events of a session, oldest first.

        Args:
            sid: the session.
            after: the number of the last event that the program knows.
            limit: the most events of the page; None for the API's default.
            level: the lowest level to return: `user`, or `progress`, which is the default.
            types: the types of events to return; empty for all.
        """
        query: Query = {"after": after, "limit": limit, "level": level, "type": ",".join(types) or None}
        return await self._transport.value(_reading(sid, "/events", query), EventPage)

    async def questions(self, sid: str) -> QuestionPage:
        """Return the questions of a session's agent that are open, or over since less than an hour."""
        return await self._transport.value(_reading(sid, "/questions"), QuestionPage)

    async def answer(self, sid: str, question: str, value: bool | float | str) -> AgentQuestion:  # noqa: FBT001 - yes or no
        """Answer a question of the agent, once; repeating the same answer is allowed.

        Args:
            sid: the session.
            question: the id of the question.
            value: the answer, of the type that `AgentQuestion.takes` describes.
        """
        path = f"{_path(sid)}/questions/{quote(question, safe='')}"
        return await self._transport.value(
            ClientRequest("POST", path, body={"answer": value}, repeatable=True), AgentQuestion
        )

    async def simulate(self, sid: str, tool: str, arguments: Mapping[str, JsonValue] | None = None) -> Simulation:
        """Return the gate's decision about a call in a session as it stands; the call is not made.

        Args:
            sid: the session.
            tool: the name of the tool.
            arguments: its arguments; None for none.
        """
        return await self._transport.value(simulation(f"{_path(sid)}/simulate", tool, arguments), Simulation)

    async def export(self, sid: str, *, whole: bool = False) -> bytes:
        """Return a session as signed JSON lines, each entry with its label.

        Args:
            sid: the session.
            whole: leave nothing out, so that it can be brought in; for tokens of the scope `admin`.
        """
        query: Query = {"whole": "true" if whole else None}
        return await self._transport.content(_reading(sid, "/export", query, seconds=_COPY_SECONDS))

    async def bring(self, file: bytes, *, as_top: bool = False) -> ImportedCopy:
        """Import an export, as an archived session; the same file makes the same session.

        Args:
            file: the export.
            as_top: also take a file whose signer is unknown there, labelled as the highest.
        """
        query: Query = {"as_top": "true" if as_top else None}
        ask = ClientRequest("POST", "/import", query, file, repeatable=True, seconds=_COPY_SECONDS)
        return await self._transport.value(ask, ImportedCopy)

    async def turns(self, sid: str, *, before: int | None = None, limit: int | None = None) -> SessionTurns:
        """Return a page of the turns that ended, newest first.

        Args:
            sid: the session.
            before: the `next` of the page before; None for the first page.
            limit: the most turns of the page; None for the API's default.
        """
        return await self._transport.value(_reading(sid, "/turns", {"before": before, "limit": limit}), SessionTurns)

    async def turn(self, sid: str, turn: str, *, before: int | None = None) -> SessionTurn:
        """Return a turn: the one that runs, or one that ended.

        Args:
            sid: the session.
            turn: its id.
            before: an event before which it ended; None for the newest turns.

        Raises:
            ApiError: with code `not_reached` if it is older than the turns that are searched at once.
        """
        return await self._transport.value(
            _reading(sid, f"/turns/{quote(turn, safe='')}", {"before": before}), SessionTurn
        )

    async def pause(self, sid: str) -> None:
        """Pause a session: messages to it wait. One that rests already rests."""
        await self._does(f"{_path(sid)}/pause", repeatable=True)

    async def resume(self, sid: str) -> None:
        """Resume a paused session. One that does not rest goes on."""
        await self._does(f"{_path(sid)}/resume", repeatable=True)

    async def cancel(self, sid: str) -> None:
        """Stop the running turn and all that it started, and cancel the waiting messages."""
        await self._does(f"{_path(sid)}/cancel")

    async def archive(self, sid: str) -> None:
        """Make a session read-only, and stop its running turn."""
        await self._does(f"{_path(sid)}/archive", repeatable=True)

    async def restore(self, sid: str) -> None:
        """Let an archived session be spoken in again."""
        await self._does(f"{_path(sid)}/restore", repeatable=True)

    async def delete(self, sid: str) -> DeletedSession:
        """Erase a session, its files and all that it spawned; its key may begin another one.

        Returns:
            Which copies are beyond reach. It is empty where the session rose above this token.
        """
        return await self._transport.value(ClientRequest("DELETE", _path(sid)), DeletedSession)

    async def _does(self, path: str, *, repeatable: bool = False) -> None:
        await self._transport.content(ClientRequest("POST", path, repeatable=repeatable))


def _path(sid: str) -> str:
    return f"/sessions/{quote(sid, safe='')}"


def _reading(sid: str, below: str = "", query: Query | None = None, *, seconds: float = READ_SECONDS) -> ClientRequest:
    return ClientRequest("GET", f"{_path(sid)}{below}", query, repeatable=True, seconds=seconds)
