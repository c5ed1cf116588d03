"""What a recipient's name meant when it was decided about is what it is decided for; another meaning gets nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.access import recipients
from bot.access.decision_context import Call, DecisionContext
from bot.core.errors import sentence
from bot.gate.gate import Gate
from bot.gate.judge import ReadyPolicy
from bot.sessions.background.delegation import BoundedAnswer, Child, Errand, ResultField
from bot.tools.background.spawning import SessionsSpawn
from bot.tools.base import Result, ToolContext, ToolServices
from bot.tools.message import Message
from channels.messages import Address
from policy.document.model import Document
from tests.bot.delivery.test_alternatives import ASKING, HOUSE, KEEPER, QUESTION, VAULT, offered
from tests.bot.kit import (
    NO_SECRETS,
    Probe,
    Runless,
    TextArguments,
    bang,
    call,
    document,
    eventually,
    everybody,
    parts,
    policy,
    send,
    standing,
    unrecorded,
)
from tests.bot.rooms import talking, team
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

GUEST = {"channel": "console", "chat": "guest", "clearance": "PUBLIC"}
OTHER = {"channel": "console", "chat": "other", "clearance": "PUBLIC"}
TELLS = call("sessions_spawn", {"task": "look", "deliver_to": "guest"})
PEOPLE: Mapping[str, Any] = {"owner": principal("console:owner")}


def gus(account: str) -> Document:
    return document(principals={**PEOPLE, "gus": principal(account, role="guest", clearance="PUBLIC")})


@dataclass
class Minter:
    """Keeps what it was asked to make."""

    errands: list[Errand] = field(default_factory=list[Errand])

    async def mint_child(self, standing: DecisionContext, key: str, errand: Errand) -> Child:
        self.errands.append(errand)
        return Child("run", "sid")

    async def endorse(
        self, standing: DecisionContext, key: str, fields: tuple[ResultField, ...], seconds: int
    ) -> BoundedAnswer:
        raise NotImplementedError

    async def charge(self, standing: DecisionContext, run: str, millibits: int) -> bool:
        return False


def keeper(policy: Document, minter: Minter | None = None) -> Gate:
    made = minter or Minter()
    return Gate(
        policy, [Message(), SessionsSpawn()], ("offline",), everybody, keyring=NO_SECRETS, spawner=made, runs=Runless()
    )


@pytest.mark.parametrize("asked", [send("x"), TELLS], ids=["message", "task"])
def test_the_binding_is_to_what_a_name_means(asked: Call) -> None:
    guest, other = (document(recipients={"guest": place}) for place in (GUEST, OTHER))
    theirs, hers = gus("console:guest"), gus("console:gus")
    bound = [keeper(one).calls.prepare(standing(), asked).binding for one in (guest, other, theirs, hers)]
    # The shipped policy has the same alias `guest`, and nobody's account there.
    assert bound[0] == bound[3]
    assert len(set(bound)) == 3


@pytest.mark.parametrize("now", [document(recipients={"guest": OTHER}), gus("console:guest")], ids=["place", "person"])
async def test_a_message_goes_to_whom_it_was_decided_for_or_nowhere(now: Document) -> None:
    here = keeper(document())
    prepared = here.calls.prepare(standing(), send("x"))
    here.policy.put_in_force(ReadyPolicy.of(now))
    response = await here.results.respond(standing(), prepared, await here.run(standing(), prepared, unrecorded))
    assert (response.text, response.failed, response.deliver) == (recipients.CHANGED, True, ())
    assert [row.body["verdict"] for row in response.audit] == ["ALLOW", "BLOCK"]


async def test_a_task_tells_whom_it_was_decided_for_or_is_not_made() -> None:
    minter = Minter()
    here = keeper(document(), minter)
    prepared = here.calls.prepare(standing(), TELLS)
    result = await here.run(standing(), prepared, unrecorded)
    assert [errand.meant for errand in minter.errands] == list(prepared.leads)
    assert not result.failed
    here.policy.put_in_force(ReadyPolicy.of(document(recipients={"guest": OTHER})))
    result = await here.run(standing(), prepared, unrecorded)
    assert (result.text, result.failed, len(minter.errands)) == (recipients.CHANGED, True, 1)


async def test_a_task_without_a_recipient_leads_nowhere() -> None:
    minter = Minter()
    here = keeper(document(), minter)
    prepared = here.calls.prepare(standing(), call("sessions_spawn", {"task": "look"}))
    assert not (await here.run(standing(), prepared, unrecorded)).failed
    assert (prepared.leads, [errand.meant for errand in minter.errands]) == ((), [""])


@pytest.mark.parametrize("place, told", [(GUEST, ["guest"]), (OTHER, [])], ids=["the same", "another"])
async def test_a_result_is_told_to_what_its_alias_meant_at_the_spawn(
    tmp_path: Path, place: dict[str, str], told: list[str]
) -> None:
    at_work, on = asyncio.Event(), asyncio.Event()

    async def waits(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result | None:
        at_work.set()
        await on.wait()
        return None

    async with running(tmp_path, policy(recipients={"guest": GUEST}), parts=parts(Probe(does=waits))) as owner:
        await owner.say(bang("sessions_spawn", task=bang("probe"), deliver_to="guest"))
        await at_work.wait()
        (tmp_path / "config.yaml").write_text(policy(recipients={"guest": place}))
        assert "is in force" in await owner.say("/policy reload")
        on.set()

        (slot,) = await owner.app.store.delegation.slots("owner")

        async def reported() -> bool:
            child = await owner.app.store.sessions.state(slot.sid)
            assert child is not None
            return "result of background session" in owner.shown and child.ended_at > 0 and not child.undelivered

        await eventually(reported)
        assert [chat for chat in ("guest", "other") if f"→ {chat}: " in owner.shown] == told


async def test_an_offer_tells_whom_it_was_made_for(tmp_path: Path) -> None:
    sections: dict[str, Any] = {**ASKING, "recipients": VAULT, "principals": KEEPER}
    async with talking(tmp_path, team("ann", "mel"), **sections) as people:
        await people.say("ann", "hello", HOUSE)
        await people.say("ann", QUESTION)
        code = offered(people)
        moved = {"vault": {**VAULT["vault"], "chat": "cellar"}}
        keepers = {**KEEPER, "vic": {**KEEPER["vic"], "accounts": ["room:cellar"]}}
        changed = {**sections, "recipients": moved, "principals": keepers}
        (tmp_path / "config.yaml").write_text(policy(**changed))
        await people.say("ann", "/policy reload", HOUSE)
        assert "is in force" in people.rooms.heard(HOUSE)[-1]
        await people.say("ann", f"/background {code} vault", HOUSE)
        assert people.rooms.heard(HOUSE)[-1] == sentence(recipients.CHANGED)
        assert await people.app.store.delegation.slots("ann") == ()
        assert people.rooms.heard(Address("room", "cellar")) == people.rooms.heard(Address("room", "vault")) == []
