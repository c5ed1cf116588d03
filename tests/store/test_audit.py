"""The audit chain's arithmetic, its key and its anchors, without a store."""

# pyright: reportPrivateUsage=false

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.audit.chain import (
    EMPTY,
    AnchorFile,
    Broken,
    Intact,
    OlderKey,
    canonical,
    chained,
    verify,
)
from bot.core import keys as core_keys
from bot.core.errors import DiskError, OperatorError
from bot.core.keys import load_or_create_key, parse_key
from bot.sessions.audit import AuditRow
from tests.store.world import KEY, SIGNERS

TEXT = st.text(st.characters(exclude_categories=()))
ROWS = st.lists(st.builds(AuditRow, TEXT, TEXT, st.dictionaries(TEXT, TEXT | st.integers())), min_size=1, max_size=5)


@given(ROWS)
def test_a_chain_verifies_with_its_key_and_name_only(rows: list[AuditRow]) -> None:
    records = chained(KEY, "c", EMPTY, rows, ts=7)
    head = (len(records), records[-1].hash)
    assert verify("c", records, claimed=head, anchor=head, signers=SIGNERS) == Intact(*head)
    assert isinstance(verify("d", records, claimed=head, anchor=EMPTY, signers=SIGNERS), Broken)
    assert isinstance(verify("c", records, claimed=head, anchor=EMPTY, signers=(OlderKey(bytes(32)),)), Broken)


@given(ROWS, ROWS)
def test_a_chain_goes_on_from_its_head(first: list[AuditRow], second: list[AuditRow]) -> None:
    one = chained(KEY, "c", EMPTY, first, ts=7)
    two = chained(KEY, "c", (one[-1].n, one[-1].hash), second, ts=8)
    assert isinstance(
        verify("c", [*one, *two], claimed=(two[-1].n, two[-1].hash), anchor=EMPTY, signers=SIGNERS), Intact
    )


@given(ROWS)
def test_different_rows_have_different_bytes(rows: list[AuditRow]) -> None:
    records = chained(KEY, "c", EMPTY, rows, ts=7)
    assert len({canonical(record) for record in records}) == len(records)


@pytest.mark.parametrize("name", ["arguments", "file"])
def test_a_digest_of_what_may_be_guessed_is_kept_under_the_key(name: str) -> None:
    row = AuditRow("decision", "ann", {name: "0" * 64, "tool": "read_file"})
    kept, again, other = (chained(key, "c", EMPTY, [row], ts=7)[0].body for key in (KEY, KEY, bytes(32)))
    assert kept == again != other
    assert kept["tool"] == "read_file"
    assert "0" * 64 not in str(kept)


def test_an_anchor_of_another_record_shows() -> None:
    records = chained(KEY, "c", EMPTY, [AuditRow("k", "a", {})] * 2, ts=7)
    head = (2, records[1].hash)
    assert verify("c", records, claimed=head, anchor=(1, "f" * 64), signers=SIGNERS) == Broken(
        1, "record 1 is not the one that was anchored"
    )
    assert isinstance(verify("c", [], claimed=EMPTY, anchor=EMPTY, signers=SIGNERS), Intact)
    assert verify("c", records[1:], claimed=head, anchor=EMPTY, signers=SIGNERS) == Broken(1, "record 1 is missing")
    assert verify("c", records, claimed=EMPTY, anchor=EMPTY, signers=SIGNERS) == Broken(
        1, "the chain ends at 2, the session's record says 0"
    )


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key"
    key = load_or_create_key(path)
    assert (len(key), path.stat().st_mode & 0o777) == (32, 0o600)
    assert load_or_create_key(path) == key
    assert [one.name for one in path.parent.iterdir()] == ["key"]


