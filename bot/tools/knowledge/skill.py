"""`skill`: an agent's procedures in numbered steps, in versions of which people put one in force.

An agent writes drafts, and its person is asked at once whether to use one: they are shown the whole of it, and exactly
that text is approved. Without their answer it stays a draft. A skill has the secrecy of the session that wrote it; a
session that has read more writes another one beside it.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import Field, JsonValue

from bot.access import labelling
from bot.access.approvals import decides_for
from bot.core.errors import NotFoundError, RequestError, in_words
from bot.knowledge.patterns import Patterns
from bot.knowledge.skill_keeper import EVERY_STATE, LISTED, Decided, SkillEdit, SkillKeeper, checked, written_by
from bot.knowledge.skill_wording import origin_line, text_lines
from bot.sessions.approvals import AnswerValue
from bot.sessions.background.delegation import FieldKind, ResultField
from bot.sessions.background.runs import UNREAD
from bot.sessions.knowledge.memories import LONGEST_DOMAIN
from bot.sessions.knowledge.skills import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    MOST_STEPS,
    Skill,
    SkillState,
    SkillText,
    SkillVersion,
    SuccessRate,
    digest,
)
from bot.sessions.refs import SkillRef
from bot.tools.base import Arguments, CallFacts, Identifier, Inquiry, Result, ToolContext, ToolServices
from bot.tools.knowledge.learner import learner, taught
from bot.tools.knowledge.memory import FOUND
from bot.tools.parameters import Takes, check, heard, reader, up_to
from policy.labels import PUBLIC, Label, join_all
from policy.request import Effect

ONLY: Final = "only skills that the caller's level may know of are listed"
"""The last words of every listing, whether or not anything was left out."""

LISTS: Final = "`list` names what there is"
PATTERNS: Final = "`session` with action `start` names patterns"

ADMINS: Final = "only an admin decides about the skills of this chat; they roll it back by `/skills rollback`"
ABOVE: Final = "this session has read more than that skill may show; a person rolls it back by `/skills rollback`"
NEW: Final = "May this skill be used from now on? This is all of it:"
CHANGED: Final = "May skill {} be used like this from now on? This is all of it:"
APPROVED: Final = "your user approved it"
REJECTED: Final = "your user rejected it"

LATER: Final = "your user did not decide; it is a draft until they do, for example by `/skills show {}`"
NOT_THEIRS: Final = "only an admin of this chat approves its skills; it is a draft until then"
NOT_SHOWN: Final = "it is not the text that your user was shown, so it is a draft until they approve it"
UNASKED: Final = "nobody was asked; it is a draft until your user approves it, for example by `/skills show {}`"
PERSON: Final = "whether your user approves it"

_APPROVE: Final = "approve"
_REJECT: Final = "reject"
_LATER: Final = "later"
_DECIDE: Final = frozenset({_APPROVE, _REJECT})
_MOST: Final = 50


class SkillAction(StrEnum):
    """The action of a `skill` call."""

    LIST = "list"
    CREATE = "create"
    UPDATE = "update"
    GENERATE = "generate"
    VERSIONS = "versions"
    ROLLBACK = "rollback"
    AUDIT_LOG = "audit_log"


_TAKES: Final = MappingProxyType(
    {
        SkillAction.LIST: Takes((), ("state", "domain", "limit", "after", "up_to")),
        SkillAction.CREATE: Takes(("name", "steps"), ("description", "domain")),
        SkillAction.UPDATE: Takes(("skill_id", "name", "steps"), ("description", "domain")),
        SkillAction.GENERATE: Takes(("pattern",), ("domain",)),
        SkillAction.VERSIONS: Takes(("skill_id",)),
        SkillAction.ROLLBACK: Takes(("skill_id", "version")),
        SkillAction.AUDIT_LOG: Takes(("skill_id",)),
    }
)
_WRITES: Final = frozenset({SkillAction.CREATE, SkillAction.UPDATE})


class SkillArguments(Arguments):
    """Arguments of `skill`; which of them an action needs is told where one is missing."""

    action: SkillAction = Field(description="the step to take; a draft counts once a person approves it")
    skill_id: Identifier | None = Field(default=None, min_length=1, max_length=64, description="as `list` tells it")
    name: str | None = Field(default=None, min_length=1, max_length=LONGEST_NAME)
    description: str | None = Field(
        default=None, max_length=LONGEST_DESCRIPTION, description="its purpose, in a sentence"
    )
    domain: str | None = Field(default=None, max_length=LONGEST_DOMAIN, description="its topic, in a word")
    steps: tuple[str, ...] | None = Field(
        default=None, min_length=1, max_length=MOST_STEPS, description="all steps in order, without numbers"
    )
    pattern: str | None = Field(default=None, min_length=1, max_length=200, description="a detected pattern's name")
    version: int | None = Field(default=None, ge=1, le=1_000_000)
    state: SkillState | None = Field(default=None, description="list those alone; all if omitted")
    limit: int | None = Field(default=None, ge=1, le=_MOST, description=f"how many to list, {LISTED} if omitted")
    after: str | None = Field(default=None, min_length=1, max_length=64, description="`next` of the page before")
    up_to: str | None = Field(
        default=None, max_length=2048, description="a label: list up to it; your taint rises to it"
    )


class SkillTool:
    """List, write, generate and roll back skills."""

    name = "skill"
    description = (
        "Keep a procedure in numbered steps, for later conversations. Your text is a draft until your user approves "
        "it. An update gives the whole of the new version."
    )
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SkillArguments

    def __init__(self, keeper: SkillKeeper, patterns: Patterns) -> None:
        self._keeper = keeper
        self._patterns = patterns

    async def inquiry(self, arguments: SkillArguments, context: ToolContext) -> Inquiry | None:
        """Ask the person whether to use the written text, with the whole of it; where no person reads, ask nothing."""
        text = _text(arguments)
        if text is None or not context.session.turn or context.session.home.channel in UNREAD:
            return None
        if not decides_for(context.document, context.caller.principal, context.caller.asker):
            return None
        return Inquiry(
            _question(arguments, text, context),
            ResultField("decision", FieldKind.ENUM, (_APPROVE, _REJECT, _LATER)),
            default=_LATER,
            literal=True,
        )

    def declare(self, arguments: SkillArguments, context: ToolContext) -> CallFacts:
        """Declare the highest label that may be met, and the principal's clearance as the sink.

        Raises RefusedCallError: a parameter is missing or has no meaning for the action, or `up_to` is not a label.
        """
        check(self.name, arguments.action, arguments, _TAKES)
        sink = context.caller.ceiling
        if arguments.action in _WRITES:
            answer = None if context.asked is None else context.asked.answer
            label = PUBLIC if answer is None else answer.label
            # The answer also tells that the named id exists.
            label = label.join(up_to(None, context)) if arguments.action is SkillAction.UPDATE else label
            return CallFacts(result=label, clearance=sink, once=True)
        if arguments.action is SkillAction.ROLLBACK:
            return CallFacts(result=up_to(None, context), clearance=sink, consequential=True, once=True)
        return CallFacts(result=up_to(arguments.up_to, context), clearance=sink, once=True)

    async def foresee(self, arguments: SkillArguments, context: ToolContext) -> list[str]:
        """Tell that a person decides on a draft, and that an attacker may have written a found skill."""
        if arguments.action in _WRITES:
            return [PERSON] if await self.inquiry(arguments, context) is not None else []
        return [] if context.session.taint.untrusted else [FOUND]

    async def run(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Run the action; absent and too high are one answer."""
        does = {
            SkillAction.LIST: self._list,
            SkillAction.CREATE: self._write,
            SkillAction.UPDATE: self._write,
            SkillAction.GENERATE: self._generate,
            SkillAction.VERSIONS: self._versions,
            SkillAction.ROLLBACK: self._roll_back,
            SkillAction.AUDIT_LOG: self._log,
        }
        try:
            return await does[arguments.action](arguments, context, services)
        except NotFoundError:
            lists = PATTERNS if arguments.action is SkillAction.GENERATE else LISTS
            return Result(in_words(NotFoundError(next_step=lists)), failed=True)
        except RequestError as error:
            return Result(in_words(error), failed=True)

    async def _list(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return a page of skills, as far as they may enter the context."""
        label = up_to(arguments.up_to, context)
        page = await self._keeper.listed(
            context.caller.principal,
            label,
            states=EVERY_STATE if arguments.state is None else (arguments.state,),
            domain=arguments.domain or "",
            after=arguments.after or "",
            limit=arguments.limit or LISTED,
        )
        shown = list[Skill]()
        rates = await self._keeper.rates(context.caller.principal, label, [skill.id for skill in page.skills])
        for skill in page.skills:
            joined = label.join(heard(context, skill.shown.told))
            if services.permits(joined):
                label = joined
                shown.append(skill)
        told: list[JsonValue] = [_entry(skill, rates.get(skill.id, SuccessRate()), services) for skill in shown]
        return _told({"skills": told, "next": page.cursor or None, "note": ONLY}, label, *(one.id for one in shown))

    async def _write(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Keep a draft, and put it in force if the person who was asked approved exactly this."""
        answer = None if context.asked is None else context.asked.answer
        label = PUBLIC if answer is None else answer.label
        made, version = await self._written(arguments, context, services)
        skill, what = await self._answered(made, version, arguments, context=context)
        facts: dict[str, JsonValue] = {"id": skill.id, "version": version.number, "state": skill.state.value}
        now = skill.version(version.number) or version
        decided = now.approved_by or now.rejected_by
        facts |= {"in_force": skill.current or None, "waiting": None if decided else now.number}
        derived: dict[str, JsonValue] = {"derived_from": skill.derived_from} if skill.derived_from else {}
        return _told({**facts, **derived, "note": what.format(skill.id)}, label.join(context.session.taint), skill.id)

    async def _written(
        self, arguments: SkillArguments, context: ToolContext, services: ToolServices
    ) -> tuple[Skill, SkillVersion]:
        """Keep the text of a call, without values of secrets; the call's key makes it the same version again."""
        name, steps = services.scrub(arguments.name or ""), tuple(map(services.scrub, arguments.steps or ()))
        about, domain = services.scrub(arguments.description or ""), services.scrub(arguments.domain or "")
        if arguments.action is SkillAction.CREATE:
            made = await self._keeper.create(learner(context), SkillText(name, about, domain, steps), context.key)
        else:
            old, _ = await self._found(arguments, context, services)
            edit = SkillEdit(name, steps, about, domain)
            made = await self._keeper.update(learner(context), old.id, edit, context.key)
        return made, written_by(made, context.key)

    async def _answered(
        self, skill: Skill, version: SkillVersion, arguments: SkillArguments, *, context: ToolContext
    ) -> tuple[Skill, str]:
        """Apply the person's answer to a draft, and tell the outcome.

        A text that they were not shown is not decided.
        """
        if version.approved_by or version.rejected_by:
            # The call was made before, and a crash came between its effect and its result.
            return skill, APPROVED if version.approved_by else REJECTED
        why = _undecided(version, arguments, context)
        if why:
            return skill, why
        principal, actor = context.caller.principal, context.caller.asker
        decided, known = Decided(version.number, digest(version.text)), labelling.untrusted(skill.label)
        if _said(context) == _APPROVE:
            done = await self._keeper.approve(principal, known, skill.id, decided=decided, actor=actor)
            return done, APPROVED
        done = await self._keeper.reject(principal, known, skill.id, decided=decided, actor=actor)
        return done, REJECTED

    async def _generate(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Keep a draft that a pattern makes; a person approves it by a command."""
        caller, name = context.caller, arguments.pattern or ""
        pattern = await self._patterns.named(caller.principal, reader(context), name, arguments.domain or "")
        label = context.session.taint.join(heard(context, pattern.label))
        if not services.permits(label):
            raise NotFoundError
        skill = await self._patterns.generate(learner(context), pattern, context.key)
        told = _entry(skill, SuccessRate(), services)
        return _told({**told, "sources": list(skill.latest.sources), "note": UNASKED.format(skill.id)}, label, skill.id)

    async def _versions(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the text of each version, as far as it may enter the context."""
        skill, label = await self._found(arguments, context, services)
        shown = list[JsonValue]()
        for version in skill.versions:
            joined = label.join(heard(context, version.told))
            if services.permits(joined):
                label = joined
                shown.append(_version(version, services))
        facts: dict[str, JsonValue] = {"id": skill.id, "state": skill.state.value, "in_force": skill.current or None}
        return _told({**facts, "versions": shown}, label, skill.id)

    async def _roll_back(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Put another approved version in force, if the skill shows no less than the session has read."""
        skill, label = await self._found(arguments, context, services)
        if not context.session.taint.secrecy.flows_to(skill.label):
            return Result(ABOVE, label, failed=True)
        if not decides_for(context.document, context.caller.principal, context.caller.asker):
            return Result(ADMINS, label, failed=True)
        done = await self._keeper.roll_back(
            context.caller.principal,
            reader(context),
            skill.id,
            arguments.version or 0,
            actor=context.caller.asker,
            by_agent=context.caller.by_model,
        )
        return _told({"id": done.id, "version": done.current, "state": done.state.value}, label, done.id)

    async def _log(self, arguments: SkillArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the events of a skill; the writer of a version may have chosen that there is a line of it."""
        skill, label = await self._found(arguments, context, services)
        label = label.join(heard(context, join_all(version.told for version in skill.versions)))
        if not services.permits(label):
            raise NotFoundError
        events: list[JsonValue] = [
            {
                "at": event.at,
                "do": event.do.value,
                "version": event.version,
                "actor": event.actor,
                "by_agent": event.by_agent,
            }
            for event in await self._keeper.history(context.caller.principal, reader(context), skill.id)
        ]
        return _told({"id": skill.id, "events": events}, label, skill.id)

    async def _found(
        self, arguments: SkillArguments, context: ToolContext, services: ToolServices
    ) -> tuple[Skill, Label]:
        """Return the skill that a call names, and the label of the answer about it.

        Raises NotFoundError: there is none that may be told of.
        """
        skill = await self._keeper.find(context.caller.principal, reader(context), arguments.skill_id or "")
        label = context.session.taint.join(heard(context, skill.shown.told))
        if not services.permits(label):
            raise NotFoundError
        return skill, label


def _text(arguments: SkillArguments) -> SkillText | None:
    """Return the text that a call writes as it would be kept, None if it writes nothing that can be kept."""
    if arguments.action not in _WRITES:
        return None
    steps = arguments.steps or ()
    text = SkillText(arguments.name or "", arguments.description or "", arguments.domain or "", steps)
    try:
        return checked(text)
    except RequestError:
        return None


def _said(context: ToolContext) -> AnswerValue | None:
    """Return a person's answer, None if there is none."""
    return None if context.asked is None or context.asked.answer is None else context.asked.answer.value


def _undecided(version: SkillVersion, arguments: SkillArguments, context: ToolContext) -> str:
    """Return why a version stays a draft, empty if a person decided about exactly this one."""
    asked, text, caller = context.asked, _text(arguments), context.caller
    if asked is None or text is None:
        return UNASKED
    if _said(context) not in _DECIDE:
        return LATER
    if not decides_for(context.document, caller.principal, caller.asker):
        return NOT_THEIRS
    shown = asked.words == _question(arguments, text, context)
    same = version.label == taught(context) and digest(text) == digest(version.text)
    return "" if shown and same else NOT_SHOWN


def _question(arguments: SkillArguments, text: SkillText, context: ToolContext) -> str:
    """Return the question to a person about a text: all of its words, and its origin."""
    first = CHANGED.format(arguments.skill_id) if arguments.action is SkillAction.UPDATE else NEW
    return "\n".join((first, *text_lines(text), origin_line(taught(context))))


def _entry(skill: Skill, rate: SuccessRate, services: ToolServices) -> dict[str, JsonValue]:
    version = skill.shown
    return {
        "id": skill.id,
        "name": services.mask(version.text.name),
        "description": services.mask(version.text.description) or None,
        "domain": services.mask(version.text.domain) or None,
        "state": skill.state.value,
        "version": version.number,
        "steps": len(version.text.steps),
        "label": str(version.told),
        "uses": rate.uses,
        "success_rate": rate.percent or None,
    }


def _version(version: SkillVersion, services: ToolServices) -> dict[str, JsonValue]:
    text = version.text
    return {
        "version": version.number,
        "name": services.mask(text.name),
        "description": services.mask(text.description) or None,
        "domain": services.mask(text.domain) or None,
        "steps": [services.mask(step) for step in text.steps],
        "label": str(version.label),
        "made_at": version.made_at,
        "by_agent": version.by_agent,
        "sources": list(version.sources),
        "approved_at": version.approved_at or None,
        "rejected_at": version.rejected_at or None,
    }


def _told(document: Mapping[str, JsonValue], label: Label, *skills: str) -> Result:
    """Return the result of a call, with these skills as its sources."""
    return Result(json.dumps(document, ensure_ascii=False), label, refs=tuple(map(SkillRef, skills)))
