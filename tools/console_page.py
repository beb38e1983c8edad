"""The console's page in its two forms: the sources in `console/page`, and what is built of them in `console/static`.

Built files are committed, so users and the wheel need no Node. `python -m tools.console_page`

- `check` compares recorded hashes with both forms, and asks for no Node;
- `build` builds, and records the hashes;
- `compare` builds elsewhere, and compares every byte;
- `test` runs the page's own tests.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from devmesh.toolchain.cache import resolving
from testbed.node import NodeMissing, node, npm

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = Path("console/page")
STATIC: Final = Path("console/static")
RECORD: Final = Path("console/static/built.json")
LICENCES: Final = Path("console/static/licences.txt")
# What the built files follow from. The page's tests and README are no part of it.
SOURCES: Final = (
    "index.html",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "vite.config.ts",
    "tsconfig.json",
    "src",
    "public",
)
FIRST_LOAD_BYTES_MAX: Final = 250_000
_STEP_SECONDS: Final = 600.0


class PageFailed(Exception):
    """A step failed; the message says which one, and what to try."""


def main(arguments: list[str]) -> int:
    """Runs a verb; returns 1 with the reason on stderr if it fails."""
    verbs = {"check": check, "build": build, "compare": compare, "test": test}
    if len(arguments) != 1 or arguments[0] not in verbs:
        print(f"usage: python -m tools.console_page {'|'.join(verbs)}", file=sys.stderr)
        return 2
    try:
        verbs[arguments[0]]()
    except (PageFailed, NodeMissing) as error:
        print(f"console page: {error}", file=sys.stderr)
        return 1
    return 0


def check() -> None:
    """Says which source was changed without a build, or which built file was changed by hand."""
    if found := list(faults(ROOT)):
        raise PageFailed("; ".join(found) + "\nrun: make console")


def faults(root: Path) -> Iterator[str]:
    """Names each difference between the record and a checkout."""
    record = json.loads((root / RECORD).read_text(encoding="utf-8"))
    if record["sources"] != digest(hashes(root / PAGE, SOURCES)):
        yield f"{PAGE} was changed since {STATIC} was built"
    found, recorded = built_hashes(root / STATIC), record["files"]
    for name in sorted(found.keys() | recorded.keys()):
        if found.get(name) != recorded.get(name):
            yield f"{STATIC / name} is not what was built"


def hashes(base: Path, names: tuple[str, ...]) -> Mapping[str, str]:
    """SHA-256 of each file below some names of a directory, by path."""
    files = [
        file for name in names for file in ([base / name] if (base / name).is_file() else (base / name).rglob("*"))
    ]
    return {
        file.relative_to(base).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(files)
        if file.is_file()
    }


def built_hashes(static: Path) -> Mapping[str, str]:
    """SHA-256 of each built file; the record is no part of them."""
    names = tuple(sorted(path.name for path in static.iterdir())) if static.is_dir() else ()
    return {name: value for name, value in hashes(static, names).items() if name != RECORD.name}


def digest(found: Mapping[str, str]) -> str:
    """One hash of many."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def build() -> None:
    """Builds into the checkout, and records the hashes of both forms."""
    _build_into(ROOT / STATIC)
    record = {"sources": digest(hashes(ROOT / PAGE, SOURCES)), "files": built_hashes(ROOT / STATIC)}
    (ROOT / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def compare() -> None:
    """Builds into a temporary directory, and names the committed files that differ."""
    check()
    with tempfile.TemporaryDirectory() as made:
        _build_into(Path(made))
        fresh, kept = built_hashes(Path(made)), built_hashes(ROOT / STATIC)
    if different := sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name)):
        raise PageFailed(f"a fresh build differs in {', '.join(different)}\nrun: make console")


def test() -> None:
    """Checks the page's types, and runs its tests."""
    packages()
    _node("node_modules/typescript/bin/tsc", "--noEmit")
    _node("node_modules/vitest/vitest.mjs", "run")


def first_load(static: Path) -> Mapping[str, int]:
    """Compressed sizes of everything that a page may load, by name: the worst case of a first visit."""
    import gzip

    files = [file for file in static.rglob("*") if file.suffix in (".html", ".js", ".css", ".svg")]
    return {file.relative_to(static).as_posix(): len(gzip.compress(file.read_bytes(), 6, mtime=0)) for file in files}


def licences(page: Path) -> str:
    """The licence texts of the packages that are part of the built page, which their licences ask for."""
    lock = json.loads((page / "package-lock.json").read_text(encoding="utf-8"))
    parts = []
    for path, package in sorted(lock["packages"].items()):
        if path and not package.get("dev") and not package.get("optional"):
            texts = sorted(
                file for file in (page / path).iterdir() if file.name.upper().startswith(("LICENSE", "LICENCE"))
            )
            text = (
                texts[0].read_text(encoding="utf-8").strip()
                if texts
                else f"Licence: {package.get('license', 'unknown')}"
            )
            parts.append(f"{path.removeprefix('node_modules/')} {package['version']}\n\n{text}\n")
    return f"\n{'-' * 72}\n\n".join(parts)


def _build_into(output: Path) -> None:
    packages()
    _node("node_modules/typescript/bin/tsc", "--noEmit")
    _node("node_modules/vite/bin/vite.js", "build", "--outDir", str(output), "--emptyOutDir", "--logLevel", "warn")
    (output / LICENCES.name).write_text(licences(ROOT / PAGE), encoding="utf-8")


def packages() -> None:
    """Installs the page's locked packages, unless those are there; a second process waits for the first.

    Raises:
        PageFailed: They cannot be installed.
    """
    stamp = ROOT / PAGE / "node_modules" / ".ready"
    wanted = digest(hashes(ROOT / PAGE, ("package-lock.json", ".npmrc")))
    with resolving("console-page"):
        if not stamp.exists() or stamp.read_text() != wanted:
            _run([*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            stamp.write_text(wanted)


def _node(*arguments: str) -> None:
    _run([node(), *arguments])


def _run(command: list[str]) -> None:
    environment = os.environ | {"PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    try:
        answer = subprocess.run(
            command, cwd=ROOT / PAGE, env=environment, capture_output=True, text=True, timeout=_STEP_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise PageFailed(f"{' '.join(command)} took more than {error.timeout:.0f} s") from error
    if answer.returncode:
        tail = "\n".join(f"{answer.stdout}\n{answer.stderr}".splitlines()[-40:])
        raise PageFailed(f"{' '.join(command)} failed with {answer.returncode}:\n{tail}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
