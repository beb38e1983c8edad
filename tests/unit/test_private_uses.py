"""Tests watch what is public: `tests/private_uses.txt` says which may look inside, how often, and why."""

from pathlib import Path
from typing import Final

import pytest

from tests.support.private_uses import Allowance, excesses, private_uses, read_allowances
from tests.support.tidy import tracked_files

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = ROOT / "tests" / "private_uses.txt"
USES_MAX: Final = 223  # over all files: moving them around makes no room


def test_tests_reach_into_no_more_private_parts_than_listed() -> None:
    allowed = read_allowances(LIST.read_text(encoding="utf-8"))
    paths = [path for path in tracked_files(ROOT) if path.startswith("tests/") and path.endswith(".py")]
    found = excesses({path: (ROOT / path).read_text(encoding="utf-8") for path in paths}, allowed)
    assert not found, "\n".join(found)
    assert sum(each.uses for each in allowed.values()) <= USES_MAX, "lower another number, or say why not"


@pytest.mark.parametrize(
    "text",
    [
        "consumer._memory.used",
        "Dispatcher._leave",
        "from braid.client.commits.restore import _seen",
        'monkeypatch.setattr(spill.Spill, "_forget", late)',
        'setattr(producer, "_closed", True)',
        "super()._check()",
    ],
)
def test_one_more_private_use_is_found(text: str) -> None:
    assert len(private_uses(text)) == 1
    assert excesses({"tests/a.py": text}, {}) != []
    assert excesses({"tests/a.py": text}, {"tests/a.py": Allowance(1, "why")}) == []
    assert excesses({"tests/a.py": f"{text}\n{text}"}, {"tests/a.py": Allowance(1, "why")}) != []


@pytest.mark.parametrize(
    "text",
    [
        "row._replace(size=1)._asdict()",
        "class A:\n    def _own(self): self._kept = self._other\nA()._own(), A()._kept",
        "monkeypatch.setattr(limits, 'KEPT_MAX', 3)",
        "value.__class__",
    ],
)
def test_what_is_public_or_a_files_own_is_not_counted(text: str) -> None:
    assert private_uses(text) == []


def test_a_line_of_the_list_for_a_file_that_is_gone_is_found() -> None:
    (found,) = excesses({}, read_allowances("# a list\n 2 tests/gone.py  why\n"))
    assert found == "tests/gone.py is in the list and nowhere else"
