"""An issuer is asked only at hosts that the configuration names, and used only if it can be trusted with a person."""

import pytest
from pydantic import JsonValue

from bot.config.mcp import McpServerSettings
from bot.mcp.accounts.authorization import Authorization
from bot.mcp.accounts.errors import AuthorizationError
from bot.mcp.accounts.records import Link
from tests.bot.mcp.accounts.board import entry
from tests.sim.mcp_oauth import OAuthServer, oauth_server

pytestmark = pytest.mark.anyio


def asking(server: OAuthServer, **oauth: JsonValue) -> Authorization:
    block = entry(server, "personal", **oauth)["mcp_servers"]
    assert isinstance(block, dict)
    settings = McpServerSettings.model_validate(block["notes"])
    assert settings.oauth is not None
    return Authorization("notes", settings, settings.oauth, "")


async def registered(server: OAuthServer, **oauth: JsonValue) -> str:
    authorization = asking(server, **oauth)
    found = await authorization.find()
    return (await authorization.register(found, "http://127.0.0.1:9/accounts/back")).client_id


@pytest.mark.parametrize(
    "chosen,told",
    [
        ({"issuer": "https://login.example.com"}, "leads to `https://login.example.com` for its accounts"),
        ({"token_at": "http://127.0.0.1:9/token"}, "leads to `http://127.0.0.1:9` for its accounts"),
        ({"token_at": "http://169.254.169.254/token"}, "leads to `http://169.254.169.254` for its accounts"),
        ({"pkce": False}, "without PKCE"),
        ({"registers": False}, "registers no clients"),
    ],
    ids=["issuer elsewhere", "another port", "another machine", "no proof", "no registration"],
)
async def test_an_issuer_that_leads_elsewhere_or_lacks_a_part_is_refused(
    chosen: dict[str, JsonValue], told: str
) -> None:
    async with oauth_server(**chosen) as server:
        with pytest.raises(AuthorizationError, match=told):
            await registered(server)
        assert (server.clients, server.exchanged) == ({}, [])


@pytest.mark.parametrize(
    "chosen",
    [
        {"challenges": "http://[::1"},
        {"challenges": "http://127.0.0.1:{port}/a\tb"},
        {"token_at": "{base}/" + "a" * 70_000},
    ],
    ids=["no address", "no address for the client", "endless"],
)
async def test_a_malformed_address_of_a_server_is_refused_as_any_other(chosen: dict[str, JsonValue]) -> None:
    async with oauth_server(**chosen) as server:
        with pytest.raises(AuthorizationError, match="which the configuration does not name"):
            await registered(server)


async def test_a_malformed_answer_about_a_token_is_an_error_like_any_other() -> None:
    deep, endless = b"[" * 200_000, b'{"access_token": "t", "token_type": "bearer", "expires_in": ' + b"9" * 4200 + b"}"
    async with oauth_server() as server:
        authorization = asking(server)
        found = await authorization.find()
        made = await authorization.register(found, "http://127.0.0.1:9/accounts/back")
        link = Link("notes", server.url, "ann", "room:ann", made, found.resource, "", "proof")
        server.answers = (400, deep)
        with pytest.raises(AuthorizationError, match="did not give a token"):
            await authorization.exchange(link, "code")
        server.answers = (200, endless)
        assert (await authorization.exchange(link, "code")).seconds < 10**10


async def test_an_issuer_that_the_configuration_names_is_used() -> None:
    async with oauth_server() as issuer, oauth_server(issuer=issuer.base) as server:
        with pytest.raises(AuthorizationError, match="which the configuration does not name"):
            await registered(server)
        assert await registered(server, issuer=issuer.base) == "client-1"
        assert (len(issuer.clients), len(server.clients)) == (1, 0)
        # It describes itself as another one, or the server names another one.
        issuer.issuer = "https://other.example"
        with pytest.raises(AuthorizationError, match="describes itself as another one"):
            await registered(server, issuer=issuer.base)
        server.issuer = "https://other.example"
        with pytest.raises(AuthorizationError, match="does not name the issuer that is configured"):
            await registered(server, issuer=issuer.base)


async def test_a_client_of_the_configuration_is_not_registered() -> None:
    async with oauth_server(registers=False) as server:
        assert await registered(server, client_id="lockgate") == "lockgate"


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "http://notes.example.com/mcp"},
        {"url": None, "command": "notes-mcp"},
        {"headers": {"authorization": "Bearer x"}},
        {"oauth": {"accounts": "personal", "issuer": "http://login.example.com"}},
        {"oauth": {"accounts": "personal", "client_secret": "NOTES_SECRET"}},
        {"oauth": {"accounts": "personal", "scopes": ["two words"]}},
        {"oauth": {"accounts": "own"}},
    ],
    ids=["open", "process", "header", "open issuer", "secret alone", "scope", "unknown"],
)
def test_settings_that_would_give_a_token_away_or_mean_nothing_are_refused(fields: dict[str, JsonValue]) -> None:
    written = {"url": "https://notes.example.com/mcp", "tools": {}, "oauth": {"accounts": "personal"}}
    assert McpServerSettings.model_validate(written).oauth is not None
    with pytest.raises(ValueError, match="validation error"):
        McpServerSettings.model_validate({**written, **fields})
