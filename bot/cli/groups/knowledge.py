"""`lockgate memory`: see, correct and forget what was learned."""

from typing import Annotated, Final

import typer

from bot.cli.groups.options import After, AsJson, Id, carry_out, config_of

memory_app: Final = typer.Typer(help="See, correct and forget what was learned.", no_args_is_help=True)

_Whose = Annotated[str, typer.Option("--of", help="Whose memories: a principal, the owner if none is named.")]


@memory_app.command("list")
def _memory_list(context: typer.Context, *, whose: _Whose = "", after: After = "", as_json: AsJson = False) -> None:
    """List memories in pages, newest first."""
    from bot.cli.knowledge.memory import list_memories

    carry_out(list_memories(config_of(context), whose, as_json=as_json, after=after))


@memory_app.command("show")
def _memory_show(context: typer.Context, memory: Id, *, whose: _Whose = "", as_json: AsJson = False) -> None:
    """Show one memory, also one that was corrected or forgotten."""
    from bot.cli.knowledge.memory import show_memory

    carry_out(show_memory(config_of(context), whose, memory, as_json=as_json))


@memory_app.command("correct")
def _memory_correct(
    context: typer.Context, memory: Id, text: Annotated[str, typer.Argument(help="What is right.")], whose: _Whose = ""
) -> None:
    """Have something else known in the place of a memory."""
    from bot.cli.knowledge.memory import correct_memory

    carry_out(correct_memory(config_of(context), whose, memory, text))


@memory_app.command("forget")
def _memory_forget(context: typer.Context, memory: Id, whose: _Whose = "") -> None:
    """Erase the words of a memory for good."""
    from bot.cli.knowledge.memory import forget_memory

    carry_out(forget_memory(config_of(context), whose, memory))


@memory_app.command("export")
def _memory_export(context: typer.Context, whose: _Whose = "") -> None:
    """Print all memories, a line of JSON each."""
    from bot.cli.knowledge.memory import export_memories

    carry_out(export_memories(config_of(context), whose))
