"""Markdown written to make a reader slow, and to make a platform obey."""

from typing import Final

REPEATED: Final = (
    *("[", "[a](", "![[]()", "![", "[]", "[x][", "]", "[a](<b", '[a](b "', "[a]: b\n", "[a\n"),
    *("*a **a ", "_a__", "**a*", "~~a~", "*", "\\", "&amp;", "&", "@", "`", "``a`", "<a ", "<", "<http://"),
    *(">", "> - ", "> a\nb\n", "- a\n", "1. ", "\t- ", "# ", "#\n", "```\n~~~\n", "```\n", "a\n", "a\n\n", "---\n"),
    *("|", "|a|b|\n|-|-|\n", "http://a", "https://a.b/c ", "www.", "a.b", "a@b ", "\n", " ", "\u202e", "\ud800", "😀"),
    *("[a](http://b.c) ", "[http://a.b](http://b.c) ", "<!channel>", "<@U123>", "@here ", "\u2060", "x"),
)
"""Each is dangerous when repeated."""


def nested_lists(levels: int) -> str:
    return "\n".join("  " * level + "- a" for level in range(levels))


def ticks(runs: int) -> str:
    return " ".join("`" * length for length in range(1, runs))
