"""The user's cache: where it is, and one resolver at a time."""

import threading
from pathlib import Path

import pytest

from devmesh.toolchain.cache import cache_directory, resolving


def test_the_cache_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "braid"
    assert cache_directory().is_dir()


def test_the_cache_is_under_home_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "braid"


def test_a_working_directory_is_gone_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="broken"), resolving("kafka") as work:
        (work / "half").write_text("")
        raise ValueError("broken")
    assert [path.name for path in (tmp_path / "braid").iterdir()] == ["kafka.lock"]


def test_a_second_resolver_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    entered = threading.Event()

    def enter() -> None:
        with resolving("kafka"):
            entered.set()

    second = threading.Thread(target=enter)
    with resolving("kafka"):
        second.start()
        assert not entered.wait(0.1)
    assert entered.wait(10.0)
    second.join()
