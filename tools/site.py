"""Builds the documentation site from `docs/` by `mkdocs.yml`, and checks its links.

`python -m tools.site build` builds `build/site`, `check` reports every fault of it, `serve` shows it on this machine
while pages are edited. Neither the build nor a built page uses the network.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.site_links import markdown_faults, site_faults

ROOT: Final = Path(__file__).resolve().parent.parent
CONFIG: Final = "mkdocs.yml"
SITE: Final = Path("build", "site")  # as `site_dir` in the configuration
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")


class BuildFailed(Exception):
    """The generator refused the pages; the message is its output."""


def build(root: Path, target: Path) -> None:
    """Builds the site of a checkout into a directory, whose contents are replaced.

    It is built from a copy: parallel builds share no files, and no cache is left in the checkout.

    Raises:
        BuildFailed: A page, a link or the configuration is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="braid-site-") as directory:
        copied = Path(directory)
        shutil.copyfile(root / CONFIG, copied / CONFIG)
        shutil.copytree(root / "docs", copied / "docs")
        command = [_generator(), "build", "--strict", "--clean", "--config-file", CONFIG]
        answer = subprocess.run(command, cwd=copied, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if answer.returncode or not (copied / SITE / "index.html").exists():
            report = _COLOURS.sub("", answer.stdout).partition("Traceback")[0].strip()
            raise BuildFailed(report or f"{CONFIG} gave no {SITE / 'index.html'}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(copied / SITE, target)


def faults(root: Path) -> list[str]:
    """Builds a checkout's site; returns its faults, and those of links in Markdown files beside `docs/`."""
    with tempfile.TemporaryDirectory(prefix="braid-site-") as directory:
        site = Path(directory, "site")
        try:
            build(root, site)
        except BuildFailed as error:
            return [str(error)]
        return [*site_faults(site, root / "docs"), *markdown_faults(root, site)]


def main(arguments: Sequence[str]) -> int:
    """Runs one verb; returns 1 if the site has faults, 2 for an unknown verb."""
    match arguments:
        case ["build"]:
            try:
                build(ROOT, ROOT / SITE)
            except BuildFailed as error:
                print(error, file=sys.stderr)
                return 1
            print(f"the site is {SITE / 'index.html'}; to search it, serve it: make docs")
        case ["check"]:
            found = faults(ROOT)
            print("".join(f"{each}\n" for each in found), end="", file=sys.stderr)
            return 1 if found else 0
        case ["serve"]:
            return subprocess.run([_generator(), "serve", "--config-file", CONFIG], cwd=ROOT).returncode
        case _:
            print("usage: python -m tools.site build|check|serve", file=sys.stderr)
            return 2
    return 0


def _generator() -> str:
    return str(Path(sys.executable).with_name("zensical"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