def test_the_first_of_two_makers_wins(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = load_or_create_key(path)
    core_keys._create_key(path)
    assert load_or_create_key(path) == first


def test_a_key_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(OperatorError, match="does not hold 32 bytes"):
        load_or_create_key(tmp_path / "short")
    with pytest.raises(OperatorError, match="cannot read or make"):
        load_or_create_key(tmp_path / "short" / "key")


def test_a_key_from_the_environment() -> None:
    assert parse_key(KEY.hex()) == KEY
    for wrong in ("", "zz", "ab" * 31):
        with pytest.raises(OperatorError, match="64 hexadecimal digits"):
            parse_key(wrong)


def test_anchors_are_kept_and_only_rise(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    mine, yours = AnchorFile(path, KEY), AnchorFile(path, KEY)
    assert mine.heads() == {}
    mine.record({"a": (1, "x"), "b \ud800": (1, "y")})
    yours.record({"a": (2, "z")})
    mine.record({"a": (1, "x")})
    mine.record({})
    assert mine.heads() == yours.heads() == AnchorFile(path, KEY).heads() == {"a": (2, "z"), "b \ud800": (1, "y")}
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_a_file_that_grew_the_new_lines_are_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    mine, yours = AnchorFile(path, KEY), AnchorFile(path, KEY)
    mine.record({"a": (1, "x"), "b": (1, "y")})
    assert yours.heads() == {"a": (1, "x"), "b": (1, "y")}
    with path.open("r+b") as file:
        # In the place of what both have read: a process that reads it all finds that, and these need not.
        file.write(b"[x")
    yours.record({"b": (2, "z")})
    assert mine.heads() == {"a": (1, "x"), "b": (2, "z")}
    with pytest.raises(OperatorError, match=r"line 1 of .* was changed"):
        AnchorFile(path, KEY).heads()


def test_a_file_that_took_the_place_of_another_is_read_as_a_whole(tmp_path: Path) -> None:
    path, other = tmp_path / "anchors", tmp_path / "other"
    mine = AnchorFile(path, KEY)
    mine.record({"a": (1, "x")})
    AnchorFile(other, KEY).record({f"{n}": (n, "y") for n in range(1, 9)})
    # A disk gives the number of a file that is gone to a new one, so that they look alike.
    path.write_bytes(other.read_bytes())
    assert mine.heads() == {f"{n}": (n, "y") for n in range(1, 9)}
    mine.record({"1": (2, "z")})
    assert AnchorFile(path, KEY).heads()["1"] == (2, "z")


def test_lines_that_another_process_changed_show_in_a_file_that_grew(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    mine = AnchorFile(path, KEY)
    mine.record({"a": (1, "x")})
    path.write_bytes(path.read_bytes() + b'["a", 2, "y"] ' + b"0" * 64 + b"\n")
    for _ in range(2):
        with pytest.raises(OperatorError, match=r"line 2 of .* was changed"):
            mine.heads()


def test_the_file_is_written_anew_when_most_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    anchors = AnchorFile(path, KEY)
    for n in range(1, 30):
        anchors.record({"a": (n, "x"), "b": (n, "y")})
    assert len(path.read_text().splitlines()) <= 8
    assert AnchorFile(path, KEY).heads() == {"a": (29, "x"), "b": (29, "y")}


def test_a_torn_last_line_is_no_tampering(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    AnchorFile(path, KEY).record({"a": (1, "x"), "b": (1, "y")})
    path.write_bytes(path.read_bytes()[:-5])
    anchors = AnchorFile(path, KEY)
    assert anchors.heads() == {"a": (1, "x")}
    anchors.record({"b": (2, "y")})
    assert AnchorFile(path, KEY).heads() == {"a": (1, "x"), "b": (2, "y")}


@pytest.mark.parametrize("lines", [(0, 2), (1, 0, 2), (0, 0, 1, 2)])
def test_changed_anchors_show(tmp_path: Path, lines: tuple[int, ...]) -> None:
    path = tmp_path / "anchors"
    AnchorFile(path, KEY).record({"a": (1, "x"), "b": (1, "y"), "c": (1, "z")})
    written = path.read_text().splitlines(keepends=True)
    path.write_text("".join(written[n] for n in lines))
    with pytest.raises(OperatorError, match="was changed"):
        AnchorFile(path, KEY).heads()


def test_anchors_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot read or write"):
        AnchorFile(tmp_path / "file" / "anchors", KEY).record({"a": (1, "x")})


def test_anchors_that_could_not_be_kept_are_kept_once_they_can(tmp_path: Path) -> None:
    anchors, file = AnchorFile(tmp_path / "anchors", KEY), tmp_path / "anchors"
    anchors.record({"a": (1, "x")})
    draft = tmp_path / ".anchors.draft"
    draft.mkdir()
    with pytest.raises(DiskError, match="cannot read or write"):
        # Most of it is stale by then, so it is written anew beside itself.
        _record(anchors, *range(2, 100))
    lost = anchors.heads()["a"][0]
    assert lost == AnchorFile(file, KEY).heads()["a"][0]
    draft.rmdir()
    anchors.record({"a": (100, "x")})
    assert AnchorFile(file, KEY).heads() == {"a": (100, "x")}


def _record(anchors: AnchorFile, *numbers: int) -> None:
    for n in numbers:
        anchors.record({"a": (n, "x")})
