"""Deciding the audit's decisions again by another policy, and counting the changes.

Every chain is checked while it is read: a decision counts only if its record holds. Only counts and a few names of rows
are kept, so that an audit of any length can be read. Nothing is written.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from bot.access.tokens import LiveTokens
from bot.audit.anchors import OUTSIDE, AnchoredChains
from bot.audit.chain import Broken
from bot.audit.decisions import RecordedDecision
from bot.operations.rehearsal.rehearsal import Rehearsal, Rehearsed
from bot.sessions.ports.store import Store
from policy.decision import Verdict
from policy.document.groups import moments, policy_at
from policy.document.model import Document
from policy.document.overrides import Overrides
from policy.document.programs import Program, with_programs

EXAMPLES: Final = 3
"""The most rows that are named as examples of one kind of change."""

_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, order=True)
class ReplayChange:
    """A kind of change: the verdicts, the rule that makes it, and the tool or hook concerned.

    `people` are the roles of the people who were asked and of those who would be, where both verdicts ask.
    """

    then: Verdict
    now: Verdict
    rule: str
    about: str
    people: tuple[tuple[str, ...], tuple[str, ...]] | None = None


@dataclass(slots=True)
class ReplayReport:
    """The outcome of deciding again by another policy.

    Args:
        policy: The digest of the other policy.
        days: How many days were looked at.
        decisions: How many decisions were made in that time.
        changes: The changes, each with its number.
        examples: The names of some rows of each change.
        untold: How many decisions cannot be told, by reason.
        unknown: How many decisions were about a person or chat that the policy does not know, by name.
        elsewhere: How many decisions were made by another policy than the one in force now.
        relabelled: How many decisions were made where the policy may give data other labels than they had.
        broken: The chains that do not hold, each with its defect; their records from there on do not count.
    """

    policy: str
    days: int
    decisions: int = 0
    changes: Counter[ReplayChange] = field(default_factory=Counter[ReplayChange])
    examples: dict[ReplayChange, list[str]] = field(default_factory=dict[ReplayChange, list[str]])
    untold: Counter[str] = field(default_factory=Counter[str])
    unknown: Counter[str] = field(default_factory=Counter[str])
    elsewhere: int = 0
    relabelled: int = 0
    broken: dict[str, Broken] = field(default_factory=dict[str, Broken])

    def count(self, name: str, told: RecordedDecision, decided: Rehearsed) -> None:
        """Count a decision; `name` is that of its row."""
        if decided.untold is not None:
            self.untold[decided.untold.value] += 1
        if decided.unknown:
            self.unknown[decided.unknown] += 1
        self.relabelled += decided.relabelled
        if not decided.changed or decided.now is None:
            return
        about = told.tool or told.hook
        change = ReplayChange(decided.then, decided.now, _rule(told.rules, decided), about, decided.approvers)
        self.changes[change] += 1
        named = self.examples.setdefault(change, [])
        if len(named) < EXAMPLES:
            named.append(name)


class PolicyReplay:
    """Decides the audit of a store again by another policy."""

    def __init__(self, store: Store, chains: AnchoredChains) -> None:
        self._store = store
        self._chains = chains

    async def report(self, file: Document, current: Document, days: int) -> ReplayReport:
        """Return the changes by the policy of a file in the last `days`, with people's changes as of now.

        `current` is the policy in force. Raises StoreError: the store cannot be used.
        """
        _, overrides = await self._store.access.overrides()
        now = self._store.tokens.now_ms()
        live = LiveTokens.of(await self._store.tokens.tokens(), now)
        rehearsals = _Rehearsals(file, overrides, live.programs(), current)
        report, since = ReplayReport(rehearsals.at(now).digest, days), now - days * _DAY_MS
        in_force_now = current.digest
        for chain in sorted({OUTSIDE, *await self._chains.names()}):
            async for record in self._chains.checked(chain):
                if isinstance(record, Broken):
                    report.broken[chain] = record
                elif record.ts >= since and (told := RecordedDecision.of(record)) is not None:
                    report.decisions += 1
                    report.elsewhere += told.policy != in_force_now
                    report.count(f"{chain}:{record.n}", told, rehearsals.at(record.ts).rehearsed(told))
        return report


class _Rehearsals:
    """The rehearsals by a file's policy, one for each time between two ends of access or of a membership."""

    def __init__(self, file: Document, overrides: Overrides, programs: Iterable[Program], current: Document) -> None:
        self._file, self._overrides, self._programs, self._current = file, overrides, tuple(programs), current
        self._ends = sorted({*moments(file)})
        self._made = dict[int, Rehearsal]()

    def at(self, ts: int) -> Rehearsal:
        """Return the rehearsal for a moment, in ms."""
        moment = datetime.fromtimestamp(ts / 1000, UTC)
        time = bisect_right(self._ends, moment)
        if time not in self._made:
            document = with_programs(policy_at(self._file, self._overrides, moment), self._programs)
            self._made[time] = Rehearsal(document, (self._current,))
        return self._made[time]


def _rule(then: tuple[str, ...], decided: Rehearsed) -> str:
    """Return the rule that makes a change: of the stricter verdict, one that the milder one does not have."""
    stricter = decided.now is not None and decided.now > decided.then
    more, less = (decided.rules, then) if stricter else (then, decided.rules)
    return next((rule for rule in more if rule not in less), next(iter(more), ""))
