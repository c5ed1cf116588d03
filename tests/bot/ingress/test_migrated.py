"""A Telegram group that becomes a supergroup while a turn runs: what is answered is said there, by the same session."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.sessions.log.events import EventType
from channels.messages import Inbound
from tests.bot.kit import policy
from tests.channels.telegram.kit import at, staged
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio


async def test_a_turn_that_runs_while_a_group_migrates_is_answered_there(tmp_path: Path) -> None:
    async with staged() as played:
        group = played.server.group("Team", played.alice)
        account = f"telegram:{played.alice.id}"
        chat = {"channel": "telegram", "chat": str(group.id), "classification": "INTERNAL", "members_vouched": True}
        config = policy(
            principals={"owner": principal("console:owner", account)},
            channels={"console": {"classification": "top"}, "telegram": {"classification": "INTERNAL"}},
            chats={"team": chat},
            recipients={},
        )
        asked = Inbound(at(group), account, "hello", "u1", private=False)
        async with running(tmp_path, config, serve=False, channels=[played.adapter]) as owner:
            await owner.app.receive(asked)
        new = played.server.migrate(group)
        async with running(tmp_path, config, channels=[played.adapter]) as owner:
            team = Person(owner.app, owner.output, at(group), account)
            await team.settled()
            await owner.app.receive(replace(asked, text="again", dedupe="u2"))
            await team.settled()
            assert [event.type for event in await team.events()].count(EventType.AGENT_MESSAGE) == 2
        assert [text for text in new.said if text.startswith("You said")] == new.said
        assert len(new.said) == 2
        assert group.said == []
