"""The bucket as operators meet it: its configuration, `lockgate check`, both doctors, and the files of a first run."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot.cli.doctor import check
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import ConfigError
from bot.core.ids import Ids
from bot.files.locations import shared
from bot.files.objects import BucketAddress
from bot.operations.diagnostics import Diagnosis, configured
from bot.operations.probes.bucket import bucket
from bot.tools.catalogue import NAMES
from bot.tools.files import UNAVAILABLE
from policy.labels import PUBLIC, parse
from tests.bot.kit import TOP, bang
from tests.buckets import bucket_files
from tests.harness import running
from tests.servers import SERVERS
from tests.sim.ports import free_port

pytestmark = pytest.mark.anyio

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def block(address: BucketAddress, **changes: object) -> dict[str, Any]:
    return {"files": {"bucket": {"name": address.name, "endpoint": address.endpoint, **changes}}}


def loaded(folder: Path, **settings: object) -> Config:
    (folder / "config.yaml").write_text(json.dumps(settings))
    return load_config(folder / "config.yaml", {}, NAMES)


def of_bucket(found: list[Diagnosis]) -> list[Diagnosis]:
    return [one for one in found if one.subject == "bucket"]


@pytest.mark.parametrize(
    "changes,told",
    [
        ({"endpoint": "http://files.example:9000"}, "write `https://`"),
        ({"endpoint": "ftp://files.example"}, "begins with `https://`"),
        ({"endpoint": "https://"}, "begins with `https://`"),
        ({"endpoint": "https://key:secret@files.example"}, "host and port"),
        ({"endpoint": "https://files.example/bucket"}, "host and port"),
        ({"name": "A"}, "name"),
        ({"name": "../x"}, "name"),
        ({"prefix": "/a"}, "prefix"),
        ({"prefix": "a//b"}, "prefix"),
        ({"prefix": "a/../b"}, "prefix"),
        ({"region": "x/../"}, "region"),
        ({"secret": "in the file"}, "environment variable"),
    ],
)
def test_a_block_that_cannot_be_meant_is_refused(tmp_path: Path, changes: dict[str, str], told: str) -> None:
    given: dict[str, object] = {"name": "files", **changes}
    with pytest.raises(ConfigError, match=told):
        loaded(tmp_path, files={"bucket": given})


def test_the_server_is_that_of_aws_unless_another_is_named(tmp_path: Path) -> None:
    config = loaded(tmp_path, files={"bucket": {"name": "files", "region": "eu-central-1"}})
    assert config.files.bucket is not None
    assert config.files.bucket.url == "https://s3.eu-central-1.amazonaws.com"
    config = loaded(tmp_path, files={"bucket": {"name": "files", "endpoint": "http://[::1]:9000/"}})
    assert config.files.bucket is not None
    assert config.files.bucket.url == "http://[::1]:9000"


def test_the_check_tells_where_files_are_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = loaded(tmp_path, files={"bucket": {"name": "harbour", "endpoint": "https://s3.example:9000"}})
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="needs a key") as caught:
        check(config)
    assert caught.value.next_step == "set AWS_ACCESS_KEY_ID in the environment"
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    check(config)
    assert "files and workspaces in the bucket harbour at https://s3.example:9000\n" in capsys.readouterr().out


async def test_the_doctor_tells_whether_the_bucket_answers(tmp_path: Path) -> None:
    address = await asyncio.to_thread(SERVERS.buckets().fresh)
    config = await asyncio.to_thread(lambda: loaded(tmp_path, **block(address)))
    (well,) = of_bucket(await configured(config, KEYS))
    assert (well.problem, well.note) == ("", f"`{address.name}` at {address.endpoint}")
    (keyless,) = of_bucket(await configured(config, {}))
    assert "needs a key" in keyless.problem
    config = await asyncio.to_thread(lambda: loaded(tmp_path, **block(address, name="nowhere")))
    (missing,) = of_bucket(await configured(config, KEYS))
    assert "does not exist" in missing.problem
    assert "files.bucket.name" in missing.next_step
    plain = await asyncio.to_thread(lambda: loaded(tmp_path))
    assert of_bucket(await configured(plain, KEYS)) == []
    assert await bucket(plain, KEYS, Ids()) == []


async def test_the_probe_tells_what_the_bucket_does_not_keep(tmp_path: Path) -> None:
    address = await asyncio.to_thread(SERVERS.buckets().fresh)
    config = await asyncio.to_thread(lambda: loaded(tmp_path, **block(address)))
    assert [one.problem for one in await bucket(config, KEYS, Ids())] == [""]
    await asyncio.to_thread(SERVERS.buckets().fail, "careless", "PUT", 100)
    try:
        found = await bucket(config, KEYS, Ids())
    finally:
        await asyncio.to_thread(SERVERS.buckets().fail, "careless", "PUT", 0)
    assert [one.problem for one in found] == [
        "it overwrites an object that is to be new",
        "it overwrites an object that changed since it was read",
    ]
    assert all("If-Match" in one.next_step for one in found)
    config = await asyncio.to_thread(
        lambda: loaded(tmp_path, **block(address, endpoint=f"http://127.0.0.1:{free_port()}"))
    )
    (gone,) = await bucket(config, KEYS, Ids())
    assert "does not answer" in gone.problem


async def test_a_first_run_puts_its_files_into_the_bucket_and_none_on_the_disk(tmp_path: Path) -> None:
    address = await asyncio.to_thread(SERVERS.buckets().fresh)
    files = await asyncio.to_thread(bucket_files, address)
    async with running(tmp_path, json.dumps(block(address)), environment=KEYS) as owner:
        async with asyncio.timeout(60):
            while await asyncio.to_thread(files.find, shared("confidential", PUBLIC, "pipeline.md"), TOP) is None:  # noqa: ASYNC110 - it is no event of anything
                await asyncio.sleep(0.02)
        assert "Harbour & Lock builds" in await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(bang("write_file", path="workspace/a/note.md", text="mine"))
        assert "mine" in await owner.say(bang("read_file", path="workspace/a/note.md"))
        assert "note.md" in await owner.say(bang("list_files", path="workspace/a"))
        assert await asyncio.to_thread(lambda: tuple(files.sessions())) == (owner.sid,)
        await owner.say("/reset confirm")
        assert await asyncio.to_thread(lambda: tuple(files.sessions())) == ()
    assert not (tmp_path / "data" / "files").exists()
    found = await asyncio.to_thread(files.find, shared("internal", parse("INTERNAL~"), "handbook.md"), TOP)
    assert found is not None
    assert (found.label, await asyncio.to_thread(files.owned, found.place)) == (parse("INTERNAL~"), False)


async def test_a_conversation_goes_on_while_the_bucket_does_not_answer(tmp_path: Path) -> None:
    address = await asyncio.to_thread(SERVERS.buckets().fresh)
    config = json.dumps(block(address, endpoint=f"http://127.0.0.1:{free_port()}"))
    async with running(tmp_path, config, environment=KEYS) as owner:
        for line in (bang("read_file", path="public/welcome.md"), bang("list_files", path="public")):
            assert UNAVAILABLE in await owner.say(line)
        assert "could not be written" in await owner.say(bang("write_file", path="workspace/x.md", text="x"))
        assert "You said: hello" in await owner.say("hello")
