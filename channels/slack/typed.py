"""What a person typed, out of the text that Slack makes of it. Pure.

Slack escapes three characters and writes mentions, channels and addresses as marks in angle brackets. Lines that were
quoted are kept apart: nobody knows who wrote what stands in them.
"""

import re
from typing import Final

_FENCE: Final = "```"
_QUOTE: Final = "&gt;"
_REST: Final = "&gt;&gt;&gt;"
_MARK: Final = re.compile(r"<(?P<kind>[@#!]?)(?P<named>[^<>|]*)(?:\|(?P<shown>[^<>]*))?>")
_SCHEMES: Final = ("mailto:", "tel:", "https://", "http://")


def typed(text: str, me: str) -> tuple[str, tuple[str, ...], bool]:
    """Return what somebody typed, what they quoted, and whether they mentioned the account `me`, which is left out."""
    own, quoted = _parted(text)
    mention = re.compile(rf"<@{re.escape(me)}(?:\|[^<>]*)?>") if me else None
    called = mention is not None and mention.search(own) is not None
    if mention is not None:
        own = mention.sub("", own)
    return _plain(own).strip(), tuple(filter(None, (_plain(each).strip() for each in quoted))), called


def _parted(text: str) -> tuple[str, list[str]]:
    """Return a text without its quoted lines, and these, those that follow one another together."""
    own, quoted = list[str](), list[list[str]]()
    fenced, follows, rest = False, False, False
    for line in text.split("\n"):
        quotes = rest or (line.startswith(_QUOTE) and not fenced)
        if quotes:
            rest = rest or line.startswith(_REST)
            if not follows:
                quoted.append([])
            quoted[-1].append(line.removeprefix(_REST).removeprefix(_QUOTE).removeprefix(" "))
        else:
            own.append(line)
            fenced ^= line.count(_FENCE) % 2 == 1
        follows = quotes
    return "\n".join(own), ["\n".join(lines) for lines in quoted]


def _plain(text: str) -> str:
    text = _MARK.sub(_written, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _written(mark: re.Match[str]) -> str:
    named, shown = mark["named"], mark["shown"]
    match mark["kind"]:
        case "@" | "#" as kind:
            return f"{kind}{shown or named}"
        case "!":
            return shown or f"@{named.partition('^')[0]}"
        case _:
            return _link(named, shown)


def _link(url: str, shown: str | None) -> str:
    bare = url
    for scheme in _SCHEMES:
        bare = bare.removeprefix(scheme)
    if not shown:
        return bare if url.startswith(("mailto:", "tel:")) else url
    return shown if shown.rstrip("/") in {url.rstrip("/"), bare.rstrip("/")} else f"{shown} ({url})"
