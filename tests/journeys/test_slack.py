"""Stories told over Slack: the real command line listens to a Slack that is played on loopback."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from bot.store.opening import open_store
from channels.slack.setup import SCOPES
from tests.journeys import test_telegram
from tests.journeys.machine import Machine, policy
from tests.journeys.test_telegram import PATIENCE, call
from tests.people import principal
from tests.sim.ports import free_port
from tests.sim.slack import Slack, slack
from tests.sim.slack_blocks import shown
from tests.sim.slack_people import Person
from tests.sim.slack_state import Channel, Message
from tests.sim.telegram import Telegram, telegram
from tests.store.world import command

pytestmark = pytest.mark.anyio

Settings = dict[str, Any]
READ: Final = call("read_file", path="confidential/pipeline.md")


def account(person: Person) -> str:
    return f"slack:{person.member.team}:{person.id}"


def config(server: Slack, ann: Person, **people: tuple[Person, str, str]) -> Settings:
    """Return a configuration: ann owns the bot, `people` have roles and clearances, others may be paired."""
    known = {name: (account(person), role, clearance) for name, (person, role, clearance) in people.items()}
    return {
        "channels": {"slack": {"token": "BOT_TOKEN", "app_token": "APP_TOKEN", "base_url": server.api}},
        "policy": policy("slack", account(ann), known),
    }


@asynccontextmanager
async def listening(machine: Machine, server: Slack, settings: Settings, **more: str) -> AsyncGenerator[None]:
    """Run `lockgate run` until it listens, and end it as an operator does."""
    tokens = {"BOT_TOKEN": server.bot.value, "APP_TOKEN": server.app_token, **more}
    async with machine.listening(json.dumps(settings), tokens):
        async with asyncio.timeout(PATIENCE):
            await server.sockets.connected()
        yield


def said(channel: Channel, thread: Message | None = None) -> list[str]:
    """Return what the bot said in a channel or a thread, and what it showed somebody alone there."""
    mine = [each for each in channel.messages if each.user.startswith("B") and not each.deleted]
    return [shown(each.body) for each in mine if thread is None or each.thread == thread.ts]


def buttons(message: Message) -> list[str]:
    """Return what the buttons of a message are called."""
    return [str(key["action_id"]) for block in message.blocks for key in block.get("elements", ()) if "value" in key]


async def hears(server: Slack, channel: Channel, words: str) -> str:
    """Wait until the bot said something with these words in a channel; return it."""
    await server.until(lambda: any(words in text for text in said(channel)), PATIENCE)
    return next(text for text in said(channel) if words in text)


async def classified(server: Slack, ann: Person, channel: Channel, label: str) -> None:
    """Let ann classify a channel, and see that it is."""
    await ann.runs(f"/lockgate classify {label}", channel)
    await hears(server, channel, f"classified {label}")


async def test_first_contact_and_pairing(tmp_path: Path) -> None:
    """A stranger learns how to ask and nothing else; the owner lets him in; he talks to the agent."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        async with listening(Machine(tmp_path, fresh=True), server, config(server, ann)):
            await ben.says(ben.dm(), "hello? what do you know about the pipeline?")
            told = await hears(server, ben.dm(), "You are not known here.")
            code = re.search(r"code ([0-9a-z]{8})", told)
            assert code is not None
            await ann.says(ann.dm(), "!pair list")
            await hears(server, ann.dm(), f"`{account(ben)}` asks")
            await ann.runs(f"/lockgate pair approve {code[1]} ben")
            await hears(server, ann.dm(), "ben")
            await ben.says(ben.dm(), "hello again")
            await hears(server, ben.dm(), "You said: hello again")
            assert not any("You said: hello?" in text for text in said(ben.dm()))


