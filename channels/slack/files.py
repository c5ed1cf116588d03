"""The files of a message on Slack: what is told of them, and fetching one.

Whoever puts a file into a chat may let Slack name an address of his own for it. The bot's token opens everything that
it may read, so it goes to Slack's own hosts alone, and no redirect is followed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from channels.base import ChannelError
from channels.download import download
from channels.message import Attachment
from channels.slack.clients import Clients
from channels.slack.failures import FAILURES

Json = Mapping[str, Any]

_LONGEST: Final = 255
_ADDRESS: Final = re.compile(r"(https?)://([a-z0-9.-]+(?::[0-9]+)?)/[!-\[\]-~]*")
_PAGE: Final = b"<!DOCTYPE html"
_HTML: Final = "text/html"


def attached(files: Iterable[Json], team: str) -> tuple[Attachment, ...]:
    """Return the files of a message in a workspace. Pure.

    Raises KeyError or TypeError: they are not as Slack describes them.
    """
    return tuple(
        Attachment(
            handle=f"{team}/{file['id']}",
            name=str(file.get("name") or file.get("title") or "file")[:_LONGEST],
            media_type=str(file.get("mimetype") or "")[:_LONGEST],
            size=int(file.get("size") or 0),
        )
        for file in files
    )


async def fetch(clients: Clients, attachment: Attachment, most: int, seconds: float) -> bytes:
    """Return a file, of at most `most` bytes, within `seconds`.

    Raises LargeFileError: it is larger. ChannelError: it cannot be had.
    """
    team, _, name = attachment.handle.partition("/")
    client = await clients.of(team)
    try:
        file: Json = (await client.files_info(file=name))["file"]
        address = str(file.get("url_private_download") or file.get("url_private") or "")
    except FAILURES:
        raise ChannelError("Slack does not tell where the file is") from None
    if file.get("is_external") or not is_slacks(address, client.base_url):
        raise ChannelError("the file is not at Slack")
    content = await download(address, most, seconds, {"Authorization": f"Bearer {client.token}"})
    if content.startswith(_PAGE) and file.get("mimetype") != _HTML:
        # Where somebody may not read a file, Slack shows how to sign in.
        raise ChannelError("the app lacks a scope; install it again with the manifest")
    return content


def is_slacks(address: str, server: str) -> bool:
    """Tell whether an address is at the host of Slack's Web API or one of its subdomains, as that is asked."""
    named, api = _ADDRESS.fullmatch(address), urlsplit(server)
    if named is None or named[1] != api.scheme:
        return False
    return named[2] == api.netloc or named[2].endswith(f".{api.netloc}")
