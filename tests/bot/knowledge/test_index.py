"""The index of one label: what it finds, in which order, and that no query is too hostile to be looked up."""

import asyncio
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import OperatorError
from bot.knowledge.index import EMPTY_WEIGHT, LabelIndex, phrases, require_search
from bot.sessions.knowledge.memories import Memory, MemoryChanges, MemoryState
from policy.labels import PUBLIC
from tests.store.world import learned

pytestmark = pytest.mark.anyio

FORGOTTEN, CORRECTED = MemoryState.FORGOTTEN, MemoryState.CORRECTED
ABROAD = (
    "数据库的密码在保险箱里",
    "パスワードは金庫の中にあります",
    "비밀번호는 금고에 있습니다",
    "รหัสผ่านอยู่ในตู้เซฟ",
    "पासवर्ड तिजोरी में है",
    "Пароль лежит в сейфе",
    "كلمة المرور في الخزنة",
    "Das Paßwort liegt im Schließfach",
)


def known(name: str, text: str, domain: str = "", at: int = 5) -> Memory:
    return Memory(name, "ann", PUBLIC, text, at, "ann", domain)


def follow(index: LabelIndex, *changed: Memory) -> None:
    index.follow(index.version, MemoryChanges(index.version + len(changed), changed))


@contextmanager
def indexed(*texts: str) -> Generator[LabelIndex]:
    """Yield an index of texts; their ids are their places, from `0`."""
    with closing(LabelIndex()) as index:
        follow(index, *(known(str(number), text) for number, text in enumerate(texts)))
        yield index


def found(index: LabelIndex, query: str, most: int = 100, domain: str = "") -> list[str]:
    return [hit.id for hit in index.search(phrases(query), most=most, domain=domain)]


def test_any_word_counts_and_the_best_match_comes_first() -> None:
    with indexed("tea is at four", "coffee is at ten", "tea and coffee are free") as index:
        assert found(index, "Are tea or coffee free?") == ["2", "1", "0"]
        assert sorted(found(index, "tea")) == ["0", "2"]
        assert found(index, "lemonade") == []


@pytest.mark.parametrize(
    "text, query",
    [
        ("We deployed on Tuesday", "deploy"),
        ("the deploys of a week", "DEPLOYING"),
        ("Zürich is cold", "zurich"),
        ("Zu\u0308rich is cold", "Zürich"),
        ("\uff46\uff55\uff4c\uff4c width", "full"),
        ("the key is a-b_c.d", "a_b"),
        ("order 66-77", "77"),
        ("数据库的密码在保险箱里", "密码是什么"),
        ("数据库的密码在保险箱里", "箱"),
        ("パスワードは金庫の中", "金庫"),
        ("비밀번호는 금고에 있습니다", "금고"),
        ("รหัสผ่านอยู่ในตู้เซฟ", "ตู้เซฟ"),
        ("पासवर्ड तिजोरी में है", "तिजोरी"),
        ("Пароль лежит в сейфе", "пароль"),
        ("ein \ud800 halbes Zeichen", "zeichen \udfff"),
        ("a nul \x00 within", "within\x00a"),
        ("x" * 5_000, "x" * 5_000),
    ],
)
def test_words_are_found(text: str, query: str) -> None:
    with indexed("nothing like it", text, "また別のこと") as index:
        assert found(index, query) == ["1"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "???",
        '"',
        '""',
        "'",
        "\x00",
        "\ud800",
        "*",
        "^",
        "-",
        "()",
        "\u0301",
        "😀",
        "--;",
        "%",
        "\u200b\ufeff",
        "_",
    ],
)
def test_what_has_no_word_finds_nothing(query: str) -> None:
    with indexed("tea", "😀", '"', "(", "NULL") as index:
        assert found(index, query) == []


@pytest.mark.parametrize(
    "query",
    [
        'tea" OR "coffee',
        "tea OR",
        "AND tea",
        "NOT tea",
        "tea NEAR(coffee, 2)",
        "{text}: tea",
        "text:tea",
        "- text : tea",
        "tea*",
        "^tea",
        "(tea",
        'tea"',
        "tea\x00'; DROP TABLE kept; --",
        "tea " * 2_500,
        " ".join(f"w{number}" for number in range(2_000)) + " ",
        "\ufdfa" * 10_000,
        "茶" * 10_000,
        "tea" + "\u0301" * 9_000,
        "'" * 9_000 + " tea",
    ],
)
def test_no_query_is_read_as_the_syntax_of_the_database(query: str) -> None:
    with indexed("tea is at four", "coffee is at ten", "or and not near text") as index:
        assert ("0" in found(index, query)) == ("tea" in query)
        assert found(index, "tea") == ["0"]


