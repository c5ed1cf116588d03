"""The table of slash commands, and how a line becomes an answer.

Every channel renders the same table. The router asks `needed` what role a line needs, authorizes, and
calls `answer`; handlers print nothing.
"""

from difflib import get_close_matches
from typing import Final

from bot.access.authorize import at_least
from bot.commands import (
    access,
    agents,
    approvals,
    audit,
    config,
    deadletter,
    decisions,
    doctor,
    exports,
    held,
    model,
    offers,
    places,
    policy,
    queueing,
    recap,
    release,
    session,
    sessions,
    usage,
)
from bot.commands.base import Command, CommandContext, Reply, UsageError
from bot.core.errors import ArchivedError, BusyError, RequestError
from bot.sessions.models import Status
from policy.labels import PUBLIC, Level
from policy.request import Role

QUIT: Final = "/quit"
"""The one command that the console itself carries out."""

OPENED: Final = "/sessions"
"""What a page that people open shows: their own conversations and what those have read."""


def _always(_argument: str) -> bool:
    return True


def _with_words(argument: str) -> bool:
    return bool(argument)


EACH: Final = "`/help COMMAND` tells how one is written"


async def _help(context: CommandContext, argument: str) -> Reply:
    """Show the table, or one row of it."""
    if not argument:
        # No columns: most platforms show no two letters equally wide, and phones break long lines.
        lines = [f"/{command.name}: {command.help}" for command in _offered(context)]
        return Reply("\n".join((*lines, EACH)))
    command = find(argument)
    if command is None or command not in _offered(context):
        return Reply(unknown(argument, _names(context)))
    return Reply(f"{command.usage}  {command.help}")


COMMANDS: Final = (
    Command("help", "/help [COMMAND]", "list the commands, or explain one", _help),
    Command("whoami", "/whoami", "who you are here, and what may be said here", session.whoami),
    Command(
        "status",
        "/status [RECEIPT]",
        "what this conversation is doing, or what became of what it sent",
        session.status,
    ),
    Command(
        "taint",
        "/taint [raise LABEL]",
        "what this conversation has read, and what raised it",
        session.taint,
        changes=_with_words,
    ),
    Command(
        "usage",
        "/usage [all]",
        "what was used of models here, and by you today; for admins by all",
        usage.usage,
        for_admins=frozenset({"all"}),
    ),
    Command(
        "summarize", "/summarize [TOPIC]", "recap this conversation, or a topic of it", recap.summarize, changes=_always
    ),
    Command("why", "/why", "explain the last denial", decisions.why),
    Command("simulate", "/simulate TOOL [JSON]", "what the gate would decide about a call", decisions.simulate),
    Command(
        "sessions",
        "/sessions [all] [kind=chat|task] [active=SECONDS] [CURSOR]",
        "your conversations, newest first; with `all` also archived ones",
        sessions.sessions,
    ),
    Command(
        "history",
        "/history [SESSION [PLACE]] [tools]",
        "what was said here, or in another conversation",
        sessions.history,
    ),
    Command("export", "/export [SESSION]", "a signed copy of this conversation, or of another", exports.export),
    Command("name", "/name [TITLE]", "give this conversation a title, or take it away", sessions.name, changes=_always),
    Command(
        "model",
        "/model [NAME]",
        "which model this conversation thinks with, or switch to another",
        model.model,
        changes=_with_words,
    ),
    Command("approvals", "/approvals [ID]", "what waits for an answer from you", approvals.approvals),
    Command("approve", "/approve ID", "let a waiting call go on", approvals.approve, urgent=True),
    Command("deny", "/deny ID", "refuse a waiting call, or let an offer be", approvals.deny, urgent=True),
    Command("continue", "/continue ID", "have in your private chat what was offered to you", offers.proceed),
    Command(
        "background",
        "/background ID [RECIPIENT]",
        "let a background session do what was offered to you",
        offers.background,
    ),
    Command(
        "spawn", "/spawn TASK", "let a background session do a task and report back", agents.spawn, changes=_always
    ),
    Command(
        "send", "/send SESSION TEXT", "hand something over to another of your sessions", agents.send, changes=_always
    ),
    Command(
        "message",
        "/message CHANNEL RECIPIENT TEXT",
        "send a message to an alias, a person or a known chat",
        agents.message,
        changes=_always,
    ),
    Command(
        "held",
        "/held [list | show ID | accept ID | drop ID]",
        "what other sessions sent to yours, to let it in or drop it",
        held.held,
    ),
    Command("agents", "/agents [list | cancel ID | log ID]", "your background sessions", agents.agents),
    Command(
        "release",
        "/release last|NUMBER to RECIPIENT, or /release confirm CODE",
        "send exactly what you are shown to somebody below its label",
        release.release,
        offered=release.may_release,
        changes=_always,
    ),
    Command(
        "reset", "/reset [confirm]", "forget this conversation and begin a new one", session.reset, changes=_always
    ),
    Command(
        "pair",
        "/pair [list | approve CODE [NAME] | deny CODE | revoke NAME | link CODE]",
        "let in who asks, or link another account of yours",
        access.pair,
        Role.ADMIN,
        for_members=frozenset({"link"}),
    ),
    Command(
        "allow",
        "/allow [ACCOUNT [NAME] | chat CHAT | NAME LABEL]",
        "unblock, let an account in, or say how much somebody may know",
        access.allow,
        Role.ADMIN,
    ),
    Command("block", "/block [ACCOUNT | chat CHAT]", "shut out an account, or a chat", access.block, Role.ADMIN),
    Command(
        "classify",
        "/classify [CHAT] [LABEL | vouch | unvouch | none]",
        "what may be said in a shared chat, this one if none is named",
        places.classify,
        Role.ADMIN,
    ),
    Command(
        "deadletter",
        "/deadletter [list | retry ID | discard ID]",
        "what could not be said, to try it again or let it go",
        deadletter.deadletter,
        Role.ADMIN,
    ),
    Command(
        "audit",
        "/audit [tail [SESSION] [NUMBER] | verify | trace ID]",
        "what was decided and done, and whether the record of it holds",
        audit.audit,
        Role.ADMIN,
    ),
    Command("config", "/config [SECTION]", "what is configured, without secrets", config.config, Role.ADMIN),
    Command("doctor", "/doctor", "what is to be mended here, and how", doctor.doctor, Role.ADMIN),
    Command(
        "queue",
        "/queue [collect | queue | steer | interrupt | drop NUMBER]",
        "what waits here, what becomes of it, or cancel a message of yours that waits",
        queueing.queue,
        changes=_with_words,
    ),
    Command("policy", "/policy [show|check|reload]", "the policy in force", policy.policy, Role.ADMIN),
    Command("stop", "/stop", "stop what is running and cancel what waits", session.stop, urgent=True, changes=_always),
    Command("quit", QUIT, "leave the console", session.leave, offered=session.at_console),
)


