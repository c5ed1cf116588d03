"""What Slack's refusals, and its silence, mean for what was to be said."""

from types import SimpleNamespace

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError

from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.slack.errors import code, failure


def refused(error: str, status: int = 200, **headers: str) -> SlackApiError:
    response = SimpleNamespace(data={"ok": False, "error": error}, status_code=status, headers=headers)
    return SlackApiError("xoxb-secret", response)  # pyright: ignore[reportArgumentType] - what of it is read


GONE = (
    *("user_not_found", "user_disabled", "cannot_reply_to_message", "restricted_action_thread_locked"),
    *("team_not_found", "app_uninstalled"),
)


@pytest.mark.parametrize(
    "error, meant",
    [
        (refused("channel_not_found"), GoneError),
        (refused("is_archived"), GoneError),
        (refused("not_in_channel"), GoneError),
        (refused("thread_not_found"), GoneError),
        (refused("account_inactive"), GoneError),
        (refused("token_revoked"), GoneError),
        *((refused(error), GoneError) for error in GONE),
        (refused("user_not_in_channel"), ChannelError),
        (refused("msg_too_long"), ChannelError),
        (refused("invalid_auth"), ChannelError),
        (refused("missing_scope"), ChannelError),
        (refused("ratelimited", 429), BusyChannelError),
        (refused("rate_limited"), BusyChannelError),
        (refused("internal_error"), AmbiguousSendError),
        (refused("fatal_error", 500), AmbiguousSendError),
        (refused("fatal_error"), AmbiguousSendError),
        (refused("service_unavailable"), AmbiguousSendError),
        (refused("something new", 503), AmbiguousSendError),
        (refused("something new", 429), BusyChannelError),
        (SlackApiError("<html>", SimpleNamespace(status=502)), AmbiguousSendError),  # pyright: ignore[reportArgumentType]
        (SlackApiError("<html>", SimpleNamespace(status=429)), BusyChannelError),  # pyright: ignore[reportArgumentType]
        (TimeoutError(), AmbiguousSendError),
        (aiohttp.ServerDisconnectedError(), AmbiguousSendError),
        (aiohttp.ClientOSError(), AmbiguousSendError),
        (aiohttp.ConnectionTimeoutError(), ChannelError),
        (aiohttp.InvalidURL("x"), ChannelError),
    ],
)
def test_every_failure_has_its_meaning(error: Exception, meant: type[ChannelError]) -> None:
    found = failure(error)
    assert type(found) is meant
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    "error, told",
    [
        *((refused(error), "Slack does not accept the bot's token") for error in ("not_authed", "token_expired")),
        (refused("missing_scope"), "the app lacks a scope; install it again with the manifest"),
        (refused("msg_too_long"), "Slack refused the message"),
        (aiohttp.InvalidURL("x"), "Slack cannot be reached"),
    ],
)
def test_what_is_to_be_done_is_told(error: Exception, told: str) -> None:
    assert str(failure(error)) == told


@pytest.mark.parametrize("told, seconds", [({"Retry-After": "7"}, 7), ({"Retry-After": "soon"}, 30), ({}, 30)])
def test_a_wait_is_as_long_as_slack_asks(told: dict[str, str], seconds: float) -> None:
    found = failure(refused("ratelimited", 429, **told))
    assert isinstance(found, BusyChannelError)
    assert found.seconds == seconds


def test_what_was_no_answer_of_slacks_has_no_code() -> None:
    assert (code(refused("is_archived")), code(TimeoutError())) == ("is_archived", "")
