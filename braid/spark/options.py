"""Options of a read or write, checked when the read or write is made. Pure: text in, values or a precise error out.

Spark hands options over as strings under lower-cased keys; names here are spelled as users write them.
"""

import difflib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from braid.client.records.where import Where
from braid.host.tls.paths import Tls, tls_of_files
from braid.host.tokens import Token
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.ids import LeaseId, check_name
from braid.kernel.limits.assigner.leases import LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN
from braid.kernel.limits.client import DELIVERY_TIMEOUT_SECONDS
from braid.spark.limits import SPARK_CLUSTER_WAIT_SECONDS

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
UNNAMED: Final = "braid-spark"  # the client id of who gives none
Position = str | datetime | Mapping[LeaseId, int]

_TLS: Final = ("tls.certificate", "tls.key", "tls.ca")
_TOKEN: Final = "tokenFile"
_MESH: Final = ("endpoint", "stream", "clientId", "zone", *_TLS, _TOKEN)
_READ: Final = (
    *("lanes", "where", "failOnDataLoss", "includeHeaders", "minPartitions", "clusterWaitSeconds"),
    *("startingOffsets", "startingTimestamp"),
)
_BATCH: Final = (*_MESH, *_READ, "endingOffsets", "endingTimestamp", "group")
_STREAM: Final = (*_MESH, *_READ, "group", "maxOffsetsPerTrigger", "leaseSeconds", "ownership", "pathways")
_WRITE: Final = (*_MESH, "lane", "compression", "deliveryTimeoutSeconds")
_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "mergeschema"})
_ASYNCHRONOUS: Final = "asyncProgressTrackingEnabled"
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_WHERE_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "headers": dict, "keyPrefix": str, "lanes": list, "since": str, "until": str, "sampled": (int, float)
}  # fmt: skip
_WHERE_REMEDY: Final = 'for example {"headers": {"kind": "order"}, "keyPrefix": "eu-", "since": "2026-01-31T14:00:00Z"}'
_log = logging.getLogger("braid.spark")


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """Options that name the mesh, the stream and the client.

    Attributes:
        endpoint: `host:port`, or several separated by commas.
        stream: The stream read or written.
        client_id: Who connects, as people will see it.
        zone: Where Spark runs; nearer clusters are preferred.
        tls: Paths of the files of mutual TLS on every machine that Spark runs on; None for those of the environment.
        token: A file of a token that is shown in their place, on every machine; None for that of the environment.
    """

    endpoint: str
    stream: str
    client_id: str = UNNAMED
    zone: str = ""
    tls: Tls | None = None
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of one batch or streaming read.

    Attributes:
        mesh: The mesh and stream.
        group: Whose progress a streaming read is; empty for a batch read.
        lanes: Only these; every lane but `dlq` when empty.
        where: Which records become rows, decided before they do; all when None.
        start: `earliest`, `latest`, a time, or (batch) an offset by lease; a streaming read uses it only where the
            group has no progress.
        end: `latest`, a time, or an offset by lease (batch).
        min_partitions: Ranges are split until there are so many tasks; 0 for one task a partition.
        max_offsets_per_trigger: Rows of one micro-batch at most; 0 for no limit.
        fail_on_data_loss: Whether records that are gone end the read; else a warning names them.
        include_headers: Whether the column `headers` is filled.
        cluster_wait_seconds: How long a task waits for a cluster that is away.
        lease_seconds: A planner that is not heard of for so long loses its leases.
        pathways: The name under which a streaming read follows pathways of records; empty where it does not.
    """

    mesh: MeshOptions
    group: str = ""
    lanes: tuple[str, ...] = ()
    where: Where | None = None
    start: Position = EARLIEST
    end: Position = LATEST
    min_partitions: int = 0
    max_offsets_per_trigger: int = 0
    fail_on_data_loss: bool = True
    include_headers: bool = False
    cluster_wait_seconds: float = SPARK_CLUSTER_WAIT_SECONDS
    lease_seconds: float = LEASE_MS_DEFAULT / 1000
    pathways: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of one write to a stream.

    Attributes:
        mesh: The mesh and stream.
        lane: For rows that name none; empty for the stream's default.
        compression: None, `gzip`, `snappy`, `lz4` or `zstd`.
        delivery_timeout_seconds: A row not acknowledged by then fails its task.
    """

    mesh: MeshOptions
    lane: str = ""
    compression: str | None = None
    delivery_timeout_seconds: float = DELIVERY_TIMEOUT_SECONDS


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """Reads the options of `spark.read`. Raises `Invalid` or `Unsupported` naming the option and the remedy."""
    given = _Given(options, _BATCH)
    return ReadOptions(
        mesh=_mesh(given),
        lanes=given.names("lanes"),
        where=_where(given),
        start=given.position("startingOffsets", "startingTimestamp", EARLIEST, (EARLIEST,)),
        end=given.position("endingOffsets", "endingTimestamp", LATEST, (LATEST,)),
        min_partitions=given.whole("minPartitions"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        cluster_wait_seconds=given.positive("clusterWaitSeconds", SPARK_CLUSTER_WAIT_SECONDS),
    )


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Reads the options of `spark.readStream`. Raises `Invalid` or `Unsupported` naming the option and the remedy."""
    given = _Given(options, _STREAM)
    if given.flag(_ASYNCHRONOUS, False):
        raise Unsupported(
            "a batch would count as done before its checkpoint says so", field=_ASYNCHRONOUS, remedy="leave it out"
        )
    if given.text("ownership", "at_least_once") != "at_least_once":
        raise Invalid(
            "a Spark query cannot be an exclusive member: Spark may run a batch twice at once",
            field="ownership",
            remedy="leave it out, or use at_least_once",
        )
    start = given.position("startingOffsets", "startingTimestamp", EARLIEST, (EARLIEST, LATEST))
    if isinstance(start, Mapping):
        raise Invalid(
            "offsets by lease are for batch reads: a group's progress says where a streaming read begins",
            field="startingOffsets",
            remedy='use "earliest", "latest" or startingTimestamp, and `braid reset group` for a group with progress',
        )
    lease_seconds = given.number("leaseSeconds", LEASE_MS_DEFAULT / 1000)
    if not LEASE_MS_MIN <= lease_seconds * 1000 <= LEASE_MS_MAX:
        within = f"{LEASE_MS_MIN / 1000:g} to {LEASE_MS_MAX / 1000:g}"
        raise Invalid(f"{lease_seconds:g} is out of range", field="leaseSeconds", remedy=f"use {within}")
    return ReadOptions(
        mesh=_mesh(given),
        group=given.name("group", "the group whose member the query becomes"),
        lanes=given.names("lanes"),
        where=_where(given),
        start=start,
        max_offsets_per_trigger=given.whole("maxOffsetsPerTrigger"),
        lease_seconds=lease_seconds,
        pathways=given.name("pathways", "the application's name") if given.text("pathways", "") else "",
        min_partitions=given.whole("minPartitions"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        cluster_wait_seconds=given.positive("clusterWaitSeconds", SPARK_CLUSTER_WAIT_SECONDS),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Reads the options of a write. Raises `Invalid` naming the option and the remedy."""
    given = _Given(options, _WRITE)
    compression = given.text("compression", "none").lower()
    if compression not in _COMPRESSIONS:
        raise Invalid(f"{compression!r} is unknown", field="compression", remedy=f"use {', '.join(_COMPRESSIONS)}")
    lane = given.text("lane", "")
    return WriteOptions(
        mesh=_mesh(given),
        lane=check_name(lane, "lane") if lane else "",
        compression=None if compression == "none" else compression,
        delivery_timeout_seconds=given.positive("deliveryTimeoutSeconds", DELIVERY_TIMEOUT_SECONDS),
    )


def _mesh(given: "_Given") -> MeshOptions:
    endpoint = given.required("endpoint", "any replica of any service of the mesh, for example 127.0.0.1:7401")
    for part in endpoint.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise Invalid(f"{part.strip()!r} is not host:port", field="endpoint", remedy="for example 127.0.0.1:7401")
    token = _token(given)
    return MeshOptions(
        endpoint=endpoint,
        stream=given.name("stream", "the stream's name"),
        client_id=given.text("clientId", given.text("kafka.client.id", UNNAMED)),
        zone=given.text("zone", given.text("kafka.client.rack", "")),
        tls=None if token else tls_of_files(*(given.text(name, "") for name in _TLS), names=_TLS),
        token=token,
    )


def _token(given: "_Given") -> Token | None:
    """The file of a token, and whom its connection trusts: `tls.ca`. A token itself is no option: plans show those."""
    file, ca = given.text(_TOKEN, ""), given.text(_TLS[2], "")
    return Token(Path(file), ca=Path(ca) if ca else None) if file else None


@dataclass(frozen=True, slots=True)
class _Given:
    """The given options, and a reader for each kind of them."""

    options: Mapping[str, str]
    known: tuple[str, ...]
    lowered: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lowered", {name.lower(): value for name, value in self.options.items()})
        for name in self.lowered:
            self._check_known(name)

    def _check_known(self, name: str) -> None:
        """Refuses options of Kafka's source that Braid decides itself, and names that look like typing errors."""
        spelled = {each.lower(): each for each in (*self.known, _ASYNCHRONOUS)}
        if name in spelled or name in _SPARKS_OWN or name in ("kafka.client.id", "kafka.client.rack"):
            return
        if name.startswith("kafka."):
            raise Invalid(
                "Braid finds brokers and credentials by the cluster",
                field=name,
                remedy="leave it out (security profiles hold credentials; kafka.client.id and kafka.client.rack count)",
            )
        if name in ("subscribe", "subscribepattern", "assign", "topic"):
            raise Invalid("a stream is read, not a topic", field=name, remedy="use the option stream")
        close = difflib.get_close_matches(name, spelled, 1, 0.85)
        if close:
            raise Invalid("is not an option", field=name, remedy=f"did you mean {spelled[close[0]]}?")
        elsewhere = {each.lower() for each in (*_BATCH, *_STREAM, *_WRITE)}
        if name in elsewhere:
            raise Invalid("means nothing for this kind of read or write", field=name, remedy="leave it out")
        _log.warning("option %s is not known to the braid source and has no effect", name)

    def text(self, name: str, default: str) -> str:
        return self.lowered.get(name.lower(), default).strip()

    def required(self, name: str, meaning: str) -> str:
        found = self.text(name, "")
        if not found:
            raise Invalid("is missing", field=name, remedy=f"give {meaning}")
        return found

    def name(self, name: str, meaning: str) -> str:
        return check_name(self.required(name, meaning), name)

    def names(self, name: str) -> tuple[str, ...]:
        parts = [part.strip() for part in self.text(name, "").split(",") if part.strip()]
        return tuple(dict.fromkeys(check_name(part, name) for part in parts))

    def flag(self, name: str, default: bool) -> bool:
        found = self.text(name, str(default)).lower()
        if found not in ("true", "false"):
            raise Invalid(f"{found!r} is neither true nor false", field=name, remedy="use true or false")
        return found == "true"

    def whole(self, name: str) -> int:
        """Reads a positive whole number; 0 when it is not given."""
        found = self.text(name, "")
        if not found:
            return 0
        if not found.isdecimal() or len(found) > 18 or int(found) < 1:
            raise Invalid(f"{found!r} is not a positive whole number", field=name, remedy="use 1 or more")
        return int(found)

    def number(self, name: str, default: float) -> float:
        found = self.text(name, "")
        try:
            return float(found) if found else default
        except ValueError:
            raise Invalid(f"{found!r} is not a number", field=name, remedy="give seconds") from None

    def positive(self, name: str, default: float) -> float:
        found = self.number(name, default)
        if not 0 < found < float("inf"):
            raise Invalid(f"{found:g} is not positive", field=name, remedy="give seconds above 0")
        return found

    def position(self, offsets: str, timestamp: str, default: str, words: tuple[str, ...]) -> Position:
        by_offset, by_time = self.text(offsets, ""), self.text(timestamp, "")
        if by_offset and by_time:
            raise Invalid(f"contradicts {timestamp}", field=offsets, remedy="give one of the two")
        if by_time:
            return _time(by_time, timestamp)
        if not by_offset or by_offset.lower() in words:
            return by_offset.lower() or default
        if by_offset.startswith("{"):
            return _offsets(by_offset, offsets)
        either = " or ".join([*words, '{"<stream>/<lane>/<generation>/<partition>": offset}'])
        raise Invalid(f"{by_offset!r} is no position", field=offsets, remedy=f"use {either}")


def _where(given: _Given) -> Where | None:
    """Reads a filter from JSON, with the parts of `Where` in Spark's spelling; texts are UTF-8."""
    text = given.text("where", "")
    if not text:
        return None
    try:
        parsed = json.loads(text)
    except ValueError:
        raise Invalid(f"{text!r} is not JSON", field="where", remedy=_WHERE_REMEDY) from None
    if not isinstance(parsed, dict) or (unknown := sorted(parsed.keys() - _WHERE_KINDS.keys())):
        what = f"{unknown[0]!r} is no part of it" if isinstance(parsed, dict) else f"{text!r} is no object"
        raise Invalid(what, field="where", remedy=_WHERE_REMEDY)
    for name, value in parsed.items():
        if not isinstance(value, _WHERE_KINDS[name]) or isinstance(value, bool):
            raise Invalid(f"{value!r} is not what it takes", field=f"where.{name}", remedy=_WHERE_REMEDY)
    headers = parsed.get("headers", {})
    for name, value in headers.items():
        if not isinstance(value, str):
            raise Invalid(f"{value!r} of {name} is no text", field="where.headers", remedy=_WHERE_REMEDY)
    return Where(
        headers={name: value.encode() for name, value in headers.items()},
        key_prefix=parsed.get("keyPrefix", "").encode(),
        lanes=parsed.get("lanes", ()),
        since=_time(parsed["since"], "where.since") if "since" in parsed else None,
        until=_time(parsed["until"], "where.until") if "until" in parsed else None,
        sampled=parsed.get("sampled", 1.0),
    )


def _time(text: str, name: str) -> datetime:
    """Reads a time: milliseconds since the epoch, or ISO 8601 with a time zone."""
    if text.isdecimal() and len(text) < 16:
        return datetime.fromtimestamp(int(text) / 1_000, UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        remedy = "use milliseconds since the epoch, or for example 2026-01-31T14:00:00Z"
        raise Invalid(f"{text!r} is no time", field=name, remedy=remedy) from None
    if found.tzinfo is None:
        raise Invalid(f"{text!r} has no time zone", field=name, remedy=f"for example {text}Z")
    return found


def _offsets(text: str, name: str) -> Mapping[LeaseId, int]:
    remedy = 'for example {"logs/live/1/0": 23}; -2 is the log\'s start, -1 its end'
    try:
        parsed = json.loads(text)
    except ValueError:
        raise Invalid(f"{text!r} is not JSON", field=name, remedy=remedy) from None
    found: dict[LeaseId, int] = {}
    for lease, offset in parsed.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
            raise Invalid(f"{offset!r} of {lease} is no offset", field=name, remedy=remedy)
        try:
            found[LeaseId.parse(lease)] = offset
        except Invalid as error:
            raise Invalid(error.message, field=name, remedy=remedy) from error
    return found
