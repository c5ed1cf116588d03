"""Bad input of every kind: one clear sentence, the documented exit code, and nothing else happens."""

import pytest

from tests.journeys.machine import Machine


def test_bad_lines_are_told_and_the_next_line_is_taken(machine: Machine) -> None:
    bad = b"\xff\xfe\n" + b"x" * 10_000_000 + b"\n" + b"a\x1b[2Jb\n" + b"a\x00b\n" + b"y" * 100_001 + b"\n"
    bad += b"/tiant\n/simulate message {\n/simulate\n/approve\n/approve nothing1\n/help tiant\n/help taint\n"
    bad += b"/taint raise SECRET\n/taint down\n/taint raise INTERNAL{hr}\n/\n\n \n/reset now\n/stop\n/why\n"
    bad += b'!message {\n!nosuch {}\n!message {"session_id": "x"}\n/whoami x\nlast\n/quit\nnever'
    ended = machine.run("chat", typed=bad)
    assert (ended.code, ended.err) == (0, "")
    for sentence in (
        "that line is not UTF-8, it was not sent",
        "that line is longer than 100000 characters, it was not sent",
        "that line holds control characters, it was not sent",
        "Unknown command `/tiant`. Did you mean `/taint`?",
        "The arguments are not JSON at character 2. Write it as `/simulate TOOL [JSON]`",
        "Write it as `/simulate TOOL [JSON]`",
        "Write it as `/approve ID [conversation | until TIME]`",
        "There is nothing of that name here",
        "/taint [raise LABEL]  Tell the taint of this conversation, its sources, and its readers now.",
        "Unknown level `SECRET`",
        "Write it as `/taint [raise LABEL]`",
        "Unknown compartment `hr`.",
        "Unknown command `/`. `/help` lists them.",
        "Write it as `/reset [confirm]`",
        "There is nothing to stop here; its background sessions are stopped, if there are any.",
        "Nothing was refused in this conversation.",
        "Write it as `/whoami`",
        "last",
    ):
        assert sentence in ended.out, sentence
    assert "never" not in ended.out
    assert "\x1b" not in ended.out


def test_a_misspelt_field_is_told_with_path_line_and_nearest_name(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("policy:\n  channels:\n    console:\n      classifikation: top\n")
    for command in ("check", "chat", "doctor"):
        ended = machine.run(command)
        assert (ended.code, ended.out) == (2, "")
        assert "config.yaml:4: unknown field `classifikation`, did you mean `classification`?" in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "arguments,told",
    [
        (("--config", "gone.yaml", "check"), "gone.yaml: there is no such file\ncheck its path\n"),
        (("--config", ".", "check"), ".: this is a directory, name the file in it\n"),
        (("simulate", "message", "["), "the arguments are not JSON at character 2\n"),
        (("simulate", "message", "[]"), "the arguments are not a JSON object\n"),
        (
            ("simulate", "message", "{}", "--taint", "INTERNALS"),
            "unknown level `INTERNALS`, did you mean `INTERNAL`?\n",
        ),
        (("simulate", "message", "{}", "--taint", "INTERNAL{hr}"), "unknown compartment `hr`\n"),
        (("explain", "nonsense"), "`nonsense` is not a decision\n"),
        (("explain", "audit:12"), "there is no decision `audit:12`\n"),
        (("explain", "audit:0"), "there is no decision `audit:0`\n"),
        (("explain", f"audit:{'9' * 5000}"), "is not a decision\n"),
        (("sessions", "show", "nobody"), "there is no such session\n"),
        (("audit", "tail", "--chain", "nobody"), "the chain `nobody` has no records\n"),
        (("chatt",), "No such command 'chatt'"),
    ],
)
def test_what_the_operator_can_mend_is_exit_code_2(machine: Machine, arguments: tuple[str, ...], told: str) -> None:
    ended = machine.run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert "Traceback" not in ended.err


def test_a_data_directory_that_cannot_be_used_is_told(machine: Machine) -> None:
    machine.data.write_text("not a directory")
    ended = machine.chat("hello")
    assert ended.code == 2
    assert f"{machine.data}: not a directory\nname another one with `data_dir`\n" == ended.err
    machine.data.unlink()
    machine.data.mkdir(mode=0o777)
    machine.data.chmod(0o777)
    ended = machine.chat("hello")
    assert ended.code == 2
    assert "others may write there\nrun `chmod 700" in ended.err


def test_a_store_that_is_not_there_is_told(machine: Machine) -> None:
    ended = machine.chat("hello", LOCKGATE_STORE_URL=f"unix://{machine.folder}/nothing.sock")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert ended.err


def test_a_reader_that_leaves_is_no_error(machine: Machine) -> None:
    machine.chat("hello")
    with machine.start("audit", "tail", "-n", "50", "--chain", "audit") as process:
        assert process.stdout is not None
        process.stdout.close()
        process.communicate(timeout=60)
    assert process.returncode in {0, 2}
