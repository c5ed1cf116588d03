"""What is wrong with an app's connection to Slack, each with how to mend it: for `lockgate doctor`."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from channels.base import Trouble
from channels.skew import skewed
from channels.slack.failures import FAILURES, code
from channels.slack.manifest import SCOPES

AWAY: Final = Trouble("Slack cannot be reached", "look at the network of this machine")
NOBODY: Final = Trouble("no workspace has installed the bot", "`lockgate slack install` makes a link that does")
UNREADABLE: Final = Trouble(
    "the tokens of workspaces cannot be read",
    "give back the key they were kept under, or let the workspaces install the bot again",
)

_INSTALL: Final = "install the app in the workspace again and put its Bot User OAuth Token into the environment"
_NOT_ACCEPTED: Final = Trouble("Slack does not accept the bot's token", _INSTALL)
_NOT_A_BOT: Final = Trouble("the token is not that of a bot", _INSTALL)
_REFUSED: Final = frozenset(
    {"account_inactive", "invalid_auth", "not_authed", "token_expired", "token_revoked", "not_allowed_token_type"}
)
_MOST: Final = 300
"""Seconds, from which on Slack's requests are taken for old ones."""


async def troubles(client: Any, now_ms: Callable[[], int]) -> tuple[Trouble, ...]:  # noqa: ANN401 - as in `Workspace`
    """Ask Slack about the token of a client; `now_ms` is the clock of this machine, in milliseconds since 1970."""
    try:
        answer: Any = await client.auth_test()
    except FAILURES as error:
        return (_NOT_ACCEPTED if code(error) in _REFUSED else AWAY,)
    headers = {str(name).lower(): str(value) for name, value in dict(answer.headers).items()}
    return tuple(_told(answer, headers, now_ms()))


def _told(answer: Any, headers: dict[str, str], now_ms: int) -> Iterator[Trouble]:  # noqa: ANN401 - Slack's JSON
    if not answer.get("bot_id"):
        yield _NOT_A_BOT
    if "x-oauth-scopes" in headers:
        given = {scope.strip() for scope in headers["x-oauth-scopes"].split(",")}
        if lacking := sorted(set(SCOPES) - given):
            listed = ", ".join(f"`{scope}`" for scope in lacking)
            yield Trouble(
                f"the app lacks the scopes {listed}", "add them under OAuth & Permissions and install it again"
            )
    yield from skewed(headers, now_ms, f"from {_MOST} s on nothing of Slack's is believed")
