"""Shared chats in cases of a policy: the members are given in the case, as no policy knows who is in a chat.

The clearance of such a chat comes from the function that the gate uses with the members that a platform lists.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bot.access import labelling
from bot.core.errors import OperatorError
from channels.messages import Address
from channels.port import Audience
from policy.document.entries import Chat
from policy.document.model import Document
from policy.errors import nearest
from policy.request import Destination, Overshoot


@dataclass(frozen=True, slots=True)
class CaseHome:
    """The home of a case's session: its principal and address, and for a chat the effect of its members."""

    principal: str
    address: Address
    destination: Destination | None = None

    @property
    def channel(self) -> str:
        """The channel of the address."""
        return self.address.channel

    def overshoot(self, policy: Document) -> Overshoot:
        """Return the action there for a read whose result could not be sent."""
        return policy.overshoot(self.channel, self.address.workspace, self.address.chat)


def chat_address(policy: Document, name: str) -> Address:
    """Return the address of a chat by its name in the policy. Raises OperatorError: there is none."""
    chat = _chat(policy, name)
    return Address(chat.channel, chat.chat, chat.workspace)


def chat_with(policy: Document, name: str, members: Collection[str], *, complete: bool) -> Destination:
    """Return a chat of the policy as a destination, with these members as its readers.

    Args:
        policy: The policy at the moment of the case.
        name: The chat, by its name in the policy.
        members: People, groups and accounts.
        complete: Whether the platform lists all readers.

    Raises:
        OperatorError: A name is not known, or a person has no account there.
    """
    chat = _chat(policy, name)
    accounts = frozenset(account for member in members for account in _accounts(policy, chat, member))
    return labelling.destination(
        policy, chat_address(policy, name), Audience.of(*accounts, complete=complete, shared=True)
    )


def _chat(policy: Document, name: str) -> Chat:
    chat = policy.chats.get(name)
    if chat is None:
        raise OperatorError(
            f"unknown chat `{name}`{nearest(name, policy.chats)}", next_step="name one of `policy.chats`"
        )
    return chat


def _accounts(policy: Document, chat: Chat, member: str) -> Iterator[str]:
    """Yield the accounts of a member in a chat. Raises OperatorError: they have none, or are not known."""
    prefix = ":".join(filter(None, (chat.channel, chat.workspace)))
    if ":" in member:
        if member.partition(":")[0] != chat.channel:
            raise OperatorError(f"`{member}` is no account there", next_step=f"write one as `{prefix}:ID`")
        yield member
        return
    if member in policy.groups:
        people = [name for name in policy.principals if member in policy.groups_of(name)]
    elif member in policy.principals:
        people = [member]
    else:
        known = (*policy.principals, *policy.groups)
        raise OperatorError(
            f"unknown member `{member}`{nearest(member, known)}",
            next_step=f"name a person or group with access at the moment of the case, or an account, `{prefix}:ID`",
        )
    # People of other workspaces may be in a shared chat.
    named = [one for name in people for one in policy.principals[name].accounts]
    found = [one for one in named if one.partition(":")[0] == chat.channel]
    if not found and member in policy.principals:
        raise OperatorError(f"`{member}` has no account on `{chat.channel}`", next_step="leave them out, or add one")
    yield from found
