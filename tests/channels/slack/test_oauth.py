"""A workspace installs the bot by a link that counts once, and is forgotten when it takes the bot off."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

import aiohttp
import anyio
import pytest

from bot.access.labelling import CONFIGURED
from bot.core.clock import SystemClock
from bot.core.ids import Ids
from bot.operations.diagnostics import channel
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from channels.messages import Event, Inbound, Outbound
from channels.port import ChannelError, ChannelVault, GoneError, VaultError
from channels.slack import oauth
from channels.slack.adapter import Slack
from channels.slack.clients import Clients, Installation, Installations
from channels.slack.oauth import OAuth, SlackInstaller
from channels.slack.setup import SCOPES
from tests.channels.contract import Leases
from tests.channels.slack.kit import FAST, at
from tests.sim.ports import free_port
from tests.sim.slack import Slack as Played
from tests.sim.slack import slack
from tests.sim.slack_state import Team
from tests.store.world import KEY, command

pytestmark = pytest.mark.anyio

STATE = "a-state-that-nobody-guesses"


@dataclass
class Stage:
    """A played Slack, an installer at it, and its store."""

    played: Played
    store: RedisStore
    installer: SlackInstaller
    installations: Installations
    oauth: OAuth

    async def link(self, state: str = "") -> str:
        return await self.installer.link(state or Ids().op())

    async def opens(self, link: str, user: str) -> tuple[int, str]:
        """Let somebody open a link and agree, or not if there is nobody; return what they are told."""
        self.played.http.consents = user
        async with aiohttp.ClientSession() as session, session.get(link) as page:
            return page.status, (await page.text()).strip()

    async def installs(self, team: Team) -> tuple[int, str]:
        return await self.opens(await self.link(), self.played.user(f"admin-of-{team.id}", team).id)


class Broken:
    """A vault that takes nothing; whether it still gives away what another has is said by `had`."""

    def __init__(self, had: ChannelVault | None = None) -> None:
        self._had = had

    async def get(self, name: str) -> bytes | None:
        raise VaultError(name)

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:
        raise VaultError(f"{name} {len(value)} {seconds}")

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:
        if self._had is None:
            raise VaultError(name)
        return await self._had.swap(name, old, new, seconds)

    async def delete(self, name: str) -> None:
        raise VaultError(name)

    async def names(self, prefix: str) -> tuple[str, ...]:
        raise VaultError(prefix)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    port = free_port()
    async with slack() as played:
        store = await open_store(audit_key=KEY, data=tmp_path / "data")
        app, vault = played.state.app, store.vault([KEY])
        oauth = OAuth(app.client_id, app.client_secret, f"http://127.0.0.1:{port}/slack/back", "127.0.0.1", port)
        installer = SlackInstaller(oauth, vault, played.api)
        app.redirect_urls = (oauth.url,)
        async with installer.listening():
            yield Stage(played, store, installer, Installations(vault), oauth)
        await store.close()


def changed(link: str, **values: str) -> str:
    """Return a link with other parameters."""
    parts = urlsplit(link)
    return urlunsplit(parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), **values})))


async def test_several_workspaces_install_and_each_has_its_own_token(stage: Stage) -> None:
    one, two = stage.played.workspace("one"), stage.played.workspace("two", enterprise="E1")
    for team in (one, two):
        assert await stage.installs(team) == (200, oauth.INSTALLED)
    assert await stage.installations.teams() == tuple(sorted((one.id, two.id)))
    found = [await stage.installations.of(team.id) for team in (one, two)]
    assert [(each.team, each.enterprise, each.bot) for each in found if each is not None] == [
        (one.id, "", f"B{one.id}"),
        (two.id, "E1", f"B{two.id}"),
    ]
    tokens = [each.token for each in found if each is not None]
    assert [stage.played.state.tokens[token].team for token in tokens] == [one.id, two.id]
    assert await stage.installations.of("T0NOBODY") is None


async def test_no_token_stands_in_the_store_or_in_a_text(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Not even in the logs of somebody who lets all of them be written."""
    team = stage.played.workspace("one")
    link = await stage.link(STATE)
    for name in ("slack", "slack_sdk"):
        caplog.set_level(logging.DEBUG, name)
    await stage.installs(team)
    kept = await stage.installations.of(team.id)
    assert kept is not None
    assert kept.token not in repr(kept)
    assert caplog.records
    assert kept.token not in caplog.text
    assert stage.played.state.app.client_secret not in repr(stage.oauth)
    for key in await command(stage.store, "KEYS", "*"):
        stored: bytes = await command(stage.store, "DUMP", key)
        assert kept.token.encode() not in stored
        assert STATE.encode() not in stored
    assert STATE in link


