"""The bill of materials of a release: lists in a valid form, that name every package of the locks with every hash."""

import json
import tomllib
from typing import Any, Final

import pytest

from tools.sbom import LOCKS, ROOT, document, faults, invalid, pins

REQUIREMENTS: Final = ROOT / "requirements"
A, B = "a" * 64, "b" * 64
ENTRY: Final = f"""some-package==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
"""


def listed(name: str) -> Any:
    return json.loads((REQUIREMENTS / f"{name}.cdx.json").read_text())


@pytest.mark.parametrize("name", LOCKS)
def test_the_committed_list_is_valid_and_of_the_lock(name: str) -> None:
    assert faults((REQUIREMENTS / f"{name}.cdx.json").read_text(), (REQUIREMENTS / f"{name}.txt").read_text()) == ""


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_and_hash_of_the_lock_is_in_the_list(name: str) -> None:
    """Counted in the lock's text by other means than those that the list is made by."""
    lock = (REQUIREMENTS / f"{name}.txt").read_text()
    found = listed(name)["components"]
    assert len(found) == sum("==" in line and not line.startswith(" ") for line in lock.splitlines())
    assert sum(len(each["hashes"]) for each in found) == lock.count("--hash=sha256:")
    assert all(each["hashes"] and each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}" for each in found)


def test_most_packages_have_a_licence() -> None:
    """Packages for other machines or Python versions are not installed here, and cannot be asked."""
    without = [each for each in listed("spark")["components"] if not each.get("licenses")]
    assert all(each.get("properties") for each in without), [each["name"] for each in without]


def test_the_list_is_of_the_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = listed("mesh")["metadata"]["component"]
    assert (about["name"], about["version"]) == (project["name"], project["version"])
    assert about["licenses"] == [{"license": {"id": project["license"]}}]


def test_one_lock_gives_one_text() -> None:
    assert document(ENTRY) == document(ENTRY)
    assert "timestamp" not in document(ENTRY)


def test_markers_and_hashes_are_kept() -> None:
    [pin] = pins(ENTRY)
    assert (pin.name, pin.version, pin.hashes) == ("some-package", "1.0", [A, B])
    [component] = json.loads(document(ENTRY))["components"]
    assert component["properties"] == [{"name": "braid:environment-marker", "value": "python_full_version < '3.12'"}]


@pytest.mark.parametrize("line", ["some-package>=1.0\n", "-e .\n", "some-package @ https://example.org/a.whl\n"])
def test_a_line_that_pins_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not an entry of a lock"):
        pins(line)


def test_a_stale_a_changed_and_a_malformed_list_are_found() -> None:
    text = document(ENTRY)
    assert faults(text, ENTRY) == ""
    assert "not of this lock" in faults(text, ENTRY.replace("==1.0", "==1.1"))
    assert "not of this lock" in faults(text.replace(A, "c" * 64), ENTRY)
    assert "not CycloneDX 1.6" in faults(text.replace('"library"', '"cupboard"'), ENTRY)
    assert invalid(text.replace('"version": "1.0"', '"version": 1'))
