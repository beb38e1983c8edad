"""Tables of results: printed, written to `build/bench/` as JSON, read again for the summary.

A table says what it was made with (command, commit, machine, versions): a number without these is hearsay.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Self

from bench.harness.rounds import Basis, Row
from devmesh.toolchain.jars import KAFKA_VERSION

DIRECTORY: Final = Path("build/bench")
_VERSIONED: Final = ("aiokafka", "grpcio", "numpy", "pyarrow", "pyspark")


@dataclass(frozen=True)
class Table:
    """The results of one benchmark, with their origin.

    Attributes:
        name: The file's, for example `produce`.
        unit: What cost is per, singular: `record`, `commit`, `kill`.
        basis: Whether CPU or wall time is compared.
        verdict: Empty, or why it may not be quoted.
        facts: What was done and the peers' settings.
        rows: In the order of the contestants.
        made_with: Command, commit, machine, versions.
    """

    name: str
    unit: str
    basis: Basis
    verdict: str
    facts: Mapping[str, str]
    rows: Sequence[Row]
    made_with: Mapping[str, str]

    def publish(self, directory: Path = DIRECTORY) -> None:
        """Prints it and writes its file."""
        print(*self.lines(), sep="\n", flush=True)
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**asdict(self), "rows": [row._asdict() for row in self.rows]}, indent=1, ensure_ascii=False)
        (directory / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The table of a file that `publish` wrote."""
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**found, "rows": [Row(**row) for row in found["rows"]]})

    def lines(self) -> Iterator[str]:
        """The table for a terminal, with all that belongs to it."""
        yield f"== {self.name}: {self.verdict or 'self-check passed'}"
        yield from (f"{name}: {value}" for name, value in {**self.facts, **self.made_with}.items())
        yield from self.figures()

    def figures(self) -> Iterator[str]:
        """Heading and rows."""
        heading, line = _COLUMNS[self.basis]
        yield f"{self.name + ', per ' + self.unit:40}{heading}{'ratio':>8}  spread of the ratio"
        for row in self.rows:
            yield f"  {row.name:38}{line(row)}{_ratio(row)}"


def _cpu_columns(row: Row) -> str:
    return f"{1e6 / row.cpu_micros:13,.0f}{row.cpu_micros:12.2f}{1e6 / row.wall_micros:13,.0f}"


def _wall_columns(row: Row) -> str:
    return f"{_plain(1e6 / row.wall_micros):>13}{_plain(row.wall_micros / 1e3):>12}{row.cpu_micros:13,.2f}"


_COLUMNS: Final = {
    "cpu": (f"{'per CPU-s':>13}{'µs CPU':>12}{'per s':>13}", _cpu_columns),
    "wall": (f"{'per s':>13}{'median ms':>12}{'µs CPU':>13}", _wall_columns),
}


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return f"{'–':>8}"
    return f"{row.ratio:8.2f}  {row.ratio_low:.2f} to {row.ratio_high:.2f}"


def made_with() -> dict[str, str]:
    """Command, commit, machine and versions of this run."""
    versions = {name: metadata.version(name) for name in _VERSIONED}
    versions = {"Python": platform.python_version(), "Kafka": KAFKA_VERSION, **versions}
    command = [Path(sys.executable).name, "-m", _module(), *sys.argv[1:]]
    return {
        "command": " ".join(command),
        "commit": _commit(),
        "machine": f"{os.cpu_count()} CPUs, {_cpu_model()}, {platform.system()} {platform.release()}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def _module() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec is not None else Path(sys.argv[0]).name


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "not a git checkout"


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
