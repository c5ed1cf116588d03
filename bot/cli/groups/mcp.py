"""`lockgate mcp`: serve other agents."""

from typing import Final

import typer

from bot.cli.groups.options import carry_out, config_of

mcp_app: Final = typer.Typer(help="Serve other agents by MCP.", no_args_is_help=True)


@mcp_app.callback()
def _mcp() -> None:
    pass


@mcp_app.command("serve")
def _mcp_serve(context: typer.Context) -> None:
    """Serve one agent on standard input and output, as the program whose token is in LOCKGATE_TOKEN."""
    from bot.cli.log import logged
    from bot.cli.mcp.serving import serve_mcp

    config = config_of(context)
    with logged(config, None):
        carry_out(serve_mcp(config))
