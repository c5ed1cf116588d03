"""Refusals of servers: their answers as errors of ours, each with the next step for operators."""

import re
from types import MappingProxyType
from typing import Final

from redis.exceptions import RedisError

from bot.core.errors import StoreError, StoreRefusedError
from bot.store.records.codec import unreadable
from bot.store.records.form import other_version

_COMMAND: Final = re.compile(r"'([a-z|]+)' command")
"""A server's name for the command that a user may not run."""


_DENIED_IN_SCRIPT: Final = "ACL failure in script"


_CHANNEL: Final = "access a channel"
"""A server's words for a channel that a user may not use."""


_WRONG_TYPE: Final = "WRONGTYPE"


_IN_SCRIPT: Final = "user_script"


_ONE_SERVER: Final = "`redis://host:6379/0` for one server"

_CLUSTER: Final = "`redis+cluster://host:6379,host:6379` for a Cluster"

_SENTINELS: Final = "`redis+sentinel://host:26379/service` for Sentinels"

_NO_CLUSTER: Final = (
    "the server at `store.url` is no Cluster",
    f"write it as {_ONE_SERVER}, {_SENTINELS}",
)

_MISTAKEN: Final = (
    ("cluster support disabled", _NO_CLUSTER),
    ("unknown command 'CLUSTER'", _NO_CLUSTER),
    (
        "unknown command 'SENTINEL'",
        ("the servers at `store.url` are no Sentinels", f"write it as {_ONE_SERVER}, {_CLUSTER}"),
    ),
    (
        "called without any password configured",
        ("the store has no password", "take the password out of LOCKGATE_STORE_URL"),
    ),
)
"""The refusals of servers that are of another kind than their address says, each with the message for people."""


_REFUSALS: Final = MappingProxyType(
    {
        "OOM": ("the store's memory limit is reached", "raise `maxmemory` of the store"),
        "READONLY": ("the store is a read-only replica", "point `store.url` at the primary"),
        "MISCONF": ("the store cannot write to its disk", "make room on the store's disk and look at its log"),
        "NOREPLICAS": (
            "the store has too few replicas to write",
            "mend the replicas, or lower `min-replicas-to-write`",
        ),
        "MASTERDOWN": ("the store lost its primary", "wait for the failover, or mend the primary"),
        "CLUSTERDOWN": ("the store's Cluster is down", "wait for the failover, or mend its nodes"),
        "TRYAGAIN": ("the store's Cluster is moving slots", "wait until that is done"),
        "MOVED": ("the store is a Cluster", "write `store.url` as `redis+cluster://host:6379,host:6379`"),
        "CROSSSLOT": ("the store is a Cluster", "write `store.url` as `redis+cluster://host:6379,host:6379`"),
        "NOAUTH": ("the store demands a password", "put user and password into LOCKGATE_STORE_URL"),
        "WRONGPASS": ("the store refused the password", "mend user and password in LOCKGATE_STORE_URL"),
    }
)


def refusal_for(error: RedisError) -> StoreError:
    """Return the error of ours for a server's answer; a record that no program of ours wrote is unreadable."""
    message = str(error)
    code = error.status_code or message.partition(" ")[0]
    if code == "LGSCHEMA":
        return other_version(int(message.split()[1]))
    if code == "LGRECORD":
        return unreadable()
    if code == "NOPERM" or _DENIED_IN_SCRIPT in message:
        command = _COMMAND.search(message)
        denied = "use the keys `lg:*`" if command is None else f"run `{command[1].upper().replace('|', ' ')}`"
        if _CHANNEL in message:
            denied = "use the channels `lg:*`"
        return StoreRefusedError(
            f"the store's user may not {denied}",
            next_step="grant that user the rights that docs/several-machines.md lists",
        )
    for words, (mistake, mend) in _MISTAKEN:
        if words in message:
            return StoreRefusedError(mistake, next_step=mend)
    if code not in _REFUSALS and (code == _WRONG_TYPE or _IN_SCRIPT in message):
        # A script of ours met a record that no program of ours wrote.
        return unreadable()
    sentence, step = _REFUSALS.get(code, (f"the store refused a command: {message}", "look at the store's log"))
    return StoreRefusedError(sentence, next_step=step, alone=code not in _REFUSALS)
