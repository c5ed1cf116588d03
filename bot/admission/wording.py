"""A message as the model reads it, and whoever reads the conversation back.

What the sender typed comes first and stands alone. What others wrote comes after it, line by line behind a mark:
quotes, and what is in files. So nothing of that can look like the sender's own words.
"""

from collections.abc import Iterable
from typing import Final

from bot.admission.brought import ReceivedFile
from bot.sessions.messages import FileKind

_KILO: Final = 1000


def worded(text: str, quoted: Iterable[str] = (), brought: Iterable[ReceivedFile] = ()) -> str:
    """Return a message with what it quotes and the files it brought."""
    quotes = (f"[quoted, written by somebody else]\n{_marked(one)}" for one in quoted)
    return "\n\n".join(filter(None, (text, *quotes, *map(_file, brought))))


def overheard(said: Iterable[tuple[str, str]]) -> str:
    """Return what was said in a chat and not to the bot: each text with the account of whoever said it."""
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
            return "what is said in it, written down by a program"
        case FileKind.AUDIO:
            return "nobody wrote down what is said in it"
        case FileKind.OTHER:
            return "it cannot be read here"


def _marked(text: str) -> str:
    """Put a mark before every line, whatever ends one."""
    return "\n".join(f"> {line}" for line in text.splitlines() or [""])


def _size(size: int) -> str:
    """Return a number of bytes in words, rather too many than too few."""
    for unit in ("bytes", "kB"):
        if size < _KILO:
            return f"{size} {unit}"
        size = -(-size // _KILO)
    return f"{size} MB"
