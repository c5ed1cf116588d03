"""Rules about what leaves count for all that programs are told, not for answers alone (law `deny_overrides`).

A model that was taken over would otherwise say in the arguments of a call what it may not answer.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx2
import pytest

from bot.sessions.api_tokens import Scope
from channels.messages import Address
from tests.bot.api.kit import api_config, served
from tests.bot.api.test_oversight import BOSS, DIRTY, speaking
from tests.bot.kit import bang, eventually
from tests.harness import Person

pytestmark = pytest.mark.anyio

NUMBER: Final = "536-22-8726"
RULE: Final = {
    "id": "no-ssn",
    "hook": "PRE_OUTPUT",
    "channels": ["api"],
    "when": "has_us_ssn",
    "action": "BLOCK",
    "pattern": "us-ssn",
}
REDACT: Final = {**RULE, "action": "REDACT"}
APPROVE: Final = {"id": "said-by-two", "hook": "PRE_OUTPUT", "channels": ["api"], "action": "REQUIRE_APPROVAL"}
WRITE: Final = bang("write_file", path="public/note.md", text=f"it is {NUMBER}")
READ: Final = bang("read_file", path="public/note.md")
NOTE: Final = bang("message", channel="console", recipient="boss", text=f"it is {NUMBER}")
PICK: Final = bang("ask_user", question="Which?", schema={"type": "enum", "values": [NUMBER, "none"]}, default=NUMBER)


def config(*rules: object) -> str:
    return api_config({"principals": BOSS, "rules": list(rules)})


def without(rule: Mapping[str, object]) -> dict[str, object]:
    """Return a rule that replaces nothing, which names no pattern."""
    return {name: value for name, value in rule.items() if name != "pattern"}


def types(answer: httpx2.Response) -> list[str]:
    return [event["type"] for event in answer.json()["events"]]


async def test_what_a_rule_keeps_back_is_in_no_event(tmp_path: Path) -> None:
    async with served(tmp_path, config(without(RULE))) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(WRITE)
        await nightly.say(READ)
        async with host.client(token) as client:
            path = f"/v1/sessions/{nightly.sid}/events"
            page = await client.get(path)
            async with client.stream("GET", path, headers={"accept": "text/event-stream"}) as stream:
                told = ""
                async for text in stream.aiter_text():
                    told += text
                    if told.count("turn.completed") == 2:
                        break
        assert NUMBER not in page.text + told
        # What happened is told all the same, and why something is not.
        assert types(page).count("turn.completed") == 2
        assert "policy.decision" in types(page)
        assert NUMBER in str([event.body for event in await nightly.events()])


async def test_what_a_rule_replaces_is_replaced_in_every_event(tmp_path: Path) -> None:
    async with served(tmp_path, config(REDACT)) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(WRITE)
        async with host.client(token) as client:
            page = await client.get(f"/v1/sessions/{nightly.sid}/events")
        assert NUMBER not in page.text
        assert page.text.count("it is [redacted: us-ssn]") == 2
        assert {"user.message", "tool.call"}.issubset(types(page))


async def test_a_background_session_s_answer_is_decided_for_its_program(tmp_path: Path) -> None:
    """It was decided for nobody who reads, where such a session lives."""
    async with served(tmp_path, config(REDACT)) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(bang("sessions_spawn", task=f"it is {NUMBER}"))
        async with host.client(token) as client:
            found = list[dict[str, str]]()

            async def ended() -> bool:
                tasks = {"kind": "task", "status": "archived"}
                found.extend((await client.get("/v1/sessions", params=tasks)).json()["sessions"])
                return bool(found)

            await eventually(ended)
            (child,) = found
            result = await client.get(f"/v1/sessions/{child['id']}/result", params={"wait": 10})
            page = await client.get(f"/v1/sessions/{child['id']}/events")
        assert result.json()["result"]["body"] == {"text": "You said: it is [redacted: us-ssn]"}
        assert NUMBER not in page.text


async def test_an_answer_that_people_let_pass_is_told_and_what_a_call_says_is_not(tmp_path: Path) -> None:
    async with served(tmp_path, config(APPROVE)) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly, boss = speaking(host, "nightly"), "console:boss"
        await nightly.say(bang("write_file", path="public/note.md", text="quay"))
        (waits,) = await host.app.store.approvals.of(nightly.sid)
        async with host.client(token) as client:
            path = f"/v1/sessions/{nightly.sid}/events"
            before = types(await client.get(path))
            await Person(host.app, host.person.output, Address("console", "boss"), boss).say(f"/approve {waits.id}")
            await nightly.settled()
            after = types(await client.get(path))
            copy = (await client.get(f"/v1/sessions/{nightly.sid}/export")).text
        assert "agent.message" not in before
        assert after.count("agent.message") == 1
        assert "user.message" in before
        assert not {"tool.call", "tool.result"}.intersection(after)
        assert '"type":"agent.message"' in copy
        assert '"type":"tool.' not in copy


async def test_what_waits_is_told_as_rules_let_it(tmp_path: Path) -> None:
    """A person's call that waits may say what programs are not told, and an agent's choices may."""
    for rule, asks in ((without(RULE), None), (REDACT, "it is [redacted: us-ssn]")):
        folder = tmp_path / str(rule["action"])
        folder.mkdir()
        async with served(folder, config(rule)) as host:
            await host.person.say(DIRTY)
            await host.person.say(NOTE)
            async with host.client(await host.token("chief", Scope.ADMIN)) as client:
                answer = await client.get("/v1/approvals")
            (waits,) = answer.json()["approvals"]
            assert NUMBER not in answer.text
            assert (None if waits["asks"] is None else waits["asks"]["arguments"]["text"]) == asks


async def test_the_choices_of_a_question_are_its_words_too(tmp_path: Path) -> None:
    """A rule that came after the question counts as well."""
    async with served(tmp_path, config()) as host:
        token = await host.token("nightly", Scope.STEER)
        nightly = speaking(host, "nightly")
        await nightly.say(PICK)
        (tmp_path / "config.yaml").write_text(config(REDACT))
        await host.person.say("/policy reload")
        async with host.client(token) as client:
            answer = await client.get(f"/v1/sessions/{nightly.sid}/questions")
        (asked,) = answer.json()["questions"]
        assert json.dumps(asked).count(NUMBER) == 0
        assert (asked["text"], asked["default"]) == (None, None)
