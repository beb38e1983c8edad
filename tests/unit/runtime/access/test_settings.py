"""Settings about access: lists in variables, the file of admins, and refusals at the start."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from braid.kernel.errors import Invalid
from braid.kernel.limits.access.rights import ADMINS_FILE_BYTES_MAX, ADMINS_MAX
from braid.runtime.access.settings import AccessMode, read_admins
from braid.runtime.settings import Settings

ANN, BOB = "spiffe://braid.local/user/ann", "dns:bob.example.com"


def settings(**given: object) -> Settings:
    return Settings(store="sqlite:///x", instance="registry-0", **given)  # type: ignore[arg-type]  # as read from text


def test_access_is_open_until_it_is_asked_for() -> None:
    found = settings().access_settings()
    assert (found.mode, found.admins, found.services.includes(ANN)) == (AccessMode.OPEN, (), False)


def test_lists_in_variables_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_ADMINS", f"{ANN}, {BOB}")
    monkeypatch.setenv("BRAID_SERVICE_PRINCIPALS", "dns:*.mesh.example.com,dns:console*")
    found = settings().access_settings()
    assert found.admins == (ANN, BOB)
    assert found.services.named == ("dns:*.mesh.example.com", "dns:console*")
    assert found.services.includes("dns:console-1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"access": "enforced"}, "BRAID_ACCESS: enforced needs mutual TLS"),
        ({"admins": "ann"}, "BRAID_ADMINS: 'ann' is no principal"),
        ({"admins": ",".join(f"dns:a{n}" for n in range(ADMINS_MAX + 1))}, f"names more than {ADMINS_MAX} admins"),
        ({"service_principals": "console*"}, "BRAID_SERVICE_PRINCIPALS"),
        ({"access": "closed"}, "Input should be 'open' or 'enforced'"),
    ],
)
def test_settings_out_of_form_are_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("(", r"\(")):
        settings(**given)


def test_a_file_names_admins_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "admins"
    file.write_text(f"# the first ones\n{ANN}\n\n  {BOB}  \n")
    assert read_admins(file) == {ANN, BOB}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ann\n", "'ann' is no principal"),
        (b"\xff\xfe", "cannot read"),
        (b"#" * (ADMINS_FILE_BYTES_MAX + 1), "is larger than"),
        (b"".join(b"dns:a%d\n" % n for n in range(ADMINS_MAX + 1)), "names more than"),
    ],
)
def test_a_file_out_of_form_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "admins"
    file.write_bytes(content)
    with pytest.raises(Invalid, match=message):
        read_admins(file)


def test_a_wrong_line_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "admins"
    file.write_text(f"{ANN}\nann\n")
    with pytest.raises(Invalid) as refused:
        read_admins(file)
    assert refused.value.field == f"{file}:2"


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot read the admins file"):
        read_admins(tmp_path / "nowhere")
