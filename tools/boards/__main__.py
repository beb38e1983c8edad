"""Grafana's dashboards and Prometheus' recording rules in deploy/: `python -m tools.boards write|check`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.boards import recording
from tools.boards.catalogue import BOARDS as BOARDS
from tools.boards.grafana import dashboard

ROOT: Final = Path(__file__).resolve().parents[2]
DIRECTORY: Final = Path("deploy/grafana/dashboards")
RULES: Final = Path("deploy/prometheus/recording.yml")


def texts() -> dict[Path, str]:
    """The text of each file, by its path."""
    drawn = {DIRECTORY / f"{board.uid}.json": json.dumps(dashboard(board), indent=1) + "\n" for board in BOARDS}
    return {**drawn, RULES: recording.text()}


def stale(root: Path) -> list[Path]:
    """Files that differ from what the catalogue gives now, and files that no board writes."""
    wanted = texts()
    present = {path.relative_to(root) for path in (root / DIRECTORY).glob("*.json")}
    differing = [
        path for path, text in wanted.items() if not (root / path).exists() or (root / path).read_text() != text
    ]
    return sorted({*differing, *(present - wanted.keys())})


def write(root: Path) -> None:
    """Writes all files, and removes those that no board writes."""
    wanted = texts()
    for directory in {path.parent for path in wanted}:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for path in stale(root):
        if path in wanted:
            (root / path).write_text(wanted[path])
        else:
            (root / path).unlink()


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the files; 1 where one is stale, 2 for a wrong argument."""
    if list(arguments) == ["write"]:
        write(ROOT)
        return 0
    if list(arguments) != ["check"]:
        print(__doc__, file=sys.stderr)
        return 2
    found = stale(ROOT)
    for path in found:
        print(f"{path} is not what tools/boards gives now; run: python -m tools.boards write", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
