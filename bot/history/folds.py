"""The state that the events of a generation add up to for the decisions of a turn, folded one after another.

It covers the authors in the context, the addresses there and their typists, the held items, and the bounded answers.
Each of them counts all events of the generation. Folding can go on from any event and gives the same as folding all of
them, so no log has to be read from its beginning. An event of the log carries the folds of the part that a recap stands
for (ADR 0027), and a process remembers those of its sessions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from bot.access.authors import authors
from bot.access.decision_context import DecisionContext
from bot.access.known_urls import given, newest, repeated, typed
from bot.core.json_values import JsonObject, objects
from bot.history import event_log
from bot.sessions.log.event_types import (
    AgentThinking,
    ApprovalResolved,
    ChatObserved,
    EventBody,
    ItemHeld,
    LogTruncated,
    MemoriesRecalled,
    ToolCall,
    ToolOutcome,
    ToolResult,
    TurnCompleted,
    UserMessage,
)
from bot.sessions.log.events import DeferredResult, Event, NewEvent
from bot.sessions.log.serialization import endorsed_from, endorsed_json
from bot.sessions.messages import Endorsed

if TYPE_CHECKING:
    from pydantic import JsonValue

_PLAIN: Final = ("first", "untrusted", "overheard", "file_bytes", "foreign", "truncated")
"""The folds that an event carries as they are."""

_NOBODY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Newest:
    """The folds of the newest turn's events."""

    id: str = ""
    """The turn, empty for none."""
    said: tuple[int, ...] = ()
    """The seqs of the messages that were let in for it, and of recalled memories."""
    foreign: bool | None = None
    """The first message of it came from another session, None if there is no message."""
    steps: int = 0
    """The number of the model's responses."""
    resolved: frozenset[str] = frozenset()
    """The approvals whose answer is in the log."""
    response: int = 0
    """The seq of the newest response, 0 for none."""

    def plus(self, seq: int, event: Event | NewEvent) -> "Newest":
        """Return it with one more event, which may begin another turn."""
        turn = self if event.turn == self.id else Newest(event.turn)
        match event.body:
            case UserMessage(origin=origin):
                foreign = origin is not None if turn.foreign is None else turn.foreign
                return replace(turn, said=(*turn.said, seq), foreign=foreign)
            case ChatObserved() | MemoriesRecalled():
                return replace(turn, said=(*turn.said, seq))
            case AgentThinking():
                return replace(turn, steps=turn.steps + 1, response=seq)
            case ApprovalResolved(approval=approval):
                return replace(turn, resolved=turn.resolved | {approval})
            case _:
                return turn


@dataclass(frozen=True, slots=True)
class Folds:
    """The folds of a generation's events, from its first one on."""

    authors: frozenset[str] = frozenset()
    """The people whose words are in the context."""
    first: str = ""
    untrusted: bool = False
    """Something in the context is UNTRUSTED."""
    given: frozenset[str] = frozenset()
    """The addresses that count for all people."""
    repeated: frozenset[str] = frozenset()
    """The addresses that count for the first author alone, as no other person had written yet."""
    typed: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOBODY)
    """The newest addresses that each person typed."""
    held: tuple[DeferredResult, ...] = ()
    """The items kept out of the context."""
    held_at: tuple[int, ...] = ()
    """The seqs of the events of `held`."""
    endorsed: tuple[Endorsed, ...] = ()
    """The bounded answers that were let in."""
    depended: tuple[Endorsed, ...] = ()
    """The held answers and entries that decided on calls, as long as nothing was read that may tell of it."""
    overheard: str = ""
    """The id up to which observed messages were let in."""
    file_bytes: int = 0
    """The size in bytes of all files that came with messages."""
    foreign: bool | None = None
    """The newest message came from another session, None if there is no message."""
    truncated: bool = False
    """The store lost events, and no turn ended since: a call may have been made before."""
    newest: Newest = Newest()

    def plus(self, following: Iterable[Event]) -> "Folds":
        """Return them with the events that follow."""
        return self.plus_new((event.seq, event) for event in following)

    def plus_new(self, following: Iterable[tuple[int, Event | NewEvent]]) -> "Folds":
        """Return them with the events that follow, each with its seq."""
        folding = _Folding(self)
        for seq, event in following:
            folding.take(seq, event)
        return folding.done()

    def addresses(self, asker: str) -> frozenset[str]:
        """Return the web addresses that count for an asker (`bot.access.known_urls`)."""
        return self.given | self.repeated if self.repeated and asker == self.first else self.given

    def of(self, standing: DecisionContext) -> DecisionContext:
        """Return a session's decision context, with the folds of its log for its asker."""
        return replace(
            standing,
            addresses=self.addresses(standing.asker),
            typed=self.typed.get(standing.asker, ()),
            held=self.held,
            authors=self.authors,
            endorsed=self.endorsed,
            depended=self.depended,
            truncated=self.truncated,
        )

    def written(self) -> JsonObject:
        """Return them as an event carries them.

        Held items are given by their seqs alone, as they have a label of their own.
        """
        listed = {name: sorted(getattr(self, name)) for name in ("authors", "given", "repeated")}
        plain = {name: getattr(self, name) for name in _PLAIN}
        turn = self.newest
        return {
            **cast("dict[str, JsonValue]", listed),
            **cast("dict[str, JsonValue]", plain),
            "typed": {person: list(found) for person, found in self.typed.items()},
            "held": list(self.held_at),
            "endorsed": endorsed_json(self.endorsed),
            "depended": endorsed_json(self.depended),
            "turn": turn.id,
            "said": list(turn.said),
            "opened_by_other": turn.foreign,
            "steps": turn.steps,
            "response": turn.response,
            "resolved": cast("list[JsonValue]", sorted(turn.resolved)),
        }


