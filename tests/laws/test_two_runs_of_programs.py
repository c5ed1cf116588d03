"""Law `no_read_up`, for sessions that work for one another: two runs that differ in a secret alone look alike below it.

`programs` draws what sessions and people do. `poe check` plays a few of them, always the same; `TWO_RUNS=500` in the
environment plays as many pairs, with free seeds under `HYPOTHESIS_PROFILE=fuzz`. A pair takes about half a second.
"""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings

from tests.laws.programs import Act, Node, Program, Stage, programs, staged

PAIRS = int(os.environ.get("TWO_RUNS", "15"))

READS = Node(reads=True)
SENDS = Node(reads=True, after=(("tell", "tell"), ("tell",)), ends=("answer", "fail"))


@contextmanager
def _stage() -> Generator[tuple[asyncio.Runner, Stage]]:
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        context = staged(Path(folder))
        stage = runner.run(context.__aenter__())
        try:
            yield runner, stage
        finally:
            runner.run(context.__aexit__(None, None, None))


@pytest.mark.timeout(0)
def test_no_read_up_two_runs_of_a_program_give_the_same_logs() -> None:
    with _stage() as (runner, stage):
        # An example takes half a second, so a failing one is not shrunk: it is short as it is.
        @settings(max_examples=PAIRS, phases=[Phase.explicit, Phase.reuse, Phase.generate])
        @given(programs)
        @example(Program(Node((READS,))))
        @example(Program(Node((SENDS, READS, "tell desk"))))
        @example(Program(Node((Node((SENDS, "tell")), SENDS)), (Act("say", 1), Act("stop", 2))))
        @example(Program(Node(), (Act("do", 0, Node(reads=True, after=(("list", "look"), ()))), Act("new", 9))))
        @example(Program(Node((SENDS,)), (Act("take", 1), Act("new", 4), Act("do", 0, Node((SENDS,))))))
        def law(program: Program) -> None:
            first, second = (runner.run(stage.play(program, secret)).splitlines() for secret in (0, 1))
            assert first == second

        law()


def test_a_program_is_played_alike_twice_and_its_secret_is_acted_upon() -> None:
    """Else the law would hold of anything."""
    program = Program(Node((SENDS, "tell desk", Node(("tell",)))), (Act("say", 1),))
    with _stage() as (runner, stage):
        told = [runner.run(stage.play(program, 1)) for _ in range(2)]
        assert told[0] == told[1]
        held = list[int]()
        for secret in (0, 1):
            runner.run(stage.play(program, secret))
            held.append(len(runner.run(stage.app.store.delegation.held(stage.owner.sid))))
        assert held == [3, 2]
