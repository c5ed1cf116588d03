"""What a message may be besides text and files, what a client makes of a long paste, and what the API may leave out."""

from types import MappingProxyType
from typing import Any, Final, cast

from tests.sim.telegram_state import Json
from tests.sim.telegram_text import units

LIMIT: Final = 4096

_PLACE: Final[Json] = {"latitude": 53.54, "longitude": 9.98}

KINDS: Final = MappingProxyType[str, Json](
    {
        "sticker": {
            "sticker": {
                "file_id": "s1",
                "file_unique_id": "us1",
                "type": "regular",
                "width": 512,
                "height": 512,
                "is_animated": False,
                "is_video": False,
            }
        },
        "location": {"location": _PLACE},
        "venue": {"location": _PLACE, "venue": {"location": _PLACE, "title": "Harbour", "address": "Quay 1"}},
        "contact": {"contact": {"phone_number": "+15550100", "first_name": "Carl"}},
        "poll": {
            "poll": {
                "id": "p1",
                "question": "tea?",
                "options": [{"text": "yes", "voter_count": 0}, {"text": "no", "voter_count": 0}],
                "total_voter_count": 0,
                "is_closed": False,
                "is_anonymous": True,
                "type": "regular",
                "allows_multiple_answers": False,
            }
        },
        "dice": {"dice": {"emoji": "🎲", "value": 4}},
        "pinned": {"pinned_message": {"message_id": 1, "date": 0, "chat": {"id": 1, "type": "private"}}},
    }
)
"""Bodies of messages by their kind; `pinned` is one that Telegram makes by itself."""

_OPTIONAL: Final = frozenset(
    {
        *("last_name", "language_code", "title", "is_forum", "edit_date", "reply_markup", "link_preview_options"),
        *("file_name", "mime_type", "file_size", "entities", "caption_entities", "supports_inline_queries"),
        *("has_topics_enabled", "can_join_groups", "can_read_all_group_messages"),
    }
)


def pieces(text: str) -> list[str]:
    """Cut a paste as clients do: at the last space or line end that fits, else in the middle of a word."""
    found = list[str]()
    while units(text) > LIMIT:
        end = LIMIT
        while units(text[:end]) > LIMIT:
            end -= 1
        space = max(text.rfind(one, LIMIT // 2, end + 1) for one in "\n ")
        found.append(text[: space if space > 0 else end].strip())
        text = text[space if space > 0 else end :].strip()
    return [*found, text]


def spared(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return an answer or an update without the fields that the API may leave out, besides what a person wrote."""
    if isinstance(value, dict):
        members = cast("Json", value)
        return {name: spared(one) for name, one in members.items() if name not in _OPTIONAL}
    return [spared(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value
