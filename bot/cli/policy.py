"""`lockgate policy`: check the policy, run its cases, and explain how a case is decided."""

from pathlib import Path

from pydantic import JsonValue

from bot.cli.cases import Case, read_cases, request_of
from bot.cli.output import print_json, print_lines
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.gate.judge import trial
from policy import explain
from policy.decision import Decision
from policy.lint import lint

FAILED = 3
"""Exit code when a case is decided otherwise than its file says."""


def check(config: Config, *, as_json: bool) -> None:
    """Print what is in force and every warning about its rules; what cannot be put in force never gets here."""
    policy = config.policy
    warnings = [(config.rule_lines[finding.place], finding.kind, finding.message) for finding in lint(policy.rules)]
    source = str(config.source or "the defaults")
    if as_json:
        print_json(
            {
                "source": source,
                "policy": policy.digest,
                "rules": [rule.id for rule in policy.rules],
                "warnings": [{"line": line, "kind": kind, "message": message} for line, kind, message in warnings],
            }
        )
        return
    rules = f"{len(policy.rules)} rule{'' if len(policy.rules) == 1 else 's'} of your own"
    print_lines(
        [
            *(f"{source}:{line}: {kind}: {message}" for line, kind, message in warnings),
            f"{source}: policy {policy.digest[:12]} can be put in force, {rules}, {len(warnings)} warnings",
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
        results.append({"line": line, "case": case.case, "passed": _fits(case, decision), **_short(decision)})
    failed = [result for result in results if not result["passed"]]
    if as_json:
        print_json({"policy": config.policy.digest, "cases": list[JsonValue](results), "failed": len(failed)})
    else:
        lines = [
            f"{file}:{result['line']}: {result['case']}: decided {result['verdict']} by {result['rules']}, "
            f"remedies {result['remedies']}"
            for result in failed
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


def _fits(case: Case, decision: Decision) -> bool:
    return (
        decision.verdict.name == case.verdict
        and set(decision.rules) == set(case.rules)
        and (case.remedies is None or {str(remedy) for remedy in decision.remedies} == set(case.remedies))
    )


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
