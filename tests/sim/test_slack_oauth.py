"""Installing through the played Slack, with bolt's own OAuth flow and with the bare client."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_sdk.errors import SlackApiError
from slack_sdk.oauth.installation_store import FileInstallationStore
from slack_sdk.oauth.state_store import FileOAuthStateStore
from slack_sdk.web.async_client import AsyncWebClient

from tests.sim.slack import Slack, slack

pytestmark = pytest.mark.anyio

WRONG = "x"


@pytest.fixture
async def played() -> AsyncIterator[Slack]:
    async with slack() as here:
        yield here


def client(played: Slack) -> Any:  # noqa: ANN401 - the client's own types are not known
    return AsyncWebClient(base_url=played.api, retry_handlers=[])


async def consented(played: Slack, **more: str) -> dict[str, list[str]]:
    """Return what the browser is sent back with."""
    query = {"client_id": played.state.app.client_id, "scope": "chat:write,users:read", "state": "s1", **more}
    async with aiohttp.ClientSession() as session:
        url = f"{played.http.base}/oauth/v2/authorize"
        async with session.get(url, params=query, allow_redirects=False) as response:
            assert response.status == 302
            return parse_qs(urlsplit(response.headers["Location"]).query)


async def exchanged(played: Slack, **args: str) -> Any:  # noqa: ANN401 - the client's own types are not known
    app = played.state.app
    return await client(played).oauth_v2_access(client_id=app.client_id, client_secret=app.client_secret, **args)


async def test_a_code_is_exchanged_once_for_a_token_of_that_workspace(played: Slack) -> None:
    elsewhere = played.workspace("elsewhere", enterprise="E1")
    played.http.consents = played.user("olga", elsewhere).id
    back = await consented(played, redirect_uri="http://127.0.0.1/back")
    assert back["state"] == ["s1"]
    told = await exchanged(played, code=back["code"][0], redirect_uri="http://127.0.0.1/back")
    assert (told["team"]["id"], told["enterprise"]["id"], told["scope"]) == (
        elsewhere.id,
        "E1",
        "chat:write,users:read",
    )
    bot: Any = AsyncWebClient(told["access_token"], base_url=played.api)
    assert (await bot.auth_test())["team_id"] == elsewhere.id
    with pytest.raises(SlackApiError, match="code_already_used"):
        await exchanged(played, code=back["code"][0], redirect_uri="http://127.0.0.1/back")


async def test_a_refused_consent_and_wrong_exchanges(played: Slack) -> None:
    played.http.consents = ""
    assert (await consented(played, redirect_uri="http://127.0.0.1/back"))["error"] == ["access_denied"]
    played.http.consents = played.user("olga").id
    code = (await consented(played, redirect_uri="http://127.0.0.1/back"))["code"][0]
    with pytest.raises(SlackApiError, match="bad_redirect_uri"):
        await exchanged(played, code=code, redirect_uri="http://127.0.0.1/other")
    with pytest.raises(SlackApiError, match="bad_client_secret"):
        await client(played).oauth_v2_access(client_id=played.state.app.client_id, client_secret=WRONG, code=code)
    with pytest.raises(SlackApiError, match="invalid_client_id"):
        await client(played).oauth_v2_access(client_id="x", client_secret=WRONG, code=code)
    played.skip(601)
    with pytest.raises(SlackApiError, match="invalid_code"):
        await exchanged(played, code=code, redirect_uri="http://127.0.0.1/back")


async def test_tokens_rotate_where_they_do(played: Slack) -> None:
    with pytest.raises(SlackApiError, match="token_rotation_not_enabled"):
        await exchanged(played, grant_type="refresh_token", refresh_token=WRONG)
    played.state.app.rotates = True
    old = played.install(played.team)
    told = await exchanged(played, grant_type="refresh_token", refresh_token=old.refresh)
    assert (told["expires_in"], old.revoked) == (43_200, True)
    with pytest.raises(SlackApiError, match="invalid_refresh_token"):
        await exchanged(played, grant_type="refresh_token", refresh_token=WRONG)
    played.skip(43_201)
    fresh: Any = AsyncWebClient(told["access_token"], base_url=played.api)
    with pytest.raises(SlackApiError, match="token_expired"):
        await fresh.auth_test()


async def test_uninstalling_takes_the_secret_and_ends_the_tokens(played: Slack) -> None:
    app = played.state.app
    bot: Any = AsyncWebClient(played.bot.value, base_url=played.api)
    with pytest.raises(SlackApiError, match="bad_client_secret"):
        await bot.apps_uninstall(client_id=app.client_id, client_secret=WRONG)
    await bot.apps_uninstall(client_id=app.client_id, client_secret=app.client_secret)
    with pytest.raises(SlackApiError, match="account_inactive"):
        await bot.auth_test()


async def test_the_flow_of_bolt_installs_from_the_link_to_the_token(played: Slack, tmp_path: Any) -> None:  # noqa: ANN401 - a path
    app = played.state.app
    store = FileInstallationStore(base_dir=str(tmp_path / "installed"))
    settings = AsyncOAuthSettings(
        client_id=app.client_id,
        client_secret=app.client_secret,
        scopes=["chat:write"],
        authorization_url=f"{played.http.base}/oauth/v2/authorize",
        installation_store=store,
        state_store=FileOAuthStateStore(expiration_seconds=60, base_dir=str(tmp_path / "states")),
    )
    bolt: Any = AsyncApp(client=client(played), signing_secret=app.signing_secret, oauth_settings=settings)
    runner = web.AppRunner(bolt.web_app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    app.redirect_urls = (f"http://127.0.0.1:{port}/slack/oauth_redirect",)
    played.http.consents = played.user("olga").id
    jar = aiohttp.CookieJar(unsafe=True)
    try:
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            async with session.get(f"http://127.0.0.1:{port}/slack/install") as page:
                text = await page.text()
                state = page.headers["Set-Cookie"].split(";")[0]
            link = text.split(f'href="{played.http.base}')[1].split('"')[0].replace("&amp;", "&")
            async with session.get(f"{played.http.base}{link}", allow_redirects=False) as consent:
                back = consent.headers["Location"]
            # bolt marks its cookie for https only
            async with session.get(back, headers={"Cookie": state}) as done:
                assert done.status == 200
    finally:
        await runner.cleanup()
    found = store.find_bot(enterprise_id=None, team_id=played.team.id)
    assert found is not None
    assert found.bot_token in played.state.tokens
