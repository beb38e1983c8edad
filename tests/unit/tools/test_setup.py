"""Setting a checkout up: only what is stale is done, and a failure says what to try."""

import sys
from pathlib import Path

import pytest

from tests.support.fake_tools import only_on_path, write_tool
from tools import setup


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose `.venv` has an interpreter that does nothing but note what it was asked."""
    venv = tmp_path / ".venv"
    python = write_tool(venv / "bin", "python", noting(tmp_path))
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "dev.txt").write_text("locked==1")
    for name, value in {
        "ROOT": tmp_path,
        "VENV": venv,
        "PYTHON": python,
        "STAMP": venv / ".ready",
        "LOCK": tmp_path / "dev.txt",
    }.items():
        monkeypatch.setattr(setup, name, value)
    only_on_path(monkeypatch, tmp_path / "bin")
    return tmp_path


def noting(checkout: Path) -> str:
    """A program that notes its arguments."""
    return f"open({str(checkout / 'calls')!r}, 'a').write(repr(sys.argv[1:]) + chr(10))"


def calls(checkout: Path) -> str:
    """The interpreter's calls since the last look, without the probe whether it runs."""
    file = checkout / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return "\n".join(line for line in lines if "version_info" not in line)


def test_packages_are_installed_by_hash_and_once(checkout: Path) -> None:
    setup.install_packages()
    first = calls(checkout)
    assert "--require-hashes" in first
    assert "'-e'" in first
    assert first.splitlines()[-1].startswith("['-m', 'compileall', '-qq', '--workers', '0'")
    setup.install_packages()
    assert calls(checkout) == ""


@pytest.mark.parametrize("changed", ["dev.txt", "pyproject.toml"])
def test_a_changed_lock_or_project_installs_anew(checkout: Path, changed: str) -> None:
    setup.install_packages()
    calls(checkout)
    (checkout / changed).write_text("changed")
    setup.install_packages()
    assert "--require-hashes" in calls(checkout)


def test_uv_is_used_where_it_is_on_path(checkout: Path) -> None:
    write_tool(checkout / "bin", "uv", noting(checkout))
    setup.install("-r", "requirements.txt")
    assert calls(checkout).startswith("['pip', 'install', '--python'")


def test_a_failed_install_is_quoted_and_leaves_no_stamp(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tool(
        checkout / ".venv" / "bin", "python", "if 'install' in sys.argv:\n    sys.exit('THESE PACKAGES DO NOT MATCH')"
    )
    assert setup.main() == 1
    assert "THESE PACKAGES DO NOT MATCH" in capsys.readouterr().err
    assert not setup.STAMP.exists()


def test_without_java_nothing_is_downloaded(checkout: Path) -> None:
    write_tool(
        setup.PYTHON.parent,
        "python",
        f"{noting(checkout)}\nsys.exit('devmesh.toolchain.java' in sys.argv and 'no Java')",
    )
    with pytest.raises(setup.SetupFailed, match="no Java"):
        setup.obtain_kafka()
    assert calls(checkout) == "['-m', 'devmesh.toolchain.java']"


@pytest.mark.slow
def test_a_broken_environment_is_made_anew(checkout: Path) -> None:
    setup.PYTHON.unlink()
    with pytest.raises(setup.SetupFailed):
        # The interpreter that runs the tests makes one; without an index in reach, installing into it must fail.
        setup.LOCK.write_text("not a requirement\n")
        setup.install_packages()
    assert setup.PYTHON.exists()
    assert setup.PYTHON.resolve() == Path(sys.executable).resolve()


def test_our_modules_are_compiled_even_if_python_is_told_not_to(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(setup, "PYTHON", Path(sys.executable))
    (checkout / "services").mkdir()
    (checkout / "services" / "sound.py").write_text("VALUE = 1")
    (checkout / "services" / "broken.py").write_text("VALUE = (")
    setup.compile_sources()
    compiled = [path.name.partition(".")[0] for path in (checkout / "services" / "__pycache__").iterdir()]
    assert compiled == ["sound"]


def test_installed_packages_are_compiled_but_not_their_tests(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "PYTHON", Path(sys.executable))
    package = setup.VENV / "lib" / "package"
    (package / "tests").mkdir(parents=True)
    for path in (package / "used.py", package / "tests" / "unused.py"):
        path.write_text("VALUE = 1")
    setup.compile_packages()
    assert [path.name.partition(".")[0] for path in setup.VENV.rglob("*.pyc")] == ["used"]


def test_no_class_archive_is_no_failure(checkout: Path) -> None:
    write_tool(checkout / ".venv" / "bin", "python", noting(checkout) + "; sys.exit(1)")
    setup.archive_classes()
    assert "devmesh.archives.making" in calls(checkout)
