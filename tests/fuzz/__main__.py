"""`poe fuzz`: run every property and state machine with free seeds, round after round, until the time is up.

`poe check` tries the same examples on every machine, so that a landing does not depend on luck. New examples are found
here. A round draws a seed of its own and tries ten times as many examples as `check`; a failure is printed with its
seed and its smallest example, which belongs into the test as `@example`.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from typing import Final

_EXAMPLES: Final = re.compile(r"- (\d+) passing, (\d+) failing")


def _round(seed: int, workers: str) -> tuple[bool, int]:
    """Run all properties once; return whether all held, and how many examples were tried."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis or explores", "--timeout=0", "-n", workers]
    # A test may take as long as it wants: it tries many examples.
    command += ["-o", "faulthandler_timeout=0", "--no-header", "--hypothesis-show-statistics", "-p", "randomly"]
    command += [f"--randomly-seed={seed}", f"--hypothesis-seed={seed}", "tests"]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "fuzz"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    tried = sum(int(passed) + int(failed) for passed, failed in _EXAMPLES.findall(done.stdout))
    if done.returncode:
        print(re.split(r"=+ Hypothesis Statistics =+", done.stdout)[0], done.stderr, sep="\n", flush=True)
    return done.returncode == 0, tried


def main() -> int:
    """Explore for the given time; return 1 if a property did not hold."""
    parser = argparse.ArgumentParser(prog="poe fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long, 10 if not given; a round is ended")
    parser.add_argument("--workers", default="auto", help="processes, as for pytest's `-n`")
    parser.add_argument("--seed", type=int, help="run one round with this seed")
    given = parser.parse_args()
    end, rounds, examples, broken = time.monotonic() + given.minutes * 60, 0, 0, 0
    while not rounds or (given.seed is None and time.monotonic() < end):
        seed = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
        held, tried = _round(seed, given.workers)
        rounds, examples, broken = rounds + 1, examples + tried, broken + (not held)
        print(f"round {rounds}, seed {seed}: {tried} examples, {'all held' if held else 'BROKEN'}", flush=True)
    print(f"{rounds} rounds, {examples} examples, {broken} rounds with a property that did not hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