def named(carried: JsonObject) -> tuple[int, ...]:
    """Return the seqs of the events that folds which an event carries do not hold themselves: of all that is held."""
    return tuple(cast("list[int]", carried["held"]))


def read(carried: JsonObject, holding: Iterable[Event]) -> Folds:
    """Return the folds that an event carries; `holding` are the events that `named` tells, in their order."""
    found = cast("dict[str, Any]", carried)
    kept = tuple(holding)
    return Folds(
        **{name: frozenset(found[name]) for name in ("authors", "given", "repeated")},
        **{name: found[name] for name in _PLAIN},
        typed={person: tuple(addresses) for person, addresses in found["typed"].items()},
        held=event_log.held_in(kept),
        held_at=tuple(event.seq for event in kept),
        endorsed=endorsed_from(objects(carried, "endorsed")),
        depended=endorsed_from(objects(carried, "depended")),
        newest=Newest(
            found["turn"],
            tuple(found["said"]),
            found["opened_by_other"],
            found["steps"],
            frozenset(found["resolved"]),
            found["response"],
        ),
    )


class _Folding:
    """Folds one event after another; large parts are put together once, in the end."""

    def __init__(self, before: Folds) -> None:
        self._before = before
        self._authors = before.authors
        self._first = before.first
        self._untrusted = before.untrusted
        self._given = set[str]()
        self._repeated = set[str]()
        self._typed = dict[str, list[str]]()
        self._held = list[Event | NewEvent]()
        self._held_at = list[int]()
        self._endorsed = list[Endorsed]()
        self._depended = list[Endorsed](before.depended)
        self._overheard = before.overheard
        self._file_bytes = before.file_bytes
        self._foreign = before.foreign
        self._truncated = before.truncated
        self._newest = before.newest

    def take(self, seq: int, event: Event | NewEvent) -> None:
        """Fold one event."""
        self._endorsed += event_log.endorsed_in((event,))
        if self._depended and _tells(event.body):
            self._endorsed += self._depended
            self._depended = []
        if isinstance(event.body, ToolCall):
            self._depended += event.body.depended
        if event.admitted:
            self._words(event)
        match event.body:
            case ItemHeld():
                self._held.append(event)
                self._held_at.append(seq)
            case ChatObserved(upto=upto):
                self._overheard = upto
            case UserMessage(origin=origin, files=files):
                self._foreign = origin is not None
                self._file_bytes += sum(file.size for file in files)
            case LogTruncated():
                self._truncated = True
            case TurnCompleted():
                self._truncated = False
            case _:
                pass
        if event.turn:
            self._newest = self._newest.plus(seq, event)

    def _words(self, event: Event | NewEvent) -> None:
        wrote = authors((event,))
        if not self._authors:
            self._first = next(iter(wrote)) if len(wrote) == 1 else ""
        if not wrote <= self._authors:
            self._authors |= wrote
        self._untrusted = self._untrusted or event.label.untrusted
        self._given.update(given(event))
        steered = self._untrusted or bool(self._before.endorsed or self._endorsed)
        if not steered and len(self._authors) < 2:  # noqa: PLR2004 - words of one alone, or of nobody
            (self._repeated if self._authors else self._given).update(repeated(event))
        if isinstance(event.body, UserMessage):
            self._typed.setdefault(event.actor, []).extend(typed(event))

    def done(self) -> Folds:
        """Return the folds of all of them."""
        before, folded = self._before, {person: found for person, found in self._typed.items() if found}
        return Folds(
            authors=self._authors,
            first=self._first,
            untrusted=self._untrusted,
            given=_grown(before.given, self._given),
            repeated=_grown(before.repeated, self._repeated),
            typed={
                **before.typed,
                **{person: newest((*before.typed.get(person, ()), *found)) for person, found in folded.items()},
            },
            held=(*before.held, *event_log.held_in(self._held)),
            held_at=(*before.held_at, *self._held_at),
            endorsed=tuple(dict.fromkeys((*before.endorsed, *self._endorsed))),
            depended=tuple(dict.fromkeys(self._depended)),
            overheard=self._overheard,
            file_bytes=self._file_bytes,
            foreign=self._foreign,
            truncated=self._truncated,
            newest=self._newest,
        )


def _tells(body: EventBody) -> bool:
    """Say whether an event brings something from outside the conversation, which a call before it may have changed."""
    match body:
        case ToolResult(outcome=outcome):
            return outcome is not ToolOutcome.HELD
        case UserMessage(origin=origin):
            return origin is not None
        case ChatObserved() | MemoriesRecalled():
            return True
        case _:
            return False


def _grown(before: frozenset[str], more: set[str]) -> frozenset[str]:
    return before if more <= before else before | more
