"""Input of the step that registers a mesh's clusters."""

import pytest

from braid.kernel.errors import Invalid
from devmesh.enroll import main, parse_clusters
from devmesh.registration import Address


def test_clusters_are_read_with_address_and_zone() -> None:
    assert parse_clusters(["east=127.0.0.1:19192/a", "west=a:1,b:2/b"]) == {
        "east": Address("127.0.0.1:19192", "a"),
        "west": Address("a:1,b:2", "b"),
    }


@pytest.mark.parametrize("word", ["east", "east=", "east=127.0.0.1:1", "East=127.0.0.1:1/a", "=127.0.0.1:1/a"])
def test_what_is_written_otherwise_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Invalid):
        parse_clusters([word])
    assert main(["127.0.0.1:1", word]) == 2
    assert "NAME" in capsys.readouterr().err


def test_a_cluster_named_twice_is_refused() -> None:
    with pytest.raises(Invalid, match="east is named twice"):
        parse_clusters(["east=a:1/a", "east=b:1/a"])


def test_without_clusters_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["127.0.0.1:7401"]) == 2
    assert "NAME=HOST:PORT/ZONE" in capsys.readouterr().err
