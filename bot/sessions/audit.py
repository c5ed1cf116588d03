"""The rows of an audit chain, before and after they are chained, and the policy that a row put in force."""

from dataclasses import dataclass

from bot.core.json_values import JsonObject


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of an audit chain before it is chained: who, what was asked, what was decided, under which policy."""

    kind: str
    actor: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A chained row: `hash` covers `previous` and everything else in the record."""

    n: int
    ts: int
    kind: str
    actor: str
    body: JsonObject
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class PolicyHead:
    """The policy in force for all processes of a store.

    `at` is when it was put there, in milliseconds on the store's clock, and its version: it only ever grows. `process`
    tells a person which process did. `over` counts the changes that were made to who may what and which chat is what.
    """

    digest: str
    at: int
    process: str
    over: int = 0
