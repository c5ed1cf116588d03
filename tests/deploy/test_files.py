"""compose.yaml, the unit and the sample configuration: valid by the tools of their formats, hardened, and in use."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from bot.config.load import load_config
from bot.store.servers.embedded_server import locate
from bot.tools.catalogue import ARGUMENTS
from tests.conventions.documents import ROOT
from tests.image.stages import instructions
from tests.journeys.machine import Machine
from tests.sim.ports import free_port

DEPLOY: Final = ROOT / "deploy"
COMPOSE: Final = DEPLOY / "compose.yaml"
UNIT: Final = DEPLOY / "lockgate.service"
SECRETS: Final = ("STORE_PASSWORD", "LOCKGATE_AUDIT_KEY", "LOCKGATE_SESSION_KEY", "LOCKGATE_VAULT_KEY")
EXPOSURE: Final = 20
"""The most that `systemd-analyze security` may find, of 100."""


def compose() -> dict[str, Any]:
    return YAML(typ="safe").load(COMPOSE.read_text())  # pyright: ignore[reportUnknownMemberType]


SERVICES: Final = compose()["services"]


def test_compose_follows_its_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_each_container_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc"} & set(service)
    # An image that is built here names its user itself.
    assert "build" in service or service["user"].partition(":")[0] not in {"", "0", "root"}
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert all(kept.partition(":")[0] in {"data", "store", "./config.yaml"} for kept in service["volumes"])


def test_there_are_a_bot_two_workers_an_api_and_a_store() -> None:
    assert {name: service["command"][-1] for name, service in SERVICES.items() if name != "valkey"} == {
        "bot": "channels",
        "worker": "worker",
        "api": "api",
    }
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert compose()["networks"]["store"] == {"internal": True}
    assert SERVICES["valkey"]["networks"] == ["store"]
    steps = dict(instructions(DEPLOY / "Dockerfile"))
    (volume,) = [kept for kept in SERVICES["bot"]["volumes"] if kept.startswith("data:")]
    assert volume == f"data:{steps['VOLUME']}"


def test_no_secret_stands_in_a_file_and_each_comes_from_the_environment() -> None:
    text = COMPOSE.read_text()
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            assert "${" in value, name
    asked = set(re.findall(r"\$\{(\w+)", text))
    offered = dict(line.split("=", 1) for line in (DEPLOY / "env.example").read_text().splitlines() if line[0] != "#")
    assert asked == set(offered)
    assert set(offered.values()) == {""}
    # Without one of these nothing starts.
    assert set(SECRETS) == set(re.findall(r"\$\{(\w+):\?", text))


def test_the_store_of_compose_keeps_what_it_acknowledged_and_lets_lockgate_in_alone(tmp_path: Path) -> None:
    """Its own command is run, by a server of the same kind; the doctor then looks at it as `lockgate`."""
    *_, script = SERVICES["valkey"]["command"]
    port, machine = free_port(), Machine(tmp_path)
    (machine.folder / "store").mkdir()
    (machine.folder / "valkey-server").symlink_to(locate())
    script = script.replace("dir /data", f"dir {machine.folder}/store\nport {port}").replace("$$", "$")
    environment = {"PATH": f"{machine.folder}:{os.environ['PATH']}", "STORE_PASSWORD": "0pen5esame"}
    with subprocess.Popen(["sh", "-c", script], env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            arguments = Path(f"/proc/{server.pid}/cmdline").read_bytes()
            assert b"0pen5esame" not in arguments
            found = machine.run("doctor", LOCKGATE_STORE_URL=f"redis://lockgate:0pen5esame@127.0.0.1:{port}/0")
            for _ in range(50):
                if "ok    store" in found.out:
                    break
                time.sleep(0.2)
                found = machine.run("doctor", LOCKGATE_STORE_URL=f"redis://lockgate:0pen5esame@127.0.0.1:{port}/0")
            assert "ok    store" in found.out, found.out
            assert "mend" not in found.out
            stranger = machine.run("doctor", LOCKGATE_STORE_URL=f"redis://127.0.0.1:{port}/0")
            assert stranger.code == 2
        finally:
            server.terminate()


def test_the_store_of_compose_gives_the_rights_that_its_page_lists() -> None:
    page = (ROOT / "docs/several-machines.md").read_text()
    (listed,) = re.findall(r"^user lockgate on >PASSWORD (.*)$", page, re.MULTILINE)
    (given,) = re.findall(r"user lockgate on >\$\$STORE_PASSWORD (.*)$", COMPOSE.read_text(), re.MULTILINE)
    assert given == listed


def test_the_configuration_of_compose_is_in_order() -> None:
    config = load_config(DEPLOY / "config.yaml", {}, ARGUMENTS)
    assert config.channels.listened == ("telegram",)
    assert config.metrics is None
    grace = int(SERVICES["bot"]["stop_grace_period"].removesuffix("s"))
    assert config.limits.drain_seconds < grace


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue] - names of directives keep their case
    parser.read(UNIT)
    return parser["Service"]


def test_the_unit_is_hardened_and_knows_exit_codes_and_readiness() -> None:
    service = unit()
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert service[name] == "yes", name
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert (service["Type"], service["User"], service["RestartPreventExitStatus"]) == ("notify", "lockgate", "2")
    assert service["SystemCallFilter"] == "~@privileged"
    assert "@system-service" in UNIT.read_text()


def test_systemd_takes_the_unit_and_finds_it_safe(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/lockgate/bin/lockgate", "/bin/true"))
    if analyze is None:
        # Elsewhere the test above reads it.
        return
    verified = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    security = [analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", copy]
    looked = subprocess.run(security, capture_output=True, text=True, check=False)
    assert looked.returncode == 0, looked.stdout
