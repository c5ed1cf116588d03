"""Speaking with a server's issuer: finding it, registering a client, exchanging codes and tokens, giving them back.

Metadata, forms and checks are those of the official library; this module has the requests. Each goes to a host that
the configuration names, over TLS unless it is this machine, follows no redirect, and has a bounded time and size. No
error holds a word of the issuer's: those may hold a token.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import PKCEParameters, check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_registration_request,
    extract_resource_metadata_from_www_auth,
    get_client_metadata_scopes,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, BaseModel, ValidationError
from pydantic_core import from_json

from bot.config.accounts.oauth import McpOAuthSettings, is_sealed, netloc
from bot.config.mcp import McpServerSettings
from bot.mcp.accounts.errors import AuthorizationError, GrantRefusedError
from bot.mcp.accounts.records import Account, Link, Registration
from bot.mcp.http import bounded_client

Model = TypeVar("Model", bound=BaseModel)

CLIENT_NAME: Final = "Lockgate"

_SECONDS: Final = 20.0
"""The time for one request, in seconds."""

_MOST: Final = 256_000
"""Bytes of the longest answer."""

_LONGEST_TOKEN: Final = 16_000
_LONGEST_NAME: Final = 80
_LONGEST_ADDRESS: Final = 2000
_LONGEST_LIFE: Final = 10 * 365 * 86_400
_REFUSED: Final = "invalid_grant"
_UNKNOWN: Final = "invalid_client"
_NAMES: Final = ("preferred_username", "email", "name", "sub")


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """The tokens that an issuer gave; `seconds` is the life of the access token, 0 for unknown."""

    seconds: int
    scope: str
    name: str
    access: str = field(repr=False)
    refresh: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FoundIssuer:
    """An issuer as its metadata describe it, the resource that its tokens are for, and the scopes to ask for."""

    metadata: OAuthMetadata
    resource: str
    scope: str


class Authorization:
    """Speaks with the issuer of one server. `secret` is the configured client's, empty for none."""

    def __init__(self, server: str, settings: McpServerSettings, oauth: McpOAuthSettings, secret: str) -> None:
        self._server = server
        self._url = settings.url or ""
        self._oauth = oauth
        self._secret = secret

    async def find(self) -> FoundIssuer:
        """Return the server's issuer.

        Raises AuthorizationError: there is none, it is not one that the configuration names, or it lacks a part.
        """
        resource = await self._resource()
        issuer = self._issuer(resource)
        metadata = await self._metadata(issuer, advertised=resource is not None or self._oauth.issuer is not None)
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise AuthorizationError(
                f"{self._where} has an issuer without PKCE (S256), which Lockgate does not use",
                next_step="ask its operator for one with `code_challenge_methods_supported`",
            )
        ends = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.registration_endpoint)
        for address in (*ends, metadata.revocation_endpoint):
            if address is not None:
                self._permitted(str(address))
        scope = " ".join(self._oauth.scopes) or get_client_metadata_scopes(
            None, resource, metadata, ["authorization_code", "refresh_token"]
        )
        named = resource_url_from_server_url(self._url) if resource is None else str(resource.resource)
        return FoundIssuer(metadata, named, scope or "")

    async def register(self, found: FoundIssuer, redirect: str) -> Registration:
        """Return the configured client, or one registered now, for people who come back to `redirect`.

        Raises AuthorizationError: the issuer registers none.
        """
        metadata = found.metadata
        made = Registration(
            issuer=str(metadata.issuer),
            authorization="",
            token="",
            revocation="",
            client_id=self._oauth.client_id or "",
            method=_method(metadata, secret=bool(self._secret)),
            redirect=redirect,
        )
        made = self.anew(made, found)
        return made if made.client_id else await self._registered(found, made)

    @property
    def has_client(self) -> bool:
        """Whether the configuration names the client."""
        return self._oauth.client_id is not None

    def anew(self, registration: Registration, found: FoundIssuer) -> Registration:
        """Return a registration with the addresses and promises of its issuer as they were found now."""
        metadata = found.metadata
        return replace(
            registration,
            authorization=str(metadata.authorization_endpoint),
            token=str(metadata.token_endpoint),
            revocation=str(metadata.revocation_endpoint or ""),
            names_issuer=bool(metadata.authorization_response_iss_parameter_supported),
        )

    def consent(self, registration: Registration, found: FoundIssuer, state: str) -> tuple[str, str]:
        """Return the address at which a person consents, and the verifier that proves who made it."""
        proof = PKCEParameters.generate()
        asked = {
            "response_type": "code",
            "client_id": registration.client_id,
            "redirect_uri": registration.redirect,
            "state": state,
            "code_challenge": proof.code_challenge,
            "code_challenge_method": "S256",
            "resource": found.resource,
        }
        asked |= {"scope": found.scope} if found.scope else {}
        asked |= {"prompt": "consent"} if "offline_access" in found.scope.split() else {}
        joint = "&" if urlsplit(registration.authorization).query else "?"
        return f"{registration.authorization}{joint}{urlencode(asked)}", proof.code_verifier

    async def exchange(self, link: Link, code: str) -> IssuedTokens:
        """Return the tokens for the code that a person came back with.

        Raises AuthorizationError: the issuer gives none.
        """
        asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": link.registration.redirect}
        return await self._tokens(
            link.registration, {**asked, "code_verifier": link.verifier, "resource": link.resource}
        )

    async def renew(self, account: Account) -> IssuedTokens:
        """Return new tokens of an account.

        Raises:
            GrantRefusedError: its refresh token does not count any more.
            AuthorizationError: the issuer does not answer.
        """
        asked = {"grant_type": "refresh_token", "refresh_token": account.refresh, "resource": account.resource}
        return await self._tokens(account.registration, asked)

    async def revoke(self, account: Account) -> None:
        """Give an account's tokens back, where the issuer takes them.

        Raises AuthorizationError: the issuer does not answer.
        """
        registration = account.registration
        for token, hint in ((account.refresh, "refresh_token"), (account.access, "access_token")):
            if token and registration.revocation:
                form = {"token": token, "token_type_hint": hint}
                await self._post(registration, registration.revocation, form)

    @property
    def _where(self) -> str:
        return f"the MCP server `{self._server}`"

    async def _resource(self) -> ProtectedResourceMetadata | None:
        """Return how the server describes itself, None if it does not."""
        challenged = extract_resource_metadata_from_www_auth((await self._get(self._url, body=False))[0])
        if challenged is not None:
            self._permitted(challenged)
        for address in build_protected_resource_metadata_discovery_urls(challenged, self._url):
            response, body = await self._get(address)
            found = _read(ProtectedResourceMetadata, body) if response.status_code == HTTPStatus.OK else None
            if found is None:
                continue
            wanted = resource_url_from_server_url(self._url)
            if not check_resource_allowed(requested_resource=wanted, configured_resource=str(found.resource)):
                raise AuthorizationError(
                    f"{self._where} calls itself `{_place(str(found.resource))}`, and gets no tokens for that",
                    next_step=f"mend `mcp_servers.{self._server}.url`",
                )
            return found
        return None

    def _issuer(self, resource: ProtectedResourceMetadata | None) -> str:
        """Return the issuer to use: the configured one, or the server's first if that is its own host."""
        offered = [] if resource is None else [str(one) for one in resource.authorization_servers]
        wanted = self._oauth.issuer
        if wanted is None:
            parts = urlsplit(self._url)
            issuer = offered[0] if offered else f"{parts.scheme}://{parts.netloc}"
            self._permitted(issuer)
            return issuer
        if offered and not any(issuers_match(one, wanted) for one in offered):
            raise AuthorizationError(
                f"{self._where} does not name the issuer that is configured",
                next_step=f"mend `mcp_servers.{self._server}.oauth.issuer`",
            )
        return next((one for one in offered if issuers_match(one, wanted)), wanted)

    async def _metadata(self, issuer: str, *, advertised: bool) -> OAuthMetadata:
        for address in build_oauth_authorization_server_metadata_discovery_urls(
            issuer if advertised else None, self._url
        ):
            response, body = await self._get(address)
            found = _read(OAuthMetadata, body) if response.status_code == HTTPStatus.OK else None
            if found is None:
                continue
            if not issuers_match(str(found.issuer), issuer):
                try:
                    validate_metadata_issuer(found, issuer)
                except OAuthFlowError:
                    raise AuthorizationError(
                        f"the issuer of {self._where} describes itself as another one",
                        next_step=f"mend `mcp_servers.{self._server}.oauth.issuer`",
                    ) from None
            return found
        raise AuthorizationError(
            f"the issuer of {self._where} does not describe itself",
            next_step=f"name it as `mcp_servers.{self._server}.oauth.issuer`",
        )

    def _permitted(self, address: str) -> None:
        """Check that an address leads to a host that the configuration names.

        Raises AuthorizationError: it does not, or the way there is not encrypted.
        """
        own = (self._url, self._oauth.issuer or "")
        host = netloc(address)
        if host and is_sealed(address) and _is_plain(address) and host in {*map(netloc, own), *self._oauth.hosts}:
            return
        raise AuthorizationError(
            f"{self._where} leads to `{_place(address)}` for its accounts, which the configuration does not name",
            next_step=f"if you trust it, name it as `mcp_servers.{self._server}.oauth.issuer` or under its `hosts`",
        )

    async def _registered(self, found: FoundIssuer, made: Registration) -> Registration:
        if found.metadata.registration_endpoint is None:
            raise AuthorizationError(
                f"the issuer of {self._where} registers no clients",
                next_step=f"register one there by hand, and write its `mcp_servers.{self._server}.oauth.client_id`",
            )
        wish = OAuthClientMetadata(
            redirect_uris=[AnyUrl(made.redirect)],
            token_endpoint_auth_method=cast("Any", made.method),
            scope=found.scope or None,
            client_name=CLIENT_NAME,
            application_type="native" if urlsplit(made.redirect).scheme == "http" else "web",
        )
        request = create_client_registration_request(found.metadata, wish, made.issuer)
        response, body = await self._send(request)
        if response.status_code not in {HTTPStatus.OK, HTTPStatus.CREATED}:
            raise self._did_not("register a client", response.status_code)
        client = _read(OAuthClientInformationFull, body)
        if client is None or not _is_usable(client):
            raise AuthorizationError(
                f"the issuer of {self._where} registered a client that cannot be used",
                next_step=f"register one there by hand, and write its `mcp_servers.{self._server}.oauth.client_id`",
            )
        return replace(
            made,
            client_id=client.client_id,
            method=client.token_endpoint_auth_method or made.method,
            secret=client.client_secret or "",
            ends=client.client_secret_expires_at or 0,
        )

    async def _tokens(self, registration: Registration, form: Mapping[str, str]) -> IssuedTokens:
        response, body = await self._post(registration, registration.token, form)
        refusal = _told(body) if response.status_code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED} else ""
        if refusal == _REFUSED:
            raise GrantRefusedError(f"the issuer of {self._where} does not accept the grant")
        if refusal == _UNKNOWN:
            raise AuthorizationError(
                f"the issuer of {self._where} does not accept the client",
                next_step=f"mend `client_id` and `client_secret` under `mcp_servers.{self._server}.oauth`",
            )
        if response.status_code != HTTPStatus.OK:
            raise self._did_not("give a token", response.status_code)
        token = _read(OAuthToken, body)
        if token is None or not (
            _is_token(token.access_token) and _is_token(token.refresh_token or token.access_token)
        ):
            raise AuthorizationError(f"the issuer of {self._where} gave a token that cannot be read")
        return IssuedTokens(
            seconds=min(max(token.expires_in or 0, 0), _LONGEST_LIFE),
            scope=(token.scope or "")[:_LONGEST_ADDRESS],
            name=_account_name(body),
            access=token.access_token,
            refresh=token.refresh_token or "",
        )

    async def _post(
        self, registration: Registration, address: str, form: Mapping[str, str]
    ) -> tuple[httpx2.Response, bytes]:
        """Post a form as the client that is registered (RFC 6749, section 2.3.1)."""
        self._permitted(address)
        sent, headers = {**form, "client_id": registration.client_id}, {"Accept": "application/json"}
        # A configured secret is not stored: it may change.
        secret = self._secret if registration.client_id == self._oauth.client_id else registration.secret
        if registration.method == "client_secret_basic" and secret:
            pair = f"{quote(registration.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif secret:
            sent["client_secret"] = secret
        return await self._send(httpx2.Request("POST", address, data=sent, headers=headers))

    async def _get(self, address: str, *, body: bool = True) -> tuple[httpx2.Response, bytes]:
        self._permitted(address)
        request = httpx2.Request("GET", address, headers={"Accept": "application/json, text/event-stream"})
        return await self._send(request, body=body)

    async def _send(self, request: httpx2.Request, *, body: bool = True) -> tuple[httpx2.Response, bytes]:
        """Send a request and return its answer with its body.

        Raises AuthorizationError: there is no answer, or too long a one.
        """
        self._permitted(str(request.url))
        request.headers["Accept-Encoding"] = "identity"
        request.headers["User-Agent"] = CLIENT_NAME.lower()
        try:
            async with (
                asyncio.timeout(_SECONDS),
                await asyncio.to_thread(bounded_client, {}, _SECONDS) as client,
                client.stream(
                    request.method, request.url, content=request.content, headers=request.headers
                ) as response,
            ):
                return response, await _within(response) if body else b""
        except (httpx2.HTTPError, OSError, ValueError):
            # A timeout is among them.
            raise AuthorizationError(
                f"`{_place(str(request.url))}`, for accounts of {self._where}, did not answer"
            ) from None

    def _did_not(self, what: str, status: int) -> AuthorizationError:
        return AuthorizationError(f"the issuer of {self._where} did not {what} (status {status})")


