"""The table of slash commands, and how a line becomes an answer.

Every channel renders the same table. The router asks `needed` what role a line needs, authorizes, and
calls `CommandTable.answer`; handlers print nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from bot.access.authorize import Caller, at_least
from bot.commands.command import CommandRequest, Reply, Run, UsageError
from bot.commands.conversation import at_console
from bot.commands.handlers import CommandHandlers, CommandServices
from bot.commands.release import may_release
from bot.core.errors import BusyError, RequestError, in_words
from channels.messages import Address
from policy.labels import PUBLIC, Level
from policy.request import Role

OPENED: Final = "/sessions"
"""What a page that people open shows: their own conversations and what those have read."""

_POLICY: Final = "policy"
"""The name of the command that puts a policy in force."""


def _to_everybody(_request: CommandRequest) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table; `usage` begins with the name, `help` is one sentence.

    `needs` is the role it takes, but for what begins with a word of `for_members` or of `for_admins`. A caller who is
    not `offered` it gets the answer for an unknown command. What is `urgent` has a rate limit of its own, so that other
    messages of its sender do not hold it up.
    """

    name: str
    usage: str
    help: str
    run: Callable[[CommandHandlers], Run]
    needs: Role = Role.MEMBER
    offered: Callable[[CommandRequest], bool] = _to_everybody
    for_members: frozenset[str] = frozenset()
    for_admins: frozenset[str] = frozenset()
    urgent: bool = False

    def needed(self, argument: str) -> Role:
        """Return the role that this argument takes."""
        first = argument.split(maxsplit=1)[:1]
        if self.for_admins.intersection(first):
            return Role.ADMIN
        return Role.MEMBER if self.for_members.intersection(first) else self.needs

    @property
    def public(self) -> bool:
        """Whether it exists for every member."""
        return self.least is Role.MEMBER and self.offered is _to_everybody

    @property
    def least(self) -> Role:
        """The role that some argument takes."""
        return Role.MEMBER if self.for_members else self.needs


EACH: Final = "`/help COMMAND` tells how one is written"


async def _help(request: CommandRequest, argument: str) -> Reply:
    """Show the table, or one row of it."""
    if not argument:
        # No columns: most platforms show no two letters equally wide, and phones break long lines.
        lines = [f"/{command.name}: {command.help}" for command in _offered(request)]
        return Reply("\n".join((*lines, EACH)))
    command = find(argument)
    if command is None or command not in _offered(request):
        return Reply(unknown(argument, _names(request)))
    return Reply(f"{command.usage}  {command.help}")