async def test_an_admin_classifies_a_new_channel_and_a_question_is_answered_in_its_thread(tmp_path: Path) -> None:
    """A channel hears nothing until an admin says what it may hear; then a question is answered where it was asked."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        harbour = server.channel("harbour", ann, ben, kind="private")
        async with listening(Machine(tmp_path), server, config(server, ann, ben=(ben, "member", "INTERNAL"))):
            asked = await ben.mentions(harbour, "what is public?")
            await hears(server, harbour, "until an admin classifies this chat")
            (only,) = [each for each in harbour.messages if each.user == server.bot.user]
            assert only.shown_to == ben.id
            await classified(server, ann, harbour, "INTERNAL")
            await ben.says(harbour, "just between us")
            asked = await ben.mentions(harbour, "what is public now?")
            await hears(server, harbour, "what is public now?")
            (answer,) = said(harbour, asked)
            assert "You said: what is public now?" in answer
            other = await ben.mentions(harbour, "and later?")
            await hears(server, harbour, "and later?")
            assert len(said(harbour, other)) == 1
            assert not any("between us" in text for text in said(harbour))


async def test_refused_in_a_channel_continued_in_private(tmp_path: Path) -> None:
    """What a channel may not hear is refused there in one sentence; whoever asked is offered, alone, to go on."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        harbour = server.channel("harbour", ann, ben, kind="private")
        settings = config(server, ann, ben=(ben, "member", "INTERNAL"))
        settings["policy"]["channels"]["slack"]["overshoot"] = "ask"
        async with listening(Machine(tmp_path), server, settings):
            await classified(server, ann, harbour, "INTERNAL")
            await ann.mentions(harbour, READ)
            await server.until(lambda: [each for each in harbour.messages if buttons(each)], PATIENCE)
            (offer,) = [each for each in harbour.messages if buttons(each)]
            assert offer.shown_to == ann.id
            await ann.presses(offer, buttons(offer)[0])
            await hears(server, ann.dm(), "Veldhaven")
            assert not any("Veldhaven" in text for text in ben.sees(harbour))
            await ann.says(ann.dm(), "!taint")
            await hears(server, ann.dm(), "Taint CONFIDENTIAL~.")


async def test_background_research_reports_back_in_its_thread(tmp_path: Path) -> None:
    """Somebody sends a helper to look something up; its report comes to where it was asked for."""
    async with slack() as server:
        ann = server.user("ann")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            await ann.says(ann.dm(), call("sessions_spawn", task=call("list_files", path="public"), title="public"))
            told = await hears(server, ann.dm(), "[result of background session")
            assert "welcome.md" in told


async def test_reset_and_send(tmp_path: Path) -> None:
    """Having read something confidential, a person forgets it in two steps and sends what was refused before."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        settings = config(server, ann, ben=(ben, "member", "PUBLIC"))
        place = {"channel": "slack", "workspace": server.team.id, "chat": ben.dm().id, "clearance": "PUBLIC"}
        settings["policy"]["recipients"] = {"bens-chat": place}
        tell = call("message", channel="slack", recipient="bens-chat", text="we open at nine")
        async with listening(Machine(tmp_path), server, settings):
            await ann.says(ann.dm(), READ)
            await hears(server, ann.dm(), "Veldhaven")
            await ann.says(ann.dm(), tell)
            await hears(server, ann.dm(), "Refused: message.")
            await ann.says(ann.dm(), "!reset")
            await hears(server, ann.dm(), "reset confirm")
            await ann.says(ann.dm(), "!reset confirm")
            await hears(server, ann.dm(), "A new conversation begins, taint PUBLIC")
            await ann.says(ann.dm(), tell)
            await hears(server, ben.dm(), "we open at nine")


async def test_stop_ends_what_waits_for_an_answer(tmp_path: Path) -> None:
    """A question waits for a person who thinks better of it: nothing is sent, and its buttons do nothing any more."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        settings = config(server, ann, ben=(ben, "member", "INTERNAL"))
        place = {"channel": "slack", "workspace": server.team.id, "chat": ben.dm().id, "clearance": "INTERNAL"}
        settings["policy"]["recipients"] = {"bens-chat": place}
        async with listening(Machine(tmp_path), server, settings):
            await ann.says(ann.dm(), call("read_file", path="public/welcome.md"))
            await hears(server, ann.dm(), "read_file:")
            await ann.says(ann.dm(), call("message", channel="slack", recipient="bens-chat", text="we open at nine"))
            await hears(server, ann.dm(), "May `message` run")
            await ann.runs("/lockgate stop")
            await hears(server, ann.dm(), "Stopping")
            await ann.says(ann.dm(), "thanks")
            await hears(server, ann.dm(), "You said: thanks")
            assert said(ben.dm()) == []


