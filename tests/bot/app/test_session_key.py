"""Another session key in an installation: people, programs and strangers with a code go on as before."""

from pathlib import Path

import pytest

from bot.access.authorize import Caller, Ingress
from bot.app.keys import SESSION_KEY_VARIABLE
from bot.core.errors import OperatorError, SealedError
from bot.core.ids import session_id
from bot.operations.keys import KeyState
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from channels.messages import Address, Inbound
from policy.labels import PUBLIC, parse
from policy.request import Role
from tests.bot.access.test_pairing import at, code_of, config, said
from tests.bot.kit import bang
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

OWNER = Caller("owner", Role.OWNER, parse("RESTRICTED~"), Ingress.COMMAND)


def paired() -> str:
    return config(
        channels={
            "console": {"classification": "top", "overshoot": "allow"},
            "room": {"classification": "INTERNAL"},
            "api": {"classification": "INTERNAL", "inbound": "PUBLIC"},
        }
    )


async def token(person: Person, name: str) -> str:
    made = await person.app.token_keeper.create(TokenRequest(name, Scope.STEER, PUBLIC, 0), OWNER)
    return made.text


async def test_everything_that_came_from_the_old_key_goes_on(tmp_path: Path) -> None:
    place = Address("console", "owner", thread="harbour")
    async with running(tmp_path, paired()) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        sid, before, code = owner.sid, await owner.state(), await code_of(at(owner, "zoe"))
        program = await token(owner, "crane")
        keeper = owner.app.key_keeper()
        made = await keeper.rotate_session("owner")
        assert [one.state for one in await keeper.listed() if one.use == "session"] == [KeyState.IN_FORCE, KeyState.OLD]
        # Here it counts at once: the conversation keeps its id and its taint, a new one has one of the new key.
        receipt = await owner.send("and again")
        assert receipt.sid == sid
        new = await owner.app.router.receive(_typed(place))
        assert new.sid == owner.app.session_id(place)
        assert owner.app.tokens.authenticate(program) is not None
        (row,) = [row.body async for row in owner.app.chains.records("audit") if row.kind == "key"]
        assert (row["change"], row["key"], row["new"]) == ("rotate", "session", made.name)
    async with running(tmp_path, paired()) as owner:
        assert owner.sid != sid
        assert (await owner.send("once more")).sid == sid
        state = await owner.app.store.sessions.state(sid)
        assert state is not None
        assert state.taint == before.taint != PUBLIC
        assert owner.app.tokens.authenticate(program) is not None
        assert owner.app.tokens.authenticate(await token(owner, "barge")) is not None
        assert "`console-zoe` is member" in await said(owner, f"/pair approve {code}")


def _typed(place: Address, identity: str = "new") -> Inbound:
    return Inbound(place, "console:owner", "hello", identity)


async def test_a_process_without_the_newest_key_takes_nothing_where_another_began(tmp_path: Path) -> None:
    """Keys of the environment are those of the start: the message is kept by its platform, and the log says why."""
    old, new = "11" * 32, "22" * 32
    stale, ahead = ({SESSION_KEY_VARIABLE: keys} for keys in (old, f"{new},{old}"))
    place = Address("console", "owner", thread="harbour")
    async with running(tmp_path, environment=stale, serve=False) as owner:
        first = (await owner.send("hello")).sid
        async with running(tmp_path, environment=ahead, serve=False) as after:
            with pytest.raises(OperatorError, match="LOCKGATE_SESSION_KEY has the session key"):
                await after.app.key_keeper().rotate_session("owner")
            assert (await after.send("hello again")).sid == first
            begun = (await after.app.router.receive(_typed(place))).sid
            assert begun == session_id(bytes.fromhex(new), str(place))
            with pytest.raises(SealedError, match="a newer session key"):
                await owner.app.router.receive(_typed(place, "another"))
            assert await owner.app.store.sessions.state(owner.app.session_id(place)) is None
            assert (await owner.send("and again")).sid == first
