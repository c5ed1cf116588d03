"""Files that people send on Slack are fetched within bounds, and from Slack's own hosts alone."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import pytest

from channels.messages import Attachment, Inbound
from channels.port import ChannelError, FileSource, GoneError, LargeFileError
from channels.slack.events import attached
from channels.slack.web_api import is_slacks
from tests.channels.contract import until
from tests.channels.files_contract import FilesContract, FileStage
from tests.channels.slack.kit import SlackStage, staged
from tests.sim.slack import Slack as Server
from tests.sim.slack import slack
from tests.sim.slack_state import Upload

pytestmark = pytest.mark.anyio

API = "https://slack.com/api/"


def kept(played: SlackStage, data: bytes = b"content", told: Mapping[str, object] = MappingProxyType({})) -> Attachment:
    """Put a file at the played Slack, told of as a test says, and return what a message tells of it."""
    file = Upload(played.server.state.id("F"), "a.txt", data, len(data), "text/plain", complete=True)
    file.told = dict(told)
    played.server.state.uploads[file.id] = file
    return Attachment(f"{played.server.team.id}/{file.id}", "a.txt")


class Filed(SlackStage, FileStage):
    """A stage on which Alice sends files."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.source = self.adapter

    def sent(self, content: bytes) -> Attachment:
        return kept(self, content)

    @asynccontextmanager
    async def restarted(self) -> AsyncGenerator[FileSource]:
        adapter = self.another()
        yield adapter
        await adapter.close()


class TestSlackFiles(FilesContract):
    @pytest.fixture
    async def filed(self) -> AsyncGenerator[FileStage]:
        async with slack() as server:
            made = Filed(server)
            yield made
            await made.adapter.close()


async def test_a_file_comes_with_its_message_and_is_fetched(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with staged() as played, played.serving():
        await played.alice.uploads(played.alice.dm(), "notes.txt", b"content", text="look")
        await until(lambda: played.got)
        (told,) = played.got
        assert isinstance(told, Inbound)
        assert (told.text, told.authored, told.quoted) == ("look", True, ())
        (file,) = told.files
        assert (file.name, file.media_type, file.size) == ("notes.txt", "text/plain", 7)
        assert await played.adapter.fetch(file, 7) == b"content"
    assert played.server.bot.value not in caplog.text


async def test_no_more_than_asked_for_is_read() -> None:
    async with staged() as played:
        with pytest.raises(LargeFileError):
            await played.adapter.fetch(kept(played), 6)


async def test_the_token_goes_to_slack_alone() -> None:
    async with staged() as played, staged() as elsewhere:
        theirs = kept(elsewhere)
        base = elsewhere.server.http.base
        tells: tuple[dict[str, object], ...] = (
            {"url_private_download": f"{base}/files/{theirs.handle.rpartition('/')[2]}/a.txt"},
            {"url_private_download": "", "url_private": f"{base}/files/x/a.txt"},
            {"url_private_download": "https://evil.example/a.txt", "mode": "external"},
            {"url_private_download": "", "url_private": ""},
            {"is_external": True},
        )
        for told in tells:
            with pytest.raises(ChannelError, match="not at Slack"):
                await played.adapter.fetch(kept(played, told=told), 100)


async def test_a_file_that_may_not_be_read_is_not_its_page_to_sign_in() -> None:
    async with staged() as played:
        file = kept(played)
        played.server.bot.scopes = tuple(scope for scope in played.server.bot.scopes if scope != "files:read")
        with pytest.raises(ChannelError):
            await played.adapter.fetch(file, 100)
        page = kept(played, b"<!DOCTYPE html><title>Sign in</title>")
        played.server.bot.scopes = (*played.server.bot.scopes, "files:read")
        with pytest.raises(ChannelError, match="scope"):
            await played.adapter.fetch(page, 100)


async def test_a_page_that_was_sent_is_a_file() -> None:
    async with staged() as played:
        page = kept(played, b"<!DOCTYPE html><p>", {"mimetype": "text/html"})
        assert await played.adapter.fetch(page, 100) == b"<!DOCTYPE html><p>"


async def test_what_cannot_be_had_is_a_channel_error() -> None:
    async with staged() as played:
        team = played.server.team.id
        with pytest.raises(ChannelError, match="where the file is"):
            await played.adapter.fetch(Attachment(f"{team}/F0", "a.txt"), 100)
        with pytest.raises(GoneError):
            await played.adapter.fetch(Attachment("T0/F0", "a.txt"), 100)
        file = kept(played)
        played.server.fails("files.info", status=500)
        with pytest.raises(ChannelError, match="where the file is"):
            await played.adapter.fetch(file, 100)


@pytest.mark.parametrize(
    "address,server",
    [
        ("https://files.slack.com/files-pri/T1-F1/download/a.txt", API),
        ("https://slack.com/files/a.txt", API),
        ("https://acme.enterprise.slack.com/files/a.txt?t=1", API),
        ("https://files.slack-gov.com/a.txt", "https://slack-gov.com/api/"),
        ("http://127.0.0.1:8/files/a.txt", "http://127.0.0.1:8/api/"),
    ],
)
def test_an_address_at_slack(address: str, server: str) -> None:
    assert is_slacks(address, server)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://files.slack.com/a.txt",
        "https://files.slack.com",
        "https://files.slack.com:8443/a.txt",
        "https://evil.example/files.slack.com/a.txt",
        "https://files.slack.com.evil.example/a.txt",
        "https://evilslack.com/a.txt",
        "https://files.slack.com@evil.example/a.txt",
        "https://evil.example\\@files.slack.com/a.txt",
        "https://files.slack.com\\.evil.example/a.txt",
        "https://files.slack.com/a.txt\r\nHost: evil.example",
        "https://files.slack.com/a b",
        "file:///etc/passwd",
    ],
)
def test_an_address_elsewhere(address: str) -> None:
    assert not is_slacks(address, API)


def test_what_is_told_of_files() -> None:
    whole = {"id": "F1", "name": "a" * 999, "mimetype": "text/plain", "size": 7}
    first, second, third = attached([whole, {"id": "F2", "title": "plan"}, {"id": "F3"}], "T1")
    assert first == Attachment("T1/F1", "a" * 255, "text/plain", 7)
    assert (second.name, third.name, third.size) == ("plan", "file", 0)
