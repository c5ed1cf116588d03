"""`lockgate files`: copy files to a bucket and back, and put, label and list them."""

from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of
from bot.operations.files.places import FilesPlace

files_app: Final = typer.Typer(
    help="Copy files to a bucket and back, and put, label and list them.", no_args_is_help=True
)

_Path = Annotated[str, typer.Argument(help="A folder of `policy.folders`, and the path in it.")]


@files_app.command("copy")
def _files_copy(
    context: typer.Context,
    *,
    to: Annotated[FilesPlace, typer.Option(help="`bucket`, or `local` for the data directory.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the files that would be copied, and write nothing.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace other files of the same names there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy all files and workspaces with their labels, and read each back. Exit code 2: some are not there alike."""
    from bot.cli.operating.files import copy

    config = config_of(context)
    raise typer.Exit(carry_out(copy(config, to, replaces=replace, dry=dry_run, as_json=as_json)))


@files_app.command("put")
def _files_put(
    context: typer.Context,
    local: Annotated[Path, typer.Argument(help="A file or a folder of this machine.")],
    path: _Path,
    *,
    label: Annotated[str | None, typer.Option(help="Its label, instead of the folder's floor.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace other files of the same names there.")] = False,
) -> None:
    """Put a file, or all files of a folder, into a folder of the policy."""
    from bot.cli.operating.files import put

    raise typer.Exit(carry_out(put(config_of(context), local, path, label, replaces=replace)))


@files_app.command("label")
def _files_label(
    context: typer.Context,
    path: _Path,
    label: Annotated[str, typer.Argument(help="The label, as `INTERNAL` or `CONFIDENTIAL{acme}`.")],
) -> None:
    """Label a file, or a folder and all below it that another tool put there. No label of a session is lowered."""
    from bot.cli.operating.files import label as give

    raise typer.Exit(carry_out(give(config_of(context), path, label)))


@files_app.command("list")
def _files_list(context: typer.Context, path: _Path, *, as_json: AsJson = False) -> None:
    """List the files of a folder with their labels."""
    from bot.cli.operating.files import listed

    carry_out(listed(config_of(context), path, as_json=as_json))
