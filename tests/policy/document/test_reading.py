"""Each piece of a document is read, or refused in one sentence; see test_document for all of them together."""

import pytest
from inline_snapshot import snapshot

from policy.decision import Verdict
from policy.document import reading
from policy.document.reading import KnownNames
from policy.request import Hook

KNOWN = KnownNames(
    frozenset({"message"}), {}, frozenset({"hr"}), frozenset({"console"}), frozenset({"email"}), frozenset()
)


def test_names_are_gathered_from_whatever_shape() -> None:
    raw: dict[object, object] = {
        "rules": [{"id": "a"}, {"id": "a"}, {"id": 3}, {"id": []}, "text", {"id": "b"}],
        "principals": {"x": {"accounts": ["console:a", "console:a", 3]}, "y": 3, 4: {"accounts": "text"}},
        "compartments": ["hr", 3, None],
        "groups": {"staff": 3, 4: {}},
        "channels": ["not", "a", "mapping"],
        "patterns": {"own": "x", 3: "y"},
    }
    known = reading.gather(raw, ["message"], ["notes"])
    assert (known.tools, known.servers) == ({"message"}, {"notes"})
    assert known.compartments == {"hr"}
    assert known.channels == frozenset()
    assert (known.people, known.groups) == ({"x", "y"}, {"staff"})
    assert known.patterns == {"own", "secret", "payment-card", "iban", "us-ssn", "email", "phone"}
    assert known.repeated == {("rule", "a"), ("account", "console:a")}


def test_top_is_the_highest_label_of_the_document() -> None:
    assert str(reading.label("top", KNOWN)) == "RESTRICTED{hr}~"
    assert str(reading.label("INTERNAL{hr}", KNOWN)) == "INTERNAL{hr}"


@pytest.mark.parametrize("unknown", [None, Hook.PRE_OUTPUT])
def test_a_pattern_is_not_blamed_for_a_hook_that_could_not_be_read(unknown: Hook | None) -> None:
    assert reading.pattern("email", KNOWN, unknown, None) == "email"
    assert reading.pattern(None, KNOWN, unknown, None) is None
    assert reading.pattern(None, KNOWN, unknown, Verdict.BLOCK) is None
    assert reading.tool_globs(("mess*",), KNOWN, None) == ("mess*",)


def test_refusals_are_sentences_with_the_next_step() -> None:
    with pytest.raises(ValueError, match="REDACT") as nothing:
        reading.pattern(None, KNOWN, Hook.PRE_OUTPUT, Verdict.REDACT)
    with pytest.raises(ValueError, match="compartment") as compartment:
        reading.label("PUBLIC{hrr}", KNOWN)
    assert [str(nothing.value), str(compartment.value)] == snapshot(
        [
            "`REDACT` has nothing to replace, give a `pattern`, known are `email`",
            "unknown compartment `hrr`, did you mean `hr`?, or add it to `compartments`",
        ]
    )
    assert str(reading.refusal("a\nb\ud800")) == r"a\nb\ud800"
