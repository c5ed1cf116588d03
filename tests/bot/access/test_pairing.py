"""Who is let in and kept out while Lockgate runs: a stranger asks, admins answer, people link what is theirs."""

import re
from pathlib import Path

import pytest

from bot.access.pairing import ASK_OWNER, NEEDS_ROLE, UNKNOWN_HERE
from bot.commands.admin import access
from bot.ingress.router import Routed
from bot.sessions.approvals import MOST_REQUESTS, MOST_WRONG_CODES
from bot.sessions.models import Status
from bot.store.schema import PAIRINGS
from channels.messages import Address, Inbound
from policy.labels import PUBLIC, parse
from policy.request import Role
from tests.bot.kit import policy
from tests.bot.rooms import Rooms
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

PEOPLE = {
    "owner": principal("console:owner"),
    "ada": principal("console:ada", "room:ada", role="admin", clearance="CONFIDENTIAL"),
    "bea": principal("console:bea", role="admin", clearance="INTERNAL"),
    "ben": principal("console:ben", role="member", clearance="CONFIDENTIAL"),
    "gil": principal("console:gil", role="guest", clearance="PUBLIC"),
}
ONLY_ADMINS = NEEDS_ROLE[Role.ADMIN]
CHANNELS = {"console": {"classification": "top"}, "room": {"classification": "INTERNAL"}}
PAIRED = {"role": "member", "clearance": "INTERNAL"}


def config(**more: object) -> str:
    return policy(**{"principals": PEOPLE, "channels": CHANNELS, "paired": PAIRED, **more})


def at(owner: Person, name: str) -> Person:
    """Return somebody at a private chat of his own."""
    return Person(owner.app, owner.output, Address("console", name), f"console:{name}")


async def said(person: Person, text: str) -> str:
    """Return what is said to somebody who types a command, or is refused."""
    told = await person.say(text, wait=False)
    return told.removeprefix(f"→ {person.address.chat}: ").strip()


async def code_of(person: Person) -> str:
    """Return the code that a stranger is given."""
    told = await said(person, "hello")
    found = re.search(r"code ([2-9a-hj-km-np-z]{8}) ", told)
    assert found is not None, told
    return found[1]


async def rows(owner: Person, kind: str = "access") -> list[tuple[str, dict[str, object]]]:
    found = [row async for row in owner.app.chains.records("audit")]
    return [(row.actor, {**row.body}) for row in found if row.kind == kind]


async def test_a_stranger_is_given_a_code_once_and_told_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        zoe = at(owner, "zoe")
        code = await code_of(zoe)
        for text in ("hello", "/whoami", f"/pair approve {code}", f"/pair link {code}", code):
            receipt = await zoe.send(text)
            assert receipt.outcome is Routed.REFUSED
        assert owner.shown.count("\n") == 1
        assert await owner.app.store.sessions.state(zoe.sid) is None
        stored = await owner.app.store._shared.connection.commands(("HGETALL", PAIRINGS))  # pyright: ignore[reportPrivateUsage]
        assert code.encode() not in b"".join(stored[0])
        audit = [row async for row in owner.app.chains.records("audit")]
        assert not [row for row in audit if code in str(row.body)]


async def test_in_a_shared_chat_nobody_is_told_anything(tmp_path: Path) -> None:
    rooms = Rooms({"team": frozenset({"room:zoe", "room:ada"})})
    async with running(tmp_path, config(), serve=False, channels=[rooms]) as owner:
        for account, text in (("room:zoe", "hello"), ("room:zoe", "/pair"), ("console:gil", "hello")):
            shared = Inbound(Address("room", "team"), account, text, text + account, private=False)
            assert (await owner.app.router.receive(shared)).outcome is Routed.REFUSED
        # An admin is told in private that there is such a chat.
        assert {one.address for one in rooms.sent} <= {Address("room", "ada")}
        assert await owner.app.store.access.pairings() == ()
        refused = [body["account"] for _, body in await rows(owner, "refused")]
        assert refused == ["room:zoe", "room:zoe", "console:gil"]


async def test_where_nobody_is_let_in_there_is_no_code(tmp_path: Path) -> None:
    async with running(tmp_path, config(paired=None), serve=False) as owner:
        assert await said(at(owner, "zoe"), "hello") == ASK_OWNER.format(account="console:zoe")
        assert await said(owner, "/allow console:zoe zoe") == access.NOT_PAIRED
        assert await owner.app.store.access.pairings() == ()


