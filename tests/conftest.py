"""Rules for every test: the options of the suite, and a timeout by tier. Fixtures are beside their tests."""

import gc
import os
import signal
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from devmesh.archives.spark import short_lived_options
from tests.support import exposure, judging
from tests.support.examples import USUAL
from tests.support.parallel import LoadGroundScheduling
from tools import slow_tests

ROOT: Final = Path(__file__).resolve().parent.parent

# Seconds by the wall after which a test hangs; a longer one says so itself with @pytest.mark.timeout. Far above what
# any takes: a machine may be starved, and what a test waits for has its own deadlines (`testbed.patience`).
TIER_TIMEOUT_SECONDS: Final = {"unit": 360, "contract": 240, "simulation": 1800, "integration": 600, "e2e": 1200}


# Examples of a property that does not say how many itself; those that do scale with them (`tests.support.examples`).
# Each run tries others. A deadline would judge by the wall.
settings.register_profile("quick", deadline=None, max_examples=10)  # `make quick` asks for it
settings.register_profile("usual", deadline=None, max_examples=USUAL)
settings.register_profile("extended", deadline=None, max_examples=200)
settings.load_profile("usual")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; what we start would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "SPARK_SUBMIT_OPTS" not in os.environ:
    os.environ["SPARK_SUBMIT_OPTS"] = short_lived_options()  # whichever test or process of one starts Spark


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the suite's own options."""
    parser.addoption("--sim-seeds", type=int, default=0, help="seeds of the usual simulation (default: its own)")
    parser.addoption("--extended", action="store_true", help="also run tests marked extended (`make test-all` does)")


def pytest_configure(config: pytest.Config) -> None:
    """Has every run look for secrets in what it printed and kept, and extended ones try more examples."""
    config.pluginmanager.register(exposure, "exposure")
    if config.getoption("extended") and not config.getoption("--hypothesis-profile"):
        settings.load_profile("extended")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Keeps tests that share a mesh in one worker where whole files are distributed."""
    return LoadGroundScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without the garbage collector, which then leaves alone what stays: modules, and thousands of tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives each test its tier's timeout, marks slow ones, refuses those outside a tier, leaves out extended ones."""
    slow = slow_tests.read(slow_tests.LIST.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker(pytest.mark.slow)
        tier = _tier_of(item.path)
        if tier not in TIER_TIMEOUT_SECONDS:
            raise pytest.UsageError(f"{item.nodeid} is in no tier: tests live in {', '.join(TIER_TIMEOUT_SECONDS)}")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIER_TIMEOUT_SECONDS[tier]))
    if not (config.option.extended or "extended" in config.option.markexpr):
        _leave_out_extended(config, items)


@cache  # there are thousands of tests in hundreds of files
def _tier_of(path: Path) -> str:
    return path.relative_to(ROOT / "tests").parts[0]


def _leave_out_extended(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects extended tests, except those that the command line names by their id."""
    named = tuple(argument for argument in config.args if "::" in argument)
    left = [item for item in items if item.get_closest_marker("extended") and not item.nodeid.startswith(named)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


@pytest.fixture
def try_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names what a repeated test creates: each try gets a name of its own."""
    return lambda name: judging.try_name(request.node, name)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs tests of real processes until their figures are judged; pytest runs all others."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("real") is None:
        return None
    judging.run_until_judged(item, nextitem)
    return True


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Notes which tests want to be repeated."""
    judging.note_doubt(item, call)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Shows repeated tests as such."""
    return judging.repeated_status(report)
