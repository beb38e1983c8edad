"""The table against the ledger: each way in which it can be wrong is seen."""

import pytest

from demo.proof.evidence import Acked
from demo.proof.table import Comparison, Row, judge

LEDGER = {f"P:{number}": Acked(number, "east", "live", "log", f"d{number}") for number in range(1, 4)}
ROWS = [Row(f"P:{number}", f"d{number}", b"k", number) for number in range(1, 4)]


def test_equal_is_equal() -> None:
    found = judge(iter(ROWS), LEDGER)
    assert found.equal
    assert found.rows == 3
    assert found.worded() == "equal"


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (ROWS[:2], Comparison(rows=2, missing={"P:3"})),
        ([*ROWS, ROWS[2]], Comparison(rows=4, twice=1)),
        ([*ROWS[:2], ROWS[2]._replace(digest="other")], Comparison(rows=3, changed=1)),
        ([*ROWS, Row("Q:1", "d", b"k", 1)], Comparison(rows=4, foreign=1)),
        ([ROWS[1], ROWS[0], ROWS[2]], Comparison(rows=3, disordered=1)),
    ],
    ids=["missing", "twice", "changed", "foreign", "disordered"],
)
def test_whatever_differs_is_counted(rows: list[Row], wrong: Comparison) -> None:
    found = judge(iter(rows), LEDGER)
    assert found == wrong
    assert not found.equal
    assert found.worded() != "equal"


def test_order_is_that_of_a_key_and_producer_alone() -> None:
    rows = [ROWS[2], ROWS[0]._replace(key=b"other"), ROWS[1]._replace(key=b"other")]
    assert judge(iter(rows), LEDGER).equal
