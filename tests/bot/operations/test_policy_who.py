"""The access matrix says what the gate would decide, for any policy, and names a part of the entries that suffices."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.access.authorize import Caller, Ingress, authorize
from bot.core.errors import OperatorError
from bot.gate.judge import trial
from bot.operations.policy_who import ENTRY, PAIRED, AccessRow, matrix, target, unnamed
from policy.decision import Verdict
from policy.document.groups import policy_at
from policy.document.model import Document, load
from policy.document.overrides import Overrides, Person
from policy.labels import PUBLIC, parse
from policy.request import Destination, Effect, Hook, Request, Role, ToolFacts
from tests.people import principal

NOW: Final = datetime(2030, 1, 7, 12, tzinfo=UTC)
LABELS: Final = ("PUBLIC", "INTERNAL", "CONFIDENTIAL{hr}", "INTERNAL{acme}")
ENDS: Final = (None, None, "2030-01-01", "2031-01-01")
PEOPLE: Final = ("ann", "ben")


@st.composite
def documents(draw: st.DrawFn) -> tuple[Document, Overrides]:
    """Draw a policy of two people, two groups, a chat and a folder, and people's changes."""

    def person(name: str) -> Mapping[str, object]:
        role, label = draw(st.sampled_from(("admin", "approver", "member", "guest"))), draw(st.sampled_from(LABELS))
        return {**principal(f"console:{name}", role=role, clearance=label), "until": draw(st.sampled_from(ENDS))}

    def group(*above: str) -> Mapping[str, object]:
        names = draw(st.lists(st.sampled_from((*PEOPLE, *above)), max_size=2, unique=True))
        return {
            "members": [{"name": name, "until": draw(st.sampled_from(ENDS))} for name in names],
            "role": draw(st.sampled_from((None, "member", "approver", "admin"))),
            "clearance": draw(st.sampled_from((None, *LABELS))),
            "may_release": draw(st.booleans()),
        }

    label = st.sampled_from(LABELS)
    document = load(
        {
            "compartments": ["acme", "hr"],
            "principals": {"owner": principal("console:owner"), **{name: person(name) for name in PEOPLE}},
            "groups": {"staff": group(), "team": group("staff")},
            "paired": {"role": "member", "clearance": "INTERNAL"},
            "blocked": draw(st.sampled_from(([], ["console:ann"]))),
            "chats": {
                "crew": {
                    "channel": "console",
                    "chat": "crew",
                    "classification": draw(label),
                    "blocked": draw(st.booleans()),
                }
            },
            "folders": {"files": {"floor": draw(label), "clearance": draw(label), "integrity": "TRUSTED"}},
        },
        tools=(),
    )
    role = draw(st.sampled_from((None, Role.MEMBER, Role.STRANGER)))
    changes = {"cat": Person(role, parse(draw(label)), frozenset({"console:cat"}))}
    if draw(st.booleans()):
        changes["ann"] = Person(role, parse(draw(label)))
    return document, Overrides(changes)


def rows(file: Document, document: Document, text: str) -> dict[str, AccessRow]:
    return {row.name: row for row in matrix(file, document, target(document, text), NOW)}


def decisions(document: Document) -> Callable[..., bool]:
    """Return whether the engine lets a person's session do something, by the clearances that the gate gives it."""
    decide = trial(document)

    def decided(name: str, hook: Hook, **facts: object) -> bool:
        person = document.principals.get(name)
        known = PUBLIC if person is None else person.clearance
        fields = {"taint": PUBLIC, "ceiling": known, "provider": document.top, "home": document.top, **facts}
        request = Request(hook=hook, principal=name, role=Role.MEMBER, channel="console", asker=name, **fields)  # pyright: ignore[reportArgumentType]
        return person is not None and decide(request, NOW).verdict is Verdict.ALLOW

    return decided


@given(documents())
def test_the_matrix_says_what_the_gate_decides(drawn: tuple[Document, Overrides]) -> None:
    file, overrides = drawn
    document = policy_at(file, overrides, NOW)
    decided = decisions(document)
    for name, text in product(("ann", "ben", "cat", "owner"), (*LABELS, "files", "crew")):
        asked = target(document, text)
        row = rows(file, document, text).get(name)
        has = frozenset[str]() if row is None else frozenset(row.by)
        account = f"console:{name}"
        caller = authorize(document, account, Ingress.TEXT)
        known = document.principals.get(name)
        if asked.address is None:
            reading = ToolFacts("read", Effect.READ, asked.label)
            assert ("read" in has) == decided(name, Hook.PRE_TOOL_CALL, tool=reading)
        else:
            place = Destination("x", "console", None if known is None else known.clearance)
            fits = decided(name, Hook.PRE_OUTPUT, taint=asked.label, destination=place)
            assert ("read" in has) <= fits
            assert not (document.chats["crew"].blocked and has & {"read", "say"})
        assert ("say" in has) <= isinstance(caller, Caller)
        assert ("admin" in has) == (known is not None and known.role in {Role.OWNER, Role.ADMIN})
        cleared = known is not None and asked.label.flows_to(known.clearance)
        assert ("release" in has) == (cleared and document.may_release(name))
        roles = {Role.OWNER, Role.ADMIN, Role.APPROVER}
        assert ("approve" in has) == (known is not None and cleared and known.role in roles)


