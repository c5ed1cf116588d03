"""`lockgate policy check`, `test` and `explain`, also over the shipped example and its cases."""

import json
from pathlib import Path

import pytest

from bot.cli.policy import FAILED, check, explained
from bot.cli.policy import test as run_cases
from bot.cli.policy_cases import CaseEngines, read_cases
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.tools.catalogue import ARGUMENTS
from policy.decision import Remedy
from tests.people import principal

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
CASES = EXAMPLES / "cases.yaml"


@pytest.fixture
def office() -> Config:
    return load_config(EXAMPLES / "office.yaml", {}, ARGUMENTS)


def cases(folder: Path, text: str) -> Path:
    path = folder / "cases.yaml"
    path.write_text(text)
    return path


def refused(config: Config, path: Path) -> str:
    with pytest.raises(OperatorError) as error:
        run_cases(config, path, as_json=False)
    return str(error.value).replace(str(path), "cases.yaml")


def test_at_least_forty_cases_are_shipped_each_with_a_comment(
    office: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = CASES.read_text("utf-8").splitlines()
    places = [place for place, row in enumerate(rows) if row.startswith("  - case: ")]
    assert len(places) >= 40
    assert len({rows[place] for place in places}) == len(places)
    for place in places:
        assert rows[place - 1].startswith("  # "), rows[place]
        assert rows[place - 1].endswith(".")
    assert run_cases(office, CASES, as_json=False) == 0
    assert capsys.readouterr().out == f"{len(places)} of {len(places)} cases are decided as they say\n"
    deciding = CASES.read_text("utf-8")
    assert [rule.id for rule in office.policy.rules if rule.id not in deciding] == []


def test_check_names_what_is_in_force(office: Config, capsys: pytest.CaptureFixture[str]) -> None:
    check(office, as_json=False)
    digest = office.policy.digest
    assert capsys.readouterr().out.endswith(
        f": policy {digest[:12]} can be put in force, 8 rules of your own, 0 warnings\n"
    )
    check(office, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["policy"], len(told["rules"]), told["warnings"]) == (digest, 8, [])


def test_check_warns_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "policy:\n"
        "  rules:\n"
        "    - {id: all, hook: PRE_OUTPUT, action: BLOCK}\n"
        "    - id: some\n"
        "      hook: PRE_OUTPUT\n"
        "      action: REQUIRE_APPROVAL\n"
    )
    config = load_config(path, {}, ARGUMENTS)
    check(config, as_json=False)
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:3: silencing: rule `all` also keeps back")
    assert second == f"{path}:4: shadowed: rule `some` never decides, rule `all` blocks all of it"
    assert last.endswith("2 rules of your own, 2 warnings")
    check(config, as_json=True)
    assert [warning["line"] for warning in json.loads(capsys.readouterr().out)["warnings"]] == [3, 4]


def test_the_defaults_can_be_checked_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(load_config(None, {}, ARGUMENTS), as_json=False)
    assert capsys.readouterr().out.startswith("the defaults: policy ")


_NONE = "expected rules none, decided by `no_write_down`; `rules` may be left out"