COMMANDS: Final = (
    Command("help", "/help [COMMAND]", "list the commands, or explain one", lambda _: _help),
    Command("whoami", "/whoami", "who you are here, and what may be said here", lambda made: made.conversation.whoami),
    Command(
        "status",
        "/status [RECEIPT]",
        "what this conversation is doing, or what became of what it sent",
        lambda made: made.conversation.status,
    ),
    Command(
        "taint",
        "/taint [raise LABEL]",
        "what this conversation has read, and what raised it",
        lambda made: made.conversation.taint,
    ),
    Command(
        "usage",
        "/usage [all]",
        "what was used of models here, and by you today; for admins by all",
        lambda made: made.models.usage,
        for_admins=frozenset({"all"}),
    ),
    Command(
        "summarize",
        "/summarize [TOPIC]",
        "recap this conversation, or a topic of it",
        lambda made: made.summary.summarize,
    ),
    Command("why", "/why", "explain the last denial", lambda made: made.decisions.why),
    Command(
        "simulate",
        "/simulate TOOL [JSON]",
        "what the gate would decide about a call",
        lambda made: made.decisions.simulate,
    ),
    Command(
        "sessions",
        "/sessions [all] [kind=chat|task|run] [active=SECONDS] [CURSOR]",
        "your conversations, newest first; with `all` also archived ones",
        lambda made: made.sessions.list_sessions,
    ),
    Command(
        "history",
        "/history [SESSION [PLACE]] [tools]",
        "what was said here, or in another conversation",
        lambda made: made.sessions.history,
    ),
    Command(
        "export",
        "/export [SESSION]",
        "a signed copy of this conversation, or of another",
        lambda made: made.sessions.export,
    ),
    Command(
        "name",
        "/name [TITLE]",
        "give this conversation a title, or take it away",
        lambda made: made.sessions.rename,
    ),
    Command(
        "model",
        "/model [NAME]",
        "which model this conversation thinks with, or switch to another",
        lambda made: made.models.model,
    ),
    Command("approvals", "/approvals [ID]", "what waits for an answer from you", lambda made: made.approvals.approvals),
    Command("approve", "/approve ID", "let a waiting call go on", lambda made: made.approvals.approve, urgent=True),
    Command(
        "deny", "/deny ID", "refuse a waiting call, or let an offer be", lambda made: made.approvals.deny, urgent=True
    ),
    Command("questions", "/questions [ID]", "what the agent asks you", lambda made: made.questions.questions),
    Command("answer", "/answer ID TEXT", "answer the agent", lambda made: made.questions.answer, urgent=True),
    Command(
        "continue",
        "/continue ID",
        "have in your private chat what was offered to you",
        lambda made: made.alternatives.proceed,
    ),
    Command(
        "background",
        "/background ID [RECIPIENT]",
        "let a background session do what was offered to you",
        lambda made: made.alternatives.background,
    ),
    Command(
        "spawn",
        "/spawn TASK",
        "let a background session do a task and report back",
        lambda made: made.background.spawn,
    ),
    Command(
        "send",
        "/send SESSION TEXT",
        "hand something over to another of your sessions",
        lambda made: made.background.send,
    ),
    Command(
        "message",
        "/message CHANNEL RECIPIENT TEXT",
        "send a message to an alias, a person or a known chat",
        lambda made: made.background.message,
    ),
    Command(
        "held",
        "/held [list | show ID | accept ID | drop ID]",
        "what other sessions sent to yours, to let it in or drop it",
        lambda made: made.held_messages.held,
    ),
    Command(
        "agents", "/agents [list | cancel ID | log ID]", "your background sessions", lambda made: made.background.agents
    ),
    Command(
        "runs",
        "/runs [start [NAME=VALUE …] GOAL | list [all] | show ID | stats ID | log ID | steer ID [urgent | abort] NOTE"
        " | pause ID | resume ID | stop ID]",
        "your autonomous runs: start one, see how they are, steer and end them",
        lambda made: made.runs.manage,
    ),
    Command(
        "schedule",
        "/schedule [[NAME=VALUE …] MOMENT GOAL | list | show ID | pause ID | resume ID | cancel ID]",
        "start runs at a moment or again and again, and see what is due",
        lambda made: made.schedules.schedule,
    ),
    Command(
        "remind",
        "/remind [[NAME=VALUE …] MOMENT TEXT | list | show ID | pause ID | resume ID | cancel ID]",
        "have something said here at a moment or again and again",
        lambda made: made.schedules.remind,
    ),
    Command(
        "memory",
        "/memory [list [ID] | recall [domain=NAME] TEXT | show ID | learn [domain=NAME] TEXT | correct ID TEXT"
        " | keep ID | forget ID | export | mode [auto | tool | off]]",
        "what is remembered of you here, to see, teach, correct, forget and copy it",
        lambda made: made.memories.manage,
    ),
    Command(
        "skills",
        "/skills [list [ID] | show ID | approve ID [VERSION DIGEST] | reject ID [VERSION DIGEST] | deprecate ID"
        " | rollback ID VERSION | log ID | export ID]",
        "what your agents know how to do, to see it and to decide what is in force",
        lambda made: made.skills.manage,
    ),
    Command(
        "workflow",
        "/workflow [list | start PROJECT DEFINITION | show PROJECT | resume PROJECT [STEP [again | anyway]]"
        " | later PROJECT | skip PROJECT STEP | pass PROJECT VERSION | finding PROJECT [remove ID | TEXT]]",
        "work in steps: see where it stands, go on with it, and let it pass its gates",
        lambda made: made.workflows.manage,
    ),
    Command(
        "release",
        "/release last|NUMBER to RECIPIENT, or /release confirm CODE",
        "send exactly what you are shown to somebody below its label",
        lambda made: made.release.release,
        offered=may_release,
    ),
    Command(
        "reset",
        "/reset [confirm]",
        "forget this conversation and begin a new one",
        lambda made: made.conversation.reset,
    ),
    Command(
        "archive",
        "/archive [SESSION]",
        "make this conversation read-only; the next message begins another",
        lambda made: made.lifecycle.archive,
    ),
    Command(
        "restore",
        "/restore SESSION",
        "speak again in a conversation that was archived",
        lambda made: made.lifecycle.restore,
    ),
    Command(
        "delete",
        "/delete [SESSION [confirm]]",
        "erase this conversation and what it spawned for good",
        lambda made: made.lifecycle.delete,
    ),
    Command(
        "pause",
        "/pause [SESSION]",
        "let this conversation rest; what it is told waits",
        lambda made: made.lifecycle.pause,
        Role.ADMIN,
    ),
    Command(
        "resume",
        "/resume [SESSION]",
        "let a conversation that rests go on",
        lambda made: made.lifecycle.resume,
        Role.ADMIN,
    ),
    Command(
        "pair",
        "/pair [list | approve CODE [NAME] | deny CODE | revoke NAME | link CODE]",
        "let in who asks, or link another account of yours",
        lambda made: made.access.pair,
        Role.ADMIN,
        for_members=frozenset({"link"}),
    ),
    Command(
        "allow",
        "/allow [ACCOUNT [NAME] | chat CHAT | NAME LABEL]",
        "unblock, let an account in, or say how much somebody may know",
        lambda made: made.access.allow,
        Role.ADMIN,
    ),
    Command(
        "block",
        "/block [ACCOUNT | chat CHAT]",
        "shut out an account, or a chat",
        lambda made: made.access.block,
        Role.ADMIN,
    ),
    Command(
        "classify",
        "/classify [CHAT] [LABEL | vouch | unvouch | none]",
        "what may be said in a shared chat, this one if none is named",
        lambda made: made.chats.classify,
        Role.ADMIN,
    ),
    Command(
        "deadletter",
        "/deadletter [list | retry ID | discard ID]",
        "what could not be said, to try it again or let it go",
        lambda made: made.dead_letters.deadletter,
        Role.ADMIN,
    ),
    Command(
        "audit",
        "/audit [tail [SESSION] [NUMBER] | verify | trace ID [back | forward] [PAGE]]",
        "what was decided and done, whether the record of it holds, and what came from what",
        lambda made: made.audit.audit,
        Role.ADMIN,
    ),
    Command(
        "config",
        "/config [SECTION]",
        "what is configured, without secrets",
        lambda made: made.configuration.show,
        Role.ADMIN,
    ),
    Command(
        "doctor", "/doctor", "what is to be mended here, and how", lambda made: made.configuration.doctor, Role.ADMIN
    ),
    Command(
        "queue",
        "/queue [collect | queue | steer | interrupt | drop NUMBER]",
        "what waits here, what becomes of it, or cancel a message of yours that waits",
        lambda made: made.queue.manage,
    ),
    Command(
        "policy",
        "/policy [show|check|reload]",
        "the policy in force",
        lambda made: made.configuration.policy,
        Role.ADMIN,
    ),
    Command(
        "stop",
        "/stop",
        "stop what is running and cancel what waits",
        lambda made: made.conversation.stop,
        urgent=True,
    ),
    Command("quit", "/quit", "leave the console", lambda made: made.conversation.leave, offered=at_console),
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
        case ["/answer" | "/approve" | "/background" | "/continue" | "/deny", *_]:
            return True
        case ["/held", "accept" | "drop" | "show", _]:
            return True
        case ["/classify", chat, word]:
            return ":" in chat and (word in Level.__members__ or word == "vouch")
        case ["/block", "chat", chat]:
            return ":" in chat
        case (
            ["/delete", _, "confirm"]
            | ["/runs", "log" | "pause" | "resume" | "show" | "stop", _]
            | ["/schedule", "cancel" | "pause" | "resume" | "show", _]
            | ["/skills", "approve" | "reject", _, _, _]
            | ["/workflow", "later", _]
            | ["/workflow", "resume", _]
            | ["/workflow", "resume", _, _, "again" | "anyway"]
        ):
            return True
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
    return command is not None and command.name == _POLICY


class CommandTable:
    """Runs the commands of this table with the services of an application."""

    def __init__(self, services: CommandServices) -> None:
        made = CommandHandlers(services)
        self._services = services
        self._run = {command.name: command.run(made) for command in COMMANDS}

    def request(self, caller: Caller, address: Address, sid: str) -> CommandRequest:
        """Return what a command is told of a caller who asks now, at an address and in its session."""
        services = self._services
        return CommandRequest(
            caller=caller,
            address=address,
            sid=sid,
            now=services.clock.wall_ms(),
            gate=services.gate,
            sessions=services.store.sessions,
            agents=services.agents,
        )

    async def answer(self, request: CommandRequest, text: str) -> Reply:
        """Run the command in a text whose sender was authorized for it, and return what to say.

        What the sender can mend is an answer, not an exception. Raises what the store raises otherwise.
        """
        name, argument = _split(text)
        command = find(name)
        if command is None or command not in _offered(request):
            return Reply(unknown(name, _names(request)))
        try:
            return await self._run[command.name](request, argument)
        except UsageError as error:
            reason = f"{error}, " if str(error) else ""
            return Reply(f"{reason}write it as `{command.usage}`")
        except BusyError as error:
            # What keeps a conversation busy is the choice of a model that has read what it has.
            state = await request.state()
            return Reply(str(error), PUBLIC if state is None else state.visibility)
        except RequestError as error:
            return Reply(in_words(error))


def unknown(name: str, known: list[str]) -> str:
    """Return the one sentence for a command there is not, with the nearest of those that `known` names.

    One that others may give is no misspelt other one.
    """
    word = name.strip().removeprefix("/").lower()[:_LONGEST_NAME]
    close = get_close_matches(word, known, n=1) if find(word) is None else []
    return f"unknown command `/{word}`, {f'did you mean `/{close[0]}`?' if close else '`/help` lists them'}"


_LONGEST_NAME: Final = 40


def _offered(request: CommandRequest) -> list[Command]:
    """Return the commands that exist for a caller."""
    return [
        command for command in COMMANDS if at_least(request.caller.role, command.least) and command.offered(request)
    ]


def _names(request: CommandRequest) -> list[str]:
    return [command.name for command in _offered(request)]


def _split(text: str) -> tuple[str, str]:
    name, *rest = text.strip().split(maxsplit=1)
    return name, rest[0] if rest else ""
