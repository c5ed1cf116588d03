"""`conversations.*`, `users.*`, `bots.*` and `team.*` of a played Slack."""

from collections.abc import Sequence
from typing import Any

from tests.sim.slack_chat import root
from tests.sim.slack_state import Channel, Json, Member, SlackError, State, Token


def seen(state: State, token: Token, args: Json) -> Channel:
    """Return a channel that a bot can see: any public one of its workspace, and those it is in.

    Raises SlackError: there is none.
    """
    channel = state.channel(str(args.get("channel", "")))
    near = token.team == channel.team or token.team in channel.shared_with
    if token.user not in channel.members and (channel.kind != "public" or not near):
        raise SlackError("channel_not_found")
    return channel


def _page(items: Sequence[Any], args: Json, name: str) -> Json:
    """Return one page of a list, and where the next begins."""
    limit = int(args.get("limit") or 100)
    if not 1 <= limit <= 1_000:
        raise SlackError("invalid_limit")
    cursor = str(args.get("cursor") or "0")
    if not cursor.removeprefix("next:").isdecimal():
        raise SlackError("invalid_cursor")
    start = int(cursor.removeprefix("next:"))
    after = f"next:{start + limit}" if start + limit < len(items) else ""
    page = list(items[start : start + limit])
    return {name: page, "has_more": bool(after), "response_metadata": {"next_cursor": after}}


def info(state: State, token: Token, args: Json) -> Json:
    """`conversations.info`."""
    channel = seen(state, token, args)
    counted = {"num_members": len(channel.members)} if args.get("include_num_members") else {}
    return {"channel": channel.told() | {"is_member": token.user in channel.members} | counted}


def members(state: State, token: Token, args: Json) -> Json:
    """`conversations.members`, page by page."""
    return _page(seen(state, token, args).members, args, "members")


def opened(state: State, token: Token, args: Json) -> Json:
    """`conversations.open`: a private conversation with one or more people."""
    users = [user for user in str(args.get("users") or "").split(",") if user]
    if args.get("channel"):
        return {"channel": {"id": seen(state, token, args).id}}
    if not users:
        raise SlackError("users_list_not_supplied")
    for user in users:
        if _member(state, user).deleted:
            raise SlackError("user_disabled")
    return {"channel": {"id": state.im(token.team, *users, token.user).id}}


def history(state: State, token: Token, args: Json) -> Json:
    """`conversations.history`: newest first, without replies."""
    channel = seen(state, token, args)
    if token.user not in channel.members:
        raise SlackError("not_in_channel")
    found = [each for each in channel.messages if not each.deleted and not each.shown_to]
    roots = [each.body for each in reversed(found) if each.thread in {"", each.ts} and _between(each.ts, args)]
    return _page([_with_metadata(body, args) for body in roots], args, "messages")


def replies(state: State, token: Token, args: Json) -> Json:
    """`conversations.replies`: a message and what hangs on it, oldest first."""
    channel = seen(state, token, args)
    ts = root(state, channel, str(args.get("ts", "")))
    found = [
        each for each in channel.messages if not each.deleted and not each.shown_to and ts in {each.ts, each.thread}
    ]
    return _page([_with_metadata(each.body, args) for each in found if _between(each.ts, args)], args, "messages")


def _between(ts: str, args: Json) -> bool:
    oldest, latest = float(args.get("oldest") or 0), float(args.get("latest") or "inf")
    edges = str(args.get("inclusive", "")).lower() in {"1", "true"}
    return oldest <= float(ts) <= latest if edges else oldest < float(ts) < latest


def _with_metadata(body: Json, args: Json) -> Json:
    if str(args.get("include_all_metadata", "")).lower() in {"1", "true"}:
        return body
    return {name: value for name, value in body.items() if name != "metadata"}


def _member(state: State, user: str) -> Member:
    if (member := state.members.get(user)) is None:
        raise SlackError("user_not_found")
    return member


def user_info(state: State, token: Token, args: Json) -> Json:
    """`users.info`: somebody of another organisation is a stranger."""
    member = _member(state, str(args.get("user", "")))
    mine, theirs = state.teams[token.team], state.teams[member.team]
    foreign = theirs.id != mine.id and (not mine.enterprise or theirs.enterprise != mine.enterprise)
    told: Json = {
        "id": member.id,
        "team_id": member.team,
        "name": member.name,
        "real_name": member.name.title(),
        "deleted": member.deleted,
        "is_bot": member.is_bot,
        "is_app_user": False,
        "is_admin": member.is_admin,
        "is_restricted": member.is_restricted,
        "is_ultra_restricted": member.is_ultra_restricted,
        "profile": {"display_name": member.name, "real_name": member.name.title()},
    }
    if foreign or member.is_stranger:
        told["is_stranger"] = True
    return {"user": told}


def user_conversations(state: State, token: Token, args: Json) -> Json:
    """`users.conversations`: where somebody is, of the kinds asked for."""
    wanted = set(str(args.get("types") or "public_channel").split(","))
    kinds = {"public": "public_channel", "private": "private_channel", "im": "im", "mpim": "mpim"}
    user = str(args.get("user") or token.user)
    found = [each.told() for each in state.channels.values() if user in each.members and kinds[each.kind] in wanted]
    return _page(found, args, "channels")


def bot_info(state: State, _token: Token, args: Json) -> Json:
    """`bots.info`."""
    user = str(args.get("bot", "")).removeprefix("B")
    if user not in state.members or not state.members[user].is_bot:
        raise SlackError("bot_not_found")
    told = {"id": f"B{user}", "user_id": user, "app_id": state.app.id, "name": state.members[user].name}
    return {"bot": told | {"deleted": state.members[user].deleted}}


def team_info(state: State, token: Token, args: Json) -> Json:
    """`team.info`."""
    if (team := state.teams.get(str(args.get("team") or token.team))) is None:
        raise SlackError("team_not_found")
    return {"team": {"id": team.id, "name": team.name, "domain": team.name, "enterprise_id": team.enterprise}}
