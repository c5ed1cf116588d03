"""Stores of several servers for tests: a Cluster and what Sentinels look after, of the embedded server's binary.

All listen on loopback, keep their files in memory where the system has some, and end by their own process ids. They
begin with what a running store has written down for its next start, so that nobody has to get to know anybody: ready
after two seconds, for which a node that comes back waits before it takes writes.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final, Protocol

from bot.store.servers.embedded_server import locate
from tests.folders import quick_folder

SERVICE: Final = "main"
"""What the Sentinels call their primary."""

NODE_MS: Final = 2_500
"""After how many milliseconds of silence a node of a Cluster counts as gone: a machine may stall for two seconds."""

DOWN_MS: Final = 3_000
"""The same for Sentinels, which take a second to connect anew to one that took over."""

_HINTS: Final = "lg:ready"
"""The key that all workers wait at."""
NOTHING: Final = MappingProxyType(dict[int, Mapping[str, str]]())

_SHARDS: Final = 3
_SLOTS: Final = 1 << 14
_READY_SECONDS: Final = 60.0
_FAILOVER_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.01


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Kind(StrEnum):
    """What a store is made of."""

    ONE = "one"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Wire:
    """The way to one port of a server: the others use `front`, which a proxy passes on to `port`.

    `place` is the name of the server. Its own connections to others come from the address `source`. No proxy is needed
    where both ports are the same.
    """

    place: str
    source: str
    front: int
    port: int


Wiring = Callable[[Sequence[Wire]], AbstractContextManager[object]]
"""Opens proxies for as long as a fleet runs; they have to pass everything on while it starts."""


class Served(Protocol):
    """A store that somebody runs."""

    @property
    def url(self) -> str:
        """The store's address."""
        ...


class Fleet(Served, Protocol):
    """The servers of a store, of which any may fail."""

    @property
    def primaries(self) -> tuple[int, ...]:
        """The ports of the servers that hold the store, each of another part."""
        ...

    def hand_over(self) -> None:
        """Have each primary's replica take over, so that nothing is lost; return when it was begun."""
        ...

    def kill(self, *, hang: bool = False) -> None:
        """Kill a primary that its replica knows everything of, or have it `hang`; return at once."""
        ...

    def hold_back(self, key: str) -> None:
        """Have the replica of the server that has a key get nothing of what is written there from now on."""
        ...

    def lose(self) -> None:
        """Kill a primary at once, the one whose replica was held back if one was: what the replica lacks is lost."""
        ...

    def mend(self) -> None:
        """Start again what was killed or hangs, as soon as it is not missed any more; return when all is well."""
        ...

    def empty(self) -> None:
        """Forget everything that is stored."""
        ...


