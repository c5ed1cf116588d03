"""The operational log: what a line tells, to whom, and what it never tells."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ToolCallPart

from bot.cli import log
from bot.config.load import load_config
from bot.core.errors import StoreGoneError
from bot.core.logs import BROKE, LOST, UNTOLD, bound, logging_to
from bot.tools import catalogue
from bot.tools.base import Result, ToolContext, ToolServices
from tests.bot.kit import Probe, Scripted, TextArguments, parts
from tests.harness import running

pytestmark = pytest.mark.anyio

SAID = "hunter2 is what Ann said"
OURS = logging.getLogger("bot.worker.worker")
OTHERS = logging.getLogger("asyncio")


@contextmanager
def logged(level: str = "info", *, readable: bool = False, gone: str = "-") -> Generator[list[str]]:
    """Log in a block; what was written is in the list when it ends."""
    written = list[str]()
    with logging_to(written.append, level, lambda: lambda text: text.replace(gone, "[gone]"), readable=readable):
        yield written


@asynccontextmanager
async def logged_aside(level: str = "info") -> AsyncGenerator[list[str]]:
    """Do the same on an event loop, which would wait for the thread's beginning and end."""
    block = logged(level)
    written = await asyncio.to_thread(block.__enter__)
    try:
        yield written
    finally:
        await asyncio.to_thread(block.__exit__, None, None, None)


def told(written: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written]


