"""Runs and schedules over the API: what the policy refuses, what has another form, and what is audited."""

from http import HTTPStatus
from pathlib import Path

import pytest

from tests.bot.api.kit import api_config, served

pytestmark = pytest.mark.anyio

RULE = {
    "id": "no-work-of-programs",
    "hook": "PRE_TOOL_CALL",
    "tools": ["runs_start", "schedule_create"],
    "action": "BLOCK",
    "message": "programs begin nothing here",
}
SCHEDULE = {"kind": "run", "when": "in 20 minutes", "text": "Report."}


async def test_what_the_policy_refuses_is_told_so_and_makes_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, api_config({"rules": [RULE]}), works=False) as host,
        host.client(await host.token()) as client,
    ):
        for path, body in (("/v1/runs", {"goal": "File it."}), ("/v1/schedules", SCHEDULE)):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (HTTPStatus.FORBIDDEN, "refused")
            assert (await client.get(path)).json()[path.removeprefix("/v1/")] == []
        rows = (await client.get("/v1/audit")).json()["rows"]
        decided = [row["body"] for row in rows if row["kind"] == "decision"]
        assert [(body["tool"], body["verdict"]) for body in decided] == [
            ("runs_start", "BLOCK"),
            ("schedule_create", "BLOCK"),
        ]


async def test_what_has_another_form_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, host.client(await host.token()) as client:
        for path, body in (
            ("/v1/runs", {"goal": " "}),
            ("/v1/runs", {"goal": "x", "type": "often"}),
            ("/v1/runs", {"goal": "x", "hours": 0}),
            ("/v1/runs", {"goal": "x", "label": "PUBLIC"}),
            ("/v1/runs/r_0/notes", {"text": "x" * 4001}),
            ("/v1/schedules", {**SCHEDULE, "kind": "often"}),
            ("/v1/schedules", {**SCHEDULE, "overlap": "twice"}),
        ):
            assert (await client.post(path, json=body)).status_code == HTTPStatus.UNPROCESSABLE_ENTITY, body
        # Where it is due once only, the moment has to be to come.
        past = await client.post("/v1/schedules", json={**SCHEDULE, "when": "2020-01-01 08:30"})
        assert (past.status_code, past.json()["error"]["message"]) == (
            HTTPStatus.BAD_REQUEST,
            "This moment has passed; name one that is still to come.",
        )
