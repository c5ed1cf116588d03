"""`lockgate workflow`: see workflows, begin one, and carry its state out and in."""

from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of

workflow_app: Final = typer.Typer(help="See workflows, begin one, and go on with it.", no_args_is_help=True)

_Whose = Annotated[str, typer.Option("--of", help="Whose workflows: a principal, the owner if none is named.")]
_Project = Annotated[str, typer.Argument(help="Its project.")]
_Definition = Annotated[str, typer.Option(help="The definition that it begins with.")]


@workflow_app.command("list")
def _list(context: typer.Context, *, whose: _Whose = "", as_json: AsJson = False) -> None:
    """List workflows, the one that changed last first."""
    from bot.cli.workflows.workflow import list_workflows

    carry_out(list_workflows(config_of(context), whose, as_json=as_json))


@workflow_app.command("start")
def _start(
    context: typer.Context,
    project: _Project,
    definition: Annotated[str, typer.Argument(help="The definition that it begins with, as `list` names them.")],
    *,
    branch: Annotated[str, typer.Option(help="The branch that it works on.")] = "",
    whose: _Whose = "",
) -> None:
    """Begin a workflow."""
    from bot.cli.workflows.workflow import start_workflow

    carry_out(start_workflow(config_of(context), whose, project, (definition, branch)))


@workflow_app.command("show")
def _show(context: typer.Context, project: _Project, *, whose: _Whose = "", as_json: AsJson = False) -> None:
    """Show one workflow."""
    from bot.cli.workflows.workflow import show_workflow

    carry_out(show_workflow(config_of(context), whose, project, as_json=as_json))


@workflow_app.command("resume")
def _resume(
    context: typer.Context,
    project: _Project,
    step: Annotated[str, typer.Argument(help="The step to go on at, the current one if none is named.")] = "",
    whose: _Whose = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Tell where work goes on; `/workflow resume` in a chat has the agent do it."""
    from bot.cli.workflows.workflow import resume_workflow

    carry_out(resume_workflow(config_of(context), whose, (project, step), as_json=as_json))


@workflow_app.command("pass")
def _pass(
    context: typer.Context,
    project: _Project,
    version: Annotated[int, typer.Argument(min=1, help="The version that `show` told.")],
    whose: _Whose = "",
) -> None:
    """Let the step in progress pass its gate, as a person has to for a program's workflow."""
    from bot.cli.workflows.workflow import pass_gate

    carry_out(pass_gate(config_of(context), whose, project, version))


@workflow_app.command("export")
def _export(
    context: typer.Context,
    project: _Project,
    out: Annotated[Path | None, typer.Option(help="A new file to write to, instead of the standard output.")] = None,
    whose: _Whose = "",
) -> None:
    """Write the state document of a workflow."""
    from bot.cli.workflows.workflow import export_workflow

    carry_out(export_workflow(config_of(context), whose, project, out))


@workflow_app.command("import")
def _import(
    context: typer.Context,
    project: _Project,
    file: Annotated[Path, typer.Argument(help="A state document, of this version or an older one.")],
    *,
    definition: _Definition,
    whose: _Whose = "",
) -> None:
    """Begin a workflow with a state document, or take a newer one in."""
    from bot.cli.workflows.workflow import import_workflow

    carry_out(import_workflow(config_of(context), whose, (project, definition), file))
