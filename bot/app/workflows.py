"""The keeper of workflows, as the composition root puts it together."""

from collections.abc import Callable, Mapping

from bot.files.port import LabelledFiles
from bot.sessions.ports.store import Store
from bot.sessions.workflows.definitions import WorkflowDefinition
from bot.tools.workflow.state_folder import StateFolder
from bot.workflows.export import WriteThrough
from bot.workflows.keeper import WorkflowKeeper
from policy.document.model import Document


def workflow_keeper(
    store: Store,
    files: LabelledFiles,
    definitions: Mapping[str, WorkflowDefinition],
    document: Callable[[], Document],
) -> WorkflowKeeper:
    """Return the keeper of an application's workflows; `document` is the policy in force."""
    written = WriteThrough(store.workflows, StateFolder(files, document))
    return WorkflowKeeper(store.workflows, written, definitions)
