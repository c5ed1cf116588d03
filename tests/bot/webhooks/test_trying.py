"""When a webhook is tried again, and what finds what no hint told: over senders of a process that serves no HTTP."""

import asyncio
import random
from collections import deque
from itertools import count
from pathlib import Path

import pytest

from bot.sessions.webhooks import Ended
from bot.store.records.kinds import WEBHOOK
from bot.store.records.names import NAMES
from bot.store.schema import WEBHOOKS, session_keys
from tests.bot.webhooks.kit import Desk, Written, begin, desk, hook_config, until
from tests.clocks import CLOCKS
from tests.sim.receiver import receiver
from tests.store.world import alter, command

pytestmark = pytest.mark.anyio

DAY = 86_400_000
HOUR = 3_600_000


async def unheard(made: Desk, session: Written) -> int:
    """Write the last event of a session once more, and publish nothing of it; return its number."""
    store, keys = made.app.store, session_keys(session.sid)
    ((_, fields),) = await command(store, "XREVRANGE", keys.log, "+", "-", "COUNT", 1)
    session.seq += 1
    await command(store, "XADD", keys.log, f"{session.seq}-0", *fields)
    await command(store, "HSET", keys.state, NAMES["seq"], session.seq)
    return session.seq


@pytest.mark.parametrize("days, ended", [(4.9, None), (5.1, Ended.FAILING)])
async def test_one_that_takes_nothing_for_days_is_disabled(tmp_path: Path, days: float, ended: Ended | None) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here, failing_days=5)) as made:
        hook = await made.hook(here)
        since = made.app.store.tokens.now_ms() - round(days * DAY)
        await alter(made.app.store, WEBHOOK, WEBHOOKS, hook.id, failing=since)
        here.usual = 500
        await begin(made.app)
        async with made.sending():
            # The second try comes after a second, where anything is tried.
            await here.have(1 if ended else 2)
            if ended:
                await asyncio.sleep(2.5)
                assert len(here.got) == 1
            known = await made.first()
            assert (known.disabled, known.failing) == (ended, since)


