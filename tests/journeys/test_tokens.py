"""An operator lets a program in, gives it another token, and sends it away, at the command line."""

import json

import pytest

from bot.cli.tokens import life
from bot.core.errors import OperatorError
from tests.journeys.machine import Machine

CONFIG = """channels:
  api: {}
policy:
  compartments: [acme]
  channels:
    console: {classification: top, inbound: PUBLIC, overshoot: allow}
    api: {classification: INTERNAL}
"""
SECOND = 1_000


def configured(machine: Machine) -> Machine:
    (machine.folder / "config.yaml").write_text(CONFIG)
    return machine


def listed(machine: Machine) -> list[dict[str, object]]:
    ended = machine.run("token", "list", "--json")
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def test_who_may_not_read_their_own_words_is_warned_of(machine: Machine) -> None:
    words = CONFIG.replace("{classification: INTERNAL}", "{classification: INTERNAL, inbound: INTERNAL}")
    (machine.folder / "config.yaml").write_text(words)
    note = "it may not read its own messages, so it sees none of its sessions"
    assert note in machine.run("token", "create", "low", "--clearance", "PUBLIC").err
    assert note not in machine.run("token", "create", "fit", "--clearance", "INTERNAL").err
    assert "messages of programs are labelled INTERNAL" in machine.run("check").out
    looked = machine.run("doctor")
    assert "`low` may not read its own messages" in looked.out
    assert "`fit`" not in looked.out


def test_the_text_of_a_token_is_the_only_line_on_the_standard_output(machine: Machine) -> None:
    configured(machine)
    made = machine.run("token", "create", "crane", "--scope", "steer", "--clearance", "CONFIDENTIAL{acme}")
    assert made.code == 0
    text = made.out.removesuffix("\n")
    assert text.startswith("lg_")
    assert "\n" not in text
    assert "crane may steer, cleared for CONFIDENTIAL{acme}, until 20" in made.err
    assert "this is shown once" in made.err
    assert "it reads no more than `policy.channels.api` is classified for, which is INTERNAL" in made.err
    (one,) = listed(machine)
    assert (one["name"], one["scope"], one["clearance"], one["state"]) == (
        *("crane", "steer", "CONFIDENTIAL{acme}", "live"),
    )
    assert one["created_by"] == "owner"
    rotated = machine.run("token", "rotate", "crane", "--expires", "never", "--json")
    document = json.loads(rotated.out)
    assert document["token"] != text
    assert document["expires"] == 0
    shown = machine.run("token", "list")
    assert "crane  steer  CONFIDENTIAL{acme}  live   never" in shown.out
    gone = machine.run("token", "revoke", "crane")
    assert gone.out == "crane is revoked: its sessions stand still, and its name is never given again\n"
    assert [one["state"] for one in listed(machine)] == ["revoked"]
    for secret in (text, document["token"]):
        told = shown.out + machine.run("audit", "tail", "-n", "100", "--json").out + machine.run("check").out
        assert secret.split("_")[2] not in told
    records = json.loads(machine.run("audit", "tail", "-n", "100", "--json").out)
    assert [one["body"]["change"] for one in records if one["kind"] == "token"] == ["create", "rotate", "revoke"]
    assert machine.run("audit", "verify").code == 0


def test_a_token_may_little_unless_more_is_said(machine: Machine) -> None:
    document = json.loads(configured(machine).run("token", "create", "ci", "--json").out)
    assert (document["scope"], document["clearance"], document["per_minute"]) == ("read", "PUBLIC", 0)
    assert document["expires"] - document["created"] == 30 * 86_400 * SECOND


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("create", "Ci"), "`Ci` is not a name\nuse up to 64 lower-case letters, digits, `_` and `-`\n"),
        (("create", "ci", "--clearance", "INTERNAL{hr}"), "unknown compartment `hr`\nwrite one as"),
        (("create", "ci", "--expires", "soon"), "`soon` is not a time that a token may count\nwrite one as `30d`"),
        (("rotate", "ci"), "there is no token `ci` that counts\n`lockgate token list` names them"),
        (("revoke", "ci"), "there is no token `ci` that counts\n`lockgate token list` names them"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_next_step(
    machine: Machine, arguments: tuple[str, ...], told: str
) -> None:
    ended = configured(machine).run("token", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(told)


def test_no_token_is_made_that_no_process_would_know(machine: Machine) -> None:
    ended = machine.run("token", "create", "ci")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("no program is let in while `policy.channels.api` is missing\n")
    assert machine.run("token", "list").out == "there are no tokens\n"


def test_a_name_is_given_once(machine: Machine) -> None:
    assert configured(machine).run("token", "create", "ci").code == 0
    assert machine.run("token", "revoke", "ci").code == 0
    ended = machine.run("token", "create", "ci")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("the name `ci` was given before and is never given again")


@pytest.mark.parametrize(
    "written, milliseconds",
    [("45m", 2_700_000), ("12h", 43_200_000), ("30d", 2_592_000_000), ("3650d", 315_360_000_000), ("never", 0)],
)
def test_how_long_a_token_counts(written: str, milliseconds: int) -> None:
    assert life(written) == milliseconds


@pytest.mark.parametrize("written", ["", "0d", "-1d", "1", "1w", "3651d", "99999d", "1.5d", "1d ", "Never", "1d\n"])
def test_what_is_no_time(written: str) -> None:
    with pytest.raises(OperatorError, match="not a time"):
        life(written)
