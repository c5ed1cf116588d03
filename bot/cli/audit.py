"""`lockgate audit` and `lockgate explain`: the chains of decisions, their newest records, and whether they hold."""

from typing import Final

from pydantic import JsonValue

from bot.audit import rendering
from bot.audit.anchors import OUTSIDE
from bot.audit.chain import Intact
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.sessions.audit import AuditRecord

EXIT_TAMPERED: Final = 3


async def tail(config: Config, chain: str, count: int, *, as_json: bool) -> None:
    """Print the newest records of a chain.

    Raises OperatorError: the chain has no records.
    """
    async with as_owner(config) as (app, _):
        records = await app.chains.newest(chain, count)
    if not records:
        raise OperatorError(f"the chain `{chain}` has no records", next_step="`lockgate sessions list` names sessions")
    if as_json:
        print_json([_document(record) for record in records])
        return
    print_lines(table([("n", *rendering.HEADS), *((str(record.n), *rendering.cells(record)) for record in records)]))


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
        record = await app.chains.record(chain, int(number))
        in_force = app.gate.document.digest
    if record is None:
        raise OperatorError(f"there is no decision `{decision}`", next_step="`lockgate audit tail` shows what there is")
    if as_json:
        print_json({"chain": chain, **_document(record), "policy_in_force": in_force})
        return
    print_lines(rendering.told(f"{chain}:{record.n}", record, in_force))


def _document(record: AuditRecord) -> dict[str, JsonValue]:
    return {
        "n": record.n,
        "ts": record.ts,
        "kind": record.kind,
        "actor": record.actor,
        "body": dict(record.body),
        "hash": record.hash,
    }
