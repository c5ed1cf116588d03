"""An attack as a value: what is given, what happens, and what must be true then. The YAML files hold nothing else."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from ruamel.yaml import YAML

FOLDER: Final = Path(__file__).parent
_ID: Final = re.compile(r"^  - \{?id: ([^\s,]+)", re.MULTILINE)


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GivenTool(_Data):
    """A tool of the attacker's: labels are written as in config.yaml, `result: null` is a tool without a label.

    `text` and `label` are what a call gives, `says` what it wants said in a chat, of which it may say nothing
    before; with `echoes` it gives back what it was given. `waits` makes it wait for the step `let_go`,
    `fails` makes it raise with its text.
    """

    name: str
    effect: Literal["none", "read", "write", "send"] = "read"
    result: str | None = "PUBLIC"
    clearance: str | None = None
    consequential: bool = False
    text: str = "done"
    label: str = "PUBLIC"
    says: dict[str, str] = Field(default_factory=dict[str, str])
    tells_what_it_says: bool = True
    waits: bool = False
    fails: bool = False
    echoes: bool = False
    repeatable: bool = True


class GivenFile(_Data):
    """A file under the file root: with a label as if a session had written it, without as if the operator had.

    It holds a text, or the bytes `raw`, or is a symbolic link, or a folder.
    """

    text: str = ""
    label: str | None = None
    link: str | None = None
    folder: bool = False
    raw: list[int] | None = None


class Given(_Data):
    """`config` is put over the shipped configuration (or is a text of its own), `files` into the file root.

    `model` makes every answer of the model an error with this text. `web` are the pages of a web server that may be
    reached, by path; `-> ADDRESS` is a redirect. `{web}` stands for its host and port, here, in the configuration
    and in what is said. `{mcp}` stands for the command of the MCP server of `tests/sim/mcp_server.py`. `names` are the
    network addresses that names mean, with a blank between two of one name.

    `room` are the people who read in a shared chat, the room `team` of the channel `room`: then the attack is on its
    session. With `obeys` the model makes every call that somebody ordered, in whatever turn it is asked: a line
    `whenever NAME {...}` of what it was ever told.
    """

    config: dict[str, JsonValue] | str = Field(default_factory=dict[str, JsonValue])
    files: dict[str, GivenFile] = Field(default_factory=dict[str, GivenFile])
    tools: list[GivenTool] = Field(default_factory=list[GivenTool])
    served: bool = True
    model: str = ""
    web: dict[str, str] = Field(default_factory=dict[str, str])
    names: dict[str, str] = Field(default_factory=dict[str, str])
    room: list[str] = Field(default_factory=list[str])
    obeys: bool = False


class Pending(_Data):
    """A text that a turn committed for a chat and that is not sent yet."""

    to: str
    text: str
    label: str


class Step(_Data):
    """One thing that happens; exactly one field besides `by`, `at` and `brings` is given.

    `by` is the account and `at` the chat it happens at, `room:team` for the room, of which `leaves` takes somebody
    away; `overheard` is said there and not to the bot. `brings` are files that come with what is said, by the names
    that their sender gives them. In a text `{approval}` stands for the newest approval's id, `{first}` for the
    oldest's, `{question}` for that of the newest question with all its calls, `{kept}` for what the newest was at the
    step `keep`, `{waiting}` for the item that people were told last is held, `{asked}` for the one question that a
    background session asks, `{sid}` for the session of the chat `owner`, `{sid:ann}` for that of another, `{held}`
    and `{held:ann}` for the newest reference there, and a few words for what no data file can hold (see `stage`).
    `{run}` is the id of the newest run and `{schedule}` of the newest schedule, `{skill}` that of the skill that was
    told of first, and `{approves}` the line with which that is approved as it was shown first. The step `until: rested`
    lets what is due soon be done, and runs go on until each has ended, waits for people, or is told nothing more.
    `until: idle` waits for the session at `at` alone, whatever works below it, and `until: recorded` until its log has
    the results of all calls but of those that hang. `pause` waits for so many seconds, and until nothing goes on
    but calls that hang.
    `restart` ends the process and opens another one, with this put over the configuration; `serve` is whether a
    worker runs, `serve_briefly` lets one run until it has called a tool of the attacker's. `damage` writes a field and
    a value into the record of the session at `at`.
    """

    by: str = "console:owner"
    at: str = "owner"
    say: str | None = None
    brings: dict[str, str] = Field(default_factory=dict[str, str])
    forward: str | None = None
    send: str | None = None
    twice: str | None = None
    until: Literal["called", "settled", "idle", "recorded", "rested"] | None = None
    let_go: bool | None = None
    restart: dict[str, JsonValue] | None = None
    expire: Literal["approvals", "lease"] | None = None
    serve: bool | None = None
    serve_briefly: bool | None = None
    pending: Pending | None = None
    leaves: str | None = None
    overheard: str | None = None
    pause: float | None = None
    mark: bool | None = None
    damage: str | None = None
    keep: bool | None = None


class Then(_Data):
    """What must be true at the end; a field that is left out is not looked at.

    `shown`, `hidden`: texts on the console, ever; `last`, `last_hidden`: since the last step began. `unheard`: texts
    nowhere in what the conversation was told, whatever its person was told beside it.
    `guest`: the texts the guest really got, in order. `deliveries`: `chat state`. `decisions`: `about VERDICT rules`
    of this generation's log; `results`: `tool outcome LABEL`. `refused`: how many were turned away at the door.
    `files`: texts on disk, `above`: those of the files of that name above their folder's floor, `labels`: what stands
    beside either. `unchanged`: taint, files, deliveries and approvals are as when the step `mark` was made.
    `load`: what is said about a configuration that cannot be put in force. `same`: console texts of the last two
    steps must be the same byte for byte. `fetched`: what the web server was asked for, in order. `offered`: what a
    model is offered beside the built-in tools, `name: description`.

    `runs` are all runs, oldest first: `reason TAINT`, or `goes on TAINT`. `run_results` is of the newest run what
    `results` is of the session, `run_unheard` what `unheard` is. `schedules` are all of them: `kind status LABEL`.
    """

    taint: str | None = None
    generation: int | None = None
    shown: list[str] = Field(default_factory=list[str])
    hidden: list[str] = Field(default_factory=list[str])
    unheard: list[str] = Field(default_factory=list[str])
    last: list[str] = Field(default_factory=list[str])
    last_hidden: list[str] = Field(default_factory=list[str])
    guest: list[str] | None = None
    deliveries: list[str] | None = None
    decisions: list[str] | None = None
    results: list[str] | None = None
    approvals: list[str] | None = None
    inputs: list[str] | None = None
    files: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    above: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    called: dict[str, int] = Field(default_factory=dict[str, int])
    audited: list[str] = Field(default_factory=list[str])
    refused: int | None = None
    unchanged: bool = False
    same: bool = False
    fetched: list[str] | None = None
    offered: list[str] | None = None
    load: list[str] = Field(default_factory=list[str])
    runs: list[str] | None = None
    run_results: list[str] | None = None
    run_unheard: list[str] = Field(default_factory=list[str])
    schedules: list[str] | None = None


class Attack(_Data):
    """One attack; `why` is a sentence for whoever answers for security."""

    id: str
    why: str
    given: Given = Given()
    when: list[Step] = Field(default_factory=list[Step])
    then: Then


class _File(_Data):
    attacks: list[Attack]


def names() -> Iterator[str]:
    """Yield `file/id` for every attack. The files are searched, as parsing all would cost each process seconds."""
    for path in sorted(FOLDER.glob("*.yaml")):
        yield from (f"{path.stem}/{one}" for one in _ID.findall(path.read_text("utf-8")))


@cache
def attacks_of(stem: str) -> Mapping[str, Attack]:
    """Return the attacks of a file by their ids."""
    read: object = YAML(typ="safe").load(FOLDER / f"{stem}.yaml")  # pyright: ignore[reportUnknownMemberType]
    return {attack.id: attack for attack in _File.model_validate(read).attacks}
