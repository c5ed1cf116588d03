"""`lockgate backup` and `lockgate restore`."""

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.groups.options import carry_out, config_of


def add_to(app: typer.Typer) -> None:
    """Add both commands."""
    app.command("backup")(_backup)
    app.command("restore")(_restore)


def _backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file, for its owner alone.")],
    *,
    without_files: Annotated[
        bool, typer.Option("--without-files", help="Leave files and workspaces out; back them up in another way.")
    ] = False,
) -> None:
    """Write a backup of the store, the data directory and files, while processes work; keys are not in it."""
    from bot.cli.operating.backups import backup

    carry_out(backup(config_of(context), file, files=not without_files))


def _restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `lockgate backup` made.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Check the file alone, and write nothing.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the content of the store and the data directory.")
    ] = False,
) -> None:
    """Put a backup into an empty store and data directory, and check the audit. Exit code 3: a chain is broken."""
    from bot.cli.operating.backups import check as look
    from bot.cli.operating.backups import restore

    config = config_of(context)
    if check:
        look(config, file)
        return
    raise typer.Exit(carry_out(restore(config, file, replaces=replace)))
