"""The code that makes an account the owner's: sent alone, in private, in time, and not guessed."""

import asyncio

import pytest

from bot.cli.init.claim import SECONDS, WRONG_OF_ALL, WRONG_OF_ONE, Guess, Meeting, OneTimeCode
from channels.messages import Address, Event, How, Inbound, Membership
from tests.bot.clock import Clock

CODE = "k7m2p9qr"
ANN, EVE = "telegram:1", "telegram:2"


def says(account: str, text: str, *, private: bool = True, authored: bool = True, how: How = How.TEXT) -> Inbound:
    where = Address("telegram", "1" if private else "-100")
    return Inbound(where, account, text, text, authored=authored, private=private, how=how)


def test_a_code_counts_once_and_as_it_is_typed() -> None:
    code = OneTimeCode(CODE, Clock())
    assert code.guess(ANN, " K7M2-P9QR ") is Guess.RIGHT
    assert code.guess(EVE, CODE) is Guess.NOTHING


def test_a_code_ends_after_its_time() -> None:
    clock = Clock()
    code = OneTimeCode(CODE, clock)
    clock.seconds += SECONDS
    assert code.left == 0
    assert code.guess(ANN, CODE) is Guess.NOTHING


def test_an_account_that_guesses_is_not_listened_to() -> None:
    code = OneTimeCode(CODE, Clock())
    assert code.guess(EVE, "hello") is Guess.NOTHING
    assert {code.guess(EVE, f"2222222{number}") for number in range(WRONG_OF_ONE)} == {Guess.WRONG}
    assert code.guess(EVE, CODE) is Guess.NOTHING
    assert code.guess(ANN, CODE) is Guess.RIGHT


def test_many_wrong_codes_end_it() -> None:
    code = OneTimeCode(CODE, Clock())
    for number in range(WRONG_OF_ALL):
        code.guess(f"telegram:{number}", "22222222")
    assert code.left == 0
    assert code.guess(ANN, CODE) is Guess.NOTHING


@pytest.mark.parametrize(
    "event",
    [
        says(EVE, "let me in"),
        says(EVE, CODE, private=False),
        says(EVE, CODE, authored=False),
        says(EVE, CODE, how=How.BUTTON),
        says(EVE, "22222222"),
        Membership(Address("telegram", "-100"), ANN, joined=True, dedupe="1", own=True, by=EVE),
    ],
)
@pytest.mark.anyio
async def test_only_the_account_that_sent_the_code_is_the_owner(event: Event) -> None:
    told = list[str]()
    meeting = Meeting(told.append)
    async with asyncio.TaskGroup() as tasks:
        owner = tasks.create_task(meeting.owner(OneTimeCode(CODE, Clock())))
        await asyncio.sleep(0)
        await meeting.receive(event)
        await meeting.receive(says(ANN, CODE))
    assert owner.result() == ANN
    assert told == (["`telegram:2` wrote a wrong code."] if event == says(EVE, "22222222") else [])


@pytest.mark.anyio
async def test_a_code_that_came_before_it_was_shown_does_not_count() -> None:
    meeting = Meeting(lambda _: None)
    await meeting.receive(says(EVE, CODE))
    async with asyncio.TaskGroup() as tasks:
        owner = tasks.create_task(meeting.owner(OneTimeCode(CODE, Clock())))
        await asyncio.sleep(0)
        await meeting.receive(says(ANN, CODE))
    assert owner.result() == ANN


@pytest.mark.anyio
async def test_only_a_group_that_the_owner_shows_is_classified() -> None:
    meeting = Meeting(lambda _: None)
    async with asyncio.TaskGroup() as tasks:
        group = tasks.create_task(meeting.group(frozenset({ANN})))
        await asyncio.sleep(0)
        theirs, ours = Address("telegram", "-1"), Address("telegram", "-2", thread="7")
        await meeting.receive(Membership(theirs, "telegram:9", joined=True, dedupe="1", own=True, by=EVE))
        await meeting.receive(Inbound(theirs, EVE, "@bot hi", "2", private=False))
        await meeting.receive(Membership(theirs, ANN, joined=True, dedupe="3", own=False, by=ANN))
        await meeting.receive(Inbound(theirs, ANN, "hi all", "4", private=False, addressed=False))
        await meeting.receive(Inbound(ours, ANN, "@bot hi", "5", private=False))
    assert group.result() == ours.place
