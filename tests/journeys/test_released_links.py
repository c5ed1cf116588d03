"""A link of an internal page is fetched from the public web: a person is shown the whole call, and releases it once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bot.kit import bang
from tests.harness import running
from tests.journeys import test_slack, test_telegram
from tests.journeys.machine import Machine
from tests.people import principal
from tests.sim.slack import slack
from tests.sim.telegram import telegram
from tests.sim.web import Web, web

pytestmark = pytest.mark.anyio

READ = bang("read_file", path="internal/handbook.md")
SHOWN = "May exactly this call be released, once?"


def reachable(server: Web, settings: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration whose owner may release, and that reaches the web server."""
    settings["policy"]["principals"]["ann"]["may_release"] = True
    return {**settings, "web": {"unsafe_allow_private_addresses": [f"127.0.0.1:{server.port}"]}}


async def test_a_release_of_a_link(tmp_path: Path) -> None:
    """The menu of the canteen is public, and the handbook that links to it is not."""
    async with web() as server:
        server.page("/menu", "Tuesday: soup")
        server.leads("/old", "/menu")
        config = {
            "policy": {"principals": {"owner": principal("console:owner", may_release=True)}},
            "web": {"unsafe_allow_private_addresses": [f"127.0.0.1:{server.port}"]},
        }
        async with running(tmp_path, json.dumps(config)) as owner:
            await owner.say(READ)
            asked = await owner.say(bang("web_fetch", url=f"{server.base}/menu"))
            assert SHOWN in asked
            assert f'"url": "{server.base}/menu"' in asked
            assert f"goes to `{server.base}`, which is cleared for PUBLIC" in asked
            assert server.asked == []
            name = asked.split("`/approve ")[1].partition("`")[0]
            assert f"/approve {name}" in await owner.say("/approvals")
            assert "Tuesday: soup" in await owner.say(f"/approve {name}")
            assert "There is nothing of that name here" in await owner.say(f"/approve {name}")

            asked = await owner.say(bang("web_fetch", url=f"{server.base}/old"))
            name = asked.split("`/approve ")[1].partition("`")[0]
            assert "where this call may not follow" in await owner.say(f"/approve {name}")

            asked = await owner.say(bang("web_fetch", url=f"{server.base}/menu?words=of+the+handbook"))
            name = asked.split("`/approve ")[1].partition("`")[0]
            assert "a person refused this call" in await owner.say(f"/deny {name}")
            assert server.paths == ["/menu", "/old"]
            assert "Taint INTERNAL~." in await owner.say("/taint")


async def test_a_release_of_a_link_by_a_button_on_telegram(tmp_path: Path) -> None:
    async with telegram() as server, web() as pages:
        pages.page("/menu", "Tuesday: soup")
        ann = server.user("Ann")
        text = json.dumps(reachable(pages, json.loads(test_telegram.config(server, ann))))
        async with test_telegram.listening(Machine(tmp_path), server, text):
            ann.says(None, READ)
            await test_telegram.hears(server, ann.private, "read_file:")
            ann.says(None, bang("web_fetch", url=f"{pages.base}/menu"))
            asked = await test_telegram.hears(server, ann.private, SHOWN)
            assert f'"url": "{pages.base}/menu"' in asked
            (question,) = [shown for shown in ann.private.shows if shown.buttons]
            ann.presses(question, "Release")
            await test_telegram.hears(server, ann.private, "Tuesday: soup")
            assert pages.paths == ["/menu"]


async def test_a_release_of_a_link_by_a_button_on_slack(tmp_path: Path) -> None:
    async with slack() as server, web() as pages:
        pages.page("/menu", "Tuesday: soup")
        ann = server.user("ann")
        settings = reachable(pages, test_slack.config(server, ann))
        async with test_slack.listening(Machine(tmp_path), server, settings):
            await ann.says(ann.dm(), READ)
            await test_slack.hears(server, ann.dm(), "read_file:")
            await ann.says(ann.dm(), bang("web_fetch", url=f"{pages.base}/menu"))
            asked = await test_slack.hears(server, ann.dm(), SHOWN)
            assert f'"url": "{pages.base}/menu"' in asked
            (question,) = [one for one in ann.dm().messages if test_slack.buttons(one)]
            await ann.presses(question, test_slack.buttons(question)[0])
            await test_slack.hears(server, ann.dm(), "Tuesday: soup")
            assert pages.paths == ["/menu"]
