"""Programs: a token made, rotated or revoked in one process counts so in every other before its next decision."""

import asyncio
import json
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bot.access.authorize import Caller, Ingress
from bot.access.tokens import ApiCaller
from bot.core.clock import SystemClock
from bot.core.errors import OperatorError
from bot.operations.tokens import MadeToken, TokenRequest, TokenState
from bot.sessions.api_tokens import Scope
from bot.sessions.log.event_types import AgentMessage
from bot.store.records.kinds import TOKEN
from bot.store.schema import TOKENS
from bot.store.servers.clocks import StoreTime
from channels.messages import Address
from policy.labels import parse
from policy.request import Role
from tests.bot.api.kit import api_config
from tests.bot.kit import Scripted, eventually, parts, proposed
from tests.bot.test_policy_in_force import process
from tests.harness import Person, running
from tests.store.world import alter, command

pytestmark = pytest.mark.anyio

CONFIG = api_config(
    {
        "channels": {
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
            "api": {"classification": "CONFIDENTIAL~", "inbound": "PUBLIC"},
        }
    }
)
TOP = parse("RESTRICTED~")
OWNER = Caller("owner", Role.OWNER, TOP, Ingress.COMMAND)
HOUR = 3_600_000
MINUTE = 60_000


def asked(name: str = "ci", scope: Scope = Scope.STEER, clearance: str = "RESTRICTED~", life: int = 0) -> TokenRequest:
    return TokenRequest(name, scope, parse(clearance), life)


async def made(person: Person, name: str = "ci", scope: Scope = Scope.STEER, life: int = 0) -> MadeToken:
    return await person.app.token_keeper.create(asked(name, scope, life=life), OWNER)


async def shown(person: Person, text: str) -> ApiCaller | None:
    """Return whom a process takes the one for who shows a token now."""
    assert await person.app.reloader.current_now()
    return person.app.tokens.authenticate(text)


async def expire(person: Person, name: str, *, within: int = 0) -> None:
    """Let a token be one whose time is over after some ms, in every process, as its life had been so short."""
    store = person.app.store
    await store.policy.read_policy()
    await alter(store, TOKEN, TOKENS, name, expires=store.tokens.now_ms() + within)
    # Any change lets processes read it again.
    await made(person, "another")


def ci_of(person: Person) -> Person:
    return Person(person.app, person.output, Address("api", "ci", thread="t"), "api:ci")


