"""A reply that gets lost after the server did its work: the client asks again and nothing happens twice.

A proxy sits between store and servers, on a unix socket or at a port for each of them. Armed with a word, it lets the
next request holding that word through, waits for the server's reply, throws it away and hangs up.
"""

# pyright: reportPrivateUsage=false

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from bot.core.errors import BusyError
from bot.sessions.alternatives import Way
from bot.sessions.api_tokens import NewSecret, NewToken, Scope
from bot.sessions.approvals import FOR_EVER, Answered, Approval, ApprovalState
from bot.sessions.background.delegation import Arrival, Caps, Charge
from bot.sessions.budgets import Budgets, Spender
from bot.sessions.consents.grants import Grant, GrantUse
from bot.sessions.deliveries import Conversation, DeliveryPause, DeliveryState, Rate
from bot.sessions.deliveries import SendSlot as Place
from bot.sessions.exports import ImportedEvent, ImportedSession
from bot.sessions.inbox import Metadata, NewObserved, QueueMode
from bot.sessions.installation.keys import InstallationKeys
from bot.sessions.limits import TokenAllowance
from bot.sessions.log.events import Visibility
from bot.sessions.models import Claim, Doing, Title, Turn, Write
from bot.sessions.webhooks import DeadEvent, Ended, ProgramWebhook, WebhookPosition
from bot.store.calls import Arguments, call, nested
from bot.store.opening import open_store
from bot.store.records.form import stored_map, unpack
from bot.store.records.kinds import PORTION
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, GRANTS, READY, READY_POOLS, budget_keys, person_account
from bot.store.scripts.loader import Script, load_scripts
from bot.store.servers.embedded_server import Supervisor
from policy.document.overrides import AccessChange, Person
from policy.labels import PUBLIC
from tests.fleets import ClusterFleet, Kind, SentinelFleet, cluster, sentinels
from tests.store.backup_cases import BACKUP_CASES
from tests.store.knowledge_cases import KNOWLEDGE_CASES
from tests.store.run_cases import RUN_CASES
from tests.store.world import (
    KEY,
    SECRET,
    answer,
    child,
    claimed,
    command,
    ending,
    event,
    fresh,
    inquiry,
    item,
    offered,
    opening,
    parcel,
    question,
    reply,
    row,
    served,
    slot,
    started,
    suspended,
)

SCRIPTS = load_scripts()
TWO = (Rate("chat", 60_000, 2),)


@dataclass
class Proxy:
    """Stands between a store and its servers. `lossy` is the address that leads through it, `url` that of the servers.

    Sentinels and Clusters name the proxy in both cases.
    """

    url: str
    lossy: str
    word: bytes = b""
    dropped: int = 0
    listening: list[asyncio.Server] = field(default_factory=list[asyncio.Server])
    _open: set[StreamWriter] = field(default_factory=set[StreamWriter])

    def before(self, upstream: Path | int) -> Callable[[StreamReader, StreamWriter], Awaitable[None]]:
        """Return what serves a client of a server, which is at a socket or a port."""

        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            self._open.add(writer)
            try:
                await self._serve(reader, writer, *await _connected(upstream))
            finally:
                writer.close()
                self._open.remove(writer)

        return serve

    async def _serve(
        self, reader: StreamReader, writer: StreamWriter, up_reader: StreamReader, up_writer: StreamWriter
    ) -> None:
        doomed = asyncio.Event()

        async def replies() -> None:
            while data := await up_reader.read(65536):
                if doomed.is_set():
                    break
                writer.write(data)
            writer.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(replies())
            while data := await reader.read(1 << 20):
                if self.word and self.word in data:
                    self.word = b""
                    self.dropped += 1
                    doomed.set()
                up_writer.write(data)
            up_writer.close()

    async def close(self) -> None:
        """Listen no more, and hang up on all who are connected still, as Sentinels always are."""
        for one in self.listening:
            one.close()
        # Who was let in just now is served in a moment.
        await asyncio.sleep(0.01)
        while self._open:
            for writer in tuple(self._open):
                writer.close()
            await asyncio.sleep(0)


async def _connected(upstream: Path | int) -> tuple[StreamReader, StreamWriter]:
    if isinstance(upstream, Path):
        return await asyncio.open_unix_connection(str(upstream))
    return await asyncio.open_connection("127.0.0.1", upstream)


@pytest.fixture(scope="module")
def alone() -> Iterator[Supervisor]:
    """One server for these tests alone: they count all that is in it."""
    yield from served()


