"""Budgets of a day: nobody asks a model beyond one, and whoever asked learns what is used up, and nothing of others."""

import asyncio
import io
import time
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from bot.admission.attachments import NOT_PAID, NOT_WRITTEN
from bot.agent.models import ModelClient, ModelError, OverBudgetError
from bot.agent.providers import Seat
from bot.app.extensions import Extensions
from bot.budgets import AGAIN, NEVER, USED_UP, Budget
from bot.commands.models import NOT_COUNTED
from bot.config.model import ModelSettings, ProviderSettings
from bot.core.errors import BusyError
from bot.core.ids import Ids
from bot.sessions.budgets import Budgets, Spender, Spent, Whose
from bot.sessions.log.event_types import YieldReason
from bot.sessions.usage import Usage
from bot.store.redis_store import RedisStore
from bot.worker.finish import DENIED_HERE
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.admission.file_channel import OGG, configured, sending
from tests.bot.kit import Scripted, eventually, parts, policy, standing
from tests.bot.rooms import CHATS, TEAM, People, talking, team
from tests.harness import Person, running
from tests.sim.transcriber import transcriber
from tests.store.world import command

pytestmark = pytest.mark.anyio

OPEN = {"team": {**CHATS["team"], "inbound": "PUBLIC"}}
MINE = f"{USED_UP[Whose.PERSON]}; {AGAIN}"


def limited(**limits: int) -> str:
    return policy(blocks={"limits": limits})


async def set_aside(store: RedisStore) -> list[bytes]:
    """Return the reservations of all accounts."""
    keys: list[bytes] = await command(store, "KEYS", "lg:{budget:*}:open")
    return [name for key in keys for name in await command(store, "HKEYS", key)]


async def reason(person: Person) -> YieldReason:
    state = await person.state()
    assert state.last_turn is not None
    return state.last_turn.reason


async def refused(person: Person) -> list[object]:
    """Return the budgets that did not suffice, as the session's audit tells it."""
    rows = [row async for row in person.app.chains.records(person.sid)]
    return [row.body["budget"] for row in rows if row.kind == "refused" and row.actor == "owner"]


async def test_what_was_used_today_is_told_beside_its_limit(tmp_path: Path) -> None:
    async with running(tmp_path, limited(person_daily_tokens=50_000), parts=parts(model=Scripted("hi"))) as owner:
        await owner.say("hello")
        await owner.say("hello")
        assert "You used 30 of 50000 tokens today, as far as may be told here" in await owner.say("/usage")
        assert await set_aside(owner.app.store) == []


async def test_beyond_it_no_model_is_asked_and_neither_reset_nor_restart_helps(tmp_path: Path) -> None:
    config, model = limited(person_daily_tokens=20_000), Scripted("hi", silent=True)
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        said = [await owner.say("hello") for _ in range(5)]
        assert MINE in said[-1]
        # What it does not tell that it used counts as much as was set aside.
        asked = len(model.asked)
        assert 1 <= asked <= 4
        assert await reason(owner) is YieldReason.BUDGET_EXCEEDED
        assert await refused(owner) == ["person"] * (5 - asked)
        assert "of 20000 tokens, not all of it known, today" in await owner.say("/usage")
        await owner.say("/reset confirm")
        assert MINE in await owner.say("hello")
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        assert MINE in await owner.say("hello")
        # Without tools a recap needs less.
        await owner.app.store.budgets.settle_tokens("x", Spender("owner", "", PUBLIC), 20_000, complete=True)
        assert MINE in await owner.say("/summarize")
        assert "try again" not in owner.shown
    assert len(model.asked) == asked


async def test_what_no_day_has_enough_for_is_said_to_be_so(tmp_path: Path) -> None:
    async with running(tmp_path, limited(daily_tokens=1000)) as owner:
        assert NEVER in await owner.say("hello")


async def test_without_a_budget_nothing_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        assert "today" not in await owner.say("/usage")
        assert NOT_COUNTED in await owner.say("/usage all")
        assert await command(owner.app.store, "KEYS", "lg:{budget*") == []


