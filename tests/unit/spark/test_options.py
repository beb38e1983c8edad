"""Options: what is taken, and for everything else an error that names the option and what to do."""

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from braid.client.records.where import Where
from braid.host.tls.paths import Tls
from braid.host.tokens import Token
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.ids import LeaseId
from braid.spark.options import batch_options, stream_options, write_options

MESH = {"endpoint": "127.0.0.1:7401", "stream": "logs"}
GROUP = {**MESH, "group": "events"}


def test_keys_arrive_lower_cased_and_values_as_text() -> None:
    options = stream_options(
        {
            **GROUP,
            "maxoffsetspertrigger": "500",
            "includeheaders": "true",
            "failondataloss": "FALSE",
            "minpartitions": "6",
            "lanes": "live, bulk",
            "zone": "a",
        }
    )
    assert (options.group, options.max_offsets_per_trigger, options.min_partitions) == ("events", 500, 6)
    assert (options.include_headers, options.fail_on_data_loss) == (True, False)
    assert (options.lanes, options.mesh.zone) == (("live", "bulk"), "a")


def test_files_of_mutual_tls_travel_as_paths() -> None:
    files = {"tls.certificate": "/a.crt", "tls.key": "/a.key", "tls.ca": "/ca.crt"}
    wanted = Tls(Path("/a.crt"), Path("/a.key"), Path("/ca.crt"))
    assert batch_options({**MESH, **files}).mesh.tls == wanted
    assert pickle.loads(pickle.dumps(write_options({**MESH, **files}))).mesh.tls == wanted
    assert stream_options(GROUP).mesh.tls is None
    with pytest.raises(Invalid, match="is not set") as error:
        batch_options({**MESH, "tls.ca": "/ca.crt"})
    assert error.value.field == "tls.certificate"


def test_a_read_begins_at_the_start_unless_told_otherwise() -> None:
    assert (batch_options(MESH).start, batch_options(MESH).end) == ("earliest", "latest")
    assert stream_options(GROUP).start == "earliest"
    assert stream_options({**GROUP, "startingOffsets": "latest"}).start == "latest"


@pytest.mark.parametrize("text", ["1767225600000", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"])
def test_a_time_is_milliseconds_or_iso_8601(text: str) -> None:
    assert batch_options({**MESH, "startingTimestamp": text}).start == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_predicate_is_json() -> None:
    text = '{"headers": {"kind": "Größe"}, "keyPrefix": "eu-", "since": "1767225600000", "sampled": 0.5}'
    expected = Where(
        headers={"kind": "Größe".encode()}, key_prefix=b"eu-", since=datetime(2026, 1, 1, tzinfo=UTC), sampled=0.5
    )
    assert batch_options({**MESH, "where": text}).where == expected
    assert stream_options({**MESH, "group": "g", "where": text}).where == expected
    assert batch_options(MESH).where is None


def test_offsets_are_given_by_lease() -> None:
    options = batch_options({**MESH, "startingOffsets": '{"logs/live/1/0": 23, "logs/live/1/1": -2}'})
    assert options.start == {LeaseId.parse("logs/live/1/0"): 23, LeaseId.parse("logs/live/1/1"): -2}


@pytest.mark.parametrize(
    ("wrong", "field", "says"),
    [
        ({"endpoint": ""}, "endpoint", "any replica"),
        ({"endpoint": "nowhere"}, "endpoint", "for example"),
        ({"stream": ""}, "stream", "stream's name"),
        ({"stream": "No Such"}, "stream", "lower-case"),
        ({"lanes": "Live"}, "lanes", "lower-case"),
        ({"includeHeaders": "yes"}, "includeHeaders", "true or false"),
        ({"minPartitions": "0"}, "minPartitions", "1 or more"),
        ({"minPartitions": "many"}, "minPartitions", "1 or more"),
        ({"clusterWaitSeconds": "-1"}, "clusterWaitSeconds", "above 0"),
        ({"clusterWaitSeconds": "nan"}, "clusterWaitSeconds", "above 0"),
        ({"startingOffsets": "latest"}, "startingOffsets", "earliest"),
        ({"startingOffsets": "{"}, "startingOffsets", "for example"),
        ({"startingOffsets": '{"logs": 3}'}, "startingOffsets", "for example"),
        ({"startingOffsets": '{"logs/live/1/0": "x"}'}, "startingOffsets", "for example"),
        ({"startingTimestamp": "noon"}, "startingTimestamp", "milliseconds"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "startingTimestamp", "Z"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "startingOffsets", "one of the two"),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, "endingOffsets", "one of the two"),
        ({"startingoffset": "earliest"}, "startingoffset", "did you mean startingOffsets"),
        ({"subscribe": "logs"}, "subscribe", "stream"),
        ({"kafka.bootstrap.servers": "x:1"}, "kafka.bootstrap.servers", "leave it out"),
        ({"maxOffsetsPerTrigger": "5"}, "maxoffsetspertrigger", "leave it out"),
        ({"where": "kind = order"}, "where", "for example"),
        ({"where": "[]"}, "where", "for example"),
        ({"where": '{"header": {}}'}, "where", "for example"),
        ({"where": '{"headers": {"kind": 3}}'}, "where.headers", "for example"),
        ({"where": '{"keyPrefix": 3}'}, "where.keyPrefix", "for example"),
        ({"where": '{"since": "noon"}'}, "where.since", "milliseconds"),
        ({"where": '{"sampled": 2}'}, "where.sampled", "one record of ten"),
    ],
)
def test_a_bad_option_of_a_batch_read_is_named_with_its_remedy(wrong: dict[str, str], field: str, says: str) -> None:
    with pytest.raises(Invalid) as raised:
        batch_options({**MESH, **wrong})
    assert raised.value.field == field
    assert says in raised.value.remedy


@pytest.mark.parametrize(
    ("wrong", "field", "says"),
    [
        ({"group": ""}, "group", "the group"),
        ({"group": "Not A Name"}, "group", "lower-case"),
        ({"ownership": "exclusive"}, "ownership", "at_least_once"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled", "leave it out"),
        ({"startingOffsets": '{"logs/live/1/0": 1}'}, "startingOffsets", "braid reset group"),
        ({"leaseSeconds": "0.1"}, "leaseSeconds", "0.3 to 60"),
        ({"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger", "1 or more"),
        ({"endingOffsets": "latest"}, "endingoffsets", "leave it out"),
    ],
)
def test_a_streaming_reads_bad_option_is_named_with_its_remedy(wrong: dict[str, str], field: str, says: str) -> None:
    with pytest.raises(BraidError) as raised:
        stream_options({**GROUP, **wrong})
    assert raised.value.field == field
    assert says in raised.value.remedy


def test_a_bad_option_of_a_write_is_named_with_its_remedy() -> None:
    with pytest.raises(Invalid, match="compression: 'brotli' is unknown"):
        write_options({**MESH, "compression": "brotli"})
    with pytest.raises(Invalid, match="lane"):
        write_options({**MESH, "lane": "A B"})
    assert write_options({**MESH, "checkpointLocation": "/x", "compression": "none"}).compression is None


def test_a_token_is_named_by_its_file_and_never_an_option_itself() -> None:
    given = {"endpoint": "h:1", "stream": "logs", "tokenFile": "/run/token", "tls.ca": "/run/ca.crt"}
    mesh = batch_options(given).mesh
    assert (mesh.tls, mesh.token) == (None, Token(Path("/run/token"), ca=Path("/run/ca.crt")))
    assert batch_options({"endpoint": "h:1", "stream": "logs"}).mesh.token is None
