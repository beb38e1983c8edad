"""Rows of members: what they use of what they may, and whether they count as slow."""

from braid.api.assigner.v1 import group_pb2
from braid.cli.resources.listing import member_item


def row(**fields: object) -> str:
    return "|".join(member_item(group_pb2.Member(id="m", group="indexer", client_id="web-1", **fields)).cells)  # type: ignore[arg-type]


def test_a_member_shows_its_cpu_and_waiting() -> None:
    usage = group_pb2.MemberUsage(cores=1, handlers=64, cpu_per_s=0.251, wait_per_s=12.4)
    assert "|0.25 of 1|12 of 64|" in row(usage=usage)
    assert "|0|||" in row(), "nothing where it tells nothing"


def test_a_member_shows_how_long_others_delay_it() -> None:
    usage = group_pb2.MemberUsage(cores=1, handlers=64, cpu_per_s=0.3, delay_per_s=0.6, wait_per_s=0.0)
    assert "|0.3 of 1, 0.6 delayed|" in row(usage=usage)
    usage.delay_per_s = 0.009
    assert "|0.3 of 1|" in row(usage=usage), "some delay there is always"


def test_a_slow_member_shows_what_part_of_it_counts() -> None:
    slow = group_pb2.SlowMember(part=0.12, reason="a record takes 1 s", since_ms=1)
    told = row(slow=slow, capacity=2.0, state=group_pb2.MEMBER_STATE_LIVE)
    assert "|SLOW|" in told and "|2, 12% counts|" in told
    assert "SLOW" not in row(slow=slow, state=group_pb2.MEMBER_STATE_AWAITED), "it is away in the first place"
