"""What docs/webhooks.md says is what happens: its commands and its code are run as they stand there."""

import asyncio
import json
import os
import re
from collections import deque
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import JsonValue
from standardwebhooks import WebhookVerificationError

from bot.config.model import SentWebhookSettings
from bot.webhooks.attempt import message, signed
from tests.bot.webhooks.kit import begin, hook_config, program, until
from tests.sim.receiver import Received, receiver

PAGE: Final = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    """Return the blocks of a kind, in their order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def defined(name: str) -> Any:  # noqa: ANN401 - what the page defines
    """Return a function of the page."""
    found: dict[str, Any] = {}
    for block in blocks("python"):
        exec(block, found)  # noqa: S102 - the page is ours
    return found[name]


async def shell(command: str, **variables: str) -> dict[str, Any]:
    """Run a command of the page, and return what it answered."""
    process = await asyncio.create_subprocess_shell(
        command, env={**os.environ, **variables}, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(told) if told else {}


def alike(shown: JsonValue, real: JsonValue) -> bool:
    """Say whether what the page shows has the names and kinds of what is real."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return shown.keys() == real.keys() and all(alike(one, real[name]) for name, one in shown.items())
    if isinstance(shown, list) and isinstance(real, list):
        return all(map(alike, shown, real))
    return type(shown) is type(real)


@pytest.mark.anyio
async def test_the_page_is_true(tmp_path: Path) -> None:
    make, replace, dead, again, listed, enable, drop = blocks("sh")
    made, message, missed = map(json.loads, blocks("json"))
    async with receiver() as here, program(tmp_path, hook_config(here, retries=(1,))) as ci:
        told = ci.client.headers["authorization"].removeprefix("Bearer ")
        known = {"API": f"{ci.host.url}/v1", "TOKEN": told, "RECEIVER": here.url}
        hook = await shell(make, **known)
        assert alike(made, hook)
        known["WEBHOOK"] = hook["id"]
        session = await begin(ci.app)
        await session.say("done")
        got = (await here.have(2))[1]
        assert alike(message, got.told)
        for name in ("checked", "checked_by_hand"):
            assert defined(name)(hook["secret"], got.headers, got.body) == got.told
        new = await shell(replace, **known)
        await session.say("signed twice")
        both = (await here.have(3))[2]
        for secret in (hook["secret"], new["secret"]):
            assert defined("checked_by_hand")(secret, both.headers, both.body) == both.told
        here.answers = deque([500, 500])
        await session.say("lost")
        await until(ci.dead)
        lost = await shell(dead, **known)
        assert alike(missed, lost)
        known["DEAD"] = lost["dead"][0]["id"]
        assert await shell(again, **known) == {"id": known["DEAD"]}
        await here.have(6)
        await until(ci.nothing_dead)
        assert [one["id"] for one in (await shell(listed, **known))["webhooks"]] == [hook["id"]]
        assert (await shell(enable, **known))["disabled"] is None
        assert await shell(drop, **known) == {}
        assert await ci.listed() == []


@pytest.mark.parametrize("changed", ["body", "webhook-id", "webhook-timestamp", "webhook-signature", "secret"])
def test_what_somebody_else_sent_passes_neither_check(changed: str) -> None:
    secret, now = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", 1_900_000_000
    sent = message("msg-1", "agent.message", 0, {})
    headers = {name.lower(): value for name, value in signed(sent, [secret], now * 1000).items()}
    received = Received("/", headers, sent.payload.encode())
    if changed in headers:
        headers[changed] = headers[changed][:-2] + "00"
    body = b"{}" if changed == "body" else received.body
    asked = "whsec_AAAA" if changed == "secret" else secret
    with pytest.raises(WebhookVerificationError):
        defined("checked")(asked, headers, body)
    with pytest.raises(ValueError, match=r"too old|not signed"):
        defined("checked_by_hand")(asked, headers, body)


def test_the_page_names_what_is_configured() -> None:
    settings = SentWebhookSettings()
    table = PAGE.partition("## For operators")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(SentWebhookSettings.model_fields)
    assert settings.retry_seconds == [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800]
    assert "after 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 4 h and 8 h" in PAGE
    assert f"| `seconds` | {settings.seconds} |" in table
    assert f"| `failing_days` | {settings.failing_days} |" in table
    assert f"| `per_program` | {settings.per_program} |" in table
