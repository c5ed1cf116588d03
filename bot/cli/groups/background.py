"""`lockgate runs` and `lockgate schedules`: see, steer and end work that goes on by itself."""

from typing import Annotated, Final

import typer

from bot.cli.groups.options import After, AsJson, Id, carry_out, config_of
from bot.sessions.background.run_states import Priority, RunType

runs_app: Final = typer.Typer(help="See, steer and end runs.", no_args_is_help=True)
schedules_app: Final = typer.Typer(help="See and end schedules and reminders.", no_args_is_help=True)


@runs_app.command("start")
def _runs_start(  # noqa: PLR0913 - one for each option
    context: typer.Context,
    goal: Annotated[str, typer.Argument(help="Its goal.")],
    *,
    run_type: Annotated[RunType, typer.Option("--type", help="Whether it goes on by itself.")] = RunType.AUTONOMOUS,
    title: Annotated[str, typer.Option(help="Its title.")] = "",
    slot: Annotated[str, typer.Option(help="A name that no two runs may have at a time.")] = "",
    hours: Annotated[int, typer.Option(min=0, help="Until it ends at the latest, 0 for the configured time.")] = 0,
    to: Annotated[str, typer.Option(help="Who hears its last answer.")] = "",
    as_json: AsJson = False,
) -> None:
    """Start a run, which a process of `lockgate run` works on; print its id."""
    from bot.cli.background.runs import start_run
    from bot.sessions.background.runs import RunWish

    wish = RunWish(goal, type=run_type, title=title, slot=slot, hours=hours, deliver_to=to)
    carry_out(start_run(config_of(context), wish, as_json=as_json))


@runs_app.command("list")
def _runs_list(
    context: typer.Context,
    *,
    ended: Annotated[bool, typer.Option("--all", help="Those that ended, too.")] = False,
    after: After = "",
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs in pages, newest first."""
    from bot.cli.background.runs import list_runs

    carry_out(list_runs(config_of(context), as_json=as_json, ended=ended, after=after, limit=limit))


@runs_app.command("show")
def _runs_show(
    context: typer.Context,
    run: Id,
    *,
    events: Annotated[bool, typer.Option("--events", help="With the events of its record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one run and its record, also after its session was deleted."""
    from bot.cli.background.runs import show_run

    carry_out(show_run(config_of(context), run, as_json=as_json, events=events))


@runs_app.command("stats")
def _runs_stats(context: typer.Context, run: Id, *, as_json: AsJson = False) -> None:
    """Show one run in numbers."""
    from bot.cli.background.runs import show_stats

    carry_out(show_stats(config_of(context), run, as_json=as_json))


@runs_app.command("steer")
def _runs_steer(
    context: typer.Context,
    run: Id,
    note: Annotated[str, typer.Argument(help="The text that it hears at its next heartbeat.")],
    *,
    priority: Annotated[
        Priority, typer.Option(help="`urgent` to stop and pivot, `abort` to finish safely and end.")
    ] = Priority.NORMAL,
) -> None:
    """Give a run a note."""
    from bot.cli.background.runs import steer_run

    carry_out(steer_run(config_of(context), run, note, priority))


@runs_app.command("pause")
def _runs_pause(context: typer.Context, run: Id) -> None:
    """Let a run rest: no turn of it begins."""
    from bot.cli.background.runs import RunAct, change_run

    carry_out(change_run(config_of(context), run, RunAct.PAUSE))


@runs_app.command("resume")
def _runs_resume(context: typer.Context, run: Id) -> None:
    """Let a run that rests go on."""
    from bot.cli.background.runs import RunAct, change_run

    carry_out(change_run(config_of(context), run, RunAct.RESUME))


@runs_app.command("stop")
def _runs_stop(context: typer.Context, run: Id) -> None:
    """End a run, with all that it spawned."""
    from bot.cli.background.runs import RunAct, change_run

    carry_out(change_run(config_of(context), run, RunAct.STOP))


@schedules_app.command("list")
def _schedules_list(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List schedules and reminders, oldest first."""
    from bot.cli.background.schedules import list_schedules

    carry_out(list_schedules(config_of(context), as_json=as_json))


@schedules_app.command("show")
def _schedules_show(context: typer.Context, schedule: Id, *, as_json: AsJson = False) -> None:
    """Show one schedule or reminder."""
    from bot.cli.background.schedules import show_schedule

    carry_out(show_schedule(config_of(context), schedule, as_json=as_json))


@schedules_app.command("pause")
def _schedules_pause(context: typer.Context, schedule: Id) -> None:
    """Let a schedule rest."""
    from bot.cli.background.schedules import ScheduleAct, change_schedule

    carry_out(change_schedule(config_of(context), schedule, ScheduleAct.PAUSE))


@schedules_app.command("resume")
def _schedules_resume(context: typer.Context, schedule: Id) -> None:
    """Let a schedule that rests go on, from its next moment."""
    from bot.cli.background.schedules import ScheduleAct, change_schedule

    carry_out(change_schedule(config_of(context), schedule, ScheduleAct.RESUME))


@schedules_app.command("cancel")
def _schedules_cancel(context: typer.Context, schedule: Id) -> None:
    """Forget a schedule or reminder; the runs that it started go on."""
    from bot.cli.background.schedules import ScheduleAct, change_schedule

    carry_out(change_schedule(config_of(context), schedule, ScheduleAct.CANCEL))