async def test_background_sessions_and_recaps_count_on_whoever_set_them_going(tmp_path: Path) -> None:
    model = Scripted("hi")
    async with running(tmp_path, limited(daily_tokens=1_000_000), parts=parts(model=model)) as owner:
        await owner.say("hello")
        await owner.say("/spawn look around")

        async def counted() -> bool:
            return sum(one.tokens for one in await owner.app.store.budgets.spent_today()) >= 45

        # The child asked once, and its parent again when it heard of it.
        await eventually(counted)
        await owner.settled()
        await owner.say("/summarize")
        assert await owner.app.store.budgets.spent_today() == (Spent(Whose.PERSON, "owner", PUBLIC, 60, complete=True),)
        assert len(model.asked) == 4


async def test_what_is_stopped_on_the_way_counts_and_leaves_nothing_set_aside(tmp_path: Path) -> None:
    model = Scripted("hi", wait=asyncio.Event())
    async with running(tmp_path, limited(daily_tokens=1_000_000), parts=parts(model=model)) as owner:
        await owner.say("hello", wait=False)

        async def asked() -> bool:
            return bool(model.asked)

        await eventually(asked)
        assert len(await set_aside(owner.app.store)) == 1
        await owner.say("/stop")
        (spent,) = await owner.app.store.budgets.spent_today()
        assert not spent.complete
        assert spent.tokens > 4096
        assert await set_aside(owner.app.store) == []


async def test_sessions_that_a_reader_may_not_know_of_are_not_counted_for_him(tmp_path: Path) -> None:
    async with running(tmp_path, limited(person_daily_tokens=1_000_000), parts=parts(model=Scripted("hi"))) as owner:
        low = Person(owner.app, owner.output, Address("console", "guest"))
        await low.say("hello")
        before = await low.say("/usage")
        assert "You used 15 of" in before
        await owner.say("/taint")
        await owner.say("hello")
        assert "You used 30 of" in await low.say("/usage")
        await owner.say("/taint raise CONFIDENTIAL")
        for _ in range(2):
            await owner.say("hello")
        assert "You used 30 of 1000000 tokens, 30 of 1000000 tokens for CONFIDENTIAL" in (
            (await owner.say("/usage")).replace(" for PUBLIC", "")
        )
        for question in ("/usage", "/usage all"):
            assert " 30 " in await low.say(question)


async def asking(people: People, who: str, where: Address = TEAM) -> str:
    """Ask what was used today, and return what is told to whoever asked alone."""
    before = len(people.rooms.sent)
    await people.say(who, "/usage", where)
    (told,) = people.rooms.sent[before:]
    return told.text


async def test_a_shared_chat_hears_one_constant_and_whoever_asked_hears_the_reason_alone(tmp_path: Path) -> None:
    limits = {"limits": {"chat_daily_tokens": 1000}}
    async with talking(tmp_path, team("ann", "mel"), chats=OPEN, blocks=limits) as people:
        await people.say("ann", "hello")
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        assert people.rooms.alone("ann") == [NEVER]
        # It is the chat's: in private there is no limit but one's own.
        await people.say("ann", "hello", Address("room", "ann"))
        assert people.rooms.said[-1] == "You said: hello"


async def test_a_chat_and_its_people_are_counted_each_and_tell_of_nobody_else(tmp_path: Path) -> None:
    limits = {"limits": {"person_daily_tokens": 100_000, "chat_daily_tokens": 200_000}}
    async with talking(tmp_path, team("ann", "mel"), chats=OPEN, blocks=limits) as people:
        for who, where in (("ann", TEAM), ("mel", TEAM), ("mel", Address("room", "mel"))):
            await people.say(who, "hello there", where)
        by_name = {one.name: 0 for one in await people.app.store.budgets.spent_today()}
        for one in await people.app.store.budgets.spent_today():
            by_name[one.name] += one.tokens
        chat = by_name["chat:room::team:"]
        assert set(by_name) == {"ann", "mel", "chat:room::team:"}
        assert by_name["ann"] < chat
        told = await asking(people, "ann")
        assert f"You used {by_name['ann']} of 100000 tokens today" in told
        assert f"This chat used {chat} of 200000 tokens today" in told
        assert str(by_name["mel"]) not in told.replace(str(chat), "")
        # Ann is an admin and may ask for all, mel is not and may not.
        before = len(people.rooms.sent)
        await people.say("mel", "/usage all", Address("room", "mel"))
        assert "ann" not in str(people.rooms.said[before:])
        await people.say("ann", "/usage all", Address("room", "ann"))
        everybody = people.rooms.said[-1].splitlines()
        assert everybody[0].startswith(f"All used {by_name['ann'] + by_name['mel']} tokens today")
        assert sorted(everybody[1:]) == sorted(
            [
                f"  ann: {by_name['ann']} of 100000 tokens",
                f"  mel: {by_name['mel']} of 100000 tokens",
                f"  room::team:: {chat} of 200000 tokens",
            ]
        )


