"""How the command line prints."""

from bot.cli.output import table


def test_a_table_has_aligned_columns_and_nothing_a_terminal_obeys() -> None:
    assert table([("a", "b"), ("long", "\x1b[2J"), ("x\ny", "")]) == ["a     b", "long  \\x1b[2J", "x y"]