def is_command(text: str) -> bool:
    """Say whether a text is meant as a command."""
    return text.startswith("/")


def find(name: str) -> Command | None:
    """Return the command of a name, written with or without its slash, None if there is none."""
    wanted = name.strip().removeprefix("/").lower()
    return next((command for command in COMMANDS if command.name == wanted), None)


def may_be_pressed(text: str) -> bool:
    """Say whether a line is a command that this bot puts on buttons; anything else on one was not put there by it."""
    match text.split():
        case ["/approve" | "/background" | "/continue" | "/deny", *_]:
            return True
        case ["/held", "accept" | "drop" | "show", _]:
            return True
        case ["/classify", chat, word]:
            return ":" in chat and (word in Level.__members__ or word == "vouch")
        case ["/block", "chat", chat]:
            return ":" in chat
        case _:
            return False


def may_be_opened(text: str) -> bool:
    """Say whether a line is the command that fills a page of the bot's own, such as a person's home at Slack."""
    return text == OPENED


def needed(text: str) -> Role:
    """Return the role a line needs; an unknown command needs what `/help` needs."""
    name, argument = _split(text)
    command = find(name)
    return Role.MEMBER if command is None else command.needed(argument)


def is_urgent(text: str) -> bool:
    """Say whether a line is a command that somebody must be able to give also after he said too much."""
    command = find(_split(text)[0])
    return command is not None and command.urgent


def puts_policy(text: str) -> bool:
    """Say whether a line is the command that puts a policy in force."""
    command = find(_split(text)[0])
    return command is not None and command.run is policy.policy


async def answer(context: CommandContext, text: str) -> Reply:
    """Run the command in a text whose sender was authorized for it, and return what to say.

    What the sender can mend is an answer, not an exception. Raises what the store raises otherwise.
    """
    name, argument = _split(text)
    command = find(name)
    if command is None or command not in _offered(context):
        return Reply(unknown(name, _names(context)))
    try:
        if command.changes(argument) and await _archived(context):
            raise ArchivedError
        return await command.run(context, argument)
    except UsageError as error:
        reason = f"{error}, " if str(error) else ""
        return Reply(f"{reason}write it as `{command.usage}`")
    except BusyError as error:
        # What keeps a conversation busy is the choice of a model that has read what it has.
        state = await context.state()
        return Reply(str(error), PUBLIC if state is None else state.visibility)
    except RequestError as error:
        return Reply(str(error))


async def _archived(context: CommandContext) -> bool:
    state = await context.state()
    return state is not None and state.status is Status.ARCHIVED


def unknown(name: str, known: list[str]) -> str:
    """Return the one sentence for a command there is not, with the nearest of those that `known` names.

    One that others may give is no misspelt other one.
    """
    word = name.strip().removeprefix("/").lower()[:_LONGEST_NAME]
    close = get_close_matches(word, known, n=1) if find(word) is None else []
    return f"unknown command `/{word}`, {f'did you mean `/{close[0]}`?' if close else '`/help` lists them'}"


_LONGEST_NAME: Final = 40


def _offered(context: CommandContext) -> list[Command]:
    """Return the commands that exist for a caller."""
    return [
        command for command in COMMANDS if at_least(context.caller.role, command.least) and command.offered(context)
    ]


def _names(context: CommandContext) -> list[str]:
    return [command.name for command in _offered(context)]


def _split(text: str) -> tuple[str, str]:
    name, *rest = text.strip().split(maxsplit=1)
    return name, rest[0] if rest else ""
