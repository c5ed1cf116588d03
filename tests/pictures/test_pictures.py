"""Each picture is drawn from its text, as it stands in the repository, and can be read without being seen."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from tests.conventions.documents import PAGES, ROOT, links
from tests.pictures.drawing import PictureError, svg
from tests.pictures.source import Picture, read

SOURCES: Final = sorted((ROOT / "docs/pictures").glob("*.toml"))
NAME: Final = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_picture_is_what_its_text_draws(source: Path) -> None:
    drawn = source.with_suffix(".svg").read_text("utf-8")
    assert drawn == svg(read(source)), "run `uv run --locked poe pictures`"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_picture_can_be_read_without_being_seen(source: Path) -> None:
    picture = read(source)
    root = ET.fromstring(source.with_suffix(".svg").read_text("utf-8"))  # noqa: S314 - drawn by us
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "title desc")
    assert [(one.get("id"), one.text) for one in root[:2]] == [("title", picture.title), ("desc", picture.description)]
    shown = {"".join(text.itertext()) for text in root.iter(f"{NAME}text")}
    lines = [line for part in (*picture.box, *picture.note) for line in part.lines if line]
    assert {line.removeprefix("# ").replace("`", "") for line in lines} <= shown
    style = root.findtext(f"{NAME}style") or ""
    assert "prefers-color-scheme: dark" in style


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_picture_is_shown_on_a_page(source: Path) -> None:
    name = f"{source.stem}.svg"
    assert [page for page in PAGES if any(target.endswith(f"pictures/{name}") for target in links(page))] != []


def test_each_picture_has_a_text() -> None:
    drawn = sorted((ROOT / "docs/pictures").glob("*.svg"))
    assert [path.stem for path in drawn] == [path.stem for path in SOURCES]


def small(change: Mapping[str, object]) -> Picture:
    """Return a picture of two boxes and an arrow, with another part instead."""
    told: dict[str, object] = {
        "title": "Small",
        "description": "Two boxes.",
        "size": (400, 200),
        "box": [
            {"name": "one", "at": (20, 80, 100, 60), "lines": ["# One", "is < `two`"]},
            {"name": "two", "at": (220, 80, 100, 60)},
        ],
        "arrow": [{"start": "one.right", "end": "two.left", "text": "leads"}],
    }
    return Picture.model_validate(told | dict(change))


def test_text_is_escaped_and_marked_as_code() -> None:
    root = ET.fromstring(svg(small({})))  # noqa: S314 - drawn by us
    spans = [(span.get("class"), span.text) for span in root.iter(f"{NAME}tspan")]
    assert spans == [
        (None, "Small"),
        ("head", "One"),
        (None, "is < "),
        ("code", "two"),
        (None, "leads"),
    ]


@pytest.mark.parametrize(
    "change, told",
    [
        ({"box": [{"name": "one", "at": (20, 80, 100, 60), "lines": ["far too many words"]}]}, "too narrow"),
        ({"box": [{"name": "one", "at": (20, 80, 100, 60), "lines": ["a", "b", "c"]}]}, "too low"),
        ({"box": [{"name": "one", "at": (320, 80, 100, 60)}]}, "not within"),
        ({"arrow": [{"start": "one.right", "end": "three.left"}]}, "three.left"),
        ({"arrow": [{"start": "one.right", "end": "two.left+9"}]}, "not straight"),
    ],
)
def test_a_text_that_cannot_be_drawn_is_refused(change: dict[str, object], told: str) -> None:
    with pytest.raises(PictureError, match=told):
        svg(small(change))


def test_a_refused_arrow_ends_with_a_cross() -> None:
    arrow = {"start": "one.right", "end": "two.left", "refused": True}
    drawn = svg(small({"arrow": [arrow]}))
    assert 'class="cross"' in drawn
    assert 'class="tip"' not in drawn
