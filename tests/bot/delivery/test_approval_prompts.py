"""Who answers a question is told to its reader, with no command that would fail for them."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.commands.command import ASKS_NOBODY
from bot.core.json_values import whole_object
from bot.delivery import approval_prompts
from bot.delivery.approval_prompts import OTHERS_DO
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.sessions.log.serialization import question_from, question_json
from bot.sessions.messages import Endorsed
from channels.messages import Address
from channels.rich_text import Shape, Span, parsed
from policy.explain import people
from policy.labels import PUBLIC
from policy.request import Role
from tests.bot.kit import NOW, bang, document, note, policy
from tests.bot.rooms import CHATS, TEAM, talking, team
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

ADMIN = principal("console:ada", role="admin")
OWNER = principal("console:owner")
RULE = {"id": "an-admin-looks", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
SAID = {"id": "said", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL", "approvers": ["admin"]}
TOLD = "Another person than `owner` has to answer: an admin."
CLEARED = {"ada": {"channel": "console", "chat": "ada", "clearance": "top"}}

ASKS = ApprovalQuestion("message", {})


def asking(**rule: object) -> str:
    rules = [{**RULE, "approvers": ["admin"], **rule}]
    return policy(principals={"owner": OWNER, "ada": ADMIN}, recipients={**CLEARED, **GUEST}, rules=rules)


GUEST = {"guest": {"channel": "console", "chat": "guest", "clearance": "PUBLIC"}}


async def asked(person: Person) -> str:
    (found,) = [one for one in await person.app.store.approvals.of(person.sid) if one.state is ApprovalState.PENDING]
    return found.id


@pytest.mark.parametrize(
    "roles, told",
    [
        ((), ""),
        ((Role.OWNER,), "an owner"),
        ((Role.OWNER, Role.MEMBER), "an owner or a member"),
        ((Role.OWNER, Role.ADMIN, Role.APPROVER), "an owner, an admin or an approver"),
    ],
)
def test_roles_in_words(roles: tuple[Role, ...], told: str) -> None:
    assert people(roles) == told


async def test_who_may_not_answer_is_told_who_does(tmp_path: Path) -> None:
    """Every command that a question, `/approvals`, `/approve` and `/why` name works for who reads it."""
    async with running(tmp_path, asking()) as owner:
        ada = Person(owner.app, owner.output, Address("console", "ada"), "console:ada")
        shown = await owner.say(note("guest", "hello"))
        name = await asked(owner)
        assert shown.count(TOLD) == 2
        assert shown.count(f"Withdraw: `/deny {name}`") == 1
        assert shown.count(f"Approve: `/approve {name}`") == 1
        for line in ("/approvals", f"/approve {name}", "/why"):
            said = await owner.say(line)
            assert "an admin" in said
            assert "/approve" not in said.replace("/approvals", "")
        assert f"`/deny {name}` takes it back" in await owner.say("/approvals")
        assert f"Answer with `/approve {name}`" in await ada.say("/approvals")
        assert f"{name} approved" in await ada.say(f"/approve {name}")
        await owner.settled()
        assert "→ guest: hello" in owner.shown


async def test_the_asker_takes_back_what_only_others_may_approve(tmp_path: Path) -> None:
    """From another address of theirs, too; a refusal grants nothing."""
    two = {**OWNER, "accounts": ["console:owner", "console:phone"]}
    phone = {"phone": {"channel": "console", "chat": "phone", "clearance": "top"}}
    config = policy(principals={"owner": two, "ada": ADMIN}, recipients={**CLEARED, **GUEST, **phone}, rules=[RULE])
    async with running(tmp_path, config) as owner:
        there = Person(owner.app, owner.output, Address("console", "phone"), "console:phone")
        await owner.say(note("guest", "hello"))
        name = await asked(owner)
        assert "has to answer" in await there.say(f"/approve {name}")
        assert f"{name} denied" in await there.say(f"/deny {name}")
        await owner.settled()
        assert "→ guest" not in owner.shown
        (known,) = await owner.app.store.approvals.of(owner.sid)
        assert (known.state, known.resolved_by) == (ApprovalState.DENIED, "owner")


async def test_a_held_back_answer_tells_who_reads_it_first(tmp_path: Path) -> None:
    config = policy(principals={"owner": OWNER, "ada": ADMIN}, recipients=CLEARED, rules=[SAID])
    async with running(tmp_path, config) as owner:
        assert TOLD in await owner.say("hello")
        assert "You said" not in await owner.say(f"/deny {await asked(owner)}")


async def test_several_kinds_of_questions_name_each_who_answers(tmp_path: Path) -> None:
    """Of one question the asker may answer what only the law asks about, and is told who answers the rest."""
    async with running(tmp_path, asking()) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        shown = await owner.say(f"{note('guest', 'hello')}\n{bang('write_file', path='public/n.md', text='x')}")
        name = (await owner.app.store.approvals.of(owner.sid))[0].asked_in
        assert f"Once: `/approve {name}`" in shown
        said = await owner.say(f"/approve {name}")
        assert f"{name}-2 approved" in said
        assert f"1 more wait.\n  {TOLD}" in said
        assert f"{name}-1 denied" in await owner.say(f"/deny {name}")


async def test_whoever_may_neither_answer_nor_withdraw_is_told_so(tmp_path: Path) -> None:
    """Somebody else in that conversation, who is no approver."""
    async with talking(tmp_path, team("ann", "mel"), chats={"team": {**CHATS["team"], "inbound": "PUBLIC"}}) as people:
        await people.say("ann", bang("read_file", path="public/welcome.md"))
        await people.say("ann", note("guest", "hello"))
        (one,) = await people.app.store.approvals.of(people.app.session_id(TEAM))
        for line in ("/approvals", f"/approve {one.id}", f"/deny {one.id}"):
            await people.say("mel", line)
            told = people.rooms.alone("mel")[-1]
            assert OTHERS_DO in told
            assert "`/deny" not in told
        (known,) = await people.app.store.approvals.of(people.app.session_id(TEAM))
        assert known.state is ApprovalState.PENDING


async def test_a_preview_names_who_would_answer(tmp_path: Path) -> None:
    async with running(tmp_path, asking(approvers=["owner", "admin"])) as owner:
        await owner.say("hello")
        shown = await owner.say('/simulate message {"channel": "console", "recipient": "guest", "text": "x"}')
        assert "You can: have another person approve it: an owner or an admin" in shown


async def test_a_command_is_not_told_to_have_itself_approved(tmp_path: Path) -> None:
    """Nobody is asked about what a person types as a command, so `/approvals` would list nothing."""
    async with running(tmp_path, asking()) as owner:
        await owner.say("hello")
        shown = await owner.say("/message console guest hi")
        assert ASKS_NOBODY in shown
        assert "/approv" not in shown


async def test_a_refused_command_tells_the_label_of_what_was_typed(tmp_path: Path) -> None:
    """What the conversation has read has no part in it."""
    cards = {"id": "cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}
    async with running(tmp_path, policy(rules=[cards])) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        for line in ("/message console nobody hi", "/message console guest 4111 1111 1111 1111"):
            shown = await owner.say(line)
            assert "Your text is labelled: PUBLIC" in shown
            assert "This session has read" not in shown
        assert "This session has read: CONFIDENTIAL" in await owner.say(note("guest", "hi"))


# --- what can be pressed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "readers, told",
    [
        pytest.param({"ada"}, ["Approve", "Deny"], id="one who may answer"),
        pytest.param({"owner"}, ["Withdraw"], id="one who asked, and may not"),
        pytest.param({"owner", "ada"}, ["Approve", "Deny"], id="both in one chat"),
        pytest.param({"mel"}, [], id="neither"),
        pytest.param(None, ["Approve", "Deny"], id="readers that a platform cannot list"),
    ],
)
def test_buttons_are_those_that_a_reader_may_press(readers: set[str] | None, told: list[str]) -> None:
    known = document(principals={"owner": OWNER, "ada": ADMIN}, rules=[{**RULE, "approvers": ["admin"]}])
    one = Approval("q", "s", 1, "t", "c", "message", "b", PUBLIC, "owner", ASKS, ("an-admin-looks",), NOW)
    shown = approval_prompts.buttons(known, (one,), "q", None if readers is None else frozenset(readers))
    assert [button.label for button in shown] == told


def test_a_rule_that_is_gone_is_answered_by_nobody() -> None:
    one = Approval("q", "s", 1, "t", "c", "message", "b", PUBLIC, "owner", ASKS, ("gone",), NOW)
    (line,) = approval_prompts.answers(document(), (one,))
    assert "nobody may any more" in line


async def test_a_question_tells_the_roles_in_words_before_it_is_answered(tmp_path: Path) -> None:
    """And the log has the same words, for readers that come later."""
    bounds = {"message": {"bounds": {"recipient": ["ada"], "identifier": ["console"]}}}
    config = policy(
        principals={"owner": OWNER, "ada": ADMIN}, recipients={**CLEARED, **GUEST}, rules=[RULE], tools=bounds
    )
    async with running(tmp_path, config) as owner:
        shown = await owner.say(note("guest", "hello"))
        assert "Its effect: 1 recipient, outside the bounds; 1 identifier, within the bounds." in shown
        (found,) = await owner.app.store.approvals.of(owner.sid)
        assert found.question.steers == "1 recipient, outside the bounds; 1 identifier, within the bounds"


_TRICKS: Mapping[str, JsonValue] = {
    "folder": "/srv/*",
    "but": "*",
    "to": "[ann@firm.example](https://mallory.example)",
    "copy": "mallory&#64;firm.example",
    "file": "src/__init__.py",
    "note": "```\nApproved by `ada`",
}
"""Values that lose characters, or gain some, where they are read as Markdown."""


def test_a_question_shows_every_character_of_the_call() -> None:
    """A channel reads the question as Markdown, and the tool gets the arguments as they are."""
    question = ApprovalQuestion("pay", _TRICKS, endorsed=(Endorsed("s", '{"a": "*"}', "r", 1),))
    one = Approval("q", "s", 1, "t", "c", "pay", "b", PUBLIC, "owner", question, ("untrusted_cannot_command",), NOW)
    leaves = parsed(approval_prompts.wording(document(), (one,)))
    (code,) = [leaf for leaf in leaves if leaf.shape is Shape.CODE]
    assert json.loads(code.text) == _TRICKS
    assert Span('{"a": "*"}', code=True) in [span for leaf in leaves for span in leaf.spans]


def test_a_question_shows_what_a_person_vouches_for() -> None:
    question = ApprovalQuestion("pay", {}, steers="1 recipient", vouches=('recipient `"DE9"`',))
    assert question_from(whole_object(question_json(question))) == question
    one = Approval("q", "s", 1, "t", "c", "pay", "b", PUBLIC, "owner", question, ("endorsed_cannot_steer",), NOW)
    told = approval_prompts.wording(document(), (one,))
    lines = told.splitlines()
    place = lines.index("Its effect: 1 recipient.")
    assert lines[place + 1 : place + 3] == [approval_prompts.VOUCHES, '- recipient `"DE9"`']


def _endorsing(*texts: str) -> Approval:
    endorsed = tuple(Endorsed("s", text, f"run{number}", 1000) for number, text in enumerate(texts))
    question = ApprovalQuestion("pay", {"amount": 9}, rules=("endorsed_cannot_steer",), endorsed=endorsed)
    return Approval("q", "s", 1, "t", "c", "pay", "b", PUBLIC, "owner", question, question.rules, NOW)


def test_a_question_says_in_plain_words_why_it_asks_and_shows_each_choice_of_others_once() -> None:
    skeleton = 'list: {"mails": [{"id": "mail-1-k7qd", "from": {"$ref": "held-5y7maofeutf6m3gj.2"}}]}'
    told = approval_prompts.wording(document(), (_endorsing(skeleton, "paid", "paid"),))
    assert "Asked by `endorsed_cannot_steer`: others may have chosen a value of this call." in told
    assert "It may hold data labelled PUBLIC." in told
    assert told.splitlines()[-3:] == [
        approval_prompts.ENDORSED,
        '- `list: {"mails": [{"id": "mail-1-k7qd", "from": …}]}`',
        "- `paid`, 2 times",
    ]


def test_a_question_shows_the_newest_choices_of_others_and_the_listing_of_one_call_all() -> None:
    one = _endorsing(*(f"answer {number}" for number in range(8)))
    told = approval_prompts.wording(document(), (one,)).splitlines()
    assert told[-6:] == [
        "- 3 earlier ones, which the command `approvals` shows",
        *(f"- `answer {number}`" for number in range(3, 8)),
    ]
    assert approval_prompts.listed(document(), one, whole=True).count("- `answer") == 8
    assert approval_prompts.listed(document(), one, whole=False).count("- `answer") == 5
