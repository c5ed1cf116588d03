"""The client of the Bot API: the library's bot, over aiohttp, which the webhook and Slack's adapter use too.

The library brings httpx, which takes four times as long for a call. Every address that is called holds the token, so no
error of the HTTP library is handed on: its class tells all that is needed. The library logs the text of its requests,
so only its warnings are logged.

Other servers than Telegram's speak the Bot API too, and leave fields out that the library takes for given. An answer
that the library cannot read fails that call and nothing else: the call may have been done.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

import aiohttp
from telegram import Bot
from telegram.error import NetworkError, TelegramError, TimedOut
from telegram.request import BaseRequest, RequestData

from channels.http import named_proxy

if TYPE_CHECKING:
    from types import CoroutineType

    from telegram._utils.types import ODVInput


def quiet() -> None:
    """Let the library log warnings only."""
    logging.getLogger("telegram").setLevel(logging.WARNING)


_NEVER_MADE: Final = (
    *(aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError),
    *(aiohttp.ClientHttpProxyError, aiohttp.InvalidURL),
)
"""The errors of a call that made no connection."""

_FORM: Final = MappingProxyType({"Content-Type": "application/x-www-form-urlencoded"})

Heard = Callable[[Mapping[str, str]], Awaitable[None]]
"""Take note of the headers of an answer."""


class UnsentError(NetworkError):
    """The connection was never made, so nothing was sent on it."""


class BotApiRequests(BaseRequest):
    """Makes calls over at most `connections` connections.

    The proxy that the environment names is used, and the certificates that the machine trusts. A call waits `call`
    seconds for a connection and as long for each part of the answer; with a file, four times as long for all. `heard`
    gets the headers of each answer. Connections are opened when they are needed, also after `shutdown`.
    """

    def __init__(self, connections: int, call: float, heard: Heard | None = None) -> None:
        self._connections = connections
        self._call = call
        self._heard = heard
        self._session: aiohttp.ClientSession | None = None
        self._proxies = dict[str, str | None]()

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

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: "ODVInput[float]" = BaseRequest.DEFAULT_NONE,
        *_others: "ODVInput[float]",
        **_named: "ODVInput[float]",
    ) -> tuple[int, bytes]:
        """Make one call; return the status and the body of the answer.

        Of the timeouts only the reading timeout is used.

        Raises:
            UnsentError: no connection was made. TimedOut: no answer came in time.
            NetworkError: it broke off.
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
                method, url, data=said, headers=None if files else _FORM, timeout=timeout, proxy=self._proxy(url)
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
        )

    def _proxy(self, url: str) -> str | None:
        asked = urlsplit(url)
        server = f"{asked.scheme}://{asked.netloc}"
        if server not in self._proxies:
            self._proxies[server] = named_proxy(server)
        return self._proxies[server]


def _body(data: RequestData | None) -> aiohttp.FormData | bytes | None:
    """Return the body of a call. Raises UnsentError: a file has a name that cannot be sent."""
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


UNREADABLE: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The library's errors for an answer that is not of the Bot API."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOGGER: Final = logging.getLogger(__name__)


class UnreadableError(NetworkError):
    """An answer cannot be read: the call may have been done."""

    def __init__(self) -> None:
        super().__init__("the answer cannot be read")


def read(call: Callable[_P, Awaitable[_R]]) -> "Callable[_P, CoroutineType[Any, Any, _R]]":
    """Return a call that raises UnreadableError for an answer that the library cannot read."""

    async def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return await call(*args, **kwargs)
        except TelegramError:
            raise
        except UNREADABLE as error:
            _LOGGER.warning("Telegram's answer cannot be read", extra={"subject": "channel telegram"}, exc_info=True)
            raise UnreadableError from error

    return checked


class BotApi(Bot):
    """The library's bot, of which the calls that an adapter makes are checked."""

    get_me = read(Bot.get_me)
    get_file = read(Bot.get_file)
    get_webhook_info = read(Bot.get_webhook_info)
    set_webhook = read(Bot.set_webhook)
    delete_webhook = read(Bot.delete_webhook)
    get_chat_administrators = read(Bot.get_chat_administrators)
    set_my_commands = read(Bot.set_my_commands)
    delete_my_commands = read(Bot.delete_my_commands)
    send_chat_action = read(Bot.send_chat_action)
    send_message = read(Bot.send_message)
    send_document = read(Bot.send_document)
    edit_message_text = read(Bot.edit_message_text)
    edit_message_caption = read(Bot.edit_message_caption)
    delete_message = read(Bot.delete_message)
    answer_callback_query = read(Bot.answer_callback_query)
