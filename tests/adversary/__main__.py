"""`poe adversary`: let the adversary search, and print what it came to."""

import argparse
import json
import sys

import anyio

from tests.adversary.every import PLANTED, WORLDS
from tests.adversary.search import Bounds, Found, search
from tests.adversary.stage import staged
from tests.adversary.worlds import World


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="poe adversary", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all worlds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="items or names of worlds, such as A1,names")
    parser.add_argument("--planted", action="store_true", help="the worlds with a weakness that must be found")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def _searched(world: World, bounds: Bounds) -> Found:
    async with staged(world) as stage:
        return await search(stage, bounds)


def main() -> int:
    asked = _asked()
    only = {name for name in asked.only.split(",") if name}
    every = PLANTED if asked.planted else WORLDS
    worlds = [world for world in every if not only or {world.name, world.finds} & only]
    if not worlds:
        print(f"no world of these names; there are {', '.join(world.name for world in every)}", file=sys.stderr)
        return 2
    seconds = asked.minutes * 60 / len(worlds)
    attacks = states = sequences = 0
    for world in worlds:
        found = anyio.run(_searched, world, Bounds(10**9, 10**9, seconds, asked.seed))
        attacks, states = attacks + (found.plan is not None), states + found.states
        sequences += found.sequences
        print(_line(found, world, as_json=asked.json), flush=True)
    told = (
        f"{attacks} planted weaknesses found, {len(worlds) - attacks} missed" if asked.planted else f"{attacks} attacks"
    )
    print(f"{len(worlds)} worlds, {states} states, {sequences} sequences: {told}", file=sys.stderr)
    return 0 if attacks == (len(worlds) if asked.planted else 0) else 1


def _line(found: Found, world: World, *, as_json: bool) -> str:
    attack = "" if found.plan is None else found.plan.shown(world.names)
    if as_json:
        return json.dumps(
            {
                "world": found.world,
                "finds": found.finds,
                "states": found.states,
                "sequences": found.sequences,
                "seconds": round(found.seconds, 1),
                "by": found.by,
                "attack": attack,
                "why": found.why,
            }
        )
    head = (
        f"{found.finds} {found.world}: {found.states} states, {found.sequences} sequences, {found.seconds:.1f} s, "
        f"{'no attack' if found.plan is None else f'an attack of {found.plan.size} steps, {found.by}'}"
    )
    return "\n".join((head, *attack.splitlines(), *(f"  -> {why[:400]}" for why in found.why)))


if __name__ == "__main__":
    sys.exit(main())
