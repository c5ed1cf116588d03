"""Malformed answers of a server: they fail the call at once, as waiting longer would bring nothing.

A message is looked at as it came, since the client library passes over much that the protocol forbids. Such faults are
a result beside an error, an answer to a request that was never sent, and an error that names no request. Every fault
has one sentence of ours, for operators; models read a constant.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Self, cast

import anyio
import httpx2
from mcp.types import ErrorData, JSONRPCError
from mcp.types.jsonrpc import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest
from pydantic import JsonValue
from pydantic_core import from_json

NOT_A_MESSAGE: Final = "it sent an answer that is no message of JSON-RPC"
BOTH: Final = "it sent an answer with a result and an error"
NEITHER: Final = "it sent an answer without a result or an error"
WRONG_ID: Final = "it answered a request that it was not sent"
NAMELESS: Final = "it sent an error that names no request"
WRONG_TYPES: Final = "it sent an answer whose parts have wrong types"
STOPPED: Final = "it stopped in the middle of a message"
CHATTER: Final = "it wrote other lines than messages to its standard output, and then no answer"

TOO_LONG: Final = "it sent a message of more than 4 MB"

FAULTS: Final = frozenset({NOT_A_MESSAGE, BOTH, NEITHER, WRONG_ID, NAMELESS, WRONG_TYPES, STOPPED, CHATTER, TOO_LONG})
"""All of these sentences: a server may send the code of `MALFORMED` itself, with words of its own."""

MALFORMED: Final = -32019
"""The code of the errors that stand here for an answer that is none: of those that the protocol leaves to programs."""

LONGEST: Final = 4_000_000
"""Bytes of the longest message."""

_OK: Final = 200
_LINE_END: Final = re.compile(rb"(?<=\n)|(?<=\r)(?!\n)")

PATIENCE: Final = 2.0
"""Seconds that a server may be silent in the middle of a message, or after a line that is none."""


class SentRequests:
    """The requests that a server was sent over one connection; it numbers those that wait for an answer."""

    def __init__(self) -> None:
        self._highest = -1
        self.waiting: set[int | str] = set()

    def sent(self, message: JSONRPCMessage) -> None:
        """Note a message on its way to the server."""
        match message:
            case JSONRPCRequest(id=int() as number):
                self._highest = max(self._highest, number)
                self.waiting.add(number)
            case JSONRPCRequest(id=str() as name):
                self.waiting.add(name)
            case JSONRPCNotification(method="notifications/cancelled", params=dict() as params):
                self.waiting.discard(cast("int | str", params.get("requestId")))
            case _:
                pass

    def knows(self, name: object) -> bool:
        """Say whether a request of this id was sent, even if it is over: a late answer is no fault."""
        number = _number(name)
        return name in self.waiting or (number is not None and 0 <= number <= self._highest)

    def answered(self, name: object) -> None:
        """Note that the answer to a request is there."""
        number = _number(name)
        self.waiting.discard(cast("int | str", name) if number is None else number)


def fault(raw: bytes | str, knows: Callable[[object], bool]) -> tuple[str, object]:
    """Return why a message cannot be an answer or anything else, empty if it may be, and the id that it names.

    `knows` says whether a request of an id was sent.
    """
    try:
        message: object = from_json(raw)
    except ValueError:
        return NOT_A_MESSAGE, None
    if not isinstance(message, dict):
        return NOT_A_MESSAGE, None
    known = cast("dict[str, JsonValue]", message)
    name = known.get("id")
    name = name if isinstance(name, int | str) and not isinstance(name, bool) else None
    return _fault(known, name, knows), name


def _fault(message: dict[str, JsonValue], name: object, knows: Callable[[object], bool]) -> str:
    parts = message.keys() & {"method", "result", "error"}
    result, error = message.get("result"), message.get("error")
    broken = isinstance(error, dict) and _whole(error.get("code")) and isinstance(error.get("message"), str)
    asks = parts == {"method"}
    checks = (
        (message.get("jsonrpc") == "2.0" and ("method" not in parts or asks), NOT_A_MESSAGE),
        (bool(parts), NEITHER),
        (len(parts) < 2, BOTH),  # noqa: PLR2004 - a result or an error
        (asks or message.get("id") is not None, NAMELESS),
        (asks or name is not None, WRONG_TYPES),
        (asks or knows(name), WRONG_ID),
        ((asks and isinstance(message["method"], str)) or isinstance(result, dict) or broken, WRONG_TYPES),
    )
    return next((why for right, why in checks if not right), "")


def malformed(name: int | str, why: str) -> JSONRPCError:
    """Return the error that stands in place of an answer that is none."""
    return JSONRPCError(jsonrpc="2.0", id=name, error=ErrorData(code=MALFORMED, message=why))


def misread(code: int, message: str) -> bool:
    """Say whether an error stands in place of an answer that is none."""
    return code == MALFORMED and message in FAULTS


def looks_like_one(line: bytes) -> bool:
    """Say whether a line that is no message is a broken one, and not a word to people."""
    start = line.lstrip()
    if start.startswith(b"["):
        try:
            from_json(start)
        except ValueError:
            return False
    return start.startswith((b"{", b"["))


async def checked(
    request: httpx2.Request, response: httpx2.Response, body: httpx2.AsyncByteStream
) -> AsyncIterator[bytes]:
    """Yield the body of an HTTP response, with an error in place of an answer that is none.

    Raises httpx2.ReadError: an event is too long.
    """
    wanted = _asks(request)
    if wanted is None or response.status_code != _OK:
        async for chunk in body:
            yield chunk
    elif response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        async for event in _events(body, wanted):
            yield event
    else:
        whole, parts = bytearray(), _Parts(body)
        try:
            async for chunk in parts:
                whole += chunk
                parts.within = True
        except TimeoutError:
            yield _instead(wanted, STOPPED)
        else:
            yield _answer(bytes(whole), wanted)


def _asks(request: httpx2.Request) -> int | str | None:
    """Return the id of the JSON-RPC request that an HTTP request carries, None for any other."""
    if request.method != "POST":
        return None
    try:
        sent: object = from_json(request.content)
    except ValueError:
        return None
    name = cast("dict[str, object]", sent).get("id") if isinstance(sent, dict) and "method" in sent else None
    return name if isinstance(name, int | str) else None


def _answer(raw: bytes, wanted: int | str) -> bytes:
    why, _ = fault(raw, lambda name: name == wanted or _number(name) == wanted)
    return _instead(wanted, why) if why else raw


def _instead(wanted: int | str, why: str) -> bytes:
    return malformed(wanted, why).model_dump_json(by_alias=True, exclude_none=True).encode()


async def _events(body: httpx2.AsyncByteStream, wanted: int | str) -> AsyncIterator[bytes]:
    """Yield the events of a stream, with an error in place of a message that is none."""
    events, parts = _Events(wanted), _Parts(body)
    try:
        async for chunk in parts:
            for event in events.taken(chunk):
                yield event
            parts.within = events.within
            if events.size > LONGEST:
                raise httpx2.ReadError("the answer is too long")
    except TimeoutError:
        yield b"data: " + _instead(wanted, STOPPED) + b"\n\n"
    else:
        yield events.rest


class _Events:
    """Makes events of the parts of a stream; each byte is looked at once, however small the parts are."""

    def __init__(self, wanted: int | str) -> None:
        self._wanted = wanted
        self._lines = list[bytes]()
        self._line = list[bytes]()
        self._returned = self._said = False
        self.size = 0

    @property
    def within(self) -> bool:
        """Whether the stream is in the middle of a line, or of an event that says something."""
        return bool(self._line) or self._said

    @property
    def rest(self) -> bytes:
        """The bytes of an event that is not over."""
        return b"".join((*self._lines, *self._line))

    def taken(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next part, and yield the events that it ends."""
        if self._returned and chunk.startswith(b"\n"):
            # The second half of a line end: the line is over already.
            chunk = chunk[1:]
            if self._lines:
                self._lines[-1] += b"\n"
            else:
                yield b"\n"
        self._returned = chunk.endswith(b"\r")
        *ends, rest = _LINE_END.split(chunk)
        for end in filter(None, ends):
            self.size += len(end)
            yield from self._ended(b"".join((*self._line, end)))
        if rest:
            self.size += len(rest)
            self._line.append(rest)

    def _ended(self, line: bytes) -> Iterator[bytes]:
        self._line = []
        self._lines.append(line)
        self._said = self._said or bool(_data(line))
        if not line.strip(b"\r\n"):
            yield _event(self._lines, self._wanted)
            self._lines, self._said, self.size = [], False, 0


