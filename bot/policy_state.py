"""The policy in force: set at a process's start and by a reload, and followed when another process set it.

The file is read and checked as at the start, and put in force as a whole or not at all. A file that is wrong,
half-written or gone changes nothing, and the answer says which line. Settings outside the policy take effect at the
next start. Tools and commands of a plugin that is not named any more stay until then, and so do its rules. A removed
compartment stays in stored labels, which then flow nowhere. Every attempt is in the audit before it takes effect.

All processes of a store decide by one policy, its head there. Only a start and a reload write it; the last of them
wins. A process that finds another policy there reads its own file again, once, and continues if its policy is the same.
Otherwise it accepts and sends nothing until a person reloads or restarts it. No process does that by itself, so two
processes with different files never take turns.

People's changes while Lockgate runs, such as users and classified chats, are in the store. The policy in force is the
meet of them and the file; the head counts the changes, so that every process that reads it follows them. The same holds
for tokens of programs. A token is invalid from its expiry on the store's clock, in every process. The access of a
person and the membership of a group end on that clock, too: each use of the policy looks at the time.
"""

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from bot.access.tokens import LiveTokens
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import BusyError, ConfigError, StoreError
from bot.gate.gate import Gate
from bot.gate.judge import ReadyPolicy, Renewal
from bot.sessions.api_tokens import ApiToken
from bot.sessions.approvals import Answered
from bot.sessions.audit import AuditRow, PolicyHead
from bot.sessions.ports.store import Store
from policy.document.groups import moments, policy_at
from policy.document.model import Document
from policy.document.overrides import AccessChange, Overrides
from policy.document.programs import with_programs

Tell = Callable[[str], Awaitable[None]]
"""Show a line to the operator of this process."""

NEXT_STEP: Final = "`/policy reload` here puts this process's own file in force, or restart it with the same file"


REMOVED: Final = (
    "Compartment `{}` was removed: no person and no place is cleared for it any more. Conversations that have read it"
    " answer nothing until `/reset confirm`."
)
"""The effect of a removed compartment, for the person who reloads."""

_UNKNOWN: Final = -1
"""Stands for the number of changes when those in force are to be read again."""

_TRIES: Final = 20
"""How often a change is tried again because of other changes meanwhile."""


@dataclass(frozen=True, slots=True)
class Changing:
    """A change to principals or chats, with its audit rows; `answered` is the pairing request that it answers."""

    change: AccessChange
    audit: tuple[AuditRow, ...]
    answered: Answered | None = None


