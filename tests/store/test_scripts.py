"""The scripts' words are those of Python: a misspelt one would be nothing to Lua, and say so nowhere."""

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

import pytest

from bot.sessions.approvals import ApprovalState
from bot.sessions.background.run_states import Breaker, EndReason, Priority, RunStatus
from bot.sessions.background.schedules import ScheduleStatus
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus, QueueMode
from bot.sessions.knowledge.memories import MemoryState
from bot.sessions.knowledge.skills import SkillState
from bot.sessions.models import Status
from bot.store.records.kinds import STATE
from bot.store.records.names import NAMES
from bot.store.scripts.loader import KEYS, Script, script_text

FOLDER: Final = files("bot.store").joinpath("scripts")
SHARED: Final = ("prelude", "write")
TEXTS: Final = {name: FOLDER.joinpath(f"{name}.lua").read_text("utf-8") for name in (*SHARED, *map(str, Script))}
WORDS: Final[dict[str, Iterable[str]]] = {
    "Status": Status,
    "Item": ItemStatus,
    "Approval": ApprovalState,
    "Delivery": DeliveryState,
    "QueueMode": QueueMode,
    "RunStatus": RunStatus,
    "EndReason": EndReason,
    "Breaker": Breaker,
    "Priority": Priority,
    "ScheduleStatus": ScheduleStatus,
    "MemoryState": MemoryState,
    "SkillState": SkillState,
    "S": {field.name for field in STATE.fields},
    "F": NAMES,
}


def used(text: str, table: str) -> set[str]:
    """Return the names that a script looks up in a table."""
    return set(re.findall(rf"(?<![\w.]){table}\.(\w+)", re.sub(r"--.*", "", text)))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("table", WORDS)
def test_what_a_script_looks_up_is_there(name: str, table: str) -> None:
    assert used(TEXTS[name], table) <= set(WORDS[table])


@pytest.mark.parametrize("name", TEXTS)
def test_a_script_changes_fields_that_a_session_has(name: str) -> None:
    changed = set(re.findall(r"\b(?:set|set_label|drop|count)\((?:F\.(\w+)|'(\w+)')", TEXTS[name]))
    assert {short or long for short, long in changed} <= {field.name for field in STATE.fields}
    assert not {long for _, long in changed if long}


@pytest.mark.parametrize("script", Script)
def test_a_script_names_the_keys_that_it_is_given(script: Script) -> None:
    assert used(TEXTS[script], "K") <= set(KEYS[script])


@pytest.mark.parametrize(
    "wrong", ["Status.rested", "K.log", "F.nothing", "S.st", "{st = 1}", "Delivery.gone", "NOTICE.text"]
)
def test_a_text_with_a_name_that_is_not_there_is_refused(wrong: str) -> None:
    """A field that nobody stores may not bear the stored name of another, `st` here, as it would be read as that."""
    with pytest.raises(KeyError):
        script_text(Script.RENEW, TEXTS["prelude"], f"return {wrong}")


def test_a_script_is_given_what_python_says() -> None:
    text = "return {K.state, Status.idle, SCHEMA, F.label, S.label, one.body, {label = one.label == 'label'}, A.label}"
    given = script_text(Script.RENEW, "", text).text
    assert given == "return {KEYS[1], 'idle', 2, 'l', S.l, one.b, {l = one.l == 'label'}, A.label}"


def test_stored_names_are_names_to_lua() -> None:
    keywords = {"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil"}
    keywords |= {"not", "or", "repeat", "return", "then", "true", "until", "while"}
    assert all(stored.isidentifier() and stored not in keywords for stored in NAMES.values())
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_session_is_doing_is_no_text_of_a_script(name: str) -> None:
    assert not re.search(r"S\.status\s*[=~]=\s*'|set\(F\.status,\s*'", TEXTS[name])