def _event(lines: list[bytes], wanted: int | str) -> bytes:
    data = b"\n".join(found for line in lines if (found := _data(line)))
    if not data or not _carries_message(lines):
        return b"".join(lines)
    answer = _answer(data, wanted)
    return b"".join(lines) if answer == data else b"data: " + answer + b"\n\n"


def _carries_message(lines: list[bytes]) -> bool:
    """Say whether an event is of the type that carries messages; the library passes over any other."""
    kinds = [line.removeprefix(b"event:").strip() for line in lines if line.startswith(b"event:")]
    return not kinds or kinds[-1] in {b"", b"message"}


def _data(line: bytes) -> bytes:
    return line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""


class _Parts:
    """The parts of a body as they come; `within` says whether the server is in the middle of a message.

    The next part raises TimeoutError: it stopped there.
    """

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._parts = aiter(body)
        self.within = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with anyio.fail_after(PATIENCE if self.within else None):
            return await anext(self._parts)


def _number(name: object) -> int | None:
    """Return the number that an id means: the library writes numbers, and some servers give them back as texts."""
    if isinstance(name, str) and name.isascii() and name.isdecimal() and len(name) < 16:  # noqa: PLR2004 - far above what is sent
        return int(name)
    return name if isinstance(name, int) and not isinstance(name, bool) else None


def _whole(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
