"""docs/api.md as its reader does it: three processes, curl from the first message to the deletion."""

import asyncio
import json
from pathlib import Path
from typing import Final, cast

import pytest

from tests.conventions.documents import Block
from tests.journeys.guide import Reader, compare, reader, steps

pytestmark = pytest.mark.anyio

PAGE: Final = "docs/api.md"
LOCKGATE: Final = "lockgate run --role "


async def follow(following: Reader, taken: list[Block]) -> None:
    """Do what the blocks show, in order."""
    for block, after in zip(taken, [*taken[1:], None], strict=True):
        match block.words[0]:
            case "yaml":
                following.configure(block.text, {"store": {"lease_seconds": 2}})
            case "sh" if block.text.startswith(LOCKGATE):
                await following.starts(block.text.removeprefix(LOCKGATE).strip())
            case "sh":
                await following.listening()
                printed = after if after is not None and after.words[0] in {"json", "text"} else None
                if "stream" in block.words:
                    await following.follows(block.text, printed)
                else:
                    await typed(following, block, printed)
            case _:
                pass
    await following.ended_streams()


async def typed(following: Reader, block: Block, printed: Block | None) -> None:
    """Type a block, and keep the ids that it tells."""
    told = await following.types(block.text)
    while "/questions " in block.text and not json.loads(told)["questions"]:
        await asyncio.sleep(0.1)
        told = await following.types(block.text)
    if printed is None:
        return
    document = compare(printed, told)
    if isinstance(document, dict):
        found = cast("dict[str, object]", document)
        if "/questions " in block.text:
            following.known["QID"] = json.loads(told)["questions"][0]["id"]
        elif "created" in found:
            following.known["SID"] = str(found["id"])


async def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    async with reader(tmp_path) as following:
        await follow(following, steps(PAGE, "Tokens"))