async def _within(response: httpx2.Response) -> bytes:
    taken = bytearray()
    async for chunk in response.aiter_bytes():
        taken += chunk
        if len(taken) > _MOST:
            raise httpx2.ReadError("the answer is too long")
    return bytes(taken)


def _read(kind: type[Model], body: bytes) -> Model | None:
    try:
        return kind.model_validate_json(body)
    except ValidationError:
        return None


def _is_usable(client: OAuthClientInformationFull) -> bool:
    try:
        check_registration_usable(client)
    except OAuthRegistrationError:
        return False
    return True


def _method(metadata: OAuthMetadata, *, secret: bool) -> str:
    """Return how a client proves itself: without a secret of its own, by none where the issuer takes that."""
    taken = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic", "none"]
    ways = ("client_secret_basic", "client_secret_post") if secret else ("none", "client_secret_basic")
    return next((way for way in ways if way in taken), "client_secret_post")


def _is_token(token: str) -> bool:
    return 0 < len(token) <= _LONGEST_TOKEN and token.isascii() and token.isprintable() and " " not in token


def _told(body: bytes) -> str:
    """Return the word for an issuer's error, empty if it said none."""
    return str(_object(body).get("error", ""))


def _account_name(body: bytes) -> str:
    """Return the name of an account as its issuer tells it beside the token, in one short line, empty for none.

    It came over the issuer's own connection, and is shown to the person who connects the account; nothing is decided
    by it.
    """
    parts = str(_object(body).get("id_token", "")).split(".")
    try:
        claims = _object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, binascii.Error, ValueError):
        return ""
    name = next((str(claims[key]) for key in _NAMES if claims.get(key)), "")
    return "".join(char for char in name[:_LONGEST_NAME] if char.isprintable() and char != "`").strip()


def _object(body: bytes) -> dict[str, Any]:
    try:
        # Unlike the standard library's reader, it refuses a value that is too deep as it refuses any other.
        told = from_json(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


def _is_plain(address: str) -> bool:
    """Say whether an address is one for the client that asks it, too, and of a usual length."""
    try:
        return len(address) <= _LONGEST_ADDRESS and bool(httpx2.URL(address).host)
    except (httpx2.InvalidURL, ValueError):
        return False


def _place(address: str) -> str:
    """Return the scheme and host of an address: a path may hold anything."""
    shown = f"{address.partition(':')[0][:8]}://{netloc(address)[:100]}"
    return "".join(char for char in shown if char.isascii() and char.isprintable())
