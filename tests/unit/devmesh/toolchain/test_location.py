"""Modules that find tools print a location a line, or an error."""

from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from devmesh.toolchain.location import print_location


@pytest.mark.parametrize("found", [Path("/bin/a"), (Path("/bin/a"), Path("/bin/b"))])
def test_each_file_of_a_tool_is_a_line(found: Path | tuple[Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert print_location(lambda: found) == 0
    assert capsys.readouterr().out == ("/bin/a\n" if isinstance(found, Path) else "/bin/a\n/bin/b\n")


def test_a_tool_that_is_missing_is_an_error_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    def find() -> Path:
        raise Unavailable("there is no etcd", remedy="install it")

    assert print_location(find) == 1
    assert capsys.readouterr() == ("", f"{Unavailable('there is no etcd', remedy='install it')}\n")
