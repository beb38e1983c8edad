"""References in one word are taken apart, and a type that was left out is named."""

import pytest

from braid.cli import app
from braid.cli.core.typed import typed_apart
from braid.kernel.errors import Invalid


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("describe stream/logs -o json", "describe stream logs -o json"),
        ("delete streams/logs --yes", "delete streams logs --yes"),
        ("why lease/logs/live/1/0", "why lease logs/live/1/0"),
        ("move stream/logs --to west", "move stream logs --to west"),
        ("get streams", "get streams"),
        ("get leases logs/live", "get leases logs/live"),
        ("cordon cluster", "cordon cluster"),
        ("cordon cluster east", "cordon cluster east"),
        ("cordon --help", "cordon --help"),
        ("grant viewer --on stream/logs", "grant viewer --on stream/logs"),
        ("produce stream/logs", "produce stream/logs"),
        ("cordon", "cordon"),
    ],
)
def test_a_type_and_a_name_may_be_one_word(typed: str, meant: str) -> None:
    assert typed_apart(typed.split()) == meant.split()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("cordon east", "braid cordon cluster east"),
        ("close logs/live/1 --dry-run", "braid close channel logs/live/1"),
        ("reset indexer --to earliest", "braid reset group indexer"),
        ("drain web-1", "braid drain member web-1"),
    ],
)
def test_a_type_that_was_left_out_is_named(typed: str, meant: str) -> None:
    with pytest.raises(Invalid) as refused:
        typed_apart(typed.split())
    assert meant in refused.value.remedy


def test_the_command_line_says_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["cordon", "east"]) == 2
    assert capsys.readouterr().err == (
        "braid: TYPE: `braid cordon` takes a type and a name\n  try: did you mean `braid cordon cluster east`?\n"
    )
