"""A server that is a process of ours: whatever it does, a call has an outcome, and in the end it is gone."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot.mcp.connection import KEY
from bot.mcp.results import CUT, LONGEST, NOTHING
from bot.mcp.tool import DISCONNECTED, NOT_RUNNING, REFUSED, TIMED_OUT, UNREADABLE, McpResult, Medium
from tests.bot.mcp.servers import command, serving, shell

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
LEGACY = str(ROOT / "tests" / "sim" / "mcp_legacy.py")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def gone(*pids: int) -> None:
    async with asyncio.timeout(60):
        while any(map(alive, pids)):  # noqa: ASYNC110 - nothing tells of the end of others' children
            await asyncio.sleep(0.05)


async def test_a_result_is_text_whatever_the_server_gives() -> None:
    async with serving(command()) as call:
        assert await call("search", word="w") == McpResult("10 notes hold w")
        assert await call("fails") == McpResult("Error executing tool fails: the password is 4711", failed=True)
        assert await call("picture") == McpResult("a cat:", media=(Medium(b"hi", "image/png", 6),))
        assert await call("nothing") == McpResult(NOTHING)
        assert json.loads(await call.text("claims")) == {"_classification": "PUBLIC", "secret": "4711"}
        assert await call.text("huge", characters=2 * LONGEST) == "x" * LONGEST + CUT


async def test_nothing_but_its_own_variables_reach_a_server() -> None:
    inherited = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "LOCKGATE_AUDIT_KEY": "k", "OPENAI_API_KEY": "k"}
    async with serving(command(env={"OWN": "1"}), inherited) as call:
        found = json.loads(await call.text("environment"))
        # LC_CTYPE is what Python sets for itself.
        assert {**found, "LC_CTYPE": ""} == {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "OWN": "1", "LC_CTYPE": ""}


async def test_what_a_server_asks_of_us_is_refused() -> None:
    async with serving(command()) as call:
        assert await call("wants") == McpResult(REFUSED, failed=True)
        assert await call.text("search", word="w") == "10 notes hold w"


async def test_an_older_server_is_refused_what_it_asks_and_its_nonsense_is_not_read() -> None:
    async with serving({"command": sys.executable, "args": [LEGACY], "tools": {}}) as call:
        for what in ("roots/list", "sampling/createMessage", "elicitation/create", "made/up"):
            assert await call(what) == McpResult('"refused"')
        assert await call("nonsense") == McpResult(UNREADABLE, failed=True)


async def test_a_call_bears_the_key_by_which_a_repetition_is_known() -> None:
    async with serving({"command": sys.executable, "args": [LEGACY], "tools": {}}) as call:
        assert json.loads(await call.text("meta"))[KEY] == "key"


async def test_the_log_of_a_crash_and_of_a_missing_program_names_the_doctor(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(command()) as call:
            await call("crash")
        async with serving({"command": "/nowhere/notes-mcp", "tools": {}}) as call:
            await call("search", word="w")
    assert len(caplog.records) > 1
    assert all("`lockgate doctor`" in vars(record)["step"] for record in caplog.records)


async def test_a_server_that_crashes_is_started_again_after_a_pause() -> None:
    async with serving(command()) as call:
        assert await call("crash") == McpResult(DISCONNECTED, failed=True)
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)
        assert await call.patiently("search", word="w") == McpResult("10 notes hold w")


async def test_calls_in_the_air_when_it_crashes_all_end() -> None:
    async with serving(command()) as call:
        await call("search", word="w")
        async with asyncio.TaskGroup() as tasks:
            hanging = [tasks.create_task(call("hang")) for _ in range(5)]
            await asyncio.sleep(0.2)
            tasks.create_task(call("crash"))
        assert {task.result() for task in hanging} == {McpResult(DISCONNECTED, failed=True)}


async def test_a_slow_call_ends_and_two_in_a_row_end_the_server() -> None:
    async with serving(command(call_seconds=4)) as call:
        first, _ = (int(pid) for pid in (await call.text("orphan")).split())
        assert await call("hang") == McpResult(TIMED_OUT, failed=True)
        assert await call.text("search", word="w") == "10 notes hold w"
        assert [await call.text("hang"), await call.text("hang")] == [TIMED_OUT, TIMED_OUT]
        await gone(first)
        assert await call.patiently("search", word="w") == McpResult("10 notes hold w")


async def test_a_call_that_is_cancelled_does_not_disturb_others() -> None:
    async with serving(command()) as call:
        await call("search", word="w")
        hanging = asyncio.create_task(call("hang"))
        await asyncio.sleep(0.2)
        hanging.cancel()
        assert await call.text("search", word="w") == "10 notes hold w"


async def test_a_few_lines_that_are_no_messages_are_passed_over() -> None:
    async with serving(shell('echo hello; echo; exec "$1" "$0"')) as call:
        assert await call.text("search", word="w") == "10 notes hold w"


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "while echo no message; do :; done",
        "head -c 5000000 /dev/zero | tr '\\0' x; sleep 60",
        "head -c 5000000 /dev/urandom; sleep 60",
    ],
)
async def test_a_process_that_is_no_server_is_given_up(script: str) -> None:
    async with serving(shell(script, start_seconds=60)) as call:
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)


async def test_a_server_that_does_not_answer_at_the_start_is_given_up() -> None:
    async with asyncio.timeout(60), serving(shell("sleep 600", start_seconds=1)) as call:
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)


async def test_one_that_just_failed_is_not_started_again_by_every_call(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with serving(shell(f"echo once >> '{starts}'; exit 3")) as call:
        outcomes = [await call("search", word="w") for _ in range(5)]
    assert outcomes == [McpResult(NOT_RUNNING, failed=True)] * 5
    assert starts.read_text() == "once\n"


async def test_a_program_that_is_not_there_is_told_to_the_operator_alone() -> None:
    async with serving({"command": "/nowhere/server", "tools": {}}) as call:
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)
        assert "No such file" in call.servers.complaint("notes")


async def test_in_the_end_the_server_and_its_children_are_gone() -> None:
    async with serving(command()) as call:
        pids = [int(pid) for pid in (await call.text("orphan")).split()]
        assert all(map(alive, pids))
    await gone(*pids)


async def test_one_that_does_not_want_to_end_is_killed() -> None:
    stubborn = 'trap \'\' TERM; sleep 3600 & echo $! >&2; "$1" "$0"; while :; do sleep 1; done'
    async with serving(shell(stubborn)) as call:
        await call("search", word="w")
        pid = int(call.servers.complaint("notes").split("`")[1])
    await gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_killed_lockgate_leaves_no_server_behind() -> None:
    program = (
        "import asyncio\n"
        "from tests.bot.mcp.servers import command, serving\n"
        "async def main():\n"
        "    async with serving(command()) as call:\n"
        "        print(await call.text('orphan'), flush=True)\n"
        "        await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    pids = [int(pid) for pid in (await process.stdout.readline()).split()]
    assert len(pids) == 2
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    await gone(*pids)


async def test_nothing_is_started_before_a_call_and_nothing_called_when_nobody_serves() -> None:
    async with serving(shell("touch /nowhere/at/all; exit 1")) as call:
        assert call.servers.complaint("notes") == ""
    assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)
