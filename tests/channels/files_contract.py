"""What every adapter owes whose platform brings files: subclass `FilesContract`, and say how a person sends one."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

import pytest

from channels.messages import Attachment
from channels.port import ChannelError, FileSource, LargeFileError
from tests.channels.contract import Stage

pytestmark = pytest.mark.anyio


class FileStage(Stage):
    """A stage whose platform brings files."""

    source: FileSource
    """The adapter."""

    @abstractmethod
    def sent(self, content: bytes) -> Attachment:
        """Return the file of a message that somebody sends with this content."""

    @abstractmethod
    def restarted(self) -> AbstractAsyncContextManager[FileSource]:
        """Return the adapter as another process has it."""


class FilesContract(ABC):
    """The tests; `filed` gives a fresh stage."""

    @pytest.fixture
    @abstractmethod
    def filed(self) -> FileStage:
        """Return a fresh stage."""

    async def test_a_file_is_fetched_as_it_was_sent(self, filed: FileStage) -> None:
        content = bytes(range(256)) * 1000
        attachment = filed.sent(content)
        for most in (len(content), len(content) + 1, 10_000_000):
            assert await filed.source.fetch(attachment, most) == content

    async def test_a_file_is_fetched_whole_or_not_at_all(self, filed: FileStage) -> None:
        attachment = filed.sent(bytes(1000))
        for most in (0, 1, 999):
            with pytest.raises(LargeFileError):
                await filed.source.fetch(attachment, most)

    async def test_a_file_is_fetched_by_another_process(self, filed: FileStage) -> None:
        attachment = filed.sent(b"content")
        async with filed.restarted() as another:
            assert await another.fetch(attachment, 7) == b"content"

    async def test_a_file_of_a_platform_that_is_gone_is_a_channel_error(self, filed: FileStage) -> None:
        attachment = filed.sent(b"content")
        filed.vanish()
        with pytest.raises(ChannelError):
            await filed.source.fetch(attachment, 7)

    @pytest.mark.parametrize("handle", ["", "nothing", "T0/F0", "../../etc/passwd", "\u202e", "x" * 10_000])
    async def test_a_handle_of_nothing_is_a_channel_error(self, filed: FileStage, handle: str) -> None:
        with pytest.raises(ChannelError):
            await filed.source.fetch(Attachment(handle, "a.txt"), 7)
