"""`make audit` says what is known, and says so where nothing could be asked: it is never green without data."""

import json
from collections.abc import Sequence

import pytest

from tools import vulnerabilities
from tools.vulnerabilities import Package, audit, rounds

OLD, NEW, OTHER = ("numpy", "2.4.6"), ("numpy", "2.5.5"), ("rich", "15.0.0")


def said(**more: dict[str, object]) -> str:
    """A report in which every package is without a finding, save those that are named."""
    names = ("numpy", "rich")
    found = [{"name": each, "version": "?", "vulns": [], **more.get(each, {})} for each in names]
    return json.dumps({"dependencies": found})


def test_nothing_is_known() -> None:
    assert audit([OLD, OTHER], lambda some: said()) == ([], [])


def test_what_is_known_is_said_with_the_version_that_mends_it() -> None:
    known = [{"id": "PYSEC-1", "fix_versions": ["2.6"]}, {"id": "PYSEC-2", "fix_versions": []}]
    found = audit([OLD, OTHER], lambda some: said(numpy={"vulns": known}))
    assert found.vulnerable == ["numpy 2.4.6: PYSEC-1, fixed in 2.6", "numpy 2.4.6: PYSEC-2, fixed in no version yet"]


def test_a_package_that_is_skipped_or_left_out_was_not_checked() -> None:
    found = audit([OLD, OTHER, ("typer", "1")], lambda some: said(rich={"skip_reason": "not found"}))
    assert found.unchecked == ["rich 15.0.0: not found", "typer 1: pip-audit says nothing of it"]


def test_every_version_is_asked_about() -> None:
    assert rounds([NEW, OTHER, OLD]) == [[OLD, OTHER], [NEW]]


def test_a_round_without_an_answer_hides_no_other() -> None:
    def ask(some: Sequence[Package]) -> str:
        if NEW in some:
            raise OSError("no route")
        return said(rich={"vulns": [{"id": "PYSEC-3", "fix_versions": ["16"]}]})

    assert audit([OLD, NEW, OTHER], ask) == (["rich 15.0.0: PYSEC-3, fixed in 16"], ["1 packages: no route"])


def test_without_a_network_the_real_tool_checked_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert vulnerabilities.main() == 3
    told = capfd.readouterr()
    assert "make audit: not checked: " in told.err and "nothing is known" not in told.out
