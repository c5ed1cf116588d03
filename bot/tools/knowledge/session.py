"""`session`: the knowledge for the start of a session or a task, and the report of how a skill did.

It tells the knowledge that flows to the session's taint. With `up_to` the session is raised to that label first, even
if nothing is found. So neither the answer nor its label tells of anything above it (law `no_read_up`). How it went is
counted apart by the label of the session that tells it.
"""

from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Final

from pydantic import Field, JsonValue

from bot.core.errors import NotFoundError, RequestError, in_words
from bot.knowledge.briefing import Briefing, BriefingLayout, BriefingReader, Briefings, SkillDetail
from bot.knowledge.keeper import MemoryKeeper
from bot.knowledge.skill_keeper import SkillKeeper
from bot.sessions.knowledge.memories import LONGEST_DOMAIN, MEMORY
from bot.sessions.knowledge.skills import LONGEST_NOTES, Outcome, Skill, SuccessRate
from bot.sessions.refs import MemoryRef, SkillRef
from bot.tools.base import Arguments, CallFacts, Identifier, Result, ToolContext, ToolServices
from bot.tools.knowledge.learner import learner
from bot.tools.knowledge.memory import FOUND
from bot.tools.parameters import Takes, check, heard, reader, up_to
from policy.decision import Verdict
from policy.labels import PUBLIC, Label
from policy.request import Effect

REFLECTED: Final = "Reflection recorded for {id} ({name}): {outcome}. Lifetime: {uses} uses, {rate}% success rate."

NAMES: Final = "`start` names skills"

SESSION: Final = "session"

_TOLD: Final = frozenset({Verdict.ALLOW.name, Verdict.REDACT.name})
_MEMORIES: Final = 10
_SKILLS: Final = 5
_FITTING: Final = 5
_MOST: Final = 50
_LONGEST: Final = 10_000


class SessionAction(StrEnum):
    """The action of a `session` call."""

    START = "start"
    APPLY = "apply"
    REFLECT = "reflect"


class BriefingFormat(StrEnum):
    """How a text is laid out: on lines of its own for each thing, or on few."""

    FULL = "full"
    COMPACT = "compact"


_LAYOUT: Final = ("format", "skill_detail", "summarize", "up_to")
_TAKES: Final = MappingProxyType(
    {
        SessionAction.START: Takes((), ("domain", "context", "memory_limit", "skill_limit", *_LAYOUT)),
        SessionAction.APPLY: Takes(("task",), ("domain", "limit", *_LAYOUT)),
        SessionAction.REFLECT: Takes(("skill_id", "outcome"), ("notes",)),
    }
)


class SessionArguments(Arguments):
    """Arguments of `session`; which of them an action needs is told where one is missing."""

    action: SessionAction = Field(
        description="start: a briefing; apply: skills and memories for a task; reflect: the outcome of a skill"
    )
    domain: str | None = Field(default=None, max_length=LONGEST_DOMAIN, description="its topic, in a word")
    context: str | None = Field(default=None, max_length=_LONGEST, description="words of the task")
    memory_limit: int | None = Field(default=None, ge=0, le=_MOST, description=f"{_MEMORIES} if omitted")
    skill_limit: int | None = Field(default=None, ge=0, le=_MOST, description=f"{_SKILLS} if omitted")
    format: BriefingFormat | None = Field(default=None, description="full if omitted")
    skill_detail: SkillDetail | None = Field(default=None, description="summary if omitted")
    summarize: bool | None = Field(default=None, description="one paragraph instead of lists")
    task: str | None = Field(default=None, min_length=1, max_length=_LONGEST, description="the task")
    limit: int | None = Field(default=None, ge=1, le=_MOST, description=f"{_FITTING} if omitted")
    skill_id: Identifier | None = Field(
        default=None, min_length=1, max_length=64, description="the skill that was applied"
    )
    outcome: Outcome | None = Field(default=None, description="how it went")
    notes: str | None = Field(default=None, max_length=LONGEST_NOTES, description="notes on the outcome")
    up_to: str | None = Field(
        default=None, max_length=2048, description="a label: tell up to it; your taint rises to it"
    )


