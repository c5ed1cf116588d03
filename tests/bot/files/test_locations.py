"""Paths of files: they cannot escape their folder, hide or control a terminal."""

import pytest

from bot.tools.base import RefusedCallError
from bot.tools.files import placed
from tests.bot.kit import tool_context


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "public/../confidential/pipeline.md",
        "public/..",
        "..",
        ".",
        "",
        "public/.hidden",
        ".labels/x",
        "public/.labels/x",
        "public/a\x00b",
        "public/a\nb",
        "public/\x1b[31m",
        "public/\u202egnp",
        "public/" + "x" * 256,
        "workspace/../../s2/1/x",
        "workspace/.labels/x",
        "//public/x",
    ],
)
def test_a_path_that_climbs_hides_or_controls_is_refused(path: str) -> None:
    with pytest.raises(RefusedCallError, match="a path is relative"):
        placed(path, tool_context())


def test_a_path_is_taken_apart_without_touching_anything() -> None:
    place = placed("public//a/./b.md", tool_context())
    assert (place.folder, place.name, place.workspace) == ("public", "a/b.md", False)
    assert placed("workspace/a", tool_context()).workspace
