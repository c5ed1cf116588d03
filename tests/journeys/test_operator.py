"""An operator at the command line: listings, simulations, explanations, and an audit that shows tampering."""

import json

from tests.journeys.machine import Machine

SEND = '{"channel":"console","recipient":"guest","text":"x"}'


def test_a_simulation_prints_verdict_rules_labels_and_remedies(machine: Machine) -> None:
    ended = machine.run("simulate", "message", SEND, "--taint", "CONFIDENTIAL", "--json")
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(ended.out)
    assert report["verdict"] == "BLOCK"
    assert (report["taint_before"], report["taint_after"]) == ("CONFIDENTIAL", "CONFIDENTIAL")
    assert "no_write_down" in {rule["id"] for rule in report["rules"] if rule["verdict"] == "BLOCK"}
    assert "reset" in report["remedies"]
    allowed = machine.run("simulate", "message", SEND)
    assert allowed.out.startswith("ALLOW, taint PUBLIC → PUBLIC\n")


def test_a_simulation_leaves_only_its_audit_record(machine: Machine) -> None:
    machine.run("simulate", "message", SEND, "--taint", "CONFIDENTIAL")
    assert json.loads(machine.run("sessions", "list", "--json").out) == []
    records = json.loads(machine.run("audit", "tail", "--json").out)
    assert [(record["kind"], record["actor"], record["body"]["verdict"]) for record in records] == [
        ("simulate", "owner", "BLOCK")
    ]


def test_a_fresh_machine_is_in_order(machine: Machine) -> None:
    assert machine.run("check").out.startswith("no config.yaml, the defaults: in order\n")
    ended = machine.run("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert "mend" not in ended.out
    assert all(not entry["problem"] for entry in json.loads(machine.run("doctor", "--json").out))


def test_the_doctor_names_what_is_to_be_mended(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("model: {name: 'openai:gpt-5'}\n")
    ended = machine.run("doctor", OPENAI_API_KEY="")
    assert ended.code == 2
    assert "mend  model: `openai:gpt-5` needs a key, set OPENAI_API_KEY in the environment" in ended.out
    ended = machine.run("doctor", OPENAI_API_KEY="k")
    assert "`openai:gpt-5` has no clearance" in ended.out


def test_sessions_and_decisions_are_listed_and_explained(machine: Machine) -> None:
    machine.chat("hello", '!read_file {"path": "confidential/pipeline.md"}', f"!message {SEND}")
    (session,) = json.loads(machine.run("sessions", "list", "--json").out)
    assert (session["user"], session["taint"], session["status"]) == ("owner", "CONFIDENTIAL~", "idle")
    assert session["id"] in machine.run("sessions", "list").out
    shown = machine.run("sessions", "show", session["id"])
    assert "taint: CONFIDENTIAL~" in shown.out
    assert "policy.decision" in shown.out
    chain = json.loads(machine.run("audit", "tail", "--chain", session["id"], "-n", "100", "--json").out)
    refused = next(record for record in chain if record["body"].get("verdict") == "BLOCK")
    explained = machine.run("explain", f"{session['id']}:{refused['n']}")
    assert explained.code == 0
    assert "no_write_down" in explained.out
    assert json.loads(machine.run("explain", f"{session['id']}:{refused['n']}", "--json").out)["n"] == refused["n"]
    assert "BLOCK" in machine.run("audit", "tail", "--chain", session["id"]).out


def test_whole_chains_are_intact_and_a_lost_one_shows(machine: Machine) -> None:
    machine.chat("hello", "/simulate current_time")
    verified = machine.run("audit", "verify")
    assert (verified.code, verified.out) == (0, "2 of 2 chains intact\n")
    assert all(entry["intact"] for entry in json.loads(machine.run("audit", "verify", "--json").out))
    # Everything the store kept is thrown away; the anchors beside it still know what there was.
    for path in machine.data.iterdir():
        if path.name not in {"keys", "anchors", "files", "workspaces"} and path.is_dir():
            for inner in sorted(path.rglob("*"), reverse=True):
                inner.rmdir() if inner.is_dir() else inner.unlink()
    ended = machine.run("audit", "verify")
    assert ended.code == 3
    assert "tampered with" in ended.out


def test_help_names_commands_and_exit_codes(machine: Machine) -> None:
    ended = machine.run("--help")
    assert ended.code == 0
    for word in ("chat", "check", "simulate", "explain", "sessions", "audit", "doctor", "Exit codes"):
        assert word in ended.out
