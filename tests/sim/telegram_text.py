"""What Telegram checks of a text: its length, its entities by UTF-16, its parse mode; and what it finds by itself."""

import json
import re
from html import unescape
from typing import Final, cast
from urllib.parse import urlsplit

from tests.sim.telegram_state import Json, State, bad

TEXT_LIMIT: Final = 4096
CAPTION_LIMIT: Final = 1024
ENTITY_LIMIT: Final = 100
TYPES: Final = frozenset(
    {
        *(
            "mention",
            "hashtag",
            "cashtag",
            "bot_command",
            "url",
            "email",
            "phone_number",
            "bold",
            "italic",
            "underline",
        ),
        *("strikethrough", "spoiler", "blockquote", "expandable_blockquote", "code", "pre", "text_link"),
        *("text_mention", "custom_emoji"),
    }
)
_OPAQUE: Final = frozenset({"code", "pre", "text_link", "text_mention"})
_FOUND: Final = (
    (
        "url",
        re.compile(r"(?i)\b(?:(?:https?|tg|ton)://[^\s<>]+|(?:[a-z0-9-]+\.)+(?:com|org|net|de|io|me|test)\b[^\s]*)"),
    ),
    ("email", re.compile(r"[\w.+-]+@[\w-]+\.[a-z]{2,}")),
    ("mention", re.compile(r"(?<!\w)@\w{3,32}\b")),
    ("hashtag", re.compile(r"(?<!\w)#\w+")),
    ("bot_command", re.compile(r"(?<![\w/])/[a-zA-Z0-9_]{1,64}(?:@\w+)?")),
)
_TAGS: Final = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "a": "text_link",
}
_MARKS: Final = {"*": "Bold", "_": "Italic", "__": "Underline", "~": "Strikethrough", "`": "Code", "```": "Pre"}
_KINDS: Final = {name: name.lower() for name in _MARKS.values()}
_MARKUP: Final = re.compile(r"\\(.)|(```|__|[*_~`])|\[([^\]]*)\]\(([^)]*)\)|(.)", re.DOTALL)
_RESERVED: Final = frozenset("[]()>#+-=|{}.!")