class SessionTool:
    """Begin, apply and reflect."""

    name = SESSION
    description = (
        "Use the knowledge of earlier conversations. Call `start` as you begin, `apply` for a task, and `reflect` on "
        "the outcome of a skill. Knowledge above your taint is not told unless you ask with up_to."
    )
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SessionArguments
    aliases: MappingProxyType[str, MappingProxyType[str, JsonValue]] = MappingProxyType(
        {
            "session_start": MappingProxyType({"action": SessionAction.START.value}),
            "apply": MappingProxyType({"action": SessionAction.APPLY.value}),
            "reflect": MappingProxyType({"action": SessionAction.REFLECT.value}),
        }
    )

    def __init__(self, briefings: Briefings, *, skills: SkillKeeper, memories: MemoryKeeper) -> None:
        self._briefings = briefings
        self._skills = skills
        self._memories = memories

    def declare(self, arguments: SessionArguments, context: ToolContext) -> CallFacts:
        """Declare the highest label that may be met, and the principal's clearance as the sink.

        Raises RefusedCallError: a parameter is missing or has no meaning for the action, or `up_to` is not a label.
        """
        check(self.name, arguments.action, arguments, _TAKES)
        return CallFacts(result=up_to(arguments.up_to, context), clearance=context.caller.ceiling, once=True)

    async def foresee(self, arguments: SessionArguments, context: ToolContext) -> list[str]:
        """Tell that an attacker may have written a found text."""
        return [] if context.session.taint.untrusted else [FOUND]

    async def run(self, arguments: SessionArguments, context: ToolContext, services: ToolServices) -> Result:
        """Run the action; absent and too high are one answer."""
        does = {
            SessionAction.START: self._start,
            SessionAction.APPLY: self._apply,
            SessionAction.REFLECT: self._reflect,
        }
        try:
            return await does[arguments.action](arguments, context, services)
        except NotFoundError:
            return Result(in_words(NotFoundError(next_step=NAMES)), failed=True)
        except RequestError as error:
            return Result(in_words(error), failed=True)

    async def _start(self, arguments: SessionArguments, context: ToolContext, services: ToolServices) -> Result:
        """Tell what there is to know where a session begins."""
        label = up_to(arguments.up_to, context)
        briefing = await self._briefings.start(
            await _reader(arguments, context, services, label),
            domain=arguments.domain or "",
            context=arguments.context or "",
            memory_limit=_MEMORIES if arguments.memory_limit is None else arguments.memory_limit,
            skill_limit=_SKILLS if arguments.skill_limit is None else arguments.skill_limit,
            layout=_layout(arguments),
        )
        return await self._told(briefing, label, context)

    async def _apply(self, arguments: SessionArguments, context: ToolContext, services: ToolServices) -> Result:
        """Tell what fits a task."""
        label = up_to(arguments.up_to, context)
        briefing = await self._briefings.apply(
            await _reader(arguments, context, services, label),
            arguments.task or "",
            domain=arguments.domain or "",
            limit=arguments.limit or _FITTING,
            layout=_layout(arguments),
        )
        return await self._told(briefing, label, context)

    async def _told(self, briefing: Briefing, label: Label, context: ToolContext) -> Result:
        """Return a briefing, and count that its memories were recalled."""
        label = label.join(briefing.label)
        if briefing.memories:
            by = label.join(context.session.taint)
            await self._memories.recalled(context.caller.principal, by, briefing.memories, context.key)
        came = (*map(MemoryRef, briefing.memories), *map(SkillRef, briefing.skills))
        return Result(briefing.text, label, refs=came)

    async def _reflect(self, arguments: SessionArguments, context: ToolContext, services: ToolServices) -> Result:
        """Count how it went with a skill, once for the call."""
        caller, outcome = context.caller, arguments.outcome or Outcome.FAILURE
        found = await self._skills.find(caller.principal, reader(context), arguments.skill_id or "")
        label = context.session.taint.join(heard(context, found.shown.told))
        if not services.permits(label):
            raise NotFoundError
        notes = services.scrub(arguments.notes or "")
        skill, rate = await self._skills.reflect(learner(context), found.id, outcome, context.key, notes=notes)
        told = reflected(skill, outcome, rate, services.mask(skill.shown.text.name))
        return Result(told, label, refs=(SkillRef(skill.id),))


def reflected(skill: Skill, outcome: Outcome, rate: SuccessRate, name: str) -> str:
    """Return the words that tell that it was counted how a skill did; `name` is its name, masked."""
    return REFLECTED.format(id=skill.id, name=name, outcome=outcome.value, uses=rate.uses, rate=rate.percent or 0)


def _layout(arguments: SessionArguments) -> BriefingLayout:
    return BriefingLayout(
        compact=arguments.format is BriefingFormat.COMPACT,
        detail=arguments.skill_detail or SkillDetail.SUMMARY,
        summarize=bool(arguments.summarize),
    )


async def _reader(
    arguments: SessionArguments, context: ToolContext, services: ToolServices, label: Label
) -> BriefingReader:
    """Return the reader of a briefing: an item beyond their own label must be permitted with it.

    Memories are told where a call of `memory` would tell them: its agent has that tool, and no rule is against it.
    """
    agent, more = context.session.agent, {} if arguments.up_to is None else {"up_to": arguments.up_to}
    words = arguments.task or arguments.context or arguments.domain or SESSION
    asked: dict[str, JsonValue] = {"action": "recall", "query": words, **more}
    decided = await services.simulate(MEMORY, asked)
    return BriefingReader(
        context.caller.principal,
        label,
        heard=partial(heard, context),
        permits=lambda told: services.permits(label.join(told)),
        mask=services.mask,
        recalls=(agent is None or agent.offers(MEMORY)) and decided["verdict"] in _TOLD,
    )
