"""`lockgate sessions`: look at sessions, let them rest, end or erase them."""

from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of

sessions_app: Final = typer.Typer(help="Look at sessions; let one rest, end it, or erase it.", no_args_is_help=True)


@sessions_app.command("list")
def _sessions_list(
    context: typer.Context,
    *,
    after: Annotated[str, typer.Option(help="The id of the last one that was shown.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List sessions in pages, newest first."""
    from bot.cli.sessions import list_sessions

    carry_out(list_sessions(config_of(context), as_json=as_json, after=after, limit=limit))


@sessions_app.command("show")
def _sessions_show(
    context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")], *, as_json: AsJson = False
) -> None:
    """Show one session and its log."""
    from bot.cli.sessions import show_session

    carry_out(show_session(config_of(context), session, as_json=as_json))


@sessions_app.command("grants")
def _sessions_grants(
    context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")], *, as_json: AsJson = False
) -> None:
    """List the grants that cover further calls of a session."""
    from bot.cli.sessions import list_grants

    carry_out(list_grants(config_of(context), session, as_json=as_json))


@sessions_app.command("revoke")
def _sessions_revoke(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Its id.")],
    grant: Annotated[str, typer.Argument(help="The id of the grant.")],
) -> None:
    """Take a grant of a session back."""
    from bot.cli.sessions import revoke_grant

    carry_out(revoke_grant(config_of(context), session, grant))


@sessions_app.command("release")
def _sessions_release(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Let a session out of quarantine, so that it is tried at once."""
    from bot.cli.sessions import release_session

    carry_out(release_session(config_of(context), session))


@sessions_app.command("pause")
def _sessions_pause(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Let a session rest: new messages to it wait."""
    from bot.cli.sessions import Act, change_session

    carry_out(change_session(config_of(context), session, Act.PAUSE))


@sessions_app.command("resume")
def _sessions_resume(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Let a session that rests go on."""
    from bot.cli.sessions import Act, change_session

    carry_out(change_session(config_of(context), session, Act.RESUME))


@sessions_app.command("archive")
def _sessions_archive(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Make a session read-only; its chat goes on in another."""
    from bot.cli.sessions import Act, change_session

    carry_out(change_session(config_of(context), session, Act.ARCHIVE))


@sessions_app.command("restore")
def _sessions_restore(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Speak again in a session that was archived."""
    from bot.cli.sessions import Act, change_session

    carry_out(change_session(config_of(context), session, Act.RESTORE))


@sessions_app.command("delete")
def _sessions_delete(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Its id.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is deleted.")] = False,
) -> None:
    """Erase a session, its files and its background sessions for good."""
    from bot.cli.sessions import delete_session

    if not yes:
        raise typer.BadParameter("this erases the session for good, add `--yes` to do it")
    carry_out(delete_session(config_of(context), session))
