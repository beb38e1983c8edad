"""The form of commit messages."""

import pytest

from tools.commit_form import findings


@pytest.mark.parametrize(
    "message",
    [
        "client: send records elsewhere",
        "cli, assigner: merge what was split\n\nTwo files told of one thing.\n",
        "braid.rpc: ask around\n# a comment of git's\n",
        "Merge branch 'main'",
        "fixup! client: send",
        "docs: say it\n\nwhy\n# ------------------------ >8 ------------------------\ndiff --git a b\n",
    ],
)
def test_a_message_in_form_passes(message: str) -> None:
    assert list(findings(message)) == []


@pytest.mark.parametrize(
    ("message", "about"),
    [
        ("", "first line"),
        ("Fixed stuff", "first line"),
        ("client: Send records", "first line"),
        ("client: send records.", "first line"),
        ("client:send records", "first line"),
        (f"client: {'a' * 90}", "letters"),
        ("client: send records\nwhy", "second line"),
    ],
)
def test_a_message_out_of_form_is_told_of(message: str, about: str) -> None:
    assert any(about in each for each in findings(message))
