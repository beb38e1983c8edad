"""Writes and checks lists of what a release is made of (SBOM, CycloneDX 1.6 in JSON), from the locks.

`python -m tools.sbom write|check`. Names, versions and hashes are the lock's; licences are what the packages installed
here say, where their version is the locked one. The same lock gives the same file: it holds no time.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = ("mesh", "spark")  # what the images install; `spark` is all that the wheel may want
_ENTRY: Final = re.compile(
    r"^(?P<name>[a-z0-9-]+)(\[[^]]*\])?==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\\n]+?))?(?: \\)?$"
)
_HASH: Final = re.compile(r"^    --hash=sha256:(?P<hash>[0-9a-f]{64})(?: \\)?$")
_LICENCE_CHARACTERS_MAX: Final = 64  # a longer one is the licence's text


class Pin(NamedTuple):
    """One entry of a lock: a package of one version, the hashes of its files, and for which machines it is."""

    name: str
    version: str
    hashes: Sequence[str]
    marker: str


def pins(lock: str) -> list[Pin]:
    """Returns the entries of a lock. Raises `ValueError` for a line that is none: nothing is left out in silence."""
    found: list[Pin] = []
    for line in lock.splitlines():
        if entry := _ENTRY.match(line):
            found.append(Pin(entry["name"], entry["version"], [], entry["marker"] or ""))
        elif (pinned := _HASH.match(line)) and found:
            found[-1] = found[-1]._replace(hashes=[*found[-1].hashes, pinned["hash"]])
        else:
            raise ValueError(f"not an entry of a lock: {line!r}")
    return found


def document(lock: str) -> str:
    """Returns the list of a lock's packages as JSON text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bom = Bom()
    bom.metadata.component = root = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=f"pkg:pypi/{project['name']}@{project['version']}",
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )
    parts = [_component(pin) for pin in pins(lock)]
    bom.components.update(parts)
    bom.register_dependency(root, parts)
    content = _without_time(JsonV1Dot6(bom).output_as_string())
    content["serialNumber"] = ""
    content["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(content, sort_keys=True)).urn
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def invalid(text: str) -> str:
    """Returns why a document is not CycloneDX 1.6, by the schema that the library carries; empty where it is."""
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return "" if found is None else str(found)


def _without_time(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text)
    content["metadata"].pop("timestamp", None)
    return content


def _component(pin: Pin) -> Component:
    url = PackageURL("pypi", name=pin.name, version=pin.version)
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        bom_ref=url.to_string(),
        purl=url,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in pin.hashes],
        licenses=_licences(pin),
        properties=[Property(name="braid:environment-marker", value=pin.marker)] if pin.marker else [],
    )


def _licences(pin: Pin) -> list[License]:
    try:
        said = metadata.metadata(pin.name)
    except metadata.PackageNotFoundError:
        return []
    if said["Version"] != pin.version:
        return []
    make = LicenseFactory().make_from_string
    if "License-Expression" in said:
        return [make(said["License-Expression"])]
    classified = list(_classified(said.get_all("Classifier") or ()))
    if classified:
        return [make(each) for each in classified]
    field = said["License"].strip() if "License" in said else ""
    return [make(field)] if field and "\n" not in field and len(field) <= _LICENCE_CHARACTERS_MAX else []


def _classified(classifiers: Sequence[str]) -> Iterator[str]:
    for each in sorted(set(classifiers)):
        parts = each.split(" :: ")
        if parts[0] == "License" and parts[-1] != "OSI Approved":
            yield parts[-1]


def main(arguments: Sequence[str]) -> int:
    """Writes the lists, or checks that they are valid and of the present locks; returns 1 with what is not."""
    if list(arguments) not in (["write"], ["check"]):
        print("usage: python -m tools.sbom write|check", file=sys.stderr)
        return 2
    wrong = []
    for name in LOCKS:
        path = ROOT / "requirements" / f"{name}.cdx.json"
        if arguments[0] == "write":
            path.write_text(document((ROOT / "requirements" / f"{name}.txt").read_text()))
        elif fault := faults(path.read_text(), (ROOT / "requirements" / f"{name}.txt").read_text()):
            wrong.append(f"{path.relative_to(ROOT)}: {fault}; run: make sbom")
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


def faults(text: str, lock: str) -> str:
    """Returns what is wrong with a list of a lock; licences are not compared, which this machine may not know."""
    if fault := invalid(text):
        return f"not CycloneDX 1.6: {fault[:500]}"
    if _licenceless(text) != _licenceless(document(lock)):
        return "not of this lock and version"
    return ""


def _licenceless(text: str) -> object:
    content = json.loads(text)
    del content["serialNumber"]
    for each in content.get("components", []):
        each.pop("licenses", None)
    return content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
