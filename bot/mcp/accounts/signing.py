"""Signs the requests of one account's connection: with its token as it is now, and once more after a refusal."""

from collections import deque
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Final

import httpx2

from bot.mcp.accounts.errors import AuthorizationError
from bot.mcp.accounts.records import AccountKey
from bot.mcp.accounts.tokens import AccountTokens
from bot.secrets import GrantedSecret, Keyring

_REMEMBERED: Final = 4
"""The number of tokens that are taken out of a server's words."""


class AccountSigner(httpx2.Auth):
    """Signs for one account at a server, and for no other, also not for a later one of the same principal."""

    def __init__(self, tokens: AccountTokens, server: str, key: AccountKey) -> None:
        self._tokens = tokens
        self._server = server
        self._key = key
        self._sent = deque[Keyring](maxlen=_REMEMBERED)
        self._last = ""

    def scrub(self, text: str) -> str:
        """Return a text without the tokens that were sent last, plain or in one of their usual encodings."""
        for keyring in self._sent:
            text = keyring.scrub(text)
        return text

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the account's token; if that is refused, once more with a renewed one.

        Raises httpx2.RequestError: the account is no longer there, or its issuer does not answer.
        """
        token = await self._token(request, "")
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            await self._token(request, token)
            yield request

    async def _token(self, request: httpx2.Request, refused: str) -> str:
        """Sign a request, and return the token."""
        try:
            account = await self._tokens.current(self._server, self._key.principal, refused)
        except AuthorizationError:
            raise httpx2.RequestError("the account cannot be renewed now", request=request) from None
        if account is None or account.id != self._key.id:
            raise httpx2.RequestError("the account is not connected any more", request=request)
        if account.access != self._last:
            self._last = account.access
            self._sent.append(Keyring({"account": GrantedSecret(account.access, frozenset(), frozenset())}))
        request.headers["Authorization"] = f"Bearer {account.access}"
        return account.access
