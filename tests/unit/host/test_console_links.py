"""One-time links: which tokens are of a key, and who may read the key."""

from pathlib import Path

import pytest

from braid.host.console_links import KEY_FILE, make_link, read_key, read_link, write_key
from braid.kernel.errors import Invalid, Unavailable

KEY = b"k" * 32


def test_a_link_is_read_by_the_key_that_made_it() -> None:
    link = read_link(KEY, make_link(KEY, 1_790_000_000_000))
    assert link is not None and link.expire_ms == 1_790_000_000_000
    assert read_link(b"x" * 32, make_link(KEY, 1)) is None
    assert read_link(KEY, make_link(KEY, 1)) != read_link(KEY, make_link(KEY, 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[:-1],
        lambda t: f"{t}AAAA",
        lambda t: "é" + t,
        lambda t: "",
        lambda t: f"{'B' if t[0] == 'A' else 'A'}{t[1:]}",
    ],
)
def test_a_changed_link_is_none(change) -> None:  # type: ignore[no-untyped-def]
    assert read_link(KEY, change(make_link(KEY, 1))) is None


def test_a_key_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    key = write_key(tmp_path / "console")
    assert (tmp_path / "console" / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert read_key(tmp_path / "console") == key
    assert write_key(tmp_path / "console") != key


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    write_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(Invalid, match="other users"):
        read_key(tmp_path)


def test_no_key_says_that_no_console_runs(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no console of yours runs"):
        read_key(tmp_path)
    (tmp_path / KEY_FILE).write_bytes(b"short")
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(Invalid, match="holds no key"):
        read_key(tmp_path)
