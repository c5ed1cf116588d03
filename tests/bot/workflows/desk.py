"""What keeps workflows in these tests: a real store, and a real folder of files."""

import json
from pathlib import Path
from typing import Any, Final

from bot.config.workflows import read_definition
from bot.files.local import LocalFiles
from bot.store.redis_store import RedisStore
from bot.store.schema import workflow_keys
from bot.tools.workflow.state_folder import FOLDER, StateFolder
from bot.workflows.export import STATE, WriteThrough
from bot.workflows.keeper import WorkflowKeeper
from bot.workflows.views import Workflow, WorkflowActor, WorkflowWrite
from policy.labels import PUBLIC, Label
from tests.bot.kit import TOP, document
from tests.store.world import command, fresh

PUBLISHED: Final = {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "CONFIDENTIAL"}

DEFINITION: Final = """
name: harbour
title: Harbour works
steps:
  "1":
    name: Survey
    sub_steps: [depths, currents, report]
    context_files: 2
    artifacts: ["agent-output/{project}/01-survey.md"]
  "2":
    name: Plan
    sub_steps: [draft, costs]
    context_files: 1
    gate: true
    reviewer: checker
  "2_5":
    name: Permits
    optional: true
  "3":
    name: Build
    sub_steps: [dig]
"""


HARBOUR: Final = read_definition(DEFINITION, "harbour.yaml", ("checker",))


class Desk:
    """A keeper with the files it writes; `folder` is what the policy says of the export folder, None for none."""

    def __init__(
        self, store: RedisStore, path: Path, folder: dict[str, str] | None = PUBLISHED, *, who: str = ""
    ) -> None:
        self.policy = document(folders={} if folder is None else {FOLDER: folder}, compartments=["hr"])
        self.store, self.root = store, path / "files"
        self.files = LocalFiles(path, lambda: TOP)
        self.written = WriteThrough(store.workflows, StateFolder(self.files, lambda: self.policy))
        self.keeper = WorkflowKeeper(store.workflows, self.written, {"harbour": HARBOUR})
        self.who = who or fresh()

    def actor(
        self,
        label: Label = PUBLIC,
        reader: Label | None = None,
        *,
        by_agent: bool = False,
        agent: str = "",
        sid: str = "",
    ) -> WorkflowActor:
        """Return who changes something, with the label of a session."""
        return WorkflowActor(self.who, "ann", label, reader or label, sid=sid, by_agent=by_agent, agent=agent)

    async def begin(self, label: Label = PUBLIC, project: str = "quay") -> WorkflowWrite:
        """Begin a workflow."""
        return await self.keeper.start(self.actor(label), project, "harbour", op=fresh())

    async def found(self, reader: Label = PUBLIC, project: str = "quay") -> Workflow:
        """Return a workflow as a session knows it."""
        return await self.keeper.found(self.who, project, reader)

    async def step(self, step: str = "1", label: Label = PUBLIC) -> WorkflowWrite:
        """Begin a step of a workflow as it is."""
        now = await self.found(label)
        return await self.keeper.begin_step(self.actor(label), "quay", step, now.version, op=fresh())

    async def checkpoint(self, sub_step: str, label: Label = PUBLIC, *artifacts: str) -> WorkflowWrite:
        """Say that a sub-step is done, in a workflow as it is."""
        now = await self.found(label)
        return await self.keeper.checkpoint(
            self.actor(label), "quay", sub_step, now.version, op=fresh(), artifacts=artifacts
        )

    async def wait(self) -> None:
        """Let the ten minutes pass for which the store keeps its answers."""
        for key in await command(self.store, "KEYS", workflow_keys(self.who, "", "").op("*").replace("%2A", "*")):
            await command(self.store, "DEL", key)

    def path(self, name: str = STATE, project: str = "quay") -> Path:
        """Return where a file is at the floor."""
        return self.root / FOLDER / project / name

    def state(self) -> dict[str, Any]:
        """Return the state file at the floor."""
        return json.loads(self.path().read_text("utf-8"))

    def put(self, text: str | dict[str, Any], name: str = STATE, project: str = "quay") -> None:
        """Put a file there as a person with an editor does."""
        path = self.path(name, project)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
