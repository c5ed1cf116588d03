"""What is said as Telegram is to show it: an agent's Markdown formatted, what the program asks as it is written."""

import pytest

from channels.message import Address, Outbound, OutboundKind
from channels.telegram.letter import compose

HOME = Address("telegram", "5")
ASKED = 'May `message` run?\n{"text": "**all** of [this](https://a.example) `really`"}'


@pytest.mark.parametrize("kind", [OutboundKind.QUESTION, OutboundKind.NOTICE])
def test_what_people_are_asked_about_is_shown_as_it_is_written(kind: OutboundKind) -> None:
    (part,) = compose(Outbound(HOME, ASKED, "k", kind)).parts
    assert part.text == ASKED
    assert not {entity.kind for entity in part.entities} & {"bold", "text_link"}


@pytest.mark.parametrize("kind", [OutboundKind.ANSWER, OutboundKind.MESSAGE])
def test_what_an_agent_writes_is_formatted(kind: OutboundKind) -> None:
    (part,) = compose(Outbound(HOME, "**all** of this", "k", kind)).parts
    assert part.text == "all of this"
    assert [entity.kind for entity in part.entities] == ["bold"]


def test_the_line_above_the_file_of_a_question_is_as_it_is_written() -> None:
    made = compose(Outbound(HOME, "send **~~all~~** of it\n" + "x " * 60_000, "k", OutboundKind.QUESTION))
    assert (made.parts[0].text, bool(made.file)) == ("send **~~all~~** of it", True)
