"""Definitions of workflows: what is read of them, and each mistake with its line."""

from pathlib import Path

import pytest

from bot.config.load import load_config
from bot.config.workflows import load_definitions, read_definition
from bot.core.errors import ConfigError
from bot.sessions.workflows.definitions import CONTEXT_FILES, StepDefinition
from bot.tools.catalogue import NAMES

HEAD = "name: harbour\nsteps:\n"
STEP = '  "1":\n    name: Survey\n'


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_definition(text, "x.yaml", ("checker",))
    return str(caught.value).splitlines()


def test_the_shipped_ones_are_there() -> None:
    found = load_definitions(None, ())
    assert set(found) == {"note-review", "seven-step"}
    seven = found["seven-step"]
    assert [(step.id, step.name) for step in seven.steps] == [
        ("1", "Requirements"),
        ("2", "Architecture"),
        ("3", "Design"),
        ("3_5", "Governance"),
        ("4", "Plan"),
        ("5", "Code"),
        ("6", "Deploy"),
        ("7", "As-built"),
    ]
    assert seven.steps[1].sub_steps[:2] == ("phase_1_prerequisites", "phase_2_waf")
    assert {step.context_files for step in seven.steps} == set(CONTEXT_FILES)
    assert any(step.gate for step in seven.steps)
    assert all(step.sub_steps for step in seven.steps)


def test_a_definition_says_all_that_a_step_can_have() -> None:
    made = read_definition(
        HEAD
        + '  "3_5":\n    name: Survey\n    sub_steps: [a, b]\n    context_files: 1\n    artifacts: ["a/{project}.md"]\n'
        + "    gate: true\n    reviewer: checker\n    optional: true\n"
        + "  4: {name: Build}\n",
        "x.yaml",
        ("checker",),
    )
    assert made.steps == (
        StepDefinition(
            "3_5", "Survey", ("a", "b"), 1, ("a/{project}.md",), gate=True, reviewer="checker", optional=True
        ),
        StepDefinition("4", "Build"),
    )
    assert made.title == "harbour"
    assert len(made.digest) == 16
    assert read_definition(HEAD + STEP, "x.yaml", None).digest != made.digest


@pytest.mark.parametrize(
    "text, told",
    [
        ("", ["x.yaml:1: `the file` must be a block of fields", "x.yaml:1: `name` is missing, add it"]),
        ("a: [", ["x.yaml:1: not valid YAML"]),
        (
            "name: Harbour!\n" + HEAD[14:] + STEP,
            ["x.yaml:1: a workflow's name has lower-case letters, digits, `-` and `_`"],
        ),
        ("name: harbour\nstepps: {}\n", ["x.yaml:2: unknown field `stepps`, did you mean `steps`?"]),
        (HEAD + STEP + "    gates: true\n", ["x.yaml:5: unknown field `gates`, did you mean `gate`?"]),
        (HEAD + STEP + "    gate: 1\n", ["x.yaml:5: `gate` must be true or false"]),
        (HEAD + STEP + "    context_files: 4\n", ["x.yaml:5: `context_files` must be 1 to 3"]),
        (HEAD + STEP + "    context_files: true\n", ["x.yaml:5: `context_files` must be 1 to 3"]),
        (HEAD + STEP + "    sub_steps: a\n", ["x.yaml:5: `sub_steps` must be a list"]),
        (HEAD + STEP + "    sub_steps:\n      - a\n      - a\n", ["x.yaml:7: `a` is given twice"]),
        (
            HEAD + STEP + "    sub_steps:\n      - A b\n",
            ["x.yaml:6: a sub-step's name has lower-case letters, digits, `-` and `_`"],
        ),
        (
            HEAD + STEP + "    artifacts:\n      - /etc/passwd\n",
            ["x.yaml:6: an artifact's path is relative, without `..`"],
        ),
        (HEAD + STEP + "    artifacts:\n      - a/../b\n", ["x.yaml:6: an artifact's path is relative, without `..`"]),
        (HEAD + STEP + '    artifacts: ["{name}.md"]\n', ["x.yaml:5: `{name}` stands for nothing, use `{project}`"]),
        (HEAD + STEP + "    artifacts: [3]\n", ["x.yaml:5: an artifact is a path of at most 200 characters"]),
        (HEAD + STEP + "    reviewer: checkr\n", ["x.yaml:5: there is no agent `checkr`, did you mean `checker`?"]),
        (HEAD + STEP + "    reviewer: bob\n", ["x.yaml:5: there is no agent `bob`"]),
        (HEAD + '  "1": {}\n', ["x.yaml:3: `name` is missing, add it"]),
        (HEAD + '  "1": [a]\n', ["x.yaml:3: `1` must be a block of fields", "x.yaml:3: `name` is missing, add it"]),
        (HEAD + '  "1": {name: 3}\n', ["x.yaml:3: `name` must be a text of one line, of at most 200 characters"]),
        (HEAD + '  "a-b": {name: A}\n', ["x.yaml:3: a step's id has 1 to 16 letters, digits and `_`, as in `3_5`"]),
        ("name: harbour\nsteps: {}\n", ['x.yaml:2: `steps` must be a block of steps by their ids, such as `"1":`']),
        (HEAD + STEP + STEP, ["x.yaml:5: `1` is given twice, first on line 3"]),
        (HEAD + "".join(f"  s{n}: {{name: A}}\n" for n in range(51)), ["x.yaml:2: a workflow has at most 50 steps"]),
        (
            HEAD + STEP + f"    sub_steps: {[f's{n}' for n in range(51)]}\n",
            ["x.yaml:5: a step has at most 50 sub-steps"],
        ),
    ],
)
def test_each_mistake_has_its_line(text: str, told: list[str]) -> None:
    found = refused(text)
    assert len(found) >= len(told)
    assert all(any(line.startswith(said) for line in found) for said in told), found


def test_definitions_of_ones_own_are_beside_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.yaml").write_text(HEAD + STEP)
    (tmp_path / "own" / "b.yml").write_text(HEAD.replace("harbour", "note-review") + STEP)
    (tmp_path / "own" / "c.txt").write_text("no definition")
    (tmp_path / "config.yaml").write_text("workflows: {definitions: own}\n")
    found = load_config(tmp_path / "config.yaml", {}, NAMES).workflows
    assert set(found) == {"harbour", "note-review", "seven-step"}
    assert [step.name for step in found["note-review"].steps] == ["Survey"]


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + STEP)
    (tmp_path / "b.yaml").write_text(HEAD + STEP)
    (tmp_path / "c.yaml").write_text("name: x\n")
    (tmp_path / "d.yaml").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "e.yaml").write_text("#" * 100_001)
    (tmp_path / "f.yaml").mkdir()
    with pytest.raises(ConfigError) as caught:
        load_definitions(tmp_path, ())
    told = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    assert told == [
        "b.yaml: the workflow `harbour` stands in a.yaml too, name one of them anew",
        'c.yaml:1: `steps` must be a block of steps by their ids, such as `"1":`',
        "d.yaml: not UTF-8, save the file as UTF-8",
        "e.yaml: larger than 100 kB, that is no definition",
        "f.yaml: cannot be read, is a directory",
    ]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("workflows: {definitions: gone}\n")
    with pytest.raises(ConfigError, match="gone: there is no such folder"):
        load_config(tmp_path / "config.yaml", {}, NAMES)
