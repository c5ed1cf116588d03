"""The command `lockgate`: its options, and the commands that stand by themselves; groups have `bot.cli.groups`."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli.groups import backups
from bot.cli.groups.audit import audit_app
from bot.cli.groups.background import runs_app, schedules_app
from bot.cli.groups.files import files_app
from bot.cli.groups.keys import keys_app
from bot.cli.groups.knowledge import memory_app, skills_app
from bot.cli.groups.mcp import mcp_app
from bot.cli.groups.options import AsJson, carry_out, config_of
from bot.cli.groups.policy import policy_app
from bot.cli.groups.sessions import sessions_app
from bot.cli.groups.slack import slack_app
from bot.cli.groups.tokens import token_app
from bot.cli.groups.workflows import workflow_app
from bot.cli.roles import ProcessRole
from bot.core.logs import LogLevel

EXIT_CODES: Final = (
    "Exit codes. 0: done. 1: an unexpected error, or not ready (`health`, `doctor --ready`). 2: an error of the "
    "configuration, the store or the arguments. 3: a fault that `audit verify`, `export verify` or `policy test` "
    "found. 130: interrupted."
)

app: Final = typer.Typer(
    help="Lockgate: the data that a session has read decides where it may speak.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(policy_app, name="policy")
app.add_typer(runs_app, name="runs")
app.add_typer(schedules_app, name="schedules")
app.add_typer(memory_app, name="memory")
app.add_typer(skills_app, name="skills")
app.add_typer(workflow_app, name="workflow")
app.add_typer(token_app, name="token")
app.add_typer(mcp_app, name="mcp")
app.add_typer(sessions_app, name="sessions")
app.add_typer(audit_app, name="audit")
app.add_typer(slack_app, name="slack")
app.add_typer(keys_app, name="keys")
app.add_typer(files_app, name="files")
backups.add_to(app)

_LogLevel = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="Lines of the log to write, instead of the configured ones."),
]


def _version(value: bool) -> None:  # noqa: FBT001 - typer gives an option's value by position
    if value:
        from importlib.metadata import version

        sys.stdout.write(f"lockgate {version('lockgate')}\n")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    *,
    config: Annotated[Path | None, typer.Option("--config", help="The file to use instead of ./config.yaml.")] = None,
    version: Annotated[  # noqa: ARG001 - its callback ends the program
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    context.obj = config
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Characters outside the terminal's encoding are escaped instead of ending the program.
            stream.reconfigure(errors="backslashreplace")


@app.command("chat")
def _chat(context: typer.Context, log_level: _LogLevel = None) -> None:
    """Talk to the agent here; also with piped input, line by line."""
    from bot.cli.keyboard.capable import editable

    if editable(os.environ):
        from bot.cli.keyboard.live import chat

        carry_out(chat(context.obj, log_level))
    else:
        from bot.cli.chat import chat as chat_plainly

        carry_out(chat_plainly(config_of(context), log_level))


@app.command("init")
def _init(  # noqa: PLR0913 - each answer has an option
    context: typer.Context,
    *,
    folder: Annotated[Path | None, typer.Option(help="The folder of config.yaml, instead of this one.")] = None,
    model: Annotated[str | None, typer.Option(help="offline, openai, anthropic, compatible or ollama.")] = None,
    model_name: Annotated[str | None, typer.Option(help="Its name, as its provider writes it.")] = None,
    model_address: Annotated[str | None, typer.Option(help="The address of `compatible` or `ollama`.")] = None,
    key: Annotated[str | None, typer.Option(help="The environment variable with its key, or none.")] = None,
    clearance: Annotated[str | None, typer.Option(help="The highest label that its provider may read.")] = None,
    platform: Annotated[str | None, typer.Option(help="none, telegram or slack.")] = None,
    platform_address: Annotated[str | None, typer.Option(help="Another server that plays the platform.")] = None,
    token: Annotated[str | None, typer.Option(help="The environment variable with the bot's token.")] = None,
    app_token: Annotated[str | None, typer.Option(help="That with the app-level token, for Slack.")] = None,
    classification: Annotated[str | None, typer.Option(help="The highest label that may be sent there.")] = None,
    owner: Annotated[str | None, typer.Option(help="The owner's account there, instead of a code.")] = None,
    group: Annotated[str | None, typer.Option(help="The id of a first group; for Slack TEAM:CHANNEL.")] = None,
    group_level: Annotated[str | None, typer.Option(help="The highest label that may be sent to that group.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take the defaults for all else.")] = False,
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Do not try the model and the token.")] = False,
) -> None:
    """Set up config.yaml: a model, Telegram or Slack, and the owner. Run again, it changes your answers alone."""
    from bot.cli.init.wizard import Given, init

    options = Given(
        folder=folder,
        model=model,
        model_name=model_name,
        model_address=model_address,
        key=key,
        clearance=clearance,
        platform=platform,
        platform_address=platform_address,
        token=token,
        app_token=app_token,
        classification=classification,
        owner=owner,
        group=group,
        group_level=group_level,
        yes=yes,
        unchecked=unchecked,
    )
    raise typer.Exit(carry_out(init(context.obj, options)))


@app.command("run")
def _serve(
    context: typer.Context,
    role: Annotated[
        ProcessRole, typer.Option(help="The work of this process; several may share one store.")
    ] = ProcessRole.ALL,
    log_level: _LogLevel = None,
) -> None:
    """Listen to the configured platforms and programs and answer there, until ended by a signal."""
    from bot.cli.log import logged
    from bot.cli.run import run

    config = config_of(context)
    with logged(config, log_level):
        carry_out(run(config, role))


@app.command("openapi")
def _openapi() -> None:
    """Print the document of the HTTP API, OpenAPI 3.1, as JSON."""
    from bot.cli.openapi import openapi

    openapi()


@app.command("check")
def _check(context: typer.Context) -> None:
    """Check the configuration and say what is in force."""
    from bot.cli.doctor import check

    check(config_of(context))


@app.command("doctor")
def _doctor(
    context: typer.Context,
    *,
    as_json: AsJson = False,
    ready: Annotated[
        bool, typer.Option("--ready", help="Tell only whether `lockgate run` is ready here; exit code 1 if it is not.")
    ] = False,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Also ask models, bind ports, reach public addresses and measure the machine."),
    ] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Mend safe things: a stale webhook, modes of files, a missing data directory."),
    ] = False,
) -> None:
    """Check configuration, data directory and store, and say how to mend each problem."""
    from bot.cli.doctor import doctor

    if ready:
        from bot.cli.ready import ready as look
        from bot.core.clock import SystemClock

        raise typer.Exit(look(config_of(context).data_dir, SystemClock(), as_json=as_json))
    raise typer.Exit(carry_out(doctor(config_of(context), as_json=as_json, probe=probe, fix=fix)))


@app.command("health")
def _health(context: typer.Context) -> None:
    """Tell in one line whether `lockgate run` is ready on this machine. Exit code 1: it is not."""
    from bot.cli.operating.health import health
    from bot.core.clock import SystemClock

    raise typer.Exit(health(config_of(context).data_dir, SystemClock()))


@app.command("simulate")
def _simulate(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments as a JSON object.")] = "{}",
    taint: Annotated[str, typer.Option(help="The taint of the session, such as CONFIDENTIAL~.")] = "PUBLIC",
    *,
    as_json: AsJson = False,
) -> None:
    """Tell what the gate would decide about a tool call of yours; nothing is done."""
    from bot.cli.policy import simulate

    carry_out(simulate(config_of(context), tool, arguments, taint, as_json=as_json))


@app.command("explain")
def _explain(
    context: typer.Context,
    decision: Annotated[str, typer.Argument(help="An audit record, as CHAIN:N.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Tell why a decision in the audit was made."""
    from bot.cli.audit import explain

    carry_out(explain(config_of(context), decision, as_json=as_json))


