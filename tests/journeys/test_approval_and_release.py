"""Three stories of people who let something out, or begin anew, each read from top to bottom.

The second person of the first story sits at another chat, so it is told within one application; the others are told at
the command line.
"""

import json
from pathlib import Path

import pytest

from channels.messages import Address
from tests.bot.kit import bang, policy
from tests.harness import Person, running
from tests.journeys.machine import Machine
from tests.people import principal

READ = '!read_file {"path": "confidential/pipeline.md"}'
SEND = '!message {"channel": "console", "recipient": "guest", "text": "lunch at noon"}'
OWNER = principal("console:owner")


@pytest.mark.anyio
async def test_an_approval(tmp_path: Path) -> None:
    """Two notices are to be published; a rule wants an admin's word, who says yes to one of them from his own chat."""
    config = policy(
        principals={
            "owner": OWNER,
            "ada": principal("console:ada", role="admin", clearance="INTERNAL"),
            "max": principal("console:max", role="approver", clearance="INTERNAL"),
        },
        recipients={name: {"channel": "console", "chat": name, "clearance": "top"} for name in ("owner", "ada", "max")},
        rules=[
            {
                "id": "an-admin-looks",
                "hook": "PRE_TOOL_CALL",
                "tools": ["write_file"],
                "action": "REQUIRE_APPROVAL",
                "approvers": ["admin"],
                "timeout": "2h",
            }
        ],
    )
    async with running(tmp_path, config) as owner:
        ada, max_ = (
            Person(owner.app, owner.output, Address("console", name), f"console:{name}") for name in ("ada", "max")
        )
        both = [bang("write_file", path=f"public/{name}.md", text=f"the {name}") for name in ("menu", "rent")]

        asked = await owner.say("\n".join(both))
        assert asked.count("May `write_file` run with exactly these arguments?") == 4, "at home and at Ada's"
        assert "→ ada: One answer is for all 2" in asked
        assert "→ max" not in asked
        name = asked.split("`/approve ")[1].split("`")[0]

        assert "has to answer: an" in await owner.say(f"/approve {name}")
        assert "Nothing waits for an answer." in await max_.say("/approvals")
        assert "120 min left" in await ada.say("/approvals")

        assert f"{name}-1 approved" in await ada.say(f"/approve {name}-1")
        assert f"{name}-2 denied" in await ada.say(f"/deny {name}")
        await owner.settled()
        assert (tmp_path / "data/files/public/menu.md").read_text() == "the menu"
        assert not (tmp_path / "data/files/public/rent.md").exists()
        assert "a person refused this call" in owner.shown


def test_a_release(machine: Machine) -> None:
    """A confidential conversation wrote a line that may go out; the owner, who holds the right, lets exactly it out."""
    principals = {"owner": {**OWNER, "may_release": True}}
    (machine.folder / "config.yaml").write_text(json.dumps({"policy": {"principals": principals}}))

    first = machine.chat(READ, SEND, "/why", "we are open on Monday", "/release last to guest")
    assert "· message refused by no_write_down" in first.out
    assert "`/release last to RECIPIENT`" in first.out
    assert "| You said: we are open on Monday" in first.out
    assert "→ guest:" not in first.out
    code = first.out.split("/release confirm ")[1].split("`")[0]

    second = machine.chat(f"/release confirm {code}", f"/release confirm {code}", "/taint")
    assert second.out.count("→ guest: You said: we are open on Monday") == 1
    assert f"Released under {code}: sent" in second.out
    assert "There is nothing of that name here" in second.out
    assert "Taint CONFIDENTIAL~." in second.out


def test_reset_and_send(machine: Machine) -> None:
    """What a session that read too much may not send, one that begins anew may; the text is typed again."""
    refused = machine.chat(READ, SEND)
    assert "· message refused by no_write_down" in refused.out
    assert "You can: start anew with `/reset` and send it again" in refused.out

    anew = machine.chat("/reset", "/reset confirm", "/taint", "send it now")
    assert "A new conversation begins, taint PUBLIC" in anew.out
    assert "→ guest:" not in anew.out, "nothing is carried over"
    assert "lunch" not in anew.out.split("A new conversation begins")[1]

    sent = machine.chat(SEND)
    assert sent.out.count("→ guest: lunch at noon") == 1
