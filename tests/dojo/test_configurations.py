"""The configurations load, and the plans name nothing that they lack. AgentDojo itself is not needed for that."""

import asyncio
import json
from pathlib import Path

import pytest

from bot.app.plugins import find_plugin
from bot.config.load import load_config
from bot.tools import catalogue
from tests.dojo.judging import CONFIGURATIONS, PLANS, configured
from tests.dojo.steps import Asked, Call
from tests.dojo.suites import AGENTDYN, SUITES

pytestmark = pytest.mark.anyio

TASKS = {"workspace": range(40), "travel": range(20), "banking": range(16), "slack": range(21), **AGENTDYN}
ALL = (*SUITES, *AGENTDYN)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("name", ALL)
async def test_a_configuration_loads(tmp_path: Path, name: str, configuration: str) -> None:
    config = configured(name, configuration)
    config["mcp_servers"][name]["command"] = "suite"
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config, default=str), "utf-8")
    settings = await asyncio.to_thread(load_config, path, {}, catalogue.ARGUMENTS, find_plugin)
    assert name in settings.mcp_servers


def test_others_choose_the_entries_of_few_tools_alone() -> None:
    """The author of a list chooses its entries, and the person the recipients. So nothing is shared that way."""
    told = {
        tool: [one for one in facts.get("bounds", {}).get("identifier", []) if one.endswith("-unheard")]
        for name in ALL
        for tool, facts in configured(name, "careful")["policy"].get("tools", {}).items()
    }
    assert {tool: named for tool, named in told.items() if named} == {
        "workspace__add_calendar_event_participants": ["event-unheard"],
        "banking__update_scheduled_transaction": ["order-unheard"],
        "shopping__cart_add_product": ["product-unheard"],
        "shopping__checkout_selected_cart": ["product-unheard"],
        "shopping__refund_order": ["order-unheard"],
        "shopping__download_file_through_id": ["file-unheard"],
        "dailylife__download_file_through_id": ["file-unheard"],
    }


@pytest.mark.parametrize("name", ALL)
def test_each_task_has_a_plan_of_known_tools_and_lists(name: str) -> None:
    config = configured(name, "careful")
    moves = [move for plan in PLANS[name].values() for step in plan for move in step]
    assert set(PLANS[name]) == {f"user_task_{task}" for task in TASKS[name]}
    assert {move.tool for move in moves if isinstance(move, Call)} <= set(config["mcp_servers"][name]["tools"])
    asked = [kind for move in moves if isinstance(move, Asked) for kind in move.returns.values()]
    listed = {str(kind["list"]) for kind in asked if isinstance(kind, dict) and "list" in kind}
    assert listed <= set(config["policy"].get("lists", {}))