@pytest.fixture(scope="module")
def fronted() -> Iterator[Callable[[Kind], ClusterFleet | SentinelFleet]]:
    """Several servers for these tests alone, which clients find where the proxy listens."""
    with ExitStack() as until:

        @cache
        def of(kind: Kind) -> ClusterFleet | SentinelFleet:
            return until.enter_context(cluster(fronted=True) if kind is Kind.CLUSTER else sentinels(fronted=True))

        yield of


@pytest.fixture
async def proxy(
    kind: Kind, alone: Supervisor, fronted: Callable[[Kind], ClusterFleet | SentinelFleet], tmp_path: Path
) -> AsyncIterator[Proxy]:
    async with AsyncExitStack() as until:
        if kind is Kind.ONE:
            made = Proxy(alone.url, f"unix://{tmp_path}/p.sock")
            listening = await asyncio.start_unix_server(made.before(alone.files.socket), str(tmp_path / "p.sock"))
            made.listening.append(await until.enter_async_context(listening))
        else:
            fleet = await asyncio.to_thread(fronted, kind)
            made = Proxy(fleet.url, fleet.url)
            for front, port in fleet.fronts.items():
                listening = await asyncio.start_server(made.before(port), "127.0.0.1", front)
                made.listening.append(await until.enter_async_context(listening))
        until.push_async_callback(made.close)
        yield made


@pytest.fixture
async def lossy(proxy: Proxy) -> AsyncIterator[RedisStore]:
    """A store that the proxy stands before."""
    store = await open_store(audit_key=KEY, url=proxy.lossy)
    yield store
    await store.close()


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[RedisStore]:
    """A store on the same servers; the proxy is armed when it has nothing to ask."""
    store = await open_store(audit_key=KEY, url=proxy.url)
    yield store
    # Each test looks at everything that is there: what others left would cost it most of its time.
    await command(store, "FLUSHALL")
    await store.close()


Prepare = Callable[[RedisStore], Awaitable[Callable[[RedisStore], Awaitable[object]]]]