@dataclass(frozen=True, slots=True)
class ChangeBase:
    """The base of a change: the changes before it, the file's policy that bounds it, and the moment."""

    file: Document
    overrides: Overrides
    now: datetime

    def document(self, change: AccessChange) -> Document:
        """Return the policy that would be in force after a change."""
        return policy_at(self.file, self.overrides.changed(change), self.now)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload.

    Args:
        digest: The digest of this process's policy afterwards.
        problem: Why it is still the old one, empty if it is not.
        behind: Whether another policy is in force.
        removed: The compartments that the policy before had, and this one has not.
    """

    digest: str
    problem: str = ""
    behind: bool = False
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problem and self.behind:
            return f"{self.problem}\nnothing changed, this process still takes in nothing"
        if self.problem:
            return f"{self.problem}\nNothing changed, policy {self.digest[:12]} stays in force."
        return "\n".join((f"Policy {self.digest[:12]} is in force.", *map(REMOVED.format, self.removed)))


class ProcessKeys(Protocol):
    """The keys of this process."""

    @property
    def problem(self) -> StoreError | None:
        """Why this process may not serve with them, None if it may."""
        ...


class PolicyReloader:
    """Keeps the gate's policy the one in force.

    `load` reads the file again, with the plugins that this process loaded; `process` tells people which process it is.
    A process that `keys` bar may not continue either.
    """

    def __init__(
        self,
        gate: Gate,
        config: Config,
        *,
        load: Callable[[], Config],
        store: Store,
        process: str,
        keys: ProcessKeys,
    ) -> None:
        self._keys = keys
        self._gate, self._store, self._latest = gate, store, 0
        self._keep(config.policy)
        self._overrides = Overrides()
        self._tokens: tuple[ApiToken, ...] = ()
        self._live = LiveTokens.of((), 0)
        self._over = 0
        self._load = load
        self._process = process
        self._lock = asyncio.Lock()
        self._tell: Tell | None = None
        self._behind: PolicyHead | None = None
        self._tried = 0
        if config.policy.groups or any(moments(config.policy)):
            gate.policy.put_in_force(self._ready(self._file, self._overrides, self._live))

    @property
    def digest(self) -> str:
        """The digest of this process's file, by which processes compare; decisions name that of the policy in force."""
        return self._digest

    @property
    def following(self) -> bool:
        """Whether this process began to serve, and follows the policy in force since."""
        return self._tell is not None

    @property
    def behind(self) -> bool:
        """Whether this process found another policy in force than its own; it does nothing then."""
        return self._behind is not None

    async def start(self, tell: Tell) -> None:
        """Put this process's policy in force as it begins to serve, unless it is; from then on follow the head.

        `tell` is called when this process stops serving because of another policy, and when it serves again. Raises
        StoreError.
        """
        async with self._lock:
            head, digest = await self._store.policy.read_policy(), self.digest
            if head is None or head.digest != digest:
                before = None if head is None else head.digest
                row = AuditRow("policy", "start", {"before": before, "in_force": digest, "process": self._process})
                head = await self._store.policy.put_policy(digest, self._process, (row,))
            await self._follow_changes(head.over)
            self._tell, self._behind = tell, None

    @property
    def live_tokens(self) -> LiveTokens:
        """The tokens of the programs that are among the principals in force here."""
        return self._live

    async def open(self) -> None:
        """Let this process decide by people's changes too, also if it does not serve. Raises StoreError.

        Code that changed a token calls it again, so that the change is in force here afterwards.
        """
        async with self._lock:
            await self._read_changes()

    async def lost_changes(self) -> tuple[tuple[ApiToken, ...], Overrides] | None:
        """Return the tokens and people's changes that are in force here if the store has fewer of them, None otherwise.

        `open` puts those of the store in force. Raises StoreError.
        """
        async with self._lock:
            over, overrides = await self._store.access.overrides()
            if over > self._over or (over, overrides) == (self._over, self._overrides):
                return None
            known, self._over = (self._tokens, self._overrides), _UNKNOWN
            return known

    async def change(self, made: Callable[[ChangeBase], Changing]) -> None:
        """Change principals or chats; it is in force here when this returns, and elsewhere before the next decision.

        `made` returns the change; it is called again if there were other changes meanwhile. Its errors are passed on.

        Raises:
            NotFoundError: The pairing request that the change answers does not wait any more.
            StoreError: The store does not answer.
        """
        async with self._lock:
            for _ in range(_TRIES):
                await self._read_changes()
                asked = made(ChangeBase(self._file, self._overrides, self._moment()))
                over = await self._store.access.override(asked.change, self._over, asked.audit, asked.answered)
                if over is not None:
                    await self._put(self._overrides.changed(asked.change), self._tokens, over)
                    return
        raise BusyError

    async def current(self) -> bool:
        """Say whether this process may continue: its policy was in force when the store was asked last.

        A process that does not serve always may, unless it is barred. Raises StoreError.
        """
        if self._keys.problem is not None:
            return False
        if self._lapsed():
            await self._forget_lapsed()
        if self._tell is None or (self._behind is None and self._holds(self._store.policy.policy_head)):
            return True
        async with self._lock:
            return await self._follow(self._tell)

    async def current_now(self) -> bool:
        """Say the same, asking the store first. Raises StoreError."""
        await self._store.policy.read_policy()
        return await self.current()

    async def shown(self) -> str:
        """Return in a line which policy is in force at the store, with its process and time. Raises StoreError."""
        await self.current_now()
        head = self._store.policy.policy_head
        if head is None:
            return "No process has put a policy in force at the store."
        if self._holds(head):
            return f"At the store it was put in force by {described(head)}."
        return f"{other(head)}, {NEXT_STEP}"

    async def read(self) -> Config:
        """Return the present configuration of the file. Raises ConfigError: it cannot be put in force."""
        return await asyncio.to_thread(self._load)

    async def reload(self, actor: str) -> Reloaded:
        """Put the policy of the file in force at the store, for all later decisions.

        Raises StoreError: the attempt could not be recorded, so nothing changed.
        """
        async with self._lock:
            before = self.digest
            try:
                file, force = await self._prepared()
            except ConfigError as error:
                await self._store.audit.append((AuditRow("policy", actor, {"in_force": before, "refused": True}),))
                return Reloaded(before, str(error), self.behind)
            removed = tuple(sorted(set(self._file.compartments).difference(file.compartments)))
            body = {"before": before, "in_force": file.digest, "refused": False, "process": self._process}
            head = await self._store.policy.put_policy(
                file.digest, self._process, (AuditRow("policy", actor, {**body}),)
            )
            self._keep(file)
            self._gate.policy.put_in_force(force)
            await self._follow_changes(head.over)
            self._behind = None
            return Reloaded(file.digest, removed=removed)

    async def _follow(self, tell: Tell) -> bool:
        head = self._store.policy.policy_head
        if head is None:
            if self._behind is not None:
                # The head was lost. The process that set it sets it again, and any other by a start or a reload.
                return False
            row = AuditRow("policy", "lost", {"in_force": self.digest, "process": self._process})
            head = await self._store.policy.put_policy(self.digest, self._process, (row,), only_if_none=True)
        if head.digest == self.digest or await self._adopted(head):
            await self._follow_changes(head.over)
            if self._behind is not None:
                self._behind = None
                await tell(f"Policy {head.digest[:12]} is in force here too, this process serves again.")
            return True
        if self._behind != head:
            self._behind = head
            await tell(f"{other(head)}: this process has policy {self.digest[:12]} and stopped serving")
            await tell(NEXT_STEP)
        return False

    async def _adopted(self, head: PolicyHead) -> bool:
        """Read the file again, once for every head, and put it in force here if its digest is the same."""
        if self._tried == head.at:
            return False
        self._tried = head.at
        try:
            file, force = await self._prepared()
        except ConfigError:
            return False
        if file.digest != head.digest:
            return False
        body = {"before": self.digest, "in_force": head.digest, "process": self._process}
        await self._store.audit.append((AuditRow("policy", "follow", {**body}),))
        self._keep(file)
        self._gate.policy.put_in_force(force)
        return True

    async def _follow_changes(self, over: int) -> None:
        """Put people's changes in force, if their number is not the one known here."""
        if over != self._over:
            await self._read_changes()

    async def _read_changes(self) -> None:
        over, overrides = await self._store.access.overrides()
        if over != self._over:
            # Read after the number, so that they are never older than it.
            await self._put(overrides, await self._store.tokens.tokens(), over)

    async def _put(self, overrides: Overrides, tokens: tuple[ApiToken, ...], over: int) -> None:
        live = LiveTokens.of(tokens, self._latest_ms())
        force = await asyncio.to_thread(lambda: self._ready(self._file, overrides, live).loaded())
        self._gate.policy.put_in_force(force)
        self._overrides, self._tokens, self._live, self._over = overrides, tokens, live, over

    async def _forget_lapsed(self) -> None:
        async with self._lock:
            if self._lapsed():
                await self._put(self._overrides, self._tokens, self._over)

    def _lapsed(self) -> bool:
        return self._live.lapsed(self._latest_ms())

    def _keep(self, file: Document) -> None:
        # Asked for with every message and text; the larger a policy, the longer its digest takes.
        self._file, self._digest = file, file.digest

    def _latest_ms(self) -> int:
        """Return the time on the store's clock; where that is set back, the latest time that was seen."""
        self._latest = max(self._latest, self._store.tokens.now_ms())
        return self._latest

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self._latest_ms() / 1000, UTC)

    def _ready(self, file: Document, overrides: Overrides, live: LiveTokens) -> ReadyPolicy:
        """Return the policy of now, ready to decide until the next access ends."""
        now = self._moment()
        document = with_programs(policy_at(file, overrides, now), live.programs())
        later = [one for one in moments(file) if one > now]
        if not later:
            return ReadyPolicy.of(document)
        end = min(later)
        renewal = Renewal(lambda: self._moment() >= end, lambda: self._ready(file, overrides, live))
        return ReadyPolicy.of(document, renewal)

    def _holds(self, head: PolicyHead | None) -> bool:
        return head is not None and (head.digest, head.over) == (self.digest, self._over)

    async def _prepared(self) -> tuple[Document, ReadyPolicy]:
        """Return the policy of the file, and the same with people's changes, ready to decide.

        Raises ConfigError: it cannot be put in force, or not without a restart.
        """
        config = await self.read()
        _no_rule_less(self._file, config.policy)
        made = partial(self._ready, config.policy, self._overrides, self._live)
        return config.policy, await asyncio.to_thread(lambda: made().loaded())


def described(head: PolicyHead) -> str:
    """Return the process that put a policy in force, and the time."""
    return f"{head.process} at {moment(head.at)} UTC"


def named() -> str:
    """Return how people find this process: the name that the store knows it by means nothing to them."""
    return f"process {os.getpid()} on {machine()}"


def machine() -> str:
    """Return how people find this machine."""
    return platform.node() or "a machine without a name"


def other(head: PolicyHead) -> str:
    """Return a sentence that another policy is in force."""
    return f"policy {head.digest[:12]} was put in force by {described(head)}"


def _no_rule_less(before: Document, after: Document) -> None:
    gone = sorted(rule.id for rule in before.code.rules if rule not in after.code.rules)
    if gone:
        raise ConfigError(f"rule `{gone[0]}` of a plugin was removed, restart to put that in force")
