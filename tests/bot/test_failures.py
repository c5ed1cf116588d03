"""What failed in the last hour, as `/doctor` tells it: of every process, and to no reader above what it came from."""

import json
import logging
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from bot.access.authorize import Caller, Ingress
from bot.access.labelling import CONFIGURED
from bot.agent.models import ModelError
from bot.app.app import App
from bot.commands.admin.configuration import NOTHING
from bot.core.ids import new_key
from bot.core.logs import bound
from bot.failures import HOUR, Failures
from policy.labels import PUBLIC, Label
from policy.request import Role
from tests.bot.clock import Clock
from tests.bot.kit import CONFIDENTIAL, HOME, INTERNAL, RESTRICTED, TOP, Scripted, parts, policy, standing
from tests.harness import running

pytestmark = pytest.mark.anyio

CONFIG = policy(models={"offline": {"clearance": "top"}})
POLLING = logging.getLogger("channels.telegram.polling")
SERVING = logging.getLogger("bot.mcp.connection")
REFUSED = ModelHTTPError(401, "m", "hunter2")


async def asked(app: App, clearance: Label = TOP) -> str:
    """Ask `/doctor` as an admin at the owner's console, which `clearance` bounds."""
    caller = Caller("owner", Role.ADMIN, clearance, Ingress.COMMAND)
    return (await app.commands.answer(app.commands.request(caller, HOME, app.session_id(HOME)), "/doctor")).text


async def test_after_a_key_was_refused_the_doctor_tells_it(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, parts=parts(model=Scripted(REFUSED))) as owner:
        assert NOTHING in await owner.say("/doctor")
        await owner.say("hello")
        told = await owner.say("/doctor")
    assert "seen  model `offline`: it does not accept the key (status 401), put a valid key into" in told
    assert "last at 20" in told
    assert NOTHING not in told
    assert "hunter2" not in told


async def test_the_doctor_tells_nobody_what_failed_above_them(tmp_path: Path) -> None:
    """A failure has the label of the session that met with it, and that of the configuration."""
    async with running(tmp_path, CONFIG, serve=False) as owner:
        for label in (PUBLIC, CONFIDENTIAL):
            facts = {"subject": f"model at {label}", "cause": "no", "label": label}
            logging.getLogger("bot.agent.models").warning("x", extra=facts)
        below, there, above = [await asked(owner.app, one) for one in (PUBLIC, INTERNAL, CONFIDENTIAL)]
    assert "model at" not in below
    assert "model at PUBLIC" in there
    assert "model at CONFIDENTIAL" not in there
    assert "model at CONFIDENTIAL" in above
    assert "model at PUBLIC" in above


async def test_a_session_that_has_read_names_its_failures_above(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, parts=parts(model=Scripted(REFUSED)), serve=False) as owner:
        for label in (RESTRICTED, PUBLIC):
            await one_failure(owner.app, label)
        labels = {one.label for one in owner.app.failures.newest()}
    assert labels == {RESTRICTED, PUBLIC}


async def one_failure(app: App, taint: Label) -> None:
    """Let a model fail a session that has read up to a label."""

    async def record(_row: object) -> None: ...

    thinking = await app.model_loader.thinking()
    with pytest.raises(ModelError):
        await thinking.chain.ask(
            standing(taint), [ModelRequest(parts=[UserPromptPart("x")])], ModelRequestParameters(), record=record
        )


async def test_a_label_that_nobody_knows_is_the_highest(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        SERVING.warning("x", extra={"subject": "MCP server `notes`", "cause": "gone"})
        POLLING.warning("x", extra={"subject": "channel telegram", "cause": "a poll failed"})
        with bound(session="s1"):
            POLLING.warning("x", extra={"subject": "channel telegram", "cause": "nobody knows who reads"})
        told = await asked(owner.app, INTERNAL)
        assert "a poll failed" in told
        assert "notes" not in told
        assert "who reads" not in told
        everything = await asked(owner.app, TOP)
        assert "notes" in everything
        assert "who reads" in everything
        assert "a poll failed" not in await asked(owner.app, PUBLIC)


async def test_what_failed_in_another_process_is_told_too(tmp_path: Path) -> None:
    async with (
        running(tmp_path, CONFIG, serve=False) as one,
        running(tmp_path, CONFIG, serve=False) as other,
    ):
        # Both hear what is logged in this process of the test, so the second one's is kept apart by hand.
        elsewhere = Failures(other.app.vault, other.app.clock, "p:elsewhere")
        for label in (None, INTERNAL, CONFIGURED):
            record = POLLING.makeRecord("bot.x", logging.WARNING, "", 0, "x", (), None)
            record.__dict__.update(subject=f"model for {label}", cause="no", label=label)
            elsewhere.emit(record)
        await elsewhere.share()
        await elsewhere.share()
        everything, below = await asked(one.app, TOP), await asked(one.app, INTERNAL)
        assert everything.count("model for None: no") == 1
        assert "model for INTERNAL: no" in below
        assert "model for None" not in below
        # What cannot be read is left out.
        vault = one.app.vault()
        await vault.put("failures/p:newer", json.dumps([{"subject": "x"}, {**_row(), "label": "NO SUCH"}]).encode())
        await vault.put("failures/p:older", json.dumps({"what": "else"}).encode())
        await one.app.store.vault([new_key()]).put("failures/a", b"of another key")
        assert await asked(one.app, TOP) == everything


def _row() -> dict[str, object]:
    return {"subject": "s", "cause": "c", "address": "", "step": "", "label": None, "at": 2e9}


async def test_after_an_hour_it_is_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        clock = Clock()
        failures = Failures(owner.app.vault, clock, "p:x")
        record = POLLING.makeRecord("bot.x", logging.WARNING, "", 0, "x", (), None)
        record.__dict__.update(subject="model", cause="no")
        record.created = clock.wall_ms() / 1000
        failures.emit(record)
        assert len(await failures.all()) == 1
        clock.seconds += HOUR + 1
        assert not await failures.all()


async def test_how_often_is_not_told_and_the_newest_counts(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        for number in range(200):
            POLLING.warning("x", extra={"subject": f"channel {number}", "cause": "no"})
        for _ in range(3):
            POLLING.warning("x", extra={"subject": "channel 199", "cause": "no"})
        told = await asked(owner.app)
        assert told.count("channel 199: no") == 1
        assert told.count("seen  ") == 100
        assert "channel 0:" not in told


async def test_what_names_no_subject_is_no_failure(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG, serve=False) as owner:
        POLLING.warning("x", extra={"cause": "no"})
        POLLING.info("x", extra={"subject": "x", "cause": "no"})
        assert not await owner.app.failures.all()
    POLLING.warning("x", extra={"subject": "x", "cause": "after its end"})
    assert not owner.app.failures.newest()
