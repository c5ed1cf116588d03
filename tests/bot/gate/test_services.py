"""What a call may ask of the gate while it runs: where its recipients lead is what was decided about."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.access.recipients import ChangedRecipientError
from bot.gate.services import GateServices
from bot.sessions.background.runs import RunWish
from policy.decision import Decision
from policy.request import Hook
from tests.bot.kit import call, standing
from tests.harness import HOME, running

pytestmark = pytest.mark.anyio


async def test_no_run_is_started_for_a_recipient_who_is_another_by_now(tmp_path: Path) -> None:
    async def record(_hook: Hook, _decision: Decision, _facts: Mapping[str, JsonValue]) -> None:
        """Nothing is decided while it runs."""

    async with running(tmp_path, serve=False) as owner:
        gate = owner.app.gate
        made = gate.calls.prepare(standing(), call("runs_start", {"goal": "tidy up", "deliver_to": "owner"}))
        services = GateServices(
            gate._judge,  # pyright: ignore[reportPrivateUsage] - as the gate makes it for a call
            gate.calls,
            gate._spawner,  # pyright: ignore[reportPrivateUsage] - as above
            standing(),
            runs=gate._runs,  # pyright: ignore[reportPrivateUsage] - as above
            made=made,
            record=record,
        )
        assert services.leads_to(HOME)
        with pytest.raises(ChangedRecipientError):
            await services.start_run(RunWish("tidy up", deliver_to="owner", meant="another place"))
        assert await owner.app.store.runs.slots("owner") == ()
