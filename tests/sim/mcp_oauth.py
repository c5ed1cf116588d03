"""An MCP server that asks for accounts, with its issuer, on loopback: RFC 6749, 7591, 7636, 8414, 8707, 9207 and 9728.

`issuer` serves metadata, registration, consent, tokens and revocation, and `/mcp` tells in the tool `whoami` whose
token came. Refresh tokens count once: one that comes again ends all tokens of its grant, as issuers do. A session of
the protocol belongs to the account that began it; another one's request in it is noted.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import ClientSession, web


@dataclass
class Grant:
    """A grant that a person gave to a client, and the tokens of it that count now."""

    user: str
    client: str
    access: str = ""
    refresh: str = ""
    spent: set[str] = field(default_factory=set[str])


@dataclass
class OAuthServer:
    """The server and its issuer; the fields up to `port` are what a test chooses."""

    named: bool = False
    """The issuer tells the name of the account."""
    seconds: int = 3600
    """The life of access tokens."""
    slow: float = 0.0
    """The seconds that an exchange takes."""
    registers: bool = True
    pkce: bool = True
    issuer: str = ""
    """How the issuer calls itself, empty for its address."""
    token_at: str = ""
    """Where it says that tokens are, empty for where they are."""
    comes_as: str | None = ""
    """The issuer that the redirect names; empty for the right one, None for none."""
    challenges: str = ""
    """Where a refusal says that the server describes itself, empty for where it does."""
    answers: tuple[int, bytes] | None = None
    """The answer of the place for tokens, None for a right one."""
    echoes: bool = False
    """The tool tells the token that it was called with."""
    port: int = 0
    grants: list[Grant] = field(default_factory=list[Grant])
    codes: dict[str, tuple[Grant, dict[str, str]]] = field(default_factory=dict[str, tuple[Grant, dict[str, str]]])
    clients: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    mixed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    called: list[str] = field(default_factory=list[str])
    exchanged: list[str] = field(default_factory=list[str])
    revoked: list[str] = field(default_factory=list[str])
    reused: int = 0
    given: list[str] = field(default_factory=list[str])
    """All tokens and codes that it ever gave."""
    _count: int = 0

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def browse(self, link: str, user: str) -> str:
        """Open a link as the browser of somebody who consents, and return the page where they end."""
        return await self.visit(await self.consent(link, user))

    async def consent(self, link: str, user: str) -> str:
        """Consent as somebody, and return where the browser is sent to."""
        async with ClientSession() as browser, browser.get(f"{link}&user={user}", allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
            return answer.headers["Location"]

    async def visit(self, address: str) -> str:
        """Open an address, and return the page."""
        async with ClientSession() as browser, browser.get(address) as answer:
            return await answer.text()

    def expire(self) -> None:
        """Let all access tokens end, as if their time had passed."""
        for grant in self.grants:
            grant.access = ""

    def withdraw(self, user: str) -> None:
        """End everything that somebody granted."""
        self.grants = [grant for grant in self.grants if grant.user != user]

    def _new(self, kind: str) -> str:
        self._count += 1
        made = f"{kind}-{self.port}-{self._count:04}-{hashlib.sha256(f'{kind}{self._count}'.encode()).hexdigest()[:24]}"
        self.given.append(made)
        return made

    async def resource(self, _request: web.Request) -> web.Response:
        return web.json_response({"resource": self.url, "authorization_servers": [self.issuer or self.base]})

    async def metadata(self, _request: web.Request) -> web.Response:
        told: dict[str, Any] = {
            "issuer": self.issuer or self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": self.token_at.format(base=self.base) or f"{self.base}/token",
            "revocation_endpoint": f"{self.base}/revoke",
            "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        }
        told |= {"registration_endpoint": f"{self.base}/register"} if self.registers else {}
        told |= {"code_challenge_methods_supported": ["S256"]} if self.pkce else {}
        return web.json_response(told)

    async def register(self, request: web.Request) -> web.Response:
        wish = await request.json()
        name = f"client-{len(self.clients) + 1}"
        self.clients[name] = wish
        return web.json_response({**wish, "client_id": name}, status=201)

    async def authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        client = self.clients.get(asked.get("client_id", ""))
        if client is None or asked.get("redirect_uri") not in client["redirect_uris"]:
            return web.Response(status=400, text="no such client")
        if asked.get("code_challenge_method") != "S256" or asked.get("resource") != self.url:
            return web.Response(status=400, text="no proof, or another resource")
        passed = {"state": asked["state"]}
        if self.comes_as is not None:
            passed["iss"] = self.comes_as or self.issuer or self.base
        if asked["user"] == "nobody":
            passed["error"] = "access_denied"
        else:
            passed["code"] = self._new("code")
            self.codes[passed["code"]] = (Grant(asked["user"], asked["client_id"]), asked)
        return web.Response(status=302, headers={"Location": f"{asked['redirect_uri']}?{urlencode(passed)}"})

    async def token(self, request: web.Request) -> web.Response:
        form = dict(parse_qsl(await request.text()))
        self.exchanged.append(form.get("grant_type", ""))
        await asyncio.sleep(self.slow)
        if self.answers is not None:
            return web.Response(status=self.answers[0], body=self.answers[1])
        grant = self._by_code(form) if form.get("grant_type") == "authorization_code" else self._by_refresh(form)
        if grant is None or form.get("resource") != self.url:
            return web.json_response({"error": "invalid_grant"}, status=400)
        grant.access, grant.refresh = self._new("access"), self._new("refresh")
        told: dict[str, Any] = {
            "access_token": grant.access,
            "refresh_token": grant.refresh,
            "token_type": "bearer",
            "expires_in": self.seconds,
        }
        if self.named:
            claims = base64.urlsafe_b64encode(json.dumps({"email": f"{grant.user}@notes"}).encode()).decode()
            told["id_token"] = f"e30.{claims.rstrip('=')}."
        return web.json_response(told)

    def _by_code(self, form: dict[str, str]) -> Grant | None:
        grant, asked = self.codes.pop(form.get("code", ""), (None, dict[str, str]()))
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if grant is None or proof.decode().rstrip("=") != asked["code_challenge"]:
            return None
        if (form.get("redirect_uri"), form.get("client_id")) != (asked["redirect_uri"], grant.client):
            return None
        self.grants.append(grant)
        return grant

    def _by_refresh(self, form: dict[str, str]) -> Grant | None:
        sent = form.get("refresh_token", "")
        for grant in self.grants:
            if sent in grant.spent:
                self.reused += 1
                self.grants.remove(grant)
                return None
            if sent == grant.refresh:
                grant.spent.add(sent)
                return grant
        return None

    async def revoke(self, request: web.Request) -> web.Response:
        token = dict(parse_qsl(await request.text())).get("token", "")
        for grant in [one for one in self.grants if token in {one.access, one.refresh}]:
            self.revoked.append(grant.user)
            self.grants.remove(grant)
        return web.Response()

    async def serve(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        grant = next((one for one in self.grants if token and one.access == token), None)
        if grant is None:
            told = self.challenges.format(port=self.port) or f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{told}"'})
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        session = request.headers.get("Mcp-Session-Id", "")
        if session and self.sessions.get(session) != grant.user:
            self.mixed.append((self.sessions.get(session, ""), grant.user))
            return web.Response(status=404)
        return self._answer(message, grant, token)

    def _answer(self, message: dict[str, Any], grant: Grant, token: str) -> web.Response:
        number, headers = message.get("id"), dict[str, str]()
        match message.get("method"):
            case "initialize":
                headers["Mcp-Session-Id"] = session = f"session-{len(self.sessions) + 1}"
                self.sessions[session] = grant.user
                result: dict[str, Any] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "notes", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object"}
                result = {"tools": [{"name": "whoami", "inputSchema": schema}]}
            case "tools/call":
                self.called.append(grant.user)
                told = f"notes of {grant.user}{f', token {token}' if self.echoes else ''}"
                result = {"content": [{"type": "text", "text": told}]}
            case _ if number is None:
                return web.Response(status=202)
            case _:
                error = {"code": -32601, "message": "Method not found"}
                return web.json_response({"jsonrpc": "2.0", "id": number, "error": error})
        return web.json_response({"jsonrpc": "2.0", "id": number, "result": result}, headers=headers)


@asynccontextmanager
async def oauth_server(**chosen: Any) -> AsyncGenerator[OAuthServer]:  # noqa: ANN401 - the fields of OAuthServer
    """Serve one on loopback."""
    server = OAuthServer(**chosen)
    app = web.Application()
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        app.router.add_get(path, server.resource)
    app.router.add_get("/.well-known/oauth-authorization-server", server.metadata)
    app.router.add_post("/register", server.register)
    app.router.add_get("/authorize", server.authorize)
    app.router.add_post("/token", server.token)
    app.router.add_post("/revoke", server.revoke)
    app.router.add_route("*", "/mcp", server.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = int(runner.addresses[0][1])
        yield server
    finally:
        await runner.cleanup()
