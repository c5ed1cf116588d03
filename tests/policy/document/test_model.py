# ruff: noqa: E501 - messages are compared as they are
"""A document is read completely or refused with every problem; what it does not know it answers with the worst."""

import random
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import ValidationError

from policy.document.model import Document, defaults, load
from policy.errors import DocumentError
from policy.labels import PUBLIC, Integrity, Label, Level, parse, top
from policy.request import Effect, Role, ToolFacts, UntrustedContent
from tests.people import principal

GIVE = ", give it an entry under `policy.channels`"
TOOLS = ("read_file", "list_files", "write_file", "message")


def problems(raw: object) -> list[tuple[tuple[str | int, ...], str]]:
    """Return what is wrong with a section."""
    with pytest.raises(DocumentError) as refused:
        load(raw, tools=TOOLS)
    return [(problem.path, problem.message) for problem in refused.value.problems]


def rule(**fields: object) -> dict[str, object]:
    """Return a section with one rule that is right but for the given fields."""
    return {"rules": [{"id": "one", "hook": "PRE_OUTPUT", "action": "BLOCK", **fields}]}


def test_the_defaults_are_a_complete_policy() -> None:
    document = load({}, tools=TOOLS)
    assert document == load(defaults(), tools=())
    assert document.top == top(())
    assert document.channel("console").classification == document.top
    assert document.channel("console").overshoot == "allow"
    found = document.principal("console:owner")
    assert found is not None
    assert (found[0], found[1].role, found[1].clearance) == ("owner", Role.OWNER, document.top)
    assert document.folder("confidential").label == parse("CONFIDENTIAL~")
    assert document.provider("offline") == document.top
    assert document.rules == ()
    assert (document.paired, document.blocked, dict(document.chats)) == (None, (), {})
    assert document.channel("console").members == PUBLIC


def test_an_mcp_server_labels_what_its_tools_return() -> None:
    entries = {"git": {"floor": "INTERNAL", "integrity": "TRUSTED"}, "web": {"floor": "INTERNAL"}}
    servers = load({"mcp_servers": entries}, tools=TOOLS, servers=("git", "web")).mcp_servers
    assert servers["git"].label == Label(Level.INTERNAL, frozenset(), Integrity.TRUSTED)
    assert servers["web"].label == Label(Level.INTERNAL, frozenset(), Integrity.UNTRUSTED)


def test_what_is_not_known_is_answered_with_the_worst() -> None:
    document = load({"compartments": ["hr"]}, tools=TOOLS)
    highest = Label(Level.RESTRICTED, frozenset({"hr"}), Integrity.UNTRUSTED)
    assert document.channel("fax").classification == PUBLIC
    assert document.channel("fax").inbound == highest
    assert document.channel("fax").overshoot == "block"
    assert document.folder("secret").label == highest
    assert document.folder("secret").clearance is None
    assert document.principal("console:nobody") is None
    assert document.chat("console", "", "team") is None
    assert document.provider("unheard-of") == PUBLIC
    assert document.transcriber("unheard-of") == PUBLIC


def test_a_section_given_replaces_the_default_and_everything_is_typed() -> None:
    document = load(
        {
            "compartments": ["acme", "hr"],
            "principals": {"ann": principal("chat:ann", role="member", clearance="CONFIDENTIAL{hr}")},
            "channels": {"chat": {"classification": "INTERNAL{hr}"}},
            "recipients": {"ann": {"channel": "chat", "chat": "7", "clearance": "CONFIDENTIAL{hr,acme}"}},
            "folders": {"open": {"floor": "PUBLIC", "integrity": "TRUSTED"}},
            "models": {"anthropic:claude": {"clearance": "INTERNAL"}},
            "transcribers": {"scribe": {"clearance": "INTERNAL"}},
            "patterns": {"project": "(?i)falcon"},
            "rules": [
                {
                    "id": "all-fields",
                    "hook": "PRE_TOOL_CALL",
                    "tools": ["*_file"],
                    "channels": ["ch*"],
                    "taint": "> INTERNAL",
                    "untrusted": True,
                    "pattern": "project",
                    "action": "REQUIRE_APPROVAL",
                    "message": "ask first",
                }
            ],
        },
        tools=TOOLS,
    )
    assert list(document.channels) == ["chat"]
    assert document.channel("chat").inbound == PUBLIC
    assert document.channel("chat").overshoot == "ask"
    assert document.folder("open").label == PUBLIC
    assert document.transcriber("scribe") == parse("INTERNAL")
    (only,) = document.rules
    compiled = only.compiled()
    assert compiled.levels == {Level.CONFIDENTIAL, Level.RESTRICTED}
    assert (compiled.tools, compiled.channels, compiled.untrusted) == (("*_file",), ("ch*",), True)
    assert (compiled.pattern, compiled.message) == ("project", "ask first")


