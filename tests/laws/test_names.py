"""Law `no_read_up` for files: a name that is taken above a reader is, for that reader, not taken.

Sessions at several labels read, list and write in folders. The same is played again without the sessions above a
reader: all that the others are told must be the same byte for byte, labels too. Names, folders that are made on the
way, overwriting and failures are among it.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.files.local import LocalFiles
from bot.files.port import LabelledFiles
from bot.tools.arguments import checked
from bot.tools.base import Result, Tool
from bot.tools.files import ListFiles, ReadFile, WriteFile
from policy.labels import Label, parse
from tests.bot.kit import TOP, document, tool_call
from tests.people import principal

if TYPE_CHECKING:
    from pydantic import JsonValue

POLICY: Final = document(
    compartments=["acme", "hr"],
    principals={"owner": principal("console:owner")},
    folders={
        "shared": {"floor": "PUBLIC", "integrity": "TRUSTED", "clearance": "top"},
        "mixed": {"floor": "INTERNAL{acme}", "clearance": "top"},
        "drop": {"floor": "CONFIDENTIAL", "clearance": "top"},
    },
)
LABELS: Final = tuple(
    map(
        parse,
        ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL", "CONFIDENTIAL{hr}~", "PUBLIC{hr}", "RESTRICTED{acme,hr}"),
    )
)
READERS: Final = tuple(map(parse, ("PUBLIC", "INTERNAL", "INTERNAL{acme}", "CONFIDENTIAL", "CONFIDENTIAL{hr}")))
PATHS: Final = ("a", "A", "a/b", "a/b/c", "b/c", "b")


@dataclass(frozen=True)
class Step:
    """What a session at `taint` does: `how` is read, list or write, `up_to` how far it asks to see."""

    taint: Label
    how: str
    folder: str
    path: str
    up_to: str | None = None


_steps = st.builds(
    Step,
    st.sampled_from(LABELS),
    st.sampled_from(("read", "list", "write", "write")),
    st.sampled_from(("shared", "mixed", "drop")),
    st.sampled_from(PATHS),
    st.sampled_from((None, None, "PUBLIC", "CONFIDENTIAL", "INTERNAL{hr}")),
)


async def _done(root: LabelledFiles, number: int, step: Step) -> Result:
    """Take a step as the gate does: the result is joined with what was declared, and cannot be less."""
    path, here = f"{step.folder}/{step.path}", tool_call(step.taint, document=POLICY, ceiling=POLICY.top)
    tools: dict[str, Tool] = {"read": ReadFile(root), "list": ListFiles(root), "write": WriteFile(root)}
    given: dict[str, JsonValue] = {"path": step.folder if step.how == "list" and step.path == "a" else path}
    given |= {"text": f"text {number} of {step.taint}"} if step.how == "write" else {"up_to": step.up_to}
    tool = tools[step.how]
    arguments = checked(tool, given)
    declared = tool.declare(arguments, here[0])
    told = await tool.run(arguments, *here)
    return Result(told.text, told.label.join(declared.result), told.failed)


async def _played(steps: list[tuple[int, Step]]) -> list[Result]:
    with TemporaryDirectory() as folder:
        root = LocalFiles(Path(folder), lambda: TOP)
        operators = Path(folder) / "files/shared/b"
        await asyncio.to_thread(operators.parent.mkdir, parents=True)
        await asyncio.to_thread(operators.write_text, "the operator's")
        return [await _done(root, number, step) for number, step in steps]


def _told(result: Result, reader: Label) -> object:
    """Return what a reader learns of a result: all of it, or nothing but that it is too high."""
    return (result.text, result.label, result.failed) if result.label.flows_to(reader) else None


_CONFIDENTIAL: Final = parse("CONFIDENTIAL")
_PUBLIC: Final = parse("PUBLIC")


@settings(max_examples=60, deadline=None)
@given(st.lists(_steps, min_size=1, max_size=10), st.sampled_from(READERS))
@example([Step(_CONFIDENTIAL, "write", "shared", "a"), Step(_PUBLIC, "write", "shared", "a")], _PUBLIC)
@example([Step(_CONFIDENTIAL, "write", "shared", "a/b"), Step(_PUBLIC, "write", "shared", "a")], _PUBLIC)
@example([Step(_CONFIDENTIAL, "write", "shared", "b"), Step(_PUBLIC, "read", "shared", "b")], _PUBLIC)
@example([Step(_CONFIDENTIAL, "write", "mixed", "b"), Step(_PUBLIC, "list", "mixed", "a")], parse("INTERNAL{acme}"))
@example([Step(_CONFIDENTIAL, "write", "drop", "a/b"), Step(_PUBLIC, "write", "drop", "a")], _PUBLIC)
def test_no_read_up_a_name_taken_above_is_not_taken_below(steps: list[Step], reader: Label) -> None:
    async def law() -> None:
        numbered = list(enumerate(steps))
        below = [(number, step) for number, step in numbered if step.taint.flows_to(reader)]
        whole, alone = await _played(numbered), await _played(below)
        seen = [_told(whole[number], reader) for number, _ in below]
        assert seen == [_told(result, reader) for result in alone]

    asyncio.run(law())


@settings(max_examples=40, deadline=None)
@given(st.lists(_steps, max_size=8), st.sampled_from(LABELS), st.sampled_from(PATHS))
def test_stored_things_keep_their_label_and_their_writer_finds_them(steps: list[Step], taint: Label, path: str) -> None:
    """What a session wrote is what it reads under that name, unless a folder of its own level stands there."""

    async def law() -> None:
        last = Step(taint, "write", "shared", path)
        *_, wrote, read = await _played(list(enumerate([*steps, last, Step(taint, "read", "shared", path)])))
        assert read.label.flows_to(taint), "a read raises no further than the floor, whatever is stored"
        assert wrote.failed or (read.text == f"text {len(steps)} of {taint}" and read.label.join(taint) == read.label)

    asyncio.run(law())
