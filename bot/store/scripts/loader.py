"""The scripts' texts: each file after the parts of the shared prelude that it uses, with values from Python.

Levels, lifecycle, the words for states, the schema version and the order of a script's keys are written into the text
from their Python values. So a script cannot disagree with the rest of the program. The same holds for the notice to a
parent about a background session that rises above it. The names of fields become their stored names. A server runs the
whole text at each call, and needs no table for these values. This module does not run anything.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from bot.sessions.approvals import ApprovalState, QuestionKind
from bot.sessions.background.delegation import MOST_HOPS, SESSION
from bot.sessions.background.run_states import Breaker, EndReason, Priority, RunStatus
from bot.sessions.background.schedules import ScheduleStatus
from bot.sessions.consents.grants import GrantEnd
from bot.sessions.deliveries import DEAD, OURS, RISEN, RISEN_KEY, DeliveryState
from bot.sessions.inbox import ItemStatus, QueueMode
from bot.sessions.installation.clocks import APART_MS
from bot.sessions.knowledge.memories import MemoryState
from bot.sessions.knowledge.skills import MOST_EVENTS, MOST_NOTES, SkillState
from bot.sessions.lifecycle import MOVES, OPERATIONS, IllegalMove
from bot.sessions.log.event_types import YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.models import SCHEMA, Status
from bot.store.records.form import MOST
from bot.store.records.names import NAMES
from bot.store.schema import CHANGED, CONTINUE, encode
from bot.store.scripts.nesting import nest, words_of
from channels.messages import OutboundKind
from policy.labels import Level


class Script(StrEnum):
    """The scripts, by file name."""

    ACCEPT = "accept"
    CLAIM = "claim"
    RAISE_TAINT = "raise_taint"
    COMMIT = "commit"
    RENEW = "renew"
    RELEASE = "release"
    STOP = "stop"
    RESET = "reset"
    RESOLVE = "resolve"
    PUT = "put"
    TAKE = "take"
    SETTLE = "settle"
    DECIDE_DEAD = "decide_dead"
    PACE = "pace"
    PAUSE_DELIVERY = "pause_delivery"
    PROBE = "probe"
    MARK_READY = "mark_ready"
    RECLAIM_PROCESS = "reclaim_process"
    NAME = "name"
    QUEUE_MODE = "queue_mode"
    WITHDRAW = "withdraw"
    AUDIT_APPEND = "audit_append"
    RECEIVE = "receive"
    DECIDE_HELD = "decide_held"
    RESERVE = "reserve"
    FREE = "free"
    ENDORSE = "endorse"
    PUT_POLICY = "put_policy"
    AGREE_KEYS = "agree_keys"
    OVERRIDE = "override"
    ASK_PAIRING = "ask_pairing"
    TRY_PAIRING = "try_pairing"
    HOLD = "hold"
    SWAP = "swap"
    MAKE_OFFER = "make_offer"
    TAKE_OFFER = "take_offer"
    COUNT = "count"
    OBSERVE = "observe"
    RESERVE_TOKENS = "reserve_tokens"
    SETTLE_TOKENS = "settle_tokens"
    RELEASE_TOKENS = "release_tokens"
    RECALL_TOKENS = "recall_tokens"
    GRANT_TOKENS = "grant_tokens"
    LOWER_GRANT = "lower_grant"
    QUARANTINE = "quarantine"
    UNQUARANTINE = "unquarantine"
    SPEND = "spend"
    PAUSE = "pause"
    RESUME = "resume"
    ARCHIVE = "archive"
    RESTORE = "restore"
    FAIL = "fail"
    DELETE = "delete"
    ERASED = "erased"
    TURNS = "turns"
    RECORD_KEY = "record_key"
    BEGUN = "begun"
    IMPORT_SESSION = "import_session"
    ADD_WEBHOOK = "add_webhook"
    DROP_WEBHOOK = "drop_webhook"
    HOLD_WEBHOOKS = "hold_webhooks"
    MARK_WEBHOOK = "mark_webhook"
    NOTE_WEBHOOK = "note_webhook"
    GIVE_UP_EVENT = "give_up_event"
    SETTLE_EVENT = "settle_event"
    ADD_PROGRAM = "add_program"
    CHANGE_PROGRAM = "change_program"
    CHANGE_RUN = "change_run"
    STEER = "steer"
    WAKE_RUN = "wake_run"
    RESERVE_RUN = "reserve_run"
    LOCK_SLOT = "lock_slot"
    FREE_RUN = "free_run"
    ADD_SCHEDULE = "add_schedule"
    REPLACE_SCHEDULE = "replace_schedule"
    DROP_SCHEDULE = "drop_schedule"
    SET_TIMER = "set_timer"
    TAKE_DUE = "take_due"
    HOLD_TIMER = "hold_timer"
    SETTLE_TIMER = "settle_timer"
    LEARN = "learn"
    FORGET = "forget"
    COUNT_USE = "count_use"
    PUT_SKILL = "put_skill"
    REFLECT = "reflect"
    ADVANCE_WORKFLOW = "advance_workflow"
    COPY_KEYS = "copy_keys"
    PUT_KEYS = "put_keys"
    REST_RESTORED = "rest_restored"
    NOTE_LOSS = "note_loss"
    REVOKE_GRANT = "revoke_grant"


_COMMENT: Final = re.compile(r"--.*")

_PART: Final = re.compile(r"^local (?:function )?(?P<names>\w+(?:, \w+)*).*\n(?:(?!local ).*\n)*", re.MULTILINE)
"""One definition of the prelude: a function, or values, up to the next."""

_SIGN: Final = re.compile(r"'[^']*'|\w+|\.\.+|[=~<>]=|\s+|.")
"""A text, a word, a sign or white space of Lua."""

_KEY: Final = re.compile(r"\bK\.(\w+)|\bLARGE\b")

_OWN_NAMES: Final = frozenset({"A", "K", "redis", "cmsgpack", "math", "string", "table"})
"""Words followed by names of their own: the arguments, which are named in full, the keys, and libraries."""

_SHORT: Final = frozenset(NAMES.values())

_USES_WRITE = frozenset({Script.RAISE_TAINT, Script.COMMIT})

_TURN_SPAN: Final = 1 << 20
"""How far apart the places of one pool's sessions are in the queue of ready sessions.

