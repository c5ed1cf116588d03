"""Exports: what is in them, for whom, and that a changed one shows."""

import json
from pathlib import Path

import pytest

from bot.access.decision_context import DecisionContext
from bot.commands import sessions as command
from bot.commands.sessions import NOTHING_SAID
from bot.operations.signing import ExportKey, signed_by
from bot.sessions.exports import BrokenExport, ExportEntry, Header, VerifiedExport, sealed, verified
from channels.messages import Address
from policy.labels import PUBLIC, parse
from policy.request import Role
from tests.bot.kit import bang, policy
from tests.harness import HOME, Person, running
from tests.people import principal

KEY = b"k" * 32
SECRET = "ghp_" + "a1B2" * 9
FILE = sealed(
    ExportKey(KEY),
    Header("s1", 2, parse("INTERNAL{hr}"), 7),
    [ExportEntry(n, n * 10, "owner", "user.message", PUBLIC, {"text": f"line\n{n} \u2028ä"}) for n in (1, 2, 4)],
).encode("ascii")
LINES = FILE.splitlines(keepends=True)


def test_an_export_is_a_header_its_entries_and_a_signature() -> None:
    head, first, *_, last = [json.loads(line) for line in LINES]
    assert list(head) == [
        *("format", "version", "session", "generation", "label", "made", "title", "last_turn", "lines", "sum")
    ]
    assert (head["format"], head["version"], head["session"]) == ("lockgate.export", 2, "s1")
    assert (head["generation"], head["label"], head["made"], head["lines"]) == (2, "INTERNAL{hr}", 7, 3)
    assert {name: value for name, value in first.items() if name != "sum"} == {
        "seq": 1,
        "ts": 10,
        "actor": "owner",
        "type": "user.message",
        "label": "PUBLIC",
        "visibility": "internal",
        "admitted": False,
        "turn": "",
        "refs": "",
        "body": {"text": "line\n1 \u2028ä"},
    }
    assert list(last) == ["key", "signature"]
    assert verified(signed_by, FILE) == verified(signed_by, FILE.removesuffix(b"\n"))
    assert verified(signed_by, FILE) == VerifiedExport("s1", 3, ExportKey(KEY).public)


def test_every_changed_byte_shows_in_its_line() -> None:
    for place, byte in enumerate(FILE[:-1]):
        changed = FILE[:place] + bytes([byte ^ 1]) + FILE[place + 1 :]
        found = verified(signed_by, changed)
        assert isinstance(found, BrokenExport), place
        assert found.line == FILE[:place].count(b"\n") + 1, place


@pytest.mark.parametrize(
    "lines,line,told",
    [
        ([], 1, "line 1 was changed, or is not the one that stood there"),
        (LINES[1:], 1, "line 1 was changed"),
        (LINES[-1:], 1, "line 1, the signature, is not that of the lines before it"),
        ([*LINES[:2], *LINES[3:]], 3, "line 3 was changed, or is not the one that stood there"),
        ([LINES[0], LINES[2], LINES[1], *LINES[3:]], 2, "line 2 was changed"),
        ([*LINES[:2], LINES[1], *LINES[2:]], 3, "line 3 was changed"),
        ([*LINES[:3], LINES[-1]], 4, "line 4, the signature, is not that of the lines before it"),
        (LINES[:-1], 5, "the file ends after line 4, its signature is missing"),
        ([*LINES, b"{}\n"], 6, "line 6 stands behind the signature"),
        ([*LINES, b"\n"], 6, "line 6 stands behind the signature"),
        ([line.replace(b"\n", b"\r\n") for line in LINES], 1, "line 1 was changed"),
    ],
)
def test_a_cut_reordered_or_extended_file_shows(lines: list[bytes], line: int, told: str) -> None:
    found = verified(signed_by, b"".join(lines))
    assert isinstance(found, BrokenExport)
    assert (found.line, found.reason[: len(told)]) == (line, told)


def test_another_key_makes_another_signature() -> None:
    other = ExportKey(b"K" * 32)
    found = verified(signed_by, FILE.replace(ExportKey(KEY).public.encode(), other.public.encode()))
    assert isinstance(found, BrokenExport)
    assert found.line == len(LINES)
    # The key is not the audit key, and tells nothing of it.
    assert other.public != ExportKey(KEY).public
    assert not signed_by("no key", b"x", b"y")
    assert not signed_by("A" * 43, b"x", b"y" * 64)


def file_in(shown: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in shown.splitlines()]


def bytes_in(shown: str) -> bytes:
    return "".join(f"{line.removeprefix('  ')}\n" for line in shown.splitlines()).encode()


