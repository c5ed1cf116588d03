"""Every command in an interpreter of its own, which has imported nothing yet, and what sets a fork apart from one."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.documents import ROOT
from tests.conventions.test_docs import typed_commands
from tests.journeys.forked import inherited, nursery
from tests.journeys.machine import Machine, Process

OFFICE: Final = str(ROOT / "docs/examples/office.yaml")
CASES: Final = str(ROOT / "docs/examples/cases.yaml")
SAID: Final = {
    "chat": ((), 0, "You said: hello"),
    "init": (("--folder", "set-up"), 2, "nothing was written"),
    "run": ((), 2, "no platform is configured"),
    "check": ((), 0, "in order"),
    "doctor": ((), 0, "ok    store"),
    "health": ((), 1, "not ready"),
    "simulate": (("current_time",), 0, "ALLOW"),
    "explain": (("audit:1",), 0, "policy by start"),
    "export": (("SESSION",), 0, "hello"),
    "import": (("nothing",), 2, "nothing"),
    "sessions list": ((), 0, "SESSION"),
    "sessions show": (("SESSION",), 0, "taint: PUBLIC"),
    "sessions grants": (("SESSION",), 0, "worst case"),
    "sessions revoke": (("SESSION", "none"), 2, "no such grant"),
    "sessions release": (("SESSION",), 2, "quarantine"),
    **{f"runs {word}": (("r_0",), 2, "no such run") for word in ("show", "stats", "pause", "resume", "stop")},
    "runs start": ((), 2, "goal"),
    "runs list": ((), 0, ""),
    "runs steer": (("r_0", "hurry"), 2, "no such run"),
    **{f"schedules {word}": (("s_0",), 2, "no such schedule") for word in ("show", "pause", "resume", "cancel")},
    "schedules list": ((), 0, ""),
    **{f"memory {word}": (("mem_0",), 2, "no such memory") for word in ("show", "forget")},
    "memory correct": (("mem_0", "tea at five"), 2, "no such memory"),
    "memory list": ((), 0, "nothing is remembered"),
    "memory export": ((), 0, ""),
    **{f"skills {word}": (("skill_0",), 2, "no such skill") for word in ("show", "approve", "reject", "deprecate")},
    **{f"skills {word}": (("skill_0",), 2, "no such skill") for word in ("log", "export")},
    "skills rollback": (("skill_0", "1"), 2, "no such skill"),
    "skills list": ((), 0, "state"),
    "skills load": (("nothing", "--label", "PUBLIC"), 2, "nothing"),
    "skills save": (("nothing",), 2, "no active skill"),
    **{f"workflow {word}": (("harbour",), 2, "no such workflow") for word in ("show", "resume", "export")},
    "workflow pass": (("harbour", "1"), 2, "no such workflow"),
    "workflow list": ((), 0, "there are no workflows"),
    "workflow start": (("harbour", "nothing"), 2, "nothing"),
    "workflow import": (("harbour", "nothing", "--definition", "seven-step"), 2, "nothing"),
    "sessions pause": (("nothing",), 2, "there is no such session"),
    "sessions resume": (("SESSION",), 2, "cannot do this"),
    "sessions archive": (("nothing",), 2, "there is no such session"),
    "sessions restore": (("SESSION",), 2, "cannot do this"),
    "sessions delete": (("SESSION",), 2, "--yes"),
    "audit tail": ((), 0, "simulate"),
    "audit verify": ((), 0, "2 of 2 chains intact"),
    "audit trace": (("SESSION",), 0, "message of owner"),
    "policy check": ((), 0, "rules"),
    "policy test": ((CASES,), 0, "cases are decided as they say"),
    "policy who": (("INTERNAL",), 0, "owner  owner  entry"),
    "policy explain": ((CASES, "CASE"), 0, "CASE"),
    "backup": (("one.backup",), 0, "not in it: keys"),
    "restore": (("nothing",), 2, "nothing"),
    "files copy": (("--to", "bucket"), 2, "no bucket in the configuration"),
    "files put": (("nothing", "public"), 2, "is not a file or a folder"),
    "files label": (("public/welcome.md", "INTERNAL"), 0, "public/welcome.md: INTERNAL~"),
    "files list": (("public",), 0, "public/welcome.md"),
    "keys list": ((), 0, "session"),
    "keys adopt": ((), 0, "the installation uses the audit key"),
    "keys rotate": (("audit",), 0, "signs now"),
    "keys retire": (("session",), 2, "an older session key"),
    "policy replay": ((OFFICE,), 0, "cannot be told"),
    "openapi": ((), 0, '"openapi": "3.1'),
    "token create": (("crane",), 2, "`policy.channels.api` is missing"),
    "token list": ((), 0, "there are no tokens"),
    "token rotate": (("crane",), 2, "there is no token `crane`"),
    "token revoke": (("crane",), 2, "there is no token `crane`"),
    "mcp draft": (("notes",), 2, "there is no MCP server `notes`"),
    "mcp serve": ((), 2, "`LOCKGATE_TOKEN` is not set"),
    **{f"mcp {word}": (("notes",), 2, "no server with one account for all") for word in ("login", "logout")},
    "slack manifest": ((), 0, "socket_mode_enabled"),
    "slack install": ((), 2, "channels.slack.install"),
}
"""What each command is given and has to say, and its exit code."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, str]:
    """A machine on which somebody talked and simulated a call, and the session."""
    machine = Machine(tmp_path_factory.mktemp("used"))
    machine.chat("hello", "/simulate current_time")
    (session,) = json.loads(machine.run("sessions", "list", "--json").out)
    return machine, session["id"]


