"""A program among the principals is no person: who walks over people passes it by, and nobody can be it."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bot.access import approvals, labelling, principals, recipients
from bot.app import adapters
from bot.delivery import alternatives, approval_prompts
from bot.ingress.admin_notices import admins
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.sessions.approvals import Approval, ApprovalQuestion
from channels.messages import Address
from policy.document.model import Document
from policy.document.programs import Program, with_programs
from policy.labels import PUBLIC, parse
from policy.request import Role
from tests.bot.access.test_pairing import at, code_of, said
from tests.bot.access.test_recipients import OWNER
from tests.bot.api.kit import MAKER, api_config
from tests.bot.kit import INTERNAL, NOW, document
from tests.harness import Person, running
from tests.people import principal

CHANNELS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "board": {"classification": "CONFIDENTIAL", "inbound": "PUBLIC"},
    "api": {"classification": "CONFIDENTIAL"},
}
PEOPLE = {
    "owner": principal("console:owner"),
    "ada": principal("console:ada", "board:7", role="admin"),
    "bea": principal("console:bea", role="admin", clearance="INTERNAL"),
}
RULE = {"id": "mine", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
LAW_9: Final = ("untrusted_cannot_command",)
HOME = Address("api", "ci", thread="t")


def known() -> Document:
    """Return a policy in force with a program for each scope: `ci` steers, `boss` has the scope admin."""
    file = document(
        channels=CHANNELS, principals=PEOPLE, rules=[{**RULE, "approvers": ["admin", "member"]}], compartments=[]
    )
    top = parse("RESTRICTED~")
    return with_programs(file, (Program("ci", Role.MEMBER, top), Program("boss", Role.ADMIN, top)))


def question(who: str, *rules: str) -> Approval:
    return Approval(
        "a", "s1", 1, "t1", "c1", "message", "b", PUBLIC, who, ApprovalQuestion("message", {}), rules or ("mine",), NOW
    )


def test_admins_are_told_in_private_and_a_program_is_not() -> None:
    served = ("api", "board", "console")
    told = {caller.principal for caller, _ in admins(known(), Address("board", "-5"), served)}
    assert told == {"ada"}
    assert alternatives.private_chats(known(), "program:boss", Address("board", "-5")) == ()
    assert principals.aside(known(), "program:boss", Address("board", "-5")) is None


def test_menus_are_for_the_admins_who_are_people() -> None:
    assert adapters.admins(known()) == {"console:owner", "console:ada", "board:7", "console:bea"}


def test_no_program_is_a_recipient_by_name() -> None:
    for name in ("ci", "api:ci", "program:ci", "boss", "api:boss"):
        with pytest.raises(recipients.UnknownRecipientError):
            recipients.find(known(), OWNER, name)
    with pytest.raises(recipients.UnknownRecipientError):
        recipients.find(known(), OWNER, "ci", "api")


def test_what_is_said_to_a_program_stays_with_it() -> None:
    assert principals.owner(known(), HOME) == "program:ci"
    assert recipients.stays(known(), replace(OWNER, principal="program:ci", asker="program:ci"), HOME, HOME)
    assert principals.meant_for("program:ci", "program:ci", HOME, HOME) == "program:ci"
    assert not principals.is_anothers(known(), HOME, "program:ci")
    gone = document(channels=CHANNELS, principals=PEOPLE)
    assert principals.is_anothers(gone, HOME, "program:ci")


def test_it_is_told_what_its_address_and_its_clearance_allow() -> None:
    assert labelling.expected(known(), HOME).clearance == parse("CONFIDENTIAL")
    assert labelling.private_places(known(), "program:ci", INTERNAL) == (Address("api", "ci"),)
    assert labelling.private_places(known(), "program:ci", parse("RESTRICTED")) == ()
    assert labelling.ceiling(known(), "program:ci", "program:ci") == parse("RESTRICTED~")
    gone = document(channels=CHANNELS, principals=PEOPLE)
    assert labelling.ceiling(gone, "program:ci", "program:ci") is None


@pytest.mark.parametrize(
    "asked, who, may",
    [
        pytest.param(question("program:ci", *LAW_9), "program:ci", False, id="its own, below admin"),
        pytest.param(question("program:boss", *LAW_9), "program:boss", True, id="its own, with the scope admin"),
        pytest.param(question("program:ci", *LAW_9), "program:boss", True, id="another's, with the scope admin"),
        pytest.param(question("owner"), "program:ci", False, id="a rule that members may lift"),
        pytest.param(question("owner"), "program:boss", True, id="a rule, with the scope admin"),
        pytest.param(question("program:boss"), "program:boss", False, id="its own, a configured rule"),
        pytest.param(question("program:ci", *LAW_9), "ada", True, id="a person for a program"),
    ],
)
def test_a_program_approves_with_the_scope_admin_alone(asked: Approval, who: str, *, may: bool) -> None:
    assert approvals.may_answer(known(), asked, who) is may


def test_people_are_asked_for_a_program_in_their_chats_and_no_program_is() -> None:
    asked = question("program:ci", *LAW_9)
    assert set(approval_prompts.places(known(), (asked,), HOME)) == {Address("board", "7"), Address("console", "owner")}
    # With the scope admin it may answer itself, so nobody else is asked.
    assert approval_prompts.places(known(), (question("program:boss", *LAW_9),), HOME) == ()


def config() -> str:
    return api_config({"principals": PEOPLE, "channels": CHANNELS, "paired": {"role": "member", "clearance": "PUBLIC"}})


async def program(person: Person, name: str, scope: Scope) -> None:
    await person.app.token_keeper.create(TokenRequest(name, scope, PUBLIC, 0), MAKER)


@pytest.mark.anyio
async def test_no_command_makes_a_person_of_a_program(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        await program(owner, "ci", Scope.STEER)
        before = owner.app.gate.document.principals["program:ci"]
        told = await said(owner, "/allow api:ci ann")
        assert told == "`api:ci` is a program's account, which `lockgate token create` makes, and no person's."
        assert await said(owner, "/allow api:new ann") == told.replace("api:ci", "api:new")
        assert "Unknown channel `program`" in await said(owner, "/allow program:ci PUBLIC")
        assert "Nobody named `program:ci`" in await said(owner, "/pair revoke program:ci")
        await said(owner, f"/pair approve {await code_of(at(owner, 'eve'))} eve")
        assert owner.app.gate.document.principals["program:ci"] == before
        assert owner.app.gate.document.principal("api:ci") == ("program:ci", before)
        for line in ("/classify api:ci PUBLIC", "/block chat api:ci"):
            assert await said(owner, line) == "Programs have no chats."


@pytest.mark.anyio
async def test_an_admin_blocks_a_program_below_them_alone(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        await program(owner, "ci", Scope.STEER)
        await program(owner, "boss", Scope.ADMIN)
        ada = at(owner, "ada")
        assert "`lockgate token revoke boss` does this" in await said(ada, "/block api:boss")
        assert await said(ada, "/block api:ci") == "`api:ci` is blocked."
        assert "program:ci" not in owner.app.gate.document.principals
        assert "program:boss" in owner.app.gate.document.principals


@pytest.mark.anyio
async def test_config_names_programs_among_the_principals(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        await program(owner, "ci", Scope.STEER)
        shown = await said(owner, "/config policy")
        assert "program:ci" in shown
