"""Wrong settings end a process with a sentence per setting, not with a trace."""

import pytest

from braid.runtime.settings import Settings, settings_or_exit


def test_each_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("BRAID_STORE", raising=False)
    monkeypatch.setenv("BRAID_INSTANCE", "Not A Name")
    monkeypatch.setenv("BRAID_LISTEN", "nowhere")

    with pytest.raises(SystemExit) as ended:
        settings_or_exit(Settings)

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "BRAID_STORE: is not set" in said
    assert "BRAID_INSTANCE: " in said
    assert "'nowhere' is not host:port" in said


def test_right_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_STORE", "sqlite:///tmp/x.db")
    monkeypatch.setenv("BRAID_INSTANCE", "registry-0")

    assert settings_or_exit(Settings).instance == "registry-0"
