"""Where the files of mutual TLS are named."""

from pathlib import Path

import pytest

from braid.host.tls.paths import Tls, environment_of, tls_of_environment
from braid.kernel.errors import Invalid

FILES = {"BRAID_TLS_CERTIFICATE": "/a.crt", "BRAID_TLS_KEY": "/a.key", "BRAID_TLS_CA": "/ca.crt"}


def test_an_environment_without_files_names_no_tls() -> None:
    assert tls_of_environment({"BRAID_TLS_CA": ""}) is None


def test_an_environment_names_three_files() -> None:
    assert tls_of_environment(FILES) == Tls(Path("/a.crt"), Path("/a.key"), Path("/ca.crt"))
    named = tls_of_environment({**FILES, "BRAID_TLS_RELOAD_SECONDS": "0.5"})
    assert named is not None
    assert named.reload_seconds == 0.5


def test_an_environment_that_was_made_is_read_again() -> None:
    tls = Tls(Path("/a.crt"), Path("/a.key"), Path("/ca.crt"), 2.5)
    assert tls_of_environment(environment_of(tls)) == tls
    assert environment_of(None) == {}


@pytest.mark.parametrize("missing", FILES)
def test_a_missing_file_is_named(missing: str) -> None:
    some = {name: path for name, path in FILES.items() if name != missing}
    with pytest.raises(Invalid, match="is not set, though BRAID_TLS_") as error:
        tls_of_environment(some)
    assert error.value.field == missing


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf"])
def test_seconds_that_are_no_time_are_refused(seconds: str) -> None:
    with pytest.raises(Invalid) as error:
        tls_of_environment({**FILES, "BRAID_TLS_RELOAD_SECONDS": seconds})
    assert error.value.field == "BRAID_TLS_RELOAD_SECONDS"
