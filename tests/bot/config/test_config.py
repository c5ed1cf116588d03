"""config.yaml: every kind of mistake is one sentence with file and line, and nothing is guessed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.file.yaml import BrokenYamlError, parse_yaml
from bot.config.load import load_config
from bot.config.model import Config, Settings
from bot.core.errors import ConfigError
from bot.tools.catalogue import NAMES
from policy.document.model import defaults

SHIPPED = Path(__file__).parents[3] / "config.yaml"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(text: str | bytes, folder: Path) -> Config:
    path = folder / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, {}, NAMES)


def refused(text: str | bytes, folder: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, folder)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_the_shipped_file_says_what_the_defaults_say(here: Path) -> None:
    shipped = load_config(SHIPPED, {}, NAMES)
    nothing = load_config(None, {}, NAMES)
    assert (shipped.store, shipped.model, shipped.limits, shipped.policy) == (
        nothing.store,
        nothing.model,
        nothing.limits,
        nothing.policy,
    )
    assert shipped.data_dir == SHIPPED.parent / ".bot"
    assert nothing.data_dir == here / ".bot"
    assert nothing.source is None


def test_the_shipped_file_names_every_field() -> None:
    written = parse_yaml(SHIPPED.read_text("utf-8")).value
    assert isinstance(written, dict)
    assert {name: value for name, value in written.items() if name != "policy"} == Settings().model_dump(mode="json")
    assert written["policy"] == defaults()


@pytest.mark.parametrize(
    "text,told",
    [
        ("modl: {}\n", ["config.yaml:1: unknown field `modl`, did you mean `model`?"]),
        (
            "# a\nstore:\n  lease_second: 4\n",
            ["config.yaml:3: unknown field `lease_second`, did you mean `lease_seconds`?"],
        ),
        ("polycy: {}\n", ["config.yaml:1: unknown field `polycy`, did you mean `policy`?"]),
        ("limits:\n  model_steps: many\n", ["config.yaml:2: `model_steps` must be a whole number"]),
        ("limits:\n  model_steps: 0\n", ["config.yaml:2: `model_steps` must be greater than or equal to 1"]),
        ("limits: 5\n", ["config.yaml:1: `limits` must be a block of fields"]),
        ("data_dir: 5\n", ["config.yaml:1: `data_dir` must be a text"]),
        ("data_dir: ''\n", ["config.yaml:1: `data_dir` must be no empty text"]),
        (
            "model:\n  name: offlin\n",
            ["config.yaml:2: `offlin` is not a model, write `offline` or provider and model as in `openai:gpt-5`"],
        ),
        (
            "store:\n  url: redis://:hush@host\n",
            [
                (
                    "config.yaml:2: a password does not belong in the configuration, "
                    "give the whole address in LOCKGATE_STORE_URL"
                )
            ],
        ),
        (
            "store:\n  url: redis+sentinel://a,b/main?sentinel_password=hush\n",
            [
                (
                    "config.yaml:2: a password does not belong in the configuration, "
                    "give the whole address in LOCKGATE_STORE_URL"
                )
            ],
        ),
        (
            "store:\n  url: redis+ring://host\n",
            [
                (
                    "config.yaml:2: a store's address begins with `redis://`, `rediss://`, `redis+sentinel://`, "
                    "`rediss+sentinel://`, `redis+cluster://`, `rediss+cluster://` or `unix://`"
                )
            ],
        ),
        ("a: 1\nmodel: {}\nmodel: {}\n", None),
        (
            "policy:\n  channels:\n    console:\n      classifikation: PUBLIC\n      classification: PUBLIC\n",
            ["config.yaml:4: unknown field `classifikation`, did you mean `classification`?"],
        ),
        (
            "policy:\n  folders:\n    public: {floor: PUBLIK, clearance: PUBLIC}\n",
            ["config.yaml:3: unknown level `PUBLIK`, did you mean `PUBLIC`?"],
        ),
        ("policy: 3\n", ["config.yaml:1: `3` is not a mapping"]),
        ("- model\n", ["config.yaml:1: the file must hold fields, such as `model:`"]),
        ("model\n", ["config.yaml:1: the file must hold fields, such as `model:`"]),
        ("model: *gone\n", None),
        ("model: &x {}\nstore: *x\n", ["config.yaml:2: aliases (`*name`) are not supported, write the value out"]),
        (
            "model: !!python/name:os.system {}\n",
            ["config.yaml:1: the tag `python/name:os.system` is not supported, remove it"],
        ),
        ("model:\n  <<: {name: offline}\n", ["config.yaml:2: a field's name must be a plain text"]),
        ("? [a]\n: 1\n", ["config.yaml:1: a field's name must be a plain text"]),
        ("limits:\n  model_steps: !!int x\n", ["config.yaml:2: `x` is not a number"]),
        ("model: [\n", None),
        ("model:\n\tname: x\n", None),
        ("--- {}\n--- {}\n", None),
        ("model: \x00\n", ["config.yaml: holds a character or sequence that YAML does not allow"]),
        (b"# \xc3\xa4\nmodel:\n  name: \xff\n", ["config.yaml:3: not UTF-8, save the file as UTF-8"]),
        (b"\xff\xfem\x00", ["config.yaml:1: not UTF-8, save the file as UTF-8"]),
        ("[" * 10_000, ["config.yaml: nested too deeply"]),
        ("#" * 10_000_000, ["config.yaml: larger than 1 MB, that is no configuration"]),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str | bytes, told: list[str] | None, tmp_path: Path) -> None:
    lines = refused(text, tmp_path)
    assert all(line.startswith("config.yaml") for line in lines)
    if told is not None:
        assert lines == told


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = "stor: {}\nmodel:\n  name: x\nmodel: {}\n"
    text += "policy:\n  rules:\n    - id: a\n      hook: PRE_OUTPUTS\n      action: BLOCK\n"
    assert refused(text, tmp_path) == [
        "config.yaml:1: unknown field `stor`, did you mean `store`?",
        "config.yaml:3: `x` is not a model, write `offline` or provider and model as in `openai:gpt-5`",
        "config.yaml:4: `model` is given twice, first on line 2",
        "config.yaml:8: unknown hook `PRE_OUTPUTS`, did you mean `PRE_OUTPUT`?",
    ]


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "model:\nstore:\npolicy:\nlimits:\ndata_dir:\n", "\ufeffmodel: {}\n"]
)
def test_what_is_left_out_is_the_default(text: str, tmp_path: Path) -> None:
    config = load(text, tmp_path)
    assert config.model == Settings().model
    assert config.data_dir == tmp_path / ".bot"


def test_a_value_that_is_given_counts(tmp_path: Path) -> None:
    text = "data_dir: there\nstore: {lease_seconds: 0x10}\nlimits: {model_steps: 3}\nmodel: {name: 'openai:gpt-5'}\n"
    config = load(text, tmp_path)
    assert config.data_dir == tmp_path / "there"
    assert config.store.lease_seconds == 16
    assert config.limits.model_steps == 3
    assert config.model.name == "openai:gpt-5"
    assert config.source == tmp_path / "config.yaml"


def test_the_environment_overrides_data_directory_and_store(here: Path) -> None:
    environment = {"LOCKGATE_DATA_DIR": "elsewhere", "LOCKGATE_STORE_URL": "redis://:hush@host"}
    config = load_config(None, environment, NAMES)
    assert config.data_dir == here / "elsewhere"
    assert config.store.url == "redis://:hush@host"


def test_the_file_is_looked_for_in_order(here: Path) -> None:
    for name, steps in (("config.yaml", 1), ("second.yaml", 2), ("third.yaml", 3)):
        (here / name).write_text(f"limits: {{model_steps: {steps}}}\n")
    environment = {"LOCKGATE_CONFIG": "second.yaml"}
    assert load_config(None, {}, NAMES).limits.model_steps == 1
    assert load_config(None, environment, NAMES).limits.model_steps == 2
    assert load_config(Path("third.yaml"), environment, NAMES).limits.model_steps == 3


def test_a_named_file_must_be_there(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: there is no such file") as caught:
        load_config(Path("gone.yaml"), {}, NAMES)
    assert caught.value.next_step == "check its path"
    with pytest.raises(ConfigError, match="there is no such file") as caught:
        load_config(None, {"LOCKGATE_CONFIG": str(here / "gone")}, NAMES)
    assert caught.value.next_step == "check the path given by LOCKGATE_CONFIG"


def test_a_directory_is_no_configuration(here: Path) -> None:
    with pytest.raises(ConfigError, match="this is a directory"):
        load_config(here, {}, NAMES)


def test_a_dangling_link_is_told(here: Path) -> None:
    (here / "config.yaml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="cannot be read, no such file or directory"):
        load_config(None, {}, NAMES)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcdef", min_size=1), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text("ghijkl", min_size=1), plain, max_size=4))
def test_json_is_yaml_and_read_as_it_is_meant(value: dict[str, object]) -> None:
    parsed = parse_yaml(json.dumps(value, ensure_ascii=False))
    assert (parsed.value, parsed.problems) == (value, ())


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    told = ""
    try:
        parsed = parse_yaml(text)
    except BrokenYamlError as error:
        told = str(error)
    else:
        assert all(parsed.line(problem.path) >= 1 for problem in parsed.problems)
    assert "\n" not in told
