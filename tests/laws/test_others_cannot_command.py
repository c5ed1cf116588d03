"""Law 22: in a shared chat another person's words command nothing in the name of whoever asks.

A model that does what anybody in its context wrote plays the whole application, and so does the gate alone: what it
lets a call do unasked is at most what each author could have the bot do alone.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.access import approvals
from bot.access.decision_context import Call, DecisionContext
from bot.access.principals import of_chat
from bot.gate.gate import Gate
from bot.gate.results import CallDecision
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.tools.base import CallFacts, Result
from bot.tools.message import Message
from policy.decision import Verdict
from policy.document.model import Document
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Role
from tests.bot.kit import CONFIDENTIAL, INTERNAL, NOW, TOP, Probe, document, gate, send
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM
from tests.people import principal

_RULE = "others_cannot_command"
_EVERYBODY = ("owner", "ann", "mel", "eve", "room:zoe", "gone")


def policy(**chat: object) -> Document:
    chats = {"team": {**CHATS["team"], **chat}}
    return document(principals=PEOPLE, channels=CHANNELS, chats=chats)


def here(asker: str = "ann", *authors: str, **changes: object) -> DecisionContext:
    """Return where the team's session stands in a turn of somebody's, with these people's words in its context."""
    facts: dict[str, object] = {
        "sid": "s1",
        "generation": 1,
        "turn": "t1",
        "principal": of_chat(TEAM),
        "asker": asker,
        "role": Role.MEMBER,
        "ceiling": CONFIDENTIAL,
        "home": TEAM,
        "destination": Destination(str(TEAM), "room", CONFIDENTIAL, shared=True),
        "taint": PUBLIC,
        "now": NOW,
        "authors": frozenset({asker, *authors}),
        **changes,
    }
    return DecisionContext(**facts)  # pyright: ignore[reportArgumentType] - as above


def reading(label: Label) -> Gate:
    return gate([Probe("read", CallFacts(result=label))], policy())


def read(**arguments: str) -> Call:
    return Call("c1", "read", dict(arguments))


def asks(prepared: CallDecision) -> bool:
    return _RULE in prepared.decision.rules


_authors = st.frozensets(st.sampled_from(_EVERYBODY))
_labels = st.sampled_from(("PUBLIC", "PUBLIC~", "INTERNAL", "INTERNAL~", "CONFIDENTIAL")).map(parse)


def cleared(author: str) -> Label:
    person = policy().principals.get(author)
    return PUBLIC if person is None else person.clearance


@given(_authors, st.sampled_from(("ann", "mel")), st.booleans(), _labels)
def test_others_cannot_command(authors: frozenset[str], asker: str, consequential: bool, label: Label) -> None:  # noqa: FBT001 - generated
    """A call asks exactly if somebody else's words are there who could not have had it made to the same effect."""
    tool = Probe("read", CallFacts(result=label, consequential=consequential))
    prepared = gate([tool], policy()).calls.prepare(here(asker, *authors), read())
    others = authors - {asker}
    may = not others or (not consequential and all(label.flows_to(cleared(other)) for other in others))
    assert asks(prepared) == (not may)
    if not others:
        alone = gate([tool], policy()).calls.prepare(here(asker, authors=frozenset[str]()), read())
        assert alone.decision == prepared.decision


@given(_authors, _labels)
def test_a_chat_may_trust_all_its_members(authors: frozenset[str], label: Label) -> None:
    tool = Probe("read", CallFacts(result=label, consequential=True))
    trusting = gate([tool], policy(unsafe_trust_all_members=True))
    assert not asks(trusting.calls.prepare(here("ann", *authors), read()))
    # In threads and in background sessions of it, too.
    child = replace(here("ann", *authors), home=replace(TEAM, channel="session"))
    assert not asks(trusting.calls.prepare(child, read()))
    assert asks(gate([tool], policy()).calls.prepare(child, read())) == bool(authors - {"ann"})


@given(_authors)
def test_simulate_equals_enforce_under_the_words_of_others(authors: frozenset[str]) -> None:
    one = gate([Message()], policy())
    standing = here("ann", *authors)
    assert asks(one.calls.prepare(standing, send("hi"))) == bool(authors - {"ann"})


@pytest.mark.anyio
async def test_simulate_tells_who_may_not_command() -> None:
    report = await gate([Message()], policy(inbound="PUBLIC")).calls.simulate(here("ann", "mel"), "message", _SENT, TOP)
    assert report["verdict"] == "REQUIRE_APPROVAL"
    assert report["remedies"] == ["reset", "approver", "alone"]


_SENT = {"channel": "console", "recipient": "guest", "text": "hi"}


@pytest.mark.anyio
async def test_what_turns_out_to_be_above_an_author_is_not_read_and_not_given() -> None:
    found = Probe("read", result=Result("the pipeline", CONFIDENTIAL))
    one = gate([found], policy())
    for authors, told in ((("mel",), False), ((), True), (("owner",), True)):
        standing = here("ann", *authors)
        response = await one.results.respond(standing, one.calls.prepare(standing, read()), found.result)
        assert (response.text == "the pipeline") == told
        assert (response.label == CONFIDENTIAL) == told


