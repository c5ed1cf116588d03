"""The mistakes that operators make: what doctor, log and chat say of each is what docs/troubleshooting.md says."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.documents import ROOT
from tests.journeys.mistakes import STAGE, WRONG_KEY, Observed, observed, played

pytestmark = pytest.mark.anyio

_SECTION: Final = re.compile(r"^### (.+)\n\n```text\n((?:.+\n)+)```$", re.MULTILINE)
_SAYS: Final = ("doctor", "log", "chat")


def rows() -> dict[str, list[list[str]]]:
    """Return the sections of the page: by mistake, the sentences of doctor, log and chat."""
    text = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    # Long lines are wrapped, and go on below their beginning.
    found = ((name, block.replace("\n        ", " ").splitlines()) for name, block in _SECTION.findall(text))
    return {
        name: [[line[8:] for line in block if line.startswith(f"{said} ")] for said in _SAYS] for name, block in found
    }


ROWS: Final = rows()


def test_the_page_has_a_section_for_each_mistake() -> None:
    assert list(ROWS) == list(STAGE)
    assert len(ROWS) >= 20
    assert all(doctor and log for doctor, log, _ in ROWS.values())


@pytest.mark.parametrize("name", STAGE)
async def test_a_mistake_is_told_as_the_page_says(tmp_path: Path, name: str) -> None:
    doctor, log, chat = ROWS[name]
    async with played(STAGE[name], tmp_path) as (machine, scene):
        found = await observed(
            machine,
            scene,
            lambda text: all(told in logged(text) for told in log),
            lambda text: all(told in text for told in doctor),
        )
        secrets = [value for key, value in scene.environment.items() if not key.startswith("LOCKGATE_") and value]
    assert not [told for told in doctor if told not in found.doctor], found
    assert not [told for told in log if told not in logged(found.log)], found
    assert not [told for told in chat if told not in found.chat], found
    assert bool(chat) is bool(found.chat), found.chat
    assert found.code == (0 if all(told.startswith(("ok ", "seen")) for told in doctor) else 2), found.doctor
    assert not [value for value in (*secrets, WRONG_KEY, "the-wrong-one") if value in _everything(found)]


def logged(text: str) -> str:
    """Return the log as the page writes it: the event, its cause and the step; other lines as they are."""
    return "\n".join(_line(line) for line in text.splitlines())


def _line(line: str) -> str:
    if not line.startswith("{"):
        return line
    facts = json.loads(line)
    cause = facts.get("reason") or facts.get("cause", "")
    told = ", ".join(filter(None, (cause, facts.get("step", ""))))
    return f"{facts['event']}: {told}" if told else str(facts["event"])


def _everything(found: Observed) -> str:
    return f"{found.doctor}\n{found.log}\n{found.chat}"
