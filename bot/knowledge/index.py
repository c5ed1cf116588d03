"""The index of a principal's memories of one label: SQLite's full-text search, in memory.

It is built from the changes in the store, and follows them: `bot.knowledge.recall` asks for them. It holds the kept
memories of its own label and no others. So a memory of another label can change neither the results here nor their
order (law `no_read_up`). Queries are never read as SQLite's own syntax: their words are looked up, any of them, and the
best match comes first. Methods may be called in any thread.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from threading import Lock
from typing import Final, cast

from bot.core.errors import OperatorError
from bot.sessions.knowledge.memories import Memory, MemoryChanges, MemoryState

LONGEST_QUERY: Final = 10_000
"""Characters of a query that are looked at."""

EMPTY_WEIGHT: Final = 40_000
"""The weight of an empty index, in characters of text: about 80 kB."""

_ROW_WEIGHT: Final = 100
"""The weight of a memory beside its text, in characters."""

_MOST_PHRASES: Final = 64
"""Words of a query that are looked up: the longest, which are seldom the commonest."""

_MOST_MATCHES: Final = 4_000
"""Matches whose score is computed, each of which takes about 2 µs: the rarest words of a query that have no more."""

_MOST_MARKS: Final = 30
"""Marks on one character that count."""

_TOGETHER: Final = 3
"""Words that are looked up together, where each of them has more matches than that."""

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts whose words are not set apart by spaces, or are joined by particles. Their characters are words of the index,
and two that follow one another are looked up together."""

_CHARACTER: Final = re.compile(f"[{_UNSPACED}]")
_RUN: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ASCII_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_OF_WORDS: Final = frozenset("LNM")
"""Letters, numbers and marks: the first letters of Unicode's categories that the index takes for parts of words."""