@pytest.mark.parametrize(
    "selector, levels",
    [(">= INTERNAL", "ICR"), (">CONFIDENTIAL", "R"), ("== PUBLIC", "P"), ("<=INTERNAL", "PI"), ("< INTERNAL ", "P")],
)
def test_selectors_of_levels(selector: str, levels: str) -> None:
    (only,) = load(rule(taint=selector), tools=TOOLS).rules
    assert "".join(level.name[0] for level in sorted(only.taint)) == levels


def test_nothing_of_a_document_changes() -> None:
    document = load({}, tools=TOOLS)
    with pytest.raises(ValidationError):
        document.rules = ()  # pyright: ignore[reportAttributeAccessIssue] - that is what is tested
    with pytest.raises(TypeError):
        document.channels["x"] = document.channel("x")  # pyright: ignore[reportIndexIssue] - as above


def test_every_problem_is_told_at_once_with_its_path() -> None:
    everything_wrong: dict[str, object] = {
        "rulez": [],
        "compartments": ["HR", "hr"],
        "principals": {"o": principal("consol:o", "console:a", "console:a", "x", "console:", role="ownr")},
        "channels": {"console": {"classification": "CONFIDENTAL", "overshoot": "alow", "colour": 1}, "A B": {}},
        "recipients": {"x": {"channel": "tg", "chat": 5, "clearance": "PUBLIC{hrr}"}},
        "folders": {"a/b": {"floor": 3}, "": {"floor": "top"}, "..": {"floor": "top", "integrity": "maybe"}},
        "tools": {"mesage": {"result": "X", "consequential": False}, "message": {"consequential": "yes"}},
        "models": None,
        "patterns": {"email": "x", "P": "x", "p": "(", "q": "a*", "r": "\ud800"},
        "rules": [
            {
                "id": "twice",
                "hook": "PRE_OUTPT",
                "action": "ALLOW",
                "taint": "=> X",
                "tools": ["mesage"],
                "channels": ["tg*"],
                "whenn": "x",
            },
            {"id": "twice", "hook": "PRE_OUTPUT", "action": "REDACT", "tools": ["message"], "untrusted": "yes"},
            {"id": "c", "hook": "SESSION_RESET", "action": "BLOCK", "pattern": "us-ssn", "channels": []},
            {"id": "overshoot", "hook": "PRE_OUTPUT", "action": "BLOCK", "pattern": "us-sn", "taint": "< PUBLIC"},
            {"id": "é", "hook": 3, "action": "BLOCK", "taint": ">= X", "message": 3, "schedule": {}, "when": 3},
            {"hook": "PRE_OUTPUT", "taint": "a b c", "approvers": ["boss", "guest"], "timeout": 10},
            "text",
        ],
    }
    assert problems(everything_wrong) == snapshot(
        [
            (("compartments", 0), "`HR` is not a compartment, use up to 32 lower-case letters, digits, `_` and `-`"),
            (("principals", "o", "role"), "unknown role `ownr`, did you mean `owner`?"),
            (("principals", "o", "accounts", 0), "unknown channel `consol`, did you mean `console`?"),
            (
                ("principals", "o", "accounts", 1),
                "account `console:a` is given twice, it can belong to one principal only",
            ),
            (
                ("principals", "o", "accounts", 2),
                "account `console:a` is given twice, it can belong to one principal only",
            ),
            (("principals", "o", "accounts", 3), "`x` is not an account, write one as `console:owner`"),
            (("principals", "o", "accounts", 4), "`console:` is not an account, write one as `console:owner`"),
            (("channels", "console", "classification"), "unknown level `CONFIDENTAL`, did you mean `CONFIDENTIAL`?"),
            (("channels", "console", "overshoot"), "unknown overshoot `alow`, did you mean `allow`?"),
            (
                ("channels", "console", "colour"),
                "unknown field `colour`, known are `classification`, `inbound`, `members`, `observe`, `overshoot`",
            ),
            (("channels", "A B"), "`A B` is not a name, use up to 64 lower-case letters, digits, `_` and `-`"),
            (("channels", "A B"), "`classification` is missing, add it"),
            (("recipients", "x", "channel"), f"unknown channel `tg`, known are `A B`, `console`{GIVE}"),
            (("recipients", "x", "chat"), "`5` is not a text"),
            (
                ("recipients", "x", "clearance"),
                "unknown compartment `hrr`, did you mean `hr`?, or add it to `compartments`",
            ),
            (
                ("folders", "a/b"),
                "`a/b` is not a folder, name one directly under the file root, without `/` or a leading dot",
            ),
            (
                ("folders", "a/b", "floor"),
                "`3` is not a label, write one as `CONFIDENTIAL{acme,hr}` with `~` for UNTRUSTED",
            ),
            (
                ("folders", ""),
                "`` is not a folder, name one directly under the file root, without `/` or a leading dot",
            ),
            (
                ("folders", ".."),
                "`..` is not a folder, name one directly under the file root, without `/` or a leading dot",
            ),
            (("folders", "..", "integrity"), "unknown integrity `maybe`, known are `TRUSTED`, `UNTRUSTED`"),
            (("tools", "mesage"), "unknown tool `mesage`, did you mean `message`?"),
            (
                ("tools", "mesage", "result"),
                "unknown level `X`, known are `PUBLIC`, `INTERNAL`, `CONFIDENTIAL`, `RESTRICTED`",
            ),
            (("tools", "mesage", "consequential"), "`false` would loosen the tool's declaration, leave the field out"),
            (("tools", "message", "consequential"), "`yes` is not `true` or `false`"),
            (("models",), "`None` is not a mapping"),
            (("patterns", "email"), "`email` is a built-in pattern, choose another name"),
            (("patterns", "P"), "`P` is not a name, use up to 64 lower-case letters, digits, `_` and `-`"),
            (("patterns", "p"), "`(` is not an RE2 pattern: missing ): ("),
            (("patterns", "q"), "`a*` matches the empty text, and so everywhere"),
            (("patterns", "r"), "`\\ud800` holds characters that are not Unicode"),
            (("rules", 0, "id"), "rule id `twice` is given twice, give each rule its own"),
            (("rules", 0, "hook"), "unknown hook `PRE_OUTPT`, did you mean `PRE_OUTPUT`?"),
            (("rules", 0, "action"), "unknown action `ALLOW`, known are `BLOCK`, `REQUIRE_APPROVAL`, `REDACT`"),
            (("rules", 0, "tools"), "no tool matches `mesage`, did you mean `message`?"),
            (("rules", 0, "channels"), "no channel matches `tg*`, known are `A B`, `console`"),
            (
                ("rules", 0, "taint"),
                "`=> X` has no known operator, write one of `>=`, `>`, `==`, `<=`, `<` before a level",
            ),
            (
                ("rules", 0, "whenn"),
                "unknown field `whenn`, did you mean `when`?",
            ),
            (("rules", 1, "id"), "rule id `twice` is given twice, give each rule its own"),
            (
                ("rules", 1, "tools"),
                "no tool is called at hook `PRE_OUTPUT`, so the rule could never apply, leave `tools` out",
            ),
            (("rules", 1, "untrusted"), "`yes` is not `true` or `false`"),
            (
                ("rules", 1, "pattern"),
                "`REDACT` has nothing to replace, give a `pattern`, known are `P`, `email`, `iban`, `p`, `payment-card`, `phone`, `q`, `r`, `secret`, `us-ssn`",
            ),
            (("rules", 2, "channels"), "an empty list selects nothing, name a channel or leave the list out"),
            (
                ("rules", 2, "pattern"),
                "there is no content at hook `SESSION_RESET`, so the rule could never apply, leave `pattern` out",
            ),
            (("rules", 3, "id"), "`overshoot` is a fixed rule, choose another id"),
            (("rules", 3, "taint"), "no level is `< PUBLIC`, so the rule could never apply"),
            (("rules", 3, "pattern"), "unknown pattern `us-sn`, did you mean `us-ssn`?"),
            (("rules", 4, "id"), "`é` is not a name, use up to 64 lower-case letters, digits, `_` and `-`"),
            (
                ("rules", 4, "hook"),
                "unknown hook `3`, known are `PRE_CONTEXT_INJECTION`, `PRE_TOOL_CALL`, `POST_TOOL_RESPONSE`, `PRE_OUTPUT`, `SECRET_ACCESS`, `SESSION_RESET`, `AGENT_INVOCATION`, `MCP_TOOL_CALL`",
            ),
            (("rules", 4, "taint"), "unknown level `X`, known are `PUBLIC`, `INTERNAL`, `CONFIDENTIAL`, `RESTRICTED`"),
            (("rules", 4, "schedule"), "a schedule needs a `zone`, such as `Europe/Berlin` or `UTC`"),
            (("rules", 4, "message"), "`3` is not a text"),
            (("rules", 5), "`id` is missing, add it"),
            (("rules", 5), "`action` is missing, add it"),
            (
                ("rules", 5, "taint"),
                "`a b c` has no known operator, write one of `>=`, `>`, `==`, `<=`, `<` before a level",
            ),
            (("rules", 5, "approvers", 0), "unknown role `boss`, known are `owner`, `admin`, `approver`, `member`"),
            (("rules", 5, "approvers", 1), "unknown role `guest`, known are `owner`, `admin`, `approver`, `member`"),
            (("rules", 5, "timeout"), "`10` is not a time, write one as `30s`, `10m`, `2h` or `1d`"),
            (("rules", 6), "`text` is not a mapping"),
            (("rulez",), "unknown field `rulez`, did you mean `rules`?"),
        ]
    )


