"""Workflows of a program: begun, carried on and looked at by the routes under `/v1/workflows`."""

from collections.abc import Sequence
from urllib.parse import quote

from pydantic import JsonValue

from lockgate.retries import new_key, sendable
from lockgate.transport import IDEMPOTENCY_KEY, ClientRequest, Transport
from lockgate.workflow_shapes import NextWork, OwnWorkflowInFull, OwnWorkflows, WorkflowHistory, WorkflowProgress


class Workflows:
    """The workflows of the program whose token this is.

    A writing method names the `version` that the program saw last. It raises ApiError with code `conflict` where
    another writer came first, and `gate` where a person has to pass the step. Its `key` is an idempotency key of the
    program's own, in place of one for the call; one that cannot be sent raises ValueError.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> OwnWorkflows:
        """Return the workflows of this program, and the definitions to begin with."""
        return await self._transport.value(ClientRequest("GET", "/workflows", repeatable=True), OwnWorkflows)

    async def get(self, project: str) -> OwnWorkflowInFull:
        """Return a workflow."""
        return await self._transport.value(ClientRequest("GET", _of(project), repeatable=True), OwnWorkflowInFull)

    async def log(self, project: str) -> WorkflowHistory:
        """Return the events of a workflow, oldest first."""
        return await self._transport.value(
            ClientRequest("GET", f"{_of(project)}/log", repeatable=True), WorkflowHistory
        )

    async def resume(self, project: str, *, step: str | None = None) -> NextWork:
        """Return where work goes on, at the current step if none is named."""
        request = ClientRequest("GET", f"{_of(project)}/resume", {"step": step}, repeatable=True)
        return await self._transport.value(request, NextWork)

    async def start(
        self, project: str, definition: str, *, branch: str = "", key: str | None = None
    ) -> WorkflowProgress:
        """Begin a workflow.

        Args:
            project: its name.
            definition: the name of the definition, as `list` returns it.
            branch: of the project's repository, say.
            key: as above.
        """
        body: dict[str, JsonValue] = {"project": project, "definition": definition, "branch": branch}
        return await self._written("/workflows", body, key)

    async def step(
        self,
        project: str,
        step: str,
        version: int,
        *,
        files: Sequence[str] = (),
        again: bool = False,
        key: str | None = None,
    ) -> WorkflowProgress:
        """Begin a step.

        Args:
            project: the workflow's.
            step: its id.
            version: as above.
            files: the files read at its beginning, as many as its definition allows.
            again: whether one that was begun before is begun anew.
            key: as above.
        """
        body: dict[str, JsonValue] = {"step": step, "version": version, "files": [*files], "again": again}
        return await self._written(f"{_of(project)}/steps", body, key)

    async def checkpoint(
        self, project: str, sub_step: str, version: int, *, artifacts: Sequence[str] = (), key: str | None = None
    ) -> WorkflowProgress:
        """Note that a part of the step in progress is done.

        Args:
            project: the workflow's.
            sub_step: the id of the part.
            version: as above.
            artifacts: the paths of its artifacts.
            key: as above.
        """
        body: dict[str, JsonValue] = {"sub_step": sub_step, "version": version, "artifacts": [*artifacts]}
        return await self._written(f"{_of(project)}/checkpoints", body, key)

    async def decide(
        self, project: str, version: int, *, title: str, choice: str, rationale: str, key: str | None = None
    ) -> WorkflowProgress:
        """Write down a decision of the step in progress.

        Args:
            project: the workflow's.
            version: as above.
            title: its title, in one line.
            choice: the chosen way.
            rationale: the reason.
            key: as above.
        """
        said: dict[str, JsonValue] = {"title": title, "choice": choice, "rationale": rationale}
        return await self._written(f"{_of(project)}/decisions", {"version": version, **said}, key)

    async def complete(self, project: str, version: int, *, key: str | None = None) -> WorkflowProgress:
        """Complete the step in progress.

        Args:
            project: the workflow's.
            version: as above.
            key: as above.
        """
        return await self._written(f"{_of(project)}/complete", {"version": version}, key)

    async def _written(self, path: str, body: dict[str, JsonValue], key: str | None) -> WorkflowProgress:
        """Send a change, which is made once however often it is sent."""
        headers = {IDEMPOTENCY_KEY: new_key() if key is None else sendable(key)}
        request = ClientRequest("POST", path, body=body, headers=headers, repeatable=True)
        return await self._transport.value(request, WorkflowProgress)


def _of(project: str) -> str:
    return f"/workflows/{quote(project, safe='')}"
