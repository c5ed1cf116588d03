"""An answer while it is written: who may see it, how often, and when it is taken back."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from bot.app.app import App
from bot.delivery.previews import PACE_SECONDS
from channels.port import ChannelError
from policy.labels import Label
from tests.bot.delivery.test_outbox import Wire, opened
from tests.bot.kit import CONFIDENTIAL, INTERNAL, standing
from tests.harness import HOME

pytestmark = pytest.mark.anyio

KEY = "t1-answer"


@dataclass
class Page:
    """An application, the wire it shows previews on, and a preview at a label."""

    app: App
    wire: Wire
    taint: Label = INTERNAL
    texts: list[str] = field(default_factory=list[str])

    async def write(self, *texts: str, pause: float = PACE_SECONDS) -> list[str]:
        """Write an answer piece by piece and return what was shown."""
        preview = self.app.outbox.preview(standing(self.taint), KEY)
        for text in texts:
            await preview.show(text)
            await anyio.sleep(pause if text else 0)
        return [outbound.text for outbound in self.wire.shown]


@asynccontextmanager
async def page(folder: Path, config: str = "{}", wire: Wire | None = None) -> AsyncGenerator[Page]:
    made = wire or Wire()
    async with opened(folder, made, config) as app:
        yield Page(app, made)


async def decisions(app: App) -> list[object]:
    return [record.body["verdict"] async for record in app.chains.records("audit") if record.body.get("preview")]


async def test_what_is_written_is_shown_at_most_once_a_second_and_never_twice(tmp_path: Path) -> None:
    async with page(tmp_path) as here:
        assert await here.write(*"abcdefgh", pause=0) == ["a"]
        assert await here.write("x", "x", "xy") == ["a", "x", "xy"]
        assert [(shown.address, shown.key) for shown in here.wire.shown] == [(HOME, KEY)] * 3
        assert await decisions(here.app) == ["ALLOW"] * 3


async def test_an_empty_text_takes_back_what_was_shown_at_once(tmp_path: Path) -> None:
    async with page(tmp_path) as here:
        assert await here.write("", "a", "", pause=0) == ["a", ""]


async def test_the_readers_are_asked_again_at_every_edit(tmp_path: Path) -> None:
    both = frozenset({"console:owner", "console:stranger"})
    wire = Wire(readers=[frozenset({"console:owner"}), both, both])
    async with page(tmp_path, wire=wire) as here:
        assert await here.write("a", "ab", "abc") == ["a", ""]


async def test_nothing_is_shown_to_readers_who_are_not_cleared(tmp_path: Path) -> None:
    async with page(tmp_path, wire=Wire(readers=[frozenset({"console:stranger"})])) as here:
        here.taint = CONFIDENTIAL
        assert await here.write("a") == []
        assert await decisions(here.app) == []


RULE = {"id": "r", "hook": "PRE_OUTPUT", "action": "REDACT", "pattern": "payment-card"}


@pytest.mark.parametrize(
    "rule,shown",
    [
        (RULE, []),
        ({**RULE, "taint": ">= CONFIDENTIAL"}, ["a"]),
        ({"id": "r", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL"}, []),
        ({"id": "r", "hook": "PRE_OUTPUT", "action": "BLOCK"}, []),
    ],
)
async def test_nothing_is_shown_where_a_rule_may_judge_the_whole_otherwise(
    rule: object, shown: list[str], tmp_path: Path
) -> None:
    async with page(tmp_path, json.dumps({"policy": {"rules": [rule]}})) as here:
        assert await here.write("a") == shown


async def test_a_channel_that_shows_none_is_asked_nothing(tmp_path: Path) -> None:
    async with page(tmp_path, wire=Wire(previews=False)) as here:
        assert await here.write("a") == []
        assert await decisions(here.app) == []


async def test_a_preview_that_fails_is_no_error(tmp_path: Path) -> None:
    async with page(tmp_path, wire=Wire(fails=ChannelError("gone"))) as here:
        assert await here.write("a", "ab") == ["a", "ab"]


async def test_a_place_of_no_channel_here_has_no_preview(tmp_path: Path) -> None:
    async with page(tmp_path) as here:
        elsewhere = standing(home=HOME.__class__("telegram", "1"))
        await here.app.outbox.preview(elsewhere, KEY).show("a")
        assert here.wire.shown == []