So many sessions of other pools may be marked before their order changes anything. The number stays exact in a score.
"""

_TOKENS: Final = ("head", "audit", "policy", "overrides", "tokens", "op")

_WRITE: Final = ("state", "log", "inbox", "inputs", "outbox", "approvals", "audit", "op")

_MEMORIES: Final = ("memories", "changed", "versions", "kept", "op")

_SCHEDULES: Final = ("head", "audit", "schedules", "theirs", "timers", "taken", "op")

KEYS: Final = MappingProxyType(
    {
        Script.ACCEPT: ("state", "log", "inbox", "inputs", "approvals", "asked", "sealed"),
        Script.CLAIM: ("state", "log", "inbox", "approvals"),
        Script.RAISE_TAINT: (*_WRITE, "notes"),
        Script.COMMIT: (*_WRITE, "notes"),
        Script.RENEW: ("state",),
        Script.RELEASE: ("state", "approvals"),
        Script.STOP: ("state", "inbox", "inputs", "approvals", "outbox", "op"),
        Script.RESET: (*_WRITE, "held", "held_ids", "observed"),
        Script.RESOLVE: ("state", "approvals", "audit"),
        Script.REVOKE_GRANT: ("state", "approvals", "audit"),
        Script.PUT: ("state", "log", "outbox", "sealed"),
        Script.TAKE: ("state", "outbox"),
        Script.SETTLE: ("state", "outbox", "audit"),
        Script.DECIDE_DEAD: ("state", "outbox", "audit", "op"),
        Script.PACE: ("channel", "place", "gone"),
        Script.PAUSE_DELIVERY: ("channel", "place", "gone"),
        Script.PROBE: ("state", "approvals", "outbox"),
        Script.MARK_READY: ("ready", "pools"),
        Script.RECLAIM_PROCESS: ("state", "approvals", "outbox"),
        Script.NAME: ("state",),
        Script.QUEUE_MODE: ("state", "audit", "op"),
        Script.WITHDRAW: ("state", "inbox", "inputs", "audit", "op"),
        Script.AUDIT_APPEND: ("head", "audit", "op"),
        Script.RECEIVE: ("state", "inbox", "inputs", "held", "held_ids"),
        Script.DECIDE_HELD: ("state", "inbox", "inputs", "held", "held_ids", "outbox", "audit", "op"),
        Script.RESERVE: ("slots",),
        Script.FREE: ("slots",),
        Script.ENDORSE: ("state",),
        Script.PUT_POLICY: ("head", "audit", "policy", "overrides", "op"),
        Script.AGREE_KEYS: ("names",),
        Script.OVERRIDE: ("head", "audit", "policy", "overrides", "pairings", "op"),
        Script.ASK_PAIRING: ("pairings", "op"),
        Script.TRY_PAIRING: ("pairings", "op"),
        Script.HOLD: ("right",),
        Script.SWAP: ("values", "op"),
        Script.MAKE_OFFER: ("offer",),
        Script.TAKE_OFFER: ("offer",),
        Script.COUNT: ("count", "op"),
        Script.OBSERVE: ("observed", "observed_ids"),
        Script.RESERVE_TOKENS: ("spent", "spending"),
        Script.SETTLE_TOKENS: ("spent", "spending", "op"),
        Script.RELEASE_TOKENS: ("spending",),
        Script.RECALL_TOKENS: ("spent", "spending"),
        Script.GRANT_TOKENS: ("grants",),
        Script.LOWER_GRANT: ("grants",),
        Script.QUARANTINE: ("head", "audit", "quarantine", "op"),
        Script.UNQUARANTINE: ("head", "audit", "quarantine", "op"),
        Script.SPEND: ("state",),
        Script.PAUSE: ("state", "log", "audit", "op"),
        Script.RESUME: ("state", "log", "approvals", "outbox", "audit", "op"),
        Script.ARCHIVE: ("state", "log", "inbox", "inputs", "audit", "op"),
        Script.RESTORE: ("state", "log", "audit", "op"),
        Script.FAIL: ("state",),
        Script.DELETE: (
            *("state", "log", "inbox", "inputs", "outbox", "approvals", "audit"),
            *("held", "held_ids", "observed", "observed_ids", "tasks", "notes", "record_key"),
        ),
        Script.ERASED: ("state",),
        Script.TURNS: ("log",),
        Script.RECORD_KEY: ("state", "record_key"),
        Script.BEGUN: ("state", "sealed"),
        Script.IMPORT_SESSION: ("state", "log", "sealed", "audit", "op"),
        Script.ADD_WEBHOOK: ("webhooks",),
        Script.DROP_WEBHOOK: ("webhooks", "rights", "positions", "dead"),
        Script.HOLD_WEBHOOKS: ("webhooks", "rights"),
        Script.MARK_WEBHOOK: ("webhooks",),
        Script.NOTE_WEBHOOK: ("webhooks", "positions", "dead"),
        Script.GIVE_UP_EVENT: ("webhooks", "positions", "dead"),
        Script.SETTLE_EVENT: ("webhooks", "dead"),
        Script.ADD_PROGRAM: _TOKENS,
        Script.CHANGE_PROGRAM: _TOKENS,
        Script.CHANGE_RUN: ("state", "tasks"),
        Script.STEER: ("state", "notes", "audit"),
        Script.WAKE_RUN: ("state", "inbox", "inputs", "approvals"),
        Script.RESERVE_RUN: ("slots",),
        Script.LOCK_SLOT: ("slots", "fences"),
        Script.FREE_RUN: ("slots",),
        Script.ADD_SCHEDULE: _SCHEDULES,
        Script.REPLACE_SCHEDULE: _SCHEDULES,
        Script.DROP_SCHEDULE: _SCHEDULES,
        Script.SET_TIMER: ("timers", "taken"),
        Script.TAKE_DUE: ("timers", "taken", "op"),
        Script.HOLD_TIMER: ("timers", "taken"),
        Script.SETTLE_TIMER: ("timers", "taken"),
        Script.LEARN: _MEMORIES,
        Script.FORGET: _MEMORIES,
        Script.COUNT_USE: ("uses", "versions", "op"),
        Script.PUT_SKILL: ("skills", "changed", "versions", "kept", "log", "op"),
        Script.REFLECT: ("outcomes", "notes", "versions", "op"),
        Script.ADVANCE_WORKFLOW: ("log", "versions", "orders", "kept", "projects", "op"),
        Script.COPY_KEYS: (),
        Script.PUT_KEYS: (),
        Script.REST_RESTORED: ("state", "outbox", "approvals"),
        Script.NOTE_LOSS: ("state", "log", "outbox", "approvals", "audit", "op"),
    }
)
"""The keys of each script in their order, by their names in its text. Those of large bodies follow."""


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A script as the server gets it, and the digest it is called by."""

    text: str
    digest: str


