"""`lockgate audit` and `lockgate explain`: the chains of decisions, their newest records, and whether they hold."""

from typing import Final

from pydantic import JsonValue

from bot.audit import rendering
from bot.audit.chain import Intact
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.operations.audit import CheckedChain, DecisionNameError, numbered
from bot.sessions.audit import AuditRecord

EXIT_TAMPERED: Final = 3


async def tail(config: Config, chain: str, count: int, *, as_json: bool) -> None:
    """Print the newest records of a chain.

    Raises OperatorError: the chain has no records.
    """
    async with as_owner(config) as (app, _):
        rows = await app.audit.newest(chain, count, None)
    if not rows:
        raise OperatorError(f"the chain `{chain}` has no records", next_step="`lockgate sessions list` names sessions")
    if as_json:
        print_json([_document(row.record) for row in rows])
        return
    cells = ((str(row.record.n), *rendering.cells(row.record)) for row in rows)
    print_lines(table([("n", *rendering.HEADS), *cells]))


async def verify(config: Config, *, as_json: bool) -> int:
    """Check every chain and print what was found; return 3 if one does not hold."""
    async with as_owner(config) as (app, _):
        checked = await app.audit.checked(None)
    if as_json:
        print_json([_found(one) for one in checked.chains])
    else:
        print_lines(f"{name}: tampered with, {broken.reason}" for name, broken in checked.broken.items())
        print_lines([checked.summary])
    return EXIT_TAMPERED if checked.broken else 0


async def explain(config: Config, decision: str, *, as_json: bool) -> None:
    """Print one record of a chain and what it means.

    Raises OperatorError: there is no such record.
    """
    try:
        chain, _ = numbered(decision)
    except DecisionNameError as error:
        raise OperatorError(str(error), next_step="write CHAIN:N, as `lockgate audit tail` shows") from None
    async with as_owner(config) as (app, _):
        row = await app.audit.row(decision, None)
        in_force = app.gate.document.digest
    if row is None:
        raise OperatorError(f"there is no decision `{decision}`", next_step="`lockgate audit tail` shows what there is")
    if as_json:
        print_json({"chain": chain, **_document(row.record), "policy_in_force": in_force})
        return
    print_lines(rendering.told(row.id, row.record, in_force))


def _found(one: CheckedChain) -> dict[str, JsonValue]:
    if isinstance(one.result, Intact):
        return {"chain": one.name, "intact": True, "records": one.result.records}
    return {"chain": one.name, "intact": False, "record": one.result.n, "reason": one.result.reason}


def _document(record: AuditRecord) -> dict[str, JsonValue]:
    return {
        "n": record.n,
        "ts": record.ts,
        "kind": record.kind,
        "actor": record.actor,
        "body": dict(record.body),
        "hash": record.hash,
    }
