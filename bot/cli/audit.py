"""`lockgate audit` and `lockgate explain`: the chains of decisions, whether they hold, and lineage."""

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.audit import rendering
from bot.audit.chain import Intact
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.errors import OperatorError, RequestError
from bot.lineage import names
from bot.lineage import rendering as lineage_rendering
from bot.lineage.loading import LineageViewer
from bot.lineage.tracer import DEEPEST, LineageQuery, LineageTrace
from bot.lineage.walk import Direction
from bot.operations.audit import CheckedChain, DecisionNameError, numbered
from bot.sessions.audit import AuditRecord

EXIT_TAMPERED: Final = 3

UNANCHORED: Final = "Not anchored here yet: {}. `--anchors FILE` checks them by the file `anchors` of another machine"
PICTURE: Final = "The picture is in {}; a browser shows it."
TRACED: Final = f"write {names.FORMS}"


async def tail(config: Config, chain: str, count: int, *, as_json: bool) -> None:
    """Print the newest records of a chain.

    Raises OperatorError: the chain has no records.
    """
    async with as_owner(config, looking=True) as (app, _):
        rows = await app.audit.newest(chain, count, None)
    if not rows:
        raise OperatorError(f"the chain `{chain}` has no records", next_step="`lockgate sessions list` names sessions")
    if as_json:
        print_json([_document(row.record) for row in rows])
        return
    cells = ((str(row.record.n), *rendering.cells(row.record)) for row in rows)
    print_lines(table([("n", *rendering.HEADS), *cells]))


async def verify(config: Config, beside: Sequence[Path] = (), *, as_json: bool) -> int:
    """Check every chain, also by the anchors in the files `beside`, and print the result; return 3 if one is broken."""
    async with as_owner(config, looking=True) as (app, _):
        checked = await app.audit.checked(None, beside)
    if as_json:
        print_json([_found(one) for one in checked.chains])
    else:
        print_lines(f"{name}: tampered with, {broken.reason}" for name, broken in checked.broken.items())
        print_lines(f"{name}: the store lost records up to {lost}" for name, lost in checked.lost.items())
        print_lines([checked.summary])
        if checked.unanchored:
            print_lines([UNANCHORED.format(checked.unanchored)])
    return EXIT_TAMPERED if checked.broken else 0


async def explain(config: Config, decision: str, *, as_json: bool) -> None:
    """Print one record of a chain and its meaning.

    Raises OperatorError: there is no such record.
    """
    try:
        chain, _ = numbered(decision)
    except DecisionNameError as error:
        raise OperatorError(str(error), next_step="write CHAIN:N, as `lockgate audit tail` shows") from None
    async with as_owner(config, looking=True) as (app, _):
        row = await app.audit.row(decision, None)
        in_force = app.gate.document.digest
    if row is None:
        raise OperatorError(f"there is no decision `{decision}`", next_step="`lockgate audit tail` shows what there is")
    if as_json:
        print_json({"chain": chain, **_document(row.record), "policy_in_force": in_force})
        return
    print_lines(rendering.told(row.id, row.record, in_force))


async def trace(config: Config, query: LineageQuery, *, as_json: bool, picture: Path | None) -> None:
    """Print where something came from or where it went, and draw it into a file; one row of the audit is explained.

    Raises OperatorError: there is no such thing, or the picture cannot be written.
    """
    if names.row_named(query.name):
        await explain(config, query.name, as_json=as_json)
        return
    async with as_owner(config, looking=True) as (app, _):
        try:
            lineage = await app.lineage.trace(query, LineageViewer())
        except RequestError as error:
            raise OperatorError(str(error), next_step=error.next_step or TRACED) from None
    if picture is not None:
        await asyncio.to_thread(_drawn, lineage, picture)
    if as_json:
        print_json(lineage_rendering.document(lineage))
        return
    way = " --forward" if query.direction is Direction.FORWARD else ""
    # The cursor counts the things that this depth finds.
    depth = "" if query.depth == DEEPEST else f" --depth {query.depth}"
    command = f"lockgate audit trace {shlex.quote(query.name)}{way}{depth} --cursor"
    print_lines(lineage_rendering.lines(lineage, command))
    print_lines([] if picture is None else [PICTURE.format(picture)])


def _drawn(lineage: LineageTrace, picture: Path) -> None:
    from bot.lineage.picture import svg

    try:
        picture.write_text(svg(lineage), "utf-8")
    except OSError as error:
        raise OperatorError(f"`{picture}` cannot be written: {error.strerror}") from None


def _found(one: CheckedChain) -> dict[str, JsonValue]:
    if isinstance(one.result, Intact):
        told: dict[str, JsonValue] = {"intact": True, "records": one.result.records}
        told |= {"lost": one.result.lost} if one.result.lost else {}
    else:
        told = {"intact": False, "record": one.result.n, "reason": one.result.reason}
    return {"chain": one.name, **told, "anchored": one.anchored}


def _document(record: AuditRecord) -> dict[str, JsonValue]:
    return {
        "n": record.n,
        "ts": record.ts,
        "kind": record.kind,
        "actor": record.actor,
        "body": dict(record.body),
        "hash": record.hash,
    }
