"""`python -m tests.scale`: fill a store with more and more sessions, and measure all that may grow with them.

Real conversations of one person are made first, and copied under other names. At each size the store's memory, disk and
restart are measured, messages on it by turns with the smallest size, and then lists, sweeps, audit and backup. Prints a
line of JSON for each figure, beside that of the smallest size, and one for each line through the figures. A table
stands on standard error. A size that would need more memory than `--megabytes` is left out, the line tells of it.

The exit code is 1 if a goal is missed.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from bot.delivery.sweep import SWEEP_SECONDS
from tests.scale.copies import Copier, Keys
from tests.scale.exemplars import made, read
from tests.scale.fits import Fit, fitted
from tests.scale.grown_store import GrownStore, information, lengthened, rewritten
from tests.scale.measures import MEASURES, Measure, mebibytes, row
from tests.scale.people import installation
from tests.scale.work import Talk, talked, worked

_SIZES: Final = (1_000, 10_000, 100_000)
_MILLION: Final = 1_000_000
_ROUNDS: Final = 2
_SECONDS: Final = 12.0
"""How long messages are measured at once: longer than anything in the background takes to come round."""

_RESTARTS: Final = 3
_MEGABYTES: Final = 5_000

Figures = dict[str, dict[int, float]]


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scale", description=__doc__)
    parser.add_argument("--sessions", type=_sizes, default=_SIZES, help="sizes of the store, as in 1000,10000,100000")
    parser.add_argument("--megabytes", type=int, default=_MEGABYTES, help="the most memory of the store")
    parser.add_argument("--report", type=Path, help="a file for the figures and their lines, in JSON")
    return parser.parse_args()


def _sizes(written: str) -> tuple[int, ...]:
    return tuple(sorted({int(part.replace("_", "")) for part in written.split(",")}))


def main() -> int:
    """Measure; return 1 if a goal is missed."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    asked = _asked()
    with TemporaryDirectory(prefix="lgs") as folder:
        figures, missed = asyncio.run(_Scale(Path(folder), asked.megabytes).measured(asked.sessions))
    fits = {one.name: fitted(figures[one.name], one.growth) for one in MEASURES}
    for one in MEASURES:
        print(json.dumps({"name": one.name, "unit": one.unit, **_told(fits[one.name])}))
    print(_table(figures, fits), file=sys.stderr)
    if asked.report is not None:
        lines = {name: _told(fit) for name, fit in fits.items()}
        asked.report.write_text(json.dumps({"figures": figures, "lines": lines, "missed": missed}) + "\n")
    print(f"missed: {', '.join(missed)}" if missed else "all goals met", file=sys.stderr)
    return 1 if missed else 0


