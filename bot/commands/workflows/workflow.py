"""Commands about workflows: see them, begin one, go on with one, and decide what a person alone decides.

A person sees their own, where the address that answers is cleared for them, and nothing above (law `no_read_up`). In a
shared chat the workflows are the chat's. To go on with one is to send this conversation a message about it. That text
has the workflow's label, and the gate decides on it as on any message.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bot.access import labelling, principals
from bot.access.approvals import decides_for
from bot.access.decision_context import DecisionContext
from bot.commands.background.runs import refused
from bot.commands.command import CommandRequest, Reply, Run, UsageError
from bot.commands.inbox.waiting import WaitingEntry
from bot.core.errors import NotFoundError
from bot.core.ids import Ids
from bot.delivery import time_left
from bot.gate.gate import Gate
from bot.operations.gated_calls import RefusedCall
from bot.operations.workflows.wording import taken_up, workflow_line, workflow_lines
from bot.operations.workflows.workflows import WorkflowOperations, WorkflowViewer
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from bot.sessions.ports.sessions import SessionStore
from bot.tools.workflow.workflow import WORKFLOW
from bot.workflows.progress import RESUMED, standing_at
from bot.workflows.views import ResumeBranch, Resumption
from channels.messages import Button
from policy.labels import PUBLIC, join_all

if TYPE_CHECKING:
    from pydantic import JsonValue

NONE: Final = "There are no workflows that may be told of here."
DEFINITIONS: Final = "`/workflow start PROJECT DEFINITION` begins one: {}."
STARTED: Final = (
    "Workflow {project} is begun, labelled {label}. `/workflow resume {project}` lets the agent work on it."
)
GOES_ON: Final = "The agent goes on with workflow {project}: {where}."
COMPLETE: Final = "{where} of workflow {project} is complete. It can be run again."
AT_GATE: Final = (
    "Step {step} of workflow {project} has a gate, changed {age}. `/workflow show {project}` shows the work, "
    "`/workflow pass {project} {version}` lets it pass."
)
OPEN: Final = "Workflow {project} would go on with {where}, but earlier steps are open: {open}."
BEHIND_GATE: Final = "Nobody has passed the gate of step {gate}; `/workflow skip {project} {gate}` leaves it out."
LATER: Final = "The offer is closed. `/workflow resume {}` goes on when you like."
SKIPPED: Final = "Step {step} of workflow {project} is skipped."
PASSED: Final = "Step {step} of workflow {project} is complete."
FOUND: Final = "Workflow {project} has {count} now."
NOT_EXPORTED: Final = "The state file: {}."
LISTS: Final = "`/workflow` lists the workflows"
"""The next step after an unknown workflow was named, unknown as far as the person may know."""

_AGAIN: Final = "again"
_ANYWAY: Final = "anyway"
_REMOVE: Final = "remove"
_LONGEST_NUMBER: Final = 7


@dataclass(frozen=True, slots=True)
class WorkflowCommands:
    """See and carry on the caller's workflows, or those of the shared chat where they ask."""

    workflows: WorkflowOperations
    sessions: SessionStore
    gate: Gate
    ids: Ids

    async def manage(self, request: CommandRequest, argument: str) -> Reply:
        """Run the subcommand in the first word; list the workflows if there is none."""
        action, _, rest = argument.partition(" ")
        actions: dict[str, Run] = {
            "": self._list,
            "list": self._list,
            "start": self._start,
            "show": self._show,
            "resume": self._resume,
            "later": self._later,
            "skip": self._skip,
            "pass": self._pass,
            "finding": self._finding,
        }
        if action not in actions:
            raise UsageError("there is no such action")
        try:
            return await actions[action](request, rest.strip())
        except NotFoundError:
            raise NotFoundError(next_step=LISTS) from None

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the workflows whose step in progress the caller lets pass a gate."""
        by = await self._viewer(request)
        found = await self.workflows.listed(by) if by.decides else ()
        return tuple(
            WaitingEntry(
                one.touched_at,
                AT_GATE.format(
                    project=one.document.project,
                    step=one.document.current_step,
                    age=time_left.ago(one.touched_at, request.now),
                    version=one.version,
                ),
                one.label,
            )
            for one in found
            if one.at_gate
        )

    async def _list(self, request: CommandRequest, argument: str) -> Reply:
        """List workflows that may be told of here, those changed last first, and the definitions to begin with."""
        if argument:
            raise UsageError("")
        known = await self.workflows.listed(await self._viewer(request))
        lines = [workflow_line(one) for one in known] or [NONE]
        names = ", ".join(f"`{name}` ({one.title})" for name, one in self.workflows.definitions.items())
        return Reply("\n".join((*lines, DEFINITIONS.format(names))), join_all(one.label for one in known))

    async def _start(self, request: CommandRequest, argument: str) -> Reply:
        project, definition = _two(argument)
        given: dict[str, JsonValue] = {"action": "start", "project": project, "definition": definition}
        made = await self.workflows.act(await self._standing(request), self.ids.op(), request.typed, given)
        if isinstance(made, RefusedCall):
            return refused(request, made, WORKFLOW)
        # In a shared chat any member may have worded the text there.
        whose, home = await self._whose(request), replace(request.address, recipient="")
        label = labelling.members_words(self.gate.document, whose, home, request.typed)
        return Reply(_noted(STARTED.format(project=project, label=label), str(made["note"] or "")), label)

    async def _show(self, request: CommandRequest, argument: str) -> Reply:
        found = await self.workflows.show(await self._viewer(request), _one(argument))
        return Reply("\n".join(workflow_lines(found, self.gate.masks.masked)), found.label)

    async def _resume(self, request: CommandRequest, argument: str) -> Reply:
        """Let the agent of this conversation go on with a workflow, where it was or at a step."""
        project, step, way = _resumed(argument)
        resuming = await self.workflows.resume(await self._viewer(request), project, step)
        label = resuming.workflow.label
        if resuming.branch is ResumeBranch.RERUN and way != _AGAIN:
            return _offers_again(resuming)
        if resuming.gates_before or (resuming.open_before and way not in {_AGAIN, _ANYWAY}):
            return _offers_choice(resuming)
        await self.sessions.accept(
            NewItem(
                sid=request.sid,
                dedupe=f"{RESUMED}{self.ids.op()}",
                sender=request.caller.principal,
                label=label.join(request.typed),
                body=SessionMessage(taken_up(resuming)),
                home=str(replace(request.address, recipient="")),
                principal=await self._whose(request),
                agent=await request.agents.pin(await self._whose(request)),
            )
        )
        return Reply(GOES_ON.format(project=project, where=standing_at(resuming)), label)

    async def _later(self, request: CommandRequest, argument: str) -> Reply:  # noqa: ARG002 - each action is given the same
        """Let an offer be. Nothing is looked up, so that the answer tells nothing."""
        return Reply(LATER.format(_one(argument)))

    async def _skip(self, request: CommandRequest, argument: str) -> Reply:
        project, step = _two(argument)
        made = await self.workflows.skip(await self._viewer(request), project, step, key=self.ids.op())
        return Reply(_noted(SKIPPED.format(step=step, project=project), made.note), made.workflow.label)

    async def _pass(self, request: CommandRequest, argument: str) -> Reply:
        """Let the step in progress pass its gate, as it was shown at a version."""
        project, version = _two(argument)
        if not (version.isascii() and version.isdecimal()):
            raise UsageError("name the version that `/workflow show` tells")
        by = await self._viewer(request)
        step = (await self.workflows.show(by, project)).document.current_step
        made = await self.workflows.let_pass(by, project, int(version[:_LONGEST_NUMBER]), key=self.ids.op())
        return Reply(_noted(PASSED.format(step=step, project=project), made.note), made.workflow.label)

    async def _finding(self, request: CommandRequest, argument: str) -> Reply:
        """Add a finding at the step in progress, or remove one."""
        project, _, rest = argument.partition(" ")
        first, _, name = rest.strip().partition(" ")
        if not first:
            raise UsageError("say what was found, or `remove` and the id of a finding")
        by = await self._viewer(request)
        standing, key = await self._standing(request), self.ids.op()
        if first == _REMOVE and name.strip():
            made = await self.workflows.remove(standing, by, project, name.strip(), key=key)
        else:
            made = await self.workflows.find(standing, by, project, rest.strip(), key=key)
        if isinstance(made, RefusedCall):
            return refused(request, made, WORKFLOW)
        count = made["open_findings"]
        number = len(count) if isinstance(count, list) else 0
        told = "1 open finding" if number == 1 else f"{number} open findings"
        text, label = FOUND.format(project=project, count=told), (await self.workflows.show(by, project)).label
        return Reply(_noted(text, str(made["note"] or "")), label.join(request.typed))

    async def _standing(self, request: CommandRequest) -> DecisionContext:
        """Return the caller's decision context; in a shared chat their workflows are the chat's."""
        standing = await request.standing(await request.state())
        return replace(standing, principal=await self._whose(request))

    async def _viewer(self, request: CommandRequest) -> WorkflowViewer:
        standing, whose = await request.standing(None), await self._whose(request)
        document, person = self.gate.document, request.caller.principal
        most = labelling.ceiling(document, whose, person) or PUBLIC
        # People are told also what anybody may have written: a label says so.
        reader = labelling.untrusted(standing.reader.meet(most))
        return WorkflowViewer(whose, reader, person, request.typed, decides_for(document, whose, person))

    async def _whose(self, request: CommandRequest) -> str:
        if await request.in_shared_chat():
            return principals.of_chat(request.address)
        return request.caller.principal


def _offers_again(resuming: Resumption) -> Reply:
    project, step = resuming.workflow.document.project, resuming.step.id
    where = standing_at(resuming)
    text = COMPLETE.format(project=project, where=f"{where[0].upper()}{where[1:]}")
    return _offering(text, resuming, Button("Run again", f"/workflow resume {project} {step} again"))


def _offers_choice(resuming: Resumption) -> Reply:
    """Offer the first step that is open, and where no gate is in the way, to go on all the same."""
    project, step = resuming.workflow.document.project, resuming.step.id
    ahead = resuming.open_before or resuming.gates_before
    text = OPEN.format(project=project, where=standing_at(resuming), open=", ".join(ahead))
    resume = Button(f"Resume step {ahead[0]}", f"/workflow resume {project} {ahead[0]} anyway")
    if resuming.gates_before:
        gate = resuming.gates_before[0]
        return _offering(f"{text} {BEHIND_GATE.format(gate=gate, project=project)}", resuming, resume)
    onward = Button(f"Go on with step {step}", f"/workflow resume {project} {step} anyway")
    return _offering(text, resuming, resume, onward)


def _offering(text: str, resuming: Resumption, *ways: Button) -> Reply:
    lines = (text, *(f"- {way.label}: `{way.command}`" for way in ways))
    return Reply("\n".join(lines), resuming.workflow.label, ways)


def _noted(text: str, note: str) -> str:
    return f"{text}\n{NOT_EXPORTED.format(note.removesuffix('.'))}" if note else text


def _one(argument: str) -> str:
    if len(argument.split()) != 1:
        raise UsageError("name one workflow")
    return argument


def _two(argument: str) -> tuple[str, str]:
    match argument.split():
        case [first, second]:
            return first, second
        case _:
            raise UsageError("")


def _resumed(argument: str) -> tuple[str, str, str]:
    """Read which workflow goes on, at which step, and whether also if that is complete or earlier ones are open."""
    match argument.split():
        case [project]:
            return project, "", ""
        case [project, step]:
            return project, step, ""
        case [project, step, ("again" | "anyway") as way]:
            return project, step, way
        case _:
            raise UsageError("")