async def accepting(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    new = item(fresh())
    return lambda store: store.sessions.accept(new)


async def beginning(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    kept = Metadata('{"job": 7}', SECRET)
    new = replace(item(fresh()), created_with="c1", metadata=kept, mode=QueueMode.QUEUE)
    return lambda store: store.sessions.accept(new)


async def steering(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    # It raises the session above the one who sends it.
    new = replace(item(sid, "d2", SECRET), mode=QueueMode.STEER, reader=PUBLIC)
    return lambda store: store.sessions.accept(new)


async def claiming(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.sessions.claim(sid, "w")


def the_write(claim: Claim, seq: int) -> Write:
    turn = Turn("t", 1, "d1", "ann", claim.now)
    events = (event(), event())
    return Write(fresh(), seq, events=events, audit=(row(),), turn=turn, deliver=(answer(),), ask=(question(claim),))


async def recording(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    claim = await claimed(store, sid)
    write = opening(claim)
    return lambda store: store.sessions.record(claim, write)


async def recording_everything(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    write = the_write(claim, written.seq)
    return lambda store: store.sessions.record(claim, write, sender="me")


async def committing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    end = ending(written.seq, 1, deliver=(answer(),))
    return lambda store: store.sessions.commit(claim, end, sender="me")


async def renewing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    return lambda store: store.sessions.renew(claim)


async def releasing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    return lambda store: store.sessions.release(claim)


async def stopping(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    return lambda store: store.sessions.stop(claim.sid, actor="ann")


async def giving_a_record_key(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    return lambda store: store.record_keys.record_key(claim.sid, b"k" * 64)


async def giving_older_ids_up(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    newest, old = fresh(), fresh()

    async def begun(store: RedisStore) -> object:
        return len(await store.lifecycle.begun((newest, old, claim.sid), seal=True))

    return begun


async def naming(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    return lambda store: store.sessions.name(claim.sid, Title("plans", SECRET))


async def setting_the_mode(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    return lambda store: store.queue.set_mode(claim.sid, QueueMode.STEER, (row(),))


async def interrupting(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await suspended(store)
    await store.queue.set_mode(claim.sid, QueueMode.INTERRUPT, ())
    return lambda store: store.sessions.accept(item(claim.sid, "d2"))


async def withdrawing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    (waiting,) = await store.sessions.waiting(claim.sid)
    return lambda store: store.queue.withdraw(claim.sid, waiting, (row(),))


async def resetting(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    op = fresh()
    return lambda store: store.sessions.reset(claim.sid, op=op, actor="ann", audit=(row(),))


async def resolving(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, asked = await suspended(store)
    return lambda store: store.approvals.resolve(
        claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=(row(),)
    )


async def replying(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, asked = await suspended(store, ask=inquiry)
    return lambda store: store.approvals.resolve(
        claim.sid, (asked.id,), ApprovalState.REPLIED, actor="ann", audit=(row(),), answer=reply(via="update")
    )


async def granting(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, asked = await suspended(store)
    given = replace(asked, grant=Grant(FOR_EVER, 9))
    return lambda store: store.approvals.resolve(
        claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=(row(),), granted=(given,)
    )


async def _granted(store: RedisStore) -> tuple[Claim, Approval]:
    claim, asked = await suspended(store)
    given = replace(asked, grant=Grant(FOR_EVER, 9))
    state = ApprovalState.APPROVED
    await store.approvals.resolve(claim.sid, (asked.id,), state, actor="boss", audit=(), granted=(given,))
    return await claimed(store, claim.sid), asked


async def using_a_grant(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, asked = await _granted(store)
    used = Write(fresh(), claim.state.seq, events=(event(),), audit=(row(),), grant=GrantUse(asked.id, "c2"))
    return lambda store: store.sessions.record(claim, used)


async def revoking_a_grant(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, asked = await _granted(store)
    return lambda store: store.approvals.revoke(claim.sid, asked.id, actor="ann", audit=(row(),))


async def putting(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    return lambda store: store.outbox.put(claim.sid, answer(text="x" * 40_000))


async def putting_the_first(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    return lambda store: store.outbox.put(sid, answer(), Conversation("console::ann:", "ann", ""))


async def taking(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(), answer("k2"))))
    return lambda store: store.outbox.take(claim.sid, "me", ("console",))


async def settling(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)), sender="me")
    (entry,) = await store.outbox.deliveries(claim.sid)
    return lambda store: store.outbox.settle(entry, "me", DeliveryState.SENT, arrival=Arrival.WAITING, audit=(row(),))


async def deciding_dead(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)), sender="me")
    (entry,) = await store.outbox.deliveries(claim.sid)
    await store.outbox.settle(entry, "me", DeliveryState.FAILED)

    async def decide(store: RedisStore) -> object:
        await store.outbox.decide_dead(entry, again=True, audit=(row(),))
        return await store.outbox.deliveries(claim.sid)

    return decide


async def pacing(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    turn = Place(f"chat:w:{fresh()}:", fresh(), "k1")

    async def paced(store: RedisStore) -> object:
        """Say something where two a minute may be said: the first, whose answer is lost, counts once."""
        first = await store.rate_limits.pace(turn, TWO)
        return first, await store.rate_limits.pace(turn, TWO)

    return paced


async def pacing_what_takes_no_turn(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    turn = Place(f"chat:w:{fresh()}:")

    async def paced(store: RedisStore) -> object:
        return await store.rate_limits.pace(turn, TWO), await store.rate_limits.pace(turn, TWO)

    return paced


async def pausing(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    turn = Place(f"chat:w:{fresh()}:", fresh(), "k1")
    return lambda store: store.rate_limits.pause(turn, DeliveryPause.PLACE, 60_000)


async def probing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    await store.sessions.accept(item(fresh()))

    async def swept(store: RedisStore) -> bool:
        return bool(await store.wake.sweep())

    return swept


async def marking(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()

    async def act(store: RedisStore) -> object:
        """Mark a session ready, once."""
        before: int = await command(store, "ZCARD", READY)
        await store.wake.again((sid,), behind=True)
        return await command(store, "ZCARD", READY) - before, await command(store, "ZSCORE", READY, sid) is not None

    return act


async def reclaiming(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    assert await store.sessions.claim(sid, "p-gone.once") is not None

    async def swept_twice(store: RedisStore) -> tuple[bool, bool]:
        # What others found missing at their sweeps is not for these.
        # What was missing at the sweeps of others is not for these.
        name = fresh()
        return sid in await store.wake.sweep(name=name), sid in await store.wake.sweep(name=name)

    return swept_twice


async def agreeing_on_keys(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    before, keys = (InstallationKeys((fresh().rjust(20, "k"),), ("s",), ("v",)) for _ in range(2))
    await store.installation_keys.read()
    assert await store.installation_keys.put(before)

    async def agree(store: RedisStore) -> object:
        await store.installation_keys.read()
        return await store.installation_keys.put(keys), await store.installation_keys.read() == keys

    return agree


async def appending(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    what = fresh()

    async def append(store: RedisStore) -> int:
        await store.audit.append((row(what),))
        n, _ = await store.audit.head(AUDIT)
        return sum(one.body.get("what") == what for one in await store.audit.records(AUDIT, after=max(0, n - 50)))

    return append


async def putting_in_force(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    await store.policy.put_policy("before", "p-1", ())

    async def put(store: RedisStore) -> object:
        head = await store.policy.put_policy("after", "p-2", (row(),))
        return head.digest, head.process

    return put


async def overriding(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    account = f"chat:{fresh()}"
    assert await store.access.ask_pairing(account, "chat", fresh(), "d" * 43)
    before, _ = await store.access.overrides()
    assert await store.access.override(AccessChange(accounts={fresh(): True}), before, ()) == before + 1
    change = AccessChange(people={fresh(): Person(accounts=frozenset({account}))}, accounts={fresh(): True})

    async def override(store: RedisStore) -> object:
        count, _ = await store.access.overrides()
        after = await store.access.override(change, count, (row(),), Answered(account, "d" * 43))
        return after == count + 1

    return override


def program(name: str) -> NewToken:
    return NewToken(name, "i", Scope.READ, PUBLIC, "d" * 52, created_by="ann", life=60_000)


async def adding_a_program(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    name = fresh()
    assert await store.tokens.create(program(fresh()), ()) is not None
    before, _ = await store.access.overrides()

    async def added(store: RedisStore) -> object:
        made = await store.tokens.create(program(name), (row(),))
        after, _ = await store.access.overrides()
        return made is not None and made.name == name, after - before

    return added


async def rotating(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    name = fresh()
    assert await store.tokens.create(program(name), ()) is not None
    before, _ = await store.access.overrides()

    async def rotated(store: RedisStore) -> object:
        made = await store.tokens.rotate(name, NewSecret("i2", "e" * 52, 0), (row(),))
        after, _ = await store.access.overrides()
        return made.id, after - before

    return rotated


async def revoking(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    name = fresh()
    assert await store.tokens.create(program(name), ()) is not None
    before, _ = await store.access.overrides()

    async def revoked(store: RedisStore) -> object:
        made = await store.tokens.revoke(name, (row(),))
        after, _ = await store.access.overrides()
        return made.revoked, after - before

    return revoked


async def asking_to_be_let_in(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    account, workspace = f"chat:{fresh()}", fresh()
    return lambda store: store.access.ask_pairing(account, "chat", workspace, "d" * 43)


async def trying_a_code(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    principal = fresh()

    async def tried(store: RedisStore) -> int:
        """Count how many wrong codes may be typed, the first of which has its answer lost."""
        count = 0
        with suppress(BusyError):
            while await store.access.try_pairing(principal, "no such digest") is None:
                count += 1
        return count

    return tried


async def receiving(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.delegation.receive(parcel(sid))


async def taking_what_was_sent(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.sessions.stop(sid, actor="ann")
    await store.delegation.receive(parcel(sid))
    claim = await claimed(store, sid)
    write = opening(claim, 2, "p1")

    async def take(store: RedisStore) -> object:
        await store.sessions.record(claim, write)
        return await store.sessions.outcome(sid, "p1")

    return take


async def holding(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.delegation.receive(parcel(sid, SECRET, report=True))


async def rising(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    new = child("parent")
    await store.sessions.accept(new)
    claim = await claimed(store, new.sid)
    write = Write(fresh(), claim.state.seq, events=(event(SECRET),))

    async def rise(store: RedisStore) -> object:
        written = await store.sessions.record(claim, write)
        return written, len(await store.outbox.deliveries(new.sid))

    return rise


async def spawning_above(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    new = child("parent", label=SECRET)

    async def spawn(store: RedisStore) -> object:
        accepted = await store.sessions.accept(new)
        return accepted, len(await store.outbox.deliveries(new.sid))

    return spawn


async def letting_a_child_rise(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    new, op = child("parent"), fresh()
    await store.sessions.accept(new)
    await store.delegation.receive(parcel(new.sid, SECRET))
    (held,) = await store.delegation.held(new.sid)

    async def decide(store: RedisStore) -> object:
        await store.delegation.decide_held(new.sid, held.id, accept=True, op=op, audit=(row(),))
        return len(await store.outbox.deliveries(new.sid))

    return decide


async def deciding_held(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid, op = fresh(), fresh()
    await store.sessions.accept(item(sid))
    await store.delegation.receive(parcel(sid, SECRET))
    (held,) = await store.delegation.held(sid)
    return lambda store: store.delegation.decide_held(sid, held.id, accept=True, op=op, audit=(row(),))


async def reserving(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    run, parent = fresh(), fresh()

    async def reserve(store: RedisStore) -> bool:
        return bool(await store.delegation.reserve(fresh(), slot(run, parent=parent), Caps(1, 1, 2)))

    return reserve


async def endorsing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid, run = fresh(), fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.delegation.endorse(Charge(sid, 1, run, PUBLIC, 30_000, 2**45, 40_000))


async def freeing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    principal = fresh()
    await store.delegation.reserve(principal, slot(), Caps(1, 1, 2))
    slots = await store.delegation.slots(principal)
    return lambda store: store.delegation.free(principal, slots)


async def offering(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = offered(fresh())
    return lambda store: store.alternatives.make_offer(made, 60_000)


async def taking_an_offer(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = offered(fresh())
    await store.alternatives.make_offer(made, 60_000)
    return lambda store: store.alternatives.take_offer(made.code, Way.PRIVATE)


async def having(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    name = fresh()

    async def have(store: RedisStore) -> bool:
        async with store.rights.hold(name) as held:
            return held()

    return have


async def swapping(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    name = fresh()
    await store.vault([KEY]).put(name, b"once")
    return lambda store: store.vault([KEY]).swap(name, b"once", None)


async def setting_tokens_aside(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    ann, name, limits = Spender(fresh(), "", PUBLIC), fresh(), Budgets(person=10)

    async def aside(store: RedisStore) -> object:
        first = await store.budgets.reserve_tokens(name, ann, 6, budgets=limits, life=60_000)
        return first, [
            await store.budgets.reserve_tokens(fresh(), ann, size, budgets=limits, life=60_000) for size in (5, 4)
        ]

    return aside


async def settling_tokens(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    ann, name = Spender(fresh(), "", PUBLIC), fresh()
    # So that the day has begun.
    await store.budgets.settle_tokens(fresh(), Spender("bob", "", PUBLIC), 1, complete=True)
    await store.budgets.reserve_tokens(name, ann, 4, budgets=Budgets(person=10), life=60_000)

    async def settled(store: RedisStore) -> object:
        await store.budgets.settle_tokens(name, ann, 3, complete=True)
        return [one.tokens for one in await store.budgets.spent_today() if one.name == ann.person]

    return settled


async def spending_of_a_session(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    own = TokenAllowance(claim.sid, claim.state.generation, claim.fence, 10)

    async def aside(store: RedisStore) -> object:
        first = await store.budgets.reserve_of_session("a", 6, own)
        return first, [await store.budgets.reserve_of_session(name, size, own) for name, size in (("b", 5), ("c", 4))]

    return aside


async def charging_a_session(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, _ = await started(store)
    own = TokenAllowance(claim.sid, claim.state.generation, claim.fence, 10)
    await store.budgets.reserve_of_session("a", 6, own)

    async def charged(store: RedisStore) -> object:
        await store.budgets.charge_session("a", 3, own)
        return [await store.budgets.reserve_of_session(name, size, own) for name, size in (("b", 8), ("c", 7))]

    return charged


async def noting_once(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    op = fresh()

    async def noted(store: RedisStore) -> object:
        before, _ = await store.audit.head(AUDIT)
        for _ in range(2):
            await store.audit.append_once(row(), op)
        after, _ = await store.audit.head(AUDIT)
        return after - before

    return noted


async def at_budgets(store: RedisStore, script: Script, account: str, args: Arguments) -> tuple[str, list[int]]:
    """Run a script about budgets, and return its word and the numbers that do not differ from call to call."""
    own = budget_keys(account)
    keys = {"spent": own.spent, "spending": own.spending, "grants": GRANTS}
    got = await store._shared.run(call(script, keys, args))
    return got.word, [got.number(name) for name in ("granted", "used", "wanted")]


async def portions(store: RedisStore, account: str) -> list[int]:
    """Return what an account was granted, as it knows, as the centre knows, and with all others."""
    places = ((budget_keys(account).spent, "portion"), (GRANTS, account), (GRANTS, "all"))
    stored = [await command(store, "HGET", *place) for place in places]
    return [0 if one is None else unpack(PORTION, one)["granted"] for one in stored]


async def leased(store: RedisStore) -> tuple[str, int]:
    """Let an account have 8 tokens of the budget of all and set 3 aside; return it with the number of its grant."""
    account = person_account(fresh())
    asked = {"account": account, "number": 0, "used": 0, "day": 1, "wanted": 8}
    await at_budgets(store, Script.GRANT_TOKENS, account, asked)
    number = unpack(PORTION, await command(store, "HGET", GRANTS, account))["number"]
    grant = nested({"number": number, "granted": 8, "time": 2**42})
    aside = {"id": "r", "op": "o", "life": 60_000, "tokens": 3, "pool": "PUBLIC", "leased": True, "grant": grant}
    assert (await at_budgets(store, Script.RESERVE_TOKENS, account, aside))[0] == "ok"
    return account, number


async def giving_tokens_back(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    account, _ = await leased(store)
    return lambda store: at_budgets(store, Script.RELEASE_TOKENS, account, {"id": "r", "op": "o"})


async def granting_tokens(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    account, number = await leased(store)
    asked = {"account": account, "number": number, "used": 0, "day": 1, "wanted": 9}

    async def granted(store: RedisStore) -> object:
        before = (await portions(store, account))[2]
        got = await at_budgets(store, Script.GRANT_TOKENS, account, {**asked, "tokens": 1, "part": 2, "most": 10**9})
        _, known, total = await portions(store, account)
        return got, known, total - before

    return granted


async def recalling_tokens(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    account, number = await leased(store)

    async def recalled(store: RedisStore) -> object:
        got = await at_budgets(store, Script.RECALL_TOKENS, account, {"number": number})
        return got, (await portions(store, account))[:2]

    return recalled


async def lowering_a_grant(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    account, number = await leased(store)

    async def lowered(store: RedisStore) -> object:
        before, found = (await portions(store, account))[2], list[object]()
        for wanted in (3, 0):
            args = {"account": account, "number": number, "used": 0, "day": 1, "wanted": wanted}
            found.append(await at_budgets(store, Script.LOWER_GRANT, account, args))
        _, known, total = await portions(store, account)
        return found, known, total - before

    return lowered


async def counting(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    name = fresh()
    return lambda store: store.counts.count(name, 60_000)


async def observing(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    return lambda store: store.observed.observe(sid, NewObserved("d1", "chat:ann", SECRET, "lunch?"), 5)


async def quarantining(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()

    async def act(store: RedisStore) -> object:
        one, new = await store.quarantine.add(sid, Doing.WORK, error="SchemaError", where="codec.py:1", audit=(row(),))
        return one.tries, new

    return act


async def letting_out(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.quarantine.add(sid, Doing.INTAKE, error="SchemaError", where="codec.py:1", audit=(row(),))
    return lambda store: store.quarantine.unquarantine(sid, Doing.INTAKE, (row(),))


async def resting(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.lifecycle.pause(sid, actor="ann", audit=(row(),))


async def going_on(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.lifecycle.pause(sid, actor="ann", audit=(row(),))
    return lambda store: store.lifecycle.resume(sid, actor="ann", audit=(row(),))


async def archiving(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.lifecycle.archive(sid, actor="ann", audit=(row(),))


async def restoring(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.lifecycle.archive(sid, actor="ann", audit=(row(),))
    return lambda store: store.lifecycle.restore(sid, actor="ann", audit=(row(),))


async def failing(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return lambda store: store.lifecycle.fail(sid)


async def deleting(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    return lambda store: store.lifecycle.delete(claim.sid, (row(),))


async def looking_at_turns(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))

    async def act(store: RedisStore) -> object:
        return len((await store.lifecycle.turns(claim.sid)).turns)

    return act


async def importing(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    said = (ImportedEvent(5, event(text="x" * 40_000)), ImportedEvent(0, event(text="y")))
    new = ImportedSession(fresh(), "ann", "console::ann:", PUBLIC, said, Title("t", PUBLIC), None)
    return lambda store: store.sessions.import_session(new, (row(),))


async def a_webhook(store: RedisStore) -> ProgramWebhook:
    made = await store.webhooks.add(ProgramWebhook(fresh(), fresh(), "https://example.com", Visibility.USER), 1)
    assert made is not None
    return made


async def adding_a_webhook(_store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    new = ProgramWebhook(fresh(), fresh(), "https://example.com", Visibility.USER)

    async def added(store: RedisStore) -> bool:
        return await store.webhooks.add(new, 1) is not None

    return added


async def dropping_a_webhook(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = await a_webhook(store)
    return lambda store: store.webhooks.drop(made.id)


async def sending_for_webhooks(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made, me = await a_webhook(store), fresh()

    async def sent_for(store: RedisStore) -> object:
        held = made in await store.webhooks.hold(me, 60_000, 1000)
        await store.webhooks.give_back(me)
        return held

    return sent_for


async def marking_a_webhook(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = await a_webhook(store)
    return lambda store: store.webhooks.mark(made.id, failing=True)


async def enabling_a_webhook(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = await a_webhook(store)
    await store.webhooks.mark(made.id, failing=True, disabled=Ended.GONE)

    async def enabled(store: RedisStore) -> object:
        await store.webhooks.enable(made.id)
        (known,) = await store.webhooks.owned(made.owner)
        return known.disabled, known.failing

    return enabled


async def noting_a_position(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = await a_webhook(store)

    async def noted(store: RedisStore) -> object:
        await store.webhooks.note(made.id, "s1", WebhookPosition(1))
        return await store.webhooks.positions(made.id, ("s1",))

    return noted


async def giving_an_event_up(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = await a_webhook(store)
    dead = DeadEvent("e1", made.id, "s1", 1, 0, 10, "status 500")

    async def given_up(store: RedisStore) -> object:
        await store.webhooks.give_up(dead, 1)
        return await store.webhooks.positions(made.id, ("s1",)), len(await store.webhooks.dead(made.id))

    return given_up


async def settling_an_event(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    made = await a_webhook(store)
    await store.webhooks.give_up(DeadEvent("e1", made.id, "s1", 1, 0, 10, "status 500"), 1)

    async def settled(store: RedisStore) -> object:
        (dead,) = await store.webhooks.dead(made.id)
        await store.webhooks.settle(dead, "status 404")
        return [one.attempts for one in await store.webhooks.dead(made.id)]

    return settled


async def noting_a_loss(store: RedisStore) -> Callable[[RedisStore], Awaitable[object]]:
    claim, written = await started(store)

    async def note(store: RedisStore) -> object:
        await store.losses.witness(claim.sid, seq=written.seq + 2)
        log = await store.sessions.events(claim.sid)
        return [one.type for one in log], len(await store.outbox.deliveries(claim.sid)), len(store.losses.taken())

    return note


CASES: tuple[tuple[Script, Prepare], ...] = (
    (Script.ADD_WEBHOOK, adding_a_webhook),
    (Script.DROP_WEBHOOK, dropping_a_webhook),
    (Script.HOLD_WEBHOOKS, sending_for_webhooks),
    (Script.MARK_WEBHOOK, marking_a_webhook),
    (Script.MARK_WEBHOOK, enabling_a_webhook),
    (Script.NOTE_WEBHOOK, noting_a_position),
    (Script.GIVE_UP_EVENT, giving_an_event_up),
    (Script.SETTLE_EVENT, settling_an_event),
    (Script.AGREE_KEYS, agreeing_on_keys),
    (Script.PAUSE, resting),
    (Script.RESUME, going_on),
    (Script.ARCHIVE, archiving),
    (Script.RESTORE, restoring),
    (Script.FAIL, failing),
    (Script.DELETE, deleting),
    (Script.ERASED, deleting),
    (Script.TURNS, looking_at_turns),
    (Script.RECORD_KEY, giving_a_record_key),
    (Script.BEGUN, giving_older_ids_up),
    (Script.ACCEPT, accepting),
    (Script.ACCEPT, beginning),
    (Script.ACCEPT, steering),
    (Script.AUDIT_APPEND, noting_once),
    (Script.ACCEPT, interrupting),
    (Script.CLAIM, claiming),
    (Script.RAISE_TAINT, recording),
    (Script.RAISE_TAINT, recording_everything),
    (Script.RAISE_TAINT, taking_what_was_sent),
    (Script.RAISE_TAINT, rising),
    (Script.ACCEPT, spawning_above),
    (Script.DECIDE_HELD, letting_a_child_rise),
    (Script.COMMIT, committing),
    (Script.RENEW, renewing),
    (Script.RELEASE, releasing),
    (Script.STOP, stopping),
    (Script.NAME, naming),
    (Script.QUEUE_MODE, setting_the_mode),
    (Script.WITHDRAW, withdrawing),
    (Script.RESET, resetting),
    (Script.RESOLVE, resolving),
    (Script.RESOLVE, replying),
    (Script.RESOLVE, granting),
    (Script.REVOKE_GRANT, revoking_a_grant),
    (Script.RAISE_TAINT, using_a_grant),
    (Script.PUT, putting),
    (Script.PUT, putting_the_first),
    (Script.TAKE, taking),
    (Script.SETTLE, settling),
    (Script.DECIDE_DEAD, deciding_dead),
    (Script.PACE, pacing),
    (Script.PACE, pacing_what_takes_no_turn),
    (Script.PAUSE_DELIVERY, pausing),
    (Script.PROBE, probing),
    (Script.MARK_READY, marking),
    (Script.RECLAIM_PROCESS, reclaiming),
    (Script.AUDIT_APPEND, appending),
    (Script.PUT_POLICY, putting_in_force),
    (Script.OVERRIDE, overriding),
    (Script.ADD_PROGRAM, adding_a_program),
    (Script.CHANGE_PROGRAM, rotating),
    (Script.CHANGE_PROGRAM, revoking),
    (Script.ASK_PAIRING, asking_to_be_let_in),
    (Script.TRY_PAIRING, trying_a_code),
    (Script.RECEIVE, receiving),
    (Script.RECEIVE, holding),
    (Script.DECIDE_HELD, deciding_held),
    (Script.RESERVE, reserving),
    (Script.ENDORSE, endorsing),
    (Script.FREE, freeing),
    (Script.HOLD, having),
    (Script.SWAP, swapping),
    (Script.MAKE_OFFER, offering),
    (Script.TAKE_OFFER, taking_an_offer),
    (Script.COUNT, counting),
    (Script.OBSERVE, observing),
    (Script.RESERVE_TOKENS, setting_tokens_aside),
    (Script.SETTLE_TOKENS, settling_tokens),
    (Script.QUARANTINE, quarantining),
    (Script.UNQUARANTINE, letting_out),
    (Script.RELEASE_TOKENS, giving_tokens_back),
    (Script.GRANT_TOKENS, granting_tokens),
    (Script.RECALL_TOKENS, recalling_tokens),
    (Script.LOWER_GRANT, lowering_a_grant),
    (Script.IMPORT_SESSION, importing),
    (Script.NOTE_LOSS, noting_a_loss),
    (Script.SPEND, spending_of_a_session),
    (Script.SPEND, charging_a_session),
    *BACKUP_CASES,
    *RUN_CASES,
    *KNOWLEDGE_CASES,
)


def test_every_script_is_here() -> None:
    assert {script for script, _ in CASES} == set(Script)


@pytest.mark.parametrize("script, prepare", CASES)
@pytest.mark.anyio
async def test_lost_reply_never_duplicates(
    store: RedisStore, proxy: Proxy, lossy: RedisStore, script: Script, prepare: Prepare
) -> None:
    """A call whose reply is lost answers, and leaves behind, what the same call without a loss does."""
    await lossy.audit.append((row(),))
    act = await prepare(store)
    start = await sizes(store)
    expected = outline(await act(store))
    once = (await sizes(store)).grown(start)

    act = await prepare(store)
    # So that it knows the head, and the reply that it loses is the one that counts.
    await lossy.audit.append((row(),))
    start = await sizes(store)
    proxy.word = SCRIPTS[script].digest.encode()
    got = outline(await act(lossy))

    assert proxy.dropped == 1
    assert got == expected
    assert (await sizes(store)).grown(start) == once


@pytest.mark.anyio
async def test_scripts_write_no_field_that_the_table_lacks(store: RedisStore) -> None:
    """What a script notes on a record while it works stays out of what it stores."""
    for _, prepare in CASES:
        await (await prepare(store))(store)
    found = set[str]()
    for name in await command(store, "KEYS", "lg:{*"):
        what: bytes = await command(store, "TYPE", name)
        held: list[bytes] = []
        match what:
            case b"hash":
                held = await command(store, "HVALS", name)
            case b"list":
                held = await command(store, "LRANGE", name, 0, -1)
            case b"stream":
                held = [entry[1][1] for entry in await command(store, "XRANGE", name, "-", "+")]
            case _:
                continue
        for packed in held:
            with suppress(ValueError):
                found |= stored_map(packed).keys()
    assert {NAMES[name] for name in ("label", "state", "hash", "type", "digest", "tokens")} <= found
    assert found <= set(NAMES.values())


@dataclass(frozen=True)
class Sizes:
    """How large everything in the store is, by the name of its key."""

    known: dict[str, int]

    def grown(self, before: "Sizes") -> Counter[str]:
        """Count by how much each kind of key grew; what expired meanwhile, of a test before, counts for nothing."""
        counted: Counter[str] = Counter()
        for name, size in self.known.items():
            kind = name.partition("}:")[2].partition(":")[0]
            grown = size - before.known.get(name, 0)
            counted[kind] += min(max(grown, 0), 1) if kind in {"op", "state"} else max(grown, 0)
        return +counted


async def sizes(store: RedisStore) -> Sizes:
    """Look at everything in the store; the sets of hints are there or not."""
    names: list[bytes] = await command(store, "KEYS", "lg:{*")
    known = dict[str, int]()
    for name in set(map(bytes.decode, names)) - {READY_POOLS}:
        length = {"stream": "XLEN", "list": "LLEN", "hash": "HLEN", "string": "STRLEN", "zset": "ZCARD", "set": "SCARD"}
        what: bytes = await command(store, "TYPE", name)
        if what != b"none":  # else it expired meanwhile
            known[name] = await command(store, length[what.decode()], name)
    return Sizes(known)


def outline(answered: object) -> object:
    """Return an answer without what differs from session to session: ids, times and hashes."""
    match answered:
        case Claim():
            return answered.fence, answered.state.waiting_items, len(answered.items), len(answered.events)
        case Approval():
            return answered.state, answered.resolved_by
        case tuple():
            return tuple(map(outline, cast("tuple[object, ...]", answered)))
        case _ if hasattr(answered, "taint"):
            return getattr(answered, "seq", 0), getattr(answered, "stop", None), getattr(answered, "generation", None)
        case _ if hasattr(answered, "key"):
            return getattr(answered, "key", ""), getattr(answered, "state", ""), getattr(answered, "attempt", 0)
        case _:
            return answered