class _Scale:
    """One run: an installation that grows, and a copy of it at its smallest size."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._grown, self._small = GrownStore(folder / "grown"), GrownStore(folder / "small")
        self._megabytes = megabytes
        self._figures: Figures = {one.name: {} for one in MEASURES}
        self._missed = list[str]()

    async def measured(self, sizes: Sequence[int]) -> tuple[Figures, list[str]]:
        """Return the figures of each size, and the names of the rows that missed their goals."""
        copier, keys = await self._begun()
        done = 0
        for size in sizes:
            if done and self._figures["memory"][done] * size / done > self._megabytes:
                print(f"{size} sessions would need more than {self._megabytes} MiB: left out", file=sys.stderr)
                break
            found = await self._filled(copier, range(done, size))
            if not done:
                await asyncio.to_thread(shutil.copytree, self._grown.folder, self._small.folder)
            found |= await self._restarted(copier, size)
            beside, first = await self._answered_first()
            small, talk = await self._talked(size, sizes[0], keys)
            found |= first | talk | await self._worked(size, keys)
            beside |= small
            self._print(size, found, beside)
            done = size
        return self._figures, self._missed

    async def _begun(self) -> tuple[Copier, Keys]:
        """Make the originals, and return what copies them."""
        grown = self._grown
        grown.folder.mkdir()
        async with installation(grown.folder) as running:
            sids = await made(running)
        async with grown.open() as client:
            originals = read(client, sids)
        keys = grown.keys()
        return Copier(originals, keys, grown.data / "anchors"), keys

    async def _filled(self, copier: Copier, new: range) -> dict[str, float]:
        grown = self._grown
        async with grown.open() as client:
            await asyncio.to_thread(copier.write, grown.socket, new)
            rewrite = await rewritten(client)
            facts = information(client)
        return {
            "memory": mebibytes(facts["used_memory"]),
            "resident": mebibytes(facts["used_memory_rss"]),
            "disk": mebibytes(facts["aof_current_size"]),
            "fork": facts["latest_fork_usec"] / 1e3,
            "rewrite": rewrite,
        }

    async def _restarted(self, copier: Copier, size: int) -> dict[str, float]:
        """Restart the store with its shortest file and with its longest."""
        grown = self._grown
        short = median([await grown.begun() for _ in range(_RESTARTS)])
        async with grown.open() as client:
            await asyncio.to_thread(lengthened, client, partial(copier.pass_through, grown.socket), size)
            facts = information(client)
        long = median([await grown.begun() for _ in range(_RESTARTS)])
        return {
            # While the file is rewritten the new one is beside it.
            "disk_longest": mebibytes(facts["aof_current_size"] + facts["aof_base_size"]),
            "restart": short,
            "restart_longest": long,
        }

    async def _answered_first(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return how long the first answer takes after a start, on the smallest store and on this one, by turns."""
        stores, taken = (self._small, self._grown), list[list[float]]()
        for _ in range(_RESTARTS):
            taken.append([await one.first_answer() for one in stores])
        small, grown = map(median, zip(*taken, strict=True))
        return {"first_answer": small}, {"first_answer": grown}

    async def _talked(self, size: int, smallest: int, keys: Keys) -> tuple[dict[str, float], dict[str, float]]:
        """Talk on the smallest store and this one by turns; return the figures of both."""
        small, grown = Talk(), Talk()
        for _ in range(_ROUNDS):
            await talked(self._small.folder, smallest, keys, small, _SECONDS)
            if size != smallest:
                await talked(self._grown.folder, size, keys, grown, _SECONDS)
        beside = small.figures()
        return beside, grown.figures() if size != smallest else beside

    async def _worked(self, size: int, keys: Keys) -> dict[str, float]:
        taken = await worked(self._grown.folder, size, keys)
        seconds, memory = await asyncio.to_thread(self._grown.anchors_read)
        taken["healing"] = taken.pop("sweeps") * (SWEEP_SECONDS + taken["sweep"])
        taken["anchors_read"] = seconds
        thousands = {one.name for one in MEASURES if one.unit == "ms"}
        found = {name: figure * 1e3 if name in thousands else figure for name, figure in taken.items()}
        return {**found, "anchors_memory": mebibytes(memory)}

    def _print(self, size: int, found: Mapping[str, float], beside: Mapping[str, float]) -> None:
        """Note the figures of a size and print them, each beside that of the smallest size."""
        for one in MEASURES:
            figures = self._figures[one.name]
            figures[size] = found[one.name]
            reference = beside.get(one.name, figures[min(figures)])
            told = row(one, size, found[one.name], reference)
            print(told.line(), flush=True)
            if not told.met:
                self._missed.append(told.name)


def _told(fit: Fit) -> dict[str, object]:
    return {
        "growth": fit.growth,
        "base": fit.base,
        "slope": fit.slope,
        "residual": round(fit.residual, 3),
        f"at_{_MILLION}": fit.at(_MILLION),
    }


def _table(figures: Figures, fits: Mapping[str, Fit]) -> str:
    sizes = sorted(figures["memory"])
    lines = [f"| | {' | '.join(f'{size:,}' for size in sizes)} | {_MILLION:,} by the line | line |"]
    lines.append("|---" * (len(sizes) + 3) + "|")
    for one in MEASURES:
        cells = [*(_cell(one, figures[one.name][size]) for size in sizes), _cell(one, fits[one.name].at(_MILLION))]
        lines.append(f"| {one.shown or one.name} | {' | '.join(cells)} | {fits[one.name]} |")
    return "\n".join(lines)


def _cell(measure: Measure, figure: float) -> str:
    return f"{figure:,.3g} {measure.unit}" if figure < _HUNDRED else f"{figure:,.0f} {measure.unit}"


_HUNDRED: Final = 100


if __name__ == "__main__":
    sys.exit(main())
