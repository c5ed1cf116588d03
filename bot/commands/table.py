"""The table of slash commands, and how a line becomes an answer.

Every channel renders the same table. The router asks `needed` for the role that a line needs, authorizes, and calls
`CommandTable.answer`; handlers print nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from bot.access.authorize import Caller, at_least
from bot.commands.command import CommandRequest, Reply, Run, UsageError
from bot.commands.conversation import at_console
from bot.commands.handlers import CommandHandlers, CommandServices
from bot.commands.release import may_release
from bot.core.errors import BusyError, NotFoundError, RequestError, sentence
from channels.messages import Address
from policy.labels import PUBLIC, Level
from policy.request import Role

OPENED: Final = "/sessions"
"""The content of a page that people open: their own conversations and the taints of those."""

_POLICY: Final = "policy"
"""The name of the command that puts a policy in force."""


def _to_everybody(_request: CommandRequest) -> bool:
    return True


_WAITING: Final = "`/approvals` lists what waits; a question that was answered, or whose time is over, waits no more"


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table; `usage` begins with the name, `help` is one sentence.

    `needs` is the required role, except where the argument begins with a word of `for_members` or of `for_admins`. A
    caller who is not `offered` it gets the answer for an unknown command. An `urgent` command has a rate limit of its
    own, so that other messages of its sender do not hold it up. `lists` is the next step after an id that names
    nothing, the same whether it is absent or another's.
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
    lists: str = ""

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


WELCOME: Final = "Welcome. Write a message, and the agent answers. These are the commands:"
LINKED: Final = (
    "The link that you opened has a pairing code. Type `/pair approve {code} NAME` only if you know whose it is."
)
_CODE: Final = re.compile(r"(?i:[2-9a-hjkmnp-z]{8})")
"""The form of a pairing code, see `bot.core.ids`."""

EACH: Final = "`/help COMMAND` tells how to write one."


COMMANDS: Final = (
    Command("help", "/help [COMMAND]", "List the commands, or explain one.", lambda made: made.help),
    Command(
        "start",
        "/start [CODE]",
        "Greet you, and list the commands; Telegram types it when you open the bot.",
        lambda made: made.start,
    ),
    Command("whoami", "/whoami", "Tell who you are here, and your clearance.", lambda made: made.conversation.whoami),
    Command(
        "status",
        "/status [RECEIPT]",
        "Tell the state of this conversation, or of a message that it sent.",
        lambda made: made.conversation.status,
    ),
    Command(
        "taint",
        "/taint [raise LABEL]",
        "Tell the taint of this conversation, its sources, and its readers now.",
        lambda made: made.conversation.taint,
    ),
    Command(
        "usage",
        "/usage [all]",
        "Tell the use of models here, and yours today; for admins the use of all.",
        lambda made: made.models.usage,
        for_admins=frozenset({"all"}),
    ),
    Command(
        "summarize",
        "/summarize [TOPIC]",
        "Recap this conversation, or a topic of it.",
        lambda made: made.summary.summarize,
    ),
    Command("tools", "/tools", "List the tools of the agent here, with their labels.", lambda made: made.tools.tools),
    Command("why", "/why", "Explain the denials of the last turn that had any.", lambda made: made.decisions.why),
    Command(
        "simulate",
        "/simulate TOOL [JSON]",
        "Tell the gate's decision about a call, without making it.",
        lambda made: made.decisions.simulate,
    ),
    Command(
        "sessions",
        "/sessions [all] [kind=chat|task|run] [active=SECONDS] [CURSOR]",
        "List your conversations, newest first; with `all` also archived ones.",
        lambda made: made.sessions.list_sessions,
    ),
    Command(
        "history",
        "/history [SESSION [PLACE]] [tools]",
        "Show the messages here, or of another conversation.",
        lambda made: made.sessions.history,
    ),
    Command(
        "export",
        "/export [SESSION]",
        "Send a signed copy of this conversation, or of another.",
        lambda made: made.sessions.export,
    ),
    Command(
        "name",
        "/name [TITLE]",
        "Give this conversation a title, or take it away.",
        lambda made: made.sessions.rename,
    ),
    Command(
        "model",
        "/model [NAME]",
        "Show the model of this conversation, or switch to another.",
        lambda made: made.models.model,
    ),
    Command(
        "approvals",
        "/approvals [ID | older NUMBER]",
        "List everything that waits for your answer, anywhere.",
        lambda made: made.inbox.inbox,
        lists=_WAITING,
    ),
    Command(
        "approve",
        "/approve ID [conversation | until TIME]",
        "Let a waiting call go on, and further calls of its scope.",
        lambda made: made.approvals.approve,
        urgent=True,
        lists=_WAITING,
    ),
    Command(
        "deny",
        "/deny ID",
        "Refuse a waiting call, or decline an offer.",
        lambda made: made.approvals.deny,
        urgent=True,
        lists=_WAITING,
    ),
    Command(
        "grants",
        "/grants [revoke ID]",
        "List the grants that cover further calls, or take one back.",
        lambda made: made.grants.grants,
        urgent=True,
        lists="`/grants` lists those that count; one that is used up, over or taken back counts no more",
    ),
    Command(
        "questions",
        "/questions [ID]",
        "List the agent's questions to you.",
        lambda made: made.questions.questions,
        lists=_WAITING,
    ),
    Command(
        "answer",
        "/answer ID TEXT",
        "Answer the agent.",
        lambda made: made.questions.answer,
        urgent=True,
        lists=_WAITING,
    ),
    Command(
        "continue",
        "/continue ID",
        "Accept an offer: get the answer in your private chat.",
        lambda made: made.alternatives.proceed,
    ),
    Command(
        "background",
        "/background ID [RECIPIENT]",
        "Accept an offer: let a background session work on it.",
        lambda made: made.alternatives.background,
    ),
    Command(
        "spawn",
        "/spawn TASK",
        "Let a background session do a task and report back.",
        lambda made: made.background.spawn,
    ),
    Command(
        "send",
        "/send SESSION TEXT",
        "Send a text to another of your sessions.",
        lambda made: made.background.send,
    ),
    Command(
        "message",
        "/message CHANNEL RECIPIENT TEXT",
        "Send a message to an alias, a person or a known chat.",
        lambda made: made.background.message,
    ),
    Command(
        "held",
        "/held [list | show ID | accept ID | drop ID]",
        "Review messages of other sessions that wait for your consent.",
        lambda made: made.held_messages.held,
    ),
    Command(
        "agents",
        "/agents [list | cancel ID | log ID]",
        "List your background sessions, cancel one, or show its log.",
        lambda made: made.background.agents,
    ),
    Command(
        "runs",
        "/runs [start [NAME=VALUE …] GOAL | list [all] | show ID | stats ID | log ID | steer ID [urgent | abort] NOTE"
        " | pause ID | resume ID | stop ID]",
        "Start autonomous runs, see their state, steer and end them.",
        lambda made: made.runs.manage,
    ),
    Command(
        "schedule",
        "/schedule [[NAME=VALUE …] MOMENT GOAL | list | show ID | pause ID | resume ID | cancel ID]",
        "Start runs at a moment or again and again, and list them.",
        lambda made: made.schedules.schedule,
    ),
    Command(
        "remind",
        "/remind [[NAME=VALUE …] MOMENT TEXT | list | show ID | pause ID | resume ID | cancel ID]",
        "Have a text said here at a moment or again and again.",
        lambda made: made.schedules.remind,
    ),
    Command(
        "memory",
        "/memory [list [ID] | recall [domain=NAME] TEXT | show ID | learn [domain=NAME] TEXT | correct ID TEXT"
        " | keep ID | forget ID | export | mode [auto | tool | off]]",
        "See, teach, correct, forget and copy the memories about you.",
        lambda made: made.memories.manage,
    ),
    Command(
        "skills",
        "/skills [list [ID] | show ID | approve ID [VERSION DIGEST] | reject ID [VERSION DIGEST] | deprecate ID"
        " | rollback ID VERSION | log ID | export ID]",
        "See the skills of your agents, and put them in force or not.",
        lambda made: made.skills.manage,
    ),
    Command(
        "workflow",
        "/workflow [list | start PROJECT DEFINITION | show PROJECT | resume PROJECT [STEP [again | anyway]]"
        " | later PROJECT | skip PROJECT STEP | pass PROJECT VERSION | finding PROJECT [remove ID | TEXT]]",
        "Work in steps: see the state, go on, and let the work pass its gates.",
        lambda made: made.workflows.manage,
    ),
    Command(
        "connect",
        "/connect [list | SERVER [CODE [confirm]]]",
        "Connect your own account at a server, for the agent's calls that you ask for.",
        lambda made: made.accounts.connect,
    ),
    Command(
        "disconnect",
        "/disconnect SERVER",
        "Disconnect your account at a server, and delete its tokens.",
        lambda made: made.accounts.disconnect,
    ),
    Command(
        "release",
        "/release last|NUMBER to RECIPIENT, or /release confirm CODE",
        "Send exactly the shown text to a recipient below its label.",
        lambda made: made.release.release,
        offered=may_release,
    ),
    Command(
        "reset",
        "/reset [confirm]",
        "Forget this conversation and begin a new one.",
        lambda made: made.conversation.reset,
    ),
    Command(
        "archive",
        "/archive [SESSION]",
        "Make this conversation read-only; the next message begins another.",
        lambda made: made.lifecycle.archive,
    ),
    Command(
        "restore",
        "/restore SESSION",
        "Speak again in a conversation that was archived.",
        lambda made: made.lifecycle.restore,
    ),
    Command(
        "delete",
        "/delete [SESSION [confirm]]",
        "Erase this conversation and its background sessions for good.",
        lambda made: made.lifecycle.delete,
    ),
    Command(
        "pause",
        "/pause [SESSION]",
        "Let this conversation rest; new messages wait.",
        lambda made: made.lifecycle.pause,
        Role.ADMIN,
    ),
    Command(
        "resume",
        "/resume [SESSION]",
        "Let a conversation that rests go on.",
        lambda made: made.lifecycle.resume,
        Role.ADMIN,
    ),
    Command(
        "pair",
        "/pair [list | approve CODE [NAME] | deny CODE | revoke NAME | link CODE]",
        "Let in people who ask, or link another account of yours.",
        lambda made: made.access.pair,
        Role.ADMIN,
        for_members=frozenset({"link"}),
    ),
    Command(
        "allow",
        "/allow [ACCOUNT [NAME] | chat CHAT | NAME LABEL]",
        "Unblock an account, let one in, or set a person's clearance.",
        lambda made: made.access.allow,
        Role.ADMIN,
    ),
    Command(
        "block",
        "/block [ACCOUNT | chat CHAT]",
        "Shut out an account, or a chat.",
        lambda made: made.access.block,
        Role.ADMIN,
    ),
    Command(
        "classify",
        "/classify [CHAT] [LABEL | vouch | unvouch | none]",
        "Set the classification of a shared chat, this one if none is named.",
        lambda made: made.chats.classify,
        Role.ADMIN,
    ),
    Command(
        "deadletter",
        "/deadletter [list | retry ID | discard ID]",
        "List undelivered messages, and retry or discard them.",
        lambda made: made.dead_letters.deadletter,
        Role.ADMIN,
    ),
    Command(
        "audit",
        "/audit [tail [SESSION] [NUMBER] | verify | trace ID [back | forward] [PAGE]]",
        "Show the audit, verify its chains, or trace the sources of an item.",
        lambda made: made.audit.audit,
        Role.ADMIN,
    ),
    Command(
        "config",
        "/config [SECTION]",
        "Show the configuration, without secrets.",
        lambda made: made.configuration.show,
        Role.ADMIN,
    ),
    Command(
        "doctor",
        "/doctor",
        "List the problems of this installation, and how to mend them.",
        lambda made: made.configuration.doctor,
        Role.ADMIN,
    ),
    Command(
        "queue",
        "/queue [collect | queue | steer | interrupt | drop NUMBER]",
        "List waiting messages, choose how they are taken, or cancel one of yours.",
        lambda made: made.queue.manage,
    ),
    Command(
        "policy",
        "/policy [show|check|reload]",
        "Show, check or reload the policy in force.",
        lambda made: made.configuration.policy,
        Role.ADMIN,
    ),
    Command(
        "stop",
        "/stop",
        "Stop the running turn and cancel waiting messages.",
        lambda made: made.conversation.stop,
        urgent=True,
    ),
    Command("quit", "/quit", "Leave the console.", lambda made: made.conversation.leave, offered=at_console),
)


def is_command(text: str) -> bool:
    """Say whether a text is meant as a command."""
    return text.startswith("/")


_LONGEST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands of an installation: those of `COMMANDS`, and those that plugins add."""

    rows: tuple[Command, ...] = COMMANDS

    def find(self, name: str) -> Command | None:
        """Return the command of a name, written with or without its slash, None if there is none."""
        wanted = name.strip().removeprefix("/").lower()
        return next((command for command in self.rows if command.name == wanted), None)

    def needed(self, text: str) -> Role:
        """Return the role that a line needs; an unknown command needs the same role as `/help`."""
        name, argument = _split(text)
        command = self.find(name)
        return Role.MEMBER if command is None else command.needed(argument)

    def is_urgent(self, text: str) -> bool:
        """Say whether a line is a command that its sender must be able to give also after too many messages."""
        command = self.find(_split(text)[0])
        return command is not None and command.urgent

    def offered(self, request: CommandRequest) -> list[Command]:
        """Return the commands that exist for a caller."""
        role = request.caller.role
        return [command for command in self.rows if at_least(role, command.least) and command.offered(request)]

    def unknown(self, name: str, request: CommandRequest) -> str:
        """Return the one sentence for a command that does not exist for a caller, with the nearest that does.

        A command that others may give is not taken for a misspelt one.
        """
        word = name.strip().removeprefix("/").lower()[:_LONGEST_NAME]
        known = [command.name for command in self.offered(request)]
        close = get_close_matches(word, known, n=1) if self.find(word) is None else []
        return f"Unknown command `/{word}`. {f'Did you mean `/{close[0]}`?' if close else '`/help` lists them.'}"