@pytest.mark.anyio
async def test_what_the_asker_approved_may_be_read_though_its_label_turns_out_higher() -> None:
    found = Probe("read", CallFacts(result=INTERNAL, consequential=True), Result("the pipeline", CONFIDENTIAL))
    one, standing = gate([found], policy()), here("ann", "mel")
    approval = approved(one, standing, read(), by="ann")
    prepared = one.calls.prepare(standing, read(), (approval,))
    assert (prepared.decision.verdict, prepared.approved) == (Verdict.ALLOW, (_RULE,))
    assert (await one.results.respond(standing, prepared, found.result)).text == "the pipeline"


def approved(
    one: Gate, standing: DecisionContext, call: Call, *, by: str, others: tuple[str, ...] = ("mel",)
) -> Approval:
    prepared = one.calls.prepare(standing, call)
    return Approval(
        id="a",
        sid=standing.sid,
        generation=standing.generation,
        turn=standing.turn,
        call=call.id,
        tool=call.tool,
        binding=prepared.binding,
        label=standing.taint,
        principal=standing.asker,
        question=ApprovalQuestion(call.tool, {}, authors=others),
        rules=approvals.asking(prepared.decision),
        expires_at=NOW + 1,
        state=ApprovalState.APPROVED,
        resolved_by=by,
    )


@pytest.mark.parametrize(
    "by, counts", [("ann", True), ("owner", True), ("mel", False), ("boss", False), ("eve", False)]
)
def test_nobody_answers_for_what_their_own_words_may_have_asked(by: str, counts: bool) -> None:  # noqa: FBT001 - parametrized
    boss = principal("room:boss", role="approver", clearance="CONFIDENTIAL")
    rules = document(principals={**PEOPLE, "boss": boss}, channels=CHANNELS, chats=CHATS)
    one = gate([Probe("read", CallFacts(consequential=True))], rules)
    standing = here("ann", "mel", "boss")
    given = approved(one, standing, read(), by=by, others=("boss", "mel"))
    assert approvals.may_answer(rules, given, by) is counts
    assert (one.calls.prepare(standing, read(), (given,)).decision.verdict is Verdict.ALLOW) is counts


def test_an_approval_counts_for_the_words_it_was_given_among() -> None:
    one = gate([Probe("read", CallFacts(consequential=True))], policy())
    given = approved(one, here("ann", "mel"), read(), by="ann")
    assert one.calls.prepare(here("ann", "mel"), read(), (given,)).decision.verdict is Verdict.ALLOW
    assert one.calls.prepare(here("ann", "mel", "eve"), read(), (given,)).decision.verdict is Verdict.REQUIRE_APPROVAL


_CLOCK = Call("c1", "current_time", {})


def clock_for(*roles: str) -> Gate:
    tools = {"current_time": {"roles": list(roles)}} if roles else {}
    rules = document(principals=PEOPLE, channels=CHANNELS, chats=CHATS, tools=tools)
    return gate([Probe("current_time", effect=Effect.NONE)], rules)


@pytest.mark.parametrize("roles", [(), ("admin",), ("member", "admin")])
def test_a_tool_is_offered_to_the_roles_it_is_for(roles: tuple[str, ...]) -> None:
    one = clock_for(*roles)
    assert [tool.name for tool in one.requests.offered(here("ann"))] == ["current_time"]
    assert one.calls.prepare(here("ann"), _CLOCK).decision.verdict is Verdict.ALLOW


@pytest.mark.parametrize("asker", ["mel", "gone"])
def test_a_tool_for_other_roles_is_not_offered_and_blocks(asker: str) -> None:
    one = clock_for("admin", "owner")
    assert one.requests.offered(here(asker)) == ()
    assert one.calls.prepare(here(asker), _CLOCK).decision.verdict is Verdict.BLOCK


def test_a_tool_for_other_roles_is_none_in_private_either() -> None:
    alone = here("owner", principal="owner", role=Role.OWNER, home=replace(TEAM, chat="owner"))
    assert clock_for("owner").requests.offered(alone) != ()
    assert clock_for("admin").requests.offered(alone) == ()
    assert clock_for("admin").calls.prepare(alone, _CLOCK).decision.rules == ("tool_is_for_the_role",)


def test_the_words_of_whoever_may_not_use_a_tool_do_not_use_it() -> None:
    """A tool without consequences, of what all may know, that is not for members: what Mel wrote does not call it."""
    one = clock_for("admin", "owner")
    assert one.calls.prepare(here("ann", "owner"), _CLOCK).decision.verdict is Verdict.ALLOW
    assert asks(one.calls.prepare(here("ann", "mel"), _CLOCK))
