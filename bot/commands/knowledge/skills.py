"""Commands about skills: see agents' skills, and decide which version is in force.

A person sees all skills that are theirs where the address that answers is cleared for them, and nothing above (law
`no_read_up`). Approving names the version and the digest of its text, as the whole of it was shown: a changed text is
not approved. In a shared chat the skills are the chat's, and an admin decides.
"""

from dataclasses import dataclass
from typing import Final

from bot.access import labelling, principals
from bot.access.approvals import decides_for
from bot.commands.command import CommandRequest, Reply, Run, UsageError
from bot.commands.inbox.waiting import WaitingEntry
from bot.core.errors import ChangedSkillError, NotFoundError, RequestError
from bot.delivery import time_left
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.knowledge.skill_keeper import Decided
from bot.operations.knowledge.skills import (
    KnownSkill,
    SkillOperations,
    SkillViewer,
    event_line,
    skill_line,
    skill_lines,
)
from bot.sessions.knowledge.skills import Skill, digest
from channels.messages import Button
from policy.labels import PUBLIC, Label, join_all

NONE: Final = "No skill is known that may be told of here. Agents write them, and you approve them."
LOOK: Final = "Nothing is approved yet. This is all that it says:"
HOW: Final = "Approve exactly this with `{}`"
OR_REJECT: Final = ", or reject it with `{}`"
IN_PART: Final = "This is not all that it says, as it may not be shown whole here. So nothing can be approved here."
WAITS: Final = "Version {number} of skill {id} ({name}), written {age}: `/skills approve {id}` shows it first."
NOTHING_WAITS: Final = "No version of it waits for approval."
APPROVED: Final = "Version {number} of {id} is in force."
REJECTED: Final = "Version {number} of {id} is rejected."
DEPRECATED: Final = "Skill {id} is not in force any more. `/skills show {id}` shows how to approve it again."
ROLLED_BACK: Final = "Version {number} of {id} is in force again."

LISTS: Final = "`/skills` lists the skills"
"""The next step after an unknown skill was named, unknown as far as the person may know."""

ANEW: Final = "`/skills show {}` shows it anew"

_DECIDING: Final = 3
"""Words of a decision: the skill, the version and the digest of its text."""


