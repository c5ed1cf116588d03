"""The commands of `lockgate`, their arguments and help; what they do is imported when they run."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bot.cli.roles import ProcessRole
from bot.core.logs import LogLevel
from bot.sessions.api_tokens import Scope
from bot.sessions.background.runs import Priority, RunType

if TYPE_CHECKING:
    from bot.config.model import Config

EXIT_CODES: Final = (
    "Exit codes: 0 done, 1 unexpected error, or with `doctor --ready` not ready, 2 an error that configuration, store "
    "or arguments cause and the operator can mend, 3 `audit verify`, `export verify` or `policy test` found something "
    "wrong, 130 interrupted."
)

app: Final = typer.Typer(
    help="Lockgate: what a session has read decides where it may speak.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
sessions_app: Final = typer.Typer(help="Look at sessions; let one rest, end it, or erase it.", no_args_is_help=True)
audit_app: Final = typer.Typer(help="Look at the audit chains.", no_args_is_help=True)
policy_app: Final = typer.Typer(help="Check and try out the policy.", no_args_is_help=True)
slack_app: Final = typer.Typer(help="Set up the Slack app.", no_args_is_help=True)
token_app: Final = typer.Typer(help="Let programs use the HTTP API.", no_args_is_help=True)
runs_app: Final = typer.Typer(help="See, steer and end runs.", no_args_is_help=True)
schedules_app: Final = typer.Typer(help="See and end schedules and reminders.", no_args_is_help=True)
memory_app: Final = typer.Typer(help="See, correct and forget what was learned.", no_args_is_help=True)
app.add_typer(policy_app, name="policy")
app.add_typer(runs_app, name="runs")
app.add_typer(schedules_app, name="schedules")
app.add_typer(memory_app, name="memory")
app.add_typer(token_app, name="token")
app.add_typer(sessions_app, name="sessions")
app.add_typer(audit_app, name="audit")
app.add_typer(slack_app, name="slack")

_LogLevel = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="Lines of the log to write, instead of what the configuration says."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, one document.")]
_Id = Annotated[str, typer.Argument(help="Its id.")]
_After = Annotated[str, typer.Option(help="Where the page before ended.")]
_Whose = Annotated[str, typer.Option("--of", help="Whose memories: a principal, the owner if none is named.")]


@app.callback()
def _options(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", help="The file to use instead of ./config.yaml.")] = None,
) -> None:
    context.obj = config
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What the terminal's encoding lacks is escaped instead of ending the program.
            stream.reconfigure(errors="backslashreplace")


@app.command("chat")
def _chat(context: typer.Context, log_level: _LogLevel = None) -> None:
    """Talk to the agent here; also with piped input, line by line."""
    from bot.cli.chat import chat

    _run(chat(_config(context), log_level))


@app.command("run")
def _serve(
    context: typer.Context,
    role: Annotated[
        ProcessRole, typer.Option(help="What this process does of it; several may share one store.")
    ] = ProcessRole.ALL,
    log_level: _LogLevel = None,
) -> None:
    """Listen to the configured platforms and programs and answer there, until ended by a signal."""
    from bot.cli.log import logged
    from bot.cli.run import run

    config = _config(context)
    with logged(config, log_level):
        _run(run(config, role))


@app.command("openapi")
def _openapi() -> None:
    """Print the document of the HTTP API, OpenAPI 3.1, as JSON."""
    from bot.cli.openapi import openapi

    openapi()


@app.command("check")
def _check(context: typer.Context) -> None:
    """Check the configuration and say what is in force."""
    from bot.cli.doctor import check

    check(_config(context))


@app.command("doctor")
def _doctor(
    context: typer.Context,
    *,
    as_json: _Json = False,
    ready: Annotated[
        bool, typer.Option("--ready", help="Tell only whether `lockgate run` is ready here; exit code 1 if it is not.")
    ] = False,
) -> None:
    """Check configuration, data directory and store, and say how to mend what is wrong."""
    from bot.cli.doctor import doctor

    if ready:
        from bot.cli.ready import ready as look
        from bot.core.clock import SystemClock

        raise typer.Exit(look(_config(context).data_dir, SystemClock(), as_json=as_json))
    raise typer.Exit(_run(doctor(_config(context), as_json=as_json)))


@app.command("simulate")
def _simulate(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments as a JSON object.")] = "{}",
    taint: Annotated[str, typer.Option(help="What the session would have read, such as CONFIDENTIAL~.")] = "PUBLIC",
    *,
    as_json: _Json = False,
) -> None:
    """Tell what the gate would decide about a tool call of yours; nothing is done."""
    from bot.cli.policy import simulate

    _run(simulate(_config(context), tool, arguments, taint, as_json=as_json))


@app.command("explain")
def _explain(
    context: typer.Context,
    decision: Annotated[str, typer.Argument(help="An audit record, as CHAIN:N.")],
    *,
    as_json: _Json = False,
) -> None:
    """Tell why a decision in the audit was made."""
    from bot.cli.audit import explain

    _run(explain(_config(context), decision, as_json=as_json))


@sessions_app.command("list")
def _sessions_list(
    context: typer.Context,
    *,
    after: Annotated[str, typer.Option(help="The id of the last one that was shown.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 50,
    as_json: _Json = False,
) -> None:
    """List sessions in pages, newest first."""
    from bot.cli.sessions import list_sessions

    _run(list_sessions(_config(context), as_json=as_json, after=after, limit=limit))


@sessions_app.command("show")
def _sessions_show(
    context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")], *, as_json: _Json = False
) -> None:
    """Show one session and its log."""
    from bot.cli.sessions import show_session

    _run(show_session(_config(context), session, as_json=as_json))


@sessions_app.command("release")
def _sessions_release(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Let a session out of quarantine, so that it is tried at once."""
    from bot.cli.sessions import release_session

    _run(release_session(_config(context), session))


