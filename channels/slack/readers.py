"""The readers of a conversation, as Slack tells it: members with their kinds, and accounts that may come in unasked.

Kept for a short life, and asked anew when an account comes or goes or a channel is shared. A fact that cannot be
fetched makes it incomplete, and so does a pending invitation to another organisation.
"""

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import anyio

from channels.port import Audience, ChannelError, Reader, ReaderKind
from channels.slack import events
from channels.slack.errors import FAILURES

if TYPE_CHECKING:
    from channels.messages import Address
    from channels.slack.clients import Clients, Workspace

_LOGGER: Final = logging.getLogger(__name__)
_UNKNOWN: Final = Audience(frozenset(), complete=False, shared=True)
_PAGE: Final = 200
_MOST: Final = 1_000
"""The most members that are looked up; in a larger channel the readers are unknown."""
_AT_ONCE: Final = 8
_PEOPLE: Final = 10.0
"""The factor by which a person's kind lives longer: it changes seldom, and Slack reports changes."""

_Key = tuple[str, str]


class SlackReaders:
    """Asks by `clients`, whose own accounts are not readers. `life` is how long, in seconds, an answer counts."""

    def __init__(self, clients: "Clients", life: float) -> None:
        self._clients = clients
        self._life = life
        self._places: dict[_Key, tuple[float, Audience]] = {}
        self._people: dict[_Key, tuple[float, Reader | None]] = {}
        self._moves: dict[_Key, int] = defaultdict(int)
        self._asking = asyncio.Semaphore(_AT_ONCE)

    async def audience(self, address: "Address") -> Audience:
        """Return the readers of an address; an error gives an unknown audience."""
        try:
            there = await self._clients.workspace(address.workspace)
            person = address.recipient or address.chat
            if person[:1] in {"U", "W"}:
                return await self._alone(there, person)
            return await self._place(there, address.chat)
        except (ChannelError, KeyError, TypeError, *FAILURES) as error:
            cause = str(error) if isinstance(error, ChannelError) else type(error).__name__
            facts = {"subject": "channel slack", "cause": cause, "destination": str(address)}
            _LOGGER.warning("it is not known who reads in a chat", extra=facts)
            return _UNKNOWN

    def forget(self, team: str, touched: events.ChangedReaders) -> None:
        """Fetch the changed facts of a workspace anew, or all facts if a person changed."""
        for channel in touched.channels:
            self._moves[team, channel] += 1
            self._places.pop((team, channel), None)
        for person in touched.people:
            self._moves[team, person] += 1
            self._people.pop((team, person), None)
        if touched.people:
            self._places.clear()

    async def _place(self, there: "Workspace", channel: str) -> Audience:
        key = (there.team, channel)
        until, known = self._places.get(key, (0.0, _UNKNOWN))
        if until > anyio.current_time():
            return known
        moves = self._moves[key]
        answer = await there.client.conversations_info(channel=channel)
        told: Any = answer["channel"]
        known = await (self._alone(there, told["user"]) if told.get("is_im") else self._together(there, channel, told))
        # An account that came or went during the request may be missing in it; an incomplete answer may soon be
        # complete.
        if moves == self._moves[key] and known.complete:
            self._places[key] = (anyio.current_time() + self._life, known)
        return known

    async def _alone(self, there: "Workspace", person: str) -> Audience:
        reader = await self._reader(there, person)
        return Audience(frozenset({reader} if reader else ()), complete=reader is not None)

    async def _together(self, there: "Workspace", channel: str, told: Any) -> Audience:  # noqa: ANN401 - Slack's JSON
        members, whole = await self._members(there, channel)
        readers, everybody = set[Reader](), True

        async def ask(member: str) -> None:
            nonlocal everybody
            try:
                async with self._asking:
                    reader = await self._reader(there, member)
            except (KeyError, TypeError, *FAILURES):
                everybody = False
            else:
                readers.update({reader} if reader else ())

        async with asyncio.TaskGroup() as tasks:
            for member in members:
                if member != there.user:
                    tasks.create_task(ask(member))
        elsewhere = {str(team) for team in told.get("shared_team_ids") or ()} - {there.team}
        if not told["is_private"] and not told.get("is_mpim"):
            # Any account of the workspace may come in and read.
            readers.add(Reader(events.account(there.team, "*"), ReaderKind.MEMBER))
        # The organisations that share it admit people at their own discretion.
        readers |= {Reader(events.account(team, "*"), ReaderKind.STRANGER) for team in elsewhere}
        shared = bool(told.get("is_ext_shared") or told.get("is_shared") or told.get("is_org_shared"))
        pending = bool(told.get("is_pending_ext_shared") or told.get("pending_shared"))
        unknown = pending or (shared and not elsewhere) or not everybody
        return Audience(frozenset(readers), complete=whole and not unknown, shared=True)

    async def _members(self, there: "Workspace", channel: str) -> tuple[list[str], bool]:
        """Return the accounts in a channel, and whether these are all."""
        found, cursor = list[str](), ""
        while len(found) < _MOST:
            answer = await there.client.conversations_members(channel=channel, limit=_PAGE, cursor=cursor or None)
            members: Any = answer["members"]
            more: Any = answer.get("response_metadata") or {}
            found, cursor = [*found, *members], str(more.get("next_cursor") or "")
            if not cursor:
                return found, True
        return found, False

    async def _reader(self, there: "Workspace", person: str) -> Reader | None:
        """Return an account as a reader, None if it is closed."""
        key = (there.team, person)
        until, known = self._people.get(key, (0.0, None))
        if until > anyio.current_time():
            return known
        moves = self._moves[key]
        answer = await there.client.users_info(user=person)
        user: Any = answer["user"]
        known = (
            None if user.get("deleted") else Reader(events.account(user["team_id"], person), _kind(user, there.team))
        )
        if moves == self._moves[key]:
            self._people[key] = (anyio.current_time() + _PEOPLE * self._life, known)
        return known


def _kind(user: Any, team: str) -> ReaderKind:  # noqa: ANN401 - Slack's JSON
    if user["is_bot"]:
        return ReaderKind.BOT
    if user.get("is_stranger") or user["team_id"] != team:
        return ReaderKind.STRANGER
    return ReaderKind.GUEST if user["is_restricted"] or user["is_ultra_restricted"] else ReaderKind.MEMBER
