"""Settings of a lag monitor: where lag over time is kept, what it may take, and where alerts are sent."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from braid.runtime.settings import settings_or_exit
from services.lagmon.config import LagmonSettings


def settings(**fields: object) -> LagmonSettings:
    """Settings of one replica."""
    return LagmonSettings(store="sqlite:///a.db", instance="lagmon-0", **fields)  # type: ignore[arg-type]


def test_each_replica_and_mesh_keeps_for_itself(tmp_path: Path) -> None:
    one = settings(kept_lag=tmp_path).kept_lag_directory
    other = LagmonSettings(store="sqlite:///b.db", instance="lagmon-0", kept_lag=tmp_path).kept_lag_directory
    assert one is not None and other is not None
    assert one.parent == other.parent == tmp_path
    assert one.name.startswith("lagmon-0-") and one != other


def test_without_a_directory_lag_is_kept_in_memory() -> None:
    assert settings().kept_lag_directory is None
    assert settings(kept_lag="").kept_lag_directory is None


@pytest.mark.parametrize("size", [0, -1, (16 << 20) - 1])
def test_a_directory_without_room_is_refused(size: int) -> None:
    with pytest.raises(ValidationError, match="kept_lag_bytes"):
        settings(kept_lag_bytes=size)


HOOK = {"name": "pager", "kind": "webhook", "url": "https://pager.test/hook"}


def test_outlets_are_read_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_ALERT_OUTLETS", json.dumps([HOOK, {**HOOK, "name": "am-0", "kind": "alertmanager"}]))
    assert [each.name for each in settings().alert_outlets] == ["pager", "am-0"]
    monkeypatch.setenv("BRAID_ALERT_OUTLETS", "")
    assert settings().alert_outlets == ()


@pytest.mark.parametrize(
    "value", ["secret", "{", "[" * 100_000, '"secret"', '[{"name": "pager", "url": "secret"}]', "[1]"]
)
def test_a_list_of_outlets_that_cannot_be_read_is_not_shown(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRAID_ALERT_OUTLETS", value)
    monkeypatch.setenv("BRAID_STORE", "sqlite:///a.db")
    monkeypatch.setenv("BRAID_INSTANCE", "lagmon-0")
    with pytest.raises(SystemExit):
        settings_or_exit(LagmonSettings)
    printed = capsys.readouterr().err
    assert printed.startswith("BRAID_ALERT_OUTLETS") and "secret" not in printed


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"kind": "pigeon"}, "webhook"),
        ({"name": "a b"}, "name"),
        ({"url": "ftp://pager.test"}, "https://"),
        ({"url": "https:///hook"}, "a host"),
        ({"url": "https://pager.test:99999/"}, "port"),
        ({"url": "https://[pager/"}, "port"),
        ({"url": "https://ann:secret@pager.test"}, "token_file"),
        ({"url": "https://pager.test/#a"}, "fragment"),
        ({"url": "http://pager.test/", "token_file": "t"}, "plain text"),
        ({"url": "http://pager.test/", "ca_file": "c"}, "no TLS"),
        ({"kind": "alertmanager", "signing_key_file": "k"}, "only posts to webhooks"),
        ({"redirects": "yes"}, "redirects"),
    ],
)
def test_an_outlet_that_cannot_be_is_refused(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        settings(alert_outlets=[{**HOOK, **changed}])


def test_a_token_may_travel_in_plain_text_on_this_machine_alone() -> None:
    assert settings(alert_outlets=[{**HOOK, "url": "http://127.0.0.1:9/", "token_file": "t"}]).alert_outlets


def test_outlets_have_names_of_their_own_and_are_bounded() -> None:
    with pytest.raises(ValidationError, match="same name"):
        settings(alert_outlets=[HOOK, HOOK])
    with pytest.raises(ValidationError, match="at most 16"):
        settings(alert_outlets=[{**HOOK, "name": f"o{number}"} for number in range(17)])
