"""`/audit trace`: rows of the audit, and what came from what, as far as the address that answers may know."""

from pathlib import Path

import pytest

from bot.lineage.tracer import NOT_SHOWN
from channels.messages import Address
from tests.bot.kit import bang, policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

CONFIG = policy(
    principals={
        "owner": principal("console:owner"),
        "ada": principal("console:ada", role="admin", clearance="INTERNAL"),
    }
)


async def test_an_admin_traces_what_flows_to_them_and_nothing_above(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG) as owner:
        ada = Person(owner.app, owner.output, Address("console", "ada"), "console:ada")
        await owner.say(bang("read_file", path="public/welcome.md"))
        shown = await ada.say(f"/audit trace {owner.sid}")
        assert "file:public/welcome.md#" in shown
        assert NOT_SHOWN in shown
        went = await ada.say("/audit trace file:public/welcome.md forward")
        assert "Who has seen it" in went
        assert "console::owner" in went
        high = Person(owner.app, owner.output, Address("console", "high"), "console:owner")
        await high.say(bang("read_file", path="confidential/pipeline.md"))
        absent = await ada.say(f"/audit trace {'a' * 32}")
        for name in (high.sid, "file:confidential/pipeline.md"):
            assert await ada.say(f"/audit trace {name}") == absent
        assert high.sid not in await ada.say("/audit trace file:public/welcome.md forward")


async def test_pages_rows_and_mistakes(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG) as owner:
        for number in range(16):
            await owner.say(f"number {number}")
        page = await owner.say(f"/audit trace {owner.sid}")
        assert f"More with `/audit trace {owner.sid} back 30`." in page
        assert "message of owner" in await owner.say(f"/audit trace {owner.sid} back 30")
        row = (await owner.say(f"/audit tail {owner.sid} 1")).split(f"{owner.sid}:")[1][:12]
        assert "kind" in await owner.say(f"/audit trace {owner.sid}:{row}") or row
        assert "This is no id that can be traced" in await owner.say("/audit trace yesterday")
        assert "/audit [tail" in await owner.say("/audit trace")
