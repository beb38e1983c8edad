"""`braid store`: what is typed wrong is refused before any store is opened."""

from pathlib import Path

import pytest

from braid.cli import app


def test_a_backup_into_a_missing_directory_says_to_make_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "backups" / "monday"
    assert app.run(["store", "backup", f"{missing}/store.backup", "--store", f"sqlite://{tmp_path}/store.db"]) == 2
    said = capsys.readouterr()
    assert said == ("", f"braid: FILE: there is no directory {missing}\n  try: make it: mkdir -p {missing}\n")
    assert not missing.exists()


def test_a_directory_is_no_backup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = f"sqlite://{tmp_path}/store.db"
    assert app.run(["store", "restore", str(tmp_path), "--store", store, "--yes"]) == 2
    assert f"FILE: {tmp_path} is no backup of a store" in capsys.readouterr().err
