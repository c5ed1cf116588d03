"""An operator at the command line: listings, simulations, explanations, and an audit that shows tampering."""

import json
import re
from datetime import UTC, datetime, timedelta

from tests.bot.kit import policy
from tests.journeys.machine import Machine
from tests.people import principal

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


def test_the_doctor_and_the_check_name_what_secrets_and_the_web_need(machine: Machine) -> None:
    written = "secrets: {key: {env: SOME_KEY}}\nweb: {unsafe_allow_private_addresses: ['10.0.0.1:80']}\n"
    (machine.folder / "config.yaml").write_text(written)
    checked = machine.run("check")
    assert checked.code == 2
    assert "secret `key`: the environment variable `SOME_KEY` is not set" in checked.err
    ended = machine.run("doctor", SOME_KEY="short")
    assert ended.code == 2
    assert "mend  secrets: secret `key`: the environment variable `SOME_KEY` holds fewer than 8 characters" in ended.out
    assert "mend  web: every session may reach `10.0.0.1:80`" in ended.out
    assert "short" not in ended.out
    assert machine.run("check", SOME_KEY="long enough").code == 0


def test_the_doctor_and_the_check_name_what_a_transcriber_needs(machine: Machine) -> None:
    written = "transcriber: {base_url: 'https://hearing.example/v1', model: scribe, key: HEARING_KEY}\n"
    (machine.folder / "config.yaml").write_text(written)
    checked = machine.run("check")
    assert checked.code == 2
    assert "the transcriber needs a key" in checked.err
    ended = machine.run("doctor", HEARING_KEY="k")
    assert "mend  model: `scribe` may hear PUBLIC alone, add it to `policy.transcribers`" in ended.out
    checked = machine.run("check", HEARING_KEY="k")
    assert checked.code == 0
    assert "transcriber scribe may hear PUBLIC alone, see `policy.transcribers`" in checked.out


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
    assert "account" in machine.run("audit", "tail").out.splitlines()[0]


def test_whole_chains_are_intact_and_a_lost_one_shows(machine: Machine) -> None:
    machine.chat("hello", "/simulate current_time")
    verified = machine.run("audit", "verify")
    assert (verified.code, verified.out) == (0, "2 of 2 chains intact\n")
    assert all(entry["intact"] for entry in json.loads(machine.run("audit", "verify", "--json").out))
    # Everything the store kept is thrown away; the anchors beside it still know what there was.
    for path in machine.data.iterdir():
        if path.name not in {"keys", "anchors", "files", "session-files", "workspace"} and path.is_dir():
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


def test_a_session_is_exported_to_a_file_that_can_be_checked(machine: Machine) -> None:
    machine.chat("hello", '!read_file {"path": "confidential/pipeline.md"}')
    (session,) = json.loads(machine.run("sessions", "list", "--json").out)
    sid = session["id"]
    ended = machine.run("export", sid, "--out", "copy.jsonl")
    assert (ended.code, ended.err) == (0, "")
    assert f"entries of {sid}, labelled CONFIDENTIAL~, to copy.jsonl\n" in ended.out
    copy = machine.folder / "copy.jsonl"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "Veldhaven" in copy.read_text()
    whole = machine.run("export", "verify", "copy.jsonl")
    assert (whole.code, whole.err) == (0, "")
    assert whole.out.startswith("copy.jsonl: intact, ")
    again = machine.run("export", sid, "--out", "copy.jsonl")
    assert (again.code, again.out) == (2, "")
    assert again.err == "`copy.jsonl` is there already\nname another file, none is overwritten\n"
    lines = copy.read_text().replace("Veldhaven", "Elsewhere").splitlines()
    (machine.folder / "changed.jsonl").write_text("\n".join(lines))
    place = next(n for n, line in enumerate(lines, 1) if "Elsewhere" in line)
    changed = machine.run("export", "verify", "changed.jsonl")
    assert (changed.code, changed.err) == (3, "")
    assert changed.out.startswith(f"changed.jsonl: not as it was exported, line {place} was changed")


def test_an_export_that_cannot_be_made_or_checked_is_told_in_a_sentence(machine: Machine) -> None:
    machine.chat("hello")
    (session,) = json.loads(machine.run("sessions", "list", "--json").out)
    printed = machine.run("export", session["id"])
    assert (printed.code, json.loads(printed.out.splitlines()[0])["session"]) == (0, session["id"])
    for arguments, told in (
        (("nobody",), "there is no such session\n`lockgate sessions list` names them\n"),
        (("verify", "none"), "cannot read `none`, no such file or directory\nmend access to it or name another file\n"),
        (("verify", "."), "`.` is not a file\nname one that `lockgate export` made\n"),
        (
            (session["id"], "--out", "none/x"),
            "cannot write `none/x`, no such file or directory\nmend access to it or name another file\n",
        ),
    ):
        ended = machine.run("export", *arguments)
        assert (ended.code, ended.out, ended.err) == (2, "", told)
    for arguments in (("verify",), (session["id"], "x"), ("verify", "x", "--out", "y")):
        assert "export verify FILE" in machine.run("export", *arguments).err
    written = '{"policy": {"rules": [{"id": "none-leave", "hook": "PRE_OUTPUT", "action": "BLOCK"}]}}'
    (machine.folder / "config.yaml").write_text(written)
    refused = machine.run("export", session["id"], "--out", "refused.jsonl")
    assert refused.code == 2
    assert "none-leave" in refused.err
    assert not (machine.folder / "refused.jsonl").exists()


def test_an_operator_reads_who_has_access_and_whose_access_ends(machine: Machine) -> None:
    """Ann reads by her group until it ends; the doctor names the accesses that ended or end soon."""
    soon = f"{datetime.now(UTC) + timedelta(days=3):%Y-%m-%dT%H:%MZ}"
    ann = {**principal("console:user-ann", role="member", clearance="INTERNAL"), "until": soon}
    ben = {**principal("console:user-ben", role="member", clearance="top"), "until": "2020-01-01"}
    config = policy(
        compartments=["hr"],
        principals={"owner": principal("console:owner"), "ann": ann, "ben": ben},
        groups={"payroll": {"members": [{"name": "ann", "until": "2999-01-01"}], "clearance": "CONFIDENTIAL{hr}"}},
    )
    (machine.folder / "config.yaml").write_text(config)
    document = json.loads(machine.run("policy", "who", "CONFIDENTIAL{hr}", "--json").out)
    assert (document["kind"], document["name"], document["label"]) == ("label", "CONFIDENTIAL{hr}", "CONFIDENTIAL{hr}")
    assert (document["in_force"], document["others"]) == (True, [])
    first, second, third = document["people"]
    assert (first["name"], first["role"], first["read"], first["say"]) == ("ann", "member", True, True)
    assert (first["by"]["read"], first["approve"], first["ended"]) == (["payroll"], False, False)
    assert (second["role"], second["read"], second["ended"]) == (None, False, True)
    assert second["until"] == "2020-01-02T00:00:00+00:00"
    assert (third["admin"], third["release"], third["by"]["approve"]) == (True, False, ["entry"])
    refused = machine.run("policy", "who", "publik")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("there is no chat or folder `publik`, did you mean `public`?")
    told = machine.run("doctor").out
    assert re.search(r"^ok    access of `ann`.*ends 20", told, re.MULTILINE)
    assert "ended 2020-01-02 00:00:00 UTC, remove the entry of `policy.principals.ben`" in told
    assert "membership" not in told