FRESH: Final = frozenset({command.split()[0]: command for command in SAID}.values())
"""One command of each group: those of a group are carried out by the same modules, or by what each imports anyway."""


@pytest.mark.parametrize("command", SAID)
def test_every_command_imports_what_it_needs(used: tuple[Machine, str], command: str) -> None:
    arguments, code, told = SAID[command]
    machine, session = used
    known = {"SESSION": session, "CASE": "harmless answer"}
    config = ("--config", OFFICE) if CASES in arguments else ()
    given = (known.get(argument, argument) for argument in arguments)
    asked = machine.fresh if command in FRESH else machine
    ended = asked.run(*config, *command.split(), *given, typed="hello\n" if command == "chat" else "")
    assert ended.code == code, ended
    assert known.get(told, told) in ended.out + ended.err
    assert "Traceback" not in ended.err


def test_no_command_is_left_out() -> None:
    assert set(SAID) == set(typed_commands())


def test_modules_look_at_nothing_when_they_are_imported() -> None:
    """Forks share what modules found out when they were imported; so ours must not have looked around then."""
    program = """if True:
        import os, sys, threading
        ours, seen = tuple(sys.argv[1:]), set()
        def looked(kind):
            frame = sys._getframe(2)
            # What a library looks at is its own affair: no journey sets it.
            while frame and not any(word in frame.f_code.co_filename for word in ("importlib", "site-packages")):
                if frame.f_code.co_filename.startswith(ours):
                    seen.add((kind, frame.f_code.co_filename))
                frame = frame.f_back
        class Watched(type(os.environ)):
            def __getitem__(self, name):
                looked(name)
                return super().__getitem__(name)
        os.environ.__class__, getcwd = Watched, os.getcwd
        os.getcwd = lambda: (looked("folder"), getcwd())[1]
        from tests.journeys.nursery import preload
        before = set(os.listdir("/dev/fd"))
        preload()
        assert not seen, seen
        assert threading.active_count() == 1
        assert set(os.listdir("/dev/fd")) == before
    """
    ours = [f"{ROOT / package}{os.sep}" for package in ("bot", "channels", "policy")]
    ended = subprocess.run(
        [sys.executable, "-c", program, *ours], cwd=ROOT, env=inherited(), capture_output=True, check=False
    )
    assert (ended.returncode, ended.stderr.decode()) == (0, "")


@pytest.mark.parametrize("fresh", [False, True])
def test_a_process_ends_as_it_was_ended(tmp_path: Path, *, fresh: bool) -> None:
    machine = Machine(tmp_path, fresh=fresh)
    for number in (signal.SIGKILL, signal.SIGTERM):
        with chatting(machine) as process:
            process.send_signal(number)
            assert process.wait(timeout=60) == -number
            assert process.poll() == -number
            # Nobody is there any more; nobody else is met.
            process.kill()
    assert machine.run("chatt").code == 2


def test_forks_are_like_fresh_processes_and_share_no_randomness(tmp_path: Path) -> None:
    looks, keys = list[object](), list[bytes]()
    for fresh in (True, False, False):
        machine = Machine(tmp_path / str(len(looks)), fresh=fresh)
        machine.folder.mkdir()
        with chatting(machine) as process:
            looks.append(look(process.pid, machine.folder))
            keys.append(b"".join(path.read_bytes() for path in sorted((machine.data / "keys").iterdir())))
            assert fresh or not opened(process.pid) & opened(nursery())
    assert looks[0] == looks[1] == looks[2]
    assert len(set(keys)) == len(keys)


def test_who_is_left_by_tests_that_end_is_ended_with_them(tmp_path: Path) -> None:
    program = """if True:
        import os, sys
        from pathlib import Path
        from tests.journeys.machine import Machine
        left = [Machine(Path(sys.argv[1])).start("chat") for _ in range(2)]
        print(*(one.pid for one in left), flush=True)
        os._exit(1)
    """
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path], cwd=ROOT, env=inherited(), capture_output=True, check=False
    )
    left = [int(pid) for pid in ended.stdout.split()]
    assert len(left) == 2
    deadline = time.monotonic() + 60
    while any(lives(pid) for pid in left):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def look(pid: int, folder: Path) -> object:
    """Return a process's folder seen from `folder`, its signals and mask for files, where the system shows them."""
    process = Path(f"/proc/{pid}")
    if not process.exists():
        return None
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    kept = {name: status[name] for name in ("Umask", "SigBlk", "SigIgn", "SigCgt")}
    return (process / "cwd").readlink().relative_to(folder), kept


def opened(pid: int) -> set[str]:
    """Return the pipes and sockets that a process has open, where the system shows them."""
    links = set[str]()
    for one in Path(f"/proc/{pid}/fd").glob("*"):
        # It may be closed between two looks.
        with suppress(FileNotFoundError):
            links.add(str(one.readlink()))
    return {link for link in links if link.startswith(("pipe:", "socket:"))}


def chatting(machine: Machine) -> Process:
    """Start a conversation, and return once it goes on."""
    process = machine.start("chat")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    while b"You said: hello" not in process.stdout.readline():
        pass
    return process