async def test_a_receiver_is_left_alone_for_an_hour_at_most(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook = await made.hook(here)
        here.answers, here.extra = deque([503]), ("Retry-After: 999999999",)
        session = await begin(made.app)
        async with made.sending():
            await here.have(1)

            async def tried() -> bool:
                return session.sid in await made.app.store.webhooks.positions(hook.id, (session.sid,))

            await until(tried)
            at = (await made.app.store.webhooks.positions(hook.id, (session.sid,)))[session.sid]
        assert at.attempt == 1
        assert 3_590_000 < at.retry_at - made.app.store.tokens.now_ms() <= 3_600_000 + CLOCKS


async def test_who_takes_over_waits_as_long_as_was_to_be_waited(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook = await made.hook(here)
        here.answers, here.extra = deque([429]), ("Retry-After: 3",)
        session = await begin(made.app)

        async def noted() -> bool:
            return bool(await made.app.store.webhooks.positions(hook.id, (session.sid,)))

        async with made.sending():
            await here.have(1)
            await until(noted)
        async with made.sending():
            await session.say("news")
            first, second, _ = await here.have(3)
            assert second.at - first.at >= 2.8
            assert here.seqs() == [2, 2, 3]


async def test_the_sweep_finds_what_no_hint_told(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook = await made.hook(here)
        session = await begin(made.app)
        async with made.sending(sweep_seconds=600):
            await made.noted(hook, session)
            seq = await unheard(made, session)
            await asyncio.sleep(0.5)
            assert len(here.got) == 1
        async with made.sending(sweep_seconds=4):
            # A process that begins looks for what was left, and only then for what the sweep finds.
            await here.have(2)
            (said,) = await session.say("of now, as a sweep finds only what changed")
            await made.noted(hook, session)
            last = await unheard(made, session)
            await here.have(4)
            assert here.seqs() == [seq - 1, seq, said, last]


async def test_all_is_looked_at_after_the_feed_broke(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook = await made.hook(here)
        session, other = await begin(made.app), await begin(made.app)
        async with made.sending():
            await made.noted(hook, session, other)
            lost = [await unheard(made, one) for one in (session, other)]
            await asyncio.sleep(0.5)
            assert len(here.got) == 2
            await command(made.app.store, "CLIENT", "KILL", "TYPE", "pubsub")
            await here.have(4)
            assert [here.seqs(one.sid)[-1] for one in (session, other)] == lost


async def test_a_token_that_expired_sends_nothing_until_it_is_rotated(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here), life=HOUR) as made:
        await made.hook(here)
        session = await begin(made.app)
        async with made.sending():
            await here.have(1)
            made.app.store.time.saw(made.app.store.time.wall_ms() + HOUR)
            missed = await session.say("while it is expired")
            await asyncio.sleep(1.5)
            assert len(here.got) == 1
            await made.app.token_keeper.rotate("ci", 0, "owner")
            await here.have(2)
            assert here.seqs() == [missed[0] - 1, *missed]


async def test_a_token_that_is_revoked_ends_what_waits_for_a_further_try(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here, retries=(4, 4))) as made:
        await made.hook(here)
        here.usual = 500
        await begin(made.app)
        async with made.sending():
            await here.have(1)
            await made.app.token_keeper.revoke("ci", "owner")
            await asyncio.sleep(6)
            assert len(here.got) == 1


async def test_order_is_kept_whatever_is_tried_again(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here, retries=[1] * 8)) as made:
        await made.hook(here)
        sessions = [await begin(made.app) for _ in range(4)]
        said = dict[str, list[int]]()
        # About one in four fails, in an order of its own each time; what fails five times in a row makes all rest.
        chance = random.Random(7)  # noqa: S311 - it protects nothing
        here.answers = deque(chance.choice((204, 204, 204, 500)) for _ in range(30))
        async with made.sending(chance=lambda: 0.0):
            for number in range(4):
                for one in sessions:
                    said.setdefault(one.sid, [one.seq]).extend(await one.say(f"number {number}"))

            async def all_came() -> bool:
                return all(here.seqs(sid)[-1:] == seqs[-1:] for sid, seqs in said.items())

            await until(all_came)
        for sid, seqs in said.items():
            assert list(dict.fromkeys(here.seqs(sid))) == seqs
            assert here.seqs(sid) == sorted(here.seqs(sid))
        assert len(here.got) > sum(map(len, said.values()))


async def test_a_clock_that_is_set_back_takes_no_event_from_who_was_there(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook = await made.hook(here)
        session, webhooks = await begin(made.app), made.app.store.webhooks

        async def was_there() -> bool:
            return bool(await webhooks.positions(hook.id, (session.sid,)))

        async with made.sending():
            await until(was_there)
        # All that is written from now on is older than the webhook.
        await alter(made.app.store, WEBHOOK, WEBHOOKS, hook.id, created=made.app.store.tokens.now_ms() + DAY)
        said = await session.say("later, by an earlier clock")
        async with made.sending():
            await here.have(2)
            assert here.seqs() == [said[0] - 1, *said]


async def test_of_a_long_log_nothing_old_is_sent(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        session = await begin(made.app)
        await session.say(*map(str, range(250)))
        await asyncio.sleep(0.01)
        await made.hook(here)
        said = await session.say("new")
        asked = count()

        async def in_force() -> bool:
            # Another policy is in force for a moment, in the middle of what is old.
            return next(asked) != 1

        async with made.sending(in_force=in_force):
            await here.have(1)
            await asyncio.sleep(0.3)
            assert here.seqs() == said
        assert next(asked) > 3


async def test_who_takes_over_looks_for_what_was_told_before(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        await made.hook(here)
        other, webhooks = "another", made.app.store.webhooks
        assert await webhooks.hold(other, 15_000, 8)
        async with made.sending():
            await asyncio.sleep(0.5)
            # Its hints come while the webhook is another's.
            assert await webhooks.hold(other, 15_000, 8)
            session = await begin(made.app)
            said = await session.say("told before")
            await asyncio.sleep(0.5)
            assert await webhooks.hold(other, 15_000, 8)
            assert here.got == []
            await webhooks.give_back(other)
            await here.have(2)
            assert here.seqs() == [said[0] - 1, *said]
