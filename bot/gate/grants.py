"""Grants: the scope that a question may be answered for, and whether a grant covers a call.

A scope is made by the gate before people are asked, and kept as they were shown it. Every argument is fixed to its
value, except for three kinds. Content is any text. An amount is a number from 0 to the shown one. A path of a tool of
our own is any file of the shown file's folder. The resolved places and addresses are fixed, too, and so is the
declaration of the tool. A grant lifts rules as an approval does, and nothing else: all other rules decide on each call.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard

from pydantic import JsonValue

from bot.access.approvals import asking, entitled, may_be_granted
from bot.access.decision_context import DecisionContext
from bot.core.invisible import in_code
from bot.gate.results import CallDecision
from bot.sessions.approvals import Approval
from bot.sessions.background.runs import UNREAD
from bot.sessions.consents.grants import GRANTED_USES, EndedGrant, GrantEnd, GrantScope, GrantUse
from bot.tools.arguments import Path, as_json, role_at
from bot.tools.base import Arguments, CallFacts, Tool
from bot.tools.references import definition_digest, referred
from policy.decision import Decision, Verdict
from policy.document.bounds import in_digits
from policy.document.model import Document
from policy.request import ArgumentRole

MOST_OPEN: Final = 8
"""How many arguments of a scope may be open or named in words: more would not be read."""

LONGEST_WORST: Final = 1_000
"""How many characters the words for a worst case may have: more would not be read."""

WORST: Final = "up to {uses} calls of `{tool}`, {open}; all else exactly as shown; at `{label}` at most"
EXACTLY: Final = "each with exactly the shown arguments"

_PLAIN: Final = re.compile(r"[\w.\[\]-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CallPoint:
    """A call as scopes compare it: see `GrantScope`. `amounts` are the numbers that have a range, by their places."""

    declaration: str
    reach: str
    shape: str
    amounts: tuple[tuple[str, int | float], ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lifted:
    """The rules that people lifted for a call: the approval that it spends, or the use of a grant.

    `released` is the person who released the call, empty for none.
    """

    rules: tuple[str, ...] = ()
    use: str | None = None
    grant: GrantUse | None = None
    released: str = ""

    def on(self, made: CallDecision) -> CallDecision:
        """Return a call with the rules that people lifted for it."""
        if (made.use, made.grant, made.approved, made.released) == (self.use, self.grant, self.rules, self.released):
            return made
        return replace(made, use=self.use, grant=self.grant, approved=self.rules, released=self.released)


NOTHING: Final = Lifted()
"""No rule is lifted."""


@dataclass(slots=True)
class _Found:
    """The open arguments of a call, collected while its shape is made."""

    amounts: list[tuple[str, int | float]] = field(default_factory=list[tuple[str, int | float]])
    words: list[str] = field(default_factory=list[str])


def point(tool: Tool, arguments: Arguments, declared: CallFacts, leads: tuple[str, ...]) -> CallPoint:
    """Return a call as scopes compare it. `leads` are the present meanings of the places that it names."""
    found = _Found()
    # A server tells a value that is left out from null, and gets the arguments as they were given.
    shape = _shape(tool, as_json(arguments, given=bool(tool.server)), (), found)
    reach: list[JsonValue] = [
        list(leads),
        None if declared.clearance is None else str(declared.clearance),
        None if declared.folder is None else declared.folder[0],
        [" ".join(one) for one in declared.secrets],
        declared.account_of,
    ]
    declaration = [tool.name, tool.server, tool.effect, str(tool.label), tool.repeatable, definition_digest(tool)]
    return CallPoint(_digest(declaration), _digest(reach), _digest(shape), tuple(found.amounts), tuple(found.words))


def offering(
    document: Document, standing: DecisionContext, decision: Decision, *, made: CallDecision, declared: CallFacts
) -> CallDecision:
    """Return a call that people are asked about with the scope that they may answer for, and the grants that are over.

    There is no scope in background sessions and runs, for a call with references, for one whose outcome is unknown,
    and where a rule asks that may not be granted. Then it is answered once.
    """
    if decision.verdict is not Verdict.REQUIRE_APPROVAL or made.open is not None or made.accepted is None:
        return made
    at = point(*made.accepted, declared, made.leads)
    made = replace(made, ended=_ended(standing, made.call.tool, at))
    rules, refers = asking(decision), bool(referred(made.call.arguments))
    if refers or standing.home.channel in UNREAD or not may_be_granted(document, rules) or len(at.words) > MOST_OPEN:
        return made
    words, label = ", ".join(at.words) or EXACTLY, standing.taint
    worst = WORST.format(uses=GRANTED_USES, tool=made.call.tool, open=words, label=label)
    if len(worst) > LONGEST_WORST:
        return made
    return replace(
        made, scope=GrantScope(at.declaration, at.reach, at.shape, at.amounts, label, rules, GRANTED_USES, worst)
    )


def lifting(
    document: Document, standing: DecisionContext, decision: Decision, *, made: CallDecision, declared: CallFacts
) -> Lifted:
    """Return the rules that a grant lifts for a call that it covers, with the use that this spends.

    Once the open decision is made, only the grant that this decision used may cover the whole call: the texts behind
    references select none.
    """
    found = standing.grants
    if made.open is not None:
        found = tuple(one for one in found if made.grant is not None and one.id == made.grant.grant)
    if not found or made.accepted is None:
        return NOTHING
    asked, at = asking(decision), point(*made.accepted, declared, made.leads)
    for approval in found:
        if _covers(document, standing, approval, asked, made=made, at=at):
            return Lifted(asked, grant=GrantUse(approval.id, made.call.id))
    return NOTHING


def _ended(standing: DecisionContext, tool: str, at: CallPoint) -> tuple[EndedGrant, ...]:
    """Return the grants for a tool that are over, as a call of it shows: in time, or since the shown facts changed.

    A session above the label of a grant ends none: whether it makes a call is not for readers of the grant.
    """
    found = list[EndedGrant]()
    for approval in standing.grants:
        scope, grant = approval.question.scope, approval.grant
        if scope is None or grant is None or approval.tool != tool or standing.taint.join(scope.label) != scope.label:
            continue
        changed = scope.declaration != at.declaration or (scope.shape == at.shape and scope.reach != at.reach)
        if standing.now >= grant.until or changed:
            found.append(EndedGrant(approval.id, GrantEnd.CHANGED if changed else GrantEnd.EXPIRED))
    return tuple(found)


def _covers(
    document: Document,
    standing: DecisionContext,
    approval: Approval,
    asked: tuple[str, ...],
    *,
    made: CallDecision,
    at: CallPoint,
) -> bool:
    scope, grant = approval.question.scope, approval.grant
    if scope is None or grant is None or not grant.counts(made.call.id, standing.now):
        return False
    if (approval.sid, approval.generation) != (standing.sid, standing.generation):
        return False
    same = (scope.declaration, scope.reach, scope.shape) == (at.declaration, at.reach, at.shape)
    label = standing.taint.join(made.leaving)
    if not same or not _within(at.amounts, scope.most) or label.join(scope.label) != scope.label:
        return False
    if not set(asked).issubset(scope.rules) or not may_be_granted(document, asked):
        return False
    return entitled(document, approval, asked, standing=standing, label=label)


def _within(amounts: tuple[tuple[str, int | float], ...], most: tuple[tuple[str, int | float], ...]) -> bool:
    """Say whether amounts of the same shape are at most those that were shown; none of them is below 0."""
    bounds = dict(most)
    return all(value <= bounds[place] for place, value in amounts)


def _shape(tool: Tool, value: JsonValue, path: Path, found: _Found) -> JsonValue:
    """Return arguments with a mark for each kind of value, so that equal shapes are equal values but for open ones."""
    role = role_at(tool.arguments, path)
    if role is ArgumentRole.CONTENT and value is not None:
        found.words.append(f"any words, by any author, in {_place(path)}")
        return ["any"]
    if isinstance(value, dict):
        return {name: _shape(tool, inner, (*path, name), found) for name, inner in value.items()}
    if isinstance(value, list):
        return ["list", *(_shape(tool, inner, (*path, place), found) for place, inner in enumerate(value))]
    if role is ArgumentRole.AMOUNT and _is_amount(value):
        found.amounts.append((json.dumps(path), value))
        found.words.append(f"{_place(path)} from 0 to {in_digits(value)}")
        return ["amount"]
    if role is ArgumentRole.PATH and not tool.server and isinstance(value, str) and (folder := _folder(value)):
        found.words.append(f"any file of {_written(f'{folder}/')} in {_place(path)}")
        return ["in", folder]
    if role is ArgumentRole.RECIPIENT and value not in {None, ""}:
        found.words.append(f"to {_written(value)}")
    return ["is", value]


def _is_amount(value: JsonValue) -> TypeGuard[int | float]:
    """Say whether a value is a number that a range from 0 makes sense for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value >= 0 and (isinstance(value, int) or math.isfinite(value))


def _folder(path: str) -> str:
    """Return the folder of a file, empty for a path without one or one that is not written plainly."""
    folder, _, name = path.rpartition("/")
    parts = (*folder.split("/"), name)
    plain = all(part not in {"", ".", ".."} and part.isprintable() and "\\" not in part for part in parts)
    return folder if plain else ""


def _place(path: Path) -> str:
    """Return where an argument stands, as a person writes it; a name that its caller chose is quoted."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"`{text}`" if _PLAIN.fullmatch(text) else _written(text)


def _written(value: JsonValue) -> str:
    return in_code(json.dumps(value, ensure_ascii=False))


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
