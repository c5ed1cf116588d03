"""Changes of a configuration's text: only what is changed differs, and what cannot be proven is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.cli.init.editing import SettingChange, changed, edited, written
from bot.cli.init.file import template
from bot.config.file.yaml import parse_yaml
from bot.core.errors import ConfigError

TOKEN: JsonValue = {"token": "T"}


@pytest.mark.parametrize(
    "text, change, made",
    [
        ("a: 1 # why\nb: 2\n", SettingChange(("a",), "two"), "a: two # why\nb: 2\n"),
        ("a: 1\r\n", SettingChange(("b",), 2.5), "a: 1\r\nb: 2.5\r\n"),
        ("a: 1", SettingChange(("b", "c"), TOKEN), "a: 1\nb:\n  c: {token: T}\n"),
        ("", SettingChange(("a",), None), "a: null\n"),
        ("# only a comment\n", SettingChange(("a",), "b"), "# only a comment\na: b\n"),
        ("a:\n  # about b\n  b: 1\n", SettingChange(("a", "c"), "2"), 'a:\n  c: "2"\n  # about b\n  b: 1\n'),
        ("a: {} # none\n", SettingChange(("a", "x:y"), TOKEN), "a: # none\n  x:y: {token: T}\n"),
        ("a: {b: 1,}\n", SettingChange(("a", "c"), "d"), "a: {b: 1, c: d,}\n"),
        ("a: {b: {}}\n", SettingChange(("a", "b", "c"), "d"), "a: {b: {c: d}}\n"),
        ("a:\nb: 1\n", SettingChange(("a",), "c"), "a: c\nb: 1\n"),
        ("a:\n  b: null\n", SettingChange(("a", "b"), TOKEN), "a:\n  b: {token: T}\n"),
        ('a: ["x"] # y\n', SettingChange(("a",), "t:1", adds=True), 'a: ["x", "t:1"] # y\n'),
        ("a: []\n", SettingChange(("a",), "t:1", adds=True), 'a: ["t:1"]\n'),
        ("a:\n  - x\n  - y\n", SettingChange(("a",), "z", adds=True), "a:\n  - x\n  - y\n  - z\n"),
        ("a:\n- x\n", SettingChange(("a",), "x", adds=True), "a:\n- x\n"),
        ("a: &one\n  b: 1\n", SettingChange(("a", "c"), "d"), "a: &one\n  c: d\n  b: 1\n"),
        ("a: [1, 2]\n", SettingChange(("a",), []), "a: []\n"),
        ("a: 1\n", SettingChange(("a",), 1), "a: 1\n"),
    ],
)
def test_only_the_changed_value_differs(text: str, change: SettingChange, made: str) -> None:
    wanted = changed(parse_yaml(text).value, change)
    assert edited(text, [change]) == made
    assert parse_yaml(made).value == wanted


@pytest.mark.parametrize(
    "text, change",
    [
        ("a:\n  - 1\n  - 2\n# about b\nb: 1\n", SettingChange(("a",), [])),
        ("a: >-\n  b\n# about c\nc: 1\n", SettingChange(("a",), "d")),
        ("a:\n  - 1\n# the end\n", SettingChange(("a",), [])),
        ("a: |\n  1\n# the end\n", SettingChange(("a",), "2")),
        ("a: |\n  b\nc: 1\n", SettingChange(("a", "b"), "c")),
        ("? a\n: 1\n", SettingChange(("a", "b"), "c")),
        ("a: 1\n...\n", SettingChange(("b",), "c")),
    ],
)
def test_an_unusual_way_of_writing_is_left_alone(text: str, change: SettingChange) -> None:
    with pytest.raises(ConfigError, match="cannot be changed without touching other lines") as refused:
        edited(text, [change])
    assert "by hand" in refused.value.next_step


@given(st.text(max_size=40), st.text(max_size=20).filter(bool))
def test_every_text_is_written_as_itself_or_refused(value: str, name: str) -> None:
    change = SettingChange(("tools", name), value)
    try:
        made = edited("tools: {}\n", [change])
    except ConfigError:
        # What YAML does not allow in a file at all.
        assert not value.isprintable() or not name.isprintable()
        return
    assert parse_yaml(made).value == {"tools": {name: value}}


def test_the_shipped_file_keeps_every_line_that_is_not_changed() -> None:
    before = template()
    after = edited(
        before,
        [
            SettingChange(("model", "name"), "openai:gpt-5"),
            SettingChange(("channels", "telegram"), TOKEN),
            SettingChange(("policy", "models", "openai:gpt-5"), {"clearance": "PUBLIC"}),
        ],
    )
    gone = [line for line in before.splitlines() if line not in after.splitlines()]
    assert gone == ["  name: offline", "  telegram: null"]
    assert [line for line in after.splitlines() if line.lstrip().startswith("#")] == [
        line for line in before.splitlines() if line.lstrip().startswith("#")
    ]


def test_numbers_and_texts_are_told_apart() -> None:
    assert [written(one) for one in ("12", 12, "no", "a b", 'a"b', 1.5)] == [
        '"12"',
        "12",
        '"no"',
        '"a b"',
        '"a\\"b"',
        "1.5",
    ]