@pytest.mark.anyio
async def test_a_person_is_shown_a_signed_copy_and_its_decision_is_audited(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        assert NOTHING_SAID in await owner.say("/export")
        await owner.say("an old generation")
        await owner.say("/reset confirm")
        await owner.say(f"token = {SECRET}")
        await owner.say(bang("message", channel="console", recipient="nobody", text=SECRET))
        shown = await owner.say("/export")
        head, *entries, _signature = file_in(shown)
        assert isinstance(owner.app.exporter.verified(bytes_in(shown)), VerifiedExport)
        assert (head["session"], head["generation"], head["lines"]) == (owner.sid, 2, len(entries))
        assert [entry["type"] for entry in entries if entry["type"] == "user.message"] == ["user.message"] * 2
        assert "an old generation" not in shown
        assert SECRET not in shown
        assert "[redacted: secret]" in shown
        assert "agent.thinking" not in shown
        assert all(isinstance(entry["seq"], int) and entry["label"] == "PUBLIC" for entry in entries)
        rows = [row for row in await owner.app.store.audit.records("audit") if "export" in row.body]
        assert [(row.actor, row.body["verdict"], row.body["export"]) for row in rows] == [("owner", "ALLOW", owner.sid)]
        assert "Write it as `/export [SESSION]`" in await owner.say("/export a b")


@pytest.mark.anyio
async def test_one_that_does_not_fit_a_chat_is_made_at_the_command_line(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("x" * command.LARGEST)
        shown = await owner.say("/export")
        assert f"cannot be shown whole here, the owner makes it with `lockgate export {owner.sid} --out FILE`" in shown


@pytest.mark.anyio
async def test_one_that_a_rule_would_change_once_it_is_signed_is_not_shown(tmp_path: Path) -> None:
    hide = {"id": "hide", "hook": "PRE_OUTPUT", "pattern": "signed", "action": "REDACT"}
    async with running(tmp_path, policy(patterns={"signed": '"signature"'}, rules=[hide])) as owner:
        await owner.say("hello")
        shown = await owner.say("/export")
        assert "cannot be shown whole here" in shown
        assert "lockgate.export" not in shown


@pytest.mark.anyio
async def test_what_a_rule_replaces_is_replaced_before_it_is_signed(tmp_path: Path) -> None:
    hide = {"id": "hide", "hook": "PRE_OUTPUT", "pattern": "us-ssn", "action": "REDACT"}
    async with running(tmp_path, policy(rules=[hide])) as owner:
        await owner.say("mine is 536-90-4399")
        shown = await owner.say("/export")
        assert "536-90-4399" not in shown
        assert "[redacted: us-ssn]" in shown
        assert isinstance(owner.app.exporter.verified(bytes_in(shown)), VerifiedExport)


@pytest.mark.anyio
async def test_a_rule_about_labels_judges_an_export_by_all_that_is_in_it(tmp_path: Path) -> None:
    stop = {"id": "stop", "hook": "PRE_OUTPUT", "taint": ">= CONFIDENTIAL", "action": "BLOCK"}
    async with running(tmp_path, policy(rules=[stop])) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await owner.say("/export")
        (row,) = [row.body for row in await owner.app.store.audit.records("audit") if "export" in row.body]
        assert (row["verdict"], row["rules"], row["digest"]) == ("BLOCK", ["stop"], None)


@pytest.mark.anyio
async def test_numbers_and_names_of_fields_are_replaced_too(tmp_path: Path) -> None:
    hide = {"id": "hide", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "REDACT"}
    async with running(tmp_path, policy(rules=[hide])) as owner:
        await owner.say(bang("nothing", number=4111111111111111, small=5, deep=[{"4111111111111111": None}, True]))
        shown = await owner.say("/export")
        assert "4111111111111111" not in shown
        (called,) = [entry["body"] for entry in file_in(shown) if entry.get("type") == "tool.call"]
        assert called == {
            "call": called["call"],  # type: ignore[index]
            "tool": "nothing",
            "arguments": {
                "number": "[redacted: payment-card]",
                "small": 5,
                "deep": [{"[redacted: payment-card]": None}, True],
            },
        }


@pytest.mark.anyio
async def test_a_decision_names_no_label_above_its_reader(tmp_path: Path) -> None:
    ask = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["read_file"], "action": "REQUIRE_APPROVAL"}
    people = {
        "owner": principal("console:owner"),
        "boss": principal("console:boss", role="admin"),
    }
    async with running(tmp_path, policy(rules=[ask], principals=people)) as owner:
        outside = Person(owner.app, owner.output, Address("console", "guest"))
        await outside.say(bang("read_file", path="confidential/pipeline.md"))
        shown = await outside.say("/export")
        assert '"before":"PUBLIC","after":"more than may be told here"' in shown
        assert "CONFIDENTIAL" not in shown


@pytest.mark.anyio
async def test_an_operator_is_told_what_conversations_do_not_show(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("current_time"))
        app = owner.app
        here = DecisionContext(
            sid="",
            generation=0,
            turn="",
            principal="owner",
            asker="owner",
            role=Role.OWNER,
            ceiling=app.config.policy.top,
            home=HOME,
            destination=await app.gate.readers.destination(HOME),
            taint=PUBLIC,
            now=1,
        )
        state = await owner.state()
        for operator in (True, False):
            made = await app.exporter.export(here, state, whole=operator)
            assert made.text is not None
            assert ("agent.thinking" in made.text) is operator
            assert isinstance(app.exporter.verified(made.text.encode()), VerifiedExport)


@pytest.mark.anyio
async def test_an_export_is_for_the_readers_of_the_address_that_answers(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        assert "Veldhaven" in await owner.say("/export")
        outside = Person(owner.app, owner.output, Address("console", "guest"))
        refused = (await outside.say(f"/export {owner.sid}"), await outside.say("/export nonsense"))
        assert refused[0] == refused[1]