@dataclass
class _Process:
    """A server: its port, its folder, and how it is started, with `more` in its environment."""

    port: int
    folder: Path
    words: list[str]
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    running: "subprocess.Popen[bytes] | None" = None
    hangs: bool = False
    front: int = 0
    _end: "subprocess.Popen[bytes] | None" = None

    @property
    def at(self) -> int:
        """The port at which others find it."""
        return self.front or self.port

    def start(self, *more: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            command, environment = [str(locate()), *self.words, *more], {**os.environ, **self.more}
            self.running = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603 - our own binary
        # Ends it when this process is gone, also one that was killed: then nobody writes to it any more.
        until_then = ["sh", "-c", 'read -r _; kill -9 "$0"', str(self.running.pid)]
        self._end = subprocess.Popen(until_then, stdin=subprocess.PIPE)  # noqa: S603 - our own words

    def kill(self) -> None:
        if self.running is not None and self._end is not None:
            self._end.kill()
            self._end.communicate()
            self.running.kill()
            self.running.wait()

    def hang(self) -> None:
        assert self.running is not None
        self.hangs = True
        self.running.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.running is not None
        self.running.send_signal(signal.SIGCONT)
        self.hangs = False

    @property
    def missing(self) -> bool:
        return self.hangs or (self.running is not None and self.running.returncode is not None)

    def primary(self) -> bool:
        return not self.hangs and b"role:master" in ask(self.port, "INFO", "replication")

    def follows(self) -> bool:
        """Say whether it is a replica that has all its primary had."""
        told = ask(self.port, "INFO", "replication")
        return b"role:slave" in told and b"master_link_status:up" in told


@dataclass
class ClusterFleet:
    """Three primaries, each with a replica. `fronts` are the ports at which clients are to find them, if others."""

    servers: list[_Process] = field(default_factory=list[_Process])
    fronts: dict[int, int] = field(default_factory=dict[int, int])
    _held: "tuple[_Process, _Process] | None" = None

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def url_at(self, host: str) -> str:
        """Return the address at a host that has the same ports as others find."""
        return "redis+cluster://" + ",".join(f"{host}:{server.at}" for server in self.servers)

    @property
    def sought(self) -> str:
        """The place of the primary that all work needs, as its wire calls it."""
        pair = next(pair for pair in self._pairs() if _serves(pair, _HINTS))
        return next(_node(place) for place, one in enumerate(self.servers) if one in pair and one.primary())

    @property
    def primaries(self) -> tuple[int, ...]:
        return tuple(next(one.port for one in pair if one.primary()) for pair in self._pairs())

    def hand_over(self) -> None:
        for pair in self._pairs():
            wait_until(lambda pair=pair: any(one.follows() for one in pair))
            replica = next(one for one in pair if one.follows())
            assert ask(replica.port, "CLUSTER", "FAILOVER").startswith(b"+OK")

    def kill(self, *, hang: bool = False) -> None:
        wait_until(self.ready)
        # The part that holds the hints: every session's work needs it.
        _kill_primary(next(pair for pair in self._pairs() if _serves(pair, _HINTS)), hang=hang)

    def hold_back(self, key: str) -> None:
        wait_until(self.ready)
        self._held = _hold_back(next(pair for pair in self._pairs() if _serves(pair, key)))

    def lose(self) -> None:
        _lose(*(self._held or _roles(next(pair for pair in self._pairs() if _serves(pair, _HINTS)))))
        self._held = None

    def give_to_replica(self, place: int) -> None:
        """Have the replica of one primary take over, so that nothing is lost; return when it has."""
        replica = self.servers[_SHARDS + place]
        wait_until(replica.follows)
        assert ask(replica.port, "CLUSTER", "FAILOVER").startswith(b"+OK")
        wait_until(replica.primary)

    def mend(self) -> None:
        for pair in self._pairs():
            _start_again(pair)
        wait_until(self.ready)

    def empty(self) -> None:
        for port in self.primaries:
            assert ask(port, "FLUSHALL").startswith(b"+OK")

    def _pairs(self) -> Iterator[tuple[_Process, _Process]]:
        return zip(self.servers[:_SHARDS], self.servers[_SHARDS:], strict=False)

    def ready(self) -> bool:
        well = all(b"cluster_state:ok" in ask(one.port, "CLUSTER", "INFO") for one in self.servers)
        return well and all(any(one.follows() for one in pair) for pair in self._pairs())


@dataclass
class SentinelFleet:
    """A primary, its replica, and three Sentinels. `fronts` is the port at which clients are to find it, if another."""

    servers: list[_Process] = field(default_factory=list[_Process])
    sentinels: list[_Process] = field(default_factory=list[_Process])
    fronts: dict[int, int] = field(default_factory=dict[int, int])
    _held: "tuple[_Process, _Process] | None" = None

    @property
    def url(self) -> str:
        return self.url_at("127.0.0.1")

    def url_at(self, host: str) -> str:
        """Return the address at a host that has the same ports."""
        return f"redis+sentinel://{','.join(f'{host}:{one.port}' for one in self.sentinels)}/{SERVICE}"

    @property
    def primaries(self) -> tuple[int, ...]:
        # In a failover there are two for a moment, of which the Sentinels know one.
        told = int(ask(self.sentinels[0].port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE).split(b"\r\n")[4])
        return (next((one.port for one in self.servers if one.at == told), told),)

    @property
    def sought(self) -> str:
        """The place of the primary, as its wire calls it."""
        return next(_node(place) for place, one in enumerate(self.servers) if one.port in self.primaries)

    def hand_over(self) -> None:
        wait_until(self.ready)
        self._give(3_000)
        # Coordinated: the primary holds writes until its replica has all.
        words = ("SENTINEL", "FAILOVER", SERVICE, "COORDINATED")
        wait_until(lambda: ask(self.sentinels[0].port, *words).startswith(b"+OK"))

    def kill(self, *, hang: bool = False) -> None:
        wait_until(self.ready)
        self._give(1_500)
        _kill_primary(self._pair(), hang=hang)

    def hold_back(self, key: str) -> None:
        del key
        wait_until(self.ready)
        self._held = _hold_back(self._pair())

    def lose(self) -> None:
        self._give(1_500)
        _lose(*(self._held or _roles(self._pair())))
        self._held = None

    def mend(self) -> None:
        # A Sentinel would let ten seconds pass before it makes a replica of it.
        _start_again(self._pair(), "--replicaof")
        wait_until(self.ready)

    def _give(self, milliseconds: int) -> None:
        """Give a failover that long; one that nobody asked for begins after twice that since the last."""
        for one in self.sentinels:
            ask(one.port, "SENTINEL", "SET", SERVICE, "failover-timeout", str(milliseconds))

    def _pair(self) -> "tuple[_Process, _Process]":
        one, two = self.servers
        return one, two

    def empty(self) -> None:
        (port,) = self.primaries
        assert ask(port, "FLUSHALL").startswith(b"+OK")

    def ready(self) -> bool:
        """Say whether all Sentinels see one primary, and its replica, and do not exchange them at the moment."""
        if not self.servers[1:]:
            return all(b"OK 3 usable" in ask(one.port, "SENTINEL", "CKQUORUM", SERVICE) for one in self.sentinels)
        primaries = [one for one in self.servers if one.primary()]
        followed = any(one.follows() for one in self.servers)
        return len(primaries) == 1 and followed and all(map(_sees(primaries[0]), self.sentinels))


@dataclass
class LoneServer:
    """One server without a replica: what is killed has to come back."""

    server: _Process

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.server.port}/0"

    @property
    def primaries(self) -> tuple[int, ...]:
        return (self.server.port,)

    def hold_back(self, key: str) -> None:
        """Have nothing held back: there is no replica."""

    def lose(self) -> None:
        self.server.kill()
        self.server.start()

    def mend(self) -> None:
        wait_until(self.server.primary)


