"""Whole messages of their parts: an album, or a text that its sender's client cut, is admitted as one message. Pure.

Each part was accepted as an input of its own, durably, before its platform was told so. The parts are joined only here,
when they are admitted together. Parts of different accounts are never joined, nor quoted texts of others with a
sender's own words. The label of the whole is the join of the labels of its parts.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from bot.sessions.inbox import TEXT_PART, InboxItem
from bot.sessions.refs import InputRef
from policy.labels import join_all

MOST: Final = 20
"""The most parts of one message."""

CHARACTERS: Final = 100_000
"""The most characters of a text that is joined."""

CUT: Final = 4096
"""The length at which a client cuts inside a line, in UTF-16 code units; a shorter part ended with its line."""

PAUSE_MS: Final = 500
"""The longest time between two parts of a text, in milliseconds."""


def first_whole(waiting: Sequence[InboxItem]) -> InboxItem:
    """Return the first waiting input, joined with the parts behind it that belong to the same message."""
    parts = [waiting[0]]
    for item in waiting[1:MOST]:
        length = sum(len(part.body.text) for part in parts)
        if not _follows(parts[-1], item) or length + len(item.body.text) > CHARACTERS:
            break
        parts.append(item)
    return _joined(parts)


def settled(waiting: Sequence[InboxItem], now: int) -> bool:
    """Say whether no part of the first waiting message is expected any more; `now` is in milliseconds."""
    whole = first_whole(waiting)
    newest = waiting[len(whole.also)]
    last = len(waiting) == len(whole.also) + 1 < MOST
    return not (last and newest.part and now < newest.accepted_at + PAUSE_MS)


def _follows(before: InboxItem, item: InboxItem) -> bool:
    """Say whether an input is the next part of a message."""
    mine, other = before.body, item.body
    who = (before.sender, mine.account, mine.opens)
    if not before.part or who != (item.sender, other.account, other.opens) or mine.origin or other.origin:
        return False
    if before.part != TEXT_PART:
        return before.part == item.part
    plain = bool(other.text) and not (other.quoted or other.files or mine.files)
    return plain and item.part in {"", TEXT_PART} and item.accepted_at - before.accepted_at <= PAUSE_MS


def _joined(parts: Sequence[InboxItem]) -> InboxItem:
    first, *others = parts
    if not others:
        return first
    body = replace(
        first.body,
        text=_text(parts),
        quoted=tuple(dict.fromkeys(quoted for part in parts for quoted in part.body.quoted)),
        files=tuple(file for part in parts for file in part.body.files),
    )
    return replace(
        first,
        label=join_all(part.label for part in parts),
        body=body,
        refs=(*first.refs, *(ref for part in others for ref in (InputRef(part.dedupe), *part.refs))),
        also=tuple(part.position for part in others),
    )


def _text(parts: Sequence[InboxItem]) -> str:
    """Return the texts of parts as one: a line that was cut is whole again."""
    text = parts[0].body.text
    for before, part in pairwise(parts):
        said = part.body.text
        cut = before.part == TEXT_PART and len(before.body.text.encode("utf-16-le", "surrogatepass")) >= 2 * CUT
        text += said if cut or not (text and said) else f"\n{said}"
    return text