async def breaks(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
    raise ValueError(SAID)


BROKEN = (ToolCallPart("probe", {"text": "x"}, "c1"),)


async def test_each_line_of_a_turn_names_session_turn_request_and_process(tmp_path: Path) -> None:
    async with (
        logged_aside() as written,
        running(tmp_path, parts=parts(model=Scripted(ModelHTTPError(401, "m", SAID)))) as owner,
    ):
        await owner.say(SAID)
        sid, last = owner.sid, (await owner.state()).last_turn
    lines = told(written)
    assert last is not None
    assert [(one["level"], one["event"]) for one in lines] == [
        ("warning", "a model did not answer"),
        ("warning", "a turn ended without an answer"),
    ]
    for one in lines:
        assert one["session"] == sid
        assert one["turn"] == last.id
        assert one["request"].startswith("console/")
        assert one["process"] > 0
        assert one["timestamp"].endswith("+00:00")
    assert lines[0]["cause"] == "it does not accept the key (status 401)"
    # What the person is told to pass on leads to the line.
    assert lines[1]["reference"] == last.error
    assert SAID not in "".join(written)


async def test_an_input_and_its_turn_have_one_request(tmp_path: Path) -> None:
    async with logged_aside("debug") as written, running(tmp_path) as owner:
        await owner.say("hello")
    lines = {one["event"]: one for one in told(written)}
    assert lines["an input was taken in"]["request"] == lines["a turn ended"]["request"]
    assert lines["a turn ended"]["kind"] == "Answer"


def test_lines_are_for_people_at_a_terminal_and_json_elsewhere() -> None:
    for readable in (True, False):
        with logged(readable=readable) as written, bound(session="s1"):
            OURS.warning("the store did not answer", extra={"cause": "no\x1b[31mway", "address": "127.0.0.1:1"})
        (line,) = written
        assert "\x1b" not in line
        assert line.endswith("\n")
        if readable:
            assert "[warning" in line
            assert "session=s1" in line
            assert "address=127.0.0.1:1" in line
        else:
            assert json.loads(line)["address"] == "127.0.0.1:1"


@pytest.mark.parametrize("level,count", [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_level_is_the_least_that_is_written(level: str, count: int) -> None:
    with logged(level) as written:
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            OURS.log(number, "something")
            logging.getLogger("httpx2").log(min(number, logging.INFO), "calling %s", SAID)
    assert len(written) == count
    assert logging.getLogger("bot").level == logging.NOTSET


async def test_an_error_nobody_foresaw_is_told_once_with_where_it_came_up(tmp_path: Path) -> None:
    probe = Probe(does=breaks)
    async with (
        logged_aside() as written,
        running(tmp_path, parts=parts(probe, model=Scripted(BROKEN, "done"))) as owner,
    ):
        await owner.say("hello")
    (line,) = told(written)
    assert (line["level"], line["event"], line["tool"], line["cause"]) == (
        "error",
        "a tool broke",
        "probe",
        "ValueError",
    )
    assert line["session"]
    assert line["turn"]
    assert "in breaks" in line["exception"]
    assert line["exception"].endswith("ValueError")
    assert SAID not in "".join(written)


def look_up() -> None:
    raise KeyError(SAID)


def test_an_error_that_goes_on_is_not_told_again() -> None:
    with logged() as written:
        try:
            try:
                look_up()
            except KeyError:
                OURS.exception("first")
                raise
        except KeyError as error:
            OURS.error("second", exc_info=error)
            OURS.error("third", exc_info=ExceptionGroup("all", [error]))
    first, second, third = told(written)
    assert first["exception"].endswith("KeyError")
    assert second["cause"] == "KeyError"
    assert "exception" not in second
    assert SAID not in str(third)


def test_our_own_errors_are_told_in_their_words_and_without_a_traceback() -> None:
    with logged() as written:
        OURS.warning("it stopped", exc_info=StoreGoneError("the store does not answer"))
        OURS.warning("it stopped, too", exc_info=ExceptionGroup("x", [StoreGoneError("the store does not answer")]))
    for one in told(written):
        assert one["cause"] == "the store does not answer"
        assert "exception" not in one


def raise_from(cause: Exception) -> None:
    raise ValueError(SAID) from cause


def test_what_led_to_an_error_is_told_in_its_order() -> None:
    with logged() as written:
        try:
            raise_from(OSError(111, "Connection refused", SAID))
        except ValueError:
            OURS.exception("it broke")
    (line,) = told(written)
    assert line["exception"].index("ConnectionRefusedError: Connection refused") < line["exception"].index("ValueError")
    assert SAID not in str(line)


def log_all(text: str) -> None:
    """Log a text in every way that somebody might, by our loggers and by a library's."""
    for logger in (OURS, OTHERS, logging.getLogger("slack")):
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logger.log(number, "said %s", text, extra={"text": text, "words": text})
    OTHERS.error("Task was destroyed: " + text)
    for kind in (ValueError, KeyError, OSError, RuntimeError):
        error = kind(text)
        error.__cause__ = LookupError(text)
        OURS.error("broke", exc_info=error)
        OTHERS.error("broke", exc_info=kind(text))


@pytest.mark.parametrize("level", ["debug", "info", "warning"])
def test_no_person_is_quoted_above_debug(level: str) -> None:
    with logged(level) as written:
        log_all(SAID)
    lines = told(written)
    assert lines
    quoting = [one for one in lines if SAID in json.dumps(one)]
    assert all(one["level"] == "debug" for one in quoting)
    assert bool(quoting) is (level == "debug")
    assert {one["event"] for one in lines} >= {UNTOLD, "said %s", "broke"}
    assert all(one["where"].startswith("test_logs.py:") for one in lines if one["event"] == UNTOLD)


def test_secrets_are_scrubbed_wherever_they_stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of `secrets`, of variables that the configuration names or that are called so, and what looks like one."""
    (tmp_path / "forum.txt").write_text("forum-value-of-a-secret")
    (tmp_path / "config.yaml").write_text(
        json.dumps(
            {
                "secrets": {"forum": {"file": "forum.txt"}},
                "model": {"name": "openai-chat:x", "providers": {"openai-chat:x": {"key": "MINE"}}},
                "channels": {
                    "telegram": {
                        "token": "BOT",
                        "webhook": {"url": "https://a.example/x", "secret": "HOOK", "port": 1},
                    },
                    "slack": {
                        "token": "SL",
                        "app_token": "SA",
                        "http": {"secret": "SH", "port": 2},
                        "install": {
                            "client_id": "1.2",
                            "client_secret": "SC",
                            "url": "https://a.example/slack/install",
                            "port": 3,
                        },
                    },
                },
                "transcriber": {"base_url": "https://a.example", "model": "w", "key": "TR"},
                "policy": {"channels": {name: {"classification": "top"} for name in ("console", "telegram", "slack")}},
            }
        )
    )
    named = ("MINE", "BOT", "HOOK", "SL", "SA", "SH", "SC", "TR", "OTHER_API_KEY", "DB_PASSWORD")
    values = {name: f"value-of-{name.lower()}-4711" for name in named}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    shaped = ("ghp_" + "a1B2" * 9, "forum-value-of-a-secret")
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    config = load_config(tmp_path / "config.yaml", {}, catalogue.ARGUMENTS)
    with log.logged(config, None):
        for value in (*values.values(), *shaped):
            OURS.warning("failed", extra={"cause": f"it said {value} here"})
        OURS.warning("failed", extra={"address": "https://very-secret@db:6379/0"})
    written = output.getvalue()
    assert not [value for value in (*values.values(), *shaped) if value in written]
    assert "very-secret" not in written
    assert written.count("\n") == len(values) + len(shaped) + 1
    assert "db:6379" in written


def test_the_command_line_says_another_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("logs: {level: error}\n")
    config = load_config(tmp_path / "config.yaml", {}, catalogue.ARGUMENTS)
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    with log.logged(config, None):
        OURS.warning("silent")
    assert not output.getvalue()
    with log.logged(config, log.LogLevel.WARNING):
        OURS.warning("heard")
    assert "heard" in output.getvalue()


def test_the_same_line_within_a_minute_is_counted() -> None:
    """A loop that fails all the time fills no disk; what another turn meets with is told."""
    with logged() as written:
        for seconds in (0, 1, 2, 61):
            record = OURS.makeRecord(OURS.name, logging.WARNING, "", 0, "a poll failed", (), None)
            record.created += seconds
            OURS.handle(record)
        for turn in ("t1", "t2"):
            with bound(turn=turn):
                OURS.warning("a poll failed")
    lines = told(written)
    assert [one.get("repeated") for one in lines] == [None, 2, None, None]


def test_a_reader_that_stands_still_holds_nobody_up() -> None:
    go = threading.Event()
    written = list[str]()

    def write(text: str) -> None:
        go.wait()
        written.append(text)

    with logging_to(write, "info", lambda: str, readable=False):
        for number in range(6_000):
            OURS.warning("one", extra={"attempt": number})
        go.set()
    lines = told(written)
    assert len(lines) < 6_000
    assert [one for one in lines if one["event"] == LOST and one["lost"] > 900]


def test_a_reader_that_left_is_no_matter() -> None:
    def write(_text: str) -> None:
        raise BrokenPipeError

    with logging_to(write, "info", lambda: str, readable=False):
        OURS.warning("one")


def test_what_ends_the_program_is_told_and_what_is_ours_goes_on() -> None:
    with pytest.raises(SystemExit) as ended, logged() as written:
        raise ExceptionGroup("all", [ValueError(SAID)])
    assert ended.value.code == 1
    (line,) = told(written)
    assert (line["level"], line["event"]) == ("critical", BROKE)
    assert "ValueError" in line["exception"]
    assert SAID not in str(line)
    with pytest.raises(StoreGoneError), logged() as silent:
        raise StoreGoneError("the store does not answer")
    assert not silent


def test_what_ends_a_thread_is_told() -> None:
    def fail() -> None:
        raise ValueError(SAID)

    with logged() as written:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    (line,) = told(written)
    assert "in fail" in line["exception"]
    assert SAID not in str(line)


async def test_tasks_have_what_is_bound_where_they_begin() -> None:
    async def one(turn: str) -> None:
        with bound(turn=turn):
            await asyncio.sleep(0)
            OURS.warning("here", extra={"kind": turn})

    async with logged_aside() as written:
        with bound(session="s"):
            async with asyncio.TaskGroup() as tasks:
                for turn in ("t1", "t2"):
                    tasks.create_task(one(turn))
    assert [(line["session"], line["turn"], line["kind"]) for line in told(written)] == [
        ("s", "t1", "t1"),
        ("s", "t2", "t2"),
    ]
