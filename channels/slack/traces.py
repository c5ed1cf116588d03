"""The mark that every message bears, by which one that nobody heard of is found again.

Other apps of a workspace may read it, so what it is made of cannot be read from it.
"""

from hashlib import blake2s
from typing import Any, Final

from channels.message import Outbound
from channels.slack.failures import FAILURES
from channels.slack.place import Place

Mark = dict[str, Any]

_EVENT: Final = "lockgate_said"
_LOOKED_THROUGH: Final = 100


def key_of(outbound: Outbound) -> str:
    """Return what names something that is said, the same at every attempt."""
    return blake2s(f"{outbound.address}\n{outbound.key}".encode(), digest_size=16).hexdigest()


def mark(key: str, number: int, of: int) -> Mark:
    """Return the mark of one message of several, counted from 1."""
    return {"event_type": _EVENT, "event_payload": {"key": key, "number": number, "of": of}}


async def find(client: Any, place: Place, key: str, number: int = 0) -> str:  # noqa: ANN401 - of the SDK, untyped
    """Return the time stamp of a message, of the last of several without a `number`; empty if it is not found.

    Looked for once, among the newest in a chat and from the beginning of a thread. Where the history cannot be read,
    for want of a scope or because it was read too often, nothing is found.
    """
    where = {"channel": place.channel, "limit": _LOOKED_THROUGH, "include_all_metadata": True}
    try:
        if place.thread:
            answer = await client.conversations_replies(ts=place.thread, **where)
        else:
            answer = await client.conversations_history(**where)
    except FAILURES:
        return ""
    for message in answer["messages"]:
        told = message.get("metadata", {})
        payload = told.get("event_payload", {})
        wanted = number or payload.get("of")
        if told.get("event_type") == _EVENT and (payload.get("key"), payload.get("number")) == (key, wanted):
            return str(message["ts"])
    return ""
