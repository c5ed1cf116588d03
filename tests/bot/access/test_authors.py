"""In a shared chat the context knows whose words it holds; who asks there is asked before the others' are followed."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bot.access import authors, labelling
from bot.access.approvals import may_answer
from bot.delivery import approval_prompts
from bot.history import event_log
from bot.history.folds import Folds
from bot.sessions.approvals import Approval, ApprovalQuestion
from bot.sessions.log.event_types import SessionSummary, ToolOutcome, ToolResult, UnknownEvent, UserMessage
from bot.sessions.log.events import Event, EventType, NewEvent
from bot.sessions.messages import Origin, OriginKind
from bot.sessions.models import Summary
from channels.messages import Address
from policy.labels import PUBLIC, parse
from policy.request import Others, Role
from tests.bot.kit import DIRTY, INTERNAL, Scripted, bang, document, parts, proposed, standing
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM, People, talking, team
from tests.events import body_of
from tests.people import principal

CHAT = {"team": {**CHATS["team"], "inbound": "PUBLIC"}}
THREAD = replace(TEAM, thread="7")
PRIVATE = Address("room", "ann")
SEND = bang("message", channel="console", recipient="guest", text="hi")
URL = "https://example.com/a"


async def log(people: People, address: Address = TEAM) -> tuple[Event, ...]:
    return await people.app.store.sessions.events(people.app.session_id(address))


async def asked(people: People, address: Address = TEAM) -> list[Approval]:
    return list(await people.app.store.approvals.of(people.app.session_id(address)))


def test_the_authors_are_who_wrote_and_whose_words_were_passed_on() -> None:
    here = standing()
    written = (
        event_log.user_message(here, "mel", "hello", label=PUBLIC),
        event_log.user_message(
            here, "ann", "a report", label=PUBLIC, origin=Origin(OriginKind.RESULT), authors=("eve",)
        ),
        event_log.observed(here, "lunch?", label=DIRTY, upto="1", authors={"room:zoe"}),
        event_log.agent_message(here, "noted", said=True),
        event_log.tool_result(here, ToolResult("c1", "read_file", "text", ToolOutcome.OK), DIRTY),
    )
    assert authors.authors(written) == {"mel", "ann", "eve", "room:zoe"}
    assert authors.authors(()) == frozenset()


def test_a_recap_carries_the_authors_whose_words_it_covers() -> None:
    group = standing(principal="chat:room::team:", asker="ann", authors=frozenset({"ann", "mel"}))
    recap = body_of(event_log.summarized(group, Summary("they met", 3)), SessionSummary)
    assert recap.authors == ("ann", "mel")
    own = event_log.summarized(standing(authors=frozenset({"owner"})), Summary("met", 3))
    assert body_of(own, SessionSummary).authors == ()


def test_nobody_knows_whose_words_an_event_of_an_unknown_type_holds_so_all_that_it_names_count() -> None:
    unknown = UnknownEvent("chat.reaction", {"authors": ["eve", 3], "text": "hm"})
    assert authors.authors((NewEvent("mel", PUBLIC, unknown, admitted=True),)) == {"mel", "eve"}
    assert authors.authors((NewEvent("mel", PUBLIC, UnknownEvent("x", {"authors": "eve"}), admitted=True),)) == {"mel"}
    assert authors.authors((NewEvent("mel", PUBLIC, unknown),)) == frozenset()


def test_what_others_may_know_is_looked_up_in_the_policy_in_force() -> None:
    policy = document(principals=PEOPLE, channels=CHANNELS, chats=CHAT)
    chat = "chat:room::team:"
    assert labelling.others(policy, chat, TEAM, ()) is None
    assert labelling.others(policy, chat, TEAM, {"mel"}) == Others(INTERNAL, frozenset({Role.MEMBER}))
    both = labelling.others(policy, chat, TEAM, {"mel", "gone"})
    assert both == Others(PUBLIC, frozenset({Role.MEMBER, Role.STRANGER}))
    trusting = document(
        principals=PEOPLE, channels=CHANNELS, chats={"team": {**CHAT["team"], "unsafe_trust_all_members": True}}
    )
    assert labelling.others(trusting, chat, TEAM, {"mel"}) is None
    assert labelling.members_words(trusting, chat, TEAM, PUBLIC) == PUBLIC
    assert labelling.members_words(policy, chat, TEAM, PUBLIC) == DIRTY
    assert labelling.members_words(policy, "ann", PRIVATE, PUBLIC) == PUBLIC


def addresses(told: Iterable[NewEvent]) -> frozenset[str]:
    return Folds().plus_new(enumerate(told, 1)).addresses("ann")


def test_an_address_that_somebody_else_may_have_had_written_does_not_count() -> None:
    mine = event_log.user_message(standing(), "ann", "look", label=PUBLIC)
    others = event_log.user_message(standing(), "mel", "look", label=PUBLIC)
    result = event_log.tool_result(standing(), ToolResult("c1", "read_file", URL, ToolOutcome.OK), PUBLIC)
    assert addresses((mine, result)) == {URL}
    assert addresses((others, result)) == frozenset()
    # One that another person typed whole does: they could have it fetched themselves.
    assert addresses((event_log.user_message(standing(), "mel", URL, label=PUBLIC),)) == {URL}


@pytest.mark.parametrize(
    "people, told",
    [
        ([], ""),
        (["mel"], "Words of `mel` are in"),
        (["eve", "mel"], "Words of `eve`, `mel` are in"),
        (["mel", "room:zoe"], "Words of `mel`, people who are no users here are in"),
    ],
)
def test_a_question_names_whose_words_are_there(people: list[str], told: str) -> None:
    question = ApprovalQuestion("x", {}, ("others_cannot_command",), authors=tuple(people))
    one = Approval("a", "s", 1, "t", "c", "x", "b", PUBLIC, "ann", question, ("others_cannot_command",), 1)
    wording = approval_prompts.wording(document(), (one,))
    assert (told in wording) if told else ("Words of" not in wording)


@pytest.mark.parametrize(
    "heard, who, may",
    [
        (["room:zoe"], "zoe", False),
        (["console:zoe"], "zoe", False),
        (["zoe"], "zoe", False),
        (["room:mel"], "zoe", True),
        # What the person who asks was overheard to say before they were known is theirs.
        (["room:ann"], "ann", True),
        (["room:ann"], "zoe", True),
    ],
)
def test_whose_words_were_heard_under_an_account_does_not_answer_for_them(
    heard: list[str], who: str, *, may: bool
) -> None:
    zoe = principal("room:zoe", "console:zoe", role="approver", clearance="CONFIDENTIAL")
    question = ApprovalQuestion("x", {}, authors=tuple(heard))
    one = Approval("a", "s", 1, "t", "c", "x", "b", PUBLIC, "ann", question, ("others_cannot_command",), 1)
    assert may_answer(document(principals={**PEOPLE, "zoe": zoe}, channels=CHANNELS), one, who) is may


@pytest.mark.anyio
async def test_only_the_others_of_a_context_make_a_question(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), chats=CHAT) as people:
        await people.say("ann", SEND)
        assert await asked(people) == []
        await people.say("mel", "hello")
        await people.say("ann", SEND)
        (one,) = await asked(people)
        assert one.rules == ("others_cannot_command",)
        assert one.question.authors == ("mel",)
        await people.say("ann", f"/approve {one.id}")
        # In a thread of one's own, and in private, nothing is asked: the remedies that are offered.
        await people.say("ann", SEND, THREAD)
        await people.say("ann", SEND, PRIVATE)
        assert await asked(people, THREAD) == []
        assert await asked(people, PRIVATE) == []


@pytest.mark.anyio
async def test_simulate_equals_enforce_for_whoever_asks_in_the_chat(tmp_path: Path) -> None:
    text = '/simulate message {"channel": "console", "recipient": "guest", "text": "hi"}'
    async with talking(tmp_path, team("ann", "mel"), chats=CHAT) as people:
        await people.say("ann", "hello")
        await people.say("ann", text)
        assert "others_cannot_command" not in people.rooms.alone("ann")[-1]
        await people.say("mel", "hello")
        for who in ("ann", "mel"):
            await people.say(who, text)
            assert "others_cannot_command says REQUIRE_APPROVAL" in people.rooms.alone(who)[-1]
            assert "in a thread of your own" in people.rooms.alone(who)[-1]


@pytest.mark.anyio
async def test_one_question_where_untrusted_data_asks_as_well(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), chats=CHAT) as people:
        await people.say("mel", bang("read_file", path="public/welcome.md"))
        await people.say("ann", SEND)
        (one,) = await asked(people)
        assert one.rules == ("untrusted_cannot_command", "others_cannot_command")
        await people.say("ann", f"/approve {one.id}")
        assert "accepted for guest" in str(people.rooms.said)


@pytest.mark.anyio
async def test_what_a_child_is_told_and_tells_takes_its_authors_along(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), chats=CHAT) as people:
        await people.say("mel", "hello")
        await people.say("ann", bang("sessions_spawn", task="report"))
        (slot,) = await people.app.store.delegation.slots("chat:room::team:")
        (task, *_) = [
            one for one in await people.app.store.sessions.events(slot.sid) if one.type is EventType.USER_MESSAGE
        ]
        assert (task.actor, body_of(task, UserMessage).authors) == ("ann", ("mel",))

        async def reported() -> list[Event]:
            return [one for one in await log(people) if isinstance(one.body, UserMessage) and one.body.origin]

        await people.settled()
        while not (found := await reported()):
            await people.settled()
        assert (found[0].actor, body_of(found[0], UserMessage).authors) == ("ann", ("mel",))


@pytest.mark.anyio
async def test_words_that_enter_a_turn_count_before_its_next_call(tmp_path: Path) -> None:
    """What was overheard enters with the message that begins the turn, and counts in that turn."""
    observed = {"team": {**CHAT["team"], "observe": 3}}
    async with talking(tmp_path, team("ann", "mel"), chats=observed) as people:
        await people.send("mel", "whenever …", addressed=False)
        await people.send("zoe", "me too", addressed=False)
        await people.say("ann", SEND)
        (one,) = await asked(people)
        assert one.question.authors == ("mel", "room:zoe")


@pytest.mark.anyio
async def test_a_model_is_offered_the_tools_of_whoever_asks(tmp_path: Path) -> None:
    model = Scripted("noted")
    tools = {"web_fetch": {"roles": ["admin"]}, "write_file": {"roles": ["member"]}}
    async with talking(tmp_path, team("ann", "mel"), chats=CHAT, tools=tools, parts=parts(model=model)) as people:
        for who in ("ann", "mel", "ann"):
            await people.say(who, "hello")
    offered = [{tool.name for tool in asked.function_tools} for asked in model.parameters]
    assert [{"web_fetch", "write_file"} & names for names in offered] == [{"web_fetch"}, {"write_file"}, {"web_fetch"}]


@pytest.mark.anyio
async def test_a_call_that_is_not_offered_is_refused(tmp_path: Path) -> None:
    model = Scripted([proposed("web_fetch", {"url": URL})], "noted")
    tools = {"web_fetch": {"roles": ["admin"]}}
    async with talking(tmp_path, team("ann", "mel"), chats=CHAT, tools=tools, parts=parts(model=model)) as people:
        await people.say("mel", "hello")
        told = [one.body.text for one in await log(people) if isinstance(one.body, ToolResult)]
        assert "tool_is_for_the_role" in told[0]
        assert parse("PUBLIC") == (await people.app.store.sessions.state(people.app.session_id(TEAM))).taint  # pyright: ignore[reportOptionalMemberAccess] - it is there
