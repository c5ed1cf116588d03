"""Secrets by reference: read from outside, granted by name, tool and host, and never to be seen in what comes back."""

import base64
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.app.extensions import Extensions
from bot.config.load import load_config
from bot.config.references import references
from bot.config.secrets import SecretSettings
from bot.core.errors import ConfigError, OperatorError
from bot.gate.results import explained
from bot.secrets import SHORTEST, GrantedSecret, Keyring
from bot.sessions.log.event_types import ToolCall
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.tools.catalogue import NAMES
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC
from policy.request import Hook
from tests.bot.kit import (
    CONFIDENTIAL,
    Probe,
    Scripted,
    TextArguments,
    bang,
    blocked_by,
    call,
    gate,
    parts,
    standing,
)
from tests.harness import running

VALUE = 'k3y+/="\\ü<b>_x*_y'
TRACE = "ü<b>_x*_y"
"""A part of it that looks the same in whatever Python or JSON shows of a text."""

HOST = "api.example.com"
RING = Keyring({"weather": GrantedSecret(VALUE, frozenset({"probe"}), frozenset({HOST}))})


def load(folder: Path, environment: dict[str, str] | None = None, **entry: object) -> Keyring:
    return Keyring.load({"weather": SecretSettings.model_validate(entry)}, environment or {}, folder)


# --- where values come from ------------------------------------------------------------------------


def test_a_value_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text(f"{VALUE}\n", "utf-8")
    for ring in (load(tmp_path, {"KEY": VALUE}, env="KEY"), load(tmp_path, file="key.txt")):
        assert ring.filled("a ${secret:weather} b") == f"a {VALUE} b"


@pytest.mark.parametrize(
    "environment, entry, told",
    [
        ({}, {"env": "KEY"}, "the environment variable `KEY` is not set"),
        ({"KEY": ""}, {"env": "KEY"}, "`KEY` is empty"),
        ({"KEY": " \n"}, {"env": "KEY"}, "`KEY` is empty"),
        ({"KEY": "topsekr"}, {"env": "KEY"}, f"fewer than {SHORTEST} characters"),
        ({"KEY": "x" * 65_000}, {"env": "KEY"}, "more than 64000 characters"),
        ({}, {"file": "nothing.txt"}, "cannot be read, no such file"),
        ({}, {"file": "."}, "cannot be read, is a directory"),
        ({}, {"file": "latin.txt"}, "is not UTF-8"),
    ],
)
def test_a_missing_value_is_named_and_never_shown(
    tmp_path: Path, environment: dict[str, str], entry: dict[str, str], told: str
) -> None:
    (tmp_path / "latin.txt").write_bytes(b"topsekr\xfft")
    with pytest.raises(OperatorError) as caught:
        load(tmp_path, environment, **entry)
    assert told in str(caught.value)
    assert str(caught.value).startswith("secret `weather`: ")
    assert "topsekr" not in str(caught.value)


