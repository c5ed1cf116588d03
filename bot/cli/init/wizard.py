"""`lockgate init`: the questions one after the other, then the file, then the doctor.

Nothing is written before the last answer, so an end of the input or Ctrl-C leaves nothing behind. The values of a
file are the defaults of the questions, and the rest of it stays as it is.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Final

from bot.cli.doctor import doctor
from bot.cli.init import answers as answered
from bot.cli.init import file
from bot.cli.init.answers import (
    Answers,
    GroupAnswer,
    ModelAnswer,
    ModelKind,
    PlatformAnswer,
    PlatformKind,
    current_model,
    current_platform,
    owners,
)
from bot.cli.init.asking import Asking, Defaults, Keyboard, agreed, chosen, given
from bot.cli.init.changes import changes
from bot.cli.init.checks import CheckResult, adapter, called, check_model, check_platform, settings_of
from bot.cli.init.claim import SECONDS, Meeting, OneTimeCode
from bot.cli.init.editing import edited
from bot.cli.init.standalone import SoleLease
from bot.cli.log import logged
from bot.cli.ready import found as serving
from bot.cli.terminal.lines import LineReader
from bot.config.file.source import CONFIG_VARIABLE, DATA_VARIABLE, DEFAULT_FILE
from bot.config.file.yaml import parse_yaml
from bot.config.load import load_config
from bot.config.model import OFFLINE, Config
from bot.core.clock import SystemClock
from bot.core.errors import OperatorError
from bot.core.ids import Ids
from bot.core.logs import LogLevel
from bot.tools.catalogue import ARGUMENTS
from channels.console import visible
from channels.messages import Address

_LONGEST: Final = 1000
"""Characters of an answer."""

_AGAIN: Final = "again"
_KEEP: Final = "keep"
_CHANGE: Final = "change"
_LEVELS: Final = "PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED"


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the command line: answers that are not asked for, None where there is none."""

    folder: Path | None = None
    model: str | None = None
    model_name: str | None = None
    model_address: str | None = None
    key: str | None = None
    clearance: str | None = None
    platform: str | None = None
    platform_address: str | None = None
    token: str | None = None
    app_token: str | None = None
    classification: str | None = None
    owner: str | None = None
    group: str | None = None
    group_level: str | None = None
    yes: bool = False
    unchecked: bool = False


async def init(named: Path | None, options: Given) -> int:
    """Set up config.yaml; return the exit code of the doctor. `named` is the file of `--config`.

    Raises OperatorError: an answer is missing or wrong, or the file cannot be read or written.
    """
    asking: Asking = Defaults() if options.yes else Keyboard(LineReader(_keyboard(), _LONGEST), _show)
    return await Wizard(asking, options, os.environ, _say).run(named)


