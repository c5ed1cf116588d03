"""`lockgate policy replay`: the decisions of the audit, decided again by another file."""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.operations.rehearsal.replay import PolicyReplay, ReplayChange, ReplayReport
from policy.decision import Verdict

LONGEST_DAYS: Final = 3660

_WORDS: Final = MappingProxyType(
    {
        Verdict.ALLOW: "let through",
        Verdict.REDACT: "redacted",
        Verdict.REQUIRE_APPROVAL: "asked",
        Verdict.BLOCK: "refused",
    }
)
_HEADS: Final = ("then", "with this file", "rule", "tool or hook", "count", "examples")


async def replay(config: Config, file: Config, days: int, *, as_json: bool) -> None:
    """Print the decisions of the last `days` that the policy of `file` would change.

    Raises OperatorError: the number of days makes no sense.
    """
    if not 1 <= days <= LONGEST_DAYS:
        raise OperatorError(f"`{days}` is not a number of days, write one from 1 to {LONGEST_DAYS}")
    async with as_owner(config, looking=True) as (app, _):
        report = await PolicyReplay(app.store, app.chains).report(file.policy, app.gate.document, days)
    if as_json:
        print_json(_document(report))
    else:
        print_lines(_lines(report))


def _lines(report: ReplayReport) -> Iterator[str]:
    """Yield a report for people: the changes, and everything that it does not tell."""
    changed, untold = report.changes.total(), report.untold.total()
    if report.changes:
        yield from table([_HEADS, *(_cells(change, report) for change in _ordered(report))])
        yield ""
    days = "day" if report.days == 1 else f"{report.days} days"
    yield f"policy {report.policy[:12]} over the last {days}: {_counted(report.decisions, 'decision')}"
    yield f"{changed} would change, {report.decisions - changed - untold} would not, {untold} cannot be told"
    for why, count in sorted(report.untold.items()):
        yield f"cannot be told: {count}, {why}"
    for name, count in sorted(report.unknown.items()):
        yield f"not known any more: `{name}`, in {_counted(count, 'decision')}"
    if report.elsewhere:
        yield f"{_counted(report.elsewhere, 'decision')} made by another policy than the one in force now"
    if report.relabelled:
        yield f"{_counted(report.relabelled, 'decision')} made with the labels that data had then; this file may differ"
    for chain, broken in sorted(report.broken.items()):
        yield f"not verified: `{chain}` from record {broken.n} on, {broken.reason}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _ordered(report: ReplayReport) -> Sequence[ReplayChange]:
    """Return the changes, those that refuse or ask more first, and of these the most frequent."""
    return sorted(report.changes, key=lambda one: (one.then - one.now, -report.changes[one], one.rule, one.about))


def _cells(change: ReplayChange, report: ReplayReport) -> tuple[str, ...]:
    then, now = _WORDS[change.then], _WORDS[change.now]
    if change.people is not None:
        then, now = (f"{verb}: {_roles(roles)}" for verb, roles in zip((then, now), change.people, strict=True))
    named = ", ".join(report.examples[change])
    return then, now, change.rule, change.about, str(report.changes[change]), named


def _roles(roles: Sequence[str]) -> str:
    return ", ".join(roles) or "the asker"


def _document(report: ReplayReport) -> dict[str, JsonValue]:
    changes: list[JsonValue] = [
        {
            "then": change.then.name,
            "now": change.now.name,
            "rule": change.rule,
            "about": change.about,
            "count": report.changes[change],
            "examples": list[JsonValue](report.examples[change]),
            "people": None if change.people is None else [list[JsonValue](roles) for roles in change.people],
        }
        for change in _ordered(report)
    ]
    broken: dict[str, JsonValue] = {
        chain: {"record": one.n, "reason": one.reason} for chain, one in sorted(report.broken.items())
    }
    return {
        "policy": report.policy,
        "days": report.days,
        "decisions": report.decisions,
        "changed": report.changes.total(),
        "changes": changes,
        "untold": dict(report.untold),
        "unknown": dict(report.unknown),
        "another_policy": report.elsewhere,
        "relabelled": report.relabelled,
        "not_verified": broken,
    }