def units(text: str) -> int:
    """Count UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def checked(state: State, text: str, given: object, parse_mode: str, limit: int = TEXT_LIMIT) -> tuple[str, list[Json]]:
    """Return the text and its entities as a message shows them.

    Raises ApiError: as Telegram does.
    """
    if parse_mode:
        text, entities = _parsed(text, parse_mode)
    else:
        entities = _given(given)
    _bounds(text, entities)
    text, entities = _trimmed(text, entities)
    if units(text) > limit:
        raise bad("message is too long" if limit == TEXT_LIMIT else "message caption is too long")
    state.ignored_entities += max(0, len(entities) - ENTITY_LIMIT)
    kept = entities[:ENTITY_LIMIT]
    return text, sorted(kept + found(text, kept), key=lambda entity: (entity["offset"], -entity["length"]))


def found(text: str, entities: list[Json]) -> list[Json]:
    """Return what Telegram makes clickable by itself, outside of code and links."""
    taken = [(e["offset"], e["offset"] + e["length"]) for e in entities if e["type"] in _OPAQUE]
    made: list[Json] = []
    for kind, pattern in _FOUND:
        for match in pattern.finditer(text):
            begin = units(text[: match.start()])
            end = begin + units(match.group())
            if all(end <= first or begin >= last for first, last in taken):
                taken.append((begin, end))
                made.append({"type": kind, "offset": begin, "length": end - begin})
    return made


def _given(given: object) -> list[Json]:
    if given in (None, ""):
        return []
    try:
        entities = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        raise bad("can't parse entities: Can't parse JSON object") from None
    if not isinstance(entities, list):
        raise bad("can't parse entities: Expected an Array of MessageEntity")
    made = cast("list[Json]", entities)
    if not all(isinstance(entity, dict) for entity in cast("list[object]", entities)):
        raise bad("can't parse MessageEntity: Expected an Object")
    for entity in made:
        if entity.get("type") not in TYPES:
            raise bad("can't parse MessageEntity: Unsupported type specified")
        for name in ("offset", "length"):
            if not isinstance(entity.get(name), int):
                raise bad(f"can't parse MessageEntity: Can't find field \"{name}\"")
        if entity["type"] == "text_link":
            _linked(entity)
    return sorted(made, key=lambda entity: (entity["offset"], -entity["length"]))


def _linked(entity: Json) -> None:
    url = entity.get("url")
    if not isinstance(url, str):
        raise bad("can't parse MessageEntity: Can't find field \"url\"")
    parts = urlsplit(url if "://" in url or url.startswith("tg:") else f"http://{url}")
    if parts.scheme not in {"tg", "ton", "tonsite"} and "." not in (parts.hostname or ""):
        raise bad(f"entity URL '{url}' is invalid: Wrong HTTP URL")


def _bounds(text: str, entities: list[Json]) -> None:
    raw = text.encode("utf-16-le", "surrogatepass")
    size = len(raw) // 2
    ends: list[int] = []
    for entity in entities:
        begin, end = entity["offset"], entity["offset"] + entity["length"]
        while ends and ends[-1] <= begin:
            ends.pop()
        beyond = ends[-1] if ends else size
        if begin > size:
            raise bad(f"entity begins after the end of the text at UTF-16 offset {begin}")
        if begin < 0 or entity["length"] < 0 or end > beyond:
            raise bad(
                f"entity beginning at UTF-16 offset {begin} ends after the end of the text at UTF-16 offset {end}"
            )
        for place, word in ((begin, "begins"), (end, "ends")):
            if place < size and 0xDC <= raw[2 * place + 1] <= 0xDF:
                raise bad(f"entity beginning at UTF-16 offset {begin} {word} in a middle of a UTF-16 symbol")
        ends.append(end)


def _trimmed(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    lead = units(text) - units(text.lstrip())
    text = text.strip()
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise bad("text must be non-empty")
    size = units(text)
    made: list[Json] = []
    for entity in entities:
        begin = max(0, entity["offset"] - lead)
        end = min(size, entity["offset"] + entity["length"] - lead)
        if begin < end:
            made.append({**entity, "offset": begin, "length": end - begin})
    return text, made


def _parsed(text: str, mode: str) -> tuple[str, list[Json]]:
    match mode.lower():
        case "html":
            return _html(text)
        case "markdownv2":
            return _markdown(text)
        case _:
            raise bad("unsupported parse_mode")


def _html(source: str) -> tuple[str, list[Json]]:
    text, made = "", list[Json]()
    opened: list[tuple[str, int, str]] = []
    for piece in re.finditer(r"<(/?)([^>\s]*)([^>]*)(>?)|([^<]+)", source):
        slash, tag, rest, close, plain = piece.groups()
        at = len(source[: piece.start()].encode())
        if plain is not None:
            text += unescape(plain)
        elif not close:
            raise bad(f"can't parse entities: Unclosed start tag at byte offset {at}")
        elif not slash:
            if tag.lower() not in _TAGS:
                raise bad(f'can\'t parse entities: Unsupported start tag "{tag}" at byte offset {at}')
            address = re.search(r"href=[\"']?([^\"'\s>]*)", rest)
            opened.append((tag.lower(), units(text), address.group(1) if address else ""))
        elif not opened or (tag and opened[-1][0] != tag.lower()):
            raise bad(f"can't parse entities: Unexpected end tag at byte offset {at}")
        else:
            name, begin, url = opened.pop()
            entity = {"type": _TAGS[name], "offset": begin, "length": units(text) - begin}
            made.append(entity | ({"url": unescape(url)} if name == "a" else {}))
    if opened:
        raise bad(f"can't parse entities: Can't find end tag corresponding to start tag \"{opened[-1][0]}\"")
    return text, sorted((e for e in made if e["length"]), key=lambda e: (e["offset"], -e["length"]))


def _markdown(source: str) -> tuple[str, list[Json]]:
    text, made = "", list[Json]()
    opened: list[tuple[str, int, int]] = []
    for piece in _MARKUP.finditer(source):
        escaped, mark, label, url, plain = piece.groups()
        at = len(source[: piece.start()].encode())
        within = opened[-1][0] if opened else ""
        if mark and (within == mark or within not in {"`", "```"}):
            if within == mark:
                _, begin, _ = opened.pop()
                made.append({"type": _KINDS[_MARKS[mark]], "offset": begin, "length": units(text) - begin})
            else:
                opened.append((mark, units(text), at))
        elif label is not None:
            made.append({"type": "text_link", "offset": units(text), "length": units(label), "url": url})
            text += label
        elif plain in _RESERVED and within not in {"`", "```"}:
            raise bad(
                f"can't parse entities: Character '{plain}' is reserved and must be escaped with the preceding '\\'"
            )
        else:
            text += escaped or mark or plain or ""
    if opened:
        mark, _, at = opened[-1]
        raise bad(f"can't parse entities: Can't find end of {_MARKS[mark]} entity at byte offset {at}")
    return text, sorted((e for e in made if e["length"]), key=lambda e: (e["offset"], -e["length"]))