@given(st.lists(st.text(max_size=200), max_size=5), st.text(max_size=300), st.sampled_from(["", "a", "'", "\x00"]))
def test_nothing_is_too_hostile(texts: list[str], query: str, domain: str) -> None:
    with indexed(*texts, *ABROAD) as index:
        assert len(found(index, query, domain=domain)) <= len(texts) + len(ABROAD)
        follow(index, *(replace(known(str(n), ""), state=FORGOTTEN) for n in range(len(texts) + len(ABROAD))))
        assert (index.documents, index.weight) == (0, EMPTY_WEIGHT)


@given(st.sampled_from(ABROAD), st.data())
def test_every_part_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    words = text.split()
    begin = data.draw(st.integers(0, len(words) - 1))
    query = " ".join(words[begin : data.draw(st.integers(begin + 1, len(words)))])
    with indexed("something else", text) as index:
        assert found(index, query) == ["1"]


def test_phrases_are_the_longest_words() -> None:
    assert phrases("The tea, the TEA — and coffee!") == ("coffee", "The", "tea", "and")
    assert phrases("茶在四点 at 4") == ("茶 在", "在 四", "四 点", "at", "4")
    # Of marks in a row no more count than are sorted in a moment.
    (marked,) = phrases("a" + "\u0344\u0334" * 4_990)
    assert len(marked) < 100
    many = phrases(" ".join("w" * length for length in range(1, 100)))
    assert (len(many), len(many[-1])) == (64, 36)
    assert phrases("x " * 5_000 + "behind") == ("x",)


def test_of_equal_matches_the_newest_comes_first_and_as_many_as_asked() -> None:
    with indexed(*["tea is at four"] * 30) as index:
        assert found(index, "tea", most=3) == ["29", "28", "27"]


def test_what_is_about_something_else_is_not_found() -> None:
    with closing(LabelIndex()) as index:
        follow(index, known("a", "tea", "office"), known("b", "tea", "home"), known("c", "tea"))
        assert sorted(found(index, "tea", domain="office")) == ["a", "c"]
        assert found(index, "tea", domain="of") == ["c"]
        assert found(index, "office") == []


@pytest.mark.parametrize("state", [FORGOTTEN, CORRECTED])
def test_what_is_kept_no_more_leaves_nothing(state: MemoryState) -> None:
    """The scores, and so the order, are what they would be had it never been there."""
    texts = ["tea tea coffee", "tea and a long text about coffee", "coffee", "water", "tea"]
    with indexed(*texts) as never, indexed(*texts) as had:
        more = [known(f"x{number}", f"tea number {number}") for number in range(40)]
        follow(had, *more)
        assert "x7" in found(had, "tea coffee")
        follow(had, *(replace(one, text="", state=state) for one in more))
        assert found(had, "tea coffee") == found(never, "tea coffee")
        assert (had.weight, had.documents) == (never.weight, 5)
        assert found(had, "number") == []


def test_changes_that_do_not_follow_are_left() -> None:
    with indexed("tea") as index:
        index.follow(0, MemoryChanges(7, (known("late", "tea"),)))
        assert (index.version, found(index, "tea")) == (1, ["0"])
        follow(index, known("0", "tea"))
        assert (index.version, index.documents, found(index, "tea")) == (2, 1, ["0"])


def test_corrections_hide_until_they_are_forgotten() -> None:
    with closing(LabelIndex()) as index:
        assert index.corrected(["low"]) == frozenset()
        one = replace(known("y", "coffee"), corrects="low")
        follow(index, known("x", "tea"), one)
        assert index.corrected(["low", "x", "y"]) == {"low"}
        weight = index.weight
        follow(index, one)
        follow(index, replace(one, state=CORRECTED), replace(known("z", "water"), corrects="y"))
        assert index.corrected(["low", "y"]) == {"low", "y"}
        follow(index, replace(one, state=FORGOTTEN, text=""))
        assert index.corrected(["low", "y"]) == {"y"}
        follow(index, replace(one, state=FORGOTTEN, text=""))
        assert index.weight < weight


def many(number: int, *rare: str) -> Iterator[str]:
    yield from rare
    for place in range(number):
        yield f"the tea of day {place}"


