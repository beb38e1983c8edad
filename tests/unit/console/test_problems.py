"""Errors of the mesh as browsers get them."""

from braid.kernel.errors import Invalid, NotFound
from console.server.problems import problem_of


def test_an_error_keeps_the_choices_for_its_field() -> None:
    several = Invalid("groups a, b have this lease", field="group", metadata={"choices": "a,b"})
    assert problem_of(several).document()["choices"] == ["a", "b"]
    assert "choices" not in problem_of(Invalid("no", field="group")).document()
    assert "choices" not in problem_of(NotFound("no", metadata={"choices": "a,b"})).document()