@pytest.mark.parametrize(
    "said, told",
    [
        ("verdict: ALLOW", ["expected verdict ALLOW, decided BLOCK by `no_write_down`"]),
        ("verdict: ALLOW, rules: []", ["expected verdict ALLOW, decided BLOCK by `no_write_down`", _NONE]),
        (
            "verdict: BLOCK, rules: [overshoot]",
            ["expected rules `overshoot`, decided by `no_write_down`; `rules` may be left out"],
        ),
        ("verdict: BLOCK, rules: []", [_NONE]),
        (
            "verdict: BLOCK, rules: [no_write_down], remedies: []",
            [
                (
                    "expected remedies none, decided with `other_destination`, `reclassify`, `reset`; "
                    "`remedies` may be left out"
                )
            ],
        ),
    ],
)
def test_a_case_that_is_decided_otherwise_fails(
    office: Config, tmp_path: Path, said: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What was expected and what came is told, a line for each that differs."""
    request = "{hook: PRE_OUTPUT, taint: CONFIDENTIAL, destination: {recipient: guest}}"
    path = cases(tmp_path, f"cases:\n\n  - {{case: one, request: {request}, {said}}}\n")
    assert run_cases(office, path, as_json=False) == FAILED
    lines = [f"{path}:3: one: {one}\n" for one in told]
    assert capsys.readouterr().out == "".join([*lines, "0 of 1 cases are decided as they say\n"])
    assert run_cases(office, path, as_json=True) == FAILED
    written = json.loads(capsys.readouterr().out)
    (only,) = written["cases"]
    assert (written["failed"], only["passed"], only["line"], only["differences"]) == (1, False, 3, told)
    assert only["expected"]["verdict"] in said
    assert ("rules" in only["expected"]) is ("rules:" in said)


def test_a_case_may_leave_its_rules_out(office: Config, tmp_path: Path) -> None:
    request = "{hook: PRE_OUTPUT, taint: CONFIDENTIAL, destination: {recipient: guest}}"
    path = cases(tmp_path, f"cases:\n  - {{case: one, request: {request}, verdict: BLOCK}}\n")
    assert run_cases(office, path, as_json=False) == 0


@pytest.mark.parametrize(
    "text, problem",
    [
        ("cases: []\n", "cases.yaml:1: `cases`: tuple should have at least 1 item"),
        ("case: []\n", "cases.yaml:1: unknown field `case`, did you mean `cases`?"),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT}, verdict: DENY}\n",
            "cases.yaml:2: `verdict`: input should be",
        ),
        ("cases:\n- {case: a, verdict: ALLOW}\n", "cases.yaml:2: `request` is missing, add it"),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUTS}, verdict: ALLOW}\n",
            "cases.yaml:2: `hook`: input should be",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT, tain: PUBLIC}, verdict: ALLOW}\n",
            "cases.yaml:2: unknown field `tain`, did you mean `taint`?",
        ),
        (
            "cases:\n- case: a\n  request: {hook: PRE_OUTPUT,\n    taint: SECRET}\n  verdict: ALLOW\n",
            "cases.yaml:4: `taint`: value error, unknown level `SECRET`",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT}, verdict: ALLOW, verdicts: 1}\n",
            "cases.yaml:2: unknown field `verdicts`, did you mean `verdict`?",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT}, verdict: ALLOW, at: '2030-01-01'}\n",
            "cases.yaml:2: `at`: ",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT}, verdict: ALLOW, taint: PUBLIC}\n",
            "cases.yaml:2: unknown field `taint` here, it belongs into `request`",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT, verdict: ALLOW}, verdict: ALLOW}\n",
            "cases.yaml:2: unknown field `verdict` here, it belongs into the case itself, beside `request`",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT, recipient: guest}, verdict: ALLOW}\n",
            "cases.yaml:2: unknown field `recipient` here, it belongs into `request.destination`",
        ),
        (
            "cases:\n- {case: a, request: {hook: PRE_OUTPUT, tool: {name: a, taint: PUBLIC}}, verdict: ALLOW}\n",
            "cases.yaml:2: unknown field `taint` here, it belongs into `request`",
        ),
        ("cases: {\n", "cases.yaml:2: not valid YAML"),
        (
            "cases:\n- &a {case: a, request: {hook: PRE_OUTPUT}, verdict: ALLOW}\n- *a\n",
            "aliases (`*name`) are not supported",
        ),
        ("# " + "x" * 1_000_000, "cases.yaml: larger than 1 MB, split it"),
    ],
)
def test_a_file_of_something_else_is_refused_by_line(office: Config, tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refused(office, cases(tmp_path, text))


def test_a_file_that_is_not_there_is_said_to_be(office: Config, tmp_path: Path) -> None:
    assert refused(office, tmp_path / "gone.yaml") == "cases.yaml: cannot be read"


def test_a_case_that_cannot_be_decided_hides_no_other(
    office: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = "{case: lost, request: {hook: PRE_OUTPUT, chat: nowhere, asker: owner}, verdict: BLOCK}"
    path = cases(tmp_path, f"cases:\n- {lost}\n- {{case: kept, request: {{hook: PRE_OUTPUT}}, verdict: BLOCK}}\n")
    assert run_cases(office, path, as_json=False) == 3
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"{path}:2: lost: unknown chat `nowhere`")
    assert told[1:] == ["1 of 2 cases are decided as they say"]


def test_explain_tells_every_rule_that_was_evaluated(office: Config, capsys: pytest.CaptureFixture[str]) -> None:
    explained(office, CASES, "a number and a card together", as_json=False)
    told = capsys.readouterr().out
    assert "Refused: a number and a card together." in told
    assert "Rule `no-cards-to-groups`: card numbers are not said where several people read" in told
    assert "- rule project-names-stay-inside says ALLOW" in told
    assert f"policy {office.policy.digest[:12]}" in told
    explained(office, CASES, "a number and a card together", as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "BLOCK"
    assert document["policy"] == office.policy.digest
    assert {"id": "no_write_down", "verdict": "ALLOW", "fixed": True, "message": ""} in document["rules"]


def test_explain_wants_a_case_there_is(office: Config) -> None:
    with pytest.raises(OperatorError, match="there is no case `nothing`"):
        explained(office, CASES, "nothing", as_json=False)


def test_a_case_names_the_server_of_a_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = {"mail": {"command": "x", "tools": {"find": {"description": "d", "effect": "read"}}}}
    labels = {"mail": {"floor": "CONFIDENTIAL", "clearance": "INTERNAL"}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"mcp_servers": servers, "policy": {"mcp_servers": labels}}))
    request = "{hook: MCP_TOOL_CALL, taint: CONFIDENTIAL, tool: {name: mail__find, effect: read, server: mail}}"
    path = cases(tmp_path, f"cases:\n- {{case: one, request: {request}, verdict: BLOCK, rules: [no_write_down]}}\n")
    assert run_cases(load_config(config, {}, ARGUMENTS), path, as_json=False) == 0
    assert capsys.readouterr().out == "1 of 1 cases are decided as they say\n"


def test_a_case_names_who_asks_and_whose_words_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each variable that a rule can use is said by a case; a role is the policy's unless the case says it."""
    config = tmp_path / "config.yaml"
    condition = 'asker == "ann" && asker_role == "approver" && "guest" in other_roles'
    people = {
        "owner": principal("console:owner"),
        "ann": principal("console:ann", role="approver", clearance="INTERNAL"),
        "eve": principal("console:eve", role="guest", clearance="PUBLIC"),
    }
    rule = {"id": "hers", "hook": "PRE_TOOL_CALL", "when": condition, "action": "BLOCK"}
    chats = {"team": {"channel": "console", "chat": "team", "classification": "CONFIDENTIAL"}}
    config.write_text(json.dumps({"policy": {"principals": people, "rules": [rule], "chats": chats}}))
    tool = "tool: {name: read_file, effect: read, result: INTERNAL}"
    said = [
        "asker: ann, others: [eve]",
        "asker: ann, other_roles: [guest]",
        "asker: bea, asker_role: approver, other_roles: [guest]",
        "asker: ann, asker_role: member, others: [eve]",
        "asker: ann, other_roles: []",
        "asker: ann, others: [eve], other_roles: [member]",
    ]
    team = "principal: 'chat:console::team:'"
    lines = [
        f"- {{case: c{number}, request: {{hook: PRE_TOOL_CALL, {team}, {one}, {tool}}}, verdict: ALLOW}}\n"
        for number, one in enumerate(said)
    ]
    run_cases(load_config(config, {}, ARGUMENTS), cases(tmp_path, f"cases:\n{''.join(lines)}"), as_json=True)
    told = [case["rules"] for case in json.loads(capsys.readouterr().out)["cases"]]
    assert ["hers" in rules for rules in told] == [True, True, False, False, False, False]
    # What nobody known asks may be read for nobody, and what others may not know is asked about.
    assert "read_is_decided_before_it_happens" in told[2]
    assert "others_cannot_command" in told[5]
    assert told[4] == []


@pytest.mark.parametrize("field", ["asker_role: boss", "other_roles: [boss]", "other_roles: guest"])
def test_a_role_there_is_not_is_refused_by_line(office: Config, tmp_path: Path, field: str) -> None:
    text = f"cases:\n- {{case: a, request: {{hook: PRE_OUTPUT, {field}}}, verdict: ALLOW}}\n"
    assert "cases.yaml:2: `" in refused(office, cases(tmp_path, text))


STAFF = """
policy:
  compartments: [hr]
  principals:
    owner: {role: owner, clearance: top, accounts: ["console:owner"]}
    ann: {role: member, clearance: INTERNAL, accounts: ["console:ann"]}
    ben: {role: member, clearance: INTERNAL, accounts: ["console:ben"], until: 2030-03-31}
    dan: {role: member, clearance: INTERNAL, accounts: ["other:dan"]}
  groups:
    payroll: {members: [ann, {name: ben, until: 2030-01-31}], clearance: "CONFIDENTIAL{hr}"}
    releasing: {members: [{name: ben, until: 2030-01-31}], may_release: true}
  channels:
    console: {classification: top, overshoot: allow}
    other: {classification: top}
  chats:
    crew: {channel: console, chat: crew, classification: "CONFIDENTIAL{hr}", overshoot: block}
    team: {channel: console, chat: team, classification: "CONFIDENTIAL{hr}", members_vouched: true}
  rules:
    - {id: payroll-waits, hook: PRE_TOOL_CALL, when: '"payroll" in asker_groups', action: REQUIRE_APPROVAL}
"""


@pytest.fixture
def staff(tmp_path: Path) -> Config:
    (tmp_path / "config.yaml").write_text(STAFF)
    return load_config(tmp_path / "config.yaml", {}, ARGUMENTS)


ANSWER = "hook: PRE_OUTPUT, chat: crew, asker: ann, taint: 'CONFIDENTIAL{hr}', destination: {chat: crew%s}"
READ = "hook: PRE_TOOL_CALL, chat: crew, asker: %s, tool: {name: read, effect: read, result: 'CONFIDENTIAL{hr}'}"


@pytest.mark.parametrize(
    "request_text, verdict",
    [
        (f"{{{ANSWER % ''}, members: [ann, ben]}}", "ALLOW"),
        (f"{{{ANSWER % ''}, members: [payroll]}}", "ALLOW"),
        (f"{{{ANSWER % ''}, members: [payroll], complete: false}}", "BLOCK"),
        (f"{{{ANSWER % ', complete: true'}, members: [payroll], complete: false}}", "ALLOW"),
        (f"{{{ANSWER % ''}, members: [payroll], complete: false}}".replace("crew", "team"), "ALLOW"),
        (f"{{{ANSWER % ''}, members: [payroll, owner]}}", "ALLOW"),
        (f"{{{ANSWER % ', members: [ann, console:x]'}, members: [payroll]}}", "BLOCK"),
        (f"{{{ANSWER % ''}}}", "BLOCK"),
        (f"{{{READ % 'ann'}, members: [ann, owner]}}", "REQUIRE_APPROVAL"),
        (f"{{{READ % 'owner'}, members: [ann, owner]}}", "ALLOW"),
        (f"{{{READ % 'owner'}, members: [ann, console:x]}}", "BLOCK"),
    ],
)
def test_a_case_names_a_chat_with_its_members(
    staff: Config, tmp_path: Path, request_text: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cases(tmp_path, f"cases:\n  - case: a\n    request: {request_text}\n    verdict: {verdict}\n")
    assert run_cases(staff, path, as_json=False) == 0, capsys.readouterr().out


def test_a_case_is_decided_by_the_access_at_its_moment(
    staff: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The membership ends first, then the access."""
    read = "{hook: PRE_TOOL_CALL, principal: ben, tool: {name: read, effect: read, result: %s}}"
    rows = [
        ("'CONFIDENTIAL{hr}'", "2030-01-31T23:59:59Z", "REQUIRE_APPROVAL"),
        ("INTERNAL", "2030-02-01T00:00:00Z", "ALLOW"),
    ]
    rows += [("'CONFIDENTIAL{hr}'", "2030-02-01T00:00:00Z", "BLOCK"), ("INTERNAL", "2030-04-01T00:00:00Z", "BLOCK")]
    text = "".join(
        f'  - {{case: "{place}", request: {read % label}, at: "{at}", verdict: {verdict}}}\n'
        for place, (label, at, verdict) in enumerate(rows)
    )
    path = cases(tmp_path, f"cases:\n{text}")
    assert run_cases(staff, path, as_json=False) == 0, capsys.readouterr().out
    explained(staff, path, "0", as_json=False)
    told = capsys.readouterr().out
    assert "ben is in the groups payroll, releasing\n" in told
    assert told.endswith(f"policy {staff.policy.digest[:12]}\n")


def test_a_release_is_offered_as_long_as_a_group_gives_the_right(staff: Config, tmp_path: Path) -> None:
    send = "{hook: PRE_TOOL_CALL, taint: CONFIDENTIAL, tool: {name: message, effect: send, clearance: PUBLIC}}"
    at = {"before": "2030-01-31T12:00:00Z", "after": "2030-02-01T12:00:00Z"}
    text = "".join(f'  - {{case: {name}, request: {send}, at: "{one}", verdict: BLOCK}}\n' for name, one in at.items())
    path, tried = cases(tmp_path, f"cases:\n{text}"), CaseEngines(staff)
    offered = {case.case: tried.decided(case)[1].remedies for _, case in read_cases(path)}
    assert (Remedy.RELEASE in offered["before"], Remedy.RELEASE in offered["after"]) == (True, False)


@pytest.mark.parametrize(
    "request_text, told",
    [
        ("{hook: PRE_OUTPUT, chat: crw, asker: ann}", "cases.yaml:2: unknown chat `crw`, did you mean `crew`?"),
        ("{hook: PRE_OUTPUT, chat: crew}", "cases.yaml:2: a case in the chat `crew` names its `asker`"),
        ("{hook: PRE_OUTPUT, chat: crew, asker: ann, channel: x}", "neither `principal` nor `channel`"),
        ("{hook: PRE_OUTPUT, members: [ann]}", "cases.yaml:2: `members` are those of a chat"),
        ("{hook: PRE_OUTPUT, chat: crew, asker: ann, members: [anne]}", "unknown member `anne`, did you mean `ann`?"),
        ("{hook: PRE_OUTPUT, chat: crew, asker: ann, members: [dan]}", "`dan` has no account on `console`"),
        ("{hook: PRE_OUTPUT, chat: crew, asker: ann, members: ['other:dan']}", "`other:dan` is no account there"),
        ("{hook: PRE_OUTPUT, destination: {member: [ann]}}", "unknown field `member`, did you mean `members`?"),
    ],
)
def test_a_chat_of_a_case_is_checked(staff: Config, tmp_path: Path, request_text: str, told: str) -> None:
    path = cases(tmp_path, f"cases:\n  - {{case: a, request: {request_text}, verdict: ALLOW}}\n")
    with pytest.raises(OperatorError) as error:
        explained(staff, path, "a", as_json=False)
    assert told in str(error.value).replace(str(path), "cases.yaml")
