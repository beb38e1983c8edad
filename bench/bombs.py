"""Small batches that inflate to gigabytes, between honest ones: what reading them costs: `python -m bench.bombs`.

One topic a codec, written once: honest, bomb, honest, bomb, honest. Each contestant reads it in a process of its own:
how long its event loop was held up at worst, in processor time, and how far its resident memory grew. Nothing but the
bombs may be missing. aiokafka inflates them, and hands them on as records.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.harness.arguments import Asked
from bench.harness.broker import cores, play_on_a_broker
from bench.harness.rounds import ROUNDS_MIN, Sample, rows
from bench.harness.tables import Table, made_with
from braid.kernel.limits.kafka import INFLATED_RECORD_BYTES_MAX
from testbed.batches import NAMES, bomb, packed, raw_batch, record_bytes, write_raw
from testbed.members.bomb_reader import Cost

ROOT: Final = Path(__file__).resolve().parents[1]
SIZES: Final = {4: (2 << 30) - 200, 1: 512 << 20, 3: 512 << 20, 2: 160 << 20}  # by codec, inflated
AIM_MS: Final = 20.0
SLACK_BYTES: Final = 5 << 20
HANGS_SECONDS: Final = 300.0
END: Final = 5
NEIGHBOURS: Final = [0, 2, 4]


class Bomb(NamedTuple):
    """The contents of one topic."""

    codec: int
    topic: str
    packed_bytes: int
    inflated_bytes: int


async def plant(bootstrap: str, codec: int, size: int) -> Bomb:
    """Writes the topic, and one of honest batches that is read before it."""

    def honest(codec: int, value: bytes = b"honest") -> bytes:
        return raw_batch(0, 1, packed(codec, record_bytes(0, value)), codec, time_ms=now_ms)

    now_ms, payload, topic = time.time_ns() // 1_000_000, bomb(codec, size), f"bomb.{NAMES[codec]}"
    fuse = raw_batch(0, 1, payload, codec, time_ms=now_ms)
    topics = {f"warm.{topic}": [honest(codec), honest(codec, bytes(3 << 20))]}
    for name, batches in {**topics, topic: [honest(0), fuse, honest(codec), fuse, honest(0)]}.items():
        codes = await write_raw(bootstrap, name, batches)
        assert not any(codes), f"the broker refused a batch of {name}: {codes}"
    return Bomb(codec, topic, len(payload), size)


def cost_of(reader: str, bootstrap: str, planted: Bomb) -> Cost | None:
    """The cost of reading a topic in its own process; None if that was killed before it was done."""
    command = [sys.executable, "-m", reader, bootstrap, f"warm.{planted.topic}", planted.topic, str(END)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=ROOT, check=False)
    return Cost(*json.loads(done.stdout)) if done.stdout else None


def told(planted: Bomb, own: Sequence[Cost], peer: Cost | None) -> str:
    """A line of a codec."""
    stall, grown = max(each.stall_seconds for each in own), max(each.grown_bytes for each in own)
    beside = "aiokafka did not survive it"
    if peer is not None:
        beside = f"aiokafka {1e3 * peer.stall_seconds:,.0f} ms, {peer.grown_bytes / 2**20:,.0f} MiB"
    return (
        f"{planted.packed_bytes:,} B of {planted.inflated_bytes / 2**20:,.0f} MiB: loop held up {1e3 * stall:.1f} ms "
        f"at worst of {len(own)}, memory +{grown / 2**20:.1f} MiB; {beside}"
    )


def why_void(planted: Sequence[Bomb], found: dict[str, list[Cost]], rounds: int) -> str:
    """Empty when the table may be quoted."""
    if rounds < ROUNDS_MIN:
        return f"not to be quoted: {rounds} rounds, fewer than {ROUNDS_MIN}"
    for each in planted:
        if any(cost.offsets != NEIGHBOURS or len(cost.damaged) != END - len(NEIGHBOURS) for cost in found[each.topic]):
            return f"void: of {each.topic} not all neighbours were delivered, or not all bombs told"
    return ""


async def contest(bootstrap: str, how: Asked) -> Table:
    """Plants all bombs, reads them in rounds, and once each with the peer; `how.units` divides their sizes."""
    planted = [await plant(bootstrap, codec, size // how.units) for codec, size in SIZES.items()]
    own: dict[str, list[Cost]] = {each.topic: [] for each in planted}
    peers: dict[str, Cost | None] = {}
    for number in range(how.rounds):
        for each in planted if number % 2 else planted[::-1]:
            cost = cost_of("testbed.members.bomb_reader", bootstrap, each)
            assert cost is not None, "reading a bomb ended its process"
            own[each.topic].append(cost)
    for each in planted:
        peers[each.topic] = cost_of("bench.peers.bomb_reader", bootstrap, each)
    samples: dict[str, list[Sample]] = {}
    for each in planted:
        name = NAMES[each.codec]
        samples[f"{name}, braid"] = [Sample(1, 0.0, max(cost.stall_seconds, 1e-6)) for cost in own[each.topic]]
        peer = peers[each.topic]
        if peer is not None:
            samples[f"{name}, aiokafka"] = [Sample(1, 0.0, peer.stall_seconds)] * how.rounds
    facts = {
        "work": f"three honest records around two bombs; {cores()}",
        "peer": "AIOKafkaConsumer of the same topic, once, with 8 GiB of memory at most",
        "aim": f"loop held up {AIM_MS:g} ms at most, memory +{(INFLATED_RECORD_BYTES_MAX + SLACK_BYTES) / 2**20:.0f} "
        "MiB (the most a batch may inflate to, and 5)",
        **{NAMES[each.codec]: told(each, own[each.topic], peers[each.topic]) for each in planted},
    }
    first = next(iter(samples))
    return Table(
        "bombs", "read", "wall", why_void(planted, own, how.rounds), facts, rows(samples, first, "wall"), made_with()
    )


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when it is void."""
    return play_on_a_broker(__doc__, contest, units=1, quick_units=2)


if __name__ == "__main__":
    sys.exit(main())
