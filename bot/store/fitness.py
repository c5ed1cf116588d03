"""Whether a server can serve as the store: its version, and whether it keeps what it acknowledges."""

from typing import Final

from bot.core.errors import StoreRefusedError
from bot.store.keys import right_key
from bot.store.link import Link
from bot.store.scripts import Script

_OLDEST_REDIS: Final = (7, 4)
_OLDEST_VALKEY: Final = (9, 0)


async def complaints(link: Link) -> list[StoreRefusedError]:
    """Return what makes a server unfit, worst first: too old, evicting, or forgetting. Doctor shows them.

    A server that does not let us ask (`CONFIG` forbidden, as hosted ones do) is given the benefit of the doubt.
    Raises StoreGoneError: it does not answer.
    """
    (info,) = await link.commands(("INFO",))
    facts = dict(line.split(":", 1) for line in info.decode("utf-8", "replace").splitlines() if ":" in line)
    found: list[StoreRefusedError] = []
    valkey = facts.get("valkey_version", "")
    version = _numbers(valkey or facts.get("redis_version", "0"))
    if version < (_OLDEST_VALKEY if valkey else _OLDEST_REDIS):
        found.append(
            StoreRefusedError(
                f"the store runs version {valkey or facts.get('redis_version', 'unknown')}, which is too old",
                next_step="use Redis 7.4 or Valkey 9, or newer",
            )
        )
    if facts.get("maxmemory_policy", "noeviction") != "noeviction":
        found.append(
            StoreRefusedError(
                f"the store evicts records (`maxmemory-policy` is `{facts['maxmemory_policy']}`)",
                next_step="set `maxmemory-policy noeviction`",
            )
        )
    if facts.get("aof_enabled", "1") != "1":
        found.append(
            StoreRefusedError(
                "the store does not keep what it acknowledges (`appendonly` is off)",
                next_step="set `appendonly yes` and choose `appendfsync`",
            )
        )
    return found


async def proof(link: Link) -> list[StoreRefusedError]:
    """Return what keeps a server from running a script that writes, nothing if it does. It leaves nothing there.

    Raises StoreGoneError: it does not answer.
    """
    try:
        await link.script(Script.HOLD, [right_key("proof")], [link.name, 1000])
        await link.script(Script.HOLD, [right_key("proof")], [link.name, 0])
    except StoreRefusedError as refusal:
        return [refusal]
    return []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
