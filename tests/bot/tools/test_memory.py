"""What an agent learns and finds again: with which label, who may know of it, and who may change it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.access.principals import of_chat
from bot.core.errors import FullError, NotFoundError, in_words
from bot.knowledge import keeper
from bot.sessions.knowledge.memories import Memory, MemoryState
from bot.tools import arguments as checking
from bot.tools.base import CallFacts, RefusedCallError, Result, ToolContext
from bot.tools.catalogue import ARGUMENTS
from bot.tools.knowledge.memory import ABOVE, FINDS, FOUND, ONLY, MemoryTool
from channels.messages import Address
from policy.conditions.variables import ABSENT
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP, Services, policy, tool_context
from tests.conventions.documents import ROOT
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


def tool(owner: Person) -> MemoryTool:
    knowledge = owner.app.knowledge
    return MemoryTool(knowledge.keeper, knowledge.search)


def at(owner: Person, taint: Label = PUBLIC, /, **changes: object) -> ToolContext:
    return tool_context(taint, **{"key": "k", "now": owner.app.clock.wall_ms(), **changes})


async def call(owner: Person, context: ToolContext, services: Services | None = None, /, **given: object) -> Result:
    made = tool(owner)
    checking.checked(made, json.loads(json.dumps(given)))
    arguments = made.arguments.model_validate_json(json.dumps(given))
    made.declare(arguments, context)
    return await made.run(arguments, context, services or Services())


async def learn(owner: Person, text: str, taint: Label = PUBLIC, /, **given: object) -> str:
    return json.loads((await call(owner, at(owner, taint, key=text), action="learn", text=text, **given)).text)["id"]


async def recall(owner: Person, query: str, taint: Label = PUBLIC, /, **given: object) -> tuple[list[Any], Label]:
    told = await call(owner, at(owner, taint, key=f"{query}?"), action="recall", query=query, **given)
    assert not told.failed, told.text
    document = json.loads(told.text)
    assert document["note"] == ONLY
    return document["memories"], told.label


async def find(owner: Person, name: str, reader: Label = TOP) -> Memory:
    return await owner.app.knowledge.keeper.find("owner", reader, name)


async def test_what_is_learned_is_recalled_corrected_and_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        context = at(owner, key="one")
        context = replace(context, session=replace(context.session, authors=("mel",)))
        given = {"action": "learn", "text": "The ferry leaves at nine.", "domain": "harbor"}
        made = await call(owner, context, **given)
        # The same call again, after a crash, is the same memory.
        assert await call(owner, context, **given) == made
        name = json.loads(made.text)["id"]
        assert name.startswith("mem_")
        kept = await find(owner, name)
        assert (kept.label, kept.asker, kept.by_agent, kept.sid, kept.authors) == (
            PUBLIC,
            "owner",
            True,
            "s1",
            ("mel",),
        )
        ((one,), label) = await recall(owner, "ferry")
        told = {"text": "The ferry leaves at nine.", "domain": "harbor", "label": "PUBLIC"}
        assert (one, label) == ({"id": name, **told, "learned_at": kept.learned_at}, PUBLIC)
        assert (await recall(owner, "ferry", domain="kitchen"))[0] == []

        right = await call(owner, at(owner, key="two"), action="correct", id=name, text="The ferry leaves at ten.")
        new = json.loads(right.text)
        assert new["corrects"] == name
        again = await call(owner, at(owner, key="two"), action="correct", id=name, text="The ferry leaves at ten.")
        assert again.text == right.text
        ((one,), _) = await recall(owner, "ferry")
        assert (one["id"], one["text"], one["domain"]) == (new["id"], "The ferry leaves at ten.", "harbor")
        assert (await find(owner, name)).corrected_by == new["id"]

        gone = await call(owner, at(owner), action="forget", id=new["id"])
        assert json.loads(gone.text) == {"id": new["id"], "status": "forgotten"}
        assert (await call(owner, at(owner), action="forget", id=new["id"])).text == gone.text
        assert (await recall(owner, "ferry"))[0] == []
        left = await find(owner, name), await find(owner, new["id"])
        assert [(one.state, one.text) for one in left] == [(MemoryState.FORGOTTEN, "")] * 2
        assert left[1].corrects == name


@pytest.mark.parametrize(
    "given, why",
    [
        ({"action": "learn"}, "memory with action `learn` needs `text`"),
        ({"action": "learn", "query": "x"}, "memory with action `learn` needs `text`"),
        ({"action": "recall", "text": None}, "memory with action `recall` needs `query`"),
        ({"action": "correct"}, "memory with action `correct` needs `id` and `text`"),
        ({"action": "correct", "id": "mem_0"}, "memory with action `correct` needs `text`"),
        ({"action": "forget", "text": "x"}, "memory with action `forget` needs `id`"),
        ({"action": "forget", "id": "mem_0", "text": "x"}, "memory with action `forget` takes no `text`"),
        ({"action": "learn", "text": "x", "up_to": "PUBLIC", "limit": 3}, "`learn` takes no `limit` and `up_to`"),
        ({"action": "recall", "query": "x", "up_to": "SECRET"}, "SECRET"),
        ({"action": "recall", "query": "x", "up_to": "PUBLIC{nowhere}"}, "unknown compartment `nowhere`"),
        ({"action": "recall", "query": "x", "limit": 51}, "`limit` should be less than or equal to 50"),
        ({"action": "erase"}, "`action` should be 'learn', 'recall', 'correct' or 'forget'"),
        ({"action": "learn", "text": "x" * 4001}, "`text` should have at most 4000 characters"),
        ({"action": "learn", "text": "x", "label": "PUBLIC"}, "`label` is not one of its arguments"),
    ],
)
async def test_what_an_action_needs_is_told_by_its_name(tmp_path: Path, given: dict[str, object], why: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(RefusedCallError) as refused:
            await call(owner, at(owner), **given)
        assert why in str(refused.value)


async def test_a_call_says_beforehand_what_it_may_meet(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        made, context = tool(owner), at(owner, INTERNAL, ceiling=CONFIDENTIAL)

        def declared(**given: object) -> CallFacts:
            return made.declare(made.arguments.model_validate_json(json.dumps(given)), context)

        assert declared(action="learn", text="x") == CallFacts(clearance=CONFIDENTIAL, once=True)
        seen = CallFacts(result=INTERNAL, clearance=CONFIDENTIAL, once=True)
        assert declared(action="recall", query="x") == seen
        assert declared(action="recall", query="x", up_to="CONFIDENTIAL") == replace(seen, result=CONFIDENTIAL)
        changes = replace(seen, consequential=True)
        assert declared(action="correct", id="mem_0", text="x") == declared(action="forget", id="mem_0") == changes
        recalls = made.arguments.model_validate_json('{"action": "recall", "query": "x"}')
        assert await made.foresee(recalls, context) == [FOUND]
        assert await made.foresee(recalls, at(owner, DIRTY)) == []
        assert await made.foresee(recalls.model_copy(update={"action": "learn"}), context) == []


async def test_it_is_known_where_its_label_flows_to(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        low = await learn(owner, "tea at four")
        high = await learn(owner, "tea at five", CONFIDENTIAL)
        assert [one["id"] for one in (await recall(owner, "tea"))[0]] == [low]
        found, label = await recall(owner, "tea", CONFIDENTIAL)
        assert ({one["id"] for one in found}, label) == ({low, high}, CONFIDENTIAL)
        # Absent and above are one answer, byte for byte.
        for action, more in (("forget", {}), ("correct", {"text": "x"})):
            unknown = await call(owner, at(owner), action=action, id="mem_nothing", **more)
            assert await call(owner, at(owner), action=action, id=high, **more) == unknown
            assert unknown.text == in_words(NotFoundError(next_step=FINDS))
            # Another principal's is absent, too.
            other = at(owner, CONFIDENTIAL, principal="mel")
            assert (await call(owner, other, action=action, id=high, **more)).text == unknown.text


async def test_up_to_raises_first_whatever_is_found(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        assert await recall(owner, "tea", up_to="CONFIDENTIAL") == ([], CONFIDENTIAL)
        low = await learn(owner, "tea at four")
        high = await learn(owner, "tea at five", CONFIDENTIAL)
        found, label = await recall(owner, "tea", up_to="CONFIDENTIAL")
        assert ({one["id"] for one in found}, label) == ({low, high}, CONFIDENTIAL)
        # A session that has read more may ask for less.
        assert [one["id"] for one in (await recall(owner, "tea", CONFIDENTIAL, up_to="PUBLIC"))[0]] == [low]


async def test_a_recall_is_of_a_domain_and_as_many_and_a_correction_names_another(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        names = [await learn(owner, f"tea number {number}", domain="kitchen") for number in range(12)]
        assert len((await recall(owner, "tea"))[0]) == 10
        assert len((await recall(owner, "tea", limit=3))[0]) == 3
        assert len((await recall(owner, "tea", limit=50, domain="kitchen"))[0]) == 12
        await call(owner, at(owner, key="c"), action="correct", id=names[0], text="coffee", domain="office")
        ((one,), _) = await recall(owner, "coffee", domain="office")
        assert (one["text"], one["domain"]) == ("coffee", "office")


async def test_what_is_forgotten_shows_no_less_than_the_session_has_read(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        low = await learn(owner, "tea at four")
        refused = await call(owner, at(owner, CONFIDENTIAL), action="forget", id=low)
        assert (refused.failed, refused.text) == (True, ABOVE)
        assert (await find(owner, low)).state is MemoryState.KEPT


async def test_what_waits_above_a_session_raises_nothing_that_it_learns(tmp_path: Path) -> None:
    """It is known where the session's words are; the session is named to those alone who may know of it."""
    async with running(tmp_path, serve=False) as owner:
        context = at(owner, key="l")
        above = replace(context, session=replace(context.session, visibility=CONFIDENTIAL))
        low = json.loads((await call(owner, above, action="learn", text="tea at four")).text)["id"]
        kept = await find(owner, low)
        assert (kept.label, kept.sid) == (PUBLIC, "")
        assert [one["id"] for one in (await recall(owner, "tea"))[0]] == [low]
        assert not (await call(owner, above, action="forget", id=low)).failed


