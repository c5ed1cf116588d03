"""The table of commands, against a real store: what each tells, to whom, and what it changes."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import bot
from bot.access.authorize import Caller, Ingress
from bot.commands import table
from bot.commands.sessions import NOTHING_SAID
from bot.core.rate_limiter import RateLimiter
from bot.sessions.events import EventType
from bot.sessions.models import Title
from bot.sessions.transcript import backwards
from bot.tools.sessions import ONLY
from channels.messages import Address
from policy.labels import PUBLIC, parse
from policy.request import Role
from tests.bot.clock import Clock
from tests.bot.kit import bang, note, policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

READ = bang("read_file", path="confidential/pipeline.md")
WRITE = bang("write_file", path="confidential/note.md", text="mine")
COUPLE = policy(
    principals={
        "owner": principal("console:owner"),
        "bea": principal("console:bea", role="member", clearance="INTERNAL"),
    },
)


def context(person: Person, caller: Caller | None = None) -> table.CommandRequest:
    """Return what a command of a caller, the owner if none is given, works with."""
    owner = Caller("owner", Role.OWNER, person.app.config.policy.top, Ingress.COMMAND)
    return person.app.commands.request(caller or owner, person.address, person.sid)


def test_every_row_is_found_by_its_name_and_begins_its_usage_with_it() -> None:
    for command in table.COMMANDS:
        assert table.find(command.name) is command
        assert table.find(f"/{command.name.upper()}") is command
        assert command.usage.split()[0] == f"/{command.name}"
        assert table.needed(f"/{command.name} x") is command.needs
    assert len({command.name for command in table.COMMANDS}) == len(table.COMMANDS)
    assert table.needed("/nothing") is Role.MEMBER


def _on_buttons(path: Path) -> Iterator[list[str]]:
    """Yield the commands that functions of a file may put on their buttons, each in all ways its gaps may be filled."""
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = tuple(ast.walk(function))
        if not any(isinstance(node, ast.Call) and ast.unparse(node.func) == "Button" for node in nodes):
            continue
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                if text.startswith("/"):
                    yield [text.format(*gaps) for gaps in product(("room:team", "PUBLIC"), repeat=text.count("{}"))]


def test_what_stands_on_a_button_may_be_pressed() -> None:
    found = [lines for path in Path(bot.__path__[0]).rglob("*.py") for lines in _on_buttons(path)]
    assert {lines[0].split()[0] for lines in found} == {
        *("/approve", "/background", "/block", "/classify", "/continue", "/deny", "/held")
    }
    assert [lines for lines in found if not any(map(table.may_be_pressed, lines))] == []


@pytest.mark.parametrize(
    "typed,told",
    [
        ("/tiant", "unknown command `/tiant`, did you mean `/taint`?"),
        ("/zzzz", "unknown command `/zzzz`, `/help` lists them"),
        ("/", "unknown command `/`, `/help` lists them"),
        (f"/{'a' * 100_000}", f"unknown command `/{'a' * 40}`, `/help` lists them"),
    ],
)
def test_an_unknown_command_is_told_with_the_nearest(typed: str, told: str) -> None:
    assert table.unknown(typed, [command.name for command in table.COMMANDS]) == told


def test_a_rate_is_kept_for_each_key_and_forgotten() -> None:
    clock = Clock()
    limiter = RateLimiter(clock, 2, seconds=10)
    assert [limiter.allows("a"), limiter.allows("a"), limiter.allows("a"), limiter.allows("b")] == [
        True,
        True,
        False,
        True,
    ]
    clock.seconds = 9.9
    assert not limiter.allows("a")
    clock.seconds = 10
    assert limiter.allows("a")
    assert limiter.allows("b")


def test_a_use_that_has_a_name_counts_once_as_long_as_it_counts() -> None:
    clock = Clock()
    limiter = RateLimiter(clock, 1, seconds=10)
    assert [limiter.allows("a", use) for use in ("one", "one", "two", "one")] == [True, True, False, True]
    clock.seconds = 10
    assert [limiter.allows("a", use) for use in ("two", "one")] == [True, False]


async def test_before_the_first_message_there_is_nothing_to_tell(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        for command in ("/status", "/taint", "/reset confirm"):
            assert "this conversation has not begun" in await person.say(command)
        assert "nothing was refused" in await person.say("/why")
        assert "nothing waits" in await person.say("/approvals")
        assert "nothing to stop" in await person.say("/stop")
        assert "nothing to raise yet" in await person.say("/taint raise INTERNAL")
        assert await person.app.store.sessions.state(person.sid) is None


async def test_help_lists_what_the_caller_may_use(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        told = await person.say("/help")
        # `/release` is offered to those alone who hold that right.
        assert {command.name for command in table.COMMANDS if f"/{command.name}: " not in told} == {"release"}
        assert "help COMMAND" in told
        assert "/taint [raise LABEL]" in await person.say("/help /taint")
        assert "unknown command `/x`" in await person.say("/help x")
        assert "only a console can be left" in await person.say("/quit")


async def test_a_command_above_the_callers_role_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        guest = Caller("gus", Role.GUEST, PUBLIC, Ingress.COMMAND)
        assert (await person.app.commands.answer(context(person, guest), "/taint")).text.startswith(
            "unknown command `/taint`"
        )


async def test_whoami_and_status_tell_clearances(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        assert "you are owner, owner, cleared for RESTRICTED~" in await person.say("/whoami")
        await person.say(READ)
        told = await person.say("/status")
        assert "status idle, taint CONFIDENTIAL~" in told
        assert "last turn completed" in told
        assert (await person.app.commands.answer(context(person), "/status")).label == parse("CONFIDENTIAL~")


@pytest.mark.parametrize(
    "command", ["/whoami x", "/status x y", "/stop x", "/why x", "/approvals x y", "/approve", "/deny a b"]
)
async def test_arguments_that_do_not_fit_give_the_usage(tmp_path: Path, command: str) -> None:
    async with running(tmp_path, serve=False) as person:
        usage = table.find(command.split(maxsplit=1)[0])
        assert usage is not None
        assert f"write it as `{usage.usage}`" in await person.say(command)


async def test_taint_tells_what_raised_it(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(bang("read_file", path="internal/handbook.md"))
        await person.say(READ)
        told = await person.say("/taint")
        assert (
            "taint CONFIDENTIAL~\n  - INTERNAL~ → CONFIDENTIAL~ by read_file\n  - PUBLIC → INTERNAL~ by read_file"
            in told
        )


async def test_a_raise_is_an_admitted_event_and_never_lowers(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("hello")
        assert "taint INTERNAL" in await person.say("/taint raise INTERNAL")
        assert "that is PUBLIC or more already" in await person.say("/taint raise PUBLIC")
        assert "taint INTERNAL~" in await person.say("/taint raise PUBLIC~")
        raised = [event for event in await person.events() if event.type is EventType.TAINT_RAISED]
        assert [(event.admitted, str(event.label)) for event in raised] == [(True, "INTERNAL"), (True, "INTERNAL~")]
        assert str((await person.state()).taint) == "INTERNAL~"
        assert "unknown compartment `hr`" in await person.say("/taint raise INTERNAL{hr}")


async def test_six_raises_are_too_many_to_list(tmp_path: Path) -> None:
    names = ["aa", "bb", "cc", "dd", "ee", "ff"]
    async with running(tmp_path, policy(compartments=names)) as person:
        await person.say("hello")
        for name in names:
            await person.say(f"/taint raise PUBLIC{{{name}}}")
        assert "and 1 raises before these" in await person.say("/taint")


async def test_a_raise_above_the_model_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, policy(models={"offline": {"clearance": "INTERNAL"}})) as person:
        await person.say("hello")
        told = await person.say("/taint raise CONFIDENTIAL")
        assert "/taint raise: refused" in told
        assert "read_is_decided_before_it_happens" in told
        assert (await person.state()).taint == PUBLIC


async def test_a_raise_while_a_turn_is_open_is_busy(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        assert "busy" in await person.say("/taint raise RESTRICTED")
        held = await person.app.store.sessions.claim(person.sid, person.app.ids.owner(), idle=True)
        assert held is not None
        assert "busy" in await person.say("/taint raise RESTRICTED", wait=False)
        await person.app.store.sessions.release(held)


async def test_why_explains_the_last_denial_of_this_generation(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(note("guest", "x"))
        told = await person.say("/why")
        assert "message: refused" in told
        assert "rule `no_write_down`" in told
        assert "you can:" in told
        await person.say("/reset confirm")
        assert "nothing was refused" in await person.say("/why")


async def test_a_simulation_is_audited_limited_and_changes_nothing(tmp_path: Path) -> None:
    config = '{"limits": {"simulations_per_minute": 2}}'
    async with running(tmp_path, config) as person:
        await person.say(READ)
        before = await person.state()
        told = await person.say('/simulate message {"channel": "console", "recipient": "guest", "text": "x"}')
        assert "BLOCK, taint CONFIDENTIAL~ → CONFIDENTIAL~" in told
        assert "fixed rule no_write_down says BLOCK" in told
        assert "depends on" in await person.say('/simulate read_file {"path": "public/welcome.md"}')
        assert "busy" in await person.say("/simulate current_time")
        assert await person.state() == before
        kinds = [(record.kind, record.actor) for record in await person.app.store.audit.records("audit")]
        assert kinds.count(("simulate", "owner")) == 2


@pytest.mark.parametrize(
    "arguments,told",
    [
        ("", "write it as"),
        ("message {", "the arguments are not JSON at character 2"),
        ("message []", "the arguments are not a JSON object"),
        ("message " + "[" * 100_000, "the arguments are not JSON"),
    ],
)
async def test_a_simulation_of_nonsense_is_told(tmp_path: Path, arguments: str, told: str) -> None:
    async with running(tmp_path, '{"limits": {"message_characters": 1000000}}', serve=False) as person:
        assert told in await person.say(f"/simulate {arguments}")


async def test_an_approval_is_answered_once(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        (approval,) = await person.app.store.approvals.of(person.sid)
        listed = await person.say("/approvals")
        assert f"{approval.id} `write_file`" in listed
        assert "10 min left" in listed
        assert f"{approval.id} approved, `write_file` goes on" in await person.say(f"/approve {approval.id.upper()}")
        await person.settled()
        assert "there is nothing of that name here" in await person.say(f"/deny {approval.id}")
        assert (tmp_path / "data/files/confidential/note.md").read_text() == "mine"


async def test_what_a_configured_rule_asks_needs_somebody_else(tmp_path: Path) -> None:
    rule = {"id": "ask-first", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    people = {
        "owner": principal("console:owner"),
        "ada": principal("console:ada", role="approver"),
    }
    async with running(tmp_path, policy(rules=[rule], principals=people)) as person:
        await person.say("!current_time {}")
        (approval,) = await person.app.store.approvals.of(person.sid)
        assert "has to answer: an" in await person.say(f"/approve {approval.id}")
        ada = Caller("ada", Role.APPROVER, person.app.config.policy.top, Ingress.COMMAND)
        assert "denied" in (await person.app.commands.answer(context(person, ada), f"/deny {approval.id}")).text


async def test_what_a_caller_may_not_know_of_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        await person.say(READ)
        await person.say(WRITE)
        (approval,) = await person.app.store.approvals.of(person.sid)
        bea = Caller("bea", Role.MEMBER, parse("INTERNAL"), Ingress.COMMAND)
        assert (
            await person.app.commands.answer(context(person, bea), "/approvals")
        ).text == "nothing waits for an answer"
        absent = await person.app.commands.answer(context(person, bea), "/approve 22222222")
        hidden = await person.app.commands.answer(context(person, bea), f"/approve {approval.id}")
        assert hidden == absent


async def test_a_reset_is_asked_before_it_is_done(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(bang("write_file", path="workspace/draft.md", text="mine"))
        before = await person.state()
        told = await person.say("/reset")
        assert "its taint CONFIDENTIAL~ becomes PUBLIC" in told
        assert (await person.state()).generation == before.generation
        assert "a new conversation begins, taint PUBLIC" in await person.say("/reset confirm")
        after = await person.state()
        assert (after.generation, after.taint) == (before.generation + 1, PUBLIC)
        assert not list((tmp_path / "data/workspaces" / person.sid).iterdir())


async def test_a_rule_can_refuse_a_reset(tmp_path: Path) -> None:
    rule = {"id": "keep-it", "hook": "SESSION_RESET", "action": "BLOCK", "message": "kept"}
    async with running(tmp_path, policy(rules=[rule])) as person:
        await person.say(READ)
        for command in ("/reset", "/reset confirm"):
            assert "/reset: refused" in await person.say(command)
        assert str((await person.state()).taint) == "CONFIDENTIAL~"


async def test_stop_cancels_what_waits(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        await person.send("one")
        await person.send("two")
        assert "nothing was running, 2 waiting messages cancelled" in await person.say("/stop", wait=False)
        assert (await person.state()).waiting_items == 0


async def test_an_answer_above_the_address_is_withheld(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        bea = replace(person, address=Address("console", "bea"), account="console:bea")
        told = await bea.say("/whoami")
        assert "you are bea, member, cleared for INTERNAL" in told


async def test_a_log_is_walked_back_through_all_of_a_generation(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("before")
        await person.say("/reset confirm")
        await person.say("after")
        await person.say("and after")
        state = await person.state()
        for window in (1, 2, 3, 1000):
            walked = [event.seq async for event in backwards(person.app.store.sessions, state, window=window)]
            assert walked == list(range(state.seq, state.generation_seq - 1, -1))


async def test_sessions_lists_the_callers_own_for_whoever_reads_here(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as owner:
        high = Person(owner.app, owner.output, Address("console", "high"))
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        await high.say(READ)
        await bea.say("hello")
        outside = Person(owner.app, owner.output, Address("console", "outside"))
        assert (await outside.say("/sessions")).splitlines()[-1].endswith(ONLY)
        assert high.sid not in owner.shown
        assert high.sid in await owner.say("/sessions")
        await owner.say("hello")
        told = await owner.say("/sessions")
        assert told.splitlines()[-1].strip() == ONLY
        assert f"{owner.sid} (this one)\n  - chat on console, idle, taint PUBLIC" in told
        assert bea.sid not in told
        assert "begin at the first page" in await owner.say("/sessions forged")
        for odd in (
            "a b",
            "kind=queue",
            "kind=chat kind=chat",
            "active=0",
            "active=x",
            "active=1" + "0" * 9,
            "who=ann",
        ):
            assert "write it as `/sessions [all] [kind=" in await owner.say(f"/sessions {odd}")


async def test_sessions_can_be_asked_for_by_kind_and_time(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for n in range(21):
            await Person(owner.app, owner.output, Address("console", f"c{n}")).send("hello")
        assert "- chat on " not in await owner.say("/sessions kind=task")
        first = await owner.say("/sessions active=1000 kind=chat")
        (more,) = [line for line in first.splitlines() if "more with" in line]
        assert "`/sessions active=1000 kind=chat " in more
        assert (await owner.say(more.split("`")[1])).count("- chat on ") == 1
        later = replace(context(owner), now=owner.app.clock.wall_ms() + 3_600_000)
        assert (await owner.app.commands.answer(later, "/sessions active=1000")).text == ONLY
        assert "- chat on " in (await owner.app.commands.answer(later, "/sessions active=100000")).text


async def test_a_history_shows_calls_and_results_if_asked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for _ in range(6):
            await owner.say(bang("current_time"))
        assert "call of" not in await owner.say("/history")
        told = await owner.say("/history tools")
        assert "agent, call of current_time, PUBLIC" in told
        assert "current_time, result of current_time, ok, PUBLIC" in told
        (more,) = [line for line in told.splitlines() if "before these" in line]
        assert more.endswith(" tools`")
        assert "call of" in await owner.say(more.split("`")[1])


async def test_sessions_are_listed_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for n in range(21):
            await Person(owner.app, owner.output, Address("console", f"c{n}")).send("hello")
        first = await owner.say("/sessions")
        assert first.count("- chat on ") == 20
        (more,) = [line for line in first.splitlines() if "more with" in line]
        assert (await owner.say(more.split("`")[1])).count("- chat on ") == 1


async def test_history_shows_what_was_said_here_or_in_another_conversation(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as owner:
        assert NOTHING_SAID in await owner.say("/history")
        other = Person(owner.app, owner.output, Address("console", "other"))
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        for person in (owner, other, bea):
            await person.say(f"token = {'ghp_' + 'a1B2' * 9}")
        told = await owner.say("/history")
        assert "2. owner, PUBLIC, " in told or "3. owner, PUBLIC, " in told
        assert "[redacted: secret]" in told
        assert "You said" in await owner.say(f"/history {other.sid}")
        for sid in (bea.sid, "nonsense"):
            assert "there is nothing of that name here" in await owner.say(f"/history {sid}")
        assert "begin at the first page" in await owner.say(f"/history {owner.sid} x")
        assert "write it as" in await owner.say("/history a b c")
        assert NOTHING_SAID in await owner.say(f"/history {owner.sid} 1")


async def test_history_goes_back_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for n in range(11):
            await owner.say(f"message {n}")
        first = await owner.say("/history")
        assert "message 0" not in first
        (more,) = [line for line in first.splitlines() if "before these" in line]
        assert "message 0" in await owner.say(more.split("`")[1])


async def test_what_an_address_is_not_cleared_for_is_not_in_its_history(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READ)
        outside = Person(owner.app, owner.output, Address("console", "guest"))
        refused = (await outside.say(f"/history {owner.sid}"), await outside.say("/history nonsense"))
        assert refused[0] == refused[1]
        assert "You said" in await owner.say("hello")


async def test_a_title_keeps_the_label_of_where_it_was_typed(tmp_path: Path) -> None:
    config = policy(channels={"console": {"inbound": "INTERNAL", "classification": "top"}})
    async with running(tmp_path, config) as owner:
        assert "nothing to name yet" in await owner.say("/name the plan")
        await owner.say("hello")
        assert "is called the plan" in await owner.say("/name  the  plan")
        assert (await owner.state()).title == Title("the plan", parse("INTERNAL"))
        assert f"{owner.sid} the plan (this one)" in await owner.say("/sessions")
        assert "at most 100 characters" in await owner.say(f"/name {'x' * 101}")
        assert "has no title" in await owner.say("/name")
        assert (await owner.state()).title is None
        await owner.say("/name again")
        await owner.say("/reset confirm")
        assert (await owner.state()).title is None
