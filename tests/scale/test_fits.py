"""The line through figures at several sizes."""

import pytest

from tests.scale.fits import Growth, fitted

SIZES = (1_000, 10_000, 100_000)


def test_a_line_is_found_and_extended() -> None:
    fit = fitted({size: 5 + 0.002 * size for size in SIZES}, Growth.LINEAR)
    assert fit.base == pytest.approx(5)
    assert fit.slope == pytest.approx(0.002)
    assert fit.residual == pytest.approx(0, abs=1e-9)
    assert fit.at(1_000_000) == pytest.approx(2_005)


def test_what_does_not_grow_has_no_slope() -> None:
    fit = fitted({1_000: 2.0, 10_000: 2.2, 100_000: 2.0}, Growth.CONSTANT)
    assert fit.slope == 0
    assert fit.at(1_000_000) == fit.base == pytest.approx(2.06, abs=0.02)
    assert fit.residual == pytest.approx(0.07, abs=0.02)


def test_what_grows_faster_than_a_line_shows_in_the_residual() -> None:
    fit = fitted({size: size**2 for size in SIZES}, Growth.LINEAR)
    assert fit.residual > 0.5


def test_a_line_neither_begins_nor_falls_below_zero() -> None:
    fit = fitted({1_000: 0.5, 10_000: 11.0, 100_000: 130.0}, Growth.LINEAR)
    assert fit.base == 0
    assert fitted({1_000: 3.0, 10_000: 2.0, 100_000: 1.0}, Growth.LINEAR).slope == 0


@pytest.mark.parametrize("figures", [{}, {1_000: 0.0}])
def test_a_line_needs_figures(figures: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        fitted(figures, Growth.LINEAR)
