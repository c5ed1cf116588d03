"""`lockgate memory` and `lockgate skills`: see and change memories, and decide which skills are in force."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bot.cli.groups.options import After, AsJson, Id, carry_out, config_of

if TYPE_CHECKING:
    from bot.knowledge.skill_keeper import Decided

memory_app: Final = typer.Typer(help="See, correct and forget memories.", no_args_is_help=True)

skills_app: Final = typer.Typer(help="See skills, and decide which are in force.", no_args_is_help=True)

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
    context: typer.Context,
    memory: Id,
    text: Annotated[str, typer.Argument(help="The correct text.")],
    whose: _Whose = "",
) -> None:
    """Replace a memory by a correct one."""
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


_Skills = Annotated[str, typer.Option("--of", help="Whose skills: a principal, the owner if none is named.")]
_Version = Annotated[int, typer.Argument(help="The number of the version, as `show` tells it.")]
_Digest = Annotated[str, typer.Argument(help="The digest of its text, as `show` tells it.")]
_Folder = Annotated[Path, typer.Argument(help="A folder that holds a folder with a SKILL.md for each skill.")]


@skills_app.command("list")
def _skills_list(context: typer.Context, *, whose: _Skills = "", after: After = "", as_json: AsJson = False) -> None:
    """List skills in pages, those created last first."""
    from bot.cli.knowledge.skills import list_skills

    carry_out(list_skills(config_of(context), whose, as_json=as_json, after=after))


@skills_app.command("show")
def _skills_show(context: typer.Context, skill: Id, *, whose: _Skills = "", as_json: AsJson = False) -> None:
    """Show one skill, with all that its version says which waits."""
    from bot.cli.knowledge.skills import show_skill

    carry_out(show_skill(config_of(context), whose, skill, as_json=as_json))


@skills_app.command("approve")
def _skills_approve(
    context: typer.Context, skill: Id, version: _Version = 0, digest: _Digest = "", *, whose: _Skills = ""
) -> None:
    """Put exactly the version in force that was shown; without version and digest it is shown."""
    from bot.cli.knowledge.skills import approve_skill

    carry_out(approve_skill(config_of(context), whose, skill, _decided(version, digest)))


@skills_app.command("reject")
def _skills_reject(
    context: typer.Context, skill: Id, version: _Version = 0, digest: _Digest = "", *, whose: _Skills = ""
) -> None:
    """Reject the version that waits."""
    from bot.cli.knowledge.skills import reject_skill

    carry_out(reject_skill(config_of(context), whose, skill, _decided(version, digest)))


@skills_app.command("deprecate")
def _skills_deprecate(context: typer.Context, skill: Id, whose: _Skills = "") -> None:
    """Put a skill out of force."""
    from bot.cli.knowledge.skills import deprecate_skill

    carry_out(deprecate_skill(config_of(context), whose, skill))


@skills_app.command("rollback")
def _skills_rollback(context: typer.Context, skill: Id, version: _Version, whose: _Skills = "") -> None:
    """Put another version in force that a person approved."""
    from bot.cli.knowledge.skills import roll_back_skill

    carry_out(roll_back_skill(config_of(context), whose, skill, version))


@skills_app.command("log")
def _skills_log(context: typer.Context, skill: Id, *, whose: _Skills = "", as_json: AsJson = False) -> None:
    """Show what was done with a skill, newest first."""
    from bot.cli.knowledge.skills import log_skill

    carry_out(log_skill(config_of(context), whose, skill, as_json=as_json))


@skills_app.command("export")
def _skills_export(context: typer.Context, skill: Id, whose: _Skills = "") -> None:
    """Print the SKILL.md of a skill in force."""
    from bot.cli.knowledge.skills import export_skill

    carry_out(export_skill(config_of(context), whose, skill))


@skills_app.command("load")
def _skills_load(
    context: typer.Context,
    folder: _Folder,
    *,
    label: Annotated[str, typer.Option(help="The label of the folder's texts.")],
    whose: _Skills = "",
    as_json: AsJson = False,
) -> None:
    """Keep the skills of a folder as drafts, which wait for a person."""
    from bot.cli.knowledge.skills import load_skills

    carry_out(load_skills(config_of(context), whose, folder, label, as_json=as_json))


@skills_app.command("save")
def _skills_save(
    context: typer.Context,
    folder: _Folder,
    *,
    clearance: Annotated[str, typer.Option(help="The clearance of the folder's readers.")] = "PUBLIC",
    whose: _Skills = "",
) -> None:
    """Write the skills in force into a folder, each with a SKILL.md."""
    from bot.cli.knowledge.skills import save_skills

    carry_out(save_skills(config_of(context), whose, folder, clearance))


def _decided(version: int, digest: str) -> "Decided | None":
    """Return which text is decided about, None if that is not said."""
    from bot.knowledge.skill_keeper import Decided

    return Decided(version, digest) if version and digest else None
