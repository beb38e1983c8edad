"""A part of pytest that fails a run whose logs, files, errors or printed output show a secret that tests planted.

Each process of tests searches what it kept, at its end; the one that prints the summary collects what was found.
`make test` runs pytest several times, and each run judges itself.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.planted import ENVIRONMENT, FINDINGS_MAX, Exposed, credential, exposed_below, exposed_in

EXIT_EXPOSED: Final = 7  # no exit code of pytest's own: `tools.suite` gives no second look to it
_OUTPUT: Final = "exposed"  # what a worker of xdist hands over

_directory: Final = pytest.StashKey[Path]()


class Exposure:
    """Searches what tests kept and printed."""

    def __init__(self) -> None:
        self._found = list[str]()
        self._files = self._unread = 0
        self._seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Looks at what a test printed, and at the text of its error."""
        crash = getattr(report.longrepr, "reprcrash", None)
        printed = [("output", text) for _, text in report.sections]
        texts = [*printed, *([("error", str(crash.message))] if crash is not None else [])]
        for what, text in texts:
            self._note(exposed_in(text.encode(errors="replace"), f"the {what} of {report.nodeid}"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Searches the files. A worker hands over what it found; what is found fails the run."""
        directory = session.config.stash.get(_directory, None)
        if directory is not None:
            began = time.monotonic()
            search = exposed_below(directory)
            self._note(search.exposed)
            self._files, self._unread, self._seconds = search.files, search.unread, time.monotonic() - began
        handed: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if handed is not None:
            handed[_OUTPUT] = (self._found, self._files, self._unread, self._seconds)
        elif self._found:
            session.exitstatus = EXIT_EXPOSED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes over what a worker found; one that crashed found nothing."""
        found, files, unread, seconds = getattr(node, "workeroutput", {}).get(_OUTPUT, ((), 0, 0, 0.0))
        self._add(found)
        self._files += files
        self._unread += unread
        self._seconds = max(self._seconds, seconds)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says what was found."""
        if self._files:
            left = f", {self._unread} LEFT UNREAD" if self._unread else ""
            terminalreporter.write_line(f"secrets were looked for in {self._files} files, {self._seconds:.1f} s{left}")
        if self._found:
            terminalreporter.section("SECRETS ARE SHOWN", red=True)
            for each in self._found:
                terminalreporter.write_line(each)
            terminalreporter.write_line("say less there; what is to hold secrets is named in tests/support/planted.py")

    def _note(self, found: list[Exposed]) -> None:
        self._add(map(str, found))

    def _add(self, found: Iterable[str]) -> None:
        self._found = [*dict.fromkeys([*self._found, *found])][:FINDINGS_MAX]


@pytest.fixture(scope="session", autouse=True)
def kept_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Notes where this process keeps the files of its tests."""
    request.config.stash[_directory] = tmp_path_factory.getbasetemp()


def pytest_configure(config: pytest.Config) -> None:
    """Joins in, and plants a secret in the environment of all processes that tests start."""
    os.environ.setdefault(ENVIRONMENT, credential("environment"))
    config.pluginmanager.register(Exposure(), "exposed-secrets")
