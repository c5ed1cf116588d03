"""The house is laid out so that people find their way: few doors in the hall, and rooms behind them."""

from tests.conventions.documents import ROOT

HALL = 12
"""Files directly in `bot/`: what belongs together has a room."""


def test_the_hall_of_the_application_is_small() -> None:
    assert len(list((ROOT / "bot").glob("*.py"))) <= HALL
