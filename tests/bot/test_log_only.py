"""A rule that is `log_only`, in a whole application: people see the same, and the operator's records tell of it."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bot.cli.policy import check, explained
from bot.cli.policy import test as run_cases
from bot.config.load import load_config
from bot.tools.catalogue import ARGUMENTS
from policy.document.model import load
from policy.errors import DocumentError
from policy.labels import Label, Level
from tests.bot.kit import bang, note
from tests.bot.telemetry.test_metrics import measured, until
from tests.harness import running

RULES = [
    {"id": "rosebud", "hook": "PRE_TOOL_CALL", "tools": ["read_file"], "action": "BLOCK", "log_only": True},
    {"id": "sled", "hook": "PRE_OUTPUT", "pattern": "us-ssn", "action": "REDACT", "log_only": True},
    {"id": "kane", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL", "log_only": True},
]
TYPED = (
    "hello, my number is 536-90-4399",
    note("guest", "hello"),
    bang("read_file", path="public/welcome.md"),
    "/why",
    '/simulate read_file {"path": "public/welcome.md"}',
    "/taint",
    "/approvals",
)


def written(rules: Sequence[Mapping[str, object]]) -> str:
    return json.dumps({"policy": {"rules": [*rules]}})


@pytest.mark.anyio
async def test_people_see_the_same_with_and_without(tmp_path: Path) -> None:
    shown = dict[str, list[str]]()
    for name, rules in (("with", RULES), ("without", [])):
        (tmp_path / name).mkdir()
        async with running(tmp_path / name, written(rules)) as owner:
            shown[name] = [re.sub(r"`/(approve|deny) \w+`", r"`/\1 ID`", await owner.say(line)) for line in TYPED]
            rows = [row.record for row in await owner.app.audit.newest(owner.sid, 100, None)]
            would = [row.body["would"] for row in rows if "would" in row.body]
            seen = await owner.app.audit.newest(owner.sid, 100, owner.app.gate.document.top)
            assert not any({"would", "facts"} & set(row.record.body) for row in seen)
            assert "rosebud" not in await owner.say("/audit")
            if rules:
                assert {"rosebud": "would_refuse"} in would
                assert {"sled": "would_redact"} in would
                assert {"kane": "would_ask"} in would
            else:
                assert would == []
    assert shown["with"] == shown["without"]


@pytest.mark.anyio
async def test_what_it_would_have_done_is_counted(tmp_path: Path) -> None:
    async with measured(tmp_path, Label(Level.INTERNAL), written(RULES)) as (owner, metrics):
        await owner.say(bang("read_file", path="public/welcome.md"))
        told = await until(metrics, 1)
        labels = '{hook="PRE_TOOL_CALL",rule="rosebud",verdict="would_refuse"}'
        assert told[f"lockgate_log_only_rules_total{labels}"] == 1
        assert told['lockgate_verdicts_total{hook="PRE_TOOL_CALL",verdict="ALLOW"}'] == 1


@pytest.mark.parametrize("named", ["no_write_down", "outcome_is_known"])
def test_a_fixed_rule_cannot_be_log_only(named: str) -> None:
    rule = {"id": named, "hook": "PRE_OUTPUT", "action": "BLOCK", "log_only": True}
    with pytest.raises(DocumentError) as refused:
        load({"rules": [rule]}, tools=ARGUMENTS)
    (problem,) = refused.value.problems
    assert problem.message == (
        f"`{named}` is a fixed rule and always applies, only a rule of your own can be `log_only`"
    )


def test_the_command_line_tells_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(written(RULES))
    config = load_config(tmp_path / "config.yaml", {}, ARGUMENTS)
    check(config, as_json=False)
    assert "3 rules of your own (rosebud, sled, kane log only), 0 warnings" in capsys.readouterr().out
    cases = tmp_path / "cases.yaml"
    cases.write_text(
        "cases:\n- case: a read\n  request: {hook: PRE_TOOL_CALL, tool: {name: read_file}}\n"
        "  verdict: ALLOW\n  log_only: [sled]\n"
    )
    run_cases(config, cases, as_json=False)
    said = capsys.readouterr().out
    assert "expected log only `sled`, logged `rosebud`; `log_only` may be left out" in said
    explained(config, cases, "a read", as_json=False)
    assert "- rule rosebud is log only: would_refuse" in capsys.readouterr().out
