"""The generated messages are current, private, and have etcd's field numbers."""

import importlib.resources
import os
import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pool

from braid.stores.etcd_wire import etcd_pb2 as wire

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path("braid", "stores", "etcd_wire")


def test_the_committed_modules_are_what_the_protos_generate(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    sources = ROOT / PACKAGE / "protos-private"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={sources}", f"--python_out={tmp_path}"]
    files = [str(path.relative_to(sources)) for path in sources.rglob("*.proto")]
    subprocess.run([*command, f"--mypy_out=quiet:{tmp_path}", *files], check=True, env=environment)
    generated = sorted((tmp_path / PACKAGE).iterdir())
    assert len(generated) == 4
    for path in generated:
        assert path.read_bytes() == (ROOT / PACKAGE / path.name).read_bytes(), f"{path.name} is stale"


def test_nothing_is_registered_under_etcds_own_names() -> None:
    assert wire.DESCRIPTOR.package == "braid.stores.etcd_wire"
    pool = descriptor_pool.Default()
    assert pool.FindFileByName("braid/stores/etcd_wire/etcd.proto") is not None


def test_the_package_carries_its_sources() -> None:
    sources = importlib.resources.files("braid.stores.etcd_wire").joinpath("protos-private")
    assert sources.is_dir()


def test_a_transaction_has_etcds_bytes() -> None:
    """Written by hand from etcd's published field numbers, so that a slip in our copy shows without a server."""
    request = wire.TxnRequest(
        compare=[wire.Compare(target=wire.Compare.MOD, key=b"k", mod_revision=7)],
        success=[wire.RequestOp(request_put=wire.PutRequest(key=b"k", value=b"v", lease=9))],
        failure=[wire.RequestOp(request_range=wire.RangeRequest(key=b"k", range_end=b"l", limit=2, revision=5))],
    )
    compare = b"\x10\x02\x1a\x01k\x30\x07"
    put = b"\x12\x08\x0a\x01k\x12\x01v\x18\x09"
    scan = b"\x0a\x0a\x0a\x01k\x12\x01l\x18\x02\x20\x05"
    expected = b"".join(
        tag + bytes([len(part)]) + part for tag, part in [(b"\x0a", compare), (b"\x12", put), (b"\x1a", scan)]
    )
    assert request.SerializeToString() == expected
