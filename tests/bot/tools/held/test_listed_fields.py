"""A field of a background session may be one of the texts that an operator listed."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from bot.access.decision_context import Call, DecisionContext
from bot.gate.gate import Gate
from bot.sessions.background.delegation import Child, Errand, FieldKind, ResultField
from bot.tools.background.spawning import NO_LIST, SessionsSpawn
from policy.decision import Verdict
from tests.bot.kit import NO_SECRETS, Childless, Runless, call, document, everybody, standing, unrecorded

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = pytest.mark.anyio


@dataclass
class Minter(Childless):
    """Keeps what it was asked to make."""

    errands: list[Errand] = field(default_factory=list[Errand])

    async def mint_child(self, standing: DecisionContext, key: str, errand: Errand) -> Child:
        self.errands.append(errand)
        return Child("run", "sid")


def asked(name: str) -> Call:
    where: dict[str, JsonValue] = {"type": "listed", "list": name}
    return call("sessions_spawn", {"task": "find it", "returns": {"where": where, "sure": {"type": "boolean"}}})


async def test_its_members_are_those_of_the_list() -> None:
    minter, policy = Minter(), document(lists={"channels": ["general", "sales"]})
    gate = Gate(policy, [SessionsSpawn()], ("offline",), everybody, keyring=NO_SECRETS, spawner=minter, runs=Runless())
    await gate.run(standing(), gate.calls.prepare(standing(), asked("channels")), unrecorded)
    assert minter.errands[0].returns == (
        ResultField("where", FieldKind.ENUM, ("general", "sales")),
        ResultField("sure", FieldKind.BOOLEAN),
    )
    unknown = gate.calls.prepare(standing(), asked("members")).decision
    assert (unknown.verdict, unknown.outcomes[-1].message) == (Verdict.BLOCK, NO_LIST)
