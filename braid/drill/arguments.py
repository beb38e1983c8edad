"""How a drill's processes are told what they are: their command lines, written and read in one place."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessSpec:
    """One process of a drill.

    Attributes:
        name: As the mesh knows it.
        endpoint: Of the mesh.
        stream: Of the drill, and the name of its group.
        file: The ledger of the producer, the sink of a member.
        lanes: That the producer sends to.
        rate_per_s: Records it sends a second.
    """

    name: str
    endpoint: str
    stream: str
    file: Path
    lanes: Sequence[str] = ()
    rate_per_s: int = 0

    def arguments(self) -> list[str]:
        """As `read_arguments` reads them."""
        told = ["--name", self.name, "--endpoint", self.endpoint, "--stream", self.stream, "--file", str(self.file)]
        return [*told, "--rate", str(self.rate_per_s), *self.lanes]


def read_arguments(program: str, arguments: Sequence[str]) -> ProcessSpec:
    """Reads a command line."""
    parser = argparse.ArgumentParser(prog=program)
    for name in ("name", "endpoint", "stream"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("lanes", nargs="*")
    told = parser.parse_args(arguments)
    return ProcessSpec(told.name, told.endpoint, told.stream, told.file, told.lanes, told.rate)
