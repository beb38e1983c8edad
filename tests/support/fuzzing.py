"""Fuzzing of what reads bytes that others wrote, guided by coverage (Atheris, libFuzzer).

`python -m tests.support.fuzzing envelope --seconds 60` fuzzes one of `TARGETS`, or several one after another, beginning
with the golden vectors and whole batches; `--corpus DIRECTORY` keeps what was found interesting, by target. A target
ends at the first input that breaks a promise, and leaves that beside its corpus; then the exit code is not 0. Checksums
are made right, so that what lies behind them is met.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

import atheris

with atheris.instrument_imports(include=["braid.kernel", "braid.kafka"]):
    from braid.kafka.batches.batch import Inflater
    from braid.kafka.fetching.chunk import Chunk
    from braid.kafka.memory.log import MemoryRecord
    from braid.kernel.envelope import PREFIX, MetadataKind, decode, encode
    from braid.kernel.envelope.base46341 import pack, unpack
    from braid.kernel.envelope.spill import read_spilled, record_key
    from braid.kernel.errors import Invalid, Unsupported
    from braid.kernel.limits.envelope import ENVELOPE_UNITS_MAX
    from braid.kernel.limits.registry.resources import OFFSET_MAX
    from braid.kernel.ports import Isolation, TopicPartition
    from braid.kernel.progress.fields import EnvelopeFields, SpillPointer
    from testbed.batches import CODECS, batch, packed, raw_batch
    from tests.support.plain_offset_log import differing_commits

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "envelope"
OFFSET_LOG: Final = GOLDEN.parent / "offset_log"
KEY: Final = bytes.fromhex("0001 0001 67 0001 74 00000003")
VALUE: Final = bytes.fromhex("0003 000000000000002a 00000007 0000 0000018bcfe5687b")
GROUP, PLACE = "indexer", TopicPartition("logs.live.0", 3)
OFFSET: Final = 1_000
TAKES_MAX: Final = 1_000
MEMORY_MB: Final = 700
ENDED: Final = "ended"  # begins the line that says with which code a target ended


def metadata(data: bytes) -> None:
    """Any text beside a commit: it is read or refused, never raised at."""
    decode(OFFSET, data.decode("utf-16", errors="replace"))


def envelope(data: bytes) -> None:
    """A body with a right checksum: what is read can be written, and is read again as it was."""
    payload = zlib.crc32(data, zlib.crc32(OFFSET.to_bytes(8, "big"))).to_bytes(4, "big") + data
    read = decode(OFFSET, PREFIX + pack(payload))
    assert read.kind in (MetadataKind.ENVELOPE, MetadataKind.UNSUPPORTED, MetadataKind.DAMAGED), read.kind
    if read.kind is MetadataKind.ENVELOPE:
        again = decode(OFFSET, encode(read.fields, ENVELOPE_UNITS_MAX).metadata)
        assert again.fields.claims.subtract(read.fields.claims).count == 0, "a claim came from nowhere"


def spill(data: bytes) -> None:
    """A record beside a commit, with a right checksum."""
    key = record_key(GROUP, PLACE, 7, 0)
    value = zlib.crc32(data, zlib.crc32(key)).to_bytes(4, "big") + data
    pointer = SpillPointer(0, 0, 0, len(value), int.from_bytes(value[:4], "big"))
    with contextlib.suppress(Invalid, Unsupported):
        read_spilled(GROUP, PLACE, EnvelopeFields(base=OFFSET, epoch=7, spill=pointer), key, value, OFFSET_MAX)


def records(data: bytes) -> None:
    """A batch with a right checksum, in any codec, packed or as it is: records and columns agree, the rest is told."""
    codec, how, payload = (data[0] if data else 0) % len(CODECS), data[1:2], data[2:]
    if how >= b"\x80":
        payload = packed(codec, payload)
    whole = raw_batch(0, 50, payload, codec, count=how[0] % 64 if how else 0) + batch(50, 3)
    one, many = _chunk(whole), _chunk(whole)
    rows = [record.offset for taken in _turns(one) for record in taken.take(100, Inflater()).records]
    parts = [part for taken in _turns(many) for part in taken.take_columns(100, Inflater(), ["n"]).parts]
    assert rows == [offset for part in parts for offset in part.offsets.tolist()], "records and columns differ"
    assert rows[-3:] == [50, 51, 52], "what follows was not reached"


def commits(data: bytes) -> None:
    """Keys and values of an offset log: columns say what a plain reader says, and raise at nothing."""
    found, at = list[MemoryRecord](), 0
    while at + 2 <= len(data):
        key, value = data[at + 2 : at + 2 + data[at]], data[at + 2 + data[at] :][: data[at + 1]]
        found.append(MemoryRecord(len(found), 0, 0, key, value if data[at + 1] else None, ()))
        at += 2 + len(key) + len(value)
    differing = differing_commits(found)
    assert not differing, differing


def _chunk(data: bytes) -> Chunk:
    return Chunk(PLACE, 0, data, (), Isolation.READ_COMMITTED, end=53, suspect=0)


def _turns(chunk: Chunk) -> Iterator[Chunk]:
    for _ in range(TAKES_MAX):
        if chunk.used_up:
            return
        if chunk.large:
            chunk.open_large()
        yield chunk
    raise AssertionError("it is never used up")


@atheris.instrument_func  # type: ignore[untyped-decorator]
def planted(data: bytes) -> None:
    """A reader with a defect deep inside that fuzzing must find."""
    if data[:1] == b"b" and data[1:2] == b"2" and data[2:3] == b":":
        raise AssertionError("found")


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    each.__name__: each for each in (metadata, envelope, spill, records, commits, planted)
}


def beginnings(target: str) -> Iterator[bytes]:
    """The first inputs of a target."""
    for path in sorted(GOLDEN.glob("*.json")):
        text = json.loads(path.read_text())
        for found in text if isinstance(text, list) else [text]:
            written = found.get("metadata", "")
            yield written.encode("utf-16")
            if written.startswith(PREFIX) and not written.isascii():
                with contextlib.suppress(Invalid):  # some vectors are no packing of anything
                    yield unpack(written[len(PREFIX) :])[4:]
    for path in sorted(OFFSET_LOG.glob("*.json")):
        for vector in json.loads(path.read_text()):
            whole = bytes.fromhex(vector["hex"])[:250]
            key, value = (whole, VALUE) if path.stem.endswith("keys") else (KEY, whole)
            yield bytes([len(key), len(value)]) + key + value
    for codec in CODECS:
        yield bytes([codec, 3]) + batch(0, 3, codec)[61:]


def main() -> int:
    """Fuzzes targets, each in a fork: libFuzzer ends its process, and loading what is fuzzed takes seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", choices=sorted(TARGETS), nargs="+", metavar="target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    asked = parser.parse_args()
    corpus = asked.corpus or Path(tempfile.mkdtemp(prefix="braid-fuzz-"))
    code = 0
    for target in asked.targets:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _fuzz(target, corpus / target, asked.seconds)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"{ENDED} {target}: {ended}")
        code = code or ended
    return code


def _fuzz(target: str, corpus: Path, seconds: int) -> NoReturn:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(beginnings(target)):
        (corpus / f"beginning-{number}").write_bytes(data)
    found = corpus.with_name(f"{corpus.name}-broken-")
    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=10", "-max_len=4096"]
    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={found}", *options], TARGETS[target])
    atheris.Fuzz()
    sys.exit("libFuzzer ends its process")


if __name__ == "__main__":
    sys.exit(main())