@cache
def load_scripts() -> Mapping[Script, ScriptText]:
    """Return all scripts.

    They are written once for a process, which takes a tenth of a second: tests open many stores.
    """
    prelude, write = lua("prelude"), lua("write")
    return MappingProxyType(
        {
            script: script_text(script, prelude, (write if script in _USES_WRITE else "") + lua(script.value))
            for script in Script
        }
    )


def lua(name: str) -> str:
    """Return the text of a script's file."""
    return files("bot.store").joinpath("scripts", f"{name}.lua").read_text(encoding="utf-8")


def script_text(script: Script, prelude: str, text: str) -> ScriptText:
    """Return a script's text after the parts of the prelude and the values that it uses.

    A server runs the whole text at each call, so unused parts would cost time, and so do functions that are not called.
    """
    code, parts = _written(text), _parts(prelude)
    words = set(words_of(code))
    while more := {word for part in parts if words & part.names for word in part.words} - words:
        words |= more
    needed = "".join(part.text for part in parts if words & part.names)
    whole = _with_keys(_tables(script, words) + nest(needed + code), KEYS[script])
    # Redis names a script by its SHA-1; it protects nothing.
    return ScriptText(whole, hashlib.sha1(whole.encode("utf-8"), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the prelude: its text, the names it defines, and the words in it."""

    text: str
    names: frozenset[str]
    words: frozenset[str]


@cache
def _parts(prelude: str) -> tuple[_Part, ...]:
    """Return the parts of the prelude as scripts are given them."""
    return tuple(
        _Part(part[0], words_of(part["names"]), words_of(part[0])) for part in _PART.finditer(_written(prelude))
    )


def _written(text: str) -> str:
    """Return a text with Python's values in place of their names, and with stored names in place of fields' names.

    Raises KeyError: a table of `_VALUES` has no such name, or a field has the stored name of another.
    """
    signs, depth, written = _SIGN.findall(_COMMENT.sub("", text)), 0, list[str]()
    for place, sign in enumerate(signs):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        base = signs[place - 2] if place and signs[place - 1] == "." else ""
        table, value = _VALUES.get(base), _VALUES.get(sign)
        if isinstance(table, Mapping):
            # The table and the point before it go, as this value stands for all of it.
            written[-2:] = [table[sign]]
        elif (base and base not in _OWN_NAMES) or (depth and sign.isidentifier() and _next(signs, place) == "="):
            written.append(_field(sign))
        else:
            written.append(value if isinstance(value, str) and not base else sign)
    return "".join(written)


def _with_keys(text: str, keys: tuple[str, ...]) -> str:
    """Return a text with a script's keys in the place of their names. Raises KeyError: it has no such key."""
    places = {name: f"KEYS[{place}]" for place, name in enumerate(keys, start=1)}
    return _KEY.sub(lambda found: places[found[1]] if found[1] else str(len(keys) + 1), text)


def _next(signs: list[str], place: int) -> str:
    """Return the sign after one, white space skipped."""
    return next((sign for sign in signs[place + 1 : place + 3] if not sign.isspace()), "")


def _field(name: str) -> str:
    """Return the stored name of a field; its own name if it is not stored. Raises KeyError: another is stored so."""
    if name not in NAMES and name in _SHORT:
        raise KeyError(name)
    return NAMES.get(name, name)


def _tables(script: Script, words: set[str]) -> str:
    """Return the Lua text of the tables, and of moves, that scripts share with Python, as far as these words occur."""
    moves = " ".join(f"{before}>{after}" for before in Status for after in sorted({before, *MOVES[before]}))
    tables: dict[str, Mapping[str, str]] = {
        "LEVELS": {level.name: str(level.value) for level in Level},
        "LEVEL_NAMES": {f"[{level.value}]": _quoted(level.name) for level in Level},
        "ILLEGAL": {f"['{status}']": _quoted(how) for status, how in OPERATIONS.get(script, {}).items()},
        "DEAD": {f"['{state}']": "true" for state in sorted(DEAD)},
    }
    values = {"MOVES": _quoted(f" {moves} "), **{name: _table(of) for name, of in tables.items()}}
    return "".join(f"local {name} = {value}\n" for name, value in values.items() if name in words)


def _words(kind: Iterable[StrEnum]) -> dict[str, str]:
    return {word.value: _quoted(word.value) for word in kind}


def _table(fields: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {value}" for name, value in fields.items()) + "}"


def _quoted(text: str) -> str:
    return f"'{text}'"


def _notice() -> Iterator[tuple[str, str]]:
    """Yield the notice to a parent about a background session that rises above it, as Lua writes it."""
    yield "key", f"'{RISEN_KEY}'"
    yield "kind", f"'{OutboundKind.NOTICE.value}'"
    yield "channel", f"'{encode(SESSION)}'"
    yield "approved", f"[==[{json.dumps(list(OURS))}]==]"
    yield "hops", str(MOST_HOPS)
    yield "body", f"[==[{json.dumps(RISEN)}]==]"


_VALUES: Final[Mapping[str, str | Mapping[str, str]]] = MappingProxyType(
    {
        "SCHEMA": str(SCHEMA),
        "MOST": str(MOST - 1),
        "CHANGED": _quoted(CHANGED),
        "CONTINUE": _quoted(CONTINUE),
        "NEEDS_INPUT": _quoted(YieldReason.NEEDS_INPUT),
        "TURN_COMPLETED": _quoted(EventType.TURN_COMPLETED),
        "Status": _words(Status),
        "IllegalMove": _words(IllegalMove),
        "Item": _words(ItemStatus),
        "Approval": _words(ApprovalState),
        "Question": _words(QuestionKind),
        "GrantEnd": _words(GrantEnd),
        "Delivery": _words(DeliveryState),
        "QueueMode": _words(QueueMode),
        "RunStatus": _words(RunStatus),
        "EndReason": _words(EndReason),
        "Breaker": _words(Breaker),
        "Priority": _words(Priority),
        "ScheduleStatus": _words(ScheduleStatus),
        "MemoryState": _words(MemoryState),
        "SkillState": _words(SkillState),
        "MOST_EVENTS": str(MOST_EVENTS),
        "MOST_NOTES": str(MOST_NOTES),
        "TURN_SPAN": str(_TURN_SPAN),
        "CLOCKS_APART": str(APART_MS),
        "F": {name: _quoted(stored) for name, stored in NAMES.items()},
        "NOTICE": dict(_notice()),
    }
)
"""Names and their values in the texts of all scripts."""
