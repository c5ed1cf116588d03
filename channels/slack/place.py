"""Where on Slack something is said."""

from dataclasses import dataclass
from typing import Final

from channels.base import ChannelError
from channels.message import Address

NAME: Final = "slack"
HOME: Final = "home"
"""The thread of an address that is a person's Home tab; its chat is the account."""

_DIRECT: Final = "D"
_ACCOUNTS: Final = ("U", "W")


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation of a workspace, a thread of it, and the one member who alone may see it."""

    team: str
    channel: str
    thread: str = ""
    only: str = ""

    @property
    def direct(self) -> bool:
        """Whether it is the conversation of one person with the bot."""
        return self.channel.startswith(_DIRECT)

    @property
    def home(self) -> bool:
        """Whether it is the Home of the account that stands for the conversation."""
        return self.thread == HOME

    @property
    def account(self) -> bool:
        """Whether it is named by the account of a person, whose conversation is meant."""
        return self.channel.startswith(_ACCOUNTS)


def place_of(address: Address) -> Place:
    """Return where an address is.

    Raises ChannelError: there is no such place on Slack.
    """
    if address.channel != NAME or not address.workspace or not address.chat:
        raise ChannelError("the address is not one of Slack's")
    place = Place(address.workspace, address.chat, address.thread, address.recipient)
    if place.home and (not place.account or place.only not in {"", place.channel}):
        raise ChannelError("a Home is of one account, and for it alone")
    return place
