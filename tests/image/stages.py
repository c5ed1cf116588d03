"""Executes a Dockerfile without a builder: each stage is a folder, and its steps run in it as their root.

The programs of a base image are those of this machine, bound read-only, with the Python of these tests. So what is
tested are the file's own steps, with the paths, variables and users it names; namespaces of Linux do the rest.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_BASE: Final = Path(sys.base_prefix)
_KEPT: Final = ("UV_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")

_AS_ROOT: Final = () if os.geteuid() == 0 else ("--map-root-user", "--map-auto")
_DROPPED: Final = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
"""What compose.yaml takes from a container."""

_ENTER: Final = """
set -e
root=$1; shift
bound() { mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; [ -z "$2" ] || mount -o remount,bind,ro "$root$1"; }
for place in /bin /sbin /lib /lib64 /etc/ssl /etc/alternatives; do [ ! -d "$place" ] || bound "$place" ro; done
for place in /usr/*; do [ "$place" = /usr/local ] || [ ! -d "$place" ] || bound "$place" ro; done
for place in /proc /dev; do bound "$place"; done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for place in $BOUND; do bound "$place"; done
if [ -n "$WRITABLE" ]; then
    mount --bind "$root" "$root.seen"; root=$root.seen
    for place in /bin /sbin /lib /lib64 /etc/ssl /etc/alternatives /usr/* /proc /dev /tmp $BOUND; do
        [ ! -d "${root%.seen}$place" ] || [ "$place" = /usr/local ] || mount --rbind "${root%.seen}$place" "$root$place"
    done
    mount --bind "${root%.seen}$WRITABLE" "$root$WRITABLE"
    mount -o remount,bind,ro "$root"
fi
exec chroot "$root" "$@"
"""


@dataclass
class Stage:
    """A stage as its steps left it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    folder: str = "/"
    user: str = "0:0"
    volumes: list[str] = field(default_factory=list[str])
    entry: list[str] = field(default_factory=list[str])
    command: list[str] = field(default_factory=list[str])
    health: list[str] = field(default_factory=list[str])
    stop: str = "SIGTERM"

    def inside(
        self, command: Sequence[str], *, frozen: bool = False, more: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return a command that runs another one in here; `frozen` is as a container with a read-only root runs it."""
        writable = self.volumes[0] if frozen else ""
        bound = [str(_BASE), *(() if frozen else (_cache(),))]
        told = {**self.environment, **(more or {})}
        entered = ["env", "-i", "-C", self.folder, *(f"{name}={value}" for name, value in told.items()), *command]
        if frozen:
            user, group = self.user.split(":")
            entered = ["setpriv", f"--reuid={user}", f"--regid={group}", *_DROPPED, *entered]
        settings = [f"BOUND={' '.join(bound)}", f"WRITABLE={writable}"]
        outer = ["env", *settings, "unshare", *_AS_ROOT, "--mount", "sh", "-c", _ENTER, "sh"]
        return [*outer, str(self.root), *entered]


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the steps of a Dockerfile, each with the rest of its line."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def built(file: Path, context: Path, place: Path) -> Stage:
    """Execute a Dockerfile on a context; return its last stage."""
    stages, stage = dict[str, Stage](), Stage(place)
    for word, rest in instructions(file):
        match word:
            case "FROM":
                name = rest.partition(" AS ")[2] or "last"
                stage = stages[name] = _base(rest.split()[0], place / name)
            case "COPY":
                _copy(stage, rest, stages, context)
            case "RUN":
                kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
                more = {**kept, "UV_CACHE_DIR": _cache()}
                subprocess.run(stage.inside(["sh", "-c", rest], more=more), check=True)
            case _:
                _note(stage, word, rest)
    return stage


def _note(stage: Stage, word: str, rest: str) -> None:
    match word:
        case "ENV":
            for said in shlex.split(rest):
                name, _, value = said.partition("=")
                stage.environment[name] = value.replace("$PATH", stage.environment["PATH"])
        case "WORKDIR":
            stage.folder = rest
            (stage.root / rest[1:]).mkdir(parents=True, exist_ok=True)
        case "USER":
            stage.user = rest
        case "VOLUME":
            stage.volumes.append(rest)
        case "ENTRYPOINT":
            stage.entry = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case "STOPSIGNAL":
            stage.stop = rest
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition(" CMD ")[2])
        case _:
            raise ValueError(f"`{word}` is not known here")


def _base(image: str, root: Path) -> Stage:
    """Return a stage of a base image: that of uv has its program, every other one Python."""
    for place in ("etc", "tmp", "usr/local/bin"):
        (root / place).mkdir(parents=True)
    Path(f"{root}.seen").mkdir()
    for name in ("hosts", "nsswitch.conf", "passwd", "group", "resolv.conf"):
        if (Path("/etc") / name).exists():
            shutil.copy(Path("/etc") / name, root / "etc" / name)
    if image.startswith("astral/uv:"):
        shutil.copy(_uv(), root / "uv")
    return Stage(root, {"PATH": f"/usr/local/bin:{_BASE}/bin:/usr/bin:/bin"})


def _copy(stage: Stage, rest: str, stages: Mapping[str, Stage], context: Path) -> None:
    *words, target = rest.split()
    source = context
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    goal = stage.root / target.removeprefix("/") if target.startswith("/") else stage.root / stage.folder[1:] / target
    for word in words:
        found = source / word.removeprefix("/")
        if found.is_dir():
            shutil.copytree(found, goal, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, goal)


def _uv() -> str:
    found = os.environ.get("UV") or shutil.which("uv")
    assert found, "uv is needed, see CONTRIBUTING.md"
    return found


def _cache() -> str:
    return subprocess.check_output([_uv(), "cache", "dir"], text=True).strip()
