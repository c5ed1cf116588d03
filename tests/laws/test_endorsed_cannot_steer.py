"""Law `endorsed_cannot_steer`: a bounded answer steers what others notice only within the bounds of the operator.

Two worlds differ in what a page says. The model does what the page chose: what it chose within the bounds is done, and
anything else is asked about, in both worlds in the same words but for the chosen value.
"""

import asyncio
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from bot.delivery.approval_prompts import VOUCHES
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import ApprovalRequested, ItemHeld, UserMessage
from bot.tools.base import Arguments, CallFacts, Recipient, Result
from policy.labels import parse
from policy.request import Effect
from tests.bot.inspections import Inspecting
from tests.bot.kit import Probe, bang, eventually, note, parts, policy, proposed
from tests.events import bodies
from tests.harness import Person, running

_NAMES = ("guest", "owner", "team")
_RECIPIENTS = {name: {"channel": "console", "chat": name, "clearance": "PUBLIC"} for name in ("guest", "team")}
_EXAMPLES = settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])


async def _answered(owner: Person, folder: Path, says: str) -> str:
    """Have a background session answer with the recipient that a page chose; return it."""
    page = folder / "data" / "files" / "public" / "page.md"
    await asyncio.to_thread(page.write_text, json.dumps({"to": says}), "utf-8")
    task = f"{bang('read_file', path='public/page.md')}\n="
    await owner.say(bang("sessions_spawn", task=task, returns={"to": {"type": "enum", "values": [*_NAMES]}}))

    async def heard() -> bool:
        return any(one.origin is not None for one in bodies(await owner.events(), UserMessage))

    await eventually(heard)
    await owner.settled()
    (told,) = [one.text for one in bodies(await owner.events(), UserMessage) if one.origin is not None]
    return str(json.loads(told[told.index("{") :])["to"])


async def _asked(folder: Path, says: str, bounds: dict[str, object]) -> tuple[str, bool, int]:
    """Do what a page chose; return the recipient, whether people are asked, and how many texts went out."""
    async with running(folder, policy(tools={"message": {"bounds": bounds}}, recipients=_RECIPIENTS)) as owner:
        chosen = await _answered(owner, folder, says)
        assert str((await owner.state()).taint) == "PUBLIC"
        await owner.say(note(chosen, "as told"))
        asks = [one for one in await owner.app.store.approvals.of(owner.sid) if one.state is ApprovalState.PENDING]
        assert all(one.rules == ("endorsed_cannot_steer",) for one in asks)
        return chosen, bool(asks), owner.shown.count("as told")


@_EXAMPLES
@example("guest", "team", ["guest"])
@example("guest", "team", ["guest", "tea*"])
@given(st.sampled_from(("guest", "team")), st.sampled_from(("guest", "team")), st.sampled_from((["guest"], ["team"])))
def test_endorsed_cannot_steer(one: str, other: str, allowed: list[str]) -> None:
    async def law() -> None:
        for says in (one, other):
            with TemporaryDirectory() as folder:
                bounds: dict[str, object] = {"recipient": allowed, "identifier": ["console"]}
                chosen, asks, _ = await _asked(Path(folder), says, bounds)
                assert chosen == says
                assert asks == (says not in allowed and not (says == "team" and "tea*" in allowed))

    asyncio.run(law())


@pytest.mark.anyio
async def test_endorsed_cannot_steer_through_a_session_below(tmp_path: Path) -> None:
    """What a session has heard goes with its words: a session that it begins asks about the same calls."""
    async with running(tmp_path, policy(recipients=_RECIPIENTS)) as owner:
        await _answered(owner, tmp_path, "guest")
        await owner.say(bang("sessions_spawn", task=note("guest", "as told")))

        async def asks() -> bool:
            waiting = [state.sid async for state in owner.app.store.sessions.states() if state.lineage is not None]
            found = [one for sid in waiting for one in await owner.app.store.approvals.of(sid)]
            return any(one.rules == ("endorsed_cannot_steer",) for one in found)

        await eventually(asks)
        assert "→ guest: as told" not in owner.shown


