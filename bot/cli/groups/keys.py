"""`lockgate keys`: list the keys of the installation, and change the audit or session key."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of

keys_app: Final = typer.Typer(help="List the keys of the installation, and change some.", no_args_is_help=True)


class RotatedKey(StrEnum):
    """The keys of an installation; that of the vault is changed by hand."""

    AUDIT = "audit"
    SESSION = "session"
    VAULT = "vault"


_Which = Annotated[RotatedKey, typer.Argument(help="The key.")]


@keys_app.command("list")
def _keys_list(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List keys by their names, which tell nothing of the keys."""
    from bot.cli.operating.keys import listed

    carry_out(listed(config_of(context), as_json=as_json))


@keys_app.command("rotate")
def _keys_rotate(context: typer.Context, which: _Which) -> None:
    """Put another key in force; the old one still proves its rows, or finds its conversations."""
    from bot.cli.operating.keys import rotate

    carry_out(rotate(config_of(context), which.value))


@keys_app.command("adopt")
def _keys_adopt(context: typer.Context) -> None:
    """Make the keys here those of the installation, after others were lost."""
    from bot.cli.operating.keys import adopt

    carry_out(adopt(config_of(context)))


@keys_app.command("retire")
def _keys_retire(context: typer.Context, which: _Which) -> None:
    """Retire older audit keys: they prove only the rows that are there now."""
    from bot.cli.operating.keys import retire

    carry_out(retire(config_of(context), which.value))
