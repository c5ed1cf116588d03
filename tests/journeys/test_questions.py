"""Stories of questions that an agent asks its user: on one platform asked, on another one answered."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.journeys import test_telegram
from tests.journeys.machine import Machine
from tests.journeys.test_slack import account, both, buttons, config, hears, said
from tests.journeys.test_telegram import PATIENCE
from tests.people import principal
from tests.sim.slack import Slack, slack
from tests.sim.slack_people import Person as SlackPerson
from tests.sim.slack_state import Message
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person as TelegramPerson

pytestmark = pytest.mark.anyio

PAINT: Final = "!ask_user " + json.dumps(
    {"question": "Which colour for the quay?", "schema": {"type": "enum", "values": ["red", "blue"]}}
)


def settings_of(server: Slack, chat: Telegram, ann: SlackPerson, there: TelegramPerson) -> dict[str, Any]:
    """Return a configuration in which ann has an account on both platforms."""
    settings = config(server, ann)
    settings["policy"]["principals"]["ann"] = principal("console:owner", account(ann), f"telegram:{there.id}")
    settings["policy"]["channels"]["telegram"] = {"classification": "CONFIDENTIAL", "overshoot": "allow"}
    settings["channels"]["telegram"] = {"token": "TELEGRAM_TOKEN", "base_url": f"http://127.0.0.1:{chat.port}"}
    return settings


async def asked_on_slack(server: Slack, chat: Telegram, ann: SlackPerson, there: TelegramPerson) -> tuple[str, Message]:
    """Let the agent ask on Slack, and see that it asks on Telegram too; return the id and the Slack copy."""
    await ann.says(ann.dm(), PAINT)
    await hears(server, ann.dm(), "Which colour for the quay?")
    told = await test_telegram.hears(chat, there.private, "Which colour for the quay?")
    found = re.search(r"question ([0-9a-z]{8})", told)
    assert found is not None
    (copy,) = [each for each in ann.dm().messages if buttons(each)]
    return found[1], copy


@pytest.mark.parametrize("way", ["button", "command", "reply"])
async def test_a_question_asked_on_slack_and_answered_on_telegram(tmp_path: Path, way: str) -> None:
    """The agent asks its user on Slack; they answer on their phone, on Telegram, and the agent goes on at Slack."""
    async with slack() as server, telegram() as chat:
        ann, there = server.user("ann"), chat.user("Ann")
        there.says(None, "/whoami")
        async with both(Machine(tmp_path), chat, server, settings_of(server, chat, ann, there)):
            await test_telegram.hears(chat, there.private, "You are ann")
            name, copy = await asked_on_slack(server, chat, ann, there)
            match way:
                case "button":
                    there.presses(next(each for each in there.private.messages if each.buttons), "Answer: blue")
                case "command":
                    there.says(None, f"/answer {name} blue")
                case _:
                    there.says(None, "blue")
            heard = await hears(server, ann.dm(), '"answer": "blue"')
            assert heard
            # Each copy says what became of it, and nothing can be pressed any more.
            await server.until(lambda: not buttons(copy) or copy.deleted, PATIENCE)
            await hears(server, ann.dm(), f"{name}: answered by ann")
            await test_telegram.hears(chat, there.private, f"{name}: answered by ann")
            await ann.says(ann.dm(), f"!answer {name} red")
            await hears(server, ann.dm(), "It was answered already.")
            assert not any('"answer": "red"' in text for text in said(ann.dm()))


async def test_a_question_outlives_its_process_and_is_answered_after_a_restart(tmp_path: Path) -> None:
    """The process that asked is gone; the next one takes the answer, goes on with the turn, and edits the copies."""
    async with slack() as server, telegram() as chat:
        ann, there = server.user("ann"), chat.user("Ann")
        there.says(None, "/whoami")
        machine, settings = Machine(tmp_path), settings_of(server, chat, ann, there)
        async with both(machine, chat, server, settings):
            await test_telegram.hears(chat, there.private, "You are ann")
            name, _ = await asked_on_slack(server, chat, ann, there)
        await asyncio.sleep(0)
        there.says(None, "blue")
        async with both(machine, chat, server, settings):
            await hears(server, ann.dm(), '"answer": "blue"')
            await hears(server, ann.dm(), f"{name}: answered by ann")
            await test_telegram.hears(chat, there.private, f"{name}: answered by ann")


async def test_nobody_else_in_a_channel_answers_for_whom_the_agent_asks(tmp_path: Path) -> None:
    """In a shared channel the agent asks one person; another one's words, command and press answer nothing."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        harbour = server.channel("harbour", ann, ben, kind="private")
        settings = config(server, ann, ben=(ben, "member", "INTERNAL"))
        settings["policy"]["chats"] = {
            "harbour": {
                "channel": "slack",
                "workspace": server.team.id,
                "chat": harbour.id,
                "classification": "INTERNAL",
            }
        }
        machine = Machine(tmp_path)
        tokens = {"BOT_TOKEN": server.bot.value, "APP_TOKEN": server.app_token}
        async with machine.listening(json.dumps(settings), tokens):
            async with asyncio.timeout(PATIENCE):
                await server.sockets.connected()
            thread = await ann.mentions(harbour, PAINT)
            told = await hears(server, harbour, "Which colour for the quay?")
            found = re.search(r"question ([0-9a-z]{8})", told)
            assert found is not None
            await ben.runs(f"/lockgate answer {found[1]} red", harbour)
            await ben.runs("/lockgate answer 22222222 red", harbour)
            await server.until(lambda: sum("nothing of that name" in one for one in ben.sees(harbour)) == 2, PATIENCE)
            (copy,) = [each for each in harbour.messages if buttons(each)]
            await ben.presses(copy, buttons(copy)[0])
            await ben.mentions(harbour, "red", thread)
            await ann.mentions(harbour, "blue", thread)
            await hears(server, harbour, '"answer": "blue"')
            assert not any('"answer": "red"' in text for text in said(harbour))


def test_a_question_at_the_console_is_answered_there_and_after_a_restart(machine: Machine) -> None:
    """On a pipe the next line answers; a question that is left open is shown, and answered, by the next process."""
    ended = machine.chat(PAINT, "blue")
    assert (ended.code, ended.err) == (0, "")
    assert '{"status": "answered", "answer": "blue"}' in ended.out
    machine.chat(PAINT)
    later = machine.chat("green", "red")
    assert "> Which colour for the quay?" in later.out
    assert "To answer the question, use" in later.out
    assert "this waits behind the agent's question: `/questions` shows it" in later.out
    assert '{"status": "answered", "answer": "red"}' in later.out
    assert "You said: green" in later.out


def test_a_console_below_its_conversation_tells_of_no_question_that_waits_elsewhere(machine: Machine) -> None:
    """What was read may not be told at this console, so the agent asks at another; that it does is not told here."""
    recipients = {name: {"channel": "console", "chat": name, "clearance": "PUBLIC"} for name in ("owner", "desk")}
    recipients["desk"]["clearance"] = "top"
    people = {"owner": principal("console:owner", "console:desk")}
    policy = {"principals": people, "recipients": recipients}
    (machine.folder / "config.yaml").write_text(json.dumps({"policy": policy}))
    ended = machine.chat('!read_file {"path": "confidential/pipeline.md"}', PAINT, "hello", "/questions")
    assert "→ desk: The agent asks `owner`" in ended.out
    here = [line for line in ended.out.splitlines() if "question" in line.lower() and "→ desk" not in line]
    assert here == ["  No question waits for you."]
    assert "CONFIDENTIAL" not in machine.chat("/questions").out