@pytest.mark.parametrize("text", ["/start", "/help", "hello"])
async def test_where_nobody_is_let_in_a_stranger_learns_once_an_hour_how_to_ask(tmp_path: Path, text: str) -> None:
    """Their own account is in it, and nothing of the house; however often they write, it is told once."""
    told = ASK_OWNER.format(account="console:zoe")
    async with running(tmp_path, config(paired=None), serve=False) as owner:
        zoe = at(owner, "zoe")
        assert [await said(zoe, text) for _ in range(8)] == [told, *[""] * 7]
        # As if the hour were over.
        await owner.app.store.counts.keep("told/console:zoe", 0)
        assert [await said(zoe, text) for _ in range(8)] == [told, *[""] * 7]


async def test_who_is_known_and_may_not_is_given_no_code(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        assert await said(at(owner, "gil"), "hello") == UNKNOWN_HERE
        # A member is known here, and is told that the command is for others.
        assert await said(at(owner, "ben"), "/pair list") == ONLY_ADMINS
        assert await said(at(owner, "gil"), "/pair list") == UNKNOWN_HERE
        assert await owner.app.store.access.pairings() == ()


async def test_few_wait_at_a_time(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        for number in range(MOST_REQUESTS):
            await code_of(at(owner, f"z{number}"))
        assert await said(at(owner, "late"), "hello") == ""
        assert (await said(owner, "/pair")).count(" asks, 60 minutes left") == MOST_REQUESTS


async def test_an_admin_lets_somebody_in_who_may_as_much_as_the_file_says(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        zoe, ada = at(owner, "zoe"), at(owner, "ada")
        code = await code_of(zoe)
        assert await said(ada, "/pair list") == "`console:zoe` asks, 60 minutes left"
        told = await said(ada, f"/pair approve {code.upper()} zoe")
        assert told == "`zoe` is member, cleared for INTERNAL, as console:zoe."
        assert (await said(zoe, "/whoami")).startswith("You are zoe, member, cleared for INTERNAL")
        assert "You said: hello" in await zoe.say("hello")
        assert (await zoe.state()).status is Status.IDLE
        assert await said(ada, "/pair list") == told
        ((actor, body),) = await rows(owner)
        assert actor == "ada"
        assert (body["what"], body["person"], body["account"]) == ("let in", "zoe", "console:zoe")
        assert (body["role"], body["clearance"]) == ("member", "INTERNAL")
        assert await said(ada, f"/pair approve {code} again") == access.WRONG_CODE


async def test_a_name_is_made_of_the_account_if_none_is_given(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        code = await code_of(at(owner, "Zoe.1"))
        assert (
            await said(owner, f"/pair approve {code} ben") == "`ben` is somebody already, or was, choose another name."
        )
        assert (await said(owner, f"/pair approve {code} Ben")).startswith("`Ben` is not a name")
        assert (await said(owner, f"/pair approve {code}")).startswith("`console-zoe-1` is member")


async def test_who_is_refused_is_told_nothing_and_gets_no_other_code(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        zoe = at(owner, "zoe")
        code = await code_of(zoe)
        assert "`console:zoe` is not let in" in await said(owner, f"/pair deny {code}")
        assert await said(zoe, "hello") == ""
        assert await said(owner, f"/pair approve {code}") == access.WRONG_CODE
        assert await said(owner, "/pair") == "Nobody asks, and nobody was let in."
        ((_, body),) = await rows(owner)
        assert (body["what"], body["account"]) == ("denied", "console:zoe")


async def test_codes_cannot_be_tried_out(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        code = await code_of(at(owner, "zoe"))
        ben = at(owner, "ben")
        for _ in range(MOST_WRONG_CODES):
            assert await said(ben, "/pair link 22222222") == access.WRONG_CODE
        assert "Busy" in await said(ben, f"/pair link {code}")
        assert "would act as you here" in await said(at(owner, "ada"), f"/pair link {code}")


async def test_somebody_is_sent_away_again(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        zoe = at(owner, "zoe")
        await said(owner, f"/pair approve {await code_of(zoe)} zoe")
        assert "Nobody named `zo` was let in here, did you mean `zoe`?" in await said(owner, "/pair revoke zo")
        assert await said(owner, "/pair revoke zoe") == "Nobody here is called `zoe`."
        assert "You are not known here." in await said(zoe, "/whoami")
        assert [body["what"] for _, body in await rows(owner)] == ["let in", "revoked"]
        assert "Nobody named `zoe` was let in here" in await said(owner, "/pair revoke zoe")


async def test_a_name_is_given_once_as_conversations_belong_to_it(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as owner:
        zoe = at(owner, "zoe")
        await said(owner, "/allow console:zoe zoe")
        await zoe.say("a secret of mine")
        await said(owner, "/pair revoke zoe")
        assert "choose another name" in await said(owner, "/allow console:eve zoe")
        assert "`eve` is member" in await said(owner, "/allow console:eve eve")
        assert zoe.sid not in await said(at(owner, "eve"), "/sessions")
        # Whose conversations they are comes back to them, and cannot be somebody else there.
        assert await said(owner, "/pair") == "`eve` is member, cleared for INTERNAL, as console:eve."
        assert await said(owner, "/allow console:zoe zoey") == "`console:zoe` was `zoe` here, choose that name."
        code = await code_of(zoe)
        assert "cannot be somebody else" in await said(at(owner, "ben"), f"/pair link {code} confirm")
        assert await said(owner, f"/pair approve {code}") == "`zoe` is member, cleared for INTERNAL, as console:zoe."
        assert "You said: hello" in await zoe.say("hello")


async def test_a_person_links_another_account_with_proof_from_both(tmp_path: Path) -> None:
    """The code was given to one account, and is typed in the other."""
    async with running(tmp_path, config(), serve=False) as owner:
        phone, ben = at(owner, "phone"), at(owner, "ben")
        code = await code_of(phone)
        asked = await said(ben, f"/pair link {code}")
        assert (
            asked
            == f"`console:phone` would act as you here. If that account is yours, type `/pair link {code} confirm`."
        )
        assert owner.app.gate.document.principal("console:phone") is None
        told = await said(ben, f"/pair link {code} confirm")
        assert told == "`ben` is member, cleared for CONFIDENTIAL, as console:ben, console:phone."
        assert (await said(phone, "/whoami")).startswith("You are ben, member")
        ((actor, body),) = await rows(owner)
        assert (actor, body["what"], body["account"]) == ("ben", "linked", "console:phone")
        assert await said(owner, "/pair revoke ben") == "`ben` is member, cleared for CONFIDENTIAL, as console:ben."
        assert "console:phone" not in str(owner.app.gate.document.principals)


async def test_who_was_let_in_links_another_account(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        zoe = at(owner, "zoe")
        await said(owner, f"/pair approve {await code_of(zoe)} zoe")
        code = await code_of(at(owner, "zoe2"))
        assert "console:zoe, console:zoe2" in await said(zoe, f"/pair link {code} confirm")


async def test_an_owner_links_an_account_at_the_console_alone(tmp_path: Path) -> None:
    people = {**PEOPLE, "owner": {**PEOPLE["owner"], "accounts": ["console:owner", "room:boss"]}}
    boss = Address("room", "boss")
    rooms = Rooms()
    async with running(tmp_path, config(principals=people), serve=False, channels=[rooms]) as owner:
        code = await code_of(at(owner, "phone"))
        await owner.app.router.receive(Inbound(boss, "room:boss", f"/pair link {code} confirm", "1"))
        assert rooms.said == [access.AT_THE_CONSOLE]
        assert "`owner` is owner" in await said(owner, f"/pair link {code} confirm")


async def test_a_lowered_person_stays_lowered_when_a_link_is_taken_away(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        assert await said(owner, "/allow ben PUBLIC") == "`ben` is member, cleared for PUBLIC, as console:ben."
        code = await code_of(at(owner, "phone"))
        await said(at(owner, "ben"), f"/pair link {code} confirm")
        assert await said(owner, "/pair revoke ben") == "`ben` is member, cleared for PUBLIC, as console:ben."


async def test_how_much_somebody_may_know_is_bounded_by_the_file(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        assert "allows no more" not in await said(owner, "/allow ben INTERNAL")
        told = await said(owner, "/allow ben RESTRICTED")
        assert "cleared for CONFIDENTIAL" in told
        assert told.endswith("The file config.yaml allows no more than that.")
        assert await said(owner, "/allow bne PUBLIC") == "Unknown person `bne`, did you mean `ben`?"
        assert "Unknown level `SECRET`" in await said(owner, "/allow ben SECRET")
        assert "Unknown compartment `hr`." in await said(owner, "/allow ben PUBLIC{hr}")
        changes = [(body["before"], body["after"]) for _, body in await rows(owner)]
        assert changes == [("CONFIDENTIAL", "INTERNAL"), ("INTERNAL", "CONFIDENTIAL")]


async def test_a_blocked_account_may_nothing_and_is_told_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        ada, ben, zoe = at(owner, "ada"), at(owner, "ben"), at(owner, "zoe")
        assert await said(ada, "/block console:ben") == "`console:ben` is blocked."
        assert await said(ada, "/block console:zoe") == "`console:zoe` is blocked."
        assert await said(ben, "/whoami") == await said(ben, "hello") == await said(zoe, "hello") == ""
        assert "ben" not in owner.app.gate.document.principals
        assert "as console:ben" in await said(ada, "/allow console:ben")
        assert (await said(ben, "/whoami")).startswith("You are ben")
        assert await said(ada, "/allow console:zoe") == "`console:zoe` is not blocked, and belongs to nobody."
        assert [body["what"] for _, body in await rows(owner)] == ["blocked", "blocked", "allowed", "allowed"]


async def test_an_account_is_let_in_without_a_code(tmp_path: Path) -> None:
    async with running(tmp_path, config(blocked=["console:eve"]), serve=False) as owner:
        await said(owner, "/block console:zoe")
        assert "`zoe` is member" in await said(owner, "/allow console:zoe zoe")
        assert "belongs to somebody already" in await said(owner, "/allow console:ben benny")
        assert await said(owner, "/allow console:eve eve") == "`console:eve` is blocked in config.yaml."
        assert await said(owner, "/allow konsole:x x") == "Unknown channel `konsole`, did you mean `console`?"
        assert "is no account" in await said(owner, "/block zoe")


@pytest.mark.parametrize(
    "who, text",
    [
        ("ada", "/block console:owner"),
        ("ada", "/block console:bea"),
        ("ada", "/block console:ada"),
        ("ada", "/allow bea PUBLIC"),
        ("owner", "/block console:owner"),
        ("owner", "/allow owner PUBLIC"),
    ],
)
async def test_nobody_acts_on_himself_or_on_who_is_no_less(tmp_path: Path, who: str, text: str) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        before = owner.app.gate.document
        assert "has your role or a higher one here" in await said(at(owner, who), text)
        assert owner.app.gate.document == before
        assert await rows(owner) == []


@pytest.mark.parametrize("text", ["/pair", "/pair approve 22222222", "/allow console:x x", "/block console:x"])
async def test_people_below_admin_may_none_of_it(tmp_path: Path, text: str) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        assert await said(at(owner, "ben"), text) == ONLY_ADMINS
        assert await rows(owner) == []


async def test_what_cannot_be_understood_is_answered_with_the_usage(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        for text in ("/pair approve", "/pair nonsense", "/pair link", "/pair link a b", "/allow a b c", "/block a b"):
            assert f"Write it as `{text.split()[0]} [" in await said(owner, text)
        assert "/pair [list" in await said(at(owner, "ben"), "/help pair")
        assert "Unknown command" in await said(at(owner, "ben"), "/help allow")


async def test_codes_are_typed_in_private(tmp_path: Path) -> None:
    rooms = Rooms({"team": frozenset({"room:ada"})})
    async with running(tmp_path, config(), serve=False, channels=[rooms]) as owner:
        shared = Inbound(Address("room", "team"), "room:ada", "/pair list", "1", private=False)
        await owner.app.router.receive(shared)
        assert [one.text for one in rooms.sent if one.address.chat == "team"] == [access.IN_PRIVATE]


async def test_somebody_let_in_never_exceeds_the_file_that_is_in_force_later(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        await said(owner, "/allow console:zoe zoe")
        (tmp_path / "config.yaml").write_text(config(paired={"role": "guest", "clearance": "PUBLIC"}))
        await said(owner, "/policy reload")
        found = owner.app.gate.document.principal("console:zoe")
        assert found is not None
        assert (found[1].role, found[1].clearance) == (Role.GUEST, PUBLIC)
        (tmp_path / "config.yaml").write_text(config(paired={"role": "admin", "clearance": "top"}))
        await said(owner, "/policy reload")
        found = owner.app.gate.document.principal("console:zoe")
        assert found is not None
        assert (found[1].role, found[1].clearance) == (Role.MEMBER, parse("INTERNAL"))