async def test_a_correction_from_above_is_seen_above_alone(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        low = await learn(owner, "tea at four")
        made = await call(owner, at(owner, CONFIDENTIAL, key="c"), action="correct", id=low, text="tea at six")
        high = json.loads(made.text)["id"]
        assert (await find(owner, high)).label == CONFIDENTIAL
        assert (await find(owner, low)).state is MemoryState.KEPT
        assert [one["id"] for one in (await recall(owner, "tea"))[0]] == [low]
        assert [one["id"] for one in (await recall(owner, "tea", CONFIDENTIAL))[0]] == [high]


async def test_what_anybody_wrote_never_stands_in_the_place_of_what_is_trusted(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = await learn(owner, "tea at four")
        made = await call(owner, at(owner, DIRTY, key="c"), action="correct", id=name, text="tea at six")
        new = json.loads(made.text)["id"]
        assert (await find(owner, new)).label == DIRTY
        # To what is TRUSTED it is as if nobody had corrected anything.
        ((one,), label) = await recall(owner, "tea")
        assert (one["id"], label) == (name, PUBLIC)
        ((one,), label) = await recall(owner, "tea", up_to="PUBLIC~")
        assert (one["id"], one["label"], label) == (new, "PUBLIC~", DIRTY)
        absent = await call(owner, at(owner), action="forget", id="mem_nothing")
        assert await call(owner, at(owner), action="forget", id=new) == absent
        # The words of both are gone.
        await call(owner, at(owner, DIRTY), action="forget", id=new)
        assert (await recall(owner, "tea", DIRTY))[0] == []
        assert [(await find(owner, one)).text for one in (name, new)] == ["", ""]


async def test_what_may_not_enter_the_context_is_left_out(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = await learn(owner, "tea at four", DIRTY)
        careful = Services(lambda label: not label.untrusted)
        told = await call(owner, at(owner, DIRTY), careful, action="recall", query="tea")
        assert (json.loads(told.text)["memories"], told.label) == ([], DIRTY)
        for action, more in (("forget", {}), ("correct", {"text": "x"})):
            refused = await call(owner, at(owner, DIRTY), careful, action=action, id=name, **more)
            assert refused.text == in_words(NotFoundError(next_step=FINDS))
        # What was left out was not recalled.
        assert await owner.app.knowledge.keeper.uses("owner", TOP, name) == 0


async def test_uses_count_for_those_who_may_know_of_the_session(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = await learn(owner, "tea at four")
        for _ in range(2):
            # The same call again counts once.
            await recall(owner, "tea", CONFIDENTIAL)
        uses = owner.app.knowledge.keeper.uses
        assert (await uses("owner", PUBLIC, name), await uses("owner", CONFIDENTIAL, name)) == (0, 1)


async def test_in_a_shared_chat_any_member_may_have_worded_it(tmp_path: Path) -> None:
    team = {"channel": "console", "chat": "team", "classification": "PUBLIC"}
    async with running(tmp_path, policy(chats={"team": team}), serve=False) as owner:
        place = Address("console", "team")
        whose: dict[str, Any] = {
            "principal": of_chat(place),
            "asker": "owner",
            "home": place,
            "document": owner.app.gate.document,
        }
        await call(owner, at(owner, key="l", **whose), action="learn", text="tea at four")
        found = await call(owner, at(owner, key="r", **whose), action="recall", query="tea")
        assert (len(json.loads(found.text)["memories"]), found.label) == (1, DIRTY)
        # A group's memories are the group's.
        assert (await recall(owner, "tea"))[0] == []


async def test_no_more_is_learned_than_may_be_and_each_level_has_a_room_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"knowledge": {"memories": 1}}), serve=False) as owner:
        first = await learn(owner, "one")
        full = await call(owner, at(owner, key="two"), action="learn", text="two")
        told = in_words(FullError("memories"))
        assert (full.failed, full.text) == (True, told)
        await learn(owner, "three", parse("CONFIDENTIAL"))
        # What was corrected keeps its words, so that one in its place needs room as well.
        assert (await call(owner, at(owner, key="c"), action="correct", id=first, text="uno")).text == in_words(
            FullError("memories")
        )


async def test_values_of_secrets_are_not_kept(tmp_path: Path) -> None:
    class Scrubbing(Services):
        def mask(self, text: str) -> str:
            return text.replace("hunter2", "[secret]")

    async with running(tmp_path, serve=False) as owner:
        made = await call(owner, at(owner), Scrubbing(), action="learn", text="it is hunter2", domain="hunter2")
        kept = await find(owner, json.loads(made.text)["id"])
        assert (kept.text, kept.domain) == ("it is [secret]", "[secret]")


async def test_a_memory_has_words(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        told = await call(owner, at(owner), action="learn", text="  ")
        assert (told.failed, told.text) == (True, keeper.WORDLESS)


def test_the_arguments_that_rules_see_are_told() -> None:
    told = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"Rules see the arguments as ([^(]*)", told)
    seen = [f"arg_{name}" for name, kind in ARGUMENTS["memory"].items() if kind in ABSENT]
    assert re.findall(r"arg_\w+", line) == seen
