"""Programs: a token made, rotated or revoked in one process counts so in every other before its next decision."""

from pathlib import Path

import pytest

from bot.access.authorize import Caller, Ingress
from bot.access.tokens import ApiCaller
from bot.operations.tokens import MadeToken, TokenRequest
from bot.sessions.api_tokens import Scope
from policy.labels import Label, parse
from policy.request import Role
from tests.bot.test_policy_in_force import process
from tests.harness import Person

pytestmark = pytest.mark.anyio

CONFIG = (
    "policy:\n"
    "  channels:\n"
    "    console: {classification: top, inbound: PUBLIC, overshoot: allow}\n"
    "    api: {classification: CONFIDENTIAL~, inbound: PUBLIC}\n"
)
OWNER = Caller("owner", Role.OWNER, parse("RESTRICTED~"), Ingress.COMMAND)


def asked(name: str = "ci", scope: Scope = Scope.STEER, clearance: str = "RESTRICTED~", life: int = 0) -> TokenRequest:
    return TokenRequest(name, scope, parse(clearance), life)


async def made(person: Person, request: TokenRequest) -> MadeToken:
    return await person.app.token_keeper.create(request, OWNER)


async def shown(person: Person, text: str) -> ApiCaller | None:
    """Return whom a process takes the one for who shows a token now."""
    assert await person.app.reloader.current_now()
    return person.app.tokens.authenticate(text)


async def test_a_token_counts_in_every_process_from_its_creation_to_its_revocation(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one, process(tmp_path, "b.yaml", CONFIG) as two:
        token = await made(one, asked())
        for person in (one, two):
            found = await shown(person, token.text)
            assert found is not None
            assert (found.name, found.principal, str(found.address)) == ("ci", "program:ci", "api::ci:")
            assert found.caller == Caller(
                "program:ci", Role.MEMBER, Label.meet(parse("RESTRICTED~"), OWNER.clearance), Ingress.API
            )
            assert person.app.tokens.reader(found) == parse("CONFIDENTIAL~")
        again = await two.app.token_keeper.rotate("ci", 0, "owner")
        for person in (one, two):
            assert await shown(person, token.text) is None
            assert await shown(person, again.text) is not None
        await one.app.token_keeper.revoke("ci", "owner")
        for person in (one, two):
            assert await shown(person, again.text) is None
            assert "program:ci" not in person.app.gate.document.principals
        assert not one.told
        assert not two.told
