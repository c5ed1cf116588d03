"""`lockgate audit`: look at the audit chains, and trace lineage."""

from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of

audit_app: Final = typer.Typer(help="Look at the audit chains.", no_args_is_help=True)


@audit_app.command("tail")
def _audit_tail(
    context: typer.Context,
    chain: Annotated[str, typer.Option(help="A session's id, or `audit` for decisions outside any.")] = "audit",
    count: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many of the newest records.")] = 20,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the newest records of an audit chain."""
    from bot.cli.audit import tail

    carry_out(tail(config_of(context), chain, count, as_json=as_json))


@audit_app.command("verify")
def _audit_verify(
    context: typer.Context,
    anchors: Annotated[list[Path] | None, typer.Option(help="A file of anchors of another machine, too.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check every audit chain; exit code 3 if one was tampered with."""
    from bot.cli.audit import verify

    raise typer.Exit(carry_out(verify(config_of(context), anchors or (), as_json=as_json)))


@audit_app.command("trace")
def _audit_trace(  # noqa: PLR0913 - the options of a trace
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="Of an event, file, memory, skill, session or delivery.")],
    *,
    forward: Annotated[bool, typer.Option("--forward", help="Where it went, instead of where it came from.")] = False,
    depth: Annotated[int, typer.Option(min=1, max=100, help="Over how many steps at most.")] = 100,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many are shown.")] = 50,
    cursor: Annotated[str, typer.Option(help="Where the page before ended.")] = "",
    svg: Annotated[Path | None, typer.Option(help="A file to draw a picture into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Trace something back to its sources, or forward to all that came of it and to who has seen it."""
    from bot.cli.audit import trace
    from bot.lineage.tracer import LineageQuery
    from bot.lineage.walk import Direction

    direction = Direction.FORWARD if forward else Direction.BACK
    query = LineageQuery(name, direction, depth, cursor, limit)
    carry_out(trace(config_of(context), query, as_json=as_json, picture=svg))