@pytest.mark.parametrize(
    "written, told",
    [
        ("a: {value: x}", "`value`"),
        ("a: {}", "give either `env`"),
        ("a: {env: A, file: b}", "give either `env`"),
        ("A b: {env: A}", "`A b` is not a name"),
        ("a: {env: A, toolz: []}", "unknown field `toolz`, did you mean `tools`?"),
        ("a: {env: A, tools: [read_fil]}", "unknown tool `read_fil`, did you mean `read_file`?"),
        ("a: {env: A, hosts: [https://x]}", "`https://x` is not a host"),
        ("a: {env: A, hosts: ['*']}", "`*` is not a host"),
        ("a: {env: 3}", "must be a text"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_by_line(tmp_path: Path, written: str, told: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"secrets:\n  {written}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {}, NAMES)
    assert told in str(caught.value)
    assert "config.yaml:2:" in str(caught.value)


async def _opened(folder: Path) -> None:
    async with running(folder, "secrets: {weather: {env: NOT_SET}}\n"):
        pass


@pytest.mark.anyio
async def test_nothing_starts_without_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="`NOT_SET` is not set"):
        await _opened(tmp_path)


# --- who may use them ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, tool, host, granted",
    [
        ("weather", "probe", HOST, True),
        ("weather", "probe", "", True),
        ("weather", "probe", "evil.example", False),
        ("weather", "probe", f"{HOST}:8443", False),
        ("weather", "probe", f"{HOST}.evil.example", False),
        ("weather", "other", HOST, False),
        ("weather", "other", "", False),
        ("whatever", "probe", HOST, False),
    ],
)
def test_a_secret_is_granted_by_name_tool_and_host(name: str, tool: str, host: str, *, granted: bool) -> None:
    assert RING.grants(name, tool, host) is granted


def test_a_reference_is_found_whole() -> None:
    text = "Bearer ${secret:a} ${secret:b-c} ${secret:a} ${secret:} $secret:a ${secret:A} ${secret:a"
    assert references(text) == ("a", "b-c")


# --- what comes back -------------------------------------------------------------------------------

FORMS = {
    "plain": VALUE,
    "json": json.dumps(VALUE),
    "json in utf-8": json.dumps(VALUE, ensure_ascii=False),
    "json with slashes": json.dumps(VALUE).replace("/", r"\/"),
    "html": html.escape(VALUE),
    "url": quote(VALUE, safe=""),
    "url path": quote(VALUE),
    "form": quote_plus(VALUE),
    "small url": re.sub("%..", lambda code: code[0].lower(), quote(VALUE, safe="")),
    "hex": VALUE.encode().hex(),
    "big hex": VALUE.encode().hex().upper(),
    "base64": base64.b64encode(VALUE.encode()).decode(),
    "url base64": base64.urlsafe_b64encode(VALUE.encode()).decode(),
    "markdown": VALUE.replace("_", r"\_").replace("*", r"\*"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_echo_is_scrubbed_in_every_usual_form(form: str) -> None:
    scrubbed = RING.scrub(f"you sent {form} to us")
    assert scrubbed.startswith("you sent ")
    assert scrubbed.endswith(" to us")
    assert "[secret: weather]" in scrubbed
    assert VALUE[:6] not in scrubbed
    assert base64.b64encode(VALUE.encode()).decode()[4:14] not in scrubbed


@given(st.text(max_size=9), st.text(max_size=9), st.text(min_size=SHORTEST, max_size=40))
def test_a_value_within_a_longer_base64_is_scrubbed(before: str, behind: str, value: str) -> None:
    raw = value.encode("utf-8", "surrogatepass")
    ring = Keyring({"weather": GrantedSecret(raw.decode("utf-8", "surrogateescape"), frozenset(), frozenset())})
    written = base64.b64encode(
        before.encode("utf-8", "surrogatepass") + raw + behind.encode("utf-8", "surrogatepass")
    ).decode()
    assert "[secret: weather]" in ring.scrub(written)


def test_the_longer_of_two_secrets_is_scrubbed_whole() -> None:
    def held(value: str) -> GrantedSecret:
        return GrantedSecret(value, frozenset(), frozenset())

    ring = Keyring({"short": held("abcdefgh"), "long": held("abcdefghijkl")})
    assert ring.scrub("abcdefghijkl abcdefgh") == "[secret: long] [secret: short]"


@given(st.lists(st.sampled_from(["aaaa", "abba", "a", "b", " "]), max_size=9).map("".join), st.integers(0, 20))
def test_what_is_cut_is_scrubbed_as_the_whole_is(text: str, most: int) -> None:
    ring = Keyring(
        {"one": GrantedSecret("aaaa", frozenset(), frozenset()), "two": GrantedSecret("abba", frozenset(), frozenset())}
    )
    cut = ring.scrub(text, most)
    assert ring.scrub(text).startswith(cut)
    assert ring.scrub(text[: most + ring.longest], most) == cut


def test_without_secrets_nothing_is_scrubbed() -> None:
    assert Keyring().scrub("[anything]") == "[anything]"
    assert Keyring().scrub("[anything]", 4) == "[any"
    assert Keyring().longest == 0


def test_a_secret_does_not_show_itself() -> None:
    assert TRACE not in repr(GrantedSecret(VALUE, frozenset(), frozenset()))


# --- through the gate ------------------------------------------------------------------------------


def user(host: str = HOST, *, echo: bool = True) -> Probe:
    """Return a tool that uses the secrets its text refers to for a host, and says what it used."""

    async def use(arguments: TextArguments, _context: ToolContext, services: ToolServices) -> Result:
        filled = await services.reveal(arguments.text, host)
        if filled is None:
            return Result("not revealed", failed=True)
        return Result(f"sent {filled}" if echo else str(len(filled)))

    return Probe(declared=CallFacts(secrets=(("weather", HOST),)), does=use)


CONFIG = {"secrets": {"weather": {"file": "key.txt", "tools": ["read_file"], "hosts": [HOST]}}}


def config(folder: Path, **policies: object) -> str:
    (folder / "key.txt").write_text(VALUE, "utf-8")
    return json.dumps({**CONFIG, "policy": policies})


def parts_of(probe: Probe) -> Extensions:
    probe.name = "read_file"  # the configuration knows the built-in names alone
    return parts(probe)


@pytest.mark.anyio
async def test_a_tool_gets_the_value_and_nobody_else_does(tmp_path: Path) -> None:
    probe = user()
    async with running(tmp_path, config(tmp_path), parts=parts_of(probe)) as owner:
        shown = await owner.say(bang("read_file", text="Bearer ${secret:weather}"))
        assert "sent Bearer [secret: weather]" in shown
        log = await owner.events()
        records = [record async for record in owner.app.chains.records(owner.sid)]
        everything = f"{shown}{log}{records}{await owner.app.store.outbox.deliveries(owner.sid)}"
        assert TRACE not in everything
        hooks = [(row.body.get("hook"), row.body.get("secret")) for row in records]
        assert ("SECRET_ACCESS", "weather") in hooks
        called = [event.body.arguments for event in log if isinstance(event.body, ToolCall)]
        assert called == [{"text": "Bearer ${secret:weather}"}]
        assert (await owner.state()).taint == PUBLIC


@pytest.mark.anyio
async def test_the_decision_is_in_the_audit_before_the_value_is_given(tmp_path: Path) -> None:
    probe = user()

    async def look(arguments: TextArguments, _context: ToolContext, services: ToolServices) -> Result:
        before = [record async for record in owner.app.chains.records(owner.sid)]
        assert not any(row.body.get("hook") == "SECRET_ACCESS" for row in before)
        filled = await services.reveal(arguments.text, HOST)
        after = [record async for record in owner.app.chains.records(owner.sid)]
        assert any(row.body.get("hook") == "SECRET_ACCESS" for row in after)
        return Result("seen" if filled == VALUE else "not seen")

    probe.does = look
    async with running(tmp_path, config(tmp_path), parts=parts_of(probe)) as owner:
        assert "seen" in await owner.say(bang("read_file", text="${secret:weather}"))


@pytest.mark.anyio
async def test_another_host_than_declared_is_refused_while_it_runs(tmp_path: Path) -> None:
    async with running(tmp_path, config(tmp_path), parts=parts_of(user("evil.example"))) as owner:
        assert "not revealed" in await owner.say(bang("read_file", text="${secret:weather}"))
        records = [record async for record in owner.app.chains.records(owner.sid)]
        asked = [row.body for row in records if row.body.get("hook") == "SECRET_ACCESS"]
        assert [(row["verdict"], row["secret"]) for row in asked] == [("BLOCK", None)]
        assert "secret_is_granted" in await owner.say("/why")


@pytest.mark.anyio
async def test_a_rule_on_the_hook_stops_the_call_before_it_begins(tmp_path: Path) -> None:
    rules = [{"id": "no-secrets", "hook": "SECRET_ACCESS", "action": "BLOCK"}]
    probe = user()
    async with running(tmp_path, config(tmp_path, rules=rules), parts=parts_of(probe)) as owner:
        shown = await owner.say(bang("read_file", text="${secret:weather}"))
        assert "Rule `no-secrets`" in shown
        assert probe.ran == []


@pytest.mark.anyio
async def test_a_secret_that_is_not_granted_is_as_one_that_does_not_exist() -> None:
    told = list[str]()
    for name in ("weather", "whatever"):
        probe = user()
        probe.declared = CallFacts(secrets=((name, "evil.example"),))
        decision = gate([probe], keyring=RING).calls.prepare(standing(), call("probe")).decision
        assert blocked_by(decision) == {"secret_is_granted"}
        told.append(explained(decision, PUBLIC, "probe"))
    assert told[0] == told[1]
    assert "name the tool and the host under `secrets`" in told[0]


@pytest.mark.anyio
async def test_what_fails_with_a_value_in_its_words_shows_none(tmp_path: Path) -> None:
    async def fail(arguments: TextArguments, _context: ToolContext, services: ToolServices) -> Result:
        raise RuntimeError(await services.reveal(arguments.text, HOST))

    probe = user()
    probe.does = fail
    async with running(tmp_path, config(tmp_path), parts=parts_of(probe)) as owner:
        await owner.say(bang("read_file", text="${secret:weather}"))
        assert TRACE not in str(await owner.events())


@pytest.mark.anyio
async def test_a_value_that_a_person_types_or_a_file_holds_is_not_kept(tmp_path: Path) -> None:
    async with running(tmp_path, config(tmp_path)) as owner:
        (tmp_path / "data" / "files" / "public" / "env.txt").write_text(f"KEY={VALUE}", "utf-8")
        shown = await owner.say(f"my key is {VALUE}")
        shown += await owner.say(bang("read_file", path="public/env.txt"))
        assert "KEY=[secret: weather]" in shown
        assert TRACE not in f"{shown}{await owner.events()}"


@pytest.mark.anyio
async def test_an_error_of_ours_is_kept_without_values(tmp_path: Path) -> None:
    broken = Scripted(RuntimeError(f"no {VALUE}"))
    async with running(tmp_path, config(tmp_path), parts=parts(model=broken)) as owner:
        await owner.say("hello")
        kept = str(await owner.events())
        assert "no [secret: weather]" in kept
        assert TRACE not in kept


@pytest.mark.anyio
async def test_what_was_said_before_it_was_a_secret_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("x" * 3995 + VALUE)
    async with running(tmp_path, config(tmp_path)) as owner:
        shown = await owner.say("/history")
        # As long as an entry of a history may be, so that the last letters would be those of the value.
        assert "x" * 3995 in shown
        assert "…" in shown
        assert VALUE[:4] not in shown


@pytest.mark.anyio
async def test_a_call_goes_on_only_to_what_reads_no_more_than_it_said() -> None:
    """Elsewhere there may be more to read than what was decided on when the call began."""
    answers = list[bool]()

    class Led(Probe):
        def declare(self, arguments: TextArguments, context: ToolContext) -> CallFacts:
            return CallFacts(result=CONFIDENTIAL if arguments.text == "high" else PUBLIC)

        async def run(self, arguments: TextArguments, context: ToolContext, services: ToolServices) -> Result:
            answers.extend([await services.onward({"text": "low"}), await services.onward({"text": "high"})])
            return Result("led")

    async def recorded(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
        assert (hook, decision.verdict, told["onward"]) == (Hook.PRE_TOOL_CALL, Verdict.ALLOW, True)

    keeper = gate([Led()])
    await keeper.run(standing(), keeper.calls.prepare(standing(), call("probe")), recorded)
    assert answers == [True, False]
