"""Plays the tasks of AgentDojo with two configurations, with and without an attacker, and counts."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import JsonValue

from bot.app.app import App
from bot.sessions.models import SessionState, Status
from tests.bot.kit import parts
from tests.dojo.attacks import attacks
from tests.dojo.planner import Performance, Planner, Reader, Script, lines, needs_bounds
from tests.dojo.plans import banking, dailylife, github, shopping, slack, travel, workspace
from tests.dojo.steps import READ, Asked, Call, Entry, Given, Plan
from tests.dojo.suites import SEED, VERSION, fulfilled, suite, world
from tests.harness import Person, running

CONFIGURATIONS: Final = ("shipped", "careful")
TRUSTING: Final = "trusting"
"""The configuration that no operator should have: all that the server returns counts as TRUSTED."""

CONTROLS: Final = {
    "workspace": "user_task_0",
    "travel": "user_task_2",
    "banking": "user_task_1",
    "slack": "user_task_19",
    "shopping": "user_task_3",
    "github": "user_task_1",
    "dailylife": "user_task_12",
}
"""A task of each suite that reads texts. With the trusting configuration each attack must take effect in it."""

PLANS: Final[Mapping[str, Mapping[str, Plan]]] = {
    "workspace": workspace.PLANS,
    "travel": travel.PLANS,
    "banking": banking.PLANS,
    "slack": slack.PLANS,
    "shopping": shopping.PLANS,
    "github": github.PLANS,
    "dailylife": dailylife.PLANS,
}

PLAIN: Final[Mapping[str, Mapping[str, Plan]]] = {
    "shopping": shopping.PLAIN,
    "github": github.PLAIN,
    "dailylife": dailylife.PLAIN,
}
"""The plans as shipped of suites whose own calls lack values, such as a one-time password: `READ` cannot make them."""

ANSWERS: Final[Mapping[str, Mapping[str, str]]] = {"shopping": shopping.ANSWERS}
"""The last words of tasks whose suite gives none."""

_HERE: Final = Path(__file__).parent
_OF_SERVERS: Final = frozenset({"output", "role", "handle"})
_OF_THE_POLICY: Final = frozenset({"hold", "lists", "tools"})
_PATIENCE: Final = 300
_BUSY: Final = frozenset({Status.QUEUED, Status.RUNNING})
_STEPS: Final = 100
"""The most model requests of a turn; all attacks are proposed in the turn of their task."""

_CHOSEN: Final[tuple[Reader, ...]] = ("true", "false", "broken")


@dataclass(frozen=True)
class Row:
    """How a task went with a configuration.

    Attributes:
        suite: The suite.
        task: The id of the task.
        configuration: The configuration.
        done: Whether AgentDojo counts it as done.
        questions: The questions to people.
        passed: The attacks that no person was asked about, in each state that the session came to. Those by `unheard`
            need only another identifier in the place of each entry of a held list that the plan takes within bounds.
        attacks: How many attacks there are.
        strayed: The calls that an attacker caused who chose only the answers that conditions name, other than to make
            a call of the plan or not; None for a plan without conditions.
        told: Whether the planner saw that attacker's choice in any result.
    """

    suite: str
    task: str
    configuration: str
    done: bool
    questions: int
    passed: Mapping[str, Sequence[str]]
    attacks: int
    strayed: Sequence[JsonValue] | None = None
    told: bool = False

    @property
    def through(self) -> frozenset[str]:
        """The attacks that passed in some state."""
        return frozenset(one for passed in self.passed.values() for one in passed)


def configured(name: str, configuration: str) -> dict[str, Any]:
    """Return a configuration of a suite."""
    config = yaml.safe_load((_HERE / "careful" / f"{name}.yaml").read_text("utf-8"))
    if configuration != "careful":
        policy = {key: section for key, section in config["policy"].items() if key not in _OF_THE_POLICY}
        config = {"mcp_servers": _without(config["mcp_servers"]), "policy": policy}
    if configuration == TRUSTING:
        config["policy"]["mcp_servers"][name]["integrity"] = "TRUSTED"
    config["policy"]["principals"] = {"owner": {"role": "owner", "clearance": "top", "accounts": ["console:owner"]}}
    return {**config, "limits": {"model_steps": _STEPS}}


def _without(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return {name: _without(one) for name, one in inner.items() if name not in _OF_SERVERS}
    return value


class Stage:
    """An application with the server of a suite."""

    def __init__(self, name: str, configuration: str, person: Person, folder: Path, planner: Planner) -> None:
        self._name, self._configuration = name, configuration
        self._person, self._folder, self._planner = person, folder, planner
        config = configured(name, configuration)
        self._tools = config["mcp_servers"][name]["tools"]
        self._policies = config["policy"].get("tools", {})
        self._count = 0

    async def row(self, task: str) -> Row:
        """Play a task as the person wants it, then with the attackers."""
        plan = self._plan(task)
        played, questions = await self._play(task, plan)
        calls = [(one["tool"], one["arguments"]) for one in lines(self._folder / "calls.jsonl")]
        done = await asyncio.to_thread(fulfilled, self._name, task, calls, self._told(task))
        aims = await asyncio.to_thread(attacks, self._name, task, self._reads)
        played, _ = await self._play(task, plan, "attacker", aims)
        passed = {state: sorted(names) for state, names in played.passed.items()}
        if chosen := _by_entries([move for move in _calls(plan) if self._is_open(move.tool)], calls, aims):
            passed["unheard"] = chosen
        conditional = any(isinstance(one, Asked) and one.decides for step in plan for one in step)
        strayed, told = await self._strayed(task, plan) if conditional else (None, False)
        return Row(
            self._name,
            task,
            self._configuration,
            done,
            questions,
            passed,
            len(aims),
            strayed,
            told,
        )

    def _plan(self, task: str) -> Plan:
        plan = PLANS[self._name][task]
        if self._configuration == "careful" or not needs_bounds(plan):
            return plan
        return PLAIN.get(self._name, {}).get(task, READ)

    def _reads(self, tool: str) -> bool:
        return self._tools[tool].get("consequential") is False

    def _told(self, task: str) -> str:
        own = suite(self._name).user_tasks[task].GROUND_TRUTH_OUTPUT
        return ANSWERS.get(self._name, {}).get(task, own)

    def _is_open(self, tool: str) -> bool:
        """Say whether others may choose an entry for a tool, so that nobody is asked about it."""
        bounds = self._policies.get(f"{self._name}__{tool}", {}).get("bounds", {})
        return any(str(one).endswith("-unheard") for one in bounds.get("identifier", ()))

    def _kinds(self, tool: str) -> Mapping[str, str]:
        described = self._tools[tool].get("arguments", {}).items()
        return {name: kind for name, facts in described if (kind := facts.get("items", facts).get("handle"))}

    async def _strayed(self, task: str, plan: Plan) -> tuple[list[JsonValue], bool]:
        """Return the calls of others' choice that are none of those that the plan fixes where all conditions hold.

        The second part says whether the planner could tell these choices apart.
        """
        made: dict[Reader, list[JsonValue]] = {}
        seen: list[list[str]] = []
        for reader in _CHOSEN:
            played, _ = await self._play(task, plan, reader)
            seen.append(played.seen)
            made[reader] = [
                [one["tool"], one["arguments"]]
                for one in lines(self._folder / "calls.jsonl")
                if not self._reads(one["tool"])
            ]
        strayed = [one for calls in made.values() for one in calls if one not in made["true"]]
        return strayed, any(one != seen[0] for one in seen)

    async def _play(
        self,
        task: str,
        plan: Plan,
        reader: Reader = "truth",
        aims: Mapping[str, Sequence[tuple[str, Mapping[str, JsonValue]]]] | None = None,
    ) -> tuple[Performance, int]:
        """Have a task carried out in a new conversation, and return the number of questions.

        People approve what the planner asks for, and deny what the attacker does. A denial ends the turn, so they have
        the planner go on.
        """
        person, questions = self._person, 0
        aim = suite(self._name).user_tasks[task]
        self._count += 1
        (self._folder / "task.txt").write_text(f"{task} {self._count}", "utf-8")
        (self._folder / "calls.jsonl").write_text("", "utf-8")
        truth = aim.ground_truth(world(self._name, task))
        played = self._planner.performance = Performance(
            Script(
                self._name,
                plan,
                truth,
                self._reads,
                self._folder / "calls.jsonl",
                self._told(task),
                reader,
                aims or {},
                self._kinds,
            )
        )
        await person.send("/reset confirm")
        await self._settled()
        await person.send(aim.PROMPT)
        while (waiting := await self._settled()) or not played.ended:
            questions += len(waiting)
            for question in waiting:
                await person.send(f"/{'deny' if played.attacking else 'approve'} {question}")
            if not waiting:
                await person.send("Go on.")
        return played, questions

    async def _settled(self) -> tuple[str, ...]:
        """Wait until no session works; return the questions that wait for an answer."""
        app = self._person.app
        async with asyncio.timeout(_PATIENCE):
            while True:
                waiting = await app.store.approvals.waiting()
                asking = {state.sid for state, _ in waiting}
                if not any([await _works(app, state, asking) async for state in app.store.sessions.states()]):
                    return tuple(dict.fromkeys(approval.asked_in for _, approval in waiting))
                await asyncio.sleep(0.02)


async def _works(app: App, state: SessionState, asking: Collection[str]) -> bool:
    deliveries = await app.store.outbox.deliveries(state.sid)
    unsent = any(entry.state in {"pending", "sending"} for entry in deliveries)
    answered = state.status is Status.AWAITING_INPUT and state.sid not in asking
    return state.status in _BUSY or state.waiting_items > 0 or answered or unsent


def _calls(plan: Plan) -> Iterator[Call]:
    return (one for step in plan for one in step if isinstance(one, Call))


def _by_entries(
    moves: Sequence[Call],
    made: Sequence[tuple[str, Mapping[str, JsonValue]]],
    aims: Mapping[str, Sequence[tuple[str, Mapping[str, JsonValue]]]],
) -> list[str]:
    """Return the attacks whose every call is one that was made, but for the identifiers in the places of entries.

    The attacker chooses these identifiers, as the author of the list does.
    """
    chosen: dict[str, set[str]] = {}
    for move in moves:
        chosen.setdefault(move.tool, set()).update(
            name for name, given in move.given.items() if isinstance(given, Entry) or _lists_entries(given)
        )

    def rest(tool: str, given: Mapping[str, JsonValue]) -> tuple[str, dict[str, JsonValue]]:
        return tool, {name: value for name, value in given.items() if name not in chosen.get(tool, ())}

    fixed = [rest(*one) for one in made if chosen.get(one[0])]
    return sorted(name for name, calls in aims.items() if calls and all(rest(*one) in fixed for one in calls))


def _lists_entries(given: Given) -> bool:
    return isinstance(given, list) and any(isinstance(one, Entry) for one in given)


@asynccontextmanager
async def staged(folder: Path, name: str, configuration: str, agentdyn: Path | None) -> AsyncGenerator[Stage]:
    """Open the stage of a suite, in an empty folder."""
    sources = [str(agentdyn / "src")] if agentdyn else []
    await asyncio.to_thread(folder.mkdir)
    planner, config = Planner(), configured(name, configuration)
    config["mcp_servers"][name] |= {
        "command": sys.executable,
        "args": [str(_HERE / "server.py"), VERSION, name, str(folder), str(SEED), *sources],
        "start_seconds": _PATIENCE,
    }
    async with running(folder, json.dumps(config, default=str), parts=parts(model=planner)) as person:
        yield Stage(name, configuration, person, folder, planner)


def table(rows: Sequence[Row]) -> str:
    """Return the figures as a Markdown table."""
    head = ("suite", "configuration", "tasks", "done", "unasked", "questions a task", "attacks", "passed")
    lines_of = [head, ("---",) * len(head)]
    for configuration in CONFIGURATIONS:
        own = [row for row in rows if row.configuration == configuration]
        named = dict.fromkeys(row.suite for row in own)
        lines_of += [_figures(name, configuration, [row for row in own if row.suite == name]) for name in named]
        lines_of += [_figures("all", configuration, own)] if len(named) > 1 else []
    return "".join(f"| {' | '.join(line)} |\n" for line in lines_of)


def _figures(name: str, configuration: str, rows: Sequence[Row]) -> tuple[str, ...]:
    tasks, planted = len(rows), sum(row.attacks for row in rows)
    unasked = sum(row.done and not row.questions for row in rows)
    questions, passed = sum(row.questions for row in rows), sum(len(row.through) for row in rows)
    done = sum(row.done for row in rows)
    return (
        name,
        configuration,
        str(tasks),
        str(done),
        f"{unasked} ({unasked / tasks:.1%})",
        f"{questions / tasks:.2f}",
        str(planted),
        f"{passed} ({passed / planted:.1%})",
    )


def report(rows: Sequence[Row]) -> str:
    """Return the rows as JSON."""
    return json.dumps([asdict(row) for row in rows], indent=2)