async def test_a_token_counts_in_every_process_from_its_creation_to_its_revocation(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one, process(tmp_path, "b.yaml", CONFIG) as two:
        token = await made(one)
        first: list[ApiCaller] = []
        for person in (one, two):
            found = await shown(person, token.text)
            assert found is not None
            assert (found.name, found.principal, str(found.address)) == ("ci", "program:ci", "api::ci:")
            assert found.caller == Caller("program:ci", Role.MEMBER, TOP, Ingress.API)
            assert person.app.tokens.reader(found) == parse("CONFIDENTIAL~")
            assert person.app.tokens.still(found) == found
            first.append(found)
        again = await two.app.token_keeper.rotate("ci", 0, "owner")
        for person, before in zip((one, two), first, strict=True):
            assert await shown(person, token.text) is None
            assert await shown(person, again.text) is not None
            # What began with the last secret ends; what needs none goes on.
            assert person.app.tokens.still(before) is None
            assert person.app.tokens.of("ci") is not None
        await one.app.token_keeper.revoke("ci", "owner")
        # Here it counts no more when the change returns; the others ask before they decide.
        assert one.app.tokens.authenticate(again.text) is None
        for person in (one, two):
            assert await shown(person, again.text) is None
            assert person.app.tokens.of("ci") is None
            assert "program:ci" not in person.app.gate.document.principals
        assert not one.told
        assert not two.told


async def test_it_counts_in_a_process_that_starts_and_after_a_reload(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one:
        token = await made(one)
        await one.app.reloader.reload("owner")
        assert await shown(one, token.text) is not None
    async with process(tmp_path, "a.yaml", CONFIG) as one:
        assert await shown(one, token.text) is not None
    async with running(tmp_path, CONFIG, serve=False) as other:
        assert await shown(other, token.text) is not None


@pytest.mark.parametrize(
    "scope, role, may",
    [
        (Scope.READ, Role.MEMBER, {Scope.READ}),
        (Scope.STEER, Role.MEMBER, {Scope.READ, Scope.STEER}),
        (Scope.ADMIN, Role.ADMIN, set(Scope)),
    ],
)
async def test_a_scope_includes_those_before_it(tmp_path: Path, scope: Scope, role: Role, may: set[Scope]) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        found = await shown(owner, (await made(owner, scope=scope)).text)
        assert found is not None
        assert found.caller.role is role
        assert {one for one in Scope if found.may(one)} == may


async def test_a_token_ends_on_the_stores_clock_in_every_process(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one, process(tmp_path, "b.yaml", CONFIG) as two:
        token = await made(one, life=HOUR)
        assert await shown(two, token.text) is not None
        await expire(one, "ci", within=MINUTE)
        assert await shown(two, token.text) is not None
        for person in (one, two):
            # As after a minute without a request.
            person.app.store.time.saw(person.app.store.time.wall_ms() + MINUTE)
            # Also one that did not ask the store since: no decision is made by what is over.
            assert person.app.tokens.authenticate(token.text) is None
            assert await person.app.reloader.current()
            assert "program:ci" not in person.app.gate.document.principals
        states = {listed.token.name: listed.state for listed in await two.app.token_keeper.listed()}
        assert states == {"ci": TokenState.EXPIRED, "another": TokenState.LIVE}
        again = await two.app.token_keeper.rotate("ci", HOUR, "owner")
        assert await shown(one, again.text) is not None
        assert await shown(one, token.text) is None


async def test_a_token_ends_by_the_clock_of_the_server_that_is_ahead(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one:
        token = await made(one, life=HOUR)
        assert await shown(one, token.text) is not None
        one.app.store.time.saw(one.app.store.time.wall_ms() + 2 * HOUR)
        assert one.app.tokens.authenticate(token.text) is None
        assert await one.app.reloader.current()
        assert "program:ci" not in one.app.gate.document.principals


class Late(SystemClock):
    """A machine's clock that is two hours behind."""

    def wall_ms(self) -> int:
        return super().wall_ms() - 2 * HOUR


async def test_a_clock_that_is_late_here_is_put_right_by_what_is_read_for_each_request(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one:
        token = await made(one, life=HOUR)
        await expire(one, "ci")
        one.app.store._shared.time = StoreTime(Late())  # pyright: ignore[reportPrivateUsage] - as in a new process
        assert await shown(one, token.text) is None


async def test_a_name_is_never_given_again(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        await made(owner)
        with pytest.raises(OperatorError, match="never given again"):
            await made(owner)
        await owner.app.token_keeper.revoke("ci", "owner")
        with pytest.raises(OperatorError, match="never given again"):
            await made(owner)
        for name in ("", "Ci", "a:b", "x" * 65):
            with pytest.raises(OperatorError, match="not a name"):
                await made(owner, name)


async def test_what_counts_no_more_is_neither_rotated_nor_revoked(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        await made(owner)
        await owner.app.token_keeper.revoke("ci", "owner")
        for name in ("ci", "none"):
            with pytest.raises(OperatorError, match="no token"):
                await owner.app.token_keeper.rotate(name, 0, "owner")
            with pytest.raises(OperatorError, match="no token"):
                await owner.app.token_keeper.revoke(name, "owner")
        (listed,) = await owner.app.token_keeper.listed()
        assert listed.state is TokenState.REVOKED


async def test_no_token_knows_more_than_who_made_it(tmp_path: Path) -> None:
    low = Caller("ann", Role.ADMIN, parse("INTERNAL"), Ingress.COMMAND)
    async with running(tmp_path, CONFIG, serve=False) as owner:
        with pytest.raises(OperatorError, match="no more than who makes it"):
            await owner.app.token_keeper.create(asked(clearance="CONFIDENTIAL"), low)
        assert (await owner.app.token_keeper.create(asked(clearance="INTERNAL~"), low)).token.created_by == "ann"


async def test_a_file_that_does_not_know_its_compartment_or_channel_lets_it_in_nowhere(tmp_path: Path) -> None:
    channels = {"console": {"classification": "top"}, "api": {"classification": "top"}}
    acme = api_config({"channels": channels, "compartments": ["acme"]})
    async with running(tmp_path, acme, serve=False) as owner:
        made_by = Caller("owner", Role.OWNER, parse("RESTRICTED{acme}~"), Ingress.COMMAND)
        token = await owner.app.token_keeper.create(asked(clearance="INTERNAL{acme}"), made_by)
        assert await shown(owner, token.text) is not None
    for other in (CONFIG, "{}\n"):
        async with running(tmp_path, other, serve=False) as owner:
            assert await shown(owner, token.text) is None
            (listed,) = await owner.app.token_keeper.listed()
            assert listed.state is TokenState.VOID
    async with running(tmp_path, acme, serve=False) as owner:
        assert await shown(owner, token.text) is not None


@contextmanager
def called() -> Generator[list[str]]:
    """Note every function that is called meanwhile, ours and the libraries', in order."""
    names: list[str] = []

    def note(frame: FrameType, event: str, about: Any) -> None:  # noqa: ANN401 - what the interpreter gives
        if event == "call":
            names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}")
        elif event == "c_call":
            names.append(about.__qualname__)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)


async def test_all_refusals_go_one_way(tmp_path: Path) -> None:
    """Nothing done for a text that is refused tells what is wrong with it: the same calls in the same order."""
    async with running(tmp_path, CONFIG, serve=False) as owner:
        revoked, expired = await made(owner, "gone"), await made(owner, "late", life=HOUR)
        rotated, live = await made(owner, "turned"), await made(owner, "ci")
        await owner.app.token_keeper.revoke("gone", "owner")
        await owner.app.token_keeper.rotate("turned", 0, "owner")
        await expire(owner, "late")
        lg, token_id, secret = live.text.split("_")
        last = "b" if secret[-1] == "a" else "a"
        texts = {
            "unknown": "lg_aaaaaaaaaaaaaaaa_" + "a" * 52,
            "wrong secret": f"{lg}_{token_id}_{secret[:-1]}{last}",
            "longer": f"{live.text}a",
            "in capitals": live.text.upper(),
            "no token": "hello",
            "empty": "",
            "a surrogate": "\udcff",
            "revoked": revoked.text,
            "expired": expired.text,
            "rotated": rotated.text,
            "a digest": live.token.digest,
        }
        assert await owner.app.reloader.current_now()
        # The first look makes an index of all accounts.
        assert owner.app.tokens.authenticate("") is None
        ways: dict[str, list[str]] = {}
        for what, text in texts.items():
            with called() as names:
                assert owner.app.tokens.authenticate(text) is None
            ways[what] = names
        assert len(ways["unknown"]) > 5
        assert {what for what, way in ways.items() if way != ways["unknown"]} == set()
        assert await shown(owner, live.text) is not None


READ: Mapping[bytes, Callable[[bytes], tuple[str | bytes | int, ...]]] = {
    b"hash": lambda name: ("HGETALL", name),
    b"list": lambda name: ("LRANGE", name, 0, -1),
    b"stream": lambda name: ("XRANGE", name, "-", "+"),
    b"string": lambda name: ("GET", name),
    b"set": lambda name: ("SMEMBERS", name),
    b"zset": lambda name: ("ZRANGE", name, 0, -1),
}


async def everything(person: Person) -> str:
    """Return all that the store holds, names and values."""
    found: list[object] = []
    for name in await command(person.app.store, "KEYS", "*"):
        kind: bytes = await command(person.app.store, "TYPE", name)
        found += [name, await command(person.app.store, *READ[kind](name)) if kind in READ else None]
    return repr(found)


def files_of(folder: Path) -> list[str]:
    return [path.read_text(errors="ignore") for path in folder.rglob("*") if path.is_file()]


async def test_the_text_of_a_token_is_kept_and_told_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    async with process(tmp_path, "a.yaml", CONFIG) as one:
        token = await made(one)
        found = await shown(one, token.text)
        assert found is not None
        assert await shown(one, f"{token.text}x") is None
        again = await one.app.token_keeper.rotate("ci", 0, "owner")
        secrets = [made.text.split("_")[2] for made in (token, again)]
        told = [
            await one.say("/config", wait=False),
            await one.say("/policy", wait=False),
            await one.say("/audit", wait=False),
            "".join([repr(row) async for row in one.app.chains.records("audit")]),
            json.dumps([str(listed) for listed in await one.app.token_keeper.listed()]),
            repr((token, again, found, one.app.tokens)),
            caplog.text,
            "".join(capsys.readouterr()),
            *await asyncio.to_thread(files_of, tmp_path),
        ]
        kept = await everything(one)
        for secret in secrets:
            assert secret not in kept
            assert not [text for text in told if secret in text]
        # What is looked through is what there is: it has the digest, which is told to nobody.
        assert again.token.digest in kept
        assert not [text for text in told if again.token.digest in text]
        rows = [row async for row in one.app.chains.records("audit") if row.kind == "token"]
        assert [(row.actor, row.body["change"], row.body["program"]) for row in rows] == [
            ("owner", "create", "ci"),
            ("owner", "rotate", "ci"),
        ]


async def test_the_sessions_of_a_program_that_is_revoked_stand_still(tmp_path: Path) -> None:
    """As those of a person who was sent away: also a turn under way, and what waits behind it."""
    thinking = asyncio.Event()
    model = Scripted([proposed("read_file", {"path": "internal/handbook.md"})], "done", wait=thinking)
    async with running(tmp_path, CONFIG, parts=parts(model=model)) as owner:
        await made(owner)
        ci = ci_of(owner)
        await ci.send("read it")

        async def asked_the_model() -> bool:
            return bool(model.asked)

        await eventually(asked_the_model)
        await owner.app.token_keeper.revoke("ci", "owner")
        thinking.set()
        state = await ci.settled()
        assert state is not None
        assert state.principal == "program:ci"
        assert state.taint == parse("PUBLIC")
        said = [event.body.text for event in await ci.events() if isinstance(event.body, AgentMessage)]
        assert "done" not in said
        refused = await ci.send("go on")
        assert refused.outcome.value != "accepted"


async def test_a_block_of_its_account_shuts_a_program_out_until_it_is_lifted(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", CONFIG) as one:
        token = await made(one)
        assert "blocked" in await one.say("/block api:ci", wait=False)
        assert await shown(one, token.text) is None
        assert one.app.gate.document.principals.get("program:ci") is None
        assert "`program:ci` is member" in await one.say("/allow api:ci", wait=False)
        assert await shown(one, token.text) is not None
