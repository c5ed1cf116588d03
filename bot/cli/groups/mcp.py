"""`lockgate mcp`: serve other agents, draft the entries of servers, and log in at those that ask for an account."""

from typing import Annotated, Final

import typer

from bot.cli.groups.options import carry_out, config_of

mcp_app: Final = typer.Typer(
    help="Serve other agents by MCP, and draft the entries of MCP servers.", no_args_is_help=True
)


def _servers(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a configured server; a configuration that cannot be read has none."""
    from bot.core.errors import OperatorError

    try:
        # While a line is completed, its commands are not carried out, and nothing has put the file here yet.
        context.obj = context.find_root().params.get("config")
        return sorted(name for name in config_of(context).mcp_servers if name.startswith(incomplete))
    except OperatorError:
        return []


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


@mcp_app.command("draft")
def _mcp_draft(  # noqa: PLR0913 - one for each option
    context: typer.Context,
    server: Annotated[str, typer.Argument(help="Its name in config.yaml.", autocompletion=_servers)],
    command: Annotated[
        list[str] | None, typer.Argument(help="The command that starts it, if it is not configured, after `--`.")
    ] = None,
    *,
    url: Annotated[str, typer.Option(help="Its address, if it is not configured.")] = "",
    tool: Annotated[list[str] | None, typer.Option(help="Draft this tool alone; give it again for others.")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print the differences from config.yaml instead.")] = False,
    timeout: Annotated[
        int, typer.Option(min=0, max=600, help="Seconds that it may take to start and to answer; 0 as configured.")
    ] = 0,
) -> None:
    """Ask an MCP server for its tools, and print its entry for config.yaml, for you to review. It changes nothing."""
    from bot.cli.mcp.drafting import DraftWish, draft

    wish = DraftWish(tuple(command or ()), url, tuple(tool or ()), diff=diff, seconds=timeout)
    carry_out(draft(config_of(context), server, wish))


_Server = Annotated[str, typer.Argument(help="The server's name under `mcp_servers`.")]


@mcp_app.command("login")
def _mcp_login(
    context: typer.Context,
    server: _Server,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port here that the browser comes back to; 0 is any free one.")
    ] = 0,
) -> None:
    """Connect the one account that all use at a server: print an address, and wait for your consent there."""
    from bot.cli.log import logged
    from bot.cli.mcp.accounts import login

    config = config_of(context)
    with logged(config, None):
        carry_out(login(config, server, port))


@mcp_app.command("logout")
def _mcp_logout(context: typer.Context, server: _Server) -> None:
    """Delete the one account that all use at a server, and give its tokens back."""
    from bot.cli.mcp.accounts import logout

    carry_out(logout(config_of(context), server))
