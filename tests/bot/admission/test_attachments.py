"""Files on their way from people on the played platforms to what the model reads."""

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai.messages import BinaryContent, UserPromptPart

from bot.app.extensions import Extensions
from channels.messages import Address
from channels.port import Platform
from tests.bot.admission.file_channel import OGG, PNG
from tests.bot.kit import Scripted, parts, policy
from tests.channels.slack.kit import staged as slack_staged
from tests.channels.telegram.kit import staged as telegram_staged
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio


def configured(account: str) -> str:
    """Return a configuration for one person of a platform."""
    platform = account.partition(":")[0]
    return policy(
        principals={
            "owner": principal("console:owner"),
            "alice": principal(account, role="member", clearance="INTERNAL"),
        },
        channels={
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
            platform: {"classification": "INTERNAL", "inbound": "PUBLIC", "overshoot": "allow"},
        },
    )


@asynccontextmanager
async def listening(
    folder: Path, platform: Platform, account: str, home: Address, made: Extensions
) -> AsyncGenerator[Person]:
    """Open an application that listens to a platform, and a person of it."""
    async with running(folder, configured(account), parts=made, channels=[platform]) as owner:
        serving = asyncio.create_task(platform.serve(owner.app.receive))
        try:
            yield Person(owner.app, io.StringIO(), home, account)
        finally:
            serving.cancel()
            await asyncio.wait({serving})


async def answered(model: Scripted, times: int) -> None:
    """Wait until a model was asked so often."""
    async with asyncio.timeout(60):
        while len(model.asked) < times:  # noqa: ASYNC110 - it is no event of anything
            await asyncio.sleep(0.01)


def seen(model: Scripted) -> list[bytes]:
    """Return the pictures that a model was shown last."""
    prompts = [part.content for part in model.asked[-1][-1].parts if isinstance(part, UserPromptPart)]
    return [item.data for content in prompts for item in content if isinstance(item, BinaryContent)]


async def test_a_photo_a_document_and_a_recording_on_telegram(tmp_path: Path) -> None:
    model = Scripted("seen")
    async with telegram_staged() as played:
        account = f"telegram:{played.alice.id}"
        async with listening(tmp_path, played.adapter, account, played.home, parts(model=model)) as alice:
            played.alice.says(None, "what is it?", photo=PNG)
            await answered(model, 1)
            assert seen(model) == [PNG]
            assert "[file photo.jpg, 22 bytes, kept as workspace" in model.read()
            await alice.settled()
            played.alice.says(None, document=("notes.txt", b"tides\nturn"))
            await answered(model, 2)
            assert "> tides" in model.read()
            await alice.settled()
            played.alice.says(None, voice=OGG)
            await answered(model, 3)
            assert "[file voice.ogg, 23 bytes" in model.read()
            await alice.settled()
            assert str((await alice.state()).taint) == "PUBLIC~"


async def test_a_picture_and_a_document_on_slack(tmp_path: Path) -> None:
    model = Scripted("seen")
    async with slack_staged() as played:
        account = f"slack:{played.server.team.id}:{played.alice.id}"
        async with listening(tmp_path, played.adapter, account, played.home, parts(model=model)) as alice:
            await played.server.sockets.connected(1)
            await played.alice.uploads(played.alice.dm(), "boat.png", PNG, "image/png", "what is it?")
            await answered(model, 1)
            assert seen(model) == [PNG]
            assert "[file boat.png, 22 bytes, kept as workspace" in model.read()
            await alice.settled()
            await played.alice.uploads(played.alice.dm(), "notes.txt", b"tides\nturn")
            await answered(model, 2)
            assert "> tides" in model.read()
            await alice.settled()
            assert str((await alice.state()).taint) == "PUBLIC~"
