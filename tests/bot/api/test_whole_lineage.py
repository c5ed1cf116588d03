"""The document of a trace in full: every field tells what was traced, and no field is left out."""

from pathlib import Path

import pytest

from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_a_trace(tmp_path: Path) -> None:
    async with served(tmp_path) as host, host.client(await host.token("nightly")) as client:
        sid = (await client.post("/v1/sessions", json={"input": "hello"})).json()["id"]
        await client.get(f"/v1/sessions/{sid}/result", params={"wait": 20})
        asked, said = (await client.get(f"/v1/sessions/{sid}/events", params={"level": "user"})).json()["events"]
        told = (await client.get(f"/v1/lineage/{sid}")).json()
        answer, message, hidden = told["nodes"]
        assert told == {
            "start": [answer["id"]],
            "direction": "back",
            "nodes": [answer, message, hidden],
            "edges": [{"source": message["id"], "target": answer["id"]}],
            "cursor": None,
            "complete": told["complete"],
        }
        assert isinstance(told["complete"], bool)
        assert answer == {
            "id": answer["id"],
            "kind": "answer",
            "title": answer["title"],
            "label": "PUBLIC",
            "at": said["ts"],
            "where": sid,
            "depth": 0,
        }
        assert (message["kind"], message["at"], message["depth"]) == ("message", asked["ts"], 1)
        assert answer["title"] == "answer"
        assert hidden == {**hidden, "kind": "hidden", "label": None, "at": None, "where": None, "depth": None}
        path = f"/v1/lineage/{message['id']}"
        first = (await client.get(path, params={"direction": "forward", "depth": 1, "limit": 1})).json()
        assert (first["direction"], [one["kind"] for one in first["nodes"]]) == ("forward", ["message", "hidden"])
        rest = (await client.get(path, params={"direction": "forward", "cursor": first["cursor"]})).json()
        assert answer["id"] in [one["id"] for one in rest["nodes"]]