@contextmanager
def alone(sync: str = "always", more: Mapping[str, str] = _NOTHING) -> Generator[LoneServer]:
    """Run one server that syncs its file as `appendfsync` says, on the disk, and has `more` in its environment."""
    with TemporaryDirectory() as folder:
        (port,) = _free_ports(1)
        words = _common(port, Path(folder), {"appendfsync": sync})
        lone = LoneServer(_Process(port, Path(folder), words, more))
        with _running([lone.server]):
            wait_until(lone.server.primary, _READY_SECONDS)
            yield lone


def _sees(primary: _Process) -> Callable[[_Process], bool]:
    """Return a test for Sentinels that know a primary, with a replica, and have nothing to do."""

    def sees(sentinel: _Process) -> bool:
        told = ask(sentinel.port, "SENTINEL", "PRIMARY", SERVICE).split(b"\r\n")
        replicas = ask(sentinel.port, "SENTINEL", "REPLICAS", SERVICE).split(b"\r\n")
        return (
            (_after(b"port", told), _after(b"flags", told)) == (str(primary.at).encode(), b"master")
            and _after(b"flags", replicas) == b"slave"
            and b"OK 3 usable" in ask(sentinel.port, "SENTINEL", "CKQUORUM", SERVICE)
        )

    return sees


def _after(name: bytes, told: list[bytes]) -> bytes:
    """Return the field of a name, which comes before it with the lengths of both."""
    return told[told.index(name) + 2] if name in told else b""


