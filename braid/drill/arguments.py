"""Command lines of a drill's processes, written and read in one place."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessSpec:
    """The specification of one process of a drill.

    Attributes:
        name: Its name in the mesh.
        endpoint: The mesh's endpoint.
        stream: The drill's stream; its group has the same name.
        file: The ledger of the producer, or the sink of a member.
        lanes: Lanes that the producer sends to.
        rate_per_s: Records per second that it sends.
    """

    name: str
    endpoint: str
    stream: str
    file: Path
    lanes: Sequence[str] = ()
    rate_per_s: int = 0

    def arguments(self) -> list[str]:
        """The command line that `read_arguments` reads."""
        told = ["--name", self.name, "--endpoint", self.endpoint, "--stream", self.stream, "--file", str(self.file)]
        return [*told, "--rate", str(self.rate_per_s), *self.lanes]


def read_arguments(program: str, arguments: Sequence[str]) -> ProcessSpec:
    """Parses a command line that `ProcessSpec.arguments` wrote."""
    parser = argparse.ArgumentParser(prog=program)
    for name in ("name", "endpoint", "stream"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("lanes", nargs="*")
    told = parser.parse_args(arguments)
    return ProcessSpec(told.name, told.endpoint, told.stream, told.file, told.lanes, told.rate)
