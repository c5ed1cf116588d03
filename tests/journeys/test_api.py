"""docs/api.md as its reader does it: three processes, curl from the first message to the deletion."""

import asyncio
import json
from pathlib import Path
from typing import Final

import pytest

from tests.bot.api.kit import api_config
from tests.bot.kit import bang, eventually
from tests.clocks import LEASE_SECONDS
from tests.conventions.documents import Block
from tests.journeys.guide import Reader, compare, free_port, reader, steps
from tests.journeys.machine import Machine
from tests.journeys.test_deploy import ran, worker
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

PAGE: Final = "docs/api.md"
LOCKGATE: Final = "lockgate run --role "


async def follow(following: Reader, taken: list[Block]) -> None:
    """Do what the blocks show, in order."""
    for block, after in zip(taken, [*taken[1:], None], strict=True):
        match block.words[0]:
            case "yaml":
                following.configure(block.text, {"store": {"lease_seconds": LEASE_SECONDS}})
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
    found = compare(printed, told)
    if "created" in found:
        following.known["SID"] = found["id"]
    elif "questions" in found:
        following.known["QID"] = found["questions"][0]["id"]


async def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    async with reader(Machine(tmp_path), free_port()) as following:
        await follow(following, steps(PAGE, "Tokens"))


SECONDS: Final = 60
"""How long a call takes, unless it is made again."""

CREATE: Final = "curl -s $API/sessions -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' -d "
STREAM: Final = (
    'curl -sN "$API/sessions/$SID/events?level=user" -H "Authorization: Bearer $TOKEN" -H "Accept: text/event-stream"'
)
RESULT: Final = 'curl -s "$API/sessions/$SID/result?wait=60" -H "Authorization: Bearer $TOKEN"'
DELETE: Final = 'curl -s -X DELETE $API/sessions/$SID -H "Authorization: Bearer $TOKEN"'


async def test_killing_the_worker_in_the_turn_changes_nothing_but_time(tmp_path: Path) -> None:
    port = free_port()
    settings = {"port": port}
    (tmp_path / "config.yaml").write_text(
        api_config(blocks={"store": {"lease_seconds": LEASE_SECONDS}}, settings=settings), "utf-8"
    )
    place = await SERVERS.place(tmp_path / "data")
    async with reader(Machine(tmp_path), port, place) as following, worker(tmp_path, "api", "api"):
        await following.listening()
        following.known["API"] = f"{following.url}/v1"
        await following.types("export TOKEN=$(lockgate token create crane --scope steer --clearance top --expires 1h)")
        async with worker(tmp_path, "first") as first:
            calm = await told(following, bang("look", what="calm", seconds=0))
            begun = asyncio.create_task(told(following, bang("look", what="storm", seconds=SECONDS)))

            async def runs() -> bool:
                return "look storm" in ran(tmp_path)

            await eventually(runs)
            first.kill()
            await first.wait()
        async with worker(tmp_path, "second"):
            stormy = await begun
    same = bang("look", what="storm", seconds=SECONDS), bang("look", what="calm", seconds=0)
    assert [line.replace(*same).replace("storm", "calm") for line in stormy] == calm
    assert ran(tmp_path)["look storm"] == 2


async def told(following: Reader, text: str) -> list[str]:
    """Begin a session, follow it to its result and delete it; return what its stream told, without times and ids."""
    known = dict(following.known)
    body = json.dumps({"input": text})
    known["SID"] = json.loads(await following.types(f"{CREATE} '{body}'"))["id"]
    stream = await following.shell(STREAM, known)
    result = json.loads(await following.types(RESULT, known))
    assert result["last_turn"]["state"] == "ok", result
    await following.types(DELETE, known)
    out, _ = await asyncio.wait_for(stream.communicate(), 60)
    frames = [frame.splitlines() for frame in out.decode().split("\n\n") if frame.strip(":\n ")]
    assert frames[-1][0] == "event: end", frames
    events = [json.loads(line.removeprefix("data: ")) for frame in frames for line in frame if 'data: {"id"' in line]
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    return [f"{event['type']} {event['label']} {event['body'].get('text', '')}" for event in events]