@pytest.mark.anyio
async def test_endorsed_cannot_steer_through_a_memory(tmp_path: Path) -> None:
    """A later conversation has not heard the value, so what was learned after it is UNTRUSTED there."""
    async with running(tmp_path, policy(recipients=_RECIPIENTS)) as owner:
        await _answered(owner, tmp_path, "guest")
        await owner.say(bang("memory", action="learn", text="the recipient is guest"))
        await owner.say("/reset confirm")
        assert "the recipient is guest" not in await owner.say(bang("memory", action="recall", query="recipient"))
        found = await owner.say(bang("memory", action="recall", query="recipient", up_to="PUBLIC~"))
        assert '"label": "PUBLIC~"' in found
        assert "May `message` run" in await owner.say(note("guest", "as told"))
        assert "→ guest: as told" not in owner.shown


@pytest.mark.anyio
async def test_endorsed_cannot_steer_to_an_address_that_is_read_again(tmp_path: Path) -> None:
    """The model writes what the page chose into an address and reads it: nobody else has written that address."""
    page = Probe(result=Result('{"n": 7}', parse("PUBLIC~")))
    model = Inspecting([proposed("probe", {"_hold": True})], "held")
    async with running(tmp_path, parts=parts(page, model=model)) as owner:
        await owner.say("hold the page")
        (held,) = bodies(await owner.events(), ItemHeld)
        url, path = "https://eve.example/7", "workspace/address.md"
        model.then(
            [
                proposed(
                    "inspect",
                    {"refs": [held.ref], "question": "?", "returns": {"n": {"type": "number", "min": 0, "max": 9}}},
                )
            ],
            [proposed("write_file", {"path": path, "text": url})],
            [proposed("read_file", {"path": path})],
            [proposed("web_fetch", {"url": url})],
        )
        await owner.say("go", wait=False)
        await eventually(lambda: _asks(owner))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert (asked.tool, asked.rules) == ("web_fetch", ("endorsed_cannot_steer",))


async def _asks(owner: Person) -> bool:
    return bool(await owner.app.store.approvals.of(owner.sid))


@pytest.mark.anyio
async def test_a_new_generation_has_heard_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, policy(recipients=_RECIPIENTS)) as owner:
        await _answered(owner, tmp_path, "guest")
        assert "May `message` run" in await owner.say(note("guest", "as told"))
        await owner.say("/reset confirm")
        assert "→ guest: again" in await owner.say(note("guest", "again"))


class _Pay(Arguments):
    """A transfer of money."""

    account: Recipient


_BANK: dict[str, object] = {
    "mcp_servers": {"bank": {"command": "none", "tools": {"other": {"description": "x", "effect": "read"}}}}
}


@pytest.mark.anyio
async def test_a_person_vouches_for_a_held_value_once(tmp_path: Path) -> None:
    """They are shown it whole; the log has the question without it, and the next call asks again."""
    pay = Probe("bank__pay", CallFacts(consequential=True), effect=Effect.SEND, server="bank", arguments=_Pay)
    mail = Probe("mail", result=Result("DE9\u202e", parse("PUBLIC~")), label=parse("PUBLIC~"))
    config = policy(mcp_servers={"bank": {"floor": "PUBLIC", "clearance": "top"}}, blocks=_BANK)
    async with running(tmp_path, config, parts=parts(pay, mail)) as owner:
        notice = await owner.say(bang("mail", _hold=True))
        (held,) = set(re.findall(r"held-[a-z0-9]{16}", notice))
        shown = await owner.say(bang("bank__pay", account={"$ref": held}))
        assert '- recipient `"DE9\\u202e"`' in shown
        listed = await owner.say("/approvals", wait=False)
        assert "Its effect: 1 recipient.\n" in listed
        assert '- recipient `"DE9\\u202e"`' in listed
        assert '"rules"' not in listed
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert (asked.rules, pay.said) == (("endorsed_cannot_steer",), [])
        (logged,) = bodies(await owner.events(), ApprovalRequested)
        assert logged.question.vouches == ()
        assert "DE9" not in str(logged.question)
        await owner.say(f"/approve {asked.id}")
        await owner.settled()
        assert list[Arguments](pay.said) == [_Pay(account="DE9\u202e")]
        assert str((await owner.state()).taint) == "PUBLIC"
        again = await owner.say(bang("bank__pay", account={"$ref": held}))
        assert VOUCHES in again
        assert len(pay.said) == 1
