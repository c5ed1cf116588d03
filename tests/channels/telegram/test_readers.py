"""Who was seen in a group counts for every process, and is written down once."""

import json
from collections.abc import AsyncGenerator

import pytest

from channels.messages import Address, Inbound
from channels.port import Audience, Reader, ReaderKind
from channels.telegram.readers import ANYBODY
from tests.channels.contract import until
from tests.channels.telegram.kit import TelegramStage, at, staged
from tests.sim.telegram_state import Chat
from tests.sim.telegram_world import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[TelegramStage]:
    async with staged() as made:
        yield made


def reader(person: Person, kind: ReaderKind = ReaderKind.STRANGER) -> Reader:
    return Reader(f"telegram:{person.id}", kind)


def of(*readers: Reader) -> Audience:
    return Audience(frozenset(readers), complete=False, shared=True)


async def heard(played: TelegramStage, text: str) -> None:
    await until(lambda: any(isinstance(one, Inbound) and one.text == text for one in played.got))


async def speaks(played: TelegramStage, group: Chat, person: Person, text: str) -> None:
    """Say something in a group that the adapter has heard by the end of this."""
    person.says(group, text)
    await heard(played, text)


def written(played: TelegramStage, group: Chat) -> dict[str, str]:
    """Return what is kept of a group."""
    found = (value for name, value in played.vault.values.items() if name.endswith(f"/seen/{group.id}"))
    return json.loads(next(found, b"{}"))


async def test_a_process_that_does_not_listen_knows_the_same_readers(played: TelegramStage) -> None:
    bob, robot = played.server.user("Bob"), played.server.user("Robot", bot=True)
    group = played.server.supergroup("Team", played.alice, bot="administrator")
    async with played.serving():
        await speaks(played, group, bob, "hello")
        robot.joins(group)
        bystander = played.another()
        try:
            everybody = of(reader(played.alice), reader(bob), reader(robot, ReaderKind.BOT))
            await until(lambda: len(written(played, group)) >= 3)
            for adapter in (played.adapter, bystander):
                assert await adapter.audience(at(group)) == everybody
            bob.leaves(group)
            await until(lambda: len(written(played, group)) < 3)
            assert reader(bob) not in (await bystander.audience(at(group))).readers
            # Also while Telegram cannot be asked who leads there.
            played.server.fails("getChatAdministrators")
            assert reader(robot, ReaderKind.BOT) in (await _again(played, group)).readers
        finally:
            await bystander.close()


async def _again(played: TelegramStage, group: Chat) -> Audience:
    """Ask with an adapter that never asked before, as after a restart."""
    adapter = played.another()
    try:
        return await adapter.audience(at(group))
    finally:
        await adapter.close()


async def test_who_is_known_costs_no_write_and_who_is_new_is_kept_or_comes_again(played: TelegramStage) -> None:
    bob = played.server.user("Bob")
    group = played.server.supergroup("Team", played.alice, bot="administrator")
    async with played.serving():
        await speaks(played, group, played.alice, "hello")
        played.vault.broken = True
        await speaks(played, group, played.alice, "hello again")
        assert (await played.adapter.audience(at(group))).readers >= {ANYBODY}
        bob.says(group, "and me")
        await until(lambda: len(played.server.asked("getUpdates")) > 5)
        assert not any(isinstance(one, Inbound) and one.text == "and me" for one in played.got)
        played.vault.broken = False
        await heard(played, "and me")
        assert reader(bob) in (await played.adapter.audience(at(group))).readers


async def test_a_group_of_more_than_are_kept_is_read_by_somebody_unknown(played: TelegramStage) -> None:
    group = played.server.supergroup("Team", played.alice, bot="administrator")
    name = f"telegram/{played.server.token.partition(':')[0]}/seen/{group.id}"
    played.vault.values[name] = json.dumps({f"telegram:{n}": "stranger" for n in range(1, 1001)}).encode()
    assert ANYBODY not in (await played.adapter.audience(at(group))).readers
    async with played.serving():
        await speaks(played, group, played.alice, "hello")
        assert ANYBODY in (await played.adapter.audience(at(group))).readers
        assert len(written(played, group)) == 1001
        await speaks(played, group, played.alice, "hello again")
        assert len(written(played, group)) == 1001


async def test_who_was_seen_in_a_group_is_in_the_supergroup_it_becomes(played: TelegramStage) -> None:
    bob = played.server.user("Bob")
    group = played.server.group("Team", played.alice)
    async with played.serving():
        bob.joins(group)
        await until(lambda: written(played, group))
        new = played.server.migrate(group)
        await until(lambda: written(played, new))
        assert reader(bob) in (await played.adapter.audience(Address("telegram", str(group.id)))).readers
