"""What a person typed, out of the text that Slack makes of it: each rule by itself."""

import pytest

from channels.slack.typed import typed


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
