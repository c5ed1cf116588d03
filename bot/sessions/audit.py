"""The rows of an audit chain, before and after they are chained, and the policy that a row put in force."""

from dataclasses import dataclass

from bot.core.json_values import JsonObject


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of an audit chain before it is chained: who asked for which operation, the decision, and the policy."""

    kind: str
    actor: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A chained row: `hash` covers `previous` and everything else in the record; `ts` is in ms on the store's clock."""

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

    Args:
        digest: The digest of the policy.
        at: When it was put in force, in milliseconds on the store's clock. It serves as a version and only grows.
        process: The process that did it, for people.
        over: How many changes people made to principals and chats.
    """

    digest: str
    at: int
    process: str
    over: int = 0
