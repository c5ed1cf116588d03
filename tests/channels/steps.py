"""Counting what work a function does, where a clock would measure the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python a call runs."""
    count = 0

    def trace(_frame: FrameType, _event: str, _value: Any) -> Callable[..., Any]:  # noqa: ANN401 - sys.settrace
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
