"""`/model`: which model a conversation thinks with, and what switching it may change."""

import json
from pathlib import Path
from typing import Final

import pytest

from bot.access.authorize import Caller, Ingress
from bot.app.extensions import Extensions
from bot.commands.command import Reply
from bot.commands.models import NOT_BEGUN, NOT_HERE
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Role
from tests.bot.kit import HOME, INTERNAL, TOP, Scripted
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

WIDE: Final = "openai:wide"
NARROW: Final = "openai:narrow"
BACK: Final = "openai:back"


def settings(**model: object) -> str:
    return json.dumps(
        {
            "model": {"name": "offline", "fallback": [BACK], "choices": [WIDE, NARROW], **model},
            "policy": {
                "compartments": ["hr"],
                "models": {
                    "offline": {"clearance": "INTERNAL"},
                    BACK: {"clearance": "INTERNAL"},
                    WIDE: {"clearance": "CONFIDENTIAL{hr}"},
                    NARROW: {"clearance": "PUBLIC"},
                },
            },
        }
    )


class Asked:
    """Models that answer with their names, but one that never does."""

    def __init__(self, broken: str = "") -> None:
        self.made = {
            name: Scripted(OSError() if name == broken else f"I am {name}") for name in ("offline", BACK, WIDE, NARROW)
        }

    @property
    def parts(self) -> Extensions:
        return Extensions(model=lambda name: self.made[name])


async def asked(
    person: Person, line: str, *, role: Role = Role.MEMBER, clearance: Label = TOP, chat: Address = HOME
) -> Reply:
    caller = Caller("owner", role, clearance, Ingress.COMMAND)
    return await person.app.commands.answer(person.app.commands.request(caller, chat, person.sid), line)


async def test_it_shows_what_thinks_and_what_each_may_read_as_far_as_the_reader_may_know(tmp_path: Path) -> None:
    async with running(tmp_path, settings(), serve=False) as person:
        told = await asked(person, "/model", clearance=INTERNAL)
        assert told == Reply(
            "This conversation thinks with offline, which may read INTERNAL of your clearance\n"
            f"- if that does not answer {BACK}, which may read INTERNAL of your clearance\n"
            f"- with `/model {BACK}` with {BACK}, which may read INTERNAL of your clearance\n"
            f"- with `/model {WIDE}` with {WIDE}, which may read INTERNAL of your clearance\n"
            f"- with `/model {NARROW}` with {NARROW}, which may read PUBLIC of your clearance",
        )
        assert "CONFIDENTIAL" in (await asked(person, "/model")).text
        assert (await asked(person, f"/model {WIDE}")).text == NOT_BEGUN


async def test_a_conversation_that_is_switched_thinks_with_the_other_until_its_reset(tmp_path: Path) -> None:
    """Also after a restart, and what it may read is what that one may."""
    models = Asked()
    async with running(tmp_path, settings(), parts=models.parts) as person:
        assert "I am offline" in await person.say("hello")
        assert f"thinks with {WIDE}" in await person.say(f"/model {WIDE}")
        assert f"I am {WIDE}" in await person.say("hello")
        (row,) = [row.body async for row in person.app.chains.records(person.sid) if row.body.get("cause") == "/model"]
        assert (row["model"], row["verdict"]) == (WIDE, "ALLOW")
        told = await person.say(f"/simulate read_file {json.dumps({'path': 'confidential/pipeline.md'})}")
        assert told.lstrip().startswith("ALLOW")
    async with running(tmp_path, settings(), parts=models.parts) as person:
        assert f"I am {WIDE}" in await person.say("hello again")
        await person.say("/reset confirm")
        assert "I am offline" in await person.say("hello")
        assert "thinks with offline" in await person.say("/model")


async def test_read_is_decided_before_it_happens_what_was_read_must_flow_to_the_other_model(tmp_path: Path) -> None:
    async with running(tmp_path, settings(), parts=Asked().parts) as person:
        await person.say("hello")
        await person.say(f"/model {WIDE}")
        await person.say("/taint raise CONFIDENTIAL")
        for name in ("offline", NARROW):
            told = await person.say(f"/model {name}")
            assert f"Refused: /model {name}." in told
            assert "read_is_decided_before_it_happens" in told
            assert "reset" in told
        assert (await person.state()).model == WIDE
        assert f"I am {WIDE}" in await person.say("and now?")


async def test_the_fall_backs_are_asked_after_the_chosen_one(tmp_path: Path) -> None:
    models = Asked(WIDE)
    async with running(tmp_path, settings(retries=0), parts=models.parts) as person:
        await person.say("hello")
        await person.say(f"/model {WIDE}")
        assert f"I am {BACK}" in await person.say("hello?")
        assert not models.made[NARROW].asked


async def test_a_choice_that_is_not_configured_any_more_is_none(tmp_path: Path) -> None:
    async with running(tmp_path, settings(), parts=Asked().parts) as person:
        await person.say("hello")
        await person.say(f"/model {WIDE}")
    async with running(tmp_path, settings(choices=[NARROW]), parts=Asked().parts) as person:
        assert "thinks with offline" in await person.say("/model")
        assert "I am offline" in await person.say("hello")
        # What it reads is bounded by that one again.
        assert "Refused: " in await person.say("/taint raise CONFIDENTIAL")


async def test_in_a_shared_chat_only_an_approver_switches(tmp_path: Path) -> None:
    async with running(tmp_path, settings(), parts=Asked().parts) as person:
        await person.say("hello")
        chat = Address("console", "owner", recipient="owner")
        assert (await asked(person, f"/model {WIDE}", chat=chat)).text == NOT_HERE
        assert (await person.state()).model == ""
        assert f"with {WIDE}" in (await asked(person, f"/model {WIDE}", chat=chat, role=Role.APPROVER)).text
        assert (await person.state()).model == WIDE


async def test_what_is_asked_for_wrongly_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, settings(), parts=Asked().parts) as person:
        await person.say("hello")
        assert "There is no model `openai:wid`, did you mean `openai:wide`?" in await person.say("/model openai:wid")
        assert "Write it as `/model [NAME]`" in await person.say("/model a b")
        assert "This conversation thinks with offline" in await person.say("/model offline")
        await person.say("/taint raise INTERNAL")
        assert (await asked(person, "/model")).label == parse("INTERNAL")
        assert (await asked(person, "/model nothing")).label == PUBLIC
