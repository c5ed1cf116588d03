"""The mark that every message bears, by which one that nobody heard of is found again.

Other apps of a workspace may read it, so what it is made of cannot be read from it.
"""

from dataclasses import dataclass
from hashlib import blake2s
from typing import Any, Final

from channels.message import Outbound
from channels.slack.failures import FAILURES
from channels.slack.place import Place

_EVENT: Final = "lockgate_said"
_LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """What names one message: the text it is of, the same at every attempt, and its number of how many from 1."""

    key: str
    number: int
    of: int

    def told(self) -> dict[str, Any]:
        """Return it as Slack keeps it with a message."""
        return {"event_type": _EVENT, "event_payload": {"key": self.key, "number": self.number, "of": self.of}}


def key_of(outbound: Outbound, *, preview: bool = False) -> str:
    """Return what names something that is said, or its preview."""
    return blake2s(f"{outbound.address}\n{preview}\n{outbound.key}".encode(), digest_size=16).hexdigest()


async def find(client: Any, place: Place, mark: Mark) -> str:  # noqa: ANN401 - of the SDK, untyped
    """Return the time stamp of a message, empty if it is not found; number 0 is the last, whatever its number.

    Looked for once, among the newest in a chat and from the beginning of a thread. Where the history cannot be read,
    for want of a scope or because it was read too often, nothing is found.
    """
    where = {"channel": place.channel, "limit": _LOOKED_THROUGH, "include_all_metadata": True}
    try:
        if place.thread:
            answer = await client.conversations_replies(ts=place.thread, **where)
        else:
            answer = await client.conversations_history(**where)
        return next((str(message["ts"]) for message in answer["messages"] if _bears(message, mark)), "")
    except FAILURES:
        return ""


def _bears(message: Any, mark: Mark) -> bool:  # noqa: ANN401 - Slack's JSON
    told = message.get("metadata", {})
    payload = told.get("event_payload", {})
    wanted = (mark.key, mark.number or payload.get("of"))
    return told.get("event_type") == _EVENT and (payload.get("key"), payload.get("number")) == wanted
