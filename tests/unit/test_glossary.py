"""`docs/glossary.md`: a term stands once, and a class is named after it only where the glossary says."""

from pathlib import Path
from typing import Final

import pytest

from tools.glossary import PAGE, Term, code_faults, page_faults, read_classes, read_terms

ROOT: Final = Path(__file__).parents[2]
TERMS: Final = read_terms((ROOT / PAGE).read_text(encoding="utf-8"))
DESIGNED: Final = """
    cluster, stream, lane, channel, topic, partition, record, offset, route, group, member, lease, target assignment,
    current assignment, progress, commit envelope, dead letter, replay, history, event, append, fold, command, session,
    revision, epoch, assigner, assignor, lag_records, lag_seconds, drain, fence, revoke, stranded
"""
# Classes that give a term a second meaning today. Rename one, and take it out; none may be added.
SECOND_MEANINGS: Final = frozenset(
    {
        "braid/cli/core/session.py:Session",
    }
)
LEASE: Final = Term("lease", "Ownership for a time.", ("lock",), (("a.py", "Lease"),), "")


def test_every_term_of_the_design_has_a_line() -> None:
    wanted = {word.strip() for word in DESIGNED.split(",")}
    assert wanted - {term.name for term in TERMS} == set()


def test_the_glossary_says_each_term_once() -> None:
    assert list(page_faults(TERMS)) == []


def test_a_class_named_after_a_term_is_where_the_glossary_says() -> None:
    found = {fault.partition(" gives ")[0]: fault for fault in code_faults(TERMS, read_classes(ROOT))}
    assert set(found) == SECOND_MEANINGS, sorted(found.values())


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        ([LEASE, LEASE._replace(means="A lock.")], "lease stands 2 times: one line a term"),
        ([LEASE, LEASE._replace(name="loan")], "'Ownership for a time.' stands for 2 terms: keep one of them"),
        ([LEASE._replace(means="")], "lease needs a meaning, a sentence that ends with a full stop"),
        ([LEASE._replace(never=("lease",))], "lease is called what it is never called"),
    ],
)
def test_a_line_that_is_wrong_is_named(terms: list[Term], fault: str) -> None:
    assert list(page_faults(terms)) == [fault]


@pytest.mark.parametrize(
    ("classes", "faults"),
    [
        ({"a.py": frozenset({"Lease"})}, []),
        ({"a.py": frozenset({"Lease"}), "b.py": frozenset({"LeaseSession"})}, []),
        ({"a.py": frozenset({"Loan"})}, ["lease: a.py:Lease is not there any more"]),
        (
            {"a.py": frozenset({"Lease"}), "b.py": frozenset({"Lease"})},
            ["b.py:Lease gives lease a second meaning; rename it, or list it in docs/glossary.md"],
        ),
    ],
)
def test_a_second_class_of_one_name_is_refused(classes: dict[str, frozenset[str]], faults: list[str]) -> None:
    assert list(code_faults([LEASE], classes)) == faults


def test_a_term_of_two_words_names_a_class() -> None:
    assert LEASE._replace(name="dead letter").class_name == "DeadLetter"


def test_a_line_with_a_missing_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="has 4 cells, not 5"):
        read_terms("| lease | Ownership. | | |\n")
