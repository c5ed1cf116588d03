"""Code with probes tells what coverage.py's tracer tells of the same code: each line and branch, run or missed."""

import asyncio
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from coverage import Coverage

from tests.probes import compiled, equip, write

SOURCE = '''
"""A module."""

from __future__ import annotations

import asyncio
import enum
from contextlib import contextmanager, suppress
from dataclasses import dataclass

LIMIT = 3
if LIMIT > 5:
    LIMIT = 5
for _ in range(2):
    if _ == 7:
        break
else:
    LIMIT += 0
try:
    import nowhere_at_all
except (
    ImportError
):
    nowhere_at_all = None


def twice(function):
    return function


def plain(x):
    """With a text."""
    if x:
        y = 1
    return x


def last(x):
    if x > 1:
        x = 2


def chain(x):
    if x == 0:
        return "none"
    elif x == 1:
        found = "one"
    elif (
        x == 2
        or x == 5
    ):
        found = "few"
    else:
        found = "many"
    return found


def loops(items, stop):
    total = 0
    for item in items:
        if item == stop:
            break
        if item < 0:
            continue
        total += item
        if item > 10:
            total += 1
    else:
        total = -total
    while total > 3:
        total -= 2
        if total == 5:
            break
    return total


def endless(x):
    while True:
        x -= 1
        if x < 0:
            return x


def fails(x):
    try:
        if x == 0:
            raise ValueError
        if x == 1:
            raise KeyError
        y = 1 // (x - 2)
    except ValueError:
        y = 1
    except (KeyError, IndexError) as error:
        if error.args:
            y = 2
        else:
            y = 3
    except ZeroDivisionError:
        return None
    else:
        y = 4
    finally:
        if x == 4:
            x = 5
    return y


def bare(x):
    try:
        return 1 // x
    except:
        return 0


def held(x):
    with suppress(KeyError):
        if x == 0:
            raise KeyError
        if x == 1:
            return 1
    with (
        suppress(ValueError),
        suppress(KeyError),
    ):
        if x == 2:
            x = 3
    for number in range(2):
        with suppress(KeyError):
            if number == x:
                raise KeyError(
                    number
                )
    return x


def lost(x):
    with suppress(KeyError):
        if x:
            x = 1
            raise KeyError
    return x


def matched(x):
    match x:
        case 0:
            found = 0
        case 1 | 2 if x == 2:
            found = 2
        case [a, *_]:
            if a:
                found = a
            else:
                found = None
        case str():
            return "text"
        case _:
            found = 9
    match x:
        case 5:
            found = 5
        case {
            "a": _
        }:
            found = 6
    return found


@twice
@twice
def drawn(
    items,
    most=3,
):
    global LIMIT
    found = [
        item
        for item in items
        if item < most
    ]
    key = lambda item: (
        -item
    )
    return sorted(found, key=key)


def made(x):
    yield x
    if x:
        yield x + 1


def outer(x):
    seen = 0

    def inner():
        nonlocal seen
        if x:
            seen += 1

    inner()
    return seen


@dataclass(frozen=True)
class Point:
    """With a text."""

    x: int
    y: int = 0

    if LIMIT > 100:
        z: int = 1

    @property
    def far(self):
        return (
            self.x > 9
        )


class Colour(enum.Enum):
    RED = 1

    def __str__(self):
        if self is Colour.RED:
            return "red"
        return "other"


@contextmanager
def around(x):
    if x:
        x = 2
    yield x


async def waits(x):
    async with asyncio.timeout(60):
        if x == 2:
            x = 3
        await asyncio.sleep(0)
    async for item in counted(x):
        if item == 7:
            break
    else:
        x += 0
    try:
        await asyncio.sleep(0)
        if x == 3:
            raise TypeError
    except TypeError:
        x = 4
    return x


async def counted(most):
    for item in range(most):
        await asyncio.sleep(0)
        yield item


if __name__ == "__main__":
    plain(1)
'''

CALLS: Mapping[str, tuple[tuple[object, ...], ...]] = {
    "plain": ((0,), (1,)),
    "last": ((1,), (2,)),
    "chain": ((0,), (1,), (2,), (3,)),
    "loops": (([1, 2], 2), ([-1], 9), ([11, 4], 9), ([], 0)),
    "endless": ((2,), (-1,)),
    "fails": ((0,), (1,), (2,), (3,), (4,)),
    "bare": ((1,), (0,)),
    "held": ((0,), (1,), (2,)),
    "lost": ((0,), (1,)),
    "matched": ((0,), (2,), ([1],), ([0],), ("x",), (5,), ({"a": 1},)),
    "drawn": (([1, 5],),),
    "made": ((0,), (1,)),
    "outer": ((0,), (1,)),
    "Point": ((1,),),
    "waits": ((0,), (2,), (3,)),
}


def called(names: Mapping[str, object], name: str, arguments: tuple[object, ...]) -> None:
    """Call a function, and see what it makes through to its end."""
    found = cast("object", names[name](*arguments))  # type: ignore[operator]  # pyright: ignore[reportCallIssue,reportUnknownVariableType]
    if inspect.iscoroutine(found):
        asyncio.run(found)
    elif name == "made":
        assert list(cast("list[object]", found))
    elif name == "Point":
        assert not found.far  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def told(cover: Coverage, folder: Path) -> Mapping[str, object]:
    """Return what a report says of the one file."""
    report = folder / "report.json"
    cover.json_report([str(folder / "code.py")], outfile=str(report))
    (file,) = json.loads(report.read_text("utf-8"))["files"].values()
    return {name: file[name] for name in ("executed_lines", "missing_lines", "executed_branches", "missing_branches")}


@pytest.mark.parametrize(
    "name, arguments",
    [pytest.param("", (), id="nothing")]
    + [pytest.param(name, one, id=f"{name}-{place}") for name, all_ in CALLS.items() for place, one in enumerate(all_)],
)
def test_a_call_is_told_as_a_tracer_tells_it(name: str, arguments: tuple[object, ...], tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(SOURCE, "utf-8")
    traced, names = Coverage(data_file=None, branch=True, include=[str(path)], config_file=False), dict[str, object]()
    code = compile(SOURCE, str(path), "exec")
    names["__name__"] = __name__
    traced.start()
    try:
        exec(code, names)  # noqa: S102 - the text above
        if name:
            called(names, name, arguments)
    finally:
        traced.stop()
    names = dict[str, object]({"__name__": __name__})
    code, places = compiled(SOURCE.encode(), str(path))
    seen = equip(names, places)
    exec(code, names)  # noqa: S102 - as above
    if name:
        called(names, name, arguments)
    write({str(path): seen.arcs}, tmp_path / "cover/data")
    probed = Coverage(data_file=str(tmp_path / "cover/data"), branch=True, config_file=False)
    probed.combine()
    assert told(probed, tmp_path) == told(traced, tmp_path)