@contextmanager
def cluster(
    *,
    fronted: bool = False,
    wiring: Wiring | None = None,
    settings: Mapping[str, str] = _NOTHING,
    more: Mapping[int, Mapping[str, str]] = NOTHING,
) -> Generator[ClusterFleet]:
    """Run a Cluster whose servers have these `settings` beside those of all tests.

    One that is `fronted` says that its servers are at other ports, where its user has to listen; it has no replicas.
    With `wiring` the servers reach one another by wires, too. They do not say at which host they are, so that each
    client stays at the one where it asks. Some servers, by their numbers, have `more` in their environments: the first
    three are primaries, then come their replicas.
    """
    count = _SHARDS if fronted else 2 * _SHARDS
    free = _free_ports(4 * count)
    ports, buses, fronts, bus_fronts = (free[first : first + count] for first in range(0, 4 * count, count))
    apart = fronted or wiring is not None
    told = list(zip(fronts if apart else ports, bus_fronts if wiring else buses, strict=True))
    with quick_folder() as folder, ExitStack() as until:
        fleet = ClusterFleet(fronts=dict(zip(fronts, ports, strict=True)) if apart else {})
        for me, (port, bus) in enumerate(zip(ports, buses, strict=True)):
            place = Path(folder) / str(me)
            given = {"cluster-node-timeout": str(NODE_MS), **settings}
            words = [*_common(port, place, given), "--cluster-enabled", "yes", "--cluster-port", str(bus)]
            words += ["--cluster-replica-validity-factor", "0"]
            words += ["--cluster-announce-port", str(fronts[me])] if apart else []
            if wiring:
                words += ["--cluster-announce-bus-port", str(bus_fronts[me]), "--bind-source-addr", _source(me)]
                words += ["--cluster-announce-ip", "127.0.0.1", "--cluster-preferred-endpoint-type", "unknown-endpoint"]
            fleet.servers.append(_Process(port, place, words, more.get(me, {}), front=fronts[me] if apart else 0))
            place.mkdir()
            (place / "nodes.conf").write_text(_nodes(me, told))
        if wiring:
            ends = [*zip(fronts, ports, strict=True), *zip(bus_fronts, buses, strict=True)]
            places = [*range(count), *range(count)]
            wires = [Wire(_node(me), _source(me), *end) for me, end in zip(places, ends, strict=True)]
            until.enter_context(wiring(wires))
        with _running(fleet.servers):
            wait_until(fleet.ready, _READY_SECONDS)
            yield fleet


@contextmanager
def sentinels(
    *, fronted: bool = False, wiring: Wiring | None = None, settings: Mapping[str, str] = _NOTHING
) -> Generator[SentinelFleet]:
    """Run Sentinels over a primary and its replica, which have these `settings` beside those of all tests.

    Those that are `fronted` know the primary at another port, where their user has to listen. It has no replica then,
    and counts as there whatever happens. With `wiring` both servers are reached by wires, by one another and by the
    Sentinels.
    """
    with quick_folder() as folder, ExitStack() as until:
        count = 1 if fronted else 2
        free = _free_ports(2 * count + 3)
        ports, fronts, watchers = free[:count], free[count : 2 * count], free[2 * count :]
        apart = fronted or wiring is not None
        told = fronts if apart else ports
        fleet = SentinelFleet(fronts=dict(zip(fronts, ports, strict=True)) if apart else {})
        for me, port in enumerate(ports):
            place = Path(folder) / f"server{me}"
            words = [*_common(port, place, settings), *(["--replicaof", f"127.0.0.1 {told[0]}"] if me else [])]
            if wiring:
                words += ["--bind-source-addr", _source(me), "--replica-announce-port", str(fronts[me])]
                words += ["--replica-announce-ip", "127.0.0.1"]
            fleet.servers.append(_Process(port, place, words, front=fronts[me] if apart else 0))
        for me, port in enumerate(watchers):
            place = Path(folder) / f"sentinel{me}"
            place.mkdir()
            (place / "sentinel.conf").write_text(_watching(me, watchers, told))
            words = [str(place / "sentinel.conf"), "--sentinel", "--dir", str(place)]
            fleet.sentinels.append(_Process(port, place, words))
        if wiring:
            ends = enumerate(zip(fronts, ports, strict=True))
            wires = [Wire(_node(me), _source(me), *end) for me, end in ends]
            wires += [Wire(f"sentinel{me}", "", port, port) for me, port in enumerate(watchers)]
            until.enter_context(wiring(wires))
        with _running([*fleet.servers, *fleet.sentinels]):
            wait_until(fleet.ready, _READY_SECONDS)
            yield fleet


def _node(place: int) -> str:
    return f"server{place}"


def _source(place: int) -> str:
    """Return the address that a server connects from, which tells it from others that share the machine."""
    return f"127.0.1.{place + 1}"