async def test_one_persons_budget_is_not_anothers(tmp_path: Path) -> None:
    limits = {"limits": {"person_daily_tokens": 100_000}}
    async with talking(tmp_path, team("ann", "mel"), chats=OPEN, blocks=limits) as people:
        store, spender = people.app.store, Spender("mel", "", PUBLIC)
        await store.budgets.settle_tokens("elsewhere", spender, 100_000, complete=True)
        await people.say("mel", "hello")
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        assert people.rooms.alone("mel") == [MINE]
        await people.say("ann", "hello")
        assert people.rooms.heard(TEAM) == [DENIED_HERE, "You said: hello"]


async def test_recordings_count_and_are_not_heard_beyond_it(tmp_path: Path) -> None:
    async with transcriber() as played:
        blocks = {
            "transcriber": {"base_url": played.base, "model": "scribe", "seconds": 5},
            "limits": {"person_daily_tokens": 100_000},
        }
        config = configured(blocks, transcribers={"scribe": {"clearance": "PUBLIC~"}})
        async with sending(tmp_path, config) as ann:
            await ann.sends(("a.ogg", OGG))
            assert len(played.heard) == 1
            (spent,) = await ann.app.store.budgets.spent_today()
            assert not spent.complete
            assert spent.tokens > 100
            await ann.app.store.budgets.settle_tokens("x", Spender("ann", "", PUBLIC), 100_000, complete=True)
            told, ended = await ann.sends(("b.ogg", OGG))
            assert NOT_PAID in told
            assert ended == MINE
            assert len(played.heard) == 1


async def test_a_recording_that_has_to_wait_for_others_can_be_sent_again(tmp_path: Path) -> None:
    async with transcriber() as played:
        blocks = {
            "transcriber": {"base_url": played.base, "model": "scribe", "seconds": 5},
            "limits": {"daily_tokens": 100_000},
            "model": {"answer_seconds": 5},
        }
        config = configured(blocks, transcribers={"scribe": {"clearance": "PUBLIC~"}})
        async with sending(tmp_path, config) as ann:
            elsewhere, limits = Spender("mel", "", PUBLIC), Budgets(all=100_000)
            assert (
                await ann.app.store.budgets.reserve_tokens("x", elsewhere, 99_990, budgets=limits, life=600_000) is None
            )
            told, ended = await ann.sends(("a.ogg", OGG))
            assert NOT_WRITTEN in told
            assert ended == str(BusyError())
            assert played.heard == []


async def test_people_who_ask_at_once_wait_for_one_another_and_all_are_answered(tmp_path: Path) -> None:
    """What two of them have set aside is most of the day; what they use is next to nothing."""
    model = Scripted("hi", wait=(gate := asyncio.Event()))
    limits = {"limits": {"daily_tokens": 30_000}}
    async with talking(tmp_path, team("ann", "mel"), parts=parts(model=model), blocks=limits) as people:
        homes = [Address("room", "ann"), Address("room", "mel"), Address("room", "ann", thread="1")]
        for home in homes:
            await people.send(home.chat, "hello", home)

        async def waits() -> bool:
            return len(model.asked) == 2 and len(await set_aside(people.app.store)) == 2

        await eventually(waits)
        await asyncio.sleep(0.5)
        assert (len(model.asked), people.rooms.said) == (2, [])
        gate.set()
        for home in homes:
            await people.settled(home)
        assert people.rooms.said == ["hi"] * 3
        assert sum(one.tokens for one in await people.app.store.budgets.spent_today()) == 45