async def test_the_link_asks_for_what_the_bot_needs_and_nothing_else(stage: Stage) -> None:
    asked = parse_qs(urlsplit(await stage.link(STATE)).query)
    assert asked == {
        "client_id": [stage.played.state.app.client_id],
        "scope": [",".join(SCOPES)],
        "redirect_uri": [stage.oauth.url],
        "state": [STATE],
    }


async def test_a_link_counts_once_for_whoever_comes_first(stage: Stage) -> None:
    link, told = await stage.link(), list[tuple[int, str]]()
    stage.played.http.consents = stage.played.user("olga", stage.played.workspace("one")).id

    async def opens() -> None:
        async with aiohttp.ClientSession() as session, session.get(link) as page:
            told.append((page.status, (await page.text()).strip()))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(opens)
    assert sorted(told) == [(200, oauth.INSTALLED)] + [(403, oauth.NOT_OURS)] * 3
    assert len([call for call in stage.played.calls if call.method == "oauth.v2.access"]) == 1


async def test_a_link_that_is_none_of_ours_is_told_nothing_and_asks_slack_nothing(stage: Stage) -> None:
    """Absent, made up, used and too old are one answer."""
    old = await stage.link(STATE)
    await command(stage.store, "HPEXPIRE", "lg:{vault}:values", 1, "FIELDS", 1, *await fields(stage))
    await anyio.sleep(0.01)
    back = stage.oauth.url
    for address in (old, back, f"{back}?state=made-up&code=c", f"{back}?state=&code=c", f"{back}?code=c&error=x"):
        assert await stage.opens(address, stage.played.user("olga").id) == (403, oauth.NOT_OURS)
    assert await stage.installations.teams() == ()
    assert not any(call.method == "oauth.v2.access" for call in stage.played.calls)


async def fields(stage: Stage) -> list[bytes]:
    return await command(stage.store, "HKEYS", "lg:{vault}:values")


async def test_whoever_does_not_agree_installs_nothing_and_uses_the_link_up(stage: Stage) -> None:
    link = await stage.link()
    assert await stage.opens(link, "") == (200, oauth.NOT_AGREED)
    assert await stage.opens(link, stage.played.user("olga").id) == (403, oauth.NOT_OURS)
    assert await stage.installations.teams() == ()


@pytest.mark.parametrize("fault", [{"error": "invalid_code"}, {"status": 500}, {"cut": "after"}])
async def test_what_slack_does_not_confirm_is_not_installed(stage: Stage, fault: dict[str, str | int]) -> None:
    stage.played.fails("oauth.v2.access", **fault)
    assert await stage.installs(stage.played.workspace("one")) == (502, oauth.NOT_EXCHANGED)
    assert await stage.installations.teams() == ()


@pytest.mark.parametrize(
    "change, sentence",
    [({"org_wide": True}, oauth.WHOLE_ORGANISATION), ({"rotates": True}, oauth.ROTATES)],
)
async def test_what_cannot_be_used_is_refused_and_given_back(
    stage: Stage, change: dict[str, bool], sentence: str
) -> None:
    """An installation in a whole organisation, and tokens that rotate."""
    team = stage.played.workspace("one", enterprise="E1")
    for name, value in change.items():
        setattr(stage.played.state.app, name, value)
    assert await stage.installs(team) == (200, sentence)
    assert await stage.installations.teams() == ()
    assert all(token.revoked for token in stage.played.state.tokens.values() if token.team == team.id)