def ask(port: int, *words: str) -> bytes:
    """Ask a server on loopback, and return the start of its answer, nothing if it does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as line:
            packed = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(one), one) for one in map(str.encode, words))]
            line.sendall(b"".join(packed))
            return line.recv(1 << 16)
    except OSError:
        return b""


def wait_until(holds: Callable[[], bool], seconds: float = _FAILOVER_SECONDS) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(_LOOK_SECONDS)


def _serves(pair: tuple[_Process, _Process], key: str) -> bool:
    return any(one.primary() and not ask(one.port, "EXISTS", key).startswith(b"-") for one in pair)


def _roles(pair: tuple[_Process, _Process]) -> tuple[_Process, _Process]:
    """Return the primary of two servers, and its replica."""
    one, other = pair
    return (one, other) if one.primary() else (other, one)


def _caught_up(pair: tuple[_Process, _Process]) -> tuple[_Process, _Process]:
    """Return the primary of two servers and its replica, as soon as that has all that the primary has now."""
    primary, replica = _roles(pair)
    written = _offset(primary, b"master_repl_offset")
    wait_until(lambda: _offset(replica, b"slave_repl_offset") >= written)
    return primary, replica


def _hold_back(pair: tuple[_Process, _Process]) -> tuple[_Process, _Process]:
    """Have a replica get nothing more; return its primary and it.

    What the primary sends would wait in the socket, so the connection is closed while the replica stands still.
    """
    primary, replica = _caught_up(pair)
    replica.hang()
    assert ask(primary.port, "CLIENT", "KILL", "TYPE", "replica").startswith(b":1")
    return primary, replica


def _lose(primary: _Process, replica: _Process) -> None:
    primary.kill()
    if replica.hangs:
        replica.go_on()


def _kill_primary(pair: tuple[_Process, _Process], *, hang: bool) -> None:
    """Kill the primary of two servers when the other has all that it had: nothing that was acknowledged is lost."""
    primary, _ = _caught_up(pair)
    if hang:
        primary.hang()
    else:
        primary.kill()


def _start_again(pair: tuple[_Process, _Process], follow: str = "") -> None:
    """Start the one of two servers that was killed, when the other is the primary, as its replica by an option."""
    for dead, other in (pair, pair[::-1]):
        if dead.missing:
            wait_until(other.primary)
            dead.kill()
            dead.hangs = False
            dead.start(*((follow, f"127.0.0.1 {other.at}") if follow else ()))


def _offset(server: _Process, name: bytes) -> int:
    """Return how many bytes of writes a server has made, or taken over."""
    lines = ask(server.port, "INFO", "replication").split(b"\r\n")
    return next(int(line.partition(b":")[2]) for line in lines if line.startswith(name))


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def _common(port: int, folder: Path, settings: Mapping[str, str]) -> list[str]:
    given = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(folder),
        "appendonly": "yes",
        "save": "",
        # As the embedded server has it: what is kept packed is dumped in its order.
        "stream-node-max-bytes": "320",
        "hash-max-listpack-value": "1024",
        # A replica that comes back is up to date at once.
        "repl-diskless-sync-delay": "0",
        "repl-ping-replica-period": "1",
        **settings,
    }
    return [part for name, value in given.items() for part in (f"--{name}", value)]


def _nodes(me: int, told: list[tuple[int, int]]) -> str:
    """Return what a node of a Cluster knows when it starts: the ports of all, and who has which slots."""
    names = [f"{number:040x}" for number in range(1, len(told) + 1)]
    lines = list[str]()
    for node, (port, bus) in enumerate(told):
        role = "master" if node < _SHARDS else "slave"
        leader, shard = "-" if node < _SHARDS else names[node - _SHARDS], node % _SHARDS
        flags = f"myself,{role}" if node == me else role
        line = f"{names[node]} 127.0.0.1:{port}@{bus} {flags} {leader} 0 0 {shard + 1} connected"
        if node < _SHARDS:
            line += f" {_SLOTS * shard // _SHARDS}-{_SLOTS * (shard + 1) // _SHARDS - 1}"
        lines.append(line)
    return "\n".join([*lines, f"vars currentEpoch {_SHARDS} lastVoteEpoch 0", ""])


def _watching(me: int, watchers: list[int], servers: list[int]) -> str:
    """Return what a Sentinel knows when it starts: the primary, its replica if it has one, and the other Sentinels."""
    names = [f"{number:040x}" for number in range(1, len(watchers) + 1)]
    others = [
        f"sentinel known-sentinel {SERVICE} 127.0.0.1 {port} {name}"
        for place, (port, name) in enumerate(zip(watchers, names, strict=True))
        if place != me
    ]
    primary, *replicas = servers
    return "\n".join(
        (
            f"port {watchers[me]}",
            "bind 127.0.0.1",
            f"sentinel myid {names[me]}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS if replicas else 3_600_000}",
            *(f"sentinel known-replica {SERVICE} 127.0.0.1 {port}" for port in replicas),
            *others,
            "",
        )
    )


@contextmanager
def _running(processes: list[_Process]) -> Generator[None]:
    try:
        for one in processes:
            one.start()
        yield
    finally:
        for one in processes:
            one.kill()
