"""Approvals and questions: their stored bytes to frozen values and back."""

import json
from typing import TYPE_CHECKING, Any, cast

from bot.sessions.approvals import AnswerValue, Approval, ApprovalState, QuestionAnswer
from bot.sessions.consents.grants import Grant, GrantEnd
from bot.sessions.log.serialization import question_from, question_json
from bot.store.records import codec, form, kinds
from bot.store.records.form import Values

if TYPE_CHECKING:
    from bot.core.json_values import JsonObject


def new_approval(value: Approval) -> Values:
    """Write a new approval, as a script takes it."""
    return {
        "expires": value.expires_at,
        "created": value.asked_at,
        "turn": value.turn,
        "call": value.call,
        "tool": value.tool,
        "binding": value.binding,
        "label": str(value.label),
        "principal": value.principal,
        "rules": codec.listing(value.rules),
        "question": codec.dump(question_json(value.question)),
        "alone": value.alone,
        "kind": value.question.kind.value if value.is_question else "",
        "returns": "" if value.wanted is None else codec.result_fields((value.wanted,)),
        "fallback": "" if value.default is None else codec.dump(value.default),
        "places": codec.listing(value.places),
    }


def question_answer(value: QuestionAnswer) -> str:
    """Write the answer to a question, as a script takes it."""
    return codec.dump({"value": value.value, "label": str(value.label), "address": value.address, "via": value.via})


def _question_answer(stored: str) -> QuestionAnswer | None:
    if not stored:
        return None
    got = cast("dict[str, Any]", json.loads(stored))
    return QuestionAnswer(got["value"], codec.label(got["label"]), got["address"], got["via"])


def approval(sid: str, name: bytes, stored: bytes, now: int) -> Approval:
    """Read an approval; an expired one, pending or approved, reads as EXPIRED. `now` is in ms on the store's clock."""
    got = form.unpack(kinds.APPROVAL, stored)
    found = ApprovalState(got["state"])
    if got["expires"] <= now and found in {ApprovalState.PENDING, ApprovalState.APPROVED}:
        found = ApprovalState.EXPIRED
    return Approval(
        id=codec.text(name),
        sid=sid,
        generation=got["generation"],
        turn=got["turn"],
        call=got["call"],
        tool=got["tool"],
        binding=got["binding"],
        label=codec.label(got["label"]),
        principal=got["principal"],
        question=question_from(cast("JsonObject", json.loads(got["question"]))),
        rules=tuple(cast("list[str]", codec.listed(got["rules"]))),
        expires_at=got["expires"],
        asked_at=got["created"],
        state=found,
        resolved_by=got["resolved_by"],
        alone=got["alone"],
        wanted=next(iter(codec.read_fields(got["returns"])), None),
        default=cast("AnswerValue", json.loads(got["fallback"])) if got["fallback"] else None,
        places=tuple(cast("list[str]", codec.listed(got["places"]))),
        answer=_question_answer(got["given"]),
        resolved_at=got["resolved_at"],
        grant=_grant(got) if got["granted_until"] else None,
    )


def _grant(got: codec.Fields) -> Grant:
    spent, end = tuple(got["granted_to"].split()), got["granted_end"]
    return Grant(got["granted_until"], got["granted_left"], spent, GrantEnd(end) if end else None)