async def test_what_is_not_free_in_time_is_told_as_busy_and_names_nobodys_budget(tmp_path: Path) -> None:
    blocks = {"limits": {"daily_tokens": 20_000}, "model": {"answer_seconds": 5}}
    async with talking(tmp_path, team("ann"), blocks=blocks) as people:
        store, home, elsewhere = people.app.store, Address("room", "ann"), Spender("mel", "", PUBLIC)
        assert (
            await store.budgets.reserve_tokens("x", elsewhere, 19_000, budgets=Budgets(all=20_000), life=600_000)
            is None
        )
        begun = time.monotonic()
        await people.say("ann", "hello", home)
        # The time that a model has bounds the wait for it.
        assert 0.3 < time.monotonic() - begun < 60
        assert people.rooms.said == [str(BusyError())]
        person = Person(people.app, io.StringIO(), home)
        assert await reason(person) is YieldReason.BUDGET_EXCEEDED
        await store.budgets.settle_tokens("x", elsewhere, 10, complete=True)
        await people.say("ann", "hello", home)
        assert people.rooms.said[1:] == ["You said: hello"]


async def test_who_is_stopped_while_waiting_has_set_nothing_aside(tmp_path: Path) -> None:
    async with running(tmp_path, limited(daily_tokens=20_000)) as owner:
        store, elsewhere = owner.app.store, Spender("mel", "", PUBLIC)
        assert (
            await store.budgets.reserve_tokens("x", elsewhere, 19_000, budgets=Budgets(all=20_000), life=600_000)
            is None
        )
        await owner.say("hello", wait=False)

        async def thinks() -> bool:
            state = await store.sessions.state(owner.sid)
            return state is not None and state.turn is not None

        await eventually(thinks)
        await asyncio.sleep(0.3)
        begun = time.monotonic()
        await owner.say("/stop")
        assert time.monotonic() - begun < 60
        assert await reason(owner) is YieldReason.CANCELED
        assert await set_aside(store) == [b"x"]
        assert await store.budgets.spent_today() == ()


async def test_each_attempt_is_set_aside_by_itself_and_no_further_model_is_asked(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        budget = Budget(owner.app.store.budgets, Ids(), Budgets(person=10_000), life=60_000, patience=0)
        broken = Scripted(OSError("hunter2"), "hi")
        asker = ModelClient(ModelSettings(retries=1), budget)
        prompt: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("hello")])]
        nothing = ModelRequestParameters()
        seat = Seat("scripted:x", broken, ProviderSettings(output_tokens=6000))
        with pytest.raises(OverBudgetError) as caught:
            await asker.ask(standing(), seat, prompt, parameters=nothing)
        # The first may have cost as much as was set aside, so that a second is not made.
        assert len(broken.asked) == 1
        assert caught.value.usage == Usage(1, complete=False, priced=False)
        (spent,) = await owner.app.store.budgets.spent_today()
        assert 6000 < spent.tokens < 6100
        # A request that was refused unread costs nothing.
        with pytest.raises(ModelError, match="429"):
            await ModelClient(ModelSettings(retries=0), budget).ask(
                standing(),
                Seat("scripted:x", Scripted(ModelHTTPError(429, "m", None)), ProviderSettings(output_tokens=10)),
                prompt,
                parameters=nothing,
            )
        assert [one.tokens for one in await owner.app.store.budgets.spent_today()] == [spent.tokens]


async def test_beyond_a_budget_no_fall_back_is_asked(tmp_path: Path) -> None:
    models = {"scripted:a": Scripted("a"), "scripted:b": Scripted("b")}
    config = policy(
        models={name: {"clearance": "top"} for name in models},
        blocks={"model": {"name": "scripted:a", "fallback": ["scripted:b"]}, "limits": {"daily_tokens": 1000}},
    )
    async with running(tmp_path, config, parts=Extensions(model=models.__getitem__)) as owner:
        assert NEVER in await owner.say("hello")
        assert [model.asked for model in models.values()] == [[], []]
