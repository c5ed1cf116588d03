"""`python -m tests.pictures`: draw each text of `docs/pictures` as the SVG beside it."""

from pathlib import Path

from tests.pictures.drawing import svg
from tests.pictures.source import read

for source in sorted(Path("docs/pictures").glob("*.toml")):
    drawn = source.with_suffix(".svg")
    drawn.write_text(svg(read(source)), "utf-8")
    print(drawn)