@dataclass(frozen=True, slots=True)
class SkillCommands:
    """See the caller's skills, or those of the shared chat where they ask, and decide about them."""

    skills: SkillOperations
    gate: Gate

    async def manage(self, request: CommandRequest, argument: str) -> Reply:
        """Run the subcommand in the first word; list the skills if there is none."""
        action, _, rest = argument.partition(" ")
        actions: dict[str, Run] = {
            "": self._list,
            "list": self._list,
            "show": self._show,
            "approve": self._approve,
            "reject": self._reject,
            "deprecate": self._deprecate,
            "rollback": self._roll_back,
            "log": self._log,
            "export": self._export,
        }
        if action not in actions:
            raise UsageError("there is no such action")
        try:
            return await actions[action](request, rest.strip())
        except NotFoundError:
            raise NotFoundError(next_step=LISTS) from None
        except ChangedSkillError as error:
            raise RequestError(str(error), next_step=ANEW.format(rest.split()[0])) from None

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the versions that wait for the caller's approval, among the skills created last."""
        by = await _viewer(request)
        page = await self.skills.listed(by)
        waiting = ((skill, skill.waiting) for skill in page.skills if by.decides)
        return tuple(
            WaitingEntry(
                version.made_at,
                WAITS.format(
                    number=version.number,
                    id=skill.id,
                    name=self._masked(version.text.name),
                    age=time_left.ago(version.made_at, request.now),
                ),
                version.told.join(skill.label),
            )
            for skill, version in waiting
            if version is not None
        )

    async def _list(self, request: CommandRequest, argument: str) -> Reply:
        """List skills that may be told of here, those created last first."""
        if len(argument.split()) > 1:
            raise UsageError("")
        by = await _viewer(request)
        page = await self.skills.listed(by, after=argument)
        known = await self.skills.rated(by, page.skills)
        lines = [skill_line(one, self._masked(one.skill.shown.text.name)) for one in known]
        if page.cursor:
            lines.append(f"More with `/skills list {page.cursor}`.")
        return Reply("\n".join(lines) or NONE, join_all(skill.shown.told for skill in page.skills))

    async def _show(self, request: CommandRequest, argument: str) -> Reply:
        """Show a skill whole, with buttons if a version waits for a decision of the caller."""
        known = await self.skills.show(await _viewer(request), _id(argument))
        return await self._shown(request, known, ())

    async def _shown(self, request: CommandRequest, known: KnownSkill, before: tuple[str, ...]) -> Reply:
        """Return a skill as it is shown; it is decided about only where nothing of it is left out or replaced."""
        lines, label, offered = [*before, *skill_lines(known)], known.shown.told, known.offered
        if offered is None or not (await _viewer(request)).decides:
            return Reply(self._masked("\n".join(lines)), label)
        name, number, shown = known.skill.id, offered.number, digest(offered.text)
        approve, reject = f"/skills approve {name} {number} {shown}", f"/skills reject {name} {number} {shown}"
        waits = known.skill.waiting is not None
        buttons = (Button("Approve", approve), *((Button("Reject", reject),) if waits else ()))
        how = f"{HOW.format(approve)}{OR_REJECT.format(reject) if waits else ''}."
        text = "\n".join((*lines, how))
        standing = await request.standing(None)
        spoken = self.gate.output.reply(standing, standing.destination, text, label, buttons=buttons)
        if self._masked(text) != text or (spoken.decision.verdict in MAY_GO_ON and spoken.text != text):
            return Reply(self._masked("\n".join((*lines, IN_PART))), label)
        return Reply(text, label, buttons)

    async def _approve(self, request: CommandRequest, argument: str) -> Reply:
        """Put exactly the shown text in force; show it first if only the skill is named."""
        by = await _viewer(request)
        name, decided = _deciding(argument)
        if decided is None:
            known = await self.skills.show(by, name)
            return await self._shown(request, known, (LOOK if known.offered else NOTHING_WAITS,))
        done = await self.skills.approve(by, name, decided)
        return Reply(APPROVED.format(number=decided.number, id=done.id), _label(done))

    async def _reject(self, request: CommandRequest, argument: str) -> Reply:
        name, decided = _deciding(argument)
        done = await self.skills.reject(await _viewer(request), name, decided)
        number = done.latest.number if decided is None else decided.number
        return Reply(REJECTED.format(number=number, id=done.id), _label(done))

    async def _deprecate(self, request: CommandRequest, argument: str) -> Reply:
        done = await self.skills.deprecate(await _viewer(request), _id(argument))
        return Reply(DEPRECATED.format(id=done.id), _label(done))

    async def _roll_back(self, request: CommandRequest, argument: str) -> Reply:
        name, _, number = argument.partition(" ")
        if not number.strip().isdecimal():
            raise UsageError("name a skill and the number of a version")
        done = await self.skills.roll_back(await _viewer(request), name, int(number))
        return Reply(ROLLED_BACK.format(number=done.current, id=done.id), _label(done))

    async def _log(self, request: CommandRequest, argument: str) -> Reply:
        skill, events = await self.skills.log(await _viewer(request), _id(argument))
        return Reply("\n".join(map(event_line, events)), _label(skill))

    async def _export(self, request: CommandRequest, argument: str) -> Reply:
        """Show a skill in force as its SKILL.md."""
        skill, text = await self.skills.exported(await _viewer(request), _id(argument))
        return Reply(self._masked(text), skill.shown.told)

    def _masked(self, text: str) -> str:
        return self.gate.masks.masked(text)


async def _viewer(request: CommandRequest) -> SkillViewer:
    standing, caller = await request.standing(None), request.caller.principal
    whose = principals.of_chat(request.address) if await request.in_shared_chat() else caller
    most = labelling.ceiling(request.gate.document, whose, caller) or PUBLIC
    decides = decides_for(request.gate.document, whose, caller)
    return SkillViewer(whose, labelling.untrusted(standing.reader.meet(most)), caller, decides)


def _label(skill: Skill) -> Label:
    """Return the label of a skill's facts other than its words."""
    return skill.label


def _id(argument: str) -> str:
    if len(argument.split()) != 1:
        raise UsageError("name one skill")
    return argument


def _deciding(argument: str) -> tuple[str, Decided | None]:
    """Return which skill is decided about, and which text of it if that is said. Raises UsageError: it is neither."""
    words = argument.split()
    if len(words) == 1:
        return words[0], None
    if len(words) != _DECIDING or not words[1].isdecimal():
        raise UsageError("name one skill, or the version and the digest that you were shown, too")
    return words[0], Decided(int(words[1]), words[2])