def test_a_chat_is_found_by_its_channel_workspace_and_id() -> None:
    team = {"channel": "console", "chat": "-7", "classification": "INTERNAL"}
    document = load({"chats": {"team": team, "crew": {**team, "workspace": "T1", "blocked": True}}}, tools=TOOLS)
    found, other = document.chat("console", "", "-7"), document.chat("console", "T1", "-7")
    assert found is not None
    assert other is not None
    assert (found.classification, found.inbound, found.members_vouched, found.blocked) == (
        parse("INTERNAL"),
        None,
        False,
        False,
    )
    assert other.blocked
    assert document.chat("console", "T2", "-7") is None


def test_a_chat_trusts_all_its_members_only_if_it_says_so() -> None:
    team = {"channel": "console", "chat": "-7", "classification": "INTERNAL"}
    chats = {"team": team, "crew": {**team, "chat": "8", "unsafe_trust_all_members": True}}
    document = load({"chats": chats}, tools=TOOLS)
    assert [chat.unsafe_trust_all_members for chat in document.chats.values()] == [False, True]


def test_a_tool_is_for_the_roles_that_are_named() -> None:
    document = load(
        {"tools": {"message": {"roles": ["admin", "owner"]}, "read_file": {"result": "INTERNAL"}}}, tools=TOOLS
    )
    declared = ToolFacts("message", Effect.SEND, PUBLIC)
    assert document.tool(declared).roles == {Role.ADMIN, Role.OWNER}
    assert document.tool(replace(declared, name="read_file")).roles is None
    offered = [role for role in Role if document.offers("message", role)]
    assert offered == [Role.OWNER, Role.ADMIN]
    assert document.offers("read_file", Role.STRANGER)
    assert document.offers("write_file", Role.STRANGER)


