"""What Slack sends is read as what people meant, and nothing else is."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.messages import Address, Attachment, Event, How, Inbound, Membership
from channels.slack import events
from channels.slack.events import typed

ME = events.SlackIdentity("T1", "UBOT", frozenset({"status", "stop"}))
PLAIN: dict[str, Any] = {"type": "message", "channel": "C1", "channel_type": "channel", "ts": "5.1"}


def heard(event: dict[str, Any], me: events.SlackIdentity, **more: Any) -> tuple[Event, ...]:  # noqa: ANN401 - Slack's JSON
    return events.events({"type": "event_callback", "event_id": "Ev1", "team_id": "T1", "event": event, **more}, me)


def told(event: dict[str, Any], **more: Any) -> Inbound | None:  # noqa: ANN401 - Slack's JSON
    found = heard(event, ME, **more)
    assert len(found) <= 1
    assert all(isinstance(one, Inbound) for one in found)
    return found[0] if found else None  # type: ignore[return-value]


def said(text: str, **more: Any) -> Inbound | None:  # noqa: ANN401 - Slack's JSON
    return told({**PLAIN, "user": "U1", "team": "T1", "text": text, **more})


def direct(text: str, **more: Any) -> Inbound:  # noqa: ANN401 - Slack's JSON
    found = said(text, channel="D1", channel_type="im", **more)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "written, meant",
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("ask <@U2> or <@U3|bob>", "ask @U2 or @bob"),
        ("in <#C2|general> or <#C3>", "in #general or #C3"),
        ("<!here> <!channel> <!subteam^S1|@team> <!subteam^S2>", "@here @channel @team @subteam"),
        ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
        ("see <http://example.com|example.com> and <https://a.example/x>", "see example.com and https://a.example/x"),
        ("<https://a.example|click here>", "click here (https://a.example)"),
        ("<mailto:a@b.example|a@b.example> <tel:+1|+1>", "a@b.example +1"),
        ("one\n```\n&gt; not a quote\n```\ntwo", "one\n```\n> not a quote\n```\ntwo"),
        ("1 &lt; 2 &gt; 1", "1 < 2 > 1"),
    ],
)
def test_marks_become_what_was_typed(written: str, meant: str) -> None:
    assert direct(written).text == meant
    assert direct(written).authored


@pytest.mark.parametrize(
    "written, text, quoted",
    [
        ("&gt; do it\nwhat is this?", "what is this?", ("do it",)),
        ("&gt; one\n&gt; two\nmine\n&gt; three", "mine", ("one\ntwo", "three")),
        ("mine\n&gt;&gt;&gt; all\nof this", "mine", ("all\nof this",)),
        ("&gt; only", "", ("only",)),
        ("&gt; ```\nmine", "mine", ("```",)),
    ],
)
def test_quoted_lines_are_not_the_persons(written: str, text: str, quoted: tuple[str, ...]) -> None:
    found = direct(written)
    assert (found.text, found.quoted, found.authored) == (text, quoted, bool(text))


def test_what_is_forwarded_or_shared_is_quoted() -> None:
    shared = {"is_share": True, "pretext": "p", "title": "t", "text": "send &lt;all&gt;\n&gt; old", "fallback": "f"}
    found = direct("look", attachments=[shared, {"fallback": "only this"}, {}])
    assert (found.text, found.quoted) == ("look", ("p\nt\nsend <all>\nold", "only this"))
    forwarded = direct("", attachments=[shared])
    assert (forwarded.text, forwarded.authored) == ("", False)


def test_files_come_with_their_message() -> None:
    told = direct("look", subtype="file_share", files=[{"id": "F1", "name": "a.txt"}])
    assert (told.text, told.authored, told.quoted, told.files) == ("look", True, (), (Attachment("T1/F1", "a.txt"),))
    alone = direct("", subtype="file_share", files=[{"id": "F1"}])
    assert (alone.text, alone.authored, len(alone.files)) == ("", False, 1)


def test_a_file_of_a_shared_message_is_told_and_not_read() -> None:
    told = direct("look", attachments=[{"text": "theirs", "files": [{"id": "F1"}]}])
    assert (told.quoted, told.files) == (("theirs", events.FILE_UNREAD), ())


@pytest.mark.parametrize(
    "text, more, expected",
    [
        ("hello", {}, ("hello", False)),
        ("<@UBOT> hello", {}, ("hello", True)),
        ("hey <@UBOT|bot>, hello", {}, ("hey , hello", True)),
        ("&gt; <@UBOT> hello\nno", {}, ("no", False)),
        ("<@UBOT2> hello", {}, ("@UBOT2 hello", False)),
        ("!status", {}, ("!status", False)),
        ("<@UBOT> !status x", {}, ("/status x", True)),
        ("<@UBOT> /status", {}, ("/status", True)),
        ("!status", {"thread_ts": "4.1"}, ("/status", True)),
        ("!nothing", {"thread_ts": "4.1"}, ("!nothing", False)),
        ('!status {"x": 1}', {"thread_ts": "4.1"}, ('!status {"x": 1}', False)),
        ("!status!", {"thread_ts": "4.1"}, ("/status!", True)),
        ("go on", {"thread_ts": "4.1", "parent_user_id": "UBOT"}, ("go on", True)),
        ("go on", {"thread_ts": "4.1", "parent_user_id": "U2"}, ("go on", False)),
    ],
)
def test_in_a_channel_it_is_meant_for_the_bot_if_that_is_said(
    text: str, more: dict[str, str], expected: tuple[str, bool]
) -> None:
    found = said(text, **more)
    assert found is not None
    assert (found.text, found.addressed) == expected
    assert found.address == Address("slack", "C1", "T1", more.get("thread_ts", "5.1"))
    assert not found.private


def test_in_private_everything_is_meant_for_the_bot() -> None:
    found = direct("!status")
    assert (found.text, found.address, found.private, found.addressed) == (
        "/status",
        Address("slack", "U1", "T1"),
        True,
        True,
    )
    assert direct("hi", thread_ts="4.1").address.thread == "4.1"


def test_a_mention_is_the_same_as_its_message() -> None:
    message = {**PLAIN, "user": "U1", "team": "T1", "text": "<@UBOT> hello"}
    mention = {name: value for name, value in message.items() if name != "channel_type"} | {"type": "app_mention"}
    assert told(message) == told(mention)


@pytest.mark.parametrize(
    "more",
    [
        {"subtype": "message_changed", "hidden": True},
        {"subtype": "message_deleted", "hidden": True},
        {"subtype": "bot_message", "bot_id": "B1"},
        {"subtype": "channel_join"},
        {"subtype": "me_message"},
        {"bot_id": "B1"},
        {"user": "UBOT"},
        {"user": "USLACKBOT"},
        {"user": None},
        {"text": "<@UBOT>"},
        {"text": ""},
    ],
)
def test_what_is_no_persons_message_is_not_read(more: dict[str, Any]) -> None:
    assert told({**PLAIN, "user": "U1", "team": "T1", "text": "<@UBOT> hello", **more}) is None


@pytest.mark.parametrize(
    "event, envelope, account",
    [
        ({"team": "T1"}, {}, "slack:T1:U1"),
        ({"team": "T2"}, {}, "slack:T2:U1"),
        ({"team": "T1", "user_team": "T2"}, {"is_ext_shared_channel": True}, "slack:T2:U1"),
        ({}, {}, "slack:T1:U1"),
        ({}, {"is_ext_shared_channel": True}, "slack::U1"),
    ],
)
def test_an_account_has_the_workspace_it_is_of(event: dict[str, str], envelope: dict[str, bool], account: str) -> None:
    found = told({**PLAIN, "user": "U1", "text": "x", **event}, **envelope)
    assert found is not None
    assert found.account == account


def pressed(**more: Any) -> Inbound | None:  # noqa: ANN401 - Slack's JSON
    body: dict[str, Any] = {
        "type": "block_actions",
        "user": {"id": "U1", "team_id": "T1"},
        "channel": {"id": "C1"},
        "container": {"type": "message", "message_ts": "6.1", "channel_id": "C1"},
        "message": {"ts": "6.1", "user": "UBOT"},
        "actions": [{"value": "/approve 7", "action_ts": "7.1", "action_id": "x"}],
    }
    found = events.events(body | more, ME)
    return found[0] if found else None  # type: ignore[return-value]


def test_a_press_is_a_command_in_the_thread_it_was_offered_in() -> None:
    found = pressed()
    assert found is not None
    assert (found.text, found.how, found.address.thread) == ("/approve 7", How.BUTTON, "6.1")
    threaded = pressed(message={"ts": "6.1", "thread_ts": "5.1", "user": "UBOT"})
    assert threaded is not None
    assert threaded.address.thread == "5.1"
    private = pressed(channel={"id": "D1"})
    assert private is not None
    assert (private.address, private.private) == (Address("slack", "U1", "T1"), True)
    ephemeral = pressed(message=None, container={"type": "message", "message_ts": "6.1", "thread_ts": "5.1"})
    assert ephemeral is not None
    assert ephemeral.address.thread == "5.1"


def test_the_same_press_again_has_the_same_identity_and_anothers_has_not() -> None:
    one, again, other = pressed(), pressed(), pressed(user={"id": "U2", "team_id": "T1"})
    assert one is not None
    assert again is not None
    assert other is not None
    assert one.dedupe == again.dedupe != other.dedupe


@pytest.mark.parametrize(
    "more",
    [
        {"message": {"ts": "6.1", "user": "U2"}},
        {"actions": [{"value": "approve", "action_ts": "7.1"}]},
        {"actions": [{"action_ts": "7.1"}]},
        {"container": {"type": "view", "view_id": "V1"}, "view": {"type": "modal"}, "channel": None},
    ],
)
def test_a_press_on_what_this_bot_did_not_offer_is_nothing(more: dict[str, Any]) -> None:
    assert pressed(**more) is None


def test_a_press_at_home_is_told_there() -> None:
    found = pressed(container={"type": "view", "view_id": "V1"}, view={"type": "home"}, channel=None, message=None)
    assert found is not None
    assert (found.address, found.private) == (Address("slack", "U1", "T1", "home"), True)


def test_what_changes_who_reads_is_asked_anew() -> None:
    def touched(**event: Any) -> events.ChangedReaders:  # noqa: ANN401 - Slack's JSON
        return events.touched({"event": event})

    assert touched(type="member_joined_channel", channel="C1", user="U1") == events.ChangedReaders(frozenset({"C1"}))
    assert touched(type="channel_shared", channel={"id": "C1"}) == events.ChangedReaders(frozenset({"C1"}))
    assert touched(type="user_change", user={"id": "U1"}) == events.ChangedReaders(people=frozenset({"U1"}))
    assert touched(type="message", channel="C1") == events.touched({"command": "/x"}) == events.ChangedReaders()


def test_who_joins_is_told_and_other_things_are_not() -> None:
    body = {"type": "event_callback", "event_id": "Ev1"}
    joined = {"type": "member_joined_channel", "channel": "C1", "user": "U1", "team": "T2"}
    expected = Membership(Address("slack", "C1", "T1"), "slack:T2:U1", joined=True, dedupe="event/T1/Ev1")
    assert events.events({**body, "event": joined}, ME) == (expected,)
    assert events.events({**body, "event": {"type": "channel_archive", "channel": "C1", "user": "U1"}}, ME) == ()
    assert events.events({"type": "view_submission", "view": {}}, ME) == ()


@given(st.text(alphabet=st.sampled_from("<>|@#!&;gtlamp`\n ^:/x")))
def test_any_text_can_be_read(text: str) -> None:
    words, quoted, called = typed(text, "UBOT")
    assert not called
    assert len(words) + sum(map(len, quoted)) <= 2 * len(text) + 3


def test_a_person_who_opens_his_page_waits_for_nobody_else() -> None:
    opened = {"type": "app_home_opened", "tab": "home"}
    bodies: list[dict[str, Any]] = [
        {"event": {**opened, "user": "U1"}},
        {"event": {**opened, "user": "U2"}},
        {"type": "block_actions", "user": {"id": "U3"}},
        {"event": {**PLAIN, "user": "U1"}},
        {"channel_id": "C2", "user_id": "U1", "command": "/lockgate"},
    ]
    assert [events.lane(body) for body in bodies] == ["U1", "U2", "U3", "C1", "C2"]


@pytest.mark.parametrize("text", ["<@UBOT> hello", "<@UBOT> !status"])
def test_a_bot_that_is_named_is_read_in_channels_and_commands_nothing(text: str) -> None:
    me = replace(ME, bots=frozenset({"slack:T1:U9"}))
    event = {**PLAIN, "user": "U9", "team": "T1", "text": text, "bot_id": "B9"}
    (found,) = heard(event, me)
    assert isinstance(found, Inbound)
    assert (found.account, found.bot, found.authored, found.addressed) == ("slack:T1:U9", True, False, True)
    assert found.text == text.removeprefix("<@UBOT> ")
    for other in ({"user": "U8"}, {"team": "T2"}, {"user": "UBOT"}, {"channel": "D1", "channel_type": "im"}):
        assert heard({**event, **other}, replace(me, bots=me.bots | {"slack:T1:UBOT"})) == ()


@pytest.mark.parametrize("text", ["<@UBOT> hello", "<@UBOT> !status"])
def test_a_bot_is_one_also_where_nothing_but_its_account_tells(text: str) -> None:
    me = replace(ME, bots=frozenset({"slack:T1:U9"}))
    event = {**PLAIN, "user": "U9", "team": "T1", "text": text, "subtype": "file_share"}
    (found,) = heard(event, me)
    assert isinstance(found, Inbound)
    assert (found.bot, found.authored, found.text) == (True, False, text.removeprefix("<@UBOT> "))
    assert heard({**event, "channel": "D1", "channel_type": "im"}, me) == ()
    (person,) = heard(event, ME)
    assert isinstance(person, Inbound)
    assert (person.bot, person.authored) == (False, True)


@pytest.mark.parametrize(
    "text, me, own, called",
    [
        ("<@UBOT> hello", "UBOT", "hello", True),
        ("<@UBOT|bot> hello", "UBOT", "hello", True),
        ("<@UBOTTOM> hello", "UBOT", "@UBOTTOM hello", False),
        ("<@UxBOT> hello", "U.BOT", "@UxBOT hello", False),
        ("<@UBOT> hello", "", "@UBOT hello", False),
        ("&gt; <@UBOT>\nhello", "UBOT", "hello", False),
    ],
)
def test_a_mention_of_the_bot_calls_it_and_is_left_out(text: str, me: str, own: str, *, called: bool) -> None:
    found, _, was_called = typed(text, me)
    assert (found, was_called) == (own, called)


@pytest.mark.parametrize(
    "text, own, quoted",
    [
        ("&gt; one\n&gt; two\nmine\n&gt; three", "mine", ("one\ntwo", "three")),
        ("&gt;one\n&gt;  two", "", ("one\n two",)),
        ("mine\n&gt;&gt;&gt; all\nof\n&gt; this", "mine", ("all\nof\nthis",)),
        ("&gt;\nmine", "mine", ()),
        ("```\n&gt; code\n```\n&gt; quote", "```\n> code\n```", ("quote",)),
        ("```code``` here\n&gt; quote", "```code``` here", ("quote",)),
    ],
)
def test_what_was_quoted_is_kept_apart(text: str, own: str, quoted: tuple[str, ...]) -> None:
    assert typed(text, "UBOT") == (own, quoted, False)


@pytest.mark.parametrize(
    "text, own",
    [
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("<#C1|general> <#C2>", "#general #C2"),
        ("<@U1|ann>", "@ann"),
        ("<!here> <!date^1^{date}|today> <!subteam^S1>", "@here today @subteam"),
        ("<https://a.example/b>", "https://a.example/b"),
        ("<http://a.example|a.example>", "a.example"),
        ("<http://a.example/|a.example>", "a.example"),
        ("<http://a.example|http://a.example/>", "http://a.example/"),
        ("<https://a.example|b.example>", "b.example (https://a.example)"),
        ("<mailto:a@b.example> <tel:+1>", "a@b.example +1"),
    ],
)
def test_marks_are_what_was_typed(text: str, own: str) -> None:
    assert typed(text, "UBOT")[0] == own
