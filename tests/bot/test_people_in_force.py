"""Groups, ends of access and compartments in a running application: each decision is by the policy of that moment."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

from bot.cli.policy import who
from bot.config.load import load_config
from bot.delivery.outbox import REMOVED_REPLY
from bot.policy_state import PolicyReloader
from bot.sessions.audit import AuditRow, PolicyHead
from bot.tools import catalogue
from bot.worker.finish import REMOVED_HERE
from channels.messages import Address
from policy.labels import parse
from tests.bot.clock import Clock
from tests.bot.kit import bang, gate, policy
from tests.harness import Person, running
from tests.people import principal

if TYPE_CHECKING:
    from bot.sessions.ports.store import Store

pytestmark = pytest.mark.anyio

FOLDERS: Final = {
    "public": {"floor": "PUBLIC", "clearance": "PUBLIC"},
    "hr": {"floor": "CONFIDENTIAL{hr}", "clearance": "CONFIDENTIAL{hr}", "integrity": "TRUSTED"},
}
ASKING: Final = {
    "id": "second-look",
    "hook": "PRE_TOOL_CALL",
    "tools": ["write_file"],
    "action": "REQUIRE_APPROVAL",
    "approvers_among": ["seniors"],
}
WRITE: Final = bang("write_file", path="public/plan.md", text="hello")


def staff(*seniors: str, until: str | None = None) -> str:
    """Return a configuration of three people, some of them in the group of seniors; Ben's access may end."""
    ben = principal("console:user-ben", role="member", clearance="PUBLIC")
    people = {
        "owner": principal("console:owner"),
        "ann": principal("console:user-ann", role="member", clearance="PUBLIC"),
        "ben": ben if until is None else {**ben, "until": until},
    }
    group = {"members": list(seniors), "role": "approver", "clearance": "CONFIDENTIAL{hr}", "may_release": True}
    return policy(
        compartments=["hr"],
        principals=people,
        groups={"seniors": group},
        folders=FOLDERS,
        rules=[ASKING],
        blocks={"agents": {"helper": {"people": ["seniors"]}}},
    )


def of(owner: Person, name: str) -> Person:
    return Person(owner.app, owner.output, Address("console", f"user-{name}"), f"console:user-{name}")


async def reload(owner: Person, folder: Path, text: str) -> str:
    (folder / "config.yaml").write_text(text)
    return await owner.say("/policy reload")


async def test_a_member_who_is_removed_loses_access_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, staff("ann")) as owner:
        ann, ben = of(owner, "ann"), of(owner, "ben")
        assert "You are ann, approver, cleared for CONFIDENTIAL{hr}." in await ann.say("/whoami")
        assert "- group seniors (cleared for CONFIDENTIAL{hr}, at least approver, may release): ann" in await owner.say(
            "/policy"
        )
        assert owner.app.agents.named_for("ann").name == "helper"
        assert "Unknown command" not in await ann.say("/release last to guest")
        asked = await ben.say(WRITE)
        (question,) = re.findall(r"/deny (\w+)", asked)[:1]
        assert "seniors" not in asked  # who may answer is not told to the asker by names
        assert f"{question}" in await ann.say("/approvals")
        await reload(owner, tmp_path, staff())
        assert "You are ann, member, cleared for PUBLIC." in await ann.say("/whoami")
        assert owner.app.agents.named_for("ann").name == "default"
        assert question not in await ann.say("/approvals")
        refused = await ann.say(f"/approve {question}")
        assert "write_file: " not in refused
        assert not (owner.app.config.data_dir / "files" / "public" / "plan.md").exists()
        assert "Unknown command" in await ann.say("/release last to guest")
        # An admin of the right role who is no senior may not answer either, and a senior may.
        await owner.say(f"/approve {question}")
        await ben.settled()
        assert not (owner.app.config.data_dir / "files" / "public" / "plan.md").exists()
        await reload(owner, tmp_path, staff("ann"))
        await ann.say(f"/approve {question}")
        await ben.settled()
        assert (owner.app.config.data_dir / "files" / "public" / "plan.md").exists()