@pytest.mark.parametrize(
    "roles, why",
    [
        ([], "an empty list names nobody, name a role or leave the list out"),
        (["boss"], "unknown role `boss`, known are `owner`, `admin`, `approver`, `member`, `guest`, `stranger`"),
    ],
)
def test_the_roles_of_a_tool_are_named(roles: list[str], why: str) -> None:
    with pytest.raises(DocumentError) as raised:
        load({"tools": {"message": {"roles": roles}}}, tools=TOOLS)
    assert [problem.message for problem in raised.value.problems] == [why]


@pytest.mark.parametrize(
    "channel, chat, observed",
    [({}, {}, 0), ({"observe": 7}, {}, 7), ({"observe": 7}, {"observe": 0}, 0), ({}, {"observe": 50}, 50)],
)
def test_a_chat_is_observed_as_it_says_or_else_as_its_channel_does(
    channel: dict[str, object], chat: dict[str, object], observed: int
) -> None:
    here = {"channel": "console", "chat": "crew", "classification": "INTERNAL", **chat}
    shut = {"channel": "console", "chat": "shut", "classification": "INTERNAL", "observe": 9, "blocked": True}
    channels = {"console": {"classification": "top", **channel}}
    document = load({"channels": channels, "chats": {"crew": here, "shut": shut}}, tools=TOOLS)
    assert document.observed("console", "", "crew") == observed
    assert document.observed("console", "", "shut") == 0
    assert document.observed("console", "", "unknown") == 0


@pytest.mark.parametrize("number", [-1, 51, True, "7", 1.5, None])
def test_how_much_is_observed_is_a_small_number(number: object) -> None:
    with pytest.raises(DocumentError, match="is not a number of texts, write one from 0 to 50"):
        load({"channels": {"console": {"classification": "top", "observe": number}}}, tools=TOOLS)


def test_a_blocked_account_belongs_to_nobody() -> None:
    document = load({"blocked": ["console:owner"]}, tools=TOOLS)
    assert document.principal("console:owner") is None
    assert "owner" in document.principals


