"""`lockgate audit` and `lockgate explain`: the chains of decisions, their newest records, and whether they hold."""

from typing import Final

from pydantic import JsonValue

from bot.audit import Intact
from bot.cli.output import moment, print_json, print_lines, table
from bot.cli.owner import as_owner
from bot.config.model import Config
from bot.errors import OperatorError
from bot.sessions.records import AuditRecord

EXIT_TAMPERED: Final = 3
OUTSIDE: Final = "audit"
"""The chain for decisions outside any session."""


async def tail(config: Config, chain: str, count: int, *, as_json: bool) -> None:
    """Print the newest records of a chain.

    Raises OperatorError: the chain has no records.
    """
    async with as_owner(config) as (app, _):
        head, _hash = await app.store.head(chain)
        records = await app.store.records(chain, after=max(0, head - count), limit=count)
    if not records:
        raise OperatorError(f"the chain `{chain}` has no records", next_step="`lockgate sessions list` names sessions")
    if as_json:
        print_json([_document(record) for record in records])
        return
    heads = ("n", "time (UTC)", "kind", "actor", "hook", "verdict", "rules", "taint")
    print_lines(table([heads, *(_row(record) for record in records)]))


async def verify(config: Config, *, as_json: bool) -> int:
    """Check every chain and print what was found; return 3 if one does not hold."""
    found: list[dict[str, JsonValue]] = []
    async with as_owner(config) as (app, _):
        for chain in sorted({OUTSIDE, *await app.chains.names()}):
            result = await app.chains.verify(chain)
            if isinstance(result, Intact):
                found.append({"chain": chain, "intact": True, "records": result.records})
            else:
                found.append({"chain": chain, "intact": False, "record": result.n, "reason": result.reason})
    broken = [entry for entry in found if not entry["intact"]]
    if as_json:
        print_json(list(found))
    else:
        print_lines(f"{entry['chain']}: tampered with, {entry['reason']}" for entry in broken)
        print_lines([f"{len(found) - len(broken)} of {len(found)} chains intact"])
    return EXIT_TAMPERED if broken else 0


async def explain(config: Config, decision: str, *, as_json: bool) -> None:
    """Print one record of a chain and what it means.

    Raises OperatorError: there is no such record.
    """
    chain, _, number = decision.rpartition(":")
    if not chain or not number.isascii() or not number.isdecimal() or len(number) > len(str(2**63)):
        raise OperatorError(
            f"`{decision}` is not a decision", next_step="write CHAIN:N, as `lockgate audit tail` shows"
        )
    async with as_owner(config) as (app, _):
        n = int(number)
        records = await app.store.records(chain, after=n - 1, limit=1) if n else ()
        in_force = app.gate.document.digest
    if not records or records[0].n != n:
        raise OperatorError(f"there is no decision `{decision}`", next_step="`lockgate audit tail` shows what there is")
    record = records[0]
    if as_json:
        print_json({"chain": chain, **_document(record), "policy_in_force": in_force})
        return
    body = record.body
    lines = [f"{chain}:{record.n}, {moment(record.ts)} UTC, {record.kind} by {record.actor}"]
    lines += [f"{name}: {_shown(value)}" for name, value in body.items() if value not in ("", [], None)]
    if body.get("policy") and body["policy"] != in_force:
        lines.append("the policy was another one then")
    print_lines(lines)


def _document(record: AuditRecord) -> dict[str, JsonValue]:
    return {
        "n": record.n,
        "ts": record.ts,
        "kind": record.kind,
        "actor": record.actor,
        "body": dict(record.body),
        "hash": record.hash,
    }


def _row(record: AuditRecord) -> tuple[str, ...]:
    body = record.body
    what = (_shown(body.get(name, "")) for name in ("hook", "verdict", "rules", "before"))
    return str(record.n), moment(record.ts), record.kind, record.actor, *what


def _shown(value: JsonValue) -> str:
    return ", ".join(str(inner) for inner in value) if isinstance(value, list) else str(value)
