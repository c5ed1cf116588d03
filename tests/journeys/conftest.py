"""What journeys are made on."""

from pathlib import Path

import pytest

from tests.journeys.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine nobody used yet."""
    return Machine(tmp_path)
