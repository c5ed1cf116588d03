"""Whether a store keeps its promises over a crash: how often it syncs to disk, and whether its last writes succeeded.

That it appends at all is checked whenever it is opened. A server that does not let us ask is believed.
"""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from redis.exceptions import RedisError

from bot.core.errors import StoreRefusedError
from bot.store.servers.connection import Connection

_ASKED: Final = ("CONFIG", "GET", "appendfsync")


async def durability(connection: Connection) -> tuple[list[StoreRefusedError], str]:
    """Return the dangers to records that are written, and how often the servers sync, empty where nobody may ask.

    Raises StoreGoneError: one does not answer.
    """
    found, modes = list[StoreRefusedError](), set[str]()
    for name, info in await connection.everywhere(("INFO",)):
        found += _failing(reported(info), called(name))
    try:
        asked = await connection.everywhere(_ASKED)
    except (StoreRefusedError, RedisError):
        return found, ""
    for name, reply in asked:
        # RESP3 answers with a mapping, RESP2 with a list of names and values.
        values: Mapping[bytes, bytes] = (
            cast("Mapping[bytes, bytes]", reply)
            if isinstance(reply, Mapping)
            else dict(zip(reply[::2], reply[1::2], strict=False))
        )
        mode = values.get(b"appendfsync", b"").decode()
        modes.add(mode)
        if mode == "no":
            found.append(
                StoreRefusedError(
                    f"{called(name)} never syncs its writes to disk (`appendfsync` is `no`)",
                    next_step="type `CONFIG SET appendfsync everysec` there, and put it into its file",
                )
            )
    return found, ", ".join(sorted(modes))


def called(server: str) -> str:
    """Return a server as complaints call it; without a name it is the store's only one."""
    return f"the store's server `{server}`" if server else "the store"


def reported(info: bytes) -> dict[str, str]:
    """Return the facts in a reply to `INFO`, by name."""
    lines = info.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _failing(facts: Mapping[str, str], who: str) -> Iterator[StoreRefusedError]:
    if facts.get("aof_last_write_status", "ok") != "ok":
        yield StoreRefusedError(
            f"{who} could not append its last writes to disk", next_step="make room on its disk and look at its log"
        )
    if facts.get("rdb_last_bgsave_status", "ok") != "ok":
        yield StoreRefusedError(
            f"{who} could not save its last snapshot", next_step="make room on its disk and look at its log"
        )
    if facts.get("loading", "0") != "0":
        yield StoreRefusedError(f"{who} still loads its records", next_step="wait until that is done")
