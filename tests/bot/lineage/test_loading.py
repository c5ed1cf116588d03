"""The versions of a file whose bucket another process writes to meanwhile, or does not answer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from bot.files.bucket import BucketFiles
from bot.files.locations import shared, version
from bot.files.objects import BucketAddress, Objects
from bot.lineage.loading import LineageLoader, LineageViewer
from bot.lineage.names import file_id
from policy.labels import PUBLIC, parse
from tests.buckets import BucketServer
from tests.harness import running
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

NAME = "public/x.md"
PLACE = shared("public", PUBLIC, "x.md")
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture
def server() -> Iterator[BucketServer]:
    """The server, which carries all requests out again after the test."""
    server = SERVERS.buckets()
    yield server
    server.fail("denied", "GET", 0)


def config(address: BucketAddress) -> str:
    return f"files: {{bucket: {{name: {address.name}, endpoint: {address.endpoint}}}}}\n"


async def test_a_version_has_the_label_of_its_own_text(tmp_path: Path, server: BucketServer) -> None:
    address = await asyncio.to_thread(server.fresh)
    objects = Objects(address)
    async with running(tmp_path, config(address), environment=KEYS, serve=False) as person:
        app = person.app
        assert isinstance(app.files, BucketFiles)
        await asyncio.to_thread(app.files.keep, PLACE, b"ours", PUBLIC)
        viewer = LineageViewer(parse("PUBLIC~"))
        loader = LineageLoader(app.store, app.files, lambda: app.gate.document, viewer)
        await asyncio.to_thread(server.fail, "late", "GET", 2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loader.file, NAME)
            # First it lists trees, then it asks for the text of the file whose label it knows.
            await asyncio.to_thread(server.fail, "held", "")
            await asyncio.to_thread(server.fail, "release", "")
            await asyncio.to_thread(server.fail, "held", "")
            head = await asyncio.to_thread(objects.head, f"files/{NAME}")
            assert head is not None
            await asyncio.to_thread(objects.put, f"files/{NAME}", b"theirs", {}, over=head.tag)
            await asyncio.to_thread(server.fail, "release", "")
    assert loader.known.find(file_id(NAME, "", version(PLACE, "theirs").version)) is None


async def test_a_bucket_that_does_not_answer_leaves_a_trace_incomplete(tmp_path: Path, server: BucketServer) -> None:
    address = await asyncio.to_thread(server.fresh)
    async with running(tmp_path, config(address), environment=KEYS, serve=False) as person:
        app = person.app
        await asyncio.to_thread(app.files.keep, PLACE, b"ours", PUBLIC)
        loader = LineageLoader(app.store, app.files, lambda: app.gate.document, LineageViewer())
        await asyncio.to_thread(server.fail, "late", "GET", 2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loader.file, NAME)
            await asyncio.to_thread(server.fail, "held", "")
            await asyncio.to_thread(server.fail, "denied", "GET", 1)
            await asyncio.to_thread(server.fail, "release", "")
    assert not loader.complete