BUILT_IN: Final = Commands()


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


def puts_policy(text: str) -> bool:
    """Say whether a line is the command that puts a policy in force."""
    return _split(text)[0].lower() == f"/{_POLICY}"


class CommandTable:
    """Runs the commands of an installation with the services of an application."""

    def __init__(self, services: CommandServices, commands: Commands = BUILT_IN) -> None:
        made = CommandHandlers(services, self._help, self._start)
        self.commands = commands
        self._services = services
        self._run = {command.name: command.run(made) for command in commands.rows}

    def request(self, caller: Caller, address: Address, sid: str) -> CommandRequest:
        """Return the request of a caller who asks now, at an address and in its session."""
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

    def offered(self, request: CommandRequest) -> list[Command]:
        """Return the commands that exist for a caller."""
        return self.commands.offered(request)

    async def answer(self, request: CommandRequest, text: str) -> Reply:
        """Run the command in a text whose sender was authorized for it, and return its answer.

        A fault that the sender can mend is an answer, not an exception. Raises the store's other errors.
        """
        name, argument = _split(text)
        command = self.commands.find(name)
        if command is None or command not in self.commands.offered(request):
            return Reply(self.commands.unknown(name, request), failed=True)
        try:
            return await self._run[command.name](request, argument)
        except UsageError as error:
            told = " ".join((*filter(None, [sentence(str(error))]), f"Write it as `{command.usage}`."))
            return Reply(told, failed=True)
        except BusyError as error:
            # A conversation's being busy is the choice of a model that knows its taint's data.
            state = await request.state()
            return Reply.refusing(error, PUBLIC if state is None else state.visibility)
        except NotFoundError as error:
            return Reply.refusing(NotFoundError(next_step=error.next_step or command.lists), PUBLIC)
        except RequestError as error:
            return Reply.refusing(error, PUBLIC)

    async def _start(self, request: CommandRequest, argument: str) -> Reply:
        """Greet the caller and show the table.

        The argument may come from a link that another person made. So it does nothing: a pairing code in it is an
        admin's to type, and everything else is ignored.
        """
        linked = at_least(request.caller.role, Role.ADMIN) and _CODE.fullmatch(argument) is not None
        told = f"{LINKED.format(code=argument.lower())}\n\n" if linked else ""
        return Reply(f"{told}{WELCOME}\n{(await self._help(request, '')).text}")

    async def _help(self, request: CommandRequest, argument: str) -> Reply:
        """Show the table, or one row of it."""
        offered = self.commands.offered(request)
        if not argument:
            # No columns: most platforms show no two letters equally wide, and phones break long lines.
            lines = [f"/{command.name}: {command.help}" for command in offered]
            return Reply("\n".join((*lines, EACH)))
        command = self.commands.find(argument)
        if command is None or command not in offered:
            return Reply(self.commands.unknown(argument, request))
        return Reply(f"{command.usage}  {command.help}")


def _split(text: str) -> tuple[str, str]:
    name, *rest = text.strip().split(maxsplit=1)
    return name, rest[0] if rest else ""
