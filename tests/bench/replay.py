"""The bare reference of what the store does: the very same scripts with the same arguments, by redis-py's own client.

What a store asks of its server is noted once, and asked again for other sessions: no values made, no records read, no
audit rows chained.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from bot.store.records.codec import raw
from bot.store.records.form import pack_arguments
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from bot.store.scripts.loader import Script, load_scripts
from bot.store.servers.connection import Arg, Command, Connection, Reply

Work = Callable[[str], Coroutine[Any, Any, None]]
"""Something done for the session of an id."""


@dataclass
class _Recorder:
    """Stands before a store's connection and notes every script's call."""

    connection: Connection
    calls: list[tuple[Script, Sequence[str], Sequence[Arg], tuple[Command, ...]]] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg], *hints: Command) -> Reply:
        self.calls.append((script, keys, args, hints))
        return await self.connection.script(script, keys, args, *hints)

    async def script_asking(
        self, script: Script, keys: Sequence[str], args: Sequence[Arg], asked: Command, *hints: Command
    ) -> tuple[Reply, Reply]:
        # The read behind it is not the work's own.
        self.calls.append((script, keys, args, hints))
        return await self.connection.script_asking(script, keys, args, asked, *hints)


async def replayed(store: RedisStore, client: Any, work: Callable[[str], Awaitable[object]]) -> Work:  # noqa: ANN401 - redis-py leaves its signatures untyped
    """Return work by bare scripts, with the arguments of the same work that the store does once before."""
    sid, inside = "recorded", cast("Any", store)._shared
    recorder = _Recorder(inside.connection)
    inside.connection = recorder
    try:
        await work(sid)
    finally:
        inside.connection = recorder.connection
    scripts = load_scripts()
    for script in {call[0] for call in recorder.calls}:
        await client.script_load(scripts[script].text)
    before = session_keys(sid).prefix
    calls = [(scripts[script].digest, keys, args, hints) for script, keys, args, hints in recorder.calls]

    async def again(name: str) -> None:
        after = session_keys(name).prefix
        for digest, keys, args, hints in calls:
            words = (digest, len(keys), *(key.replace(before, after) for key in keys), *args)
            if hints:
                pipe = client.pipeline(transaction=False)
                pipe.execute_command("EVALSHA", *words)
                for *hint, last in hints:
                    pipe.execute_command(*hint, _renamed(last, sid, name))
                reply = (await pipe.execute())[0]
            else:
                reply = await client.execute_command("EVALSHA", *words)
            if reply[0] != b"ok":
                raise RuntimeError(f"a bare script was refused: {reply!r}")

    return again


def _renamed(word: Arg, sid: str, name: str) -> Arg:
    """Return the last word of a hint for another session: it is the session's id, a script's arguments, or neither."""
    if not isinstance(word, bytes):
        return word
    return raw(name) if word == raw(sid) else word.replace(pack_arguments(raw(sid)), pack_arguments(raw(name)))
