"""A browser and the invented mesh's console, for all tests of pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.console.browsing import browser
from tests.support.console.recorded import RecordedServer, recorded_console


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a file; each opens a context of its own."""
    with browser() as started:
        yield started


@pytest.fixture
def server() -> Iterator[RecordedServer]:
    """The invented mesh's console."""
    with recorded_console() as running:
        yield running
