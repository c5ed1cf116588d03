"""Pictures are shown to models that see them, as they were sent, and as many as a request carries."""

import asyncio
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from bot.agent import pictures
from bot.agent.models import UNUSABLE
from bot.agent.window import estimated
from policy.labels import parse
from tests.bot.admission.file_channel import PNG, configured, sending
from tests.bot.kit import Scripted, base_on_disk, parts

pytestmark = pytest.mark.anyio


def shown(messages: list[ModelMessage]) -> list[bytes]:
    """Return the pictures in a request."""
    prompts = [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return [item.data for content in prompts for item in content if isinstance(item, BinaryContent)]


async def test_a_model_that_sees_is_shown_a_picture_now_and_later(tmp_path: Path) -> None:
    model = Scripted("a boat")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        await ann.sends(("photo.jpg", PNG), text="what is it?")
        assert shown(model.asked[0]) == [PNG]
        assert "what is it?" in model.read()
        await ann.says("what colour?")
        assert shown(model.asked[1]) == [PNG]
        assert PNG.hex() not in str(await ann.events())
        assert "and a picture" not in str(await ann.events())


async def test_what_the_agent_put_in_a_pictures_place_is_not_shown(tmp_path: Path) -> None:
    model = Scripted("a boat")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        await ann.sends(("photo.jpg", PNG))
        place = await ann.place("workspace/incoming/1-1-photo.jpg")
        await asyncio.to_thread(ann.app.files.keep, place, PNG[::-1], parse("PUBLIC"))
        await ann.says("again")
        assert shown(model.asked[1]) == []
        assert "kept as workspace/incoming/1-1-photo.jpg" in model.read()
        base = base_on_disk(ann.app.config.data_dir, place)
        await asyncio.to_thread((base / "incoming" / "1-1-photo.jpg").unlink)
        await ann.says("and now")
        assert shown(model.asked[2]) == []


async def test_a_reset_shows_nothing_of_before(tmp_path: Path) -> None:
    model = Scripted("a boat")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        await ann.sends(("photo.jpg", PNG))
        await ann.says("/reset confirm")
        await ann.says("hello")
        assert shown(model.asked[-1]) == []


async def test_a_model_that_is_said_to_see_nothing_reads_words_alone(tmp_path: Path) -> None:
    model = Scripted("a boat")
    blocks = {"model": {"name": "openai-chat:text", "providers": {"openai-chat:text": {"pictures": False}}}}
    config = configured(blocks, models={"openai-chat:text": {"clearance": "top"}})
    async with sending(tmp_path, config, parts=parts(model=model)) as ann:
        await ann.sends(("photo.jpg", PNG))
        assert shown(model.asked[0]) == []
        assert "a picture]" in model.read()


async def test_a_provider_that_refuses_a_picture_is_asked_without(tmp_path: Path) -> None:
    refusal = ModelHTTPError(400, "scripted", {"error": "could not process image"})
    model = Scripted(refusal, "a boat", refusal, "still a boat")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        assert await ann.sends(("photo.jpg", PNG)) == ["a boat"]
        assert [len(shown(messages)) for messages in model.asked] == [1, 0]
        assert await ann.says("again") == ["still a boat"]


async def test_a_refusal_without_pictures_is_one(tmp_path: Path) -> None:
    model = Scripted(ModelHTTPError(400, "scripted", {"error": "no"}))
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        (told,) = await ann.says("hello")
        assert told == UNUSABLE
        assert len(model.asked) == 1


async def test_no_more_is_shown_than_a_request_carries(tmp_path: Path) -> None:
    model = Scripted("many")
    async with sending(tmp_path, configured({"files": {"per_message": 30}}), parts=parts(model=model)) as ann:
        await ann.sends(*((f"{number}.png", PNG + bytes([number])) for number in range(22)))
        assert [content[-1] for content in shown(model.asked[0])] == list(range(2, 22))
        await ann.sends(("large.png", PNG + bytes(3_500_000)))
        assert len(shown(model.asked[1])[-1]) == len(PNG) + 1


async def test_large_pictures_are_bounded_together(tmp_path: Path) -> None:
    model = Scripted("many")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        await ann.sends(*((f"{number}.png", PNG + bytes([number]) + bytes(3_000_000)) for number in range(6)))
        assert [content[len(PNG)] for content in shown(model.asked[0])] == [2, 3, 4, 5]


async def test_the_same_picture_twice_is_read_once(tmp_path: Path) -> None:
    model = Scripted("one")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        await ann.sends(("a.png", PNG), ("b.png", PNG))
        assert shown(model.asked[0]) == [PNG, PNG]
        assert [file.kind for file in await ann.files()] == ["picture", "picture"]


def test_a_picture_counts_by_its_tokens_and_not_by_its_bytes() -> None:
    picture = BinaryContent(PNG + bytes(1_000_000), media_type="image/png")
    request = ModelRequest(parts=[UserPromptPart(["look", picture])])
    assert 1600 <= estimated([request], ModelRequestParameters()) < 2000
    (plain,) = pictures.without_pictures([request])
    assert estimated([plain], ModelRequestParameters()) < 100
