"""Law `no_read_up`, over a reset: what a conversation did before it tells nothing afterwards, however much that was.

What is drawn happens in a conversation that has read more than those below may know of. Then a person resets it, and
says and asks the same things, here as a model and there as somebody who is cleared for PUBLIC alone.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from bot.access.authorize import Caller, Ingress
from bot.sessions.transcript import place
from channels.messages import Address
from policy.request import Role
from tests.adversary.views import Names
from tests.bot.kit import policy
from tests.events import untimed
from tests.harness import Person, running
from tests.people import principal

BEFORE: Final = (
    "hello",
    "!current_time {}",
    '!read_file {"path": "public/welcome.md"}',
    '!read_file {"path": "public/welcome.md", "_hold": true}',
    '!sessions_spawn {"task": "look"}',
    '!sessions_spawn {"task": "look"}\n!sessions_spawn {"task": "look"}',
    '!summarize {"scope": "session"}',
    "/summarize",
)
"""What may happen in a conversation that has read something: a secret may choose which, and how often."""

AFTER: Final = (
    "/reset confirm",
    "hello",
    '!sessions_history {"session_id": "", "include_tools": true}',
    "!session_status {}",
    "!sessions_list {}",
    '!sessions_spawn {"task": "look"}',
    "/summarize",
    "bye",
    "/release last to guest",
)

COMMANDS: Final = (
    *("/queue", "/status", "/usage", "/history tools", "/export", "/agents", "/sessions all", "/taint", "/why"),
    *("/approvals", "/held", "/deadletter", "/audit", "/history"),
    *(f"/release {number} to guest" for number in range(1, 60)),
)

_DIGEST: Final = re.compile(r"sha256 [0-9a-f]{64}")

_POLICY: Final = policy(
    blocks={"limits": {"person_daily_tokens": 10**9}},
    principals={"owner": principal("console:owner", may_release=True)},
)


async def _told(before: Sequence[str]) -> list[str]:
    """Return what may be told below after a reset."""
    with TemporaryDirectory() as folder:
        async with running(Path(folder), _POLICY) as owner:
            await owner.say('!read_file {"path": "confidential/pipeline.md"}')
            for text in before:
                await _said(owner, text)
            for text in AFTER:
                await _said(owner, text)
            state, names = await owner.state(), Names()
            log = [event for event in await owner.events() if event.generation == state.generation]
            told = [
                f"{place(event, state)} {event.type} {event.actor} {json.dumps(untimed(event.body))}" for event in log
            ]
            caller = Caller("owner", Role.OWNER, owner.app.config.policy.top, Ingress.COMMAND)
            context = owner.app.commands.request(caller, Address("console", "outside"), owner.sid)
            for line in COMMANDS:
                reply = await owner.app.commands.answer(context, line)
                told.append(f"{line}: {reply.label} {reply.text}")
            # Texts with random ids in them have digests that are no less random.
            return [names.plain(_DIGEST.sub("sha256", line)) for line in told]


async def _said(owner: Person, text: str) -> None:
    """Say something, and wait until it has come to its end with all that it set going."""
    await owner.say(text)
    while await owner.app.spawner.below("owner", owner.sid):  # noqa: ASYNC110 - a store sets no event
        await asyncio.sleep(0.005)
    await owner.settled()


# An example takes seconds, so a failing one is not shrunk: it is short as it is.
@settings(max_examples=3, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@example([BEFORE[5], BEFORE[0]])
@given(st.lists(st.sampled_from(BEFORE), min_size=1, max_size=5))
def test_no_read_up_a_reset_leaves_nothing_that_counts(before: list[str]) -> None:
    without, told = asyncio.run(_told(())), asyncio.run(_told(before))
    assert any("session.summary" in line for line in without)
    assert any("release.requested" in line for line in without)
    for left, right in zip(without, told, strict=True):
        assert left == right
