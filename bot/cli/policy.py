"""`lockgate policy` and `lockgate simulate`: check the policy, run its cases, and tell how a call is decided."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from bot.access import labelling
from bot.access.decision_context import Call, DecisionContext
from bot.cli import identity
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.cli.policy_cases import Case, CaseEngines, read_cases
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import OperatorError
from bot.gate.results import logged
from bot.operations import policy_check, policy_who, simulation
from bot.operations.policy_who import AccessRow
from bot.operations.simulation import CallArgumentsError
from bot.policy_state import other
from channels.console import OWNER
from policy import explain
from policy.decision import Decision
from policy.errors import LabelTextError
from policy.labels import Label

FAILED = 3
"""Exit code when a case is decided otherwise than its file says."""


def check(config: Config, *, as_json: bool) -> None:
    """Print the policy in force and every warning about its rules; an invalid policy never gets here."""
    policy, found = config.policy, policy_check.warnings(config)
    source = str(config.source or "the defaults")
    if as_json:
        print_json(
            {
                "source": source,
                "policy": policy.digest,
                "rules": [rule.id for rule in policy.all_rules],
                "log_only": [rule.id for rule in policy.all_rules if rule.log_only],
                "warnings": [asdict(warning) for warning in found],
            }
        )
        return
    rules = f"{len(policy.all_rules)} rule{'' if len(policy.all_rules) == 1 else 's'} of your own"
    logged = [rule.id for rule in policy.all_rules if rule.log_only]
    rules += f" ({', '.join(logged)} log only)" if logged else ""
    print_lines(
        [
            *policy_check.lines(source, found),
            f"{source}: policy {policy.digest[:12]} can be put in force, {rules}, {len(found)} warnings",
        ]
    )


def test(config: Config, file: Path, *, as_json: bool) -> int:
    """Run the cases of a file; return the exit code, 3 if one is decided otherwise.

    Raises OperatorError: the file holds something else than cases.
    """
    tried, results = CaseEngines(config), list[dict[str, JsonValue]]()
    for line, case in read_cases(file):
        told: dict[str, JsonValue] = {"line": line, "case": case.case, "expected": _expected(case)}
        try:
            decision = tried.decided(case)[1]
        except OperatorError as error:
            # A name that the case's moment does not know says nothing about the other cases.
            results.append({**told, "passed": False, "differences": [f"{error}, {error.next_step}"], "verdict": None})
            continue
        wrong: list[JsonValue] = [*_differences(case, decision)]
        results.append({**told, "passed": not wrong, "differences": wrong, **_short(decision)})
    failed = [result for result in results if not result["passed"]]
    if as_json:
        print_json({"policy": config.policy.digest, "cases": list[JsonValue](results), "failed": len(failed)})
    else:
        lines = [
            f"{file}:{result['line']}: {result['case']}: {one}"
            for result in failed
            for one in cast("list[str]", result["differences"])
        ]
        print_lines([*lines, f"{len(results) - len(failed)} of {len(results)} cases are decided as they say"])
    return FAILED if failed else 0


def explained(config: Config, file: Path, name: str, *, as_json: bool) -> None:
    """Print why a case of a file is decided as it is, every rule that was evaluated among it.

    Raises OperatorError: there is no such case.
    """
    line, case = next(((line, case) for line, case in read_cases(file) if case.case == name), (0, None))
    if case is None:
        raise OperatorError(f"there is no case `{name}` in {file}", next_step="name one as its file does")
    try:
        request, decision = CaseEngines(config).decided(case)
    except OperatorError as error:
        raise OperatorError(f"{file}:{line}: {error}", next_step=error.next_step) from None
    groups = sorted(request.asker_groups)
    if as_json:
        print_json({"case": name, "groups": list[JsonValue](groups), **_document(decision, config)})
        return
    evaluated = [
        f"- {'fixed rule' if outcome.fixed else 'rule'} {outcome.rule} says {outcome.verdict.name}"
        for outcome in decision.outcomes
    ]
    evaluated += [f"- rule {rule} is log only: {word}" for rule, word in logged(decision).items()]
    told = explain.render(decision, config.policy.top, subject=name)
    of = [f"{request.asker} is in the groups {', '.join(groups)}"] if groups else []
    print_lines([*told, *of, "evaluated:", *evaluated, f"policy {config.policy.digest[:12]}"])


def _differences(case: Case, decision: Decision) -> Iterator[str]:
    """Yield the expected and the actual outcome, a line for each part that differs."""
    if decision.verdict.name != case.verdict:
        by = f" by {_listed(decision.rules)}" if decision.rules else ""
        yield f"expected verdict {case.verdict}, decided {decision.verdict.name}{by}"
    if case.rules is not None and set(decision.rules) != set(case.rules):
        told = f"expected rules {_listed(case.rules)}, decided by {_listed(decision.rules)}"
        yield f"{told}; `rules` may be left out"
    remedies = [str(remedy) for remedy in decision.remedies]
    if case.remedies is not None and set(remedies) != set(case.remedies):
        told = f"expected remedies {_listed(case.remedies)}, decided with {_listed(remedies)}"
        yield f"{told}; `remedies` may be left out"
    would = [one.rule for one in decision.would]
    if case.log_only is not None and set(would) != set(case.log_only):
        told = f"expected log only {_listed(case.log_only)}, logged {_listed(would)}"
        yield f"{told}; `log_only` may be left out"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


def _expected(case: Case) -> dict[str, JsonValue]:
    """Return the outcome that a case expects, without the parts that it leaves out."""
    named = {"rules": case.rules, "remedies": case.remedies, "log_only": case.log_only}
    return {"verdict": case.verdict, **{name: list(one) for name, one in named.items() if one is not None}}


def _short(decision: Decision) -> dict[str, JsonValue]:
    return {
        "verdict": decision.verdict.name,
        "rules": list(decision.rules),
        "remedies": [str(remedy) for remedy in decision.remedies],
        "log_only": logged(decision),
    }


def _document(decision: Decision, config: Config) -> dict[str, JsonValue]:
    rules: list[JsonValue] = [
        {"id": said.rule, "verdict": said.verdict.name, "fixed": said.fixed, "message": said.message}
        for said in decision.outcomes
    ]
    short = _short(decision)
    top = config.policy.top
    return {
        **short,
        "rules": rules,
        "taint_before": explain.shown(decision.label_before, top),
        "taint_after": explain.shown(decision.label_after, top),
        "policy": config.policy.digest,
    }


async def who(config: Config, target: str, *, as_json: bool) -> None:
    """Print the access matrix of a label, a chat or a folder, by the file's policy with people's changes.

    Raises OperatorError: the target is none of them.
    """
    async with as_owner(config, looking=True) as (app, _):
        head, document = await app.store.policy.read_policy(), app.gate.document
        now = app.store.tokens.now_ms()
    asked = policy_who.target(document, target)
    rows = list(policy_who.matrix(config.policy, document, asked, datetime.fromtimestamp(now / 1000, UTC)))
    others, stale = list(policy_who.unnamed(document, asked)), head is not None and head.digest != config.policy.digest
    if as_json:
        told: dict[str, JsonValue] = {"kind": asked.kind, "name": asked.name, "label": str(asked.label)}
        without: list[JsonValue] = [{"name": name, "read": True, "by": {"read": [why]}} for name, why in others]
        people: list[JsonValue] = [_who_document(row) for row in rows]
        print_json({**told, "policy": config.policy.digest, "in_force": not stale, "people": people, "others": without})
        return
    heads = ("name", "role", *policy_who.RIGHTS, "until (UTC)")
    lines = table([heads, *map(_who_row, rows)])
    named = asked.name if asked.name == str(asked.label) else f"{asked.name}, label {asked.label}"
    print_lines([f"{asked.kind} {named}, policy {config.policy.digest[:12]}", *lines])
    print_lines(f"also read by {name}, reason {why}" for name, why in others)
    if head is not None and stale:
        print_lines([f"this is the file's policy, and another decides: {other(head)}"])


def _who_row(row: AccessRow) -> tuple[str, ...]:
    role = row.role or ("ended" if row.ended else "no access")
    until = "" if row.until is None else moment(round(row.until.timestamp() * 1000))
    return (row.name, str(role), *("+".join(row.by.get(right, ("-",))) for right in policy_who.RIGHTS), until)


def _who_document(row: AccessRow) -> dict[str, JsonValue]:
    return {
        "name": row.name,
        "role": None if row.role is None else row.role.value,
        **{right: right in row.by for right in policy_who.RIGHTS},
        "by": {right: list[JsonValue](reason) for right, reason in row.by.items()},
        "until": None if row.until is None else row.until.isoformat(),
        "ended": row.ended,
    }


async def simulate(config: Config, tool: str, arguments: str, taint: str, *, as_json: bool) -> None:
    """Print the gate's report; it is audited like every simulation.

    Raises OperatorError: arguments or taint cannot be read.
    """
    call, label = _arguments(arguments), _label(config, taint)
    async with as_owner(config, looking=True) as (app, caller):
        address = identity.address(OWNER)
        standing = DecisionContext.of_caller(
            caller, address, await app.gate.readers.destination(address), app.clock.wall_ms(), taint=label
        )
        report = await app.simulator.report(standing, tool, call)
        would = logged(app.gate.calls.prepare(standing, Call("simulated", tool, call)).told)
    if as_json:
        print_json({"tool": tool, **report, "log_only": would})
    else:
        print_lines(
            [*simulation.lines(report), *(f"- rule {rule} is log only: {word}" for rule, word in would.items())]
        )


def _arguments(text: str) -> dict[str, JsonValue]:
    try:
        return simulation.call_arguments(text)
    except CallArgumentsError as error:
        raise OperatorError(str(error), next_step='write them as \'{"path": "a.md"}\'') from None


def _label(config: Config, text: str) -> Label:
    try:
        return labelling.named(config.policy, text)
    except LabelTextError as error:
        raise OperatorError(
            str(error),
            next_step="see `--taint` in `lockgate simulate --help`; `policy.compartments` lists compartments",
        ) from None