def test_what_is_wrong_with_people_and_chats_is_told_with_the_nearest_names() -> None:
    team = {"channel": "console", "chat": "-7", "classification": "INTERNAL"}
    wrong = {
        "paired": {"role": "owner", "clearanse": "PUBLIC"},
        "blocked": ["consol:x", "x"],
        "channels": {"console": {"classification": "top", "memberz": "PUBLIC"}},
        "chats": {
            "A:b": {**team, "chat": "8", "channel": "konsole"},
            "team": {**team, "classifikation": "top"},
            "few": {"channel": "console"},
        },
        "recipients": {"owner": {"channel": "console", "chat": "owner", "clearance": "top", "workspaze": ""}},
    }
    assert problems(wrong) == snapshot(
        [
            (("paired", "role"), "unknown role `owner`, known are `admin`, `approver`, `member`, `guest`"),
            (("paired",), "`clearance` is missing, add it"),
            (("paired", "clearanse"), "unknown field `clearanse`, did you mean `clearance`?"),
            (("blocked", 0), "unknown channel `consol`, did you mean `console`?"),
            (("blocked", 1), "`x` is not an account, write one as `console:owner`"),
            (("channels", "console", "memberz"), "unknown field `memberz`, did you mean `members`?"),
            (("chats", "A:b"), "`A:b` is not a name, use up to 64 lower-case letters, digits, `_` and `-`"),
            (("chats", "A:b", "channel"), "unknown channel `konsole`, did you mean `console`?"),
            (("chats", "team", "classifikation"), "unknown field `classifikation`, did you mean `classification`?"),
            (("chats", "few"), "`chat` is missing, add it"),
            (("chats", "few"), "`classification` is missing, add it"),
            (("recipients", "owner", "workspaze"), "unknown field `workspaze`, did you mean `workspace`?"),
        ]
    )
    assert problems({"chats": {"team": team, "crew": team}}) == snapshot(
        [(("chats",), "`team` and `crew` are the same chat, keep one of them")]
    )


@pytest.mark.parametrize("raw", [None, [], "text", 3])
def test_a_section_is_a_mapping(raw: object) -> None:
    assert problems(raw) == [((), f"`{raw}` is not a mapping")]


def test_keys_are_texts() -> None:
    assert problems({1: 2}) == [((1,), "`1` is not a text")]
    assert problems({"models": {3: {"clearance": "top"}}}) == [(("models", 3), "`3` is not a text")]


def test_what_is_wrong_with_a_default_left_in_place_is_told() -> None:
    assert problems({"channels": {"chat": {"classification": "top"}}}) == snapshot(
        [
            (("principals", "owner", "accounts", 0), f"unknown channel `console`, known are `chat`{GIVE}"),
            (("recipients", "owner", "channel"), f"unknown channel `console`, known are `chat`{GIVE}"),
            (("recipients", "guest", "channel"), f"unknown channel `console`, known are `chat`{GIVE}"),
        ]
    )


def test_the_workspace_is_no_configured_folder() -> None:
    ((path, message),) = problems({"folders": {"workspace": {"floor": "PUBLIC"}}})
    assert path == ("folders", "workspace")
    assert message == "`workspace` is every session's own folder, choose another name"


def test_too_many_patterns() -> None:
    patterns = {f"p{number}": "x" for number in range(101)}
    assert problems({"patterns": patterns}) == [(("patterns",), "101 patterns are more than 100, join some with `|`")]


@pytest.mark.parametrize("names", [("build-id", "build_id"), ("us_ssn",)])
def test_two_patterns_do_not_share_a_variable_of_conditions(names: tuple[str, ...]) -> None:
    ((path, message),) = problems({"patterns": dict.fromkeys(names, "x")})
    variable = f"has_{names[-1]}"
    assert path == ("patterns",)
    assert message.endswith(f"and `{names[-1]}` would both be `{variable}` in conditions, rename one")


def test_a_message_fits_any_terminal() -> None:
    ((_, message),) = problems(rule(hook="\x1b[2J\ud800" + "x" * 100_000))
    assert message.isprintable()
    assert len(message) < 500


_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(("top", "PUBLIC", "hr"))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(("id", "floor", "accounts", "channel")), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from((*defaults(), "x")), _VALUES))
def test_whatever_is_given_is_read_or_refused_in_sentences(raw: dict[str, object]) -> None:
    try:
        document = load(raw, tools=TOOLS)
    except DocumentError as refused:
        for problem in refused.problems:
            assert problem.message.isprintable()
            assert not problem.message.endswith(".")
    else:
        assert len(document.digest) == 64


def _reversed(raw: Mapping[str, object]) -> dict[str, object]:
    return {name: raw[name] for name in reversed(list(raw))}


