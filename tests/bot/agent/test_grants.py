"""Grants in a running turn: one that is taken back meanwhile covers nothing, and no child has one."""

import re
from pathlib import Path

import pytest

from bot.sessions.consents.grants import GrantEnd
from bot.tools.base import Result, ToolContext, ToolServices
from tests.bot.kit import Probe, TextArguments, bang, eventually, note, parts, policy
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

_GUEST = {"channel": "console", "chat": "guest", "clearance": "INTERNAL~"}


async def granted(ann: Person, text: str = "one") -> str:
    """Approve a message to the guest for this conversation, and return the id of the grant."""
    await ann.say(bang("read_file", path="public/welcome.md"))
    name = re.findall(r"`/approve ([0-9a-z-]+)", await ann.say(note("guest", text)))[-1]
    await ann.say(f"/approve {name} conversation")
    await ann.settled()
    return name


async def test_a_grant_that_is_revoked_during_a_turn_covers_nothing_in_it(tmp_path: Path) -> None:
    """The turn still knows the grant; its write is refused, and the call is asked about."""
    ready = list[tuple[Person, str]]()

    async def revoke(_arguments: TextArguments, context: ToolContext, _services: ToolServices) -> Result:
        ((ann, name),) = ready
        ended = await ann.app.store.approvals.revoke(context.session.sid, name, actor="owner", audit=())
        assert ended.grant is not None
        assert ended.grant.end is GrantEnd.REVOKED
        return Result("revoked")

    async with running(tmp_path, policy(recipients={"guest": _GUEST}), parts=parts(Probe(does=revoke))) as ann:
        ready.append((ann, await granted(ann)))
        shown = await ann.say(f"{bang('probe')}\n{note('guest', 'two')}")
        assert "`/approve" in shown
        assert "→ guest: two" not in ann.shown
        name = re.findall(r"`/approve ([0-9a-z-]+)", shown)[-1]
        await ann.say(f"/approve {name}")
        await ann.settled()
        assert ann.shown.count("→ guest: two") == 1


async def test_a_grant_is_used_in_the_same_turn_again_and_again(tmp_path: Path) -> None:
    async with running(tmp_path, policy(recipients={"guest": _GUEST})) as ann:
        await granted(ann)
        await ann.say("\n".join(note("guest", f"call {number}.") for number in range(3)))
        assert [ann.shown.count(f"→ guest: call {number}.") for number in range(3)] == [1, 1, 1]
        ((_, one),) = await ann.app.store.approvals.granted("owner")
        assert one.grant is not None
        assert (one.grant.left, len(one.grant.spent)) == (6, 3)


async def test_a_background_session_inherits_no_grant(tmp_path: Path) -> None:
    async with running(tmp_path, policy(recipients={"guest": _GUEST})) as ann:
        await granted(ann)
        await ann.say(bang("sessions_spawn", task=note("guest", "from below"), title="note"))

        async def asked() -> bool:
            waiting = await ann.app.store.approvals.waiting()
            return any(one.alone and one.question.scope is None for _, one in waiting)

        await eventually(asked)
        assert "→ guest: from below" not in ann.shown


async def test_a_refused_question_gives_nothing_to_the_call_beside_it(tmp_path: Path) -> None:
    """Two calls of one scope are asked about together: the grant of one does not undo the refusal of the other."""
    async with running(tmp_path, policy(recipients={"guest": _GUEST})) as ann:
        await ann.say(bang("read_file", path="public/welcome.md"))
        shown = await ann.say(f"{note('guest', 'one')}\n{note('guest', 'two')}")
        name = re.findall(r"`/approve ([0-9a-z]+)", shown)[-1]
        await ann.say(f"/deny {name}-2")
        await ann.say(f"/approve {name}-1 conversation")
        await ann.settled()
        assert "→ guest: one" in ann.shown
        assert "→ guest: two" not in ann.shown
        assert "a person refused this call" in ann.shown