_SCHEMA: Final = """
PRAGMA temp_store = MEMORY;
CREATE TABLE kept (number INTEGER PRIMARY KEY, id TEXT UNIQUE, learned_at INTEGER, domain TEXT, text TEXT);
CREATE INDEX newest ON kept (learned_at, id DESC);
CREATE TABLE corrections (corrected TEXT, id TEXT, PRIMARY KEY (corrected, id)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING {engine}(
    text, content = 'kept', content_rowid = 'number',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* M*'"
);
"""
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
_SEARCH: Final = """
SELECT kept.id, kept.learned_at FROM (
    SELECT rowid AS number, {score} AS score FROM words
    WHERE words MATCH ? AND (? = '' OR EXISTS (SELECT 1 FROM kept WHERE number = words.rowid AND domain IN (?, '')))
    ORDER BY {order} LIMIT ?
) AS found JOIN kept ON kept.number = found.number ORDER BY found.score, kept.number DESC
"""
_LAST: Final = """
SELECT id, learned_at FROM kept WHERE ? = '' OR domain IN (?, '') ORDER BY learned_at DESC, id LIMIT ?
"""
_ADD: Final = "INSERT INTO kept (id, learned_at, domain, text) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_HELD: Final = "SELECT number, text FROM kept WHERE id = ?"
_CORRECT: Final = "INSERT INTO corrections (corrected, id) VALUES (?, ?) ON CONFLICT DO NOTHING"
_UNCORRECT: Final = "DELETE FROM corrections WHERE corrected = ? AND id = ?"
_ALL_CORRECTED: Final = "SELECT DISTINCT corrected FROM corrections"
_CORRECTED: Final = "SELECT 1 FROM corrections WHERE corrected = ? LIMIT 1"
_BEST: Final = _SEARCH.format(score="rank", order="rank, rowid DESC")
_NEWEST: Final = _SEARCH.format(score="0", order="rowid DESC")


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that an index found: its id, and when it was learned in milliseconds since the epoch."""

    id: str
    learned_at: int


def require_search(engine: str = "fts5") -> None:
    """Make sure that SQLite has the modules that the index needs.

    Args:
        engine: the name of SQLite's module for full-text search.

    Raises:
        OperatorError: it has not.
    """
    _database(engine).close()


def phrases(query: str) -> tuple[str, ...]:
    """Return the words of a query to look up, at most 64 of the first 10,000 characters.

    Of scripts whose words are not set apart, these are every two characters that follow one another.
    """
    found = dict[str, str]()
    for phrase in words_of(query[:LONGEST_QUERY]):
        found.setdefault(phrase.lower(), phrase)
    longest = sorted(found.values(), key=len, reverse=True)
    return tuple(longest[:_MOST_PHRASES])


def words_of(text: str) -> Iterable[str]:
    """Return the words of a text in their order.

    Of scripts whose words are not set apart, these are every two characters that follow one another, with a space.
    """
    return cast("list[str]", _ASCII_WORD.findall(text)) if text.isascii() else _runs(text)


def _runs(text: str) -> Iterator[str]:
    for word in _words(text):
        for run in _RUN.findall(word):
            yield from _pairs(run) if _CHARACTER.match(run) else (run,)


class LabelIndex:
    """The index of one label. Its memory is taken when it first follows the store, and freed by `close`.

    A closed one finds nothing and follows nothing.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._common = dict[str, int]()
        self._version = 0
        self._documents = 0
        self._characters = 0
        self._corrections: int = 0
        self._closed = False
        self._database: sqlite3.Connection | None = None

    @property
    def version(self) -> int:
        """How far it follows the store: the version of the last change that it took."""
        return self._version

    @property
    def documents(self) -> int:
        """How many memories it holds."""
        return self._documents

    @property
    def weight(self) -> int:
        """The memory it takes, in characters of text, each of which stands for about 2 bytes."""
        return EMPTY_WEIGHT + _ROW_WEIGHT * (self._documents + self._corrections) + self._characters

    def follow(self, since: int, changes: MemoryChanges) -> None:
        """Take the changes since the version `since`: hold the kept memories, and nothing else.

        Changes that do not follow on its version were taken by another call before, and are ignored.
        """
        with self._lock:
            if self._closed or since != self._version:
                return
            if self._database is None:
                self._database = _database()
            before = self._documents, self._characters, self._corrections
            try:
                with _together(self._database) as database:
                    for memory in changes.changed:
                        self._take(database, memory)
            except BaseException:
                self._documents, self._characters, self._corrections = before
                raise
            self._version = changes.version
            self._common.clear()

    def search(self, asked: tuple[str, ...], *, most: int, domain: str = "") -> tuple[Hit, ...]:
        """Return the matches of any of the phrases, the best match first and of equal ones the newest.

        Args:
            asked: the phrases to look up, from `phrases`.
            most: how many are returned at most.
            domain: their subject; memories without a subject are found too. Empty for all.
        """
        with self._lock:
            database = self._database
            if database is None:
                return ()
            matches, statement = self._matches(database, asked)
            found = dict[str, Hit]()
            for match in matches:
                if len(found) < most:
                    rows = database.execute(statement, (match, domain, domain, most))
                    for name, learned_at in cast("Iterable[tuple[str, int]]", rows):
                        found.setdefault(name, Hit(name, learned_at))
        return tuple(found.values())[:most]

    def corrected(self, ids: Collection[str]) -> frozenset[str]:
        """Return those ids that a memory of this label corrects, with any label of their own."""
        with self._lock:
            database = self._database
            if database is None or not self._corrections:
                return frozenset()
            if self._corrections <= len(ids):
                all_of_them = cast("Iterable[tuple[str]]", database.execute(_ALL_CORRECTED))
                return frozenset(name for (name,) in all_of_them).intersection(ids)
            return frozenset(name for name in ids if database.execute(_CORRECTED, (name,)).fetchone())

    def newest(self, *, most: int, domain: str = "") -> tuple[Hit, ...]:
        """Return the memories learned last, the newest first; `domain` is as in `search`."""
        with self._lock:
            database = self._database
            if database is None:
                return ()
            rows = database.execute(_LAST, (domain, domain, most))
            return tuple(Hit(name, learned_at) for name, learned_at in cast("Iterable[tuple[str, int]]", rows))

    def corrections(self) -> frozenset[str]:
        """Return all ids that a memory of this label corrects, with any label of their own."""
        with self._lock:
            database = self._database
            if database is None or not self._corrections:
                return frozenset()
            return frozenset(name for (name,) in cast("Iterable[tuple[str]]", database.execute(_ALL_CORRECTED)))

    def held(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those ids whose memories it holds."""
        with self._lock:
            database = self._database
            if database is None:
                return frozenset()
            return frozenset(name for name in ids if database.execute(_HELD, (name,)).fetchone())

    def close(self) -> None:
        """Free its memory. Closing twice does nothing."""
        with self._lock:
            self._closed = True
            if self._database is not None:
                self._database.close()
                self._database = None

    def _matches(self, database: sqlite3.Connection, asked: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """Return queries for FTS5, each for the matches that the one before does not find, and their statement.

        Looked up are the rarest phrases that have few enough matches together. If even the rarest has too many,
        memories with several phrases go first, and the newest of those are as good as any.
        """
        counted = sorted((self._count(database, phrase), place) for place, phrase in enumerate(asked))
        counted = [(count, place) for count, place in counted if count]
        chosen, matches = list[str](), 0
        for count, place in counted:
            matches += count
            if matches > _MOST_MATCHES:
                break
            chosen.append(f'"{asked[place]}"')
        if chosen:
            return (" OR ".join(chosen),), _BEST
        rarest = [f'"{asked[place]}"' for _, place in counted[:_TOGETHER]]
        several = (some for number in range(len(rarest), 0, -1) for some in combinations(rarest, number))
        return tuple(map(" AND ".join, several)), _NEWEST

    def _count(self, database: sqlite3.Connection, phrase: str) -> int:
        """Return how many memories a phrase matches, as far as that is of interest."""
        found = self._common.get(phrase)
        if found is None:
            (found,) = cast("tuple[int]", database.execute(_COUNT, (f'"{phrase}"', _MOST_MATCHES + 1)).fetchone())
            if found > _MOST_MATCHES:
                self._common[phrase] = found
        return found

    def _take(self, database: sqlite3.Connection, memory: Memory) -> None:
        if memory.state is MemoryState.KEPT:
            self._add(database, memory)
        else:
            self._drop(database, memory.id)
        if memory.corrects:
            correction = memory.corrects, memory.id
            if memory.state is MemoryState.FORGOTTEN:
                self._corrections -= database.execute(_UNCORRECT, correction).rowcount
            else:
                self._corrections += database.execute(_CORRECT, correction).rowcount

    def _add(self, database: sqlite3.Connection, memory: Memory) -> None:
        text = _set_apart(memory.text)
        added = database.execute(_ADD, (memory.id, memory.learned_at, memory.domain, text))
        # A kept memory is never changed: one that is held already is the same.
        if added.rowcount:
            database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, text))
            self._count_in(1, text)

    def _drop(self, database: sqlite3.Connection, name: str) -> None:
        held = cast("tuple[int, str] | None", database.execute(_HELD, (name,)).fetchone())
        if held is not None:
            database.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", held)
            database.execute("DELETE FROM kept WHERE number = ?", held[:1])
            self._count_in(-1, held[1])

    def _count_in(self, documents: int, text: str) -> None:
        self._documents += documents
        self._characters += documents * len(text)


def _database(engine: str = "fts5") -> sqlite3.Connection:
    """Open an empty database in memory.

    Raises OperatorError: SQLite is built without the module `engine`.
    """
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        database.executescript(_SCHEMA.format(engine=engine))
    except sqlite3.Error as error:
        database.close()
        raise OperatorError(
            f"SQLite {sqlite3.sqlite_version} cannot search text, which memories need: {error}",
            next_step="use a Python whose `sqlite3` module has SQLite 3.27 or newer with FTS5",
        ) from None
    return database


@contextmanager
def _together(database: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """Write all that is written within, or nothing."""
    database.execute("BEGIN")
    try:
        yield database
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _normal(text: str) -> str:
    """Return a text in the one form in which equal-looking texts are equal; half characters are removed.

    Putting marks in order takes the square of their number: no more are kept of a row than Unicode Standard Annex #15
    (Stream-Safe Text Format) has.
    """
    return unicodedata.normalize("NFKC", "".join(_bounded_marks(text.encode("utf-8", "replace").decode())))


def _bounded_marks(text: str) -> Iterator[str]:
    row = 0
    for char in text:
        row = row + 1 if unicodedata.combining(char) else 0
        if row <= _MOST_MARKS:
            yield char


def _set_apart(text: str) -> str:
    """Return a text as the index takes it: characters of scripts without spaces stand for themselves."""
    return text if text.isascii() else _CHARACTER.sub(r" \g<0> ", _normal(text))


def _words(query: str) -> list[str]:
    if query.isascii():
        return _ASCII_WORD.findall(query)
    normal = _normal(query)
    return "".join(one if unicodedata.category(one)[0] in _OF_WORDS else " " for one in normal).split()


def _pairs(run: str) -> Iterator[str]:
    """Yield every two characters that follow one another; a single one stands for itself."""
    if len(run) == 1:
        yield run
    for first, second in pairwise(run):
        yield f"{first} {second}"