async def test_a_person_whose_access_ends_is_unknown_from_that_moment(tmp_path: Path) -> None:
    """No message and no other event stands between: the next use of the policy looks at the time."""
    async with running(tmp_path, staff("ann", until="2999-01-01")) as owner:
        ann, ben = of(owner, "ann"), of(owner, "ben")
        (question,) = re.findall(r"/deny (\w+)", await ben.say(WRITE))[:1]
        assert "- access of ben ends 2999-01-02 00:00:00 UTC" in await owner.say("/policy")
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        await reload(owner, tmp_path, staff("ann", until=f"{soon:%Y-%m-%dT%H:%M:%S}Z"))
        while datetime.now(UTC) < soon:  # noqa: ASYNC110 - the moment itself is awaited
            await asyncio.sleep(0.05)
        assert "ben" not in owner.app.gate.document.principals
        await ben.send("/whoami")
        assert "You are not known here." in owner.shown
        # A question that they asked leads to nothing.
        await ann.say(f"/approve {question}")
        await ben.settled()
        assert not (owner.app.config.data_dir / "files" / "public" / "plan.md").exists()
        assert "Unknown person `ben`" in await owner.say("/allow ben PUBLIC")


async def test_a_compartment_is_added_and_removed_without_a_restart(tmp_path: Path) -> None:
    added = policy(compartments=["hr"], folders=FOLDERS)
    async with running(tmp_path) as owner:
        await owner.say("hello")
        assert "is in force." in await reload(owner, tmp_path, added)
        folder = owner.app.config.data_dir / "files" / "hr"
        folder.mkdir(parents=True)
        (folder / "pay.md").write_text("the pay")
        assert "read_file: the pay" in await owner.say(bang("read_file", path="hr/pay.md"))
        assert (await owner.state()).taint == parse("CONFIDENTIAL{hr}")
        told = await reload(owner, tmp_path, "{}\n")
        assert "Compartment `hr` was removed" in told
        for typed, answer in (("hello", REMOVED_HERE), ("/status", REMOVED_REPLY), ("/why", REMOVED_REPLY)):
            shown = " ".join((await owner.say(typed)).split())
            assert answer in shown
            assert "`hr`" not in shown
        assert "A new conversation begins" in await owner.say("/reset confirm")
        assert "You said: hello" in await owner.say("hello")


async def test_a_reader_below_the_rest_of_the_taint_is_told_of_no_compartment(tmp_path: Path) -> None:
    lowered = policy(principals={"owner": principal("console:owner", clearance="INTERNAL~")})
    async with running(tmp_path, policy(compartments=["hr"], folders=FOLDERS)) as owner:
        folder = owner.app.config.data_dir / "files" / "hr"
        folder.mkdir(parents=True)
        (folder / "pay.md").write_text("the pay")
        await owner.say(bang("read_file", path="hr/pay.md"))
        await reload(owner, tmp_path, lowered)
        for typed in ("hello", "/status"):
            assert "compartment" not in await owner.say(typed)


class StoreClock:
    """The part of a store that a reload uses, on a clock that a test moves."""

    def __init__(self, clock: Clock) -> None:
        self.tokens = self.policy = self
        self.now_ms = clock.wall_ms

    async def put_policy(self, digest: str, process: str, _rows: tuple[AuditRow, ...]) -> PolicyHead:
        return PolicyHead(digest, self.now_ms(), process)


class RightKeys:
    """Those of the installation."""

    problem = None


async def test_a_clock_that_is_set_back_lets_nobody_in_again(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "config.yaml"
    path.write_text(staff("ann", until="2030-01-01T00:00:10Z"))
    config = await asyncio.to_thread(load_config, path, {}, catalogue.ARGUMENTS)
    clock.seconds = start = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    there = gate((), config.policy)
    store = cast("Store", StoreClock(clock))
    reloader = PolicyReloader(there, config, load=lambda: config, store=store, process="p", keys=RightKeys())
    assert there.document.groups_of("ann") == {"seniors"}
    for seconds, known in ((9.999, True), (10, False), (0, False)):
        clock.seconds = start + seconds
        assert ("ben" in there.document.principals) == known
    assert not (await reloader.reload("owner")).problem
    assert "ben" not in there.document.principals


async def test_the_access_matrix_says_that_another_policy_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator who edited the file must not take its rights for those in force."""
    async with running(tmp_path, staff("ann")) as owner:
        capsys.readouterr()
        await who(owner.app.config, "INTERNAL", as_json=False)
        assert "another decides" not in capsys.readouterr().out
        edited = staff("ann", until="2020-01-01")
        (tmp_path / "config.yaml").write_text(edited)
        config = replace(owner.app.config, policy=(await owner.app.reloader.read()).policy)
        await who(config, "INTERNAL", as_json=False)
        assert "this is the file's policy, and another decides: policy " in capsys.readouterr().out
