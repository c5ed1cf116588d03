"""Two machines at the command line: each has a data directory, and one store has the conversations of both."""

import json
import shutil
from pathlib import Path

import pytest

from tests.journeys.machine import Machine
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio


async def test_a_second_machine_serves_once_it_has_the_keys(tmp_path: Path) -> None:
    place = {"LOCKGATE_STORE_URL": await SERVERS.at(tmp_path)}
    here, there = Machine(tmp_path / "here"), Machine(tmp_path / "there")
    here.folder.mkdir()
    there.folder.mkdir()
    assert "You said: high water" in here.chat("high water", **place).out
    for command in (("chat",), ("doctor",), ("audit", "verify"), ("keys", "list")):
        refused = there.run(*command, typed="low water\n", **place)
        assert (refused.code, "You said" in refused.out) == (2, False), command
        told = refused.out + refused.err
        assert "of this installation is not here" in told, command
        assert "copy the files of `keys`" in told, command
    shutil.rmtree(there.data / "keys")
    shutil.copytree(here.data / "keys", there.data / "keys")
    # It never saw these chains, and finds them intact.
    checked = there.run("audit", "verify", **place)
    assert (checked.code, checked.out.splitlines()[0]) == (0, "2 of 2 chains intact")
    assert "Not anchored here yet: 2." in checked.out
    found = json.loads(here.run("audit", "verify", "--json", **place).out)
    assert all(one["anchored"] for one in found)
    beside = there.run("audit", "verify", "--anchors", str(here.data / "anchors"), "--json", **place)
    assert all(one["anchored"] and one["intact"] for one in json.loads(beside.out))
    # The conversation is the same.
    assert "high water" in there.chat("/history", **place).out