@given(st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_order(chance: random.Random) -> None:
    rules = [
        {"id": "a", "hook": "PRE_OUTPUT", "action": "BLOCK", "channels": ["console", "c*"], "taint": ">= INTERNAL"},
        {"id": "b", "hook": "PRE_TOOL_CALL", "action": "BLOCK", "tools": ["message"], "untrusted": False},
        {"id": "c", "hook": "PRE_OUTPUT", "action": "REDACT", "pattern": "email"},
    ]
    raw = {**defaults(), "compartments": ["a", "b", "c"], "rules": rules}
    digest = load(raw, tools=TOOLS).digest
    chance.shuffle(rules)
    assert load(_reversed({**raw, "compartments": ["c", "b", "a"]}), tools=TOOLS).digest == digest


@pytest.mark.parametrize(
    "other",
    [
        {"compartments": ["hr"]},
        {"models": {"offline": {"clearance": "INTERNAL"}}},
        {"channels": {"console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "block"}}},
        {"patterns": {"x": "y"}},
        {"paired": {"role": "member", "clearance": "INTERNAL"}},
        {"blocked": ["console:x"]},
        {"chats": {"team": {"channel": "console", "chat": "7", "classification": "PUBLIC"}}},
        rule(),
    ],
)
def test_the_digest_tells_policies_apart(other: dict[str, object]) -> None:
    assert load(other, tools=TOOLS).digest != load({}, tools=TOOLS).digest
    assert load(rule(), tools=TOOLS).digest != load(rule(action="REQUIRE_APPROVAL"), tools=TOOLS).digest


def test_a_chat_overshoots_as_its_channel_unless_it_says_otherwise() -> None:
    chats = {
        "quiet": {"channel": "chat", "chat": "7", "classification": "PUBLIC", "overshoot": "block"},
        "plain": {"channel": "chat", "chat": "8", "classification": "PUBLIC"},
    }
    channels = {"chat": {"classification": "top"}}
    document = load({"channels": channels, "principals": {}, "recipients": {}, "chats": chats}, tools=TOOLS)
    assert [document.overshoot("chat", "", chat) for chat in "789"] == ["block", "ask", "ask"]
    assert document.overshoot("fax", "", "7") == "block"


def _with_tool(**override: object) -> Document:
    return load({"compartments": ["hr"], "tools": {"message": override}}, tools=TOOLS)


def test_an_operator_can_only_tighten_a_tool() -> None:
    declared = ToolFacts("message", Effect.SEND, parse("INTERNAL"), parse("CONFIDENTIAL{hr}"))
    changed = _with_tool(result="PUBLIC~", clearance="RESTRICTED", consequential=True).tool(declared)
    assert changed == ToolFacts("message", Effect.SEND, parse("INTERNAL~"), parse("CONFIDENTIAL"), consequential=True)
    assert _with_tool().tool(declared) == declared
    assert load({}, tools=TOOLS).tool(declared) == declared
    assert _with_tool(consequential=True).tool(declared).consequential
    assert _with_tool(result="PUBLIC").tool(ToolFacts("message", Effect.SEND, PUBLIC, consequential=True)).consequential


_SERVED = ("mail__send", "notes__write", "message", "read_file")


def _with_content(tool: str, value: str, **server: object) -> Document:
    servers = {"mail": {"floor": "PUBLIC"}, "notes": {"floor": "PUBLIC", **server}}
    said = {"mcp_servers": servers, "tools": {tool: {"untrusted_content": value}}}
    return load(said, tools=_SERVED, servers=["mail", "notes"])


@pytest.mark.parametrize(
    "tool, value", [("mail__send", "ask"), ("mail__send", "allow"), ("message", "mark"), ("message", "ask")]
)
def test_an_operator_says_how_a_tool_treats_untrusted_content(tool: str, value: str) -> None:
    declared = ToolFacts(tool, Effect.SEND, PUBLIC, server=tool.partition("__")[0] if "__" in tool else "")
    document = _with_content(tool, value)
    assert document.tool(declared).untrusted_content is UntrustedContent(value)
    assert declared.untrusted_content is None


@pytest.mark.parametrize(
    "tool, value, server, wrong",
    [
        ("message", "allow", {}, "is marked at least, use `mark` or `ask`"),
        ("read_file", "ask", {}, "the content of `read_file` keeps its label, leave `untrusted_content` out"),
        ("mail__send", "mark", {}, "a server does not mark the texts that `mail__send` writes, use `ask` or `allow`"),
        ("notes__write", "allow", {"integrity": "TRUSTED"}, "would come back as TRUSTED from its server"),
        ("notes__write", "alow", {}, "unknown untrusted_content `alow`, did you mean `allow`?"),
    ],
)
def test_a_treatment_that_a_tool_cannot_have_is_refused(
    tool: str, value: str, server: dict[str, object], wrong: str
) -> None:
    with pytest.raises(DocumentError, match=re.escape(wrong)):
        _with_content(tool, value, **server)
    assert _with_content("notes__write", "ask", integrity="TRUSTED").tools["notes__write"].untrusted_content


def test_an_operator_labels_a_tool_that_has_no_label() -> None:
    assert _with_tool(result="INTERNAL").tool(ToolFacts("message", Effect.READ, None)).result == parse("INTERNAL")
    assert _with_tool(clearance="INTERNAL").tool(ToolFacts("message", Effect.READ, None)).clearance == parse(
        "INTERNAL~"
    ).meet(parse("INTERNAL"))


@pytest.mark.parametrize("effect", [Effect.SEND, Effect.WRITE])
def test_an_unknown_sink_stays_public(effect: Effect) -> None:
    assert _with_tool(clearance="top").tool(ToolFacts("message", effect, PUBLIC)).clearance == PUBLIC


@pytest.mark.parametrize("hook", ["PRE_CONTEXT_INJECTION", "POST_TOOL_RESPONSE", "AGENT_INVOCATION", "SESSION_RESET"])
def test_a_rule_cannot_ask_where_nobody_can_be_asked(hook: str) -> None:
    rule = {"id": "r", "hook": hook, "action": "REQUIRE_APPROVAL"}
    with pytest.raises(DocumentError, match=f"nobody can be asked at hook `{hook}`, use `BLOCK` there"):
        load({"rules": [rule]}, tools=["read_file"])


def _asking(**fields: object) -> dict[str, object]:
    return rule(action="REQUIRE_APPROVAL", **fields)


def test_a_rule_that_asks_says_whom_and_for_how_long() -> None:
    (plain,) = load(_asking(), tools=TOOLS).rules
    assert (plain.approvers, plain.timeout) == ((Role.OWNER, Role.ADMIN, Role.APPROVER), None)
    document = load(_asking(approvers=["admin"], timeout="2h"), tools=TOOLS)
    found = document.rule("one")
    assert found is not None
    assert (found.approvers, found.timeout) == ((Role.ADMIN,), 7200)
    assert document.rule("two") is None
    assert document.digest != load(_asking(approvers=["admin"], timeout="1h"), tools=TOOLS).digest


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"approvers": []}, "an empty list names nobody, name a role or leave the list out"),
        ({"timeout": "0m"}, "`0m` is not a time, write one as `30s`, `10m`, `2h` or `1d`"),
        ({"timeout": "8d"}, "`8d` is longer than a question may stand, which is `7d`"),
        ({"action": "BLOCK", "approvers": ["admin"]}, "only `REQUIRE_APPROVAL` asks people, leave `approvers` out"),
        (
            {"action": "BLOCK", "may_be_granted": True},
            "only `REQUIRE_APPROVAL` asks people, leave `may_be_granted` out",
        ),
        ({"action": "BLOCK", "timeout": "5m"}, "only `REQUIRE_APPROVAL` asks people, leave `timeout` out"),
    ],
)
def test_whom_a_rule_asks_is_checked_at_load(fields: dict[str, object], told: str) -> None:
    ((_, message),) = problems(rule(**{"action": "REQUIRE_APPROVAL", **fields}))
    assert message == told