@asynccontextmanager
async def both(machine: Machine, chat: Telegram, server: Slack, settings: Mapping[str, Any]) -> AsyncGenerator[None]:
    """Listen to both platforms in one process."""
    tokens = {"BOT_TOKEN": server.bot.value, "APP_TOKEN": server.app_token, "TELEGRAM_TOKEN": chat.token}
    async with machine.listening(json.dumps(settings), tokens):
        async with asyncio.timeout(PATIENCE):
            await server.sockets.connected()
        yield


async def test_an_admin_answers_on_telegram_what_was_asked_on_slack(tmp_path: Path) -> None:
    """A rule asks an admin before something is sent; she is on the other platform, and her answer counts there."""
    async with slack() as server, telegram() as chat:
        ann, ben, guest = chat.user("Ann"), server.user("ben"), server.user("gus")
        settings = config(server, ben)
        policy = settings["policy"]
        policy["principals"] = {
            "ann": principal("console:owner", f"telegram:{ann.id}"),
            "ben": principal(account(ben), role="member", clearance="INTERNAL"),
        }
        policy["channels"]["telegram"] = {"classification": "CONFIDENTIAL", "overshoot": "allow"}
        place = {"channel": "slack", "workspace": server.team.id, "chat": guest.dm().id, "clearance": "INTERNAL"}
        policy["recipients"] = {"gus": place}
        rule = {"id": "ask-an-admin", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
        policy["rules"] = [{**rule, "approvers": ["owner"]}]
        settings["channels"]["telegram"] = {
            "token": "TELEGRAM_TOKEN",
            "base_url": f"http://127.0.0.1:{chat.port}",
        }
        ann.says(None, "/whoami")
        async with both(Machine(tmp_path), chat, server, settings):
            await test_telegram.hears(chat, ann.private, "You are ann")
            await ben.says(ben.dm(), call("message", channel="slack", recipient="gus", text="the quay opens at nine"))
            await hears(server, ben.dm(), "message")
            ann.says(None, "/approvals")
            listed = await test_telegram.hears(chat, ann.private, "/approve")
            found = re.search(r"/approve ([0-9a-z]{8})", listed)
            assert found is not None
            assert not any("quay" in text for text in said(guest.dm()))
            ann.says(None, f"/approve {found[1]}")
            await hears(server, guest.dm(), "the quay opens at nine")


async def test_ones_home_shows_ones_sessions_and_what_they_have_read(tmp_path: Path) -> None:
    async with slack() as server:
        ann, eve = server.user("ann"), server.user("eve")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            await ann.says(ann.dm(), READ)
            await hears(server, ann.dm(), "Veldhaven")
            await ann.opens_home()
            await server.until(ann.home, PATIENCE)
            assert "CONFIDENTIAL~" in shown(ann.home())
            await eve.opens_home()
            await server.until(eve.home, PATIENCE)
            assert "You are not known here." in shown(eve.home())
            assert "CONFIDENTIAL" not in shown(eve.home())


async def test_another_workspace_installs_the_bot_and_takes_it_off(tmp_path: Path) -> None:
    """The operator makes a link, an admin elsewhere agrees, people there talk to the bot, until it is taken off."""
    machine = Machine(tmp_path)
    port = free_port()
    async with slack() as server:
        ann, app, there = server.user("ann"), server.state.app, server.workspace("elsewhere")
        olga = server.user("olga", there)
        back = f"http://127.0.0.1:{port}/slack/installed"
        app.redirect_urls = (back,)
        settings = config(server, ann, olga=(olga, "member", "INTERNAL"))
        settings["channels"]["slack"]["install"] = {"client_id": app.client_id, "url": back, "port": port}
        secret = {"SLACK_CLIENT_SECRET": app.client_secret}
        async with listening(machine, server, settings, **secret):
            made = await asyncio.to_thread(lambda: machine.fresh.run("slack", "install", **secret))
            assert (made.code, made.err) == (0, "")
            server.http.consents = olga.id
            async with aiohttp.ClientSession() as session:
                for expected in ("the bot is installed", "this link counts no more"):
                    async with session.get(made.out.strip()) as page:
                        assert expected in await page.text()
            await olga.says(olga.dm(), "hello from elsewhere")
            await hears(server, olga.dm(), "You said: hello from elsewhere")
            await server.uninstalls(there)
            told = await asyncio.to_thread(lambda: machine.run("audit", "tail", "--json"))
            assert '"install_link"' in told.out
            assert made.out.partition("state=")[2].strip() not in told.out


async def test_a_link_that_the_store_refuses_to_keep_is_told_as_the_store_tells_it(tmp_path: Path) -> None:
    """The store's user may do all but keep what adapters keep, and the operator is told to grant that."""
    machine = Machine(tmp_path)
    async with slack() as server:
        settings = config(server, server.user("ann"))
        url = "http://127.0.0.1:1/slack/installed"
        settings["channels"]["slack"]["install"] = {"client_id": "1.2", "url": url, "port": 1}
    (machine.folder / "config.yaml").write_text(json.dumps(settings))
    store = await open_store(audit_key=bytes(32), data=tmp_path / "kept")
    await command(store, "ACL", "SETUSER", "guest", "on", ">right", "+@all", "~lg:{audit}:*", "~lg:right:*")
    assert store.server is not None
    there = {"LOCKGATE_STORE_URL": f"unix://guest:right@{store.server.files.socket}", "SLACK_CLIENT_SECRET": "s"}
    told = await asyncio.to_thread(lambda: machine.run("slack", "install", **there))
    await store.close()
    assert (told.code, told.out) == (2, "")
    assert "grant that user the rights that docs/several-machines.md lists" in told.err


async def test_the_doctor_says_what_is_wrong_and_how_to_mend_it(tmp_path: Path) -> None:
    """A scope is missing, the token for sockets is a wrong one, and an operator is told what to do about each."""
    machine = Machine(tmp_path)
    async with slack(scopes=[scope for scope in SCOPES if scope != "users:read"]) as server:
        (machine.folder / "config.yaml").write_text(json.dumps(config(server, server.user("ann"))))
        tokens = {"BOT_TOKEN": server.bot.value, "APP_TOKEN": "xapp-wrong"}
        told = await asyncio.to_thread(lambda: machine.run("doctor", **tokens))
    assert told.code == 2
    lines = [line for line in told.out.splitlines() if line.startswith("mend  channel slack")]
    assert "`users:read`" in str(lines)
    assert "app-level token" in str(lines)
    assert all(", " in line for line in lines)
    assert not any(token in told.out + told.err for token in tokens.values())


def test_the_manifest_needs_no_token(machine: Machine) -> None:
    made = machine.run("slack", "manifest")
    assert (made.code, made.err) == (0, "")
    assert json.loads(made.out)["settings"]["socket_mode_enabled"] is True
    refused = machine.run("slack", "install")
    assert (refused.code, "channels.slack.install" in refused.err) == (2, True)


async def test_an_answer_that_did_not_arrive_is_told_before_the_next(tmp_path: Path) -> None:
    """Slack takes nothing for Ann for a while; she learns what she missed."""
    async with slack() as server:
        ann = server.user("ann")
        async with listening(Machine(tmp_path), server, config(server, ann)):
            await ann.says(ann.dm(), "zero")
            await hears(server, ann.dm(), "You said: zero")
            lost = server.fails("chat.postMessage", error="is_archived")
            lost.meets = lambda method, args: method == "chat.postMessage" and "first" in str(args)  # type: ignore[method-assign]
            await ann.says(ann.dm(), "first")
            await server.until(lambda: any(one.answer.get("error") == "is_archived" for one in server.calls), PATIENCE)
            await ann.says(ann.dm(), "second")
            await hears(server, ann.dm(), "You said: second")
            assert [text for text in said(ann.dm()) if "could not be delivered" in text and "!history" in text]
