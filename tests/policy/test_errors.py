"""Problems are collected, and a misspelt word finds its neighbour."""

from policy.errors import DocumentError, Problem, nearest


def test_nearest_names_one_or_lists_all_or_nothing() -> None:
    assert nearest("mesage", ["message", "read_file"]) == ", did you mean `message`?"
    assert nearest("public", ["PUBLIC", "INTERNAL"]) == ", did you mean `PUBLIC`?"
    assert nearest("x", ["b", "a"]) == ", known are `a`, `b`"
    assert nearest("x", ["b", "a"], ranked=True) == ", known are `b`, `a`"
    assert nearest("x", []) == ""


def test_a_document_error_carries_every_problem() -> None:
    problems = (Problem(("a", 0), "first"), Problem((), "second"))
    error = DocumentError(problems)
    assert error.problems == problems
    assert str(error) == "first; second"
