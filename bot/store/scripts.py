"""The scripts' texts: each file behind the shared prelude, and the prelude behind what Python already says.

Levels, lifecycle and schema version are written into the text from their Python values, so a script cannot
disagree with the rest of the program. So is what a parent is told of a background session that rises above it. This
module does not run anything.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

from bot.sessions.delegation import MOST_HOPS, SESSION
from bot.sessions.deliveries import OURS, RISEN, RISEN_KEY
from bot.sessions.models import MOVES, SCHEMA
from bot.store.schema import encode
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
    OVERRIDE = "override"
    PAIR = "pair"
    HOLD = "hold"
    SWAP = "swap"
    OFFER = "offer"
    COUNT = "count"
    OBSERVE = "observe"
    BUDGET = "budget"
    QUARANTINE = "quarantine"
    UNQUARANTINE = "unquarantine"


_USES_WRITE = frozenset({Script.RAISE_TAINT, Script.COMMIT})


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A script as the server gets it, and the digest it is called by."""

    text: str
    digest: str


def load_scripts() -> dict[Script, ScriptText]:
    """Read all scripts."""
    folder = files("bot.store").joinpath("scripts")

    def read(name: str) -> str:
        return folder.joinpath(f"{name}.lua").read_text(encoding="utf-8")

    prelude = constants() + read("prelude")
    write = read("write")
    return {script: _text(prelude + (write if script in _USES_WRITE else "") + read(script.value)) for script in Script}


def constants() -> str:
    """Return the Lua text of what the scripts share with Python: schema version, levels, lifecycle."""
    levels = ", ".join(f"{level.name} = {level.value}" for level in Level)
    names = ", ".join(f"[{level.value}] = '{level.name}'" for level in Level)
    moves = ", ".join(
        f"{before} = {{{', '.join(f'{after} = true' for after in sorted(afters))}}}" for before, afters in MOVES.items()
    )
    return (
        f"local SCHEMA = {SCHEMA}\nlocal LEVELS = {{{levels}}}\nlocal NAMES = {{{names}}}\nlocal MOVES = {{{moves}}}\n"
        f"local NOTICE = {{{', '.join(f'{name} = {value}' for name, value in _notice())}}}\n"
    )


def _notice() -> Iterator[tuple[str, str]]:
    """Yield what a parent is told of a background session that rises above it, as Lua writes it."""
    yield "key", f"'{RISEN_KEY}'"
    yield "kind", f"'{OutboundKind.NOTICE.value}'"
    yield "channel", f"'{encode(SESSION)}'"
    yield "approved", "{" + ", ".join(f"'{rule}'" for rule in OURS) + "}"
    yield "hops", str(MOST_HOPS)
    yield "text", f"[==[{json.dumps(RISEN)}]==]"


def _text(text: str) -> ScriptText:
    # Redis names a script by its SHA-1; nothing is protected by it.
    return ScriptText(text, hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).hexdigest())
