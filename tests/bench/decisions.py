"""`decide()` at PRE_OUTPUT: the fixed rules, and configured ones that are selectors alone or conditions.

The requests differ in level, integrity, channel and text, as the answers of many sessions do; each call is timed
by itself and the median is over all of them, allowed and denied. A tenth of the rules concerns a request. The
reference is the executable specification, which goes through all rules each time.

Of a hundred rules with conditions every one must be evaluated; their reference are the same conditions evaluated one
by one by the library, on a context that is ready. A reload is compared with reading its file as YAML alone.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import cel

from bot.config.file.yaml import parse_yaml
from bot.config.load import load_config
from bot.gate.judge import trial
from bot.tools.catalogue import ARGUMENTS
from policy.conditions.expressions import check
from policy.conditions.variables import VARIABLES, Facts, at
from policy.decision import Verdict
from policy.engine import Engine
from policy.labels import Integrity, Label, Level, top
from policy.redaction.redactor import Redactor
from policy.request import Destination, Hook, Request, Role
from policy.rules import Rule
from tests.bench.measure import Rounds, Row, by_turns, ratio_at_most
from tests.policy import reference
from tests.policy.strategies import NOW

_TOP: Final = top(("acme", "hr"))
_CHANNELS: Final = ("console", "telegram", "slack", "web", "mail")
_ROUNDS: Final = 40
_BATCH: Final = 10


def rows() -> Iterator[Row]:
    hundred, thousand, requests = _rules(100), _rules(1000), _requests()
    redactor = Redactor()
    few = Engine.build(hundred, top=_TOP, redactor=redactor, digest="bench")
    many = Engine.build(thousand, top=_TOP, redactor=redactor, digest="bench")
    _compare(few, hundred, requests)
    small, naive, large = _medians(
        requests,
        lambda request: few.decide(request, NOW),
        lambda request: reference.decide(request, hundred, _TOP, NOW),
        lambda request: many.decide(request, NOW),
    )
    yield Row("decide_100_rules", small, "µs", naive, ratio_at_most(0.05))
    yield Row("decide_1000_rules", large, "µs", small, ratio_at_most(1.3))
    yield _conditions(requests)
    yield _reload()


def _conditions(requests: Sequence[Request]) -> Row:
    variables = at(Hook.PRE_OUTPUT, (), {})
    texts = [
        text.format(number)
        for number in range(25)
        for text in (
            'taint_level >= CONFIDENTIAL && role == "guest{}"',
            '"team{}" in taint_compartments && !destination_shared',
            'destination_address.endsWith("c{}:") && taint_untrusted && role != "member"',
            'principal in ["bob{}", "eve"] || destination_level < taint_level',
        )
    ]
    rules = tuple(
        Rule(f"rule-{number:03}", Hook.PRE_OUTPUT, Verdict.BLOCK, when=check(text, variables))
        for number, text in enumerate(texts)
    )
    engine = Engine.build(rules, top=_TOP, redactor=Redactor(), digest="bench")
    names = {name for rule in rules if rule.when is not None for name, _ in rule.when.variables}
    programs = [cel.compile(str(rule.when)) for rule in rules]
    contexts = {
        id(request): cel.Context({name: VARIABLES[name].read(_facts(request)) for name in names})
        for request in requests
    }
    together, apart = _medians(
        requests,
        lambda request: engine.decide(request, NOW),
        lambda request: [program.execute(contexts[id(request)]) for program in programs],
    )
    return Row("decide_100_conditions", together, "µs", apart, ratio_at_most(1.25))


def _reload() -> Row:
    """Read, check and make ready 1,000 rules, a tenth with a condition; the reference reads the text as YAML alone."""
    rules = "".join(
        f"    - {{id: rule-{number}, hook: PRE_OUTPUT, action: BLOCK, taint: '>= {Level(1 + number % 3).name}', "
        + (f"when: 'principal == \"p{number}\"'" if number % 10 == 0 else "pattern: iban")
        + "}\n"
        for number in range(1000)
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(f"policy:\n  rules:\n{rules}")

        def whole_reload() -> None:
            # A file that is reloaded was changed, so its text is not remembered.
            parse_yaml.cache_clear()
            trial(load_config(path, {}, ARGUMENTS).policy)

        def yaml_alone() -> None:
            parse_yaml.cache_clear()
            parse_yaml(path.read_text("utf-8"))

        whole, alone = by_turns(whole_reload, yaml_alone, rounds=5)
    return Row("reload_1000_rules", whole * 1000, "ms", alone * 1000, ratio_at_most(2))


def _facts(request: Request) -> Facts:
    return Facts(request, request.taint, _TOP, frozenset())


def _rules(count: int) -> tuple[Rule, ...]:
    """Return rules with every kind of selector; a tenth concerns any one request.

    Some for the highest level block, the others ask for an approval, which the requests have.
    """
    return tuple(
        Rule(
            id=f"rule-{number:04}",
            hook=Hook.PRE_OUTPUT,
            action=Verdict.BLOCK if number // 5 % 12 == 11 else Verdict.REQUIRE_APPROVAL,
            message="said by the benchmark",
            channels=(f"{_CHANNELS[number % 5][:3]}*",),
            levels=frozenset({Level(number // 5 % 4)}) if number // 20 % 3 else frozenset(Level),
            untrusted=(None, True, False)[number // 20 % 3],
        )
        for number in range(count)
    )


def _requests() -> tuple[Request, ...]:
    return tuple(
        Request(
            hook=Hook.PRE_OUTPUT,
            principal="ann",
            role=Role.MEMBER,
            channel=channel,
            taint=Label(level, frozenset({"acme"}), integrity),
            ceiling=_TOP,
            provider=_TOP,
            home=_TOP,
            destination=Destination(f"{channel}::c{number}:", channel, _TOP),
            content=f"Answer {number}: the meeting is on Tuesday at half past nine.",
            approved=True,
        )
        for number, (level, integrity, channel) in enumerate(product(Level, Integrity, _CHANNELS))
    )


def _compare(engine: Engine, rules: Sequence[Rule], requests: Sequence[Request]) -> None:
    """Make sure that both did the same work before it is timed.

    Raises RuntimeError: they differ.
    """
    for request in requests:
        decision = engine.decide(request, NOW)
        if (decision.verdict.name, set(decision.rules)) != reference.decide(request, rules, _TOP, NOW)[:2]:
            raise RuntimeError("the engine and its reference differ")


def _medians(requests: Sequence[Request], *work: Callable[[Request], object]) -> list[float]:
    """Return the median µs of one call of each, batches taken by turns, as `Rounds.medians` of each round's medians."""
    rounds, clock = Rounds(_ROUNDS), time.perf_counter_ns
    while rounds.wanted:
        taken: list[list[int]] = [[] for _ in work]
        for start in range(0, len(requests), _BATCH):
            for times, call in zip(taken, work, strict=True):
                for request in requests[start : start + _BATCH]:
                    begin = clock()
                    call(request)
                    times.append(clock() - begin)
        rounds.add(median(times) / 1000 for times in taken)
    return rounds.medians()