@given(documents())
def test_a_reason_suffices_and_an_ended_person_has_nothing(drawn: tuple[Document, Overrides]) -> None:
    file, overrides = drawn
    document = policy_at(file, overrides, NOW)
    for text in LABELS:
        for name, row in rows(file, document, text).items():
            assert (row.role is None) == (name not in document.principals)
            assert not (row.ended and row.by)
            for right, reason in row.by.items():
                mine = [file.groups[group] for group in reason if group in file.groups]
                known = document.principals[name]
                if right == "release" and name in file.principals:
                    assert any(one.may_release for one in (file.principals[name], *mine))
                if right == "admin" and name in file.principals:
                    assert known.role in {file.principals[name].role, *(one.role for one in mine)}
                assert set(reason) <= {ENTRY, PAIRED, *document.groups_of(name)}
                assert (reason == (PAIRED,)) == (name not in file.principals)


OFFICE: Final = load(
    {
        "compartments": ["hr"],
        "folders": {
            "crew": {"floor": "PUBLIC"},
            "hr": {"floor": "CONFIDENTIAL{hr}", "clearance": "INTERNAL"},
        },
        "chats": {
            "crew": {"channel": "console", "chat": "crew", "classification": "INTERNAL"},
            "team": {"channel": "console", "workspace": "w", "chat": "team", "classification": "INTERNAL"},
        },
    },
    tools=(),
)


@pytest.mark.parametrize(
    "text, kind, label",
    [
        ("INTERNAL", "label", "INTERNAL"),
        ("top", "label", "RESTRICTED{hr}~"),
        ("crew/", "folder", "PUBLIC~"),
        ("hr", "folder", "CONFIDENTIAL{hr}~"),
        ("console:crew", "chat", "INTERNAL"),
        ("console:w:team", "chat", "INTERNAL"),
        ("team", "chat", "INTERNAL"),
    ],
)
def test_a_target_is_a_label_a_chat_or_a_folder(text: str, kind: str, label: str) -> None:
    asked = target(OFFICE, text)
    assert (asked.kind, str(asked.label)) == (kind, label)


@pytest.mark.parametrize(
    "text, told, step",
    [
        ("crew", "`crew` is a chat and a folder", "write `crew/` or `console:crew`"),
        ("tean", "there is no chat or folder `tean`, did you mean `team`?", "name a label such as `INTERNAL`"),
        ("INTERNAL{h}", "unknown compartment `h`", "with compartments of `policy.compartments`, `hr`"),
        ("SECRET", "unknown level `SECRET`", "write one as `INTERNAL`"),
    ],
)
def test_any_other_text_is_refused_with_the_nearest_name(text: str, told: str, step: str) -> None:
    with pytest.raises(OperatorError) as refused:
        target(OFFICE, text)
    assert told in str(refused.value)
    assert step in refused.value.next_step


SLACK: Final[Mapping[str, object]] = {
    "principals": {
        "owner": principal("console:owner"),
        "ann": principal("slack:T2:ann", role="member", clearance="INTERNAL"),
    },
    "channels": {
        "console": {"classification": "top"},
        "slack": {"classification": "CONFIDENTIAL", "members": "INTERNAL"},
    },
}


def slack(classification: str, *, vouched: bool = False) -> Document:
    chat = {"channel": "slack", "workspace": "T1", "chat": "C1", "classification": classification}
    return load({**SLACK, "chats": {"crew": {**chat, "members_vouched": vouched}}}, tools=())


def test_people_of_another_workspace_may_be_in_a_shared_chat() -> None:
    """Slack shares chats between workspaces, and names each person with their own."""
    document = slack("INTERNAL")
    assert {"read", "say"} <= set(rows(document, document, "crew")["ann"].by)


@pytest.mark.parametrize(
    "text, classification, vouched, readers",
    [
        ("crew", "INTERNAL", False, {"members of slack": "members"}),
        ("crew", "CONFIDENTIAL", False, {}),
        ("crew", "CONFIDENTIAL", True, {"people that the platform does not list": "vouched"}),
        ("crew", "PUBLIC", False, {"anybody": "public"}),
        ("INTERNAL", "INTERNAL", False, {"members of slack": "members"}),
        ("CONFIDENTIAL", "INTERNAL", True, {}),
        ("internal", "INTERNAL", False, {"members of slack": "members"}),
        ("public", "INTERNAL", False, {"anybody": "public"}),
    ],
)
def test_readers_without_an_entry_are_told(
    text: str, classification: str, *, vouched: bool, readers: dict[str, str]
) -> None:
    document = slack(classification, vouched=vouched)
    assert dict(unnamed(document, target(document, text))) == readers


@pytest.mark.parametrize(
    "more, approves",
    [({"approvers": ["member"]}, True), ({}, False), ({"approvers": ["member"], "log_only": True}, False)],
)
def test_a_rule_of_yours_may_let_a_member_approve(more: Mapping[str, object], *, approves: bool) -> None:
    rule = {"id": "peers", "hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL", "approvers": ["admin"], **more}
    people = {"owner": principal("console:owner"), "ann": principal("console:ann", role="member", clearance="INTERNAL")}
    document = load({"principals": people, "rules": [rule]}, tools=())
    assert ("approve" in rows(document, document, "INTERNAL")["ann"].by) == approves
    assert "approve" not in rows(document, document, "CONFIDENTIAL")["ann"].by
