"""Generates Python from protos, and checks that the committed code is current.

`python -m tools.protos generate|check|release`. Below a proto path, `a/b.proto` becomes `a.b_pb2` with a stub
for mypy: the public API of `protos/` and what others publish in `protos-foreign/` in `braid/api`, and what the etcd
store keeps to itself beside it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PROTO_PATHS: Final = (Path("protos"), Path("protos-foreign"), Path("braid/stores/etcd_wire/protos-private"))
RELEASED: Final = Path("protos", "released.binpb")


def generate(root: Path) -> None:
    """Updates the generated files of a checkout, touching only those that change.

    Raises:
        subprocess.CalledProcessError: protoc refused a file; its reason is on stderr.
    """
    with tempfile.TemporaryDirectory() as work:
        _run_protoc(root, Path(work))
        for name in _differing(Path(work), root):
            if (Path(work) / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(work) / name, root / name)
            else:
                (root / name).unlink()


def stale_files(root: Path) -> Sequence[Path]:
    """Generated files of a checkout that differ from what its protos generate now, sorted; empty if all are current."""
    with tempfile.TemporaryDirectory() as work:
        _run_protoc(root, Path(work))
        return _differing(Path(work), root)


def release(root: Path) -> None:
    """Writes the image that later changes must stay compatible with; only for a release.

    Raises:
        subprocess.CalledProcessError: the protos do not compile; buf's reason is on stderr.
    """
    command = ["buf", "build", "--exclude-source-info", "-o", str(RELEASED)]
    subprocess.run(command, check=True, cwd=root, env=_environment())


def _run_protoc(root: Path, target: Path) -> None:
    for proto_path in (root / path for path in PROTO_PATHS if (root / path).exists()):
        protos = sorted(str(path) for path in proto_path.rglob("*.proto"))
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={proto_path}"),
            *(f"--python_out={target}", f"--mypy_out=quiet:{target}", *protos),
        ]
        subprocess.run(command, check=True, env=_environment())


def _differing(fresh: Path, present: Path) -> Sequence[Path]:
    names = sorted({*_generated(fresh), *_generated(present)})
    return [name for name in names if _content(fresh / name) != _content(present / name)]


def _generated(root: Path) -> Iterator[Path]:
    for pattern in ("braid/**/*_pb2.py", "braid/**/*_pb2.pyi"):
        yield from (path.relative_to(root) for path in root.glob(pattern))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _environment() -> dict[str, str]:
    """An environment in which protoc's plugins and buf, installed beside this interpreter, are found."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def main(arguments: Sequence[str]) -> int:
    """Runs one verb; returns 1 if the check finds stale files, 2 for an unknown verb."""
    match arguments:
        case ["generate"]:
            generate(ROOT)
        case ["check"]:
            stale = stale_files(ROOT)
            for name in stale:
                print(f"{name} is not what its proto generates now; run `make protos`", file=sys.stderr)
            return 1 if stale else 0
        case ["release"]:
            release(ROOT)
        case _:
            print("usage: python -m tools.protos generate|check|release", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