async def test_fewer_rights_than_needed_are_refused_and_given_back(stage: Stage) -> None:
    team = stage.played.workspace("one")
    link = changed(await stage.link(), scope=",".join(scope for scope in SCOPES if scope != "users:read"))
    told = await stage.opens(link, stage.played.user("olga", team).id)
    assert told == (200, oauth.TOO_LITTLE.format("`users:read`"))
    assert all(token.revoked for token in stage.played.state.tokens.values() if token.team == team.id)


async def test_what_is_told_is_for_nobody_to_keep(stage: Stage) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{stage.oauth.url}?state=<script>") as page:
        assert page.content_type == "text/plain"
        assert "<" not in await page.text()
        assert (page.headers["Cache-Control"], page.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
        assert page.headers["X-Content-Type-Options"] == "nosniff"


def clients(stage: Stage, token: str = "") -> Clients:
    return Clients(token, installations=stage.installations, server=stage.played.api, seconds=20)


@pytest.fixture
async def there(stage: Stage) -> AsyncIterator[Clients]:
    """The clients of workspaces that installed the bot, without a token in the environment."""
    made = clients(stage)
    yield made
    await made.close()


async def test_what_is_said_in_a_workspace_is_said_with_its_token(stage: Stage, there: Clients) -> None:
    one, two = stage.played.workspace("one"), stage.played.workspace("two")
    with pytest.raises(GoneError):
        await there.of(one.id)
    for team in (one, two):
        await stage.installs(team)
    for team in (one, two):
        kept, found = await stage.installations.of(team.id), await there.workspace(team.id)
        assert kept is not None
        assert (found.client.token, found.team, found.user) == (kept.token, team.id, kept.bot)
    with pytest.raises(GoneError):
        await there.of(stage.played.team.id)


async def test_the_operators_own_workspace_needs_no_installation(stage: Stage) -> None:
    one, own = stage.played.workspace("one"), clients(stage, stage.played.bot.value)
    await stage.installs(one)
    assert (await own.of(stage.played.team.id)).token == stage.played.bot.value
    assert (await own.workspace(one.id)).team == one.id
    await stage.played.uninstalls()
    await own.taken_off(stage.played.team.id)
    with pytest.raises(GoneError):
        await own.of(stage.played.team.id)
    assert (await own.workspace(one.id)).team == one.id
    await own.close()


async def test_an_operators_token_that_counts_no_more_keeps_no_other_workspace(stage: Stage) -> None:
    one, own = stage.played.workspace("one"), clients(stage, "xoxb-of-yesterday")
    await stage.installs(one)
    assert (await own.workspace(one.id)).team == one.id
    with pytest.raises(ChannelError):
        await own.workspace(stage.played.team.id)
    await own.close()


async def test_a_workspace_that_takes_the_bot_off_is_forgotten(stage: Stage, there: Clients) -> None:
    one, two = stage.played.workspace("one"), stage.played.workspace("two")
    for team in (one, two):
        await stage.installs(team)
        await there.of(team.id)
    await stage.played.uninstalls(one)
    for _ in range(2):
        await there.taken_off(one.id)
    assert await stage.installations.teams() == (two.id,)
    with pytest.raises(GoneError):
        await there.of(one.id)
    await there.taken_off("T0NOBODY")


async def test_a_workspace_that_installed_anew_meanwhile_is_not(stage: Stage, there: Clients) -> None:
    """What is told late of an installation that is over says nothing of the one after it."""
    team = stage.played.workspace("one")
    await stage.installs(team)
    before, first = await stage.installations.of(team.id), await there.of(team.id)
    assert before is not None
    await stage.played.uninstalls(team)
    await stage.installs(team)
    await there.taken_off(team.id)
    await stage.installations.forget(before)
    assert await stage.installations.teams() == (team.id,)
    assert (await there.of(team.id)).token != first.token


async def test_while_slack_says_nothing_certain_nothing_is_forgotten(stage: Stage, there: Clients) -> None:
    team = stage.played.workspace("one")
    await stage.installs(team)
    await stage.played.uninstalls(team)
    stage.played.fails("auth.test", status=500)
    with pytest.raises(ChannelError):
        await there.taken_off(team.id)
    assert await stage.installations.teams() == (team.id,)


async def test_a_token_in_the_wrong_place_is_not_spoken_with(stage: Stage, there: Clients) -> None:
    one, two = stage.played.workspace("one"), stage.played.workspace("two")
    await stage.installs(one)
    kept = await stage.installations.of(one.id)
    assert kept is not None
    await stage.installations.keep(replace(kept, team=two.id))
    with pytest.raises(ChannelError):
        await there.of(two.id)


def elsewhere(stage: Stage) -> Slack:
    """Return an adapter for workspaces that installed the bot, as another process has it."""
    oauth = replace(stage.oauth, port=free_port())
    return Slack(
        "",
        stage.played.app_token,
        lease=Leases(),
        vault=stage.store.vault([KEY]),
        now_ms=SystemClock().wall_ms,
        installer=SlackInstaller(oauth, stage.store.vault([KEY]), stage.played.api),
        server=stage.played.api,
        timing=FAST,
    )


async def test_what_is_wrong_in_workspaces_is_told(stage: Stage) -> None:
    """Nobody installed it, its token counts no more, or what is kept cannot be read."""
    adapter, team = elsewhere(stage), stage.played.workspace("one")
    (nobody,) = await adapter.troubles()
    assert (nobody.problem, "lockgate slack install" in nobody.next_step) == (
        "no workspace has installed the bot",
        True,
    )
    await stage.installs(team)
    assert await adapter.troubles() == ()
    await stage.played.uninstalls(team)
    (ended,) = await adapter.troubles()
    assert ended.problem.startswith(f"in workspace {team.id} Slack does not accept")
    assert [one.label for one in await channel(adapter, CONFIGURED)] == [CONFIGURED]
    await stage.store.vault([bytes(32)]).put(f"slack/installed/{team.id}", b"{}")
    (unreadable,) = await adapter.troubles()
    assert "cannot be read" in unreadable.problem
    await adapter.close()


async def test_what_slack_tells_of_a_workspace_that_takes_the_bot_off_ends_there(stage: Stage) -> None:
    """People of a workspace write to the bot and are heard; then it takes the bot off, and nothing can be said."""
    team = stage.played.workspace("one")
    await stage.installs(team)
    got: list[Event] = []

    async def receive(event: Event) -> None:
        got.append(event)

    adapter = elsewhere(stage)
    olga = stage.played.user("olga", team)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.serve, receive)
        with anyio.fail_after(60):
            await stage.played.sockets.connected()
        await olga.says(olga.dm(), "hello")
        (heard,) = got
        assert isinstance(heard, Inbound)
        assert (heard.account, heard.address) == (f"slack:{team.id}:{olga.id}", at(olga.dm()))
        assert await adapter.send(Outbound(heard.address, "good day", "k1"))
        stage.played.fails("auth.test", status=500)
        await stage.played.uninstalls(team)
        assert await stage.installations.teams() == ()
        with pytest.raises(GoneError):
            await adapter.send(Outbound(heard.address, "and again", "k2"))
        tasks.cancel_scope.cancel()
    await adapter.close()


async def test_a_token_that_cannot_be_kept_is_given_back(stage: Stage) -> None:
    """The store is away between the link and its use."""
    team = stage.played.workspace("one")
    full = SlackInstaller(stage.oauth, Broken(stage.store.vault([KEY])), stage.played.api)
    stage.played.http.consents = stage.played.user("olga", team).id
    async with aiohttp.ClientSession() as session, session.get(await stage.link(), allow_redirects=False) as page:
        query = dict(parse_qsl(urlsplit(page.headers["Location"]).query))
    assert (await full.returned(query)).text == oauth.NOT_KEPT
    assert all(token.revoked for token in stage.played.state.tokens.values() if token.team == team.id)


async def test_without_its_store_nothing_is_installed(stage: Stage) -> None:
    away = SlackInstaller(stage.oauth, Broken(), stage.played.api)
    page = await away.returned({"state": STATE, "code": "c"})
    assert (page.status, page.text) == (503, oauth.NOT_KEPT)
    with pytest.raises(VaultError):
        await away.link(STATE)


def test_an_installation_is_kept_without_being_shown() -> None:
    assert "xoxb" not in repr(Installation("T1", "xoxb-1", "U1"))
