"""The ids by which things are traced."""

from typing import Final

import pytest

from bot.lineage import names

SID: Final = "a2" * 16


def test_each_id_names_what_it_was_made_of() -> None:
    assert names.event_named(names.event_id(SID, 7)) == (SID, 7)
    assert names.delivery_named(names.delivery_id(SID, "t/u-answer")) == SID
    assert names.session_named(SID) == SID
    assert names.run_named(names.run_name("r1")) == "r1"
    assert names.schedule_named(names.schedule_id("s_1")) == "s_1"
    assert names.file_named(names.file_id("public/a b.md", SID, "0f")) == ("public/a b.md", "", "0f")
    assert names.file_named(names.file_id("workspace/a@b.md", SID, "0f")) == ("workspace/a@b.md", SID, "0f")
    assert names.file_named(names.file_id("workspace/a.md", SID)) == ("workspace/a.md", SID, "")
    assert names.is_found_anywhere(names.webhook_id("w1", SID))


@pytest.mark.parametrize("name", [names.event_id(SID, 3), names.call_name(SID, "c"), names.held_name(SID, "h"), SID])
def test_what_is_in_a_session_names_it(name: str) -> None:
    assert names.session_in(name) == SID


@pytest.mark.parametrize("name", ["mem_1", "file:public/a.md", f"file:workspace/x@{SID}", "", "call", SID[:-1]])
def test_anything_else_is_in_none(name: str) -> None:
    assert names.session_in(name) == ""


def test_rows_of_the_audit_are_told_apart() -> None:
    assert names.row_named("audit:7")
    assert names.row_named(f"{SID}:0123456789ab")
    assert not names.row_named(f"{SID}-7")
    assert not names.row_named("run:7")
    assert not names.row_named("file:audit:7")


@pytest.mark.parametrize("name", [f"{SID}-0", f"{SID}-x", "7", f"{SID}-"])
def test_other_texts_name_no_event(name: str) -> None:
    assert names.event_named(name) is None
