"""Installing the app as people do: the page that asks for consent, the exchange of its code, tokens that rotate."""

from dataclasses import dataclass
from urllib.parse import urlencode

from tests.sim.slack_state import Json, SlackError, State, Token

CODE_LIFE = 600


@dataclass
class Grant:
    """What somebody consented to; its code can be exchanged once, for ten minutes."""

    team: str
    user: str
    scopes: tuple[str, ...]
    redirect: str
    made: float
    used: bool = False


def consent(state: State, codes: dict[str, Grant], user: str, query: Json) -> str:
    """Return where the browser goes after a person consented, or, where `user` is empty, refused.

    Raises SlackError: the page would show an error.
    """
    redirect = str(query.get("redirect_uri") or next(iter(state.app.redirect_urls), ""))
    if query.get("client_id") != state.app.client_id:
        raise SlackError("invalid_client_id")
    if state.app.redirect_urls and not redirect.startswith(state.app.redirect_urls):
        raise SlackError("bad_redirect_uri")
    passed = {"state": str(query.get("state", ""))}
    if not user:
        return f"{redirect}?{urlencode({'error': 'access_denied', **passed})}"
    code = f"code-{state.number()}"
    scopes = tuple(each for each in str(query.get("scope", "")).split(",") if each)
    codes[code] = Grant(state.members[user].team, user, scopes, str(query.get("redirect_uri", "")), state.now())
    return f"{redirect}?{urlencode({'code': code, **passed})}"


def access(state: State, codes: dict[str, Grant], args: Json) -> Json:
    """`oauth.v2.access`: exchange a code, or a refresh token where tokens rotate."""
    if args.get("client_id") != state.app.client_id:
        raise SlackError("invalid_client_id")
    if args.get("client_secret") != state.app.client_secret:
        raise SlackError("bad_client_secret")
    if args.get("grant_type") == "refresh_token":
        return _refreshed(state, str(args.get("refresh_token", "")))
    grant = codes.get(str(args.get("code", "")))
    if grant is None or grant.used or state.now() - grant.made > CODE_LIFE:
        raise SlackError("code_already_used" if grant is not None and grant.used else "invalid_code")
    if grant.redirect != str(args.get("redirect_uri") or ""):
        raise SlackError("bad_redirect_uri")
    grant.used = True
    return _told(state, state.install(state.teams[grant.team], grant.scopes), grant.user)


def _refreshed(state: State, refresh: str) -> Json:
    if not state.app.rotates:
        raise SlackError("token_rotation_not_enabled")
    old = next((each for each in state.tokens.values() if each.refresh and each.refresh == refresh), None)
    if old is None or old.revoked:
        raise SlackError("invalid_refresh_token")
    fresh = state.install(state.teams[old.team], old.scopes)
    old.refresh, old.revoked = "", True
    return _told(state, fresh, "")


def _told(state: State, token: Token, user: str) -> Json:
    team = state.teams[token.team]
    rotating = {"refresh_token": token.refresh, "expires_in": 43_200} if token.refresh else {}
    enterprise = {"id": team.enterprise, "name": team.enterprise} if team.enterprise else None
    return {
        "access_token": token.value,
        "token_type": "bot",
        "scope": ",".join(token.scopes),
        "bot_user_id": token.user,
        "app_id": state.app.id,
        "team": None if state.app.org_wide else {"id": team.id, "name": team.name},
        "enterprise": enterprise,
        "is_enterprise_install": state.app.org_wide,
        "authed_user": {"id": user},
        **rotating,
    }