class Wizard:
    """One run of the questions; `say` writes a line for the person."""

    def __init__(
        self, asking: Asking, options: Given, environment: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        self._asking = asking
        self._given = options
        self._environment = environment
        self._say = say

    async def run(self, named: Path | None) -> int:
        """Ask, write and look; return the exit code of the doctor."""
        if self._asking.asks:
            self._say("Set up Lockgate. Enter takes the answer in brackets; Ctrl-C leaves everything as it is.")
        try:
            path = await self._path(named)
            before = await asyncio.to_thread(file.text_of, path)
            # A file that is not in order is told of by its lines, before anything is asked.
            config = await asyncio.to_thread(self._config, path, before)
            if before is not None:
                self._say(f"{path} is there: its answers stand in brackets, and all else in it stays.")
            found = await self._answers(config)
        except asyncio.CancelledError:
            # Ctrl-C, as the terminal left it: in the middle of a line.
            self._say("\nNothing was written.")
            raise
        await self._put(path, before, config, found)
        self._say("Now the doctor looks at all of it:")
        code = await doctor(await asyncio.to_thread(_loaded, path), as_json=False)
        self._next(path, found)
        return code

    async def _path(self, named: Path | None) -> Path:
        """Return the file to write."""
        variable = self._environment.get(CONFIG_VARIABLE)
        known = named or (Path(variable) if variable and self._given.folder is None else None)
        if known is not None:
            return known
        if self._given.folder is not None:
            return self._given.folder / DEFAULT_FILE
        folder = await self._asking.text("Folder of config.yaml and of all data", ".", _filled)
        return (await asyncio.to_thread(Path(folder).expanduser)) / DEFAULT_FILE

    def _config(self, path: Path, before: str | None) -> Config:
        """Return the configuration in force there, without a file the defaults. It blocks."""
        if before is not None:
            return _loaded(path)
        config = load_config(file.template_path(), self._environment, ARGUMENTS)
        own = self._environment.get(DATA_VARIABLE)
        return config if own else replace(config, data_dir=path.absolute().parent / config.data_dir.name)

    async def _answers(self, config: Config) -> Answers:
        model = await self._model(current_model(config), config)
        platform = await self._platform(config)
        if platform is None:
            return Answers(model)
        owner, group = await self._people(platform, config)
        return Answers(model, platform, owner, group)

    # --- the model

    async def _model(self, before: ModelAnswer, config: Config) -> ModelAnswer:
        while True:
            answer = await self._asked_model(before, config)
            self._say("Asking it for one word…" if answer.name != OFFLINE and not self._given.unchecked else "")
            if await self._fine(lambda one=answer: check_model(one, config, self._environment)):
                return answer
            # The answers that are to be changed stand in brackets now.
            before = answer

    async def _asked_model(self, before: ModelAnswer, config: Config) -> ModelAnswer:
        options = [kind.value for kind in ModelKind]
        word = await self._choice(self._given.model, "Model", options, before.kind.value)
        kind = ModelKind(word)
        if kind is ModelKind.OFFLINE:
            return ModelAnswer(clearance=str(config.policy.provider(OFFLINE)))
        same = before if before.kind is kind else ModelAnswer(name=answered.MODELS.get(kind, ""))
        provider, _, plain = same.name.partition(":")
        name = await given(
            self._asking,
            self._given.model_name,
            "Name of the model, as its provider writes it",
            default=plain,
            check=answered.model_name,
        )
        url, key = same.address, same.key
        if kind.addressed:
            usual = same.address or (answered.OLLAMA if kind is ModelKind.OLLAMA else "")
            url = await given(self._asking, self._given.model_address, "Address", default=usual, check=answered.address)
            provider = provider or answered.SPEAKS_OPENAI
            key = await given(
                self._asking,
                self._given.key,
                "Environment variable with its key, or none",
                default=same.key or "none",
                check=answered.optional_variable,
            )
        else:
            usual = same.key or answered.KEYS[kind]
            key = await given(
                self._asking,
                self._given.key,
                "Environment variable with its key",
                default=usual,
                check=answered.variable,
            )
            # The provider's own variable needs no line.
            key = "" if key == answered.KEYS[kind] and not same.key else key
        clearance = await given(
            self._asking,
            self._given.clearance,
            f"Highest label that its provider may read: {_LEVELS}",
            default=same.clearance,
            check=answered.label,
        )
        return ModelAnswer(f"{provider}:{name}", url, key, clearance)

    # --- the platform

    async def _platform(self, config: Config) -> PlatformAnswer | None:
        listened = [kind for kind in PlatformKind if current_platform(config.channels, config.policy, kind)]
        options = [kind.value for kind in PlatformKind]
        usual, typed = (listened or [PlatformKind.NONE])[0], None
        while True:
            kind = PlatformKind(await self._choice(self._given.platform, "Chat platform", options, usual.value))
            if kind is PlatformKind.NONE:
                return None
            answer = await self._asked_platform(kind, config, typed)
            self._say(f"Asking {kind.value.capitalize()} about the token…" if not self._given.unchecked else "")
            if await self._fine(lambda one=answer: check_platform(one, config, self._environment)):
                return answer
            usual, typed = kind, answer

    async def _asked_platform(self, kind: PlatformKind, config: Config, typed: PlatformAnswer | None) -> PlatformAnswer:
        """Ask about a platform; `typed` is the answer that is to be changed, None the first time."""
        token, app_token = answered.TOKENS[kind]
        before = current_platform(config.channels, config.policy, kind) or PlatformAnswer(kind, token, app_token)
        if typed is not None and typed.kind is kind:
            before = typed
        name = kind.value.capitalize()
        asked = await given(
            self._asking,
            self._given.token,
            f"Environment variable with the bot's token of {name}",
            default=before.token,
            check=answered.variable,
        )
        app = before.app_token
        if kind is PlatformKind.SLACK and not called(kind, config.channels):
            app = await given(
                self._asking,
                self._given.app_token,
                "Environment variable with the app-level token",
                default=before.app_token,
                check=answered.variable,
            )
        url = await given(
            self._asking,
            self._given.platform_address,
            f"Address of another server that plays {name}, or none",
            default=before.address or "none",
            check=answered.optional_address,
        )
        level = await given(
            self._asking,
            self._given.classification,
            f"Highest label that may be sent on {name}: {_LEVELS}",
            default=before.classification,
            check=answered.label,
        )
        return PlatformAnswer(kind, asked, app, url, level)

    # --- the owner and a first group

    async def _people(self, platform: PlatformAnswer, config: Config) -> tuple[str, GroupAnswer | None]:
        if self._given.owner is not None or not self._asking.asks:
            return await self._named_people(platform)
        known = frozenset(owners(config.policy, platform.kind))
        told = f"{', '.join(sorted(known))} owns it already. " if known else ""
        wanted = await agreed(self._asking, f"{told}Make an account the owner's by a code", default=not known)
        grouped = await agreed(self._asking, "Classify a first group", default=False) if wanted or known else False
        if not wanted and not grouped:
            return "", None
        await self._may_listen(platform, config)
        return await self._met(platform, config, known, wanted=wanted, grouped=grouped)

    async def _named_people(self, platform: PlatformAnswer) -> tuple[str, GroupAnswer | None]:
        kind = platform.kind
        owner = ""
        if self._given.owner is not None:
            owner = await given(
                self._asking, self._given.owner, "", default="", check=lambda text: answered.account(kind, text)
            )
        if self._given.group is None:
            return owner, None
        workspace, _, chat = self._given.group.rpartition(":")
        level = await self._group_level(self._given.group)
        return owner, GroupAnswer(kind, chat, workspace, level)

    async def _may_listen(self, platform: PlatformAnswer, config: Config) -> None:
        """Raise OperatorError if a process of this installation listens, or the platform calls one."""
        if called(platform.kind, config.channels):
            raise OperatorError(
                f"`channels.{platform.kind.value}` is called from outside, so a code cannot come in here",
                next_step="give the account by `--owner`; `lockgate audit tail` shows those that wrote",
            )
        if await asyncio.to_thread(serving, config.data_dir, SystemClock()):
            raise OperatorError(
                "`lockgate run` listens here already, so a code cannot come in",
                next_step="stop it, and run `lockgate init` again",
            )

    async def _met(
        self, platform: PlatformAnswer, config: Config, known: frozenset[str], *, wanted: bool, grouped: bool
    ) -> tuple[str, GroupAnswer | None]:
        """Listen, and return the account that sent the code and the group that its owner showed."""
        meeting = Meeting(lambda line: self._say(f"  {line}"))
        owner, group = "", None
        self._say("While it listens here, other messages to the bot are left out.")
        settings = replace(config, channels=settings_of(platform, config.channels))
        with logged(settings, LogLevel.WARNING):
            async with (
                adapter(platform, config, self._environment, SoleLease()) as made,
                meeting.listening(made),
            ):
                owner = await self._claimed(meeting) if wanted else ""
                people = known | {owner} if owner else known
                if grouped and people:
                    self._say("Add the bot to the group, or mention it there, as the owner. Enter skips this.")
                    place = await self._asking.beside(meeting.group(people))
                    group = None if place is None else await self._classified(platform, place)
        return owner, group

    async def _claimed(self, meeting: Meeting) -> str:
        """Show codes until an account sends one, or none is wanted."""
        while True:
            code = OneTimeCode(Ids().approval(), SystemClock())
            self._say(
                "Write this code to the bot in a private chat. Only the account that writes it becomes the owner's."
            )
            self._say(f"Code, for {SECONDS / 60:g} minutes: {code.code}   (Enter skips this)")
            account = await self._asking.beside(meeting.owner(code))
            if account is None:
                return ""
            if account:
                self._say(f"`{account}` wrote the code, and is the owner's account from now on.")
                return account
            self._say("That code ended. Here is another.")

    async def _classified(self, platform: PlatformAnswer, place: Address) -> GroupAnswer:
        level = await self._group_level(place.chat)
        return GroupAnswer(platform.kind, place.chat, place.workspace, level)

    async def _group_level(self, chat: str) -> str:
        question = f"Highest label that may be sent to the group {chat}: {_LEVELS}"
        usual = answered.MOST_CAUTIOUS
        level = await given(self._asking, self._given.group_level, question, default=usual, check=answered.label)
        self._say(f"The group {chat} is classified {level}.")
        return level

    # --- writing

    async def _put(self, path: Path, before: str | None, config: Config, found: Answers) -> None:
        """Write the file if anything changes."""
        plain = parse_yaml(before or "").value
        text = before
        if text is None:
            text = await asyncio.to_thread(file.template)
            plain = parse_yaml(text).value
        text = await asyncio.to_thread(edited, text, changes(found, config, plain))
        if text == before:
            self._say(f"Nothing changes, {path} stays as it is.")
            return
        kept = await asyncio.to_thread(file.write, path, text, before, _check)
        self._say(f"Wrote {path}." if kept is None else f"Wrote {path}; the file of before is {kept}.")

    def _next(self, path: Path, found: Answers) -> None:
        shown = "" if path == Path(DEFAULT_FILE) else f" --config {path}"
        self._say(f"Next: `lockgate{shown} chat` talks to the agent here.")
        if found.platform is not None:
            self._say(f"`lockgate{shown} run` listens to {found.platform.kind.value.capitalize()}.")
        if found.group is not None and found.group.classification != answered.MOST_CAUTIOUS:
            self._say("Type `/classify vouch` in the group once its members may read that much.")

    # --- asking

    async def _choice(self, option: str | None, question: str, options: list[str], default: str) -> str:
        if option is None:
            return await chosen(self._asking, question, options, default)
        return await chosen(Defaults(), question, options, option)

    async def _fine(self, check: Callable[[], Awaitable[CheckResult]]) -> bool:
        """Carry out a check; return whether the answers stand, False to ask for them again.

        Raises OperatorError: it failed, and there is nobody to ask.
        """
        while not self._given.unchecked:
            result = await check()
            if not result.problem:
                self._say(f"  {result.fact}")
                return True
            if not self._asking.asks:
                step = f"{result.next_step}, or add `--unchecked`" if result.next_step else "add `--unchecked`"
                raise OperatorError(result.problem, next_step=step)
            self._say(f"  {result.problem}: {result.next_step}")
            words = (_AGAIN, _KEEP, _CHANGE)
            word = await chosen(self._asking, "Try it again, or keep or change the answer", words, _CHANGE)
            if word != _AGAIN:
                return word == _KEEP
        return True


def _keyboard() -> FileIO:
    """Return the keyboard; a read of it that nobody waits for any more does not hold up the end of the program."""
    return FileIO(sys.stdin.fileno(), closefd=False)


def _filled(text: str) -> str:
    if not text:
        raise ValueError("write the path of a folder")
    return text


def _loaded(path: Path) -> Config:
    from bot.app.plugins import find_plugin

    return load_config(path, os.environ, ARGUMENTS, find_plugin)


def _check(path: Path) -> None:
    _loaded(path)


def _say(line: str) -> None:
    if line:
        _show(f"{visible(line)}\n")


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