@app.command("export")
def _export(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="SESSION | verify | key", help="A session's id, `verify`, or `key`.")],
    file: Annotated[Path | None, typer.Argument(help="The file that `verify` checks.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new file to write to, instead of the standard output.")] = None,
) -> None:
    """Write a signed copy of a session, check one, or print the key. Exit code 3: a copy was changed."""
    from bot.cli.export import export, public_key, verify

    if what == "key" and file is None and out is None:
        carry_out(public_key(config_of(context)))
        return
    verifying = what == "verify"
    if verifying and file is not None and out is None:
        raise typer.Exit(carry_out(verify(config_of(context), file)))
    if verifying or what == "key" or file is not None:
        raise typer.BadParameter("write `export SESSION [--out FILE]`, `export verify FILE` or `export key`")
    carry_out(export(config_of(context), what, out))


@app.command("import")
def _import(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `lockgate export` made.")],
    principal: Annotated[str | None, typer.Option(help="Whose session it becomes, instead of the owner's.")] = None,
    *,
    as_top: Annotated[
        bool, typer.Option("--as-top", help="Label all of it as high as can be; for files of installations not known.")
    ] = False,
) -> None:
    """Bring in a session from an export, archived, with its labels."""
    from bot.cli.export import bring

    carry_out(bring(config_of(context), file, principal, at_top=as_top))
