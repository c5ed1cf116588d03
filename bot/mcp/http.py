"""The HTTP client for a server that is reached by URL: nothing it answers is read without bound."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpx2

from bot.core.trust import trust
from bot.mcp.answers import LONGEST, checked

_CONNECT_SECONDS: Final = 10.0


def bounded_client(headers: Mapping[str, str], seconds: float, signer: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Return a client that sends these headers; `seconds` is how long a server may be silent in an answer.

    `signer` signs its requests.
    No proxy of the environment is used. Redirects are the transport's to follow, within the server's origin.
    """
    sent = {**headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=seconds)
    return httpx2.AsyncClient(
        headers=sent, timeout=timeout, transport=_Bounded(verify=trust()), trust_env=False, auth=signer
    )


class _Bounded(httpx2.AsyncHTTPTransport):
    """Ends an answer that is too long, or packed: nobody knows how long that becomes."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("a packed answer was not asked for", request=request)
        stream = response.stream
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        if isinstance(stream, httpx2.AsyncByteStream):
            bounded = stream if streamed else _Counted(stream, request)
            response.stream = _Checked(bounded, request, response)
        return response


class _Checked(httpx2.AsyncByteStream):
    """A body with an error in place of an answer that is none."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request, response: httpx2.Response) -> None:
        self._stream = stream
        self._request = request
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in checked(self._request, self._response, self._stream):
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


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
