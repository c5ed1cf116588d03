"""The questions of `lockgate doctor --probe` to Slack beside its usual ones."""

import re
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

from channels.port import Trouble
from channels.slack.errors import FAILURES, code

_SIGNING: Final = re.compile(r"[0-9a-f]{32}")
"""How Slack writes every signing secret."""

_ABSENT: Final = frozenset({"channel_not_found", "not_in_channel"})

NOT_A_SECRET: Final = Trouble(
    "the signing secret does not look like one of Slack's, which have 32 digits from 0 to f",
    "copy Signing Secret from Basic Information of the app into the environment",
    remark=True,
)


async def troubles(client: Any, chats: Iterable[str], signing: str | None) -> AsyncGenerator[Trouble]:  # noqa: ANN401 - as in `Workspace`
    """Yield the findings of a probe: where the bot is, channels without it, and a secret that Slack cannot have given.

    `signing` is the secret that requests are signed with, None over sockets.
    """
    if signing is not None and not _SIGNING.fullmatch(signing):
        yield NOT_A_SECRET
    try:
        me: Any = await client.auth_test()
    except FAILURES:
        # That is told by the usual questions.
        return
    name = str(me.get("user") or "lockgate")
    yield Trouble(f"it is @{name} in the workspace {me.get('team') or me.get('team_id')}", "", remark=True)
    for chat in sorted(chats):
        if await _absent(client, chat):
            told = f"the bot is not in the channel {chat} that the policy names"
            yield Trouble(told, f"type `/invite @{name}` there, or mend the entry in `policy.chats`", names=True)


async def _absent(client: Any, chat: str) -> bool:  # noqa: ANN401 - as in `Workspace`
    try:
        answer: Any = await client.conversations_info(channel=chat)
    except FAILURES as error:
        return code(error) in _ABSENT
    return not (answer["channel"].get("is_member") or answer["channel"].get("is_im"))
