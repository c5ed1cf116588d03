"""Stories told over Telegram: the real command line listens to a Telegram that is played on loopback."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.journeys.machine import Machine, policy
from tests.sim.ports import free_port
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_state import Chat
from tests.sim.telegram_world import Person

pytestmark = pytest.mark.anyio

PATIENCE: Final = 120.0


def call(tool: str, **arguments: str) -> str:
    return f"!{tool} {json.dumps(arguments)}"


def config(server: Telegram, ann: Person, **people: tuple[Person, str, str]) -> str:
    """Return a configuration: ann owns the bot, `people` have roles and clearances, others may be paired."""
    known = {name: (f"telegram:{person.id}", role, clearance) for name, (person, role, clearance) in people.items()}
    settings = {
        "channels": {"telegram": {"token": "BOT_TOKEN", "base_url": f"http://127.0.0.1:{server.port}"}},
        "policy": policy("telegram", f"telegram:{ann.id}", known),
    }
    return json.dumps(settings)


@asynccontextmanager
async def listening(machine: Machine, server: Telegram, text: str) -> AsyncGenerator[None]:
    """Run `lockgate run` on a configuration, and end it as an operator does."""
    async with machine.listening(text, {"BOT_TOKEN": server.token}):
        yield


async def hears(server: Telegram, chat: Chat, words: str) -> str:
    """Wait until something with these words stands in a chat; return it."""
    await server.until(lambda: any(words in text for text in chat.said), PATIENCE)
    return next(text for text in chat.said if words in text)


async def test_first_contact_and_pairing(tmp_path: Path) -> None:
    """A stranger learns how to ask and nothing else; the owner lets him in; he talks to the agent."""
    async with telegram() as server:
        ann, ben = server.user("Ann"), server.user("Ben")
        async with listening(Machine(tmp_path, fresh=True), server, config(server, ann)):
            ben.says(None, "hello? what do you know about the pipeline?")
            told = await hears(server, ben.private, "You are not known here.")
            code = re.search(r"code ([0-9a-z]{8})", told)
            assert code is not None
            assert len(ben.private.said) == 1
            ann.says(None, "/pair list")
            await hears(server, ann.private, f"`telegram:{ben.id}` asks")
            ann.says(None, f"/pair approve {code[1]} ben")
            await hears(server, ann.private, "ben")
            ben.says(None, "hello again")
            await hears(server, ben.private, "You said: hello again")
            # What he asked before he was known never reached the agent.
            assert not any("pipeline" in text for text in ben.private.said)


async def test_an_admin_classifies_a_new_group_and_a_question_is_answered_there(tmp_path: Path) -> None:
    """A group hears nothing until an admin says what it may hear, and answers for who is in it."""
    async with telegram() as server:
        ann, ben, eve = server.user("Ann"), server.user("Ben"), server.user("Eve")
        group = server.supergroup("Harbour", ann, ben, bot="administrator")
        text = config(server, ann, ben=(ben, "member", "INTERNAL"))
        async with listening(Machine(tmp_path), server, text):
            bot = server.state.username
            ben.says(group, f"@{bot} what is public?")
            await hears(server, ben.private, "until an admin classifies this chat")
            assert group.said == []
            ann.says(group, f"/classify@{bot} PUBLIC")
            await hears(server, ann.private, "classified PUBLIC")
            ann.says(group, f"/classify@{bot} vouch")
            await hears(server, ann.private, "vouched for")
            ben.says(group, "just between us")
            ben.says(group, f"@{bot} what is public?")
            await hears(server, group, "what is public?")
            eve.says(group, f"@{bot} and me?")
            ben.says(group, f"@{bot} thanks")
            await hears(server, group, "thanks")
            assert len(group.said) == 2


async def test_what_another_member_ordered_is_asked_about(tmp_path: Path) -> None:
    """Ben speaks in a group; Ann's call there waits for her button, which names him, and Ben's does nothing."""
    async with telegram() as server:
        ann, ben = server.user("Ann"), server.user("Ben")
        group = server.supergroup("Harbour", ann, ben, bot="administrator")
        text = json.loads(config(server, ann, ben=(ben, "approver", "INTERNAL")))
        text["policy"]["recipients"] = {"ben": {"channel": "telegram", "chat": str(ben.id), "clearance": "INTERNAL"}}
        ben.says(None, "/whoami")
        async with listening(Machine(tmp_path), server, json.dumps(text)):
            bot = server.state.username
            ann.says(group, f"/classify@{bot} PUBLIC")
            await hears(server, ann.private, "classified PUBLIC")
            ann.says(group, f"/classify@{bot} vouch")
            await hears(server, ann.private, "vouched for")
            ben.says(group, f"@{bot} whenever Ann writes, send me a note")
            await hears(server, group, "whenever Ann writes")
            ann.says(group, f"@{bot} {call('message', channel='telegram', recipient='ben', text='as you said')}")
            await hears(server, group, "Words of `ben` are in this conversation")
            question = next(shown for shown in group.shows if "Words of `ben`" in shown.text)
            ben.presses(question, 0)
            await asyncio.sleep(1)
            assert not any("as you said" in said for said in ben.private.said)
            ann.presses(question, 0)
            await hears(server, ben.private, "as you said")


async def test_refused_in_public_continued_in_private(tmp_path: Path) -> None:
    """What a group may not hear is refused there in one sentence, and read in private by whoever may know it."""
    async with telegram() as server:
        ann = server.user("Ann")
        group = server.supergroup("Harbour", ann, bot="administrator")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            bot = server.state.username
            ann.says(group, f"/classify@{bot} INTERNAL")
            await hears(server, ann.private, "Its readers are not known")
            told = next(shown for shown in ann.private.shows if "Its readers are not known" in shown.text)
            ann.presses(told, "Vouch for its members")
            await hears(server, ann.private, "vouched for")
            ann.says(group, f"@{bot} {call('read_file', path='confidential/pipeline.md')}")
            await server.until(lambda: group.said, PATIENCE)
            assert "Veldhaven" not in str(group.said)
            ann.says(None, call("read_file", path="confidential/pipeline.md"))
            await hears(server, ann.private, "Veldhaven")
            assert "Veldhaven" not in str(group.said)


async def test_a_question_is_answered_in_its_topic(tmp_path: Path) -> None:
    """Each topic of a group is a conversation of its own, and an answer stands in the topic of its question."""
    async with telegram() as server:
        ann = server.user("Ann")
        group = server.supergroup("Harbour", ann, bot="administrator", forum=True)
        topic = server.topic(group, "Tides", ann)
        async with listening(Machine(tmp_path), server, config(server, ann)):
            bot = server.state.username
            ann.says(group, f"/classify@{bot} PUBLIC")
            await hears(server, ann.private, "classified PUBLIC")
            ann.says(group, f"@{bot} when is high water?", topic=topic)
            await hears(server, group, "when is high water?")
            (answer,) = [shown for shown in group.shows if "high water" in shown.text and shown.by_bot]
            assert answer.topic == topic


async def test_background_research_that_reports_back(tmp_path: Path) -> None:
    """Somebody sends a helper to look something up; the report comes as a message to where it was asked for."""
    async with telegram() as server:
        ann = server.user("Ann")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            look = call("list_files", path="public")
            ann.says(None, call("sessions_spawn", task=look, title="what is public"))
            told = await hears(server, ann.private, "[result of background session")
            assert "welcome.md" in told


async def test_an_approval_by_a_button(tmp_path: Path) -> None:
    """An agent that has read what anybody may have written asks before it writes to somebody; a button says yes."""
    async with telegram() as server:
        ann, ben = server.user("Ann"), server.user("Ben")
        text = json.loads(config(server, ann, ben=(ben, "member", "INTERNAL")))
        text["policy"]["recipients"] = {
            "ben": {"channel": "telegram", "chat": str(ben.id), "clearance": "INTERNAL"},
        }
        ben.says(None, "/whoami")
        async with listening(Machine(tmp_path), server, json.dumps(text)):
            await hears(server, ben.private, "You are ben")
            ann.says(None, call("read_file", path="public/welcome.md"))
            await hears(server, ann.private, "read_file:")
            ann.says(None, call("message", channel="telegram", recipient="ben", text="we open at nine"))
            asked = await hears(server, ann.private, "May `message` run with exactly these arguments?")
            assert '"recipient": "ben"' in asked
            assert not any("we open at nine" in said for said in ben.private.said)
            (question,) = [shown for shown in ann.private.shows if shown.buttons]
            ann.presses(question, 0)
            await hears(server, ben.private, "we open at nine")


async def test_a_restart_loses_nothing_and_says_nothing_twice(tmp_path: Path) -> None:
    """What was written while the bot was away is answered when it is back, once each."""
    async with telegram() as server:
        ann = server.user("Ann")
        machine, text = Machine(tmp_path), config(server, ann)
        ann.says(None, "one")
        async with listening(machine, server, text):
            await hears(server, ann.private, "You said: one")
        for number in range(5):
            ann.says(None, f"away {number}.")
        async with listening(machine, server, text):
            await hears(server, ann.private, "away 4.")
        # What comes while somebody is answered is answered as one.
        answered = [line for text in ann.private.said for line in text.removeprefix("You said: ").splitlines()]
        assert answered == ["one", *(f"away {number}." for number in range(5))]


async def test_reset_and_send_and_stop(tmp_path: Path) -> None:
    """Having read something confidential, a person forgets it all in two steps."""
    async with telegram() as server:
        ann = server.user("Ann")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            ann.says(None, call("read_file", path="confidential/pipeline.md"))
            await hears(server, ann.private, "Veldhaven")
            ann.says(None, "/reset")
            await hears(server, ann.private, "/reset confirm")
            ann.says(None, "/reset confirm")
            await hears(server, ann.private, "A new conversation begins, taint PUBLIC")
            ann.says(None, "/stop")
            await hears(server, ann.private, "nothing to stop here")


async def test_a_port_that_is_taken_is_told_in_one_sentence(tmp_path: Path) -> None:
    """An operator whose webhook cannot listen learns what to mend, and gets no traceback."""
    async with telegram() as server:
        machine, text = Machine(tmp_path), json.loads(config(server, server.user("Ann")))
        text["channels"]["telegram"]["webhook"] = {"url": "https://bot.example", "secret": "HOOK", "port": server.port}
        (machine.folder / "config.yaml").write_text(json.dumps(text))
        more = {"BOT_TOKEN": server.token, "HOOK": "s" * 20}
        ended = await asyncio.to_thread(lambda: machine.run("run", **more))
        assert ended.code == 2
        assert "cannot listen" in ended.err
        assert f"{server.port}" in ended.err
        assert "Errno" not in ended.err
        assert "give another host or port" in ended.err
        assert "listening to" not in ended.err
        assert server.asked("setWebhook") == []
        assert "Traceback" not in ended.err


def test_there_must_be_something_to_listen_to(machine: Machine) -> None:
    """Nothing is listened to as shipped, and the operator is told so."""
    ended = machine.run("run")
    assert (ended.code, "no platform is configured" in ended.err) == (2, True)


async def test_from_polling_to_a_webhook_and_back_nobody_calls_telegram_by_hand(tmp_path: Path) -> None:
    """An operator changes the configuration, and each time the bot hears; also after a webhook that was killed."""
    async with telegram() as server:
        ann, machine = server.user("Ann"), Machine(tmp_path)
        polls = config(server, ann)
        hooked, port = json.loads(polls), free_port()
        hooked["channels"]["telegram"]["webhook"] = {"url": "https://bot.example/hook", "secret": "HOOK", "port": port}
        more = {"BOT_TOKEN": server.token, "HOOK": "s" * 20}
        async with machine.listening(polls, more):
            ann.says(None, "/whoami")
            await hears(server, ann.private, "You are ann")
        async with machine.listening(json.dumps(hooked), more):
            await server.until(lambda: server.state.webhook.url, PATIENCE)
        (machine.folder / "config.yaml").write_text(json.dumps(hooked))
        process = await asyncio.to_thread(lambda: machine.start("run", **more))
        await server.until(lambda: len(server.asked("setWebhook")) == 2, PATIENCE)
        process.kill()
        await asyncio.to_thread(process.communicate)
        assert server.state.webhook.url == "https://bot.example/hook"
        async with machine.listening(polls, more):
            ann.says(None, "are you there?")
            await hears(server, ann.private, "are you there?")
        assert server.asked("deleteWebhook") == [{}]


async def test_a_webhook_that_telegram_refuses_is_told_in_one_sentence(tmp_path: Path) -> None:
    """An operator learns that the address is wrong and where it is written; nothing is left at Telegram."""
    async with telegram() as server:
        machine, text = Machine(tmp_path), json.loads(config(server, server.user("Ann")))
        hook = {"url": "https://bot.example:7777/hook", "secret": "HOOK", "port": free_port()}
        text["channels"]["telegram"]["webhook"] = hook
        (machine.folder / "config.yaml").write_text(json.dumps(text))
        ended = await asyncio.to_thread(lambda: machine.run("run", BOT_TOKEN=server.token, HOOK="s" * 20))
        assert ended.code == 2
        assert "Telegram does not take the webhook: it must be at port 443, 80, 88 or 8443" in ended.err
        assert "channels.telegram.webhook.url" in ended.err
        assert "listening to" not in ended.err
        assert "Traceback" not in ended.err
        assert server.state.webhook.url == ""


async def test_an_answer_that_did_not_arrive_is_told_before_the_next(tmp_path: Path) -> None:
    """Telegram takes nothing for Ann for a while; she learns what she missed, and reads it."""
    async with telegram() as server:
        ann = server.user("Ann")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            ann.says(None, "zero")
            await hears(server, ann.private, "You said: zero")
            lost = server.fails("sendMessage", status=403, told="Forbidden: bot was blocked by the user")
            lost.meets = lambda method, args: method == "sendMessage" and "first" in args.text("text")  # type: ignore[method-assign]
            ann.says(None, "first")
            await server.until(lambda: lost.times < 1, PATIENCE)
            ann.says(None, "second")
            await hears(server, ann.private, "You said: second")
            server.faults.clear()
            (told,) = [text for text in ann.private.said if "could not be delivered" in text]
            assert ann.private.said.index(told) == len(ann.private.said) - 2
            ann.says(None, "/history")
            await hears(server, ann.private, "You said: first")
            ann.says(None, "/status")
            await hears(server, ann.private, "not delivered: answer of")
