"""A Slack on loopback for the unmodified `slack_sdk` and `slack_bolt`: Web API, Events, Socket Mode, OAuth, faults.

`async with slack() as played` serves one app in one workspace, with the bot installed. People are `played.user(…)`,
places `played.channel(…)`; what they do returns when the app answered. By hand, `uv run poe sim-slack` (slack_hand.py).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.sim.slack_events import Reach
from tests.sim.slack_http import Called, Fault, Http
from tests.sim.slack_people import Person
from tests.sim.slack_socket import Sockets
from tests.sim.slack_state import PREFIX, Channel, Event, Json, Kind, Member, State, Team, Token

APP_TOKEN = "xapp-1-A0LOCKGATE-1"  # noqa: S105 - it guards nothing


@dataclass
class Slack:
    """The played Slack."""

    state: State
    reach: Reach
    http: Http
    sockets: Sockets
    team: Team
    bot: Token
    people: dict[str, Person] = field(default_factory=dict[str, Person])

    @property
    def api(self) -> str:
        """The `base_url` of a client."""
        return f"{self.http.base}/api/"

    @property
    def app_token(self) -> str:
        """The token that opens sockets."""
        return APP_TOKEN

    @property
    def calls(self) -> list[Called]:
        """What the app asked, in order."""
        return self.http.calls

    def user(self, name: str, team: Team | None = None, **facts: Any) -> Person:  # noqa: ANN401 - fields of an account
        """Return the person of a name, made with these facts if there was none."""
        if name not in self.people:
            member = Member(self.state.id("U"), name, (team or self.team).id, **facts)
            self.state.members[member.id] = member
            self.people[name] = Person(self, member)
        return self.people[name]

    def channel(
        self, name: str, *people: Person, kind: Kind = "public", bot: bool = True, team: Team | None = None
    ) -> Channel:
        """Return the channel of a name, made with these people and the bot if there was none."""
        for channel in self.state.channels.values():
            if channel.name == name:
                return channel
        home = team or self.team
        made = Channel(self.state.id(PREFIX[kind]), name, kind, home.id, [person.id for person in people])
        self.state.channels[made.id] = made
        bots = [token.user for token in self.state.bot_tokens() if token.team == home.id]
        made.members += bots if bot else []
        return made

    def workspace(self, name: str, enterprise: str = "") -> Team:
        """Add a workspace, without the app."""
        team = Team(self.state.id("T"), name, enterprise)
        self.state.teams[team.id] = team
        return team

    def install(self, team: Team, scopes: Iterable[str] | None = None) -> Token:
        """Install the app there."""
        return self.state.install(team, scopes)

    async def share(self, channel: Channel, team: Team, *, accepted: bool = True) -> None:
        """Share a channel with another organisation, or only invite it."""
        (channel.shared_with if accepted else channel.pending).add(team.id)
        await self._shared("channel_shared" if accepted else "shared_channel_invite_requested", channel, team)

    async def unshare(self, channel: Channel, team: Team) -> None:
        """End the sharing; whoever came by it is gone."""
        channel.shared_with.discard(team.id)
        channel.members = [each for each in channel.members if self.state.members[each].team != team.id]
        await self._shared("channel_unshared", channel, team)

    async def uninstalls(self, team: Team | None = None) -> None:
        """Take the app off a workspace, as its owner does."""
        home = team or self.team
        for token in self.state.tokens.values():
            token.revoked = token.revoked or (token.team == home.id and not token.app_level)
        tokens: Json = {"oauth": [], "bot": [f"B{home.id}"]}
        self.state.tell(Event({"type": "tokens_revoked", "tokens": tokens}, home.id))
        self.state.tell(Event({"type": "app_uninstalled"}, home.id))
        await self.settled()

    def fails(self, method: str = "", **fault: Any) -> Fault:  # noqa: ANN401 - fields of a fault
        """Let the next calls of a method meet a fault, see `Fault`."""
        made = Fault(method, **fault)
        self.http.faults.append(made)
        return made

    def skip(self, seconds: float) -> None:
        """Move the clock on."""
        self.state.skew += seconds

    async def settled(self) -> None:
        """Wait until everything that happened was delivered or given up."""
        await self.reach.wait()

    async def until(self, holds: Callable[[], object], seconds: float = 60) -> None:
        """Wait until something holds, looked at after every call of the app's.

        Raises TimeoutError: it did not in time.
        """
        async with asyncio.timeout(seconds), self.http.changed:
            await self.http.changed.wait_for(lambda: bool(holds()))

    async def _shared(self, kind: str, channel: Channel, team: Team) -> None:
        body: Json = {"type": kind, "connected_team_id": team.id, "channel": channel.id, "event_ts": self.state.ts()}
        self.state.tell(Event(body | {"is_ext_shared": bool(channel.shared_with)}, channel.team, channel))
        await self.settled()


@asynccontextmanager
async def slack(*, port: int = 0, events: str = "", scopes: Iterable[str] | None = None) -> AsyncGenerator[Slack]:
    """Play a Slack on a loopback port; `events` is the app's address, otherwise events go over sockets."""
    state = State()
    team = Team("T0HOME0001x", "home")
    state.teams[team.id] = team
    bot = state.install(team, scopes)
    state.tokens[APP_TOKEN] = Token(APP_TOKEN, team.id, "", ("connections:write",), app_level=True)
    sockets = Sockets(state)
    http = Http(state, sockets)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        reach = Reach(state, tasks, sockets, url=events)
        state.tell = reach.tell
        runner = web.AppRunner(http.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        http.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield Slack(state, reach, http, sockets, team, bot)
        except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
            failure = error
        finally:
            reach.stop()
            await sockets.close()
            await runner.cleanup()
            # The connections that this closed end in the loop's next rounds.
            await asyncio.sleep(0.01)
    if failure is not None:
        raise failure
