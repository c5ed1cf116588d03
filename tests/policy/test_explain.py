"""A denial in words holds what the reader may know, and what to do."""

import json
from dataclasses import replace

from hypothesis import given
from inline_snapshot import snapshot

from policy.decision import Remedy, Verdict
from policy.explain import ABOVE, REST, as_dict, remedy, render
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Hook, Request, Role, ToolFacts
from policy.rules import Rule
from tests.policy.strategies import NOW, TOP, engine, labels, requests, rule_sets

REFUSED = engine().decide(
    Request(
        Hook.PRE_TOOL_CALL,
        "owner",
        Role.OWNER,
        "console",
        parse("CONFIDENTIAL{hr}~"),
        TOP,
        TOP,
        TOP,
        tool=ToolFacts("message", Effect.SEND, PUBLIC, PUBLIC, consequential=True),
        destination=Destination("console:guest", "console", PUBLIC),
    ),
    NOW,
)


def test_a_denial_for_its_owner() -> None:
    assert render(REFUSED, TOP, subject="`message` to `guest`") == snapshot(
        (
            "Refused: `message` to `guest`.",
            "Rule `no_write_down`: this session has read more than may be known where the tool writes or sends.",
            "Rule `untrusted_cannot_command`: this session has read something that anybody may have written.",
            "This session has read: CONFIDENTIAL{hr}~.",
            "You can: start anew with `/reset` and send it again: a session that has read nothing may do this.",
            "You can: choose a destination cleared for it.",
            "You can: ask an admin to raise the clearance concerned: `/classify`, or `policy` in config.yaml.",
        )
    )


def test_a_brief_denial_names_one_rule_and_one_remedy_and_where_the_rest_is() -> None:
    assert render(REFUSED, TOP, subject="message", rest=REST) == snapshot(
        (
            "Refused: message.",
            "Rule `no_write_down`: this session has read more than may be known where the tool writes or sends.",
            "This session has read: CONFIDENTIAL{hr}~.",
            "You can: start anew with `/reset` and send it again: a session that has read nothing may do this.",
            "`/why` tells the other rules and remedies.",
        )
    )
    alone = replace(REFUSED, outcomes=REFUSED.outcomes[:1], remedies=REFUSED.remedies[:1])
    assert REST not in render(alone, TOP, subject="message", rest=REST)


def test_a_denial_for_somebody_below() -> None:
    assert render(REFUSED, PUBLIC, subject="`message` to `guest`")[3:4] == snapshot(
        ("This session has read: more than may be told here.",)
    )


def test_a_redaction_and_a_raise() -> None:
    rule = Rule("no-mail", Hook.PRE_CONTEXT_INJECTION, Verdict.REDACT, pattern="email")
    request = Request(Hook.PRE_CONTEXT_INJECTION, "owner", Role.OWNER, "console", PUBLIC, TOP, TOP, TOP, item=TOP)
    decision = engine(rule).decide(replace(request, content="ann@example.org"), NOW)
    assert render(decision, TOP, subject="your message") == snapshot(
        (
            "Allowed with parts replaced: your message.",
            "Rule `no-mail`: allowed with parts replaced.",
            "This session has read: PUBLIC.",
            "It would then have read: RESTRICTED{acme,hr}~.",
            "Replaced: email.",
        )
    )


def test_a_decision_for_a_program() -> None:
    assert as_dict(REFUSED, TOP) == snapshot(
        {
            "verdict": "BLOCK",
            "rules": [
                {"id": "unknown_is_worst", "verdict": "ALLOW", "fixed": True, "message": ""},
                {"id": "tool_is_for_the_role", "verdict": "ALLOW", "fixed": True, "message": ""},
                {"id": "run_is_initialized", "verdict": "ALLOW", "fixed": True, "message": ""},
                {
                    "id": "no_write_down",
                    "verdict": "BLOCK",
                    "fixed": True,
                    "message": "this session has read more than may be known where the tool writes or sends",
                },
                {"id": "read_is_decided_before_it_happens", "verdict": "ALLOW", "fixed": True, "message": ""},
                {"id": "overshoot", "verdict": "ALLOW", "fixed": True, "message": ""},
                {
                    "id": "untrusted_cannot_command",
                    "verdict": "REQUIRE_APPROVAL",
                    "fixed": True,
                    "message": "this session has read something that anybody may have written",
                },
                {"id": "endorsed_cannot_steer", "verdict": "ALLOW", "fixed": True, "message": ""},
                {"id": "others_cannot_command", "verdict": "ALLOW", "fixed": True, "message": ""},
                {"id": "standing_work_is_approved", "verdict": "ALLOW", "fixed": True, "message": ""},
            ],
            "taint_before": "CONFIDENTIAL{hr}~",
            "taint_after": "CONFIDENTIAL{hr}~",
            "remedies": ["reset", "other_destination", "reclassify"],
            "approvers": [],
            "redact": [],
            "policy": "test",
        }
    )


@given(requests(), rule_sets(), labels)
def test_labels_above_the_reader_are_not_told(request: Request, rules: tuple[Rule, ...], reader: Label) -> None:
    decision = engine(*rules).decide(request, NOW)
    text = "\n".join(render(decision, reader, subject="it"))
    told = as_dict(decision, reader)
    for label, key in ((decision.label_before, "taint_before"), (decision.label_after, "taint_after")):
        assert (told[key] == ABOVE) == (not label.flows_to(reader))
        if not label.flows_to(reader):
            assert ABOVE in text
            assert f": {label}.\n" not in f"{text}\n"
    assert json.loads(json.dumps(told)) == told


@given(requests(), rule_sets())
def test_what_is_told_above_the_reader_does_not_depend_on_the_label(request: Request, rules: tuple[Rule, ...]) -> None:
    decision = engine(*rules).decide(request, NOW)
    one = replace(decision, label_before=parse("CONFIDENTIAL"), label_after=parse("RESTRICTED"))
    other = replace(decision, label_before=parse("RESTRICTED{hr}"), label_after=parse("RESTRICTED{hr}"))
    assert render(one, PUBLIC, subject="it") == render(other, PUBLIC, subject="it")


def test_every_remedy_is_a_sentence_without_full_stop() -> None:
    for offered in Remedy:
        assert len(remedy(offered)) > 20
        assert not remedy(offered).endswith(".")
