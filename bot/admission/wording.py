"""The wording of a message for the model, and for readers of the conversation.

The sender's typed words come first and stand alone. Texts of others, which are quotes and the contents of files, come
after them, with a mark before each line. So no part of these can look like the sender's own words.
"""

from collections.abc import Iterable
from typing import Final

from bot.admission.brought import ReceivedFile
from bot.sessions.messages import FileKind

_KILO: Final = 1000


def worded(text: str, quoted: Iterable[str] = (), brought: Iterable[ReceivedFile] = ()) -> str:
    """Return a message with its quotes and the files it brought."""
    quotes = (f"[quoted, written by somebody else]\n{_marked(one)}" for one in quoted)
    return "\n\n".join(filter(None, (text, *quotes, *map(_file, brought))))


def overheard(said: Iterable[tuple[str, str]]) -> str:
    """Return messages observed in a chat: each text with the account of its writer."""
    texts = (f"[{account}]\n{_marked(text)}" for account, text in said)
    return "\n\n".join(("[said in this chat before, by others and not to you]", *texts))


def _file(file: ReceivedFile) -> str:
    if file.problem:
        return f"[file {file.name}, not taken in: {file.problem}]"
    told = f"[file {file.name}, {_size(len(file.content))}, kept as {file.path}; {_held(file)}]"
    if file.text is None:
        return told
    more = "\n[there is more in it]" if file.more else ""
    return f"{told}\n{_marked(file.text)}{more}"


def _held(file: ReceivedFile) -> str:
    match file.nature.kind:
        case FileKind.PICTURE:
            return "a picture"
        case FileKind.TEXT:
            return "written by somebody else"
        case FileKind.AUDIO if file.text is not None:
            return "transcribed by a program"
        case FileKind.AUDIO:
            return "it is not transcribed"
        case FileKind.OTHER:
            return "it cannot be read here"


def _marked(text: str) -> str:
    """Put a mark before every line, for all line ends."""
    return "\n".join(f"> {line}" for line in text.splitlines() or [""])


def _size(size: int) -> str:
    """Return a number of bytes in words, rounded up."""
    for unit in ("bytes", "kB"):
        if size < _KILO:
            return f"{size} {unit}"
        size = -(-size // _KILO)
    return f"{size} MB"
