"""Coverage of fuzzing: calls, their answers and the fields that were set, for each method."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.fuzzing.values import fields_of
from tests.unit.kernel.access.api import Method, methods

OK: Final = "OK"


@dataclass
class Called:
    """Outcomes of the calls of one method."""

    method: Method
    calls: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    visited: set[str] = field(default_factory=set)

    @property
    def unvisited(self) -> frozenset[str]:
        """Fields that no call has set."""
        return fields_of(self.method.request) - self.visited

    def row(self) -> str:
        """A line for people."""
        known, refused = fields_of(self.method.request), sum(self.answers.values()) - self.answers[OK]
        codes = " ".join(f"{code}={count}" for code, count in sorted(self.answers.items()) if code != OK)
        name = f"{self.method.service}/{self.method.name}"
        fields = f"{len(known & self.visited)}/{len(known)}"
        return f"{name:30}{self.calls:7}{self.answers[OK]:9}{refused:9}{fields:>9}  {codes}".rstrip()


class Coverage:
    """The coverage of all methods of the protos."""

    def __init__(self) -> None:
        self._called = {(each.service, each.name): Called(each) for each in methods()}

    def of(self, method: Method) -> Called:
        """The coverage of a method."""
        return self._called[method.service, method.name]

    def each(self) -> Collection[Called]:
        """The coverage of each method, in the order of the protos."""
        return self._called.values()

    @property
    def calls(self) -> int:
        """Calls of all methods."""
        return sum(each.calls for each in self._called.values())

    def table(self) -> str:
        """A table for people, one method a line."""
        head = f"{'method':30}{'calls':>7}{'accepted':>9}{'refused':>9}{'fields':>9}  refused by code"
        return "\n".join([head, *(each.row() for each in self._called.values())])

    def unvisited(self) -> Mapping[str, frozenset[str]]:
        """By method, fields that no call has set."""
        found = {f"{service}/{name}": each.unvisited for (service, name), each in self._called.items()}
        return {name: fields for name, fields in found.items() if fields}