def test_a_rule_may_be_granted_only_if_it_says_so() -> None:
    asks = {"hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL"}
    rules = [{"id": "a", **asks, "may_be_granted": True}, {"id": "b", **asks}]
    made = load({"rules": rules}, tools=())
    assert [made.may_be_granted(name) for name in ("a", "b", "none")] == [True, False, False]


def test_an_alias_may_have_a_place_on_each_of_several_channels() -> None:
    console = {"channel": "console", "chat": "ann", "clearance": "PUBLIC"}
    channels = {"console": {"classification": "top"}, "chat": {"classification": "top"}}
    there = {"channel": "chat", "chat": "7", "clearance": "INTERNAL"}
    document = load({"channels": channels, "recipients": {"ann": [console, there], "ben": console}}, tools=TOOLS)
    assert [place.channel for place in document.places] == ["console", "chat", "console"]
    assert [len(places) for places in document.recipients.values()] == [2, 1]
    wrong = {
        "none": [],
        "twice": [console, {**console, "chat": "other"}],
        "typo": [console, {**there, "chatroom": "chat"}],
        "text": "ann",
        "texts": ["ann"],
    }
    assert problems({"channels": channels, "recipients": wrong}) == snapshot(
        [
            (
                ("recipients", "none"),
                "an empty list names no place, write one as `{channel: console, chat: owner, clearance: top}`",
            ),
            (("recipients", "twice"), "an alias has one place on a channel, and this one has more on `console`"),
            (("recipients", "typo", 1, "chatroom"), "unknown field `chatroom`, did you mean `chat`?"),
            (("recipients", "text"), "`ann` is not a mapping"),
            (("recipients", "texts", 0), "`ann` is not a mapping"),
        ]
    )


