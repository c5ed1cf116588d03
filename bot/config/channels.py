"""The platforms this installation listens to. Tokens stand in the environment, here the names of the variables."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policy.document import Document
from policy.errors import Problem


def _variable(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError("this is the name of an environment variable, the token itself stands there")
    return name


def _base_url(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise ValueError("a server's address begins with `https://` or `http://`")
    return url


def _public_url(url: str) -> str:
    if not url.startswith("https://"):
        raise ValueError("Telegram calls addresses that begin with `https://` alone")
    return url


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class WebhookSettings(_Block):
    """Where Telegram reaches us: `url` as it is on the internet, `host` and `port` to listen at on this machine.

    `secret` names the environment variable that holds what Telegram proves itself by.
    """

    url: Annotated[str, AfterValidator(_public_url)]
    secret: Annotated[str, AfterValidator(_variable)] = "TELEGRAM_SECRET"  # noqa: S105 - the name of a variable
    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)


class TelegramSettings(_Block):
    """A Telegram bot: `token` names the environment variable that holds its token.

    With a `webhook` Telegram calls us, else we ask it. `base_url` is another Bot API server than Telegram's own.
    """

    token: Annotated[str, AfterValidator(_variable)] = "TELEGRAM_TOKEN"  # noqa: S105 - the name of a variable
    webhook: WebhookSettings | None = None
    base_url: Annotated[str | None, AfterValidator(_base_url)] = None


class ChannelsSettings(_Block):
    """The platforms, None for those that are not listened to."""

    telegram: TelegramSettings | None = Field(default=None)

    @property
    def listened(self) -> tuple[str, ...]:
        """The names of the platforms that are listened to."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


def unlabelled(channels: ChannelsSettings, policy: Document | None) -> Iterator[Problem]:
    """Yield a problem for every platform of which the policy does not say what may be said there."""
    for name in channels.listened:
        if policy is not None and name not in policy.channels:
            yield Problem(("channels", name), f"the policy says nothing of it, add `{name}` to `policy.channels`")