def test_the_commonest_words_are_left_out_where_others_tell_more() -> None:
    with indexed(*many(5_000, "a quiet place of the sea", "the sea")) as index:
        assert sorted(found(index, "the tea of the sea")) == ["0", "1"]
        # Once it is known that a word is too common, it is not counted again.
        assert sorted(found(index, "the tea of the sea")) == ["0", "1"]
        assert found(index, "the tea", most=3) == ["5001", "5000", "4999"]
        assert found(index, "day 17 of the tea", most=1) == ["19"]


def test_a_word_is_common_as_long_as_it_is() -> None:
    with indexed("tea tea tea", *many(5_000)) as index:
        assert found(index, "tea", most=1) == ["5000"]
        follow(index, *(replace(known(str(n), ""), state=FORGOTTEN) for n in range(3, 5_001)))
        assert found(index, "tea") == ["0", "2", "1"]


def test_where_all_words_are_common_what_has_several_goes_first() -> None:
    texts = ["tea and coffee", "no coffee but tea", *["tea"] * 4_100, *["coffee", "water"] * 4_100]
    with indexed(*texts) as index:
        assert found(index, "tea coffee", most=4) == ["1", "0", "12300", "12298"]
        assert found(index, "tea coffee water", most=3) == ["1", "0", "12300"]
        assert len(found(index, "tea", most=9_000)) == 4_102


def test_a_closed_index_finds_and_follows_nothing() -> None:
    index = LabelIndex()
    assert found(index, "tea") == []
    follow(index, known("a", "tea"))
    index.close()
    index.close()
    assert found(index, "tea") == []
    assert index.corrected(["a"]) == frozenset()
    follow(index, known("b", "tea"))
    assert (index.version, found(index, "tea")) == (1, [])


def test_a_change_that_fails_is_taken_back() -> None:
    with indexed("tea") as index:
        with pytest.raises(sqlite3.Error):
            follow(index, known("1", "tea"), replace(known("2", "tea"), learned_at=object()))  # type: ignore[arg-type]
        assert (index.version, index.documents) == (1, 1)
        assert found(index, "tea") == ["0"]


async def test_it_is_searched_while_it_follows() -> None:
    with closing(LabelIndex()) as index:
        numbers = count()

        def add() -> None:
            for _ in range(20):
                follow(index, *(known(str(next(numbers)), "tea at four") for _ in range(20)))

        def look() -> list[int]:
            return [len(found(index, "tea", most=1_000)) for _ in range(50)]

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(add))
            looks = [tasks.create_task(asyncio.to_thread(look)) for _ in range(3)]
        assert all(sizes(one.result()) for one in looks)
        assert len(await asyncio.to_thread(found, index, "tea", 1_000)) == 400


def sizes(seen: Iterable[int]) -> bool:
    """Say whether what was seen grows by whole changes."""
    told = list(seen)
    return told == sorted(told) and all(one % 20 == 0 for one in told)


def test_a_database_without_search_is_told_at_once() -> None:
    require_search()
    with pytest.raises(OperatorError, match=r"SQLite [0-9.]+ cannot search text, .*no such module: fts0") as told:
        require_search("fts0")
    assert "FTS5" in told.value.next_step


def test_memories_as_the_store_tells_them() -> None:
    with closing(LabelIndex()) as index:
        one = learned(text="tea is at four")
        follow(index, one)
        ((hit),) = index.search(phrases("tea"), most=5)
        assert (hit.id, hit.learned_at) == (one.id, one.learned_at)


def test_the_newest_are_those_learned_last() -> None:
    with closing(LabelIndex()) as index:
        assert (index.newest(most=9), index.corrections(), index.held(["a"])) == ((), frozenset(), frozenset())
        follow(index, known("a", "x", at=7), known("b", "x", "office", at=9), known("c", "x", "home", at=8))
        follow(index, known("d", "x", at=7), replace(known("e", "x", at=1), corrects="gone"))
        assert [hit.id for hit in index.newest(most=9)] == ["b", "c", "a", "d", "e"]
        assert [hit.id for hit in index.newest(most=3, domain="home")] == ["c", "a", "d"]
        follow(index, replace(known("b", ""), state=FORGOTTEN))
        assert [hit.id for hit in index.newest(most=1)] == ["c"]
        assert (index.corrections(), index.held(["a", "b", "x"])) == ({"gone"}, {"a"})
        follow(index, replace(known("e", ""), corrects="gone", state=FORGOTTEN))
        assert index.corrections() == frozenset()