@sessions_app.command("pause")
def _sessions_pause(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Let a session rest: what it is told waits."""
    from bot.cli.sessions import Act, change_session

    _run(change_session(_config(context), session, Act.PAUSE))


@sessions_app.command("resume")
def _sessions_resume(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Let a session that rests go on."""
    from bot.cli.sessions import Act, change_session

    _run(change_session(_config(context), session, Act.RESUME))


@sessions_app.command("archive")
def _sessions_archive(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Make a session read-only; its chat goes on in another."""
    from bot.cli.sessions import Act, change_session

    _run(change_session(_config(context), session, Act.ARCHIVE))


@sessions_app.command("restore")
def _sessions_restore(context: typer.Context, session: Annotated[str, typer.Argument(help="Its id.")]) -> None:
    """Speak again in a session that was archived."""
    from bot.cli.sessions import Act, change_session

    _run(change_session(_config(context), session, Act.RESTORE))


@sessions_app.command("delete")
def _sessions_delete(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Its id.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is deleted.")] = False,
) -> None:
    """Erase a session, its files and what it spawned for good."""
    from bot.cli.sessions import delete_session

    if not yes:
        raise typer.BadParameter("this erases the session for good, add `--yes` to do it")
    _run(delete_session(_config(context), session))


@runs_app.command("start")
def _runs_start(  # noqa: PLR0913 - one for each option
    context: typer.Context,
    goal: Annotated[str, typer.Argument(help="What it is to do.")],
    *,
    run_type: Annotated[RunType, typer.Option("--type", help="Whether it goes on by itself.")] = RunType.AUTONOMOUS,
    title: Annotated[str, typer.Option(help="What it is called.")] = "",
    slot: Annotated[str, typer.Option(help="What no two runs may have at a time.")] = "",
    hours: Annotated[int, typer.Option(min=0, help="Until it ends at the latest, 0 for what is configured.")] = 0,
    to: Annotated[str, typer.Option(help="Who hears its last answer.")] = "",
    as_json: _Json = False,
) -> None:
    """Start a run, which a process of `lockgate run` works on; print its id."""
    from bot.cli.background.runs import start_run
    from bot.sessions.background.runs import RunWish

    wish = RunWish(goal, type=run_type, title=title, slot=slot, hours=hours, deliver_to=to)
    _run(start_run(_config(context), wish, as_json=as_json))


@runs_app.command("list")
def _runs_list(
    context: typer.Context,
    *,
    ended: Annotated[bool, typer.Option("--all", help="Those that ended, too.")] = False,
    after: _After = "",
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    as_json: _Json = False,
) -> None:
    """List runs in pages, newest first."""
    from bot.cli.background.runs import list_runs

    _run(list_runs(_config(context), as_json=as_json, ended=ended, after=after, limit=limit))


@runs_app.command("show")
def _runs_show(
    context: typer.Context,
    run: _Id,
    *,
    events: Annotated[bool, typer.Option("--events", help="With the events of its record.")] = False,
    as_json: _Json = False,
) -> None:
    """Show one run and its record, also after its session was deleted."""
    from bot.cli.background.runs import show_run

    _run(show_run(_config(context), run, as_json=as_json, events=events))


@runs_app.command("stats")
def _runs_stats(context: typer.Context, run: _Id, *, as_json: _Json = False) -> None:
    """Show one run in numbers."""
    from bot.cli.background.runs import show_stats

    _run(show_stats(_config(context), run, as_json=as_json))


@runs_app.command("steer")
def _runs_steer(
    context: typer.Context,
    run: _Id,
    note: Annotated[str, typer.Argument(help="What it hears at its next heartbeat.")],
    *,
    priority: Annotated[
        Priority, typer.Option(help="`urgent` to stop and pivot, `abort` to finish safely and end.")
    ] = Priority.NORMAL,
) -> None:
    """Give a run a note."""
    from bot.cli.background.runs import steer_run

    _run(steer_run(_config(context), run, note, priority))


@runs_app.command("pause")
def _runs_pause(context: typer.Context, run: _Id) -> None:
    """Let a run rest: no turn of it begins."""
    from bot.cli.background.runs import RunAct, change_run

    _run(change_run(_config(context), run, RunAct.PAUSE))


@runs_app.command("resume")
def _runs_resume(context: typer.Context, run: _Id) -> None:
    """Let a run that rests go on."""
    from bot.cli.background.runs import RunAct, change_run

    _run(change_run(_config(context), run, RunAct.RESUME))


@runs_app.command("stop")
def _runs_stop(context: typer.Context, run: _Id) -> None:
    """End a run, with all that it spawned."""
    from bot.cli.background.runs import RunAct, change_run

    _run(change_run(_config(context), run, RunAct.STOP))


@schedules_app.command("list")
def _schedules_list(context: typer.Context, *, as_json: _Json = False) -> None:
    """List schedules and reminders, oldest first."""
    from bot.cli.background.schedules import list_schedules

    _run(list_schedules(_config(context), as_json=as_json))


@schedules_app.command("show")
def _schedules_show(context: typer.Context, schedule: _Id, *, as_json: _Json = False) -> None:
    """Show one schedule or reminder."""
    from bot.cli.background.schedules import show_schedule

    _run(show_schedule(_config(context), schedule, as_json=as_json))


@schedules_app.command("pause")
def _schedules_pause(context: typer.Context, schedule: _Id) -> None:
    """Let a schedule rest."""
    from bot.cli.background.schedules import ScheduleAct, change_schedule

    _run(change_schedule(_config(context), schedule, ScheduleAct.PAUSE))


@schedules_app.command("resume")
def _schedules_resume(context: typer.Context, schedule: _Id) -> None:
    """Let a schedule that rests go on, from its next moment."""
    from bot.cli.background.schedules import ScheduleAct, change_schedule

    _run(change_schedule(_config(context), schedule, ScheduleAct.RESUME))


@schedules_app.command("cancel")
def _schedules_cancel(context: typer.Context, schedule: _Id) -> None:
    """Forget a schedule or reminder; what it started goes on."""
    from bot.cli.background.schedules import ScheduleAct, change_schedule

    _run(change_schedule(_config(context), schedule, ScheduleAct.CANCEL))


@memory_app.command("list")
def _memory_list(context: typer.Context, *, whose: _Whose = "", after: _After = "", as_json: _Json = False) -> None:
    """List memories in pages, newest first."""
    from bot.cli.knowledge.memory import list_memories

    _run(list_memories(_config(context), whose, as_json=as_json, after=after))


@memory_app.command("show")
def _memory_show(context: typer.Context, memory: _Id, *, whose: _Whose = "", as_json: _Json = False) -> None:
    """Show one memory, also one that was corrected or forgotten."""
    from bot.cli.knowledge.memory import show_memory

    _run(show_memory(_config(context), whose, memory, as_json=as_json))


@memory_app.command("correct")
def _memory_correct(
    context: typer.Context, memory: _Id, text: Annotated[str, typer.Argument(help="What is right.")], whose: _Whose = ""
) -> None:
    """Have something else known in the place of a memory."""
    from bot.cli.knowledge.memory import correct_memory

    _run(correct_memory(_config(context), whose, memory, text))


@memory_app.command("forget")
def _memory_forget(context: typer.Context, memory: _Id, whose: _Whose = "") -> None:
    """Erase the words of a memory for good."""
    from bot.cli.knowledge.memory import forget_memory

    _run(forget_memory(_config(context), whose, memory))


@memory_app.command("export")
def _memory_export(context: typer.Context, whose: _Whose = "") -> None:
    """Print all memories, a line of JSON each."""
    from bot.cli.knowledge.memory import export_memories

    _run(export_memories(_config(context), whose))


@app.command("export")
def _export(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="SESSION | verify | key", help="A session's id, `verify`, or `key`.")],
    file: Annotated[Path | None, typer.Argument(help="The file that `verify` checks.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new file to write to, instead of the standard output.")] = None,
) -> None:
    """Write a signed copy of a session, check one, or print the key; exit code 3 if a copy was changed."""
    from bot.cli.export import export, public_key, verify

    if what == "key" and file is None and out is None:
        _run(public_key(_config(context)))
        return
    verifying = what == "verify"
    if verifying and file is not None and out is None:
        raise typer.Exit(_run(verify(_config(context), file)))
    if verifying or what == "key" or file is not None:
        raise typer.BadParameter("write `export SESSION [--out FILE]`, `export verify FILE` or `export key`")
    _run(export(_config(context), what, out))


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

    _run(bring(_config(context), file, principal, at_top=as_top))


@audit_app.command("tail")
def _audit_tail(
    context: typer.Context,
    chain: Annotated[str, typer.Option(help="A session's id, or `audit` for decisions outside any.")] = "audit",
    count: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many of the newest records.")] = 20,
    *,
    as_json: _Json = False,
) -> None:
    """Show the newest records of an audit chain."""
    from bot.cli.audit import tail

    _run(tail(_config(context), chain, count, as_json=as_json))


@audit_app.command("verify")
def _audit_verify(context: typer.Context, *, as_json: _Json = False) -> None:
    """Check every audit chain; exit code 3 if one was tampered with."""
    from bot.cli.audit import verify

    raise typer.Exit(_run(verify(_config(context), as_json=as_json)))


@policy_app.command("check")
def _policy_check(context: typer.Context, *, as_json: _Json = False) -> None:
    """Check the policy, and warn of rules that never decide or silence too much."""
    from bot.cli.policy import check

    check(_config(context), as_json=as_json)


@policy_app.command("test")
def _policy_test(
    context: typer.Context, cases: Annotated[Path, typer.Argument(help="A file of cases.")], *, as_json: _Json = False
) -> None:
    """Run the cases of a file; exit code 3 if one is decided otherwise than it says."""
    from bot.cli.policy import test

    raise typer.Exit(test(_config(context), cases, as_json=as_json))


@policy_app.command("explain")
def _policy_explain(
    context: typer.Context,
    cases: Annotated[Path, typer.Argument(help="A file of cases.")],
    case: Annotated[str, typer.Argument(help="The name of one of them.")],
    *,
    as_json: _Json = False,
) -> None:
    """Tell why a case is decided as it is."""
    from bot.cli.policy import explained

    explained(_config(context), cases, case, as_json=as_json)


@slack_app.command("manifest")
def _slack_manifest(context: typer.Context) -> None:
    """Print the manifest that makes the Slack app at api.slack.com, as JSON."""
    from bot.cli.slack import manifest

    manifest(_config(context))


@slack_app.command("install")
def _slack_install(context: typer.Context) -> None:
    """Print a link that installs the bot in one workspace, once, within ten minutes."""
    from bot.cli.slack import install

    _run(install(_config(context)))


_Expires = Annotated[str, typer.Option(help="For how long, as 30d, 12h or 45m; or `never`.")]


@token_app.command("create")
def _token_create(  # noqa: PLR0913 - one for each option
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the program, which no other token ever had.")],
    *,
    scope: Annotated[
        Scope,
        typer.Option(
            help="`read` looks at its own sessions; `steer` also begins, steers and ends them; `admin` also approves "
            "calls and reads the audit."
        ),
    ] = Scope.READ,
    clearance: Annotated[
        str, typer.Option(help="The most it may know, as `INTERNAL`, `CONFIDENTIAL{acme}` or `top`.")
    ] = "PUBLIC",
    expires: _Expires = "30d",
    per_minute: Annotated[
        int, typer.Option(min=0, max=100_000, help="Requests in a minute; 0 for what the configuration says.")
    ] = 0,
    as_json: _Json = False,
) -> None:
    """Make a program's token and print it, once."""
    from bot.cli.tokens import create

    config = _config(context)
    made = create(
        config, name, scope=scope, clearance=clearance, expires=expires, per_minute=per_minute, as_json=as_json
    )
    _run(made)


@token_app.command("list")
def _token_list(context: typer.Context, *, as_json: _Json = False) -> None:
    """List all tokens, without their text."""
    from bot.cli.tokens import list_tokens

    _run(list_tokens(_config(context), as_json=as_json))


@token_app.command("rotate")
def _token_rotate(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The program's name.")],
    *,
    expires: _Expires = "30d",
    as_json: _Json = False,
) -> None:
    """Give a token another text and print it, once; the text before counts no more."""
    from bot.cli.tokens import rotate

    _run(rotate(_config(context), name, expires=expires, as_json=as_json))


@token_app.command("revoke")
def _token_revoke(context: typer.Context, name: Annotated[str, typer.Argument(help="The program's name.")]) -> None:
    """End a token for good; its name is never given again."""
    from bot.cli.tokens import revoke

    _run(revoke(_config(context), name))


def _config(context: typer.Context) -> "Config":
    from bot.config.load import load_config
    from bot.tools.catalogue import ARGUMENTS

    return load_config(context.obj, os.environ, ARGUMENTS)


def _run(work: Coroutine[Any, Any, int | None]) -> int:
    return asyncio.run(work) or 0
