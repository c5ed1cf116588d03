"""`/grants`: the grants that cover further calls, and taking one back.

They are those of this conversation, and those that the caller gave, or that were given for their calls elsewhere. A
grant that the caller, or a reader at this address, may not know of does not exist here (law `no_read_up`).
"""

import json
from dataclasses import dataclass
from typing import Final

from bot.commands.command import CommandRequest, Reply, UsageError
from bot.core.errors import NotFoundError, RequestError
from bot.core.invisible import in_code, spelled
from bot.delivery.time_left import lasting
from bot.operations.approval_answers import ApprovalAnswers, Decider, PendingCall
from policy.labels import join_all

NONE: Final = "No grants cover further calls. Where a question offers it, `/approve ID conversation` gives one."
REVOKED: Final = "Grant {id} of `{tool}` covers no call any more."
NOT_YOURS: Final = (
    "Only the person who asked, and people who may give this grant, take it back. `/grants` names them, so ask them."
)

_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class GrantCommands:
    """List grants, and take one back."""

    answers: ApprovalAnswers

    async def grants(self, request: CommandRequest, argument: str) -> Reply:
        """List the grants that the caller may know of, or take one back."""
        by = await decider(request)
        known = await self.answers.grants(by, request.now)
        match argument.split():
            case [] | ["list"]:
                lines = [self._line(request, one) for one in known]
                return Reply("\n".join(lines) or NONE, join_all(one.label for one in known))
            case ["revoke", name]:
                return await self._revoked(by, known, name.lower())
            case _:
                raise UsageError("")

    async def _revoked(self, by: Decider, known: tuple[PendingCall, ...], name: str) -> Reply:
        found = next((one for one in known if one.approval.id == name), None)
        if found is None:
            raise NotFoundError
        if not self.answers.may_revoke(by.principal, found.approval):
            return Reply(NOT_YOURS, found.label, failed=True)
        try:
            await self.answers.revoke(by, found)
        except RequestError as error:
            return Reply.refusing(error, found.label)
        return Reply(REVOKED.format(id=name, tool=found.approval.tool), found.label)

    def _line(self, request: CommandRequest, known: PendingCall) -> str:
        approval = known.approval
        scope, grant = approval.question.scope, approval.grant
        worst, left = ("", 0) if scope is None or grant is None else (scope.worst, grant.left)
        place = "here" if approval.sid == request.sid else f"in session {approval.sid}"
        shown = spelled(json.dumps(dict(approval.question.arguments), ensure_ascii=False))
        shown = f"{in_code(shown[:_LONGEST])}…" if len(shown) > _LONGEST else in_code(shown)
        lines = [
            f"{approval.id} `{approval.tool}` {shown}",
            f"- {worst}",
            f"- {place}, for {approval.principal}, given by {approval.resolved_by}, {left} left, {lasting(approval)}",
        ]
        if self.answers.may_revoke(request.caller.principal, approval):
            lines.append(f"- Take it back with `/grants revoke {approval.id}`.")
        return "\n".join(lines)


async def decider(request: CommandRequest) -> Decider:
    """Return the caller of a command as the person who asks for questions and grants."""
    reader = (await request.standing(None)).reader
    return Decider(request.caller.principal, reader, request.address, request.sid)
