"""Files as the operator keeps them: their words are labels, and no session's label is lowered."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from bot.core.errors import DiskError, OperatorError
from bot.files.kept import KeptName
from bot.files.locations import FileLocation, shared
from bot.files.objects import BucketAddress, Objects
from bot.operations.files.keeper import FileKeeper, LabelledPath
from bot.operations.files.places import FilesPlace
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP
from tests.harness import Person, running
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@asynccontextmanager
async def keeping(tmp_path: Path, address: BucketAddress | None = None) -> AsyncGenerator[tuple[FileKeeper, Person]]:
    bucket = "null" if address is None else f"{{name: {address.name}, endpoint: {address.endpoint}}}"
    await asyncio.to_thread(tmp_path.mkdir, exist_ok=True)
    async with running(tmp_path, f"files: {{bucket: {bucket}}}\n", environment=KEYS, serve=False) as person:
        yield person.app.file_keeper(), person


@pytest.fixture(params=["bucket", "local"])
def address(request: pytest.FixtureRequest) -> BucketAddress | None:
    return SERVERS.buckets().fresh() if request.param == "bucket" else None


async def found(person: Person, place: FileLocation, reader: Label = TOP) -> tuple[bytes, Label] | None:
    met = await asyncio.to_thread(person.app.files.find, place, reader)
    return None if met is None else (await asyncio.to_thread(person.app.files.load, met.place, 100), met.label)


async def rows(person: Person) -> list[dict[str, object]]:
    records = await person.app.store.audit.records("audit", limit=1000)
    return [dict(record.body) for record in records if record.kind == "files"]


async def test_a_file_put_there_is_the_operators_under_the_floor_or_above(
    tmp_path: Path, address: BucketAddress | None
) -> None:
    (tmp_path / "x.md").write_text("one")
    async with keeping(tmp_path / "data", address) as (keeper, person):
        floor = parse("PUBLIC~")
        for label, name, told in (
            (None, "a.md", floor),
            ("PUBLIC", "b.md", floor),
            ("INTERNAL", "c.md", parse("INTERNAL~")),
        ):
            done = await keeper.put(tmp_path / "x.md", f"public/sub/{name}", label, "owner", replaces=False)
            assert done == (LabelledPath(f"public/sub/{name}", told),)
            place = shared("public", floor, "sub", name)
            assert await found(person, place) == (b"one", told)
            there = place if told == floor else place.above(told)
            assert not await asyncio.to_thread(person.app.files.owned, there)
        assert await found(person, shared("public", floor, "sub", "c.md"), PUBLIC) is None
        assert [row["change"] for row in await rows(person)] == ["put"] * 3


async def test_a_label_of_a_session_is_raised_and_never_lowered(tmp_path: Path, address: BucketAddress | None) -> None:
    async with keeping(tmp_path / "data", address) as (keeper, person):
        files, place = person.app.files, shared("public", PUBLIC, "x.md")
        await asyncio.to_thread(files.keep, place, b"text", PUBLIC)
        await keeper.label("public/x.md", "PUBLIC", "owner")
        assert await asyncio.to_thread(files.owned, place)
        await keeper.label("public/x.md", "INTERNAL", "owner")
        assert await found(person, place, INTERNAL) == (b"text", parse("INTERNAL~"))
        assert await found(person, place, PUBLIC) is None
        with pytest.raises(OperatorError, match="no label is lowered"):
            await keeper.label("public/x.md", "PUBLIC", "owner")
        with pytest.raises(OperatorError, match="is below"):
            await keeper.label("internal/x.md", "PUBLIC", "owner")
        with pytest.raises(OperatorError, match="nothing to label"):
            await keeper.label("public/other.md", "INTERNAL", "owner")
        with pytest.raises(OperatorError, match="unknown compartment"):
            await keeper.label("public/x.md", "INTERNAL{nowhere}", "owner")
        assert [row["label"] for row in await rows(person)] == ["PUBLIC~", "INTERNAL~"]


@pytest.mark.parametrize("path", ["workspace/x", "nowhere/x", "/etc/passwd", "public/../x", ""])
async def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    async with keeping(tmp_path / "data") as (keeper, person):
        for work in (keeper.label(path, "TOP", "owner"), keeper.listed(path, TOP)):
            with pytest.raises(OperatorError):
                await work
        with pytest.raises(OperatorError):
            await keeper.put(tmp_path, path, None, "owner", replaces=True)
        assert await rows(person) == []


async def test_an_object_of_another_tool_gets_the_label_that_the_operator_names(tmp_path: Path) -> None:
    address = SERVERS.buckets().fresh()
    for name in ("sub/x.md", "sub/y.md"):
        await asyncio.to_thread(partial(Objects(address).put, f"files/public/{name}", b"text", {}, over=None))
    async with keeping(tmp_path / "data", address) as (keeper, person):
        place = shared("public", PUBLIC, "sub", "x.md")
        assert await found(person, place, CONFIDENTIAL) is None
        done = await keeper.label("public/sub/x.md", "PUBLIC", "owner")
        assert [one.path for one in done] == ["public/sub", "public/sub/x.md"]
        assert await found(person, place, PUBLIC) == (b"text", PUBLIC)
        assert await found(person, shared("public", PUBLIC, "sub", "y.md"), CONFIDENTIAL) is None
        await keeper.label("public", "INTERNAL", "owner")
        assert await found(person, shared("public", PUBLIC, "sub", "y.md"), INTERNAL) == (b"text", parse("INTERNAL~"))
        # A label of the floor makes it the operator's.
        assert (await asyncio.to_thread(person.app.files.take, KeptName(place))).label is None


async def test_a_folder_that_another_tool_made_can_be_labelled(tmp_path: Path) -> None:
    """Consoles of buckets make an empty object for a folder, whose key ends with a slash."""
    address = SERVERS.buckets().fresh()
    for key in ("incoming/", "incoming/a.txt"):
        await asyncio.to_thread(SERVERS.buckets().ask, "PUT", f"/{address.name}/files/internal/{key}")
    async with keeping(tmp_path, address) as (keeper, person):
        done = await keeper.label("internal/incoming", "INTERNAL", "owner")
        assert {one.path for one in done if one.there} == {"internal/incoming", "internal/incoming/a.txt"}
        assert await found(person, shared("internal", INTERNAL, "incoming", "a.txt"), INTERNAL) == (b"", INTERNAL)


async def test_a_copy_needs_a_bucket_and_no_other_process(tmp_path: Path) -> None:
    async with keeping(tmp_path / "data") as (keeper, _):
        for to in FilesPlace:
            with pytest.raises(OperatorError, match="no bucket"):
                await keeper.copy(to, "owner", replaces=False, dry=True)
    async with keeping(tmp_path / "data", SERVERS.buckets().fresh()) as (keeper, person):
        async with keeping(tmp_path / "data"):
            with pytest.raises(OperatorError, match="other processes use the store"):
                await keeper.copy(FilesPlace.BUCKET, "owner", replaces=False, dry=False)
        done = await keeper.copy(FilesPlace.BUCKET, "owner", replaces=False, dry=False)
        assert (done.files, done.problems) == (3, ())
        assert [row["change"] for row in await rows(person)] == ["copy", "copied"]


async def test_a_bucket_that_is_away_is_told(tmp_path: Path) -> None:
    address = SERVERS.buckets().fresh()
    missing = BucketAddress("none-such", "", address.endpoint, "us-east-1", "key", "secret", "")
    async with keeping(tmp_path / "data", missing) as (keeper, _):
        with pytest.raises(DiskError, match="does not exist"):
            await keeper.copy(FilesPlace.BUCKET, "owner", replaces=False, dry=False)
        with pytest.raises(DiskError, match="does not exist"):
            await keeper.listed("public", TOP)
