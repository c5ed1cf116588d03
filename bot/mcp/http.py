"""The HTTP client for a server that is reached by URL: nothing it answers is read without bound."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpx2

LONGEST: Final = 4_000_000
"""Bytes of the longest answer, or of the longest event of a stream."""

_CONNECT_SECONDS: Final = 10.0


def bounded_client(headers: Mapping[str, str], seconds: float) -> httpx2.AsyncClient:
    """Return a client that sends these headers; `seconds` is how long a server may be silent in an answer.

    No proxy of the environment is used. Redirects are the transport's to follow, within the server's origin.
    """
    sent = {**headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=seconds)
    return httpx2.AsyncClient(headers=sent, timeout=timeout, transport=_Bounded(), trust_env=False)


class _Bounded(httpx2.AsyncHTTPTransport):
    """Ends an answer that is too long, or packed: nobody knows how long that becomes."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("a packed answer was not asked for", request=request)
        stream = response.stream
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        if isinstance(stream, httpx2.AsyncByteStream) and not streamed:
            response.stream = _Counted(stream, request)
        return response


class _Counted(httpx2.AsyncByteStream):
    """A body that ends with an error when it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._stream = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > LONGEST:
                raise httpx2.ReadError("the answer is too long", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
