"""The policy in force for all processes of the store, kept beside the audit chain that tells who put it there."""

from bot.sessions.audit import AuditRow, PolicyHead
from bot.store.base import POLICY_ASKED, Part
from bot.store.keys import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, OVERRIDES, POLICY, audit_op
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import raw, text


class PolicyInForce(Part):
    """Implements the port `PolicyStore`."""

    @property
    def policy_head(self) -> PolicyHead | None:
        """What this process read last of it, None for none."""
        return self._policy

    async def read_policy(self) -> PolicyHead | None:
        """Read it now."""
        (reply,) = await self._link.commands(POLICY_ASKED)
        self._saw_policy(reply)
        return self._policy

    async def put_policy(
        self, digest: str, process: str, audit: tuple[AuditRow, ...], *, only_if_none: bool = False
    ) -> PolicyHead:
        """Put a policy in force and append the rows that tell of it to the chain `audit`, in one step."""
        names = [AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._ids.op()), POLICY, OVERRIDES]

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._link.script(Script.PUT_POLICY, names, [digest, raw(process), int(only_if_none), *rows])

        _, n, head, *put = await self._chaining(AUDIT, audit, run)
        self._saw_head(AUDIT, (int(n), text(head)))
        self._saw_policy(put)
        return PolicyHead(text(put[1]), int(put[2]), text(put[3]), int(put[4] or 0))
