"""`lockgate policy` and `lockgate simulate`: check the policy, run its cases, and tell how a call is decided."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from bot.access import labelling
from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines
from bot.cli.policy_cases import Case, read_cases, request_of
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.gate.judge import trial
from bot.operations import policy_check, simulation
from bot.operations.simulation import CallArgumentsError
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
                "warnings": [asdict(warning) for warning in found],
            }
        )
        return
    rules = f"{len(policy.all_rules)} rule{'' if len(policy.all_rules) == 1 else 's'} of your own"
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
    tried = trial(config.policy)
    results = list[dict[str, JsonValue]]()
    for line, case in read_cases(file):
        decision = tried(request_of(case.request, config), case.at)
        wrong: list[JsonValue] = [*_differences(case, decision)]
        told = {"line": line, "case": case.case, "passed": not wrong, "differences": wrong}
        results.append({**told, "expected": _expected(case), **_short(decision)})
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
    case = next((case for _, case in read_cases(file) if case.case == name), None)
    if case is None:
        raise OperatorError(f"there is no case `{name}` in {file}", next_step="name one as its file does")
    decision = trial(config.policy)(request_of(case.request, config), case.at)
    if as_json:
        print_json({"case": name, **_document(decision, config)})
        return
    evaluated = [
        f"- {'fixed rule' if outcome.fixed else 'rule'} {outcome.rule} says {outcome.verdict.name}"
        for outcome in decision.outcomes
    ]
    told = explain.render(decision, config.policy.top, subject=name)
    print_lines([*told, "evaluated:", *evaluated, f"policy {decision.policy[:12]}"])


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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


def _expected(case: Case) -> dict[str, JsonValue]:
    """Return the outcome that a case expects, without the parts that it leaves out."""
    named = {"rules": case.rules, "remedies": case.remedies}
    return {"verdict": case.verdict, **{name: list(one) for name, one in named.items() if one is not None}}


def _short(decision: Decision) -> dict[str, JsonValue]:
    return {
        "verdict": decision.verdict.name,
        "rules": list(decision.rules),
        "remedies": [str(remedy) for remedy in decision.remedies],
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
        "policy": decision.policy,
    }


async def simulate(config: Config, tool: str, arguments: str, taint: str, *, as_json: bool) -> None:
    """Print the gate's report; it is audited like every simulation.

    Raises OperatorError: arguments or taint cannot be read.
    """
    call, label = _arguments(arguments), _label(config, taint)
    async with as_owner(config) as (app, caller):
        address = identity.address(OWNER)
        standing = DecisionContext.of_caller(
            caller, address, await app.gate.readers.destination(address), app.clock.wall_ms(), taint=label
        )
        report = await app.simulator.report(standing, tool, call)
    if as_json:
        print_json({"tool": tool, **report})
    else:
        print_lines(simulation.lines(report))


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
