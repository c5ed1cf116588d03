"""The one door for everything Slack tells, over sockets or by requests: a Bolt app that keeps it before it answers.

Bolt finds the workspace, leaves out what the bot did itself and answers Slack's checks of the address. What is left is
kept in a middleware, and the chain ends there: Bolt acknowledges an event before it runs a listener, so nothing may be
left to one. What cannot be kept raises, and is then not acknowledged, so that Slack tells it again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from slack_bolt.async_app import AsyncApp, AsyncBoltContext, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse

from channels.base import ChannelError, GoneError
from channels.lanes import Lanes
from channels.slack import wire
from channels.slack.clients import Clients, Workspace
from channels.slack.logs import logger
from channels.slack.place import NAME

Take = Callable[[wire.Json, Workspace], Awaitable[None]]
"""Keep what a workspace tells. Raises an exception: it could not be kept."""

_THERE = "lockgate.workspace"
"""Under what name Bolt's context carries the workspace that was found."""

_NOBODY = "This app is not installed in this workspace."


class Door:
    """Hands what comes to `take`, in order within a channel. Who calls it has been proven genuine."""

    def __init__(self, clients: Clients, take: Take) -> None:
        self._lanes = Lanes()
        self._taken_off = clients.taken_off

        async def authorized(context: AsyncBoltContext, team_id: str | None) -> AuthorizeResult | None:
            try:
                there = await clients.workspace(team_id or "")
            except GoneError:
                return None
            context[_THERE] = there
            return AuthorizeResult(
                enterprise_id=None,
                team_id=there.team,
                bot_user_id=there.user,
                bot_id=there.bot,
                bot_token=there.client.token,
            )

        async def keep(req: AsyncBoltRequest) -> BoltResponse:
            await take(req.body, cast("Workspace", req.context[_THERE]))
            return BoltResponse(status=200, body="")

        app: Any = AsyncApp(
            name=NAME,
            logger=logger(),
            client=clients.made(""),
            authorize=authorized,  # pyright: ignore[reportArgumentType] - it may find nothing
            user_facing_authorize_error_message=_NOBODY,
            request_verification_enabled=False,
        )
        app.use(keep)
        self._dispatch = app.async_dispatch

    async def came(
        self, body: str | dict[str, Any], headers: Mapping[str, str | Sequence[str]], *, socket: bool
    ) -> BoltResponse:
        """Return the answer to a request or an envelope; only with status 200 it was kept.

        Raises ValueError: the body is none of Slack's.
        """
        try:
            request = AsyncBoltRequest(body=body, headers=dict(headers), mode="socket_mode" if socket else "http")
            lane = wire.lane(request.body)
        except (AttributeError, KeyError, TypeError, RecursionError):
            raise ValueError("the body is none of Slack's") from None
        if wire.takes_off(request.body):
            # Bolt asks for a workspace first, and this one may be gone.
            try:
                await self._taken_off(str(request.body.get("team_id")))
            except ChannelError:
                return BoltResponse(status=503, body="")
            return BoltResponse(status=200, body="")
        async with self._lanes.of(lane):
            return await self._dispatch(request)
