"""How calls reach the Bot API: over aiohttp, which the webhook and Slack's adapter use too.

The library brings httpx, which takes four times as long for a call. Every address that is called holds the token, so no
error of the HTTP library is handed on: its class tells all that is needed.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import aiohttp
from telegram.error import NetworkError, TimedOut
from telegram.request import BaseRequest, RequestData

if TYPE_CHECKING:
    from telegram._utils.types import ODVInput

_NEVER_MADE: Final = (
    *(aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError),
    *(aiohttp.ClientHttpProxyError, aiohttp.InvalidURL),
)
"""What is raised where no connection was made."""

_FORM: Final = MappingProxyType({"Content-Type": "application/x-www-form-urlencoded"})

Heard = Callable[[Mapping[str, str]], Awaitable[None]]
"""Take note of the headers of an answer."""


class UnsentError(NetworkError):
    """The connection was never made, so nothing was sent on it."""


class Requests(BaseRequest):
    """Makes calls over at most `connections` connections.

    The proxy that the environment names is used, and the certificates that the machine trusts. A call waits `call`
    seconds for a connection and as long for each part of the answer; with a file, four times as long for all. `heard`
    is told the headers of each answer. Connections are opened when they are needed, also after `shutdown`.
    """

    def __init__(self, connections: int, call: float, heard: Heard | None = None) -> None:
        self._connections = connections
        self._call = call
        self._heard = heard
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float:
        """Seconds to wait for each part of an answer if a call says nothing else."""
        return self._call

    async def initialize(self) -> None:
        """Do nothing: connections are opened when they are needed."""

    async def shutdown(self) -> None:
        """Close all connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def do_request(  # noqa: PLR0913, PLR0917 - the base class's signature
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: "ODVInput[float]" = BaseRequest.DEFAULT_NONE,
        write_timeout: "ODVInput[float]" = BaseRequest.DEFAULT_NONE,  # noqa: ARG002 - as above
        connect_timeout: "ODVInput[float]" = BaseRequest.DEFAULT_NONE,  # noqa: ARG002 - as above
        pool_timeout: "ODVInput[float]" = BaseRequest.DEFAULT_NONE,  # noqa: ARG002 - as above
    ) -> tuple[int, bytes]:
        """Make one call; return the status and the body of the answer.

        Raises UnsentError: no connection was made. TimedOut: no answer came in time. NetworkError: it broke off.
        """
        read = read_timeout if isinstance(read_timeout, int | float) else self._call
        files = request_data is not None and request_data.contains_files
        timeout = aiohttp.ClientTimeout(
            total=self._call + read + self._call * (4 if files else 1),
            connect=self._call,
            sock_read=4 * self._call if files else read,
        )
        session = self._session = self._session or self._opened()
        try:
            said = _body(request_data)
            async with session.request(
                method, url, data=said, headers=None if files else _FORM, timeout=timeout
            ) as answer:
                body = await answer.read()
        except _NEVER_MADE as error:
            raise UnsentError(type(error).__name__) from None
        except TimeoutError:
            raise TimedOut from None
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkError(type(error).__name__) from None
        if self._heard is not None:
            await self._heard(answer.headers)
        return answer.status, body

    def _opened(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": BaseRequest.USER_AGENT},
            trust_env=True,
        )


def _body(data: RequestData | None) -> aiohttp.FormData | bytes | None:
    """Return what a call says. Raises UnsentError: a file has a name that cannot be sent."""
    if data is None:
        return None
    if not data.contains_files:
        return data.url_encoded_parameters().encode()
    # Telegram reads names of files as they are, not percent-encoded.
    form = aiohttp.FormData(quote_fields=False)
    for name, value in data.json_parameters.items():
        form.add_field(name, value)
    for name, (filename, content, kind) in data.multipart_data.items():
        try:
            form.add_field(name, content, filename=filename, content_type=kind)
        except ValueError:
            raise UnsentError("the name of a file cannot be sent") from None
    return form
