"""Everybody proves who it is, some by tokens that end, and nobody answers a caller who lies."""

import pytest

from testbed.checkers.evidence import RefusedReports
from testbed.checkers.identities import ProvedCallers
from tests.simulation.false_reports import ABSURD, COMPLAINT, NEWCOMER
from tests.simulation.plan import Plan
from tests.simulation.run import run


@pytest.mark.slow
def test_tokens_end_leases_stay_and_lying_callers_get_no_answer() -> None:
    result = run(Plan(1, 30.0, faults=("kill-service", "kill-member", "move-stream"), hostile=True))
    assert result.green, "\n".join([*result.trace[-40:], result.message])
    lies = next(each for each in result.checkers if isinstance(each, ProvedCallers))
    assert lies.refused > 200, "else it proves less than it says"
    reports = next(each for each in result.checkers if isinstance(each, RefusedReports))
    assert min(reports.refused[each] for each in (COMPLAINT, ABSURD, NEWCOMER)) > 3, reports.refused
