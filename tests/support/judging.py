"""Figures that say nothing on a starved machine, and the repetition of tests that met one.

A test that measures time judges its figure only where the machine gave its time (`testbed.patience`). `judge`
raises `NotJudged` where it did not, and the test is run again: up to three times in all, then it fails. Only a figure
that was missed is doubted; one that was reached on a starved machine was reached.
"""

from typing import Final

import pytest
from _pytest.nodes import Node
from _pytest.runner import call_and_report

TRIES_MAX: Final = 3
REPEATED: Final = "repeated"

_doubted: Final = pytest.StashKey[bool]()
_tries: Final = pytest.StashKey[int]()


class NotJudged(AssertionError):
    """A figure was missed while the machine withheld its time: the test is run again."""


class _NextTry:
    """The next try of a test, where pytest asks what the next test needs: all but what belongs to a single try."""

    def __init__(self, item: pytest.Function) -> None:
        self.fixturenames = item.fixturenames
        self._item = item

    def listchain(self) -> list[Node]:
        """The collectors that stay set up."""
        return self._item.listchain()[:-1]


def judge(holds: bool, given: float, least: float, what: str) -> None:
    """Asserts a figure that depends on time.

    Args:
        holds: Whether the figure was reached.
        given: The share of the machine's time while it was measured (`Deadline.share`).
        least: The share below which a missed figure says nothing.
        what: The figure, for the message.

    Raises:
        NotJudged: it was missed, and the machine gave less than it must.
        AssertionError: it was missed.
    """
    if holds:
        return
    if given < least:
        raise NotJudged(f"not judged, the machine gave {given:.0%} of its time: {what}")
    raise AssertionError(what)


def try_name(item: pytest.Item, name: str) -> str:
    """A name for what a test creates in a mesh that outlives the try: `logs`, and `logs-2` in the second try."""
    number = item.stash.get(_tries, 1)
    return name if number == 1 else f"{name}-{number}"


def note_doubt(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remembers whether a test's call ended in `NotJudged`; belongs into `pytest_runtest_makereport`."""
    if call.when == "call":
        item.stash[_doubted] = call.excinfo is not None and call.excinfo.errisinstance(NotJudged)


def run_until_judged(item: pytest.Function, nextitem: pytest.Item | None) -> None:
    """Runs a test as pytest does, and again while its figures are not judged; belongs into `pytest_runtest_protocol`.

    Fixtures of wider scope stay open between the tries.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for tries in range(1, TRIES_MAX + 1):
        item.stash[_tries] = tries
        if not _run_once(item, nextitem, repeatable=tries < TRIES_MAX):
            break
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _run_once(item: pytest.Function, nextitem: pytest.Item | None, *, repeatable: bool) -> bool:
    """One try. Returns whether there has to be another."""
    item.stash[_doubted] = False
    item._initrequest()  # as `runtestprotocol` does for a test that runs once more
    reports = [call_and_report(item, "setup", log=False)]
    if reports[0].passed and not item.config.option.setuponly:
        reports.append(call_and_report(item, "call", log=False))
    again = repeatable and item.stash[_doubted]
    reports.append(call_and_report(item, "teardown", log=False, nextitem=_NextTry(item) if again else nextitem))
    again = again and reports[-1].passed
    for report in reports:
        if again and report.when == "call":
            report.outcome = REPEATED  # type: ignore[assignment]  # a state of ours, told by `repeated_status`
        item.ihook.pytest_runtest_logreport(report=report)
    item._request = False  # type: ignore[assignment]  # as pytest does: the next try makes another
    item.funcargs = {}
    return again


def repeated_status(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """How pytest shows a try that is repeated; belongs into `pytest_report_teststatus`."""
    return (REPEATED, "R", "REPEATED") if str(report.outcome) == REPEATED else None