def test_the_strictest_setting_of_hold_counts_of_a_tool_its_server_and_all() -> None:
    sections = {
        "mcp_servers": {
            "notes": {"floor": "INTERNAL", "hold": "untrusted"},
            "keys": {"floor": "INTERNAL", "hold": True},
        },
        "tools": {"message": {"hold": "untrusted"}, "notes__find": {"hold": True}},
    }
    document = load(sections, tools=(*TOOLS, "notes__find"), servers=["notes", "keys"])
    places = [("message", ""), ("notes__find", "notes"), ("notes__read", "notes"), ("keys__list", "keys"), ("x", "")]
    assert [document.holds(*place) for place in places] == [False, True, False, True, False]
    assert [document.spares(*place) for place in places] == [True, True, True, False, False]
    assert document.tool(ToolFacts("message", Effect.SEND, PUBLIC)).spared
    assert not document.tool(ToolFacts("x", Effect.READ, PUBLIC)).spared
    everything = load({"hold": "untrusted"}, tools=TOOLS)
    assert everything.spares("x")
    assert everything.tool(ToolFacts("x", Effect.READ, PUBLIC)).spared


@pytest.mark.parametrize("value", [False, "trusted", 1, "true"])
def test_hold_is_set_and_not_unset(value: object) -> None:
    with pytest.raises(DocumentError, match="write `true` to hold all results, `untrusted`"):
        _with_tool(hold=value)


def _listing(**labels: str) -> dict[str, object]:
    return {"argument": "channel", "labels": labels}


def test_only_a_listed_identifier_lowers_the_label_of_a_result() -> None:
    document = _with_tool(result="CONFIDENTIAL{hr}~", results=_listing(C1="INTERNAL", C2="PUBLIC~"))
    declared = ToolFacts("message", Effect.READ, PUBLIC)

    def result(identifier: str) -> Label | None:
        return document.tool(replace(declared, identifier=identifier)).result

    assert [result(one) for one in ("C1", "C2", "C3", "")] == [
        parse("INTERNAL"),
        parse("PUBLIC~"),
        parse("CONFIDENTIAL{hr}~"),
        parse("CONFIDENTIAL{hr}~"),
    ]
    assert document.listed("message", {"channel": "C1"}) == "C1"
    found = [document.listed("message", one) for one in ({"channel": "C3"}, {"channel": ["C1"]}, {"to": "C1"})]
    assert found == ["", "", ""]
    assert document.listed("x", {"channel": "C1"}) == _with_tool().listed("message", {"channel": "C1"}) == ""
    assert document.tool(replace(declared, result=parse("INTERNAL{hr}"), identifier="C1")).result == parse(
        "INTERNAL{hr}"
    )


@pytest.mark.parametrize(
    "override,problem",
    [
        ({"results": _listing(C1="PUBLIC")}, "`results` needs `result`"),
        ({"result": "INTERNAL", "results": _listing(C1="CONFIDENTIAL")}, "the label of `C1` is above `result`"),
        ({"result": "INTERNAL", "results": _listing(C1="PUBLIC~")}, "the label of `C1` is above `result`"),
    ],
)
def test_a_listed_label_is_never_above_that_of_all_others(override: dict[str, object], problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        _with_tool(**override)


@pytest.mark.parametrize(
    "values,problem",
    [
        ([], "from 1 to 200 values, each once"),
        (["a", "a"], "from 1 to 200 values, each once"),
        ([str(number) for number in range(201)], "from 1 to 200 values, each once"),
        ([""], "from 1 to 64 printable characters"),
        (["a\nb"], "from 1 to 64 printable characters"),
        (["a" * 65], "from 1 to 64 printable characters"),
    ],
)
def test_a_list_of_values_is_short_and_plain(values: list[str], problem: str) -> None:
    assert load({"lists": {"channels": ["general"]}}, tools=TOOLS).lists["channels"] == ("general",)
    with pytest.raises(DocumentError, match=problem):
        load({"lists": {"channels": values}}, tools=TOOLS)


def test_labels_are_listed_by_an_argument_that_the_tool_has() -> None:
    override = {"result": "INTERNAL", "results": _listing(C1="PUBLIC")}
    sections: dict[str, object] = {"tools": {"message": override}, "recipients": {}}
    assert load(sections, tools={"message": {"channel": "string"}}).listed("message", {"channel": "C1"}) == "C1"
    with pytest.raises(DocumentError, match="unknown argument `channel`"):
        load(sections, tools={"message": {"to": "string"}})


def test_a_copy_with_other_people_looks_accounts_up_among_these() -> None:
    document = load({"principals": {"owner": principal("console:owner")}}, tools=TOOLS)
    assert document.principal("console:owner") == ("owner", document.principals["owner"])
    other = document.principals["owner"].model_copy(update={"accounts": ("console:other",)})
    copy = document.model_copy(update={"principals": {"other": other}})
    assert copy.principal("console:other") == ("other", other)
    assert copy.principal("console:owner") is None
    assert document.principal("console:other") is None


def test_a_policy_that_was_asked_for_an_account_is_the_same_policy() -> None:
    asked, unasked = (load({"principals": {"owner": principal("console:owner")}}, tools=TOOLS) for _ in range(2))
    asked.principal("console:owner")
    assert asked == unasked
    assert asked.digest == unasked.digest
